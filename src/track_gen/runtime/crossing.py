"""Swept gate crossings: what each step of each agent did at the gates of its course.

A step is a segment. A gate's plane belongs to its far side: a step passes it forward if it starts
before the plane and ends on or behind it. So touching the plane counts once, retreating takes it
back, and a start on the plane is nothing. All tests are in gate axes, relative to the gate's
centre. The frame is four bars around the opening; touching one with the body wins over passing the
opening in the same step, and is found for sideways flight through a post as well (slab test of Kay
and Kajiya: Ray tracing complex scenes, SIGGRAPH 1986; boxes grown by the body's radius, so corners
are conservative by 0.41 radii).
"""

from __future__ import annotations

from typing import Any

import warp as wp

from track_gen.checks import check_float, check_int, check_threads
from track_gen.gate_batch import GateSequence
from track_gen.row_launch import RowLaunch
from track_gen.runtime.events import BACKWARD, FORWARD, FRAME, MISS, NONE, CrossingEvent
from track_gen.runtime.rows import as_mask, as_positions, check_agents
from track_gen.runtime.view import read_position

__all__ = ["GateCrossing", "gate_event"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

WINDOW = 2.0
"""Half size of the window of a miss, in outer rectangles of the gate."""


@wp.func
def _slab(start: float, step: float, half: float, range_in: wp.vec2f) -> wp.vec2f:
    """Part (first, last) of the step inside ``[-half, half]`` of one axis, within ``range_in``."""
    if step == 0.0:
        if wp.abs(start) <= half:
            return range_in
        return wp.vec2f(1.0, 0.0)
    a = (-half - start) / step
    b = (half - start) / step
    return wp.vec2f(
        wp.max(range_in[0], wp.min(a, b)),
        wp.min(range_in[1], wp.max(a, b)),
    )


@wp.func
def _bar(a: wp.vec3f, step: wp.vec3f, y: float, z: float, half: wp.vec3f) -> float:
    """First fraction of the step inside a box at ``(0, y, z)``, above 1 if none is."""
    inside = _slab(a[0], step[0], half[0], wp.vec2f(0.0, 1.0))
    inside = _slab(a[1] - y, step[1], half[1], inside)
    inside = _slab(a[2] - z, step[2], half[2], inside)
    if inside[0] <= inside[1]:
        return inside[0]
    return 2.0


@wp.func
def gate_event(
    previous: wp.vec3f,
    position: wp.vec3f,
    center: wp.vec3f,
    forward: wp.vec3f,
    left: wp.vec3f,
    half_width: float,
    half_height: float,
    clearance: float,
    thickness: float,
    depth: float,
    body_radius: float,
) -> CrossingEvent:
    """Event of one step at one gate; its ``gate`` is left at -1.

    A MISS is reported for any gate; whether it is the target is the caller's business.

    Args:
        previous: Position before the step [length].
        position: Position after the step [length].
        center: Gate centre [length].
        forward: Unit direction of travel through the gate.
        left: Unit direction to the left.
        half_width: Half the opening's width [length].
        half_height: Half the opening's height [length].
        clearance: Free space beside the opening; sets the window of a miss [length].
        thickness: Width of the frame's bars [length]; 0 is no frame.
        depth: Full depth of the bars along the direction of travel [length].
        body_radius: Radius of the body [length].
    """
    event = CrossingEvent()
    event.kind = NONE
    event.gate = -1
    event.alpha = wp.nan
    a = previous - center
    b = position - center
    if not wp.isfinite(a[0] + a[1] + a[2] + b[0] + b[1] + b[2]):
        return event
    up = wp.cross(forward, left)
    a = wp.vec3f(wp.dot(forward, a), wp.dot(left, a), wp.dot(up, a))
    b = wp.vec3f(wp.dot(forward, b), wp.dot(left, b), wp.dot(up, b))
    if thickness > 0.0:
        step = b - a
        x = 0.5 * depth + body_radius
        y = half_width + 0.5 * thickness
        z = half_height + 0.5 * thickness
        bar = 0.5 * thickness + body_radius
        post = wp.vec3f(x, bar, half_height + thickness + body_radius)
        beam = wp.vec3f(x, half_width + thickness + body_radius, bar)
        hit = wp.min(
            wp.min(_bar(a, step, y, 0.0, post), _bar(a, step, -y, 0.0, post)),
            wp.min(_bar(a, step, 0.0, z, beam), _bar(a, step, 0.0, -z, beam)),
        )
        if hit <= 1.0:
            event.kind = FRAME
            event.alpha = hit
            return event
    goes_forward = a[0] < 0.0 and b[0] >= 0.0
    if goes_forward or (a[0] >= 0.0 and b[0] < 0.0):
        alpha = a[0] / (a[0] - b[0])
        y = wp.abs(a[1] + alpha * (b[1] - a[1]))
        z = wp.abs(a[2] + alpha * (b[2] - a[2]))
        kind = NONE
        if y <= half_width and z <= half_height:
            kind = BACKWARD
            if goes_forward:
                kind = FORWARD
        elif goes_forward:
            window = wp.static(WINDOW)
            beside = y <= window * (half_width + clearance)
            if beside and z <= window * (half_height + clearance):
                kind = MISS
        if kind != NONE:
            event.kind = kind
            event.alpha = alpha
    return event


@wp.kernel
def cross_gates_kernel(
    first_env: int,
    # In:
    position_in: wp.array3d[wp.float32],
    mask_in: wp.array[wp.bool],
    gate_position_in: wp.array2d[wp.vec3f],
    gate_tangent_in: wp.array2d[wp.vec3f],
    gate_normal_in: wp.array2d[wp.vec3f],
    half_width_in: wp.array2d[wp.float32],
    half_height_in: wp.array2d[wp.float32],
    count_in: wp.array[wp.int32],
    valid_in: wp.array[wp.bool],
    clearance: float,
    thickness: float,
    depth: float,
    body_radius: float,
    # State:
    last_position: wp.array2d[wp.vec3f],
    # Out:
    target_out: wp.array2d[wp.int32],
    net_out: wp.array2d[wp.int32],
    laps_out: wp.array2d[wp.int32],
    event_count_out: wp.array2d[wp.int32],
    event_out: wp.array3d[wp.int32],
    event_gate_out: wp.array3d[wp.int32],
    event_alpha_out: wp.array3d[wp.float32],
):
    """Advance the agents of the masked envs by one step. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    slots = event_out.shape[2]
    for k in range(slots):
        event_out[env, agent, k] = NONE
        event_gate_out[env, agent, k] = -1
        event_alpha_out[env, agent, k] = wp.nan
    event_count_out[env, agent] = 0
    position = read_position(position_in, env, agent)
    previous = last_position[env, agent]
    last_position[env, agent] = position
    count = count_in[env]
    if not valid_in[env] or count < 1:
        return

    # All events of the step, kept in the order of their time.
    found = int(0)
    for gate in range(count):
        half_width = half_width_in[env, gate]
        room = half_width
        if clearance >= 0.0:
            room = clearance
        at = gate_event(
            previous,
            position,
            gate_position_in[env, gate],
            gate_tangent_in[env, gate],
            gate_normal_in[env, gate],
            half_width,
            half_height_in[env, gate],
            room,
            thickness,
            depth,
            body_radius,
        )
        if at.kind != NONE:
            # Later events make room, the last one is dropped if there is none.
            slot = wp.min(found, slots - 1)
            if found < slots or event_alpha_out[env, agent, slot] > at.alpha:
                moving = slot > 0
                while moving:
                    if event_alpha_out[env, agent, slot - 1] > at.alpha:
                        event_out[env, agent, slot] = event_out[env, agent, slot - 1]
                        event_gate_out[env, agent, slot] = event_gate_out[env, agent, slot - 1]
                        event_alpha_out[env, agent, slot] = event_alpha_out[env, agent, slot - 1]
                        slot -= 1
                        moving = slot > 0
                    else:
                        moving = False
                event_out[env, agent, slot] = at.kind
                event_gate_out[env, agent, slot] = gate
                event_alpha_out[env, agent, slot] = at.alpha
            found += 1
    found = wp.min(found, slots)

    # The target moves on while the events are read in order; misses of other gates are dropped.
    target = target_out[env, agent]
    net = net_out[env, agent]
    kept = int(0)
    for k in range(found):
        kind = event_out[env, agent, k]
        gate = event_gate_out[env, agent, k]
        alpha = event_alpha_out[env, agent, k]
        if kind == MISS and gate != target:
            continue
        event_out[env, agent, kept] = kind
        event_gate_out[env, agent, kept] = gate
        event_alpha_out[env, agent, kept] = alpha
        kept += 1
        if kind == FORWARD:
            target = gate + 1
            if target == count:
                target = 0
            net += 1
        if kind == BACKWARD:
            target = gate
            net -= 1
    for k in range(kept, found):
        event_out[env, agent, k] = NONE
        event_gate_out[env, agent, k] = -1
        event_alpha_out[env, agent, k] = wp.nan
    event_count_out[env, agent] = kept
    target_out[env, agent] = target
    net_out[env, agent] = net
    laps_out[env, agent] = wp.max(net, 0) // count


@wp.kernel
def reset_crossings_kernel(
    first_env: int,
    # In:
    mask_in: wp.array[wp.bool],
    first_target: int,
    # Out:
    last_position_out: wp.array2d[wp.vec3f],
    target_out: wp.array2d[wp.int32],
    net_out: wp.array2d[wp.int32],
    laps_out: wp.array2d[wp.int32],
    event_count_out: wp.array2d[wp.int32],
    event_out: wp.array3d[wp.int32],
    event_gate_out: wp.array3d[wp.int32],
    event_alpha_out: wp.array3d[wp.float32],
):
    """Start the agents of the masked envs afresh. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    last_position_out[env, agent] = wp.vec3f(wp.nan, wp.nan, wp.nan)
    target_out[env, agent] = first_target
    net_out[env, agent] = 0
    laps_out[env, agent] = 0
    event_count_out[env, agent] = 0
    for k in range(event_out.shape[2]):
        event_out[env, agent, k] = NONE
        event_gate_out[env, agent, k] = -1
        event_alpha_out[env, agent, k] = wp.nan


class GateCrossing:
    """Tells what each agent did at the gates of its course in each step.

    :meth:`update` is one step; call it once per environment step, after the agents moved.
    :meth:`reset` starts agents afresh: the next step only notes where they are, so putting them
    elsewhere is never an event. All results are arrays of this object with stable addresses; a step
    with a position that is not finite, or without a valid course, has no events.

    The target is the gate after the one passed last, whichever that was; flying back through a gate
    makes it the target again. Laps count net crossings, forward minus backward.

    Args:
        gates: :class:`track_gen.GateSequence`; read at each step.
        num_agents: Agents A per env.
        body_radius: Radius of an agent [length], >= 0.
        frame_thickness: Width of the bars around an opening [length]; 0 is no frame.
        frame_depth: Depth of the bars along the direction of travel; None is their width.
        clearance: Free space beside an opening [length], as in ``GateGenConfig``; sets the window
            in which passing a target beside its opening is a miss. None is half the opening.
        max_events: Events that a step can hold, in [1, 64]; later ones are dropped.
        first_target: Target of a fresh agent.
        num_threads: CPU threads; None is one per core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        gates: GateSequence,
        num_agents: int = 1,
        *,
        body_radius: float = 0.0,
        frame_thickness: float = 0.0,
        frame_depth: float | None = None,
        clearance: float | None = None,
        max_events: int = 4,
        first_target: int = 0,
        num_threads: int | None = None,
    ) -> None:
        name = type(self).__name__
        if not isinstance(gates, GateSequence):
            raise TypeError(f"{name} needs a GateSequence, got {type(gates).__name__}")
        num_threads = check_threads(f"{name}.num_threads", num_threads)
        body = check_float(f"{name}.body_radius", body_radius, 0.0)
        thickness = check_float(f"{name}.frame_thickness", frame_thickness, 0.0)
        depth = thickness if frame_depth is None else frame_depth
        depth = check_float(f"{name}.frame_depth", depth, 0.0)
        if clearance is not None:
            clearance = check_float(f"{name}.clearance", clearance, 0.0)
        slots = check_int(f"{name}.max_events", max_events, low=1, high=64)
        first = check_int(f"{name}.first_target", first_target, low=0, high=gates.max_gates - 1)
        E = self.num_envs = gates.num_envs
        A = self.num_agents = check_agents(f"{name}.num_agents", num_agents)
        device = self.device = gates.device
        self.gates = gates
        """The course; kept, and read at each step."""

        def integers(*inner: int) -> wp.array:
            return wp.zeros((E, A, *inner), dtype=wp.int32, device=device)

        self.target = integers()
        """Gate to fly next, int32 [E, A]."""
        self.net = integers()
        """Gates passed forward minus backward since the reset, int32 [E, A]."""
        self.laps = integers()
        """Whole laps in ``net``, int32 [E, A]."""
        self.event_count = integers()
        """Events of the last step, int32 [E, A]."""
        self.event = integers(slots)
        """Kinds of the events in the order of time, :class:`Crossing`, int32 [E, A, max_events]."""
        self.event_gate = integers(slots)
        """Gates of the events, -1 past ``event_count``, int32 [E, A, max_events]."""
        self.event_alpha = wp.zeros((E, A, slots), dtype=wp.float32, device=device)
        """When, as a fraction of the step; NaN past ``event_count``, float32 [E, A, max_events]."""
        self._last = wp.zeros((E, A), dtype=wp.vec3f, device=device)
        self._every_env = wp.full(E, True, dtype=wp.bool, device=device)
        state = [
            self._last,
            self.target,
            self.net,
            self.laps,
            self.event_count,
            self.event,
            self.event_gate,
            self.event_alpha,
        ]
        self._step = RowLaunch(
            cross_gates_kernel,
            E,
            (A,),
            inputs=[
                wp.zeros((E, A, 3), dtype=wp.float32, device=device),
                self._every_env,
                gates.position,
                gates.tangent,
                gates.normal,
                gates.half_width,
                gates.half_height,
                gates.count,
                gates.valid,
                -1.0 if clearance is None else clearance,
                thickness,
                depth,
                body,
                self._last,
            ],
            outputs=state[1:],
            device=device,
            num_threads=num_threads,
        )
        self._reset = RowLaunch(
            reset_crossings_kernel,
            E,
            (A,),
            inputs=[self._every_env, first],
            outputs=state,
            device=device,
            num_threads=1,
        )
        self.reset()

    def update(self, position: Any, mask: Any = None) -> None:
        """Judge one step of all agents, or of those of the masked envs.

        Args:
            position: Positions after the step: Warp array of vec3f [E, A] or float32 [E, A, 2 or
                3], or a torch tensor; with one agent the dimension A may be missing.
            mask: Envs to work on, bool [E], or None for all.

        Raises:
            TypeError: If a type or dtype is wrong.
            ValueError: If a shape or device is wrong.
        """
        name = "GateCrossing.update"
        self._step(
            position_in=as_positions(
                f"{name}(position)", position, self.num_envs, self.num_agents, self.device
            ),
            mask_in=as_mask(f"{name}(mask)", mask, self._every_env, self.num_envs, self.device),
        )

    def reset(self, mask: Any = None) -> None:
        """Start the agents of the masked envs afresh.

        Args:
            mask: Envs, bool [E], or None for all.

        Raises:
            TypeError: If the dtype is wrong.
            ValueError: If the shape or device is wrong.
        """
        self._reset(
            mask_in=as_mask(
                "GateCrossing.reset(mask)", mask, self._every_env, self.num_envs, self.device
            )
        )
