"""Progress, laps and wrong-way driving from localised agents, safe against cheating.

Progress is the sum of small steps of the arc length on the road, so it needs driving there. Beside
the road the tracker waits, and the way from where the agent left to where it comes back is one
step. A step longer than ``max_step`` is a jump: it gives nothing, a jump back must be driven again
before anything counts, and the running lap is spoiled until the line is next crossed. A lap counts
when the line is crossed forward after the whole loop has been driven since it was last crossed
forward, the way back counted against it: spinning, reversing over the line, jumping across the
infield and circling in it give none.
"""

from __future__ import annotations

import math
from typing import Any

import warp as wp

from track_gen.checks import check_choice, check_float
from track_gen.course_line import CourseLine
from track_gen.row_launch import RowLaunch
from track_gen.runtime.events import BACKWARD, FORWARD, NONE
from track_gen.runtime.localize import Localizer, own_or_shared, update_own
from track_gen.runtime.racing_line import RacingLine
from track_gen.runtime.rows import as_mask
from track_gen.runtime.view import TrackView, is_drivable, wrap_s

__all__ = ["ProgressTracker"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

LINE_TOLERANCE = 1.0e-5
"""How far before the line it counts as crossed, in lengths: a loop driven exactly is a lap."""


@wp.kernel
def track_progress_kernel(
    first_env: int,
    # In:
    view: TrackView,
    s_in: wp.array2d[wp.float32],
    n_in: wp.array2d[wp.float32],
    mask_in: wp.array[wp.bool],
    line_in: wp.array2d[wp.float32],
    max_step: float,
    max_offset: float,
    wrong_way_distance: float,
    # State:
    last_s: wp.array2d[wp.float32],
    line: wp.array2d[wp.float32],
    sum_of_steps: wp.array2d[wp.float64],
    lap_sum: wp.array2d[wp.float64],
    debt: wp.array2d[wp.float32],
    retreat: wp.array2d[wp.float32],
    clean: wp.array2d[wp.bool],
    # Out:
    delta_out: wp.array2d[wp.float32],
    total_out: wp.array2d[wp.float32],
    laps_out: wp.array2d[wp.int32],
    finished_lap_out: wp.array2d[wp.bool],
    crossing_out: wp.array2d[wp.int32],
    jumped_out: wp.array2d[wp.bool],
    beside_out: wp.array2d[wp.bool],
    wrong_way_out: wp.array2d[wp.bool],
    steps_out: wp.array2d[wp.int32],
    lap_steps_out: wp.array2d[wp.int32],
    last_lap_steps_out: wp.array2d[wp.int32],
    best_lap_steps_out: wp.array2d[wp.int32],
):
    """Advance the masked envs by one step. Launch dim (rows, A).

    ``last_s`` is the last place on the road. ``debt`` is how far the agent is behind the farthest
    place it earned progress at, by jumps; less than 0 beyond it.
    """
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    delta_out[env, agent] = 0.0
    finished_lap_out[env, agent] = False
    crossing_out[env, agent] = wp.static(NONE)
    jumped_out[env, agent] = False
    beside_out[env, agent] = False
    s = s_in[env, agent]
    if not (is_drivable(view, env) and wp.isfinite(s)):
        return
    length = view.length[env]
    tolerance = wp.static(LINE_TOLERANCE) * length
    previous = last_s[env, agent]
    beside = wp.abs(n_in[env, agent]) > max_offset * view.half_width[env]
    beside_out[env, agent] = beside
    if not beside or not wp.isfinite(previous):
        last_s[env, agent] = s
    if not wp.isfinite(previous):
        # First step after a reset: the agent is where it was put.
        start = line_in[env, agent]
        if not wp.isfinite(start):
            start = s
        line[env, agent] = start
        sum_of_steps[env, agent] = wp.float64(0.0)
        lap_sum[env, agent] = wp.float64(0.0)
        debt[env, agent] = 0.0
        retreat[env, agent] = 0.0
        clean[env, agent] = True
        total_out[env, agent] = 0.0
        laps_out[env, agent] = 0
        wrong_way_out[env, agent] = False
        steps_out[env, agent] = 0
        lap_steps_out[env, agent] = 0
        last_lap_steps_out[env, agent] = 0
        best_lap_steps_out[env, agent] = 0
        return

    steps_out[env, agent] = steps_out[env, agent] + 1
    lap_steps = lap_steps_out[env, agent] + 1
    if beside:
        lap_steps_out[env, agent] = lap_steps
        return
    # In double precision the steps between two places sum up to their difference exactly.
    step = wp.float64(s) - wp.float64(previous)
    loop = wp.float64(length)
    half = wp.float64(0.5) * loop
    if step > half:
        step -= loop
    elif step <= -half:
        step += loop
    counted = step
    owed = debt[env, agent]
    if wp.abs(step) > wp.float64(wp.min(max_step * view.half_width[env], 0.45 * length)):
        jumped_out[env, agent] = True
        clean[env, agent] = False
        debt[env, agent] = owed - float(step)
        counted = wp.float64(0.0)
    else:
        if step > wp.float64(0.0):
            paid = wp.clamp(wp.float64(owed), wp.float64(0.0), step)
            debt[env, agent] = wp.max(owed - float(paid), 0.0)
            counted -= paid
        # Where the agent stands from the line, which lies a little earlier than it is drawn.
        before = wrap_s(previous - line[env, agent] + tolerance, length)
        after = wrap_s(s - line[env, agent] + tolerance, length)
        driven = lap_sum[env, agent] + step
        if step > wp.float64(0.0) and after < before:
            crossing_out[env, agent] = wp.static(FORWARD)
            if clean[env, agent] and driven >= loop - wp.float64(2.0 * tolerance):
                laps_out[env, agent] = laps_out[env, agent] + 1
                finished_lap_out[env, agent] = True
                last_lap_steps_out[env, agent] = lap_steps
                best = best_lap_steps_out[env, agent]
                if best == 0 or lap_steps < best:
                    best_lap_steps_out[env, agent] = lap_steps
            lap_steps = 0
            driven = wp.float64(after - tolerance)
            clean[env, agent] = True
        elif step < wp.float64(0.0) and after > before:
            crossing_out[env, agent] = wp.static(BACKWARD)
        lap_sum[env, agent] = driven

        away = wrong_way_distance * view.half_width[env]
        back = wp.clamp(retreat[env, agent] - float(step), 0.0, away)
        retreat[env, agent] = back
        if back >= away:
            wrong_way_out[env, agent] = True
        elif back <= 0.0:
            wrong_way_out[env, agent] = False
    lap_steps_out[env, agent] = lap_steps
    total = sum_of_steps[env, agent] + counted
    sum_of_steps[env, agent] = total
    delta_out[env, agent] = float(counted)
    total_out[env, agent] = float(total)


@wp.kernel
def reset_progress_kernel(
    first_env: int,
    # In:
    mask_in: wp.array[wp.bool],
    # Out:
    last_s_out: wp.array2d[wp.float32],
    sum_of_steps_out: wp.array2d[wp.float64],
    delta_out: wp.array2d[wp.float32],
    total_out: wp.array2d[wp.float32],
    laps_out: wp.array2d[wp.int32],
    finished_lap_out: wp.array2d[wp.bool],
    crossing_out: wp.array2d[wp.int32],
    jumped_out: wp.array2d[wp.bool],
    beside_out: wp.array2d[wp.bool],
    wrong_way_out: wp.array2d[wp.bool],
    steps_out: wp.array2d[wp.int32],
    lap_steps_out: wp.array2d[wp.int32],
    last_lap_steps_out: wp.array2d[wp.int32],
    best_lap_steps_out: wp.array2d[wp.int32],
):
    """Start the agents of the masked envs afresh at their next step. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    last_s_out[env, agent] = wp.nan
    sum_of_steps_out[env, agent] = wp.float64(0.0)
    delta_out[env, agent] = 0.0
    total_out[env, agent] = 0.0
    laps_out[env, agent] = 0
    finished_lap_out[env, agent] = False
    crossing_out[env, agent] = 0
    jumped_out[env, agent] = False
    beside_out[env, agent] = False
    wrong_way_out[env, agent] = False
    steps_out[env, agent] = 0
    lap_steps_out[env, agent] = 0
    last_lap_steps_out[env, agent] = 0
    best_lap_steps_out[env, agent] = 0


def default_offset(track: Any) -> float:
    """Distance from a line [half widths] up to which progress counts by default.

    1.5 from a centreline: half of a half width beyond the borders. 2.5 from a :class:`RacingLine`,
    which lies up to 1 from the centreline. 4 from a :class:`CourseLine`, whose half width is that
    of the openings and not of the air between them.
    """
    if isinstance(track, CourseLine):
        return 4.0
    return 2.5 if isinstance(track, RacingLine) else 1.5


class ProgressTracker:
    """Counts progress and laps of each agent.

    :meth:`update` is one step; call it once per environment step, after the agents moved.
    :meth:`reset` starts agents afresh: the next step only notes where they are, so putting them
    elsewhere is never progress. All results are arrays [E, A] of this object with stable addresses.
    In a step without a place (no valid track, a position that is not finite) ``delta`` is 0, the
    flags are False, and everything else stays.

    Args:
        track: :class:`track_gen.Track`, or anything with its arrays.
        num_agents: Agents A per env.
        localizer: A localizer of the same track to read from; :meth:`update` then takes no
            positions. None makes one of its own.
        origins: World positions of the tracks for a localizer of its own, as :class:`Localizer`
            takes them; a shared one brings its own.
        line: Where laps are counted: "spawn" at the place of each agent's first step, so that the
            loop from there is a lap; "start" at index 0 of the track, so that a lap counts when it
            is crossed with a whole loop since it was crossed before.
        max_step: Longest step [half widths] that is driving and not a jump. Above 3.2: at the
            inside of the tightest corner a small move passes half a circle. Never more than 0.45
            of the length.
        max_offset: Distance from the line [half widths] up to which progress counts; farther
            beside it the tracker waits. None is :func:`default_offset` of the track, ``math.inf``
            counts everywhere.
        wrong_way_distance: Driving backward this far [half widths] sets the wrong-way flag, driving
            forward as far clears it.
        num_threads: CPU threads; None is one per core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or ``localizer`` is of another track or size.
    """

    def __init__(
        self,
        track: Any,
        num_agents: int = 1,
        *,
        localizer: Localizer | None = None,
        origins: Any = None,
        line: str = "spawn",
        max_step: float = 4.0,
        max_offset: float | None = None,
        wrong_way_distance: float = 2.0,
        num_threads: int | None = None,
    ) -> None:
        line = check_choice("ProgressTracker.line", line, ("spawn", "start"))
        max_step = check_float("ProgressTracker.max_step", max_step, low=0.0, low_open=True)
        if max_offset is None:
            max_offset = default_offset(track)
        elif max_offset != math.inf:
            max_offset = check_float("ProgressTracker.max_offset", max_offset, low=0.0)
        wrong_way_distance = check_float(
            "ProgressTracker.wrong_way_distance", wrong_way_distance, low=0.0, low_open=True
        )
        self._owns_localizer = localizer is None
        localizer = self.localizer = own_or_shared(
            "ProgressTracker", localizer, track, num_agents, origins, num_threads
        )
        """Where the places are read from."""
        E, A = self.num_envs, self.num_agents = localizer.num_envs, localizer.num_agents
        device = self.device = localizer.device

        def zeros(dtype: Any) -> wp.array:
            return wp.zeros((E, A), dtype=dtype, device=device)

        self.delta = zeros(wp.float32)
        """Progress of the last step [length], negative backward, float32 [E, A]."""
        self.total = zeros(wp.float32)
        """Progress since the reset [length], float32 [E, A]."""
        self.laps = zeros(wp.int32)
        """Laps since the reset, int32 [E, A]."""
        self.finished_lap = zeros(wp.bool)
        """Whether the last step finished a lap, bool [E, A]."""
        self.crossing = zeros(wp.int32)
        """How the last step crossed the line: :class:`Crossing` FORWARD (1), BACKWARD (-1) or NONE
        (0), int32 [E, A]."""
        self.jumped = zeros(wp.bool)
        """Whether the last step was a jump, bool [E, A]."""
        self.beside = zeros(wp.bool)
        """Whether the agent is farther than ``max_offset`` beside the line, bool [E, A]."""
        self.wrong_way = zeros(wp.bool)
        """Whether the agent drives backward, bool [E, A]."""
        self.steps = zeros(wp.int32)
        """Steps since the reset, int32 [E, A]."""
        self.lap_steps = zeros(wp.int32)
        """Steps of the running lap, int32 [E, A]."""
        self.last_lap_steps = zeros(wp.int32)
        """Steps of the last lap, 0 before one, int32 [E, A]."""
        self.best_lap_steps = zeros(wp.int32)
        """Steps of the fastest lap, 0 before one, int32 [E, A]."""

        self._last_s = wp.full((E, A), wp.nan, dtype=wp.float32, device=device)
        self._sum = zeros(wp.float64)
        given = wp.nan if line == "spawn" else 0.0
        self._step = RowLaunch(
            track_progress_kernel,
            E,
            (A,),
            inputs=[
                localizer.view, localizer.s, localizer.n, localizer.every_env,
                wp.full((E, A), given, dtype=wp.float32, device=device), max_step, max_offset,
                wrong_way_distance, self._last_s, zeros(wp.float32), self._sum, zeros(wp.float64),
                zeros(wp.float32), zeros(wp.float32), zeros(wp.bool),
            ],
            outputs=[
                self.delta, self.total, self.laps, self.finished_lap, self.crossing, self.jumped,
                self.beside, self.wrong_way, self.steps, self.lap_steps, self.last_lap_steps,
                self.best_lap_steps,
            ],
            device=device,
            num_threads=num_threads,
        )  # fmt: skip
        self._reset = RowLaunch(
            reset_progress_kernel,
            E,
            (A,),
            inputs=[localizer.every_env],
            outputs=[
                self._last_s, self._sum, self.delta, self.total, self.laps, self.finished_lap,
                self.crossing, self.jumped, self.beside, self.wrong_way, self.steps,
                self.lap_steps, self.last_lap_steps, self.best_lap_steps,
            ],
            device=device,
            num_threads=1,
        )  # fmt: skip

    def update(self, position: Any = None, mask: Any = None) -> None:
        """Count one step of all agents, or of those of the masked envs.

        Args:
            position: Positions as :meth:`Localizer.update` takes them; None if the localizer is a
                shared one, which has been updated.
            mask: Envs to work on, bool [E], or None for all.

        Raises:
            TypeError: If a type or dtype is wrong.
            ValueError: If a shape or device is wrong, or ``position`` is missing without a shared
                localizer or given with one.
        """
        if position is not None and not self._owns_localizer:
            raise ValueError(
                "ProgressTracker.update(position) must be None with a shared localizer: update that"
            )
        update_own("ProgressTracker", self.localizer, self._owns_localizer, position, mask)
        every = self.localizer.every_env
        self._step(
            mask_in=as_mask("ProgressTracker.update(mask)", mask, every, self.num_envs, self.device)
        )

    def reset(self, mask: Any = None) -> None:
        """Start the agents of the masked envs afresh.

        Args:
            mask: Envs, bool [E], or None for all.

        Raises:
            TypeError: If the dtype is wrong.
            ValueError: If the shape or device is wrong.
        """
        if self._owns_localizer:
            self.localizer.reset(mask)
        every = self.localizer.every_env
        self._reset(
            mask_in=as_mask("ProgressTracker.reset(mask)", mask, every, self.num_envs, self.device)
        )
