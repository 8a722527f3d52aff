"""Layout of a gate course in plan: relaxation of the gates and of their flight line.

Sharp turns are smoothed first, then every rule of a course acts as a displacement: gates apart,
approaches free, the flight line past every other gate, turns and bends within their limits
(position-based dynamics in Jacobi form: Mueller, Heidelberger, Hennix, Ratcliff: Position based
dynamics, J. Vis. Commun. Image R. 18, 2007). What does not fit makes the course grow. A lane
gathers all displacements of its gates in index order, so results do not depend on the number of
lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import warp as wp

from track_gen.block import block_lane, block_launch, block_sync, block_vote
from track_gen.flight_line import gate_direction
from track_gen.gate_pushes import corridor_push, half_curvatures, line_contact
from track_gen.gate_rules import GateRules, GateSizes, bounding_box, gate_sizes
from track_gen.geometry import cos_sin, turn_angle, wrap_angle
from track_gen.polyline import next_index, previous_index

__all__ = ["FREE_STAGES", "RESORT_STAGES", "RING_STAGES", "GateLayoutScratch", "relax_gates"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

FREE_STAGES = 4
"""Orders that a free course tries: its own, then reshuffled ones on more room."""
RESORT_STAGES = 3
"""Stages of a free course in angular order, its last resort."""
RING_STAGES = 4
"""Blends towards a regular polygon that an angular course tries."""

_FAIR_SWEEPS = 40
_RELAX_SWEEPS = 80
_GROW_AFTER = 15

_DEGREE = math.pi / 180.0
_TWO_PI = 2.0 * math.pi
_VIOLATED = 1
_CROWDED = 2
_GOLDEN_ANGLE = 2.39996


@dataclass
class GateLayoutScratch:
    """Working arrays of the relaxation; rows of a batch."""

    directions: wp.array
    """Direction and speed of the line at each gate, vec3f, shape [E, G]."""
    curvature: wp.array
    """Largest curvature of the halves of each interval, vec2f, shape [E, G]."""
    turns: wp.array
    """Turn at each gate, float32, shape [E, G]."""
    bends: wp.array
    """Smoothing displacement, excess curvature and line contacts of each gate, vec4f, [E, G]."""
    contacts: wp.array
    """Push between interval and gate and where it acts, vec3f, shape [E, G * G]."""
    moves: wp.array
    """Displacement of each gate, vec2f, shape [E, G]."""

    @classmethod
    def allocate(cls, num_envs: int, max_gates: int, device: wp.Device) -> GateLayoutScratch:
        """Allocate for E rows and G gates."""

        def rows(size: int, dtype: type) -> wp.array:
            return wp.zeros((num_envs, size), dtype=dtype, device=device)

        return cls(
            directions=rows(max_gates, wp.vec3f),
            curvature=rows(max_gates, wp.vec2f),
            turns=rows(max_gates, wp.float32),
            bends=rows(max_gates, wp.vec4f),
            contacts=rows(max_gates * max_gates, wp.vec3f),
            moves=rows(max_gates, wp.vec2f),
        )


@wp.func
def _turn_at(points: wp.array2d[wp.vec2f], env: int, i: int, count: int) -> float:
    here = points[env, i]
    return turn_angle(
        here - points[env, previous_index(i, count)], points[env, next_index(i, count)] - here
    )


@wp.func
def _middle(points: wp.array2d[wp.vec2f], env: int, i: int, count: int) -> wp.vec2f:
    return 0.5 * (points[env, previous_index(i, count)] + points[env, next_index(i, count)])


@wp.func
def _smooth_turns(
    points: wp.array2d[wp.vec2f],
    moves: wp.array2d[wp.vec2f],
    env: int,
    lane: int,
    count: int,
    limit: float,
):
    """Draw gates with turns above ``limit`` towards the middle of their neighbours.

    Starts after a barrier and ends with one.
    """
    sweep = int(0)
    sharp = int(1)
    while sharp != 0 and sweep < wp.static(_FAIR_SWEEPS):
        sharp = int(0)
        for i in range(lane, count, wp.block_dim()):
            over = wp.abs(_turn_at(points, env, i, count)) - limit
            move = wp.vec2f(0.0, 0.0)
            if over > 0.0:
                sharp = 1
                move = wp.min(0.1 + 0.5 * over, 0.5) * (
                    _middle(points, env, i, count) - points[env, i]
                )
            moves[env, i] = move
        sharp = block_vote(sharp, 0, sweep & 1)[0]
        if sharp != 0:
            for i in range(lane, count, wp.block_dim()):
                points[env, i] = points[env, i] + moves[env, i]
            block_sync()
        sweep += 1


@wp.func
def _gather_pairs(
    points: wp.array2d[wp.vec2f],
    directions: wp.array2d[wp.vec3f],
    sizes: GateSizes,
    env: int,
    i: int,
    count: int,
) -> wp.vec4f:
    """Pushes of all other gates on gate ``i``: (x, y, number, flags)."""
    here = points[env, i]
    d0 = directions[env, i]
    f0 = wp.vec2f(d0[0], d0[1])
    room = 1.05 * sizes.gap
    approach = 1.05 * (sizes.approach + sizes.lean)
    half_width = 1.05 * sizes.half_width
    outer = 1.05 * sizes.outer
    depth = 1.05 * sizes.lean
    near = 1.1 * (sizes.approach + sizes.lean + sizes.half_width + sizes.outer)
    allowed = 0.04 * wp.min(sizes.approach + sizes.lean, wp.min(sizes.outer, sizes.half_width))
    move = wp.vec2f(0.0, 0.0)
    terms = int(0)
    flags = int(0)
    # Each other gate comes twice: this gate's bar in its corridor, then its bar in this corridor.
    for k in range(2 * count):
        j = k // 2
        if j == i:
            continue
        away = here - points[env, j]
        distance = wp.length(away)
        sign = float(1.0)
        if i < j:
            sign = -1.0
        if k == 2 * j and distance < room:
            unit = away / wp.max(distance, 1.0e-30)
            if distance < 1.0e-6 * sizes.gap:
                number = 31 * wp.min(i, j) + wp.max(i, j) + 1
                unit = sign * cos_sin(wrap_angle(wp.static(_GOLDEN_ANGLE) * float(number)))
            move += 0.5 * (room - distance) * unit
            terms += 1
            if distance < 1.005 * sizes.gap:
                flags = wp.static(_VIOLATED | _CROWDED)
        if distance <= near:
            d1 = directions[env, j]
            corridor = wp.vec2f(d1[0], d1[1])
            bar = f0
            towards = float(1.0)
            if k != 2 * j:
                corridor = f0
                bar = wp.vec2f(d1[0], d1[1])
                towards = -1.0
            push = corridor_push(
                towards * away, corridor, bar, approach, half_width, outer, depth, towards * sign
            )
            if push[2] > 0.0:
                move += towards * wp.vec2f(push[0], push[1])
                terms += 1
                if push[2] > allowed:
                    flags = wp.static(_VIOLATED | _CROWDED)
    return wp.vec4f(move[0], move[1], float(terms), float(flags))


@wp.func
def _gather_contacts(contacts: wp.array2d[wp.vec3f], env: int, i: int, count: int) -> wp.vec3f:
    """Pushes of the line on gate ``i``, as the gate and as either end: (x, y, number)."""
    move = wp.vec2f(0.0, 0.0)
    terms = int(0)
    before = previous_index(i, count)
    for j in range(count):
        contact = contacts[env, j * count + i]
        if contact[2] >= 0.0:
            move += wp.vec2f(contact[0], contact[1])
            terms += 1
        contact = contacts[env, i * count + j]
        if contact[2] >= 0.0:
            move -= (1.0 - contact[2]) * wp.vec2f(contact[0], contact[1])
            terms += 1
        contact = contacts[env, before * count + j]
        if contact[2] >= 0.0:
            move -= contact[2] * wp.vec2f(contact[0], contact[1])
            terms += 1
    return wp.vec3f(move[0], move[1], float(terms))


@wp.func
def _relax(
    points: wp.array2d[wp.vec2f],
    directions: wp.array2d[wp.vec3f],
    curvature: wp.array2d[wp.vec2f],
    turns: wp.array2d[wp.float32],
    bends: wp.array2d[wp.vec4f],
    contacts: wp.array2d[wp.vec3f],
    moves: wp.array2d[wp.vec2f],
    rules: GateRules,
    sizes: GateSizes,
    angular: bool,
    env: int,
    lane: int,
    count: int,
) -> int:
    """Sweep until no rule is violated: the number of sweeps, negative if it never came to that.

    Starts after a barrier and ends with one.
    """
    sweep = int(0)
    flags = int(_VIOLATED)
    room = 1.05 * sizes.outer + sizes.lean
    tight = 1.025 * sizes.outer + sizes.lean
    while flags != 0 and sweep < wp.static(_RELAX_SWEEPS):
        for i in range(lane, count, wp.block_dim()):
            here = points[env, i]
            before = points[env, previous_index(i, count)]
            after = points[env, next_index(i, count)]
            directions[env, i] = gate_direction(before, here, after)
            turns[env, i] = turn_angle(here - before, after - here)
        block_sync()

        flags = int(0)
        for i in range(lane, count, wp.block_dim()):
            j = next_index(i, count)
            curvature[env, i] = half_curvatures(
                points[env, i],
                points[env, j],
                directions[env, i],
                directions[env, j],
                rules.line,
                rules.samples,
            )
        for k in range(lane, count * count, wp.block_dim()):
            i = k // count
            gate = k - i * count
            j = next_index(i, count)
            contact = wp.vec4f(0.0, 0.0, -1.0, 1.0e30)
            if gate != i and gate != j:
                contact = line_contact(
                    points[env, gate],
                    points[env, i],
                    points[env, j],
                    directions[env, i],
                    directions[env, j],
                    rules.line,
                    sizes.outer,
                    room,
                    sizes.gap,
                )
                if contact[3] < tight:
                    flags = wp.static(_VIOLATED | _CROWDED)
            contacts[env, k] = wp.vec3f(contact[0], contact[1], contact[2])
        block_sync()

        limit = sizes.max_turn - wp.static(4.0 * _DEGREE)
        for i in range(lane, count, wp.block_dim()):
            bend = (
                wp.max(curvature[env, i][0], curvature[env, previous_index(i, count)][1])
                * sizes.radius
            )
            turn = wp.abs(turns[env, i])
            excess = wp.max(1.08 * bend - 1.0, 0.0)
            over = turn - limit
            weight = wp.min(0.3 * excess, 0.35)
            if over > 0.0:
                weight = wp.max(weight, wp.min(0.15 + 0.5 * over, 0.5))
            move = weight * (_middle(points, env, i, count) - points[env, i])
            line = _gather_contacts(contacts, env, i, count)
            bends[env, i] = wp.vec4f(move[0], move[1], excess, line[2])
            moves[env, i] = wp.vec2f(line[0], line[1])
            if bend > 0.98:
                flags |= wp.static(_VIOLATED | _CROWDED)
            if turn > sizes.max_turn - wp.static(0.25 * _DEGREE):
                flags |= wp.static(_VIOLATED)
        if angular:
            total = float(0.0)
            for i in range(count):
                total += turns[env, i]
            if wp.abs(total - float(rules.sense) * wp.static(_TWO_PI)) > 0.01:
                flags |= wp.static(_VIOLATED)
        if rules.max_extent > 0.0:
            box = bounding_box(points, env, count)
            if wp.max(box[2] - box[0], box[3] - box[1]) > 0.9999 * rules.max_extent:
                flags |= wp.static(_VIOLATED)
        block_sync()

        for i in range(lane, count, wp.block_dim()):
            j = next_index(i, count)
            h = previous_index(i, count)
            here = points[env, i]
            pairs = _gather_pairs(points, directions, sizes, env, i, count)
            flags |= int(pairs[3])
            own_bend = bends[env, i]
            terms = pairs[2] + own_bend[3]
            last_bend = bends[env, h]
            next_bend = bends[env, j]
            move = moves[env, i] + wp.vec2f(pairs[0], pairs[1])
            move += wp.vec2f(
                own_bend[0] - 0.25 * (last_bend[0] + next_bend[0]),
                own_bend[1] - 0.25 * (last_bend[1] + next_bend[1]),
            )
            if not angular:
                stretch = wp.min(0.25 * wp.max(own_bend[2], next_bend[2]), 0.15)
                move -= 0.5 * stretch * (points[env, j] - here)
                stretch = wp.min(0.25 * wp.max(own_bend[2], last_bend[2]), 0.15)
                move += 0.5 * stretch * (here - points[env, h])
            move = move * wp.min(1.0, 1.4 / wp.max(terms, 1.0))
            length = wp.length(move)
            longest = 0.35 * sizes.gap
            if length > longest:
                move = move * (longest / length)
            moves[env, i] = move
        flags = block_vote(flags, 0, sweep & 1)[0]

        if flags != 0:
            for i in range(lane, count, wp.block_dim()):
                points[env, i] = points[env, i] + moves[env, i]
            block_sync()
            if sweep >= wp.static(_GROW_AFTER) and flags >= wp.static(_CROWDED):
                mean = wp.vec2f(0.0, 0.0)
                for i in range(count):
                    mean += points[env, i]
                mean = mean / float(count)
                block_sync()
                for i in range(lane, count, wp.block_dim()):
                    points[env, i] = mean + 1.006 * (points[env, i] - mean)
                block_sync()
            if rules.max_extent > 0.0:
                box = bounding_box(points, env, count)
                middle = 0.5 * wp.vec2f(box[0] + box[2], box[1] + box[3])
                half = 0.4975 * rules.max_extent
                block_sync()
                for i in range(lane, count, wp.block_dim()):
                    p = points[env, i]
                    points[env, i] = wp.vec2f(
                        wp.clamp(p[0], middle[0] - half, middle[0] + half),
                        wp.clamp(p[1], middle[1] - half, middle[1] + half),
                    )
                block_sync()
            sweep += 1
    if flags != 0:
        return -sweep
    return sweep


@wp.func
def _start_stage(
    anchors: wp.array2d[wp.vec2f],
    order: wp.array2d[wp.int32],
    points: wp.array2d[wp.vec2f],
    rules: GateRules,
    sizes: GateSizes,
    grow: float,
    blend: float,
    env: int,
    lane: int,
    count: int,
):
    """Put the gates on their anchors, blended with a regular polygon. Ends with a barrier."""
    radius = float(0.0)
    phase = wp.vec2f(0.0, 0.0)
    step = float(rules.sense) * wp.static(_TWO_PI) / float(count)
    if blend > 0.0:
        mean_radius = float(0.0)
        for i in range(count):
            p = anchors[env, order[env, i]]
            mean_radius += wp.length(p)
            turn = cos_sin(-step * float(i))
            phase += wp.vec2f(p[0] * turn[0] - p[1] * turn[1], p[0] * turn[1] + p[1] * turn[0])
        half = cos_sin(wp.static(math.pi) / float(count))
        radius = wp.max(
            mean_radius / float(count),
            wp.max(
                0.6 * wp.max(sizes.gap, sizes.approach + sizes.outer) / half[1],
                2.4 * sizes.radius / (half[0] * half[0]),
            ),
        )
        length = wp.length(phase)
        if length > 0.0:
            phase = phase / length
        else:
            phase = wp.vec2f(1.0, 0.0)
    for i in range(lane, count, wp.block_dim()):
        p = grow * anchors[env, order[env, i]]
        if blend > 0.0:
            turn = cos_sin(step * float(i))
            corner = radius * wp.vec2f(
                phase[0] * turn[0] - phase[1] * turn[1], phase[0] * turn[1] + phase[1] * turn[0]
            )
            p = (1.0 - blend) * p + blend * corner
        points[env, i] = p
    block_sync()


@wp.kernel
def relax_gates_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    count_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    anchors_in: wp.array2d[wp.vec2f],
    rules: GateRules,
    first_stage: int,
    last_stage: int,
    growth: float,
    blending: float,
    angular: bool,
    order_in: wp.array2d[wp.int32],
    # Scratch:
    directions: wp.array2d[wp.vec3f],
    curvature: wp.array2d[wp.vec2f],
    turns: wp.array2d[wp.float32],
    bends: wp.array2d[wp.vec4f],
    contacts: wp.array2d[wp.vec3f],
    moves: wp.array2d[wp.vec2f],
    # Out:
    points_out: wp.array2d[wp.vec2f],
    solved_out: wp.array[wp.int32],
    sweeps_out: wp.array[wp.int32],
):
    """Relax gates, stage by stage, until one is solved. Launch dim (E, lanes).

    Stage ``s`` starts from the anchors times 1 + ``growth`` s, blended with a share ``blending`` s
    of a regular polygon. ``solved_out`` becomes the number of the stage, from 1, that solved it.
    """
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    count = count_in[env]
    if count < 3 or solved_out[env] != 0:
        return
    sizes = gate_sizes(rules, knobs_in, env)
    stage = first_stage
    solved = int(0)
    sweeps = int(0)
    while solved == 0 and stage <= last_stage:
        grow = 1.0 + growth * float(stage)
        blend = wp.min(blending * float(stage), 1.0)
        _start_stage(anchors_in, order_in, points_out, rules, sizes, grow, blend, env, lane, count)
        _smooth_turns(
            points_out,
            moves,
            env,
            lane,
            count,
            sizes.max_turn - wp.static(4.0 * _DEGREE),
        )
        block_sync()
        sweeps = _relax(
            points_out,
            directions,
            curvature,
            turns,
            bends,
            contacts,
            moves,
            rules,
            sizes,
            angular,
            env,
            lane,
            count,
        )
        block_sync()
        if sweeps >= 0:
            solved = 1
        stage += 1
    if lane == 0:
        solved_out[env] = solved * stage
        sweeps_out[env] = wp.abs(sweeps)


def relax_gates(
    pending: wp.array,
    count: wp.array,
    knobs: wp.array,
    anchors: wp.array,
    order: wp.array,
    points: wp.array,
    solved: wp.array,
    sweeps: wp.array,
    first_stage: int,
    last_stage: int,
    growth: float,
    blending: float,
    angular: bool,
    rules: GateRules,
    scratch: GateLayoutScratch,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that relaxes every pending env that has no course yet; runs nothing.

    Args:
        pending: Envs to work on, bool, shape [E].
        count: Gates of each env, int32, shape [E].
        knobs: Drawn knobs, float32, shape [E, P]: gate width, scale and largest turn first.
        anchors: Placed anchors [length], vec2f, shape [E, G].
        order: Anchor at each place of the course, int32, shape [E, G].
        points: Output: gate centres in flying order [length], vec2f, shape [E, G].
        solved: In and out, int32, shape [E]: 0, or 1 + the stage that found a course.
        sweeps: Output: sweeps of the last stage tried, int32, shape [E].
        first_stage: First stage to try.
        last_stage: Last stage to try.
        growth: Room that each stage adds, as a fraction.
        blending: Share of a regular polygon that each stage adds.
        angular: Whether the course must turn exactly once around, and keep its size.
        rules: Sizes and limits.
        scratch: Working arrays.
        lanes: Block size.
        device: Device of all arrays.
    """
    s = scratch
    return block_launch(
        relax_gates_kernel,
        pending.shape[0],
        lanes,
        inputs=[
            pending,
            count,
            knobs,
            anchors,
            rules,
            first_stage,
            last_stage,
            growth,
            blending,
            angular,
            order,
            s.directions,
            s.curvature,
            s.turns,
            s.bends,
            s.contacts,
            s.moves,
        ],
        outputs=[points, solved, sweeps],
        device=device,
    )
