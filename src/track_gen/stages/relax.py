"""Relaxation of a closed centreline until a road of the given half width fits on it.

Position-based dynamics with compliant inequality constraints (Macklin, Mueller, Chentanez: XPBD,
MIG 2016), solved by Jacobi sweeps with Chebyshev acceleration (Wang: A Chebyshev semi-iterative
approach for accelerating projective and position-based dynamics, ACM TOG 34(6), 2015), then
smoothed without shrinking (Taubin: A signal processing approach to fair surface design,
SIGGRAPH 1995).

One family of constraints does both the bending and the separation: two points that are ``s`` apart
along the curve keep a distance of at least ``min(2 R sin(s / 2 R), T)``, the chord that the curve
spans if its radius is ``R`` (Schur's comparison theorem), capped at the road clearance ``T``. It
depends on arc length only, so the ratio of point spacing to half width does not matter. Fourth
differences at two strides keep the curvature smooth. The loop ends when the road is good, not when
the solver has converged.

Everything runs in the frame of the first point and in units of the half width: a track gives the
same result at any offset and scale up to rounding.

The steps along the curve are in :mod:`track_gen.stages.relax_sweep`, the search for far stretches
of road in :mod:`track_gen.stages.relax_neighbors`; the kernel here puts them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import warp as wp

from track_gen.block import (
    block_lane,
    block_launch,
    block_sum_int,
    block_sync,
    block_vote,
    float_row,
)
from track_gen.checks import check_bool, check_float, check_int
from track_gen.stages.loop_rows import HALO, halo_tail, wrap_ends
from track_gen.stages.relax_neighbors import (
    CLEARANCE,
    GROUP,
    MAX_RUNS,
    build_cache,
    build_runs,
    far_lack,
    has_moved,
)
from track_gen.stages.relax_sweep import (
    TURN_ONE,
    advance,
    chord_bounds,
    chord_window,
    correct,
    smooth,
)

__all__ = ["RelaxConfig", "RelaxScratch", "relax"]

wp.set_module_options({"enable_backward": False})

# Lengths in units of the half width.
NEAREST = 1.02 * 2.0  # two stretches of road closer than this overlap, or soon will
EASED_STOP_RADIUS = 1.05  # stop radius from sweep EASE_END on, unless the wanted one is less

TURN_LIMIT = 0.016  # mean of (1 - cos angle) / 4: bounds the area that vertex normals lose

CHEBYSHEV_START = 4
CHEBYSHEV_RHO2 = 0.98 * 0.98
CHEBYSHEV_DAMPING = 0.9
EASE_BEGIN = 20
EASE_SWEEPS = 20
EASE_DROP = 0.10

TAUBIN_SHRINK = 0.5
TAUBIN_GROW = -0.53

MIN_COUNT = 8

ADAPTIVE = 0
DENSE = 1
CACHE = 2

# Flags of the vote that ends a sweep.
VIOLATED = 1
MOVED = 2


@dataclass(frozen=True, kw_only=True)
class RelaxConfig:
    """How the centreline is relaxed. ``TrackGenConfig`` holds these fields as ``relax_<field>``.

    ``sep_every``, ``sep_cache_slots`` and ``sep_cache_skin`` choose how a point finds the stretches
    of road that it must keep clear of:

    * None, 0 slots: exact lists, rebuilt when a point has moved too far. The default.
    * 1, 0 slots: exact scan of the whole loop in every sweep.
    * K > 1, S > 0 slots: a cache of at most S points per point, rebuilt every K sweeps. What does
      not fit is counted in ``cache_overflow``.
    """

    enable: bool = True
    """Whether the centreline is relaxed at all."""
    max_sweeps: int = 40
    """Most sweeps per track, in [0, 1000]."""
    stop_radius: float = 1.15
    """Radius [half widths] that every bend must reach, in [1, 1.5]; larger is smoother."""
    sep_every: int | None = None
    """Sweeps per rebuild of the cache, 1 for a scan in every sweep, None for adaptive lists."""
    sep_cache_slots: int = 0
    """Points that the cache holds per point, in [0, 256]; 0 without a cache."""
    sep_cache_skin: float = 0.0
    """Relative widening of the cache's search radius, in [0, 4]; 0 without a cache."""
    smoothing_passes: int = 3
    """Taubin passes after the solve, in [0, 20]."""

    def __post_init__(self) -> None:
        owner = "TrackGenConfig.relax_"
        check_bool(owner + "enable", self.enable)
        check_int(owner + "max_sweeps", self.max_sweeps, 0, 1000)
        check_float(owner + "stop_radius", self.stop_radius, 1.0, 1.5)
        if self.sep_every is not None:
            check_int(owner + "sep_every", self.sep_every, 1, 1000)
        check_int(owner + "sep_cache_slots", self.sep_cache_slots, 0, 256)
        check_float(owner + "sep_cache_skin", self.sep_cache_skin, 0.0, 4.0)
        check_int(owner + "smoothing_passes", self.smoothing_passes, 0, 20)
        cached = self.sep_every is not None and self.sep_every > 1
        if cached and self.sep_cache_slots == 0:
            raise ValueError(
                f"{owner}sep_cache_slots must be > 0 if relax_sep_every is > 1, got 0 with"
                f" relax_sep_every={self.sep_every}"
            )
        if not cached and self.sep_cache_slots > 0:
            raise ValueError(
                f"{owner}sep_cache_slots must be 0 unless relax_sep_every is > 1, got"
                f" {self.sep_cache_slots} with relax_sep_every={self.sep_every}"
            )
        if not cached and self.sep_cache_skin > 0.0:
            raise ValueError(
                f"{owner}sep_cache_skin must be 0 unless relax_sep_every is > 1, got"
                f" {self.sep_cache_skin} with relax_sep_every={self.sep_every}"
            )

    @property
    def mode(self) -> int:
        """How neighbours are found: ADAPTIVE, DENSE or CACHE."""
        if self.sep_every is None:
            return ADAPTIVE
        return DENSE if self.sep_every == 1 else CACHE


@dataclass
class RelaxScratch:
    """Work arrays of the solver; row ``env`` belongs to env ``env``."""

    positions: wp.array
    """Two iterates, x before y, with halos [half widths], float32 [E, 4 * (N_max + 2 * HALO)]."""
    moves: wp.array
    """Moves of one sweep, x before y [half widths], float32 [E, 2 * N_max]."""
    centers: wp.array
    """Group centres, x before y [half widths], float32 [E, 2 * groups]."""
    runs: wp.array
    """Begin and end of the runs of points near a group, int16 [E, groups * 2 * MAX_RUNS]."""
    run_counts: wp.array
    """Runs of a group, int16 [E, groups]."""
    neighbors: wp.array
    """Cached points, slot by slot, int16 [E, slots * N_max]; one column without a cache."""
    neighbor_counts: wp.array
    """Cached points of a point, int16 [E, N_max]; one column without a cache."""

    @classmethod
    def allocate(
        cls, num_envs: int, N_max: int, config: RelaxConfig, device: wp.Device
    ) -> RelaxScratch:
        """Arrays for ``num_envs`` loops of up to ``N_max`` points.

        Args:
            num_envs: Number of envs E.
            N_max: Columns of the point arrays, at most 4095.
            config: Decides which lists are needed.
            device: Device of all arrays.
        """
        groups = (N_max + GROUP - 1) // GROUP if config.mode == ADAPTIVE else 1
        slots = config.sep_cache_slots

        def empty(columns: int, dtype: type) -> wp.array:
            return wp.empty(shape=(num_envs, columns), dtype=dtype, device=device)

        return cls(
            positions=empty(4 * (N_max + 2 * HALO), wp.float32),
            moves=empty(2 * N_max, wp.float32),
            centers=empty(2 * groups, wp.float32),
            runs=empty(groups * 2 * MAX_RUNS, wp.int16),
            run_counts=empty(groups, wp.int16),
            neighbors=empty(max(1, slots * N_max), wp.int16),
            neighbor_counts=empty(N_max if slots else 1, wp.int16),
        )


@wp.func
def _short_row(base: wp.uint64, size: int) -> wp.array[wp.int16]:
    return wp.array(ptr=base, shape=(size,), dtype=wp.int16)


@cache
def make_relax_kernel(mode: int) -> wp.Kernel:
    """The solver with one way to find far stretches of road; each mode is a module of its own."""

    @wp.kernel(enable_backward=False, module="unique", grid_stride=False)
    def relax_kernel(
        # In:
        count_in: wp.array[wp.int32],
        length_in: wp.array[wp.float32],
        half_width_in: wp.array[wp.float32],
        pending_in: wp.array[wp.bool],
        max_sweeps: int,
        stop_radius: float,
        smoothing_passes: int,
        cache_every: int,
        cache_slots: int,
        cache_radius: float,
        # Scratch:
        positions: wp.array2d[wp.float32],
        moves: wp.array2d[wp.float32],
        centers: wp.array2d[wp.float32],
        runs: wp.array2d[wp.int16],
        run_counts: wp.array2d[wp.int16],
        neighbors: wp.array2d[wp.int16],
        neighbor_counts: wp.array2d[wp.int16],
        # Out:
        points_out: wp.array2d[wp.vec2f],
        sweeps_out: wp.array[wp.int32],
        cache_overflow_out: wp.array[wp.int32],
    ):
        """Relax the loops of pending envs in place. Launch dim (E, lanes), one block per env."""
        env, thread = wp.tid()
        lane = block_lane(thread)
        if wp.block_dim() == 1:
            lane = 0
        if not pending_in[env]:
            return
        count = count_in[env]
        half_width = half_width_in[env]
        h = length_in[env] / float(count) / half_width
        if lane == 0:
            sweeps_out[env] = 0
            cache_overflow_out[env] = 0
        if not (count >= wp.static(MIN_COUNT) and h > 0.0 and wp.isfinite(h)):
            return

        points = points_out[env]
        columns = points.shape[0]
        width = columns + wp.static(2 * HALO)
        buffers = positions[env].ptr
        first_x = float_row(buffers, 0, width)
        first_y = float_row(buffers, width, width)
        second_x = float_row(buffers, 2 * width, width)
        second_y = float_row(buffers, 3 * width, width)
        tail = halo_tail(lane, count)
        origin = points[0]
        bad = int(0)
        for i in range(lane, count, wp.block_dim()):
            p = (points[i] - origin) / half_width
            if not wp.isfinite(wp.dot(p, p)):
                bad = 1
            first_x[i + wp.static(HALO)] = p[0]
            first_y[i + wp.static(HALO)] = p[1]
            second_x[i + wp.static(HALO)] = p[0]
            second_y[i + wp.static(HALO)] = p[1]
        # A loop shorter than the halo does not fill it. Chords beyond the window read what lies
        # there and weigh it with 0: it must be finite.
        k = int(lane)
        while k < wp.static(HALO) - count:
            for row in range(4):
                buffer = float_row(buffers, row * width, width)
                buffer[k] = 0.0
                buffer[k + 2 * count + wp.static(HALO)] = 0.0
            k += wp.block_dim()
        wrap_ends(first_x, lane, tail, count)
        wrap_ends(first_y, lane, tail, count)
        if block_vote(bad, 0, 1)[0] != 0:
            return

        rest = h * (1.0 + 0.08 * wp.min(h, 1.0) * wp.min(h, 1.0))
        rest2 = rest * rest
        window = chord_window(rest, count)
        bounds = chord_bounds(rest, window)
        turn_limit = int(float(count) * wp.static(TURN_LIMIT * 4.0 * TURN_ONE))
        ease_drop = wp.clamp(stop_radius - wp.static(EASED_STOP_RADIUS), 0.0, wp.static(EASE_DROP))

        rebuild = bool(True)
        momentum = float(1.0)
        until_build = int(0)
        dropped = int(0)
        sweep = int(0)
        current = int(0)
        other = 2 * width
        while sweep < max_sweeps:
            # ``zero`` is 0, which the compiler does not know: it computes the addresses of a sweep
            # in the sweep instead of holding all of them in registers during the whole solve.
            zero = sweep >> 16
            x = float_row(buffers, current + zero, width)
            y = float_row(buffers, current + width + zero, width)
            move_x = float_row(moves[env + zero].ptr, zero, columns)
            move_y = float_row(moves[env + zero].ptr, columns + zero, columns)
            max_groups = run_counts.shape[1]
            center_x = float_row(centers[env + zero].ptr, zero, max_groups)
            center_y = float_row(centers[env + zero].ptr, max_groups + zero, max_groups)
            run_row = _short_row(runs[env + zero].ptr, runs.shape[1])
            run_count_row = _short_row(run_counts[env + zero].ptr, max_groups)
            # The row of ``points_out`` is free between loading and the last store: it holds the
            # positions that the lists were built from.
            reference_x = float_row(points.ptr, zero, count)
            reference_y = float_row(points.ptr, count + zero, count)
            if wp.static(mode == ADAPTIVE):
                if rebuild:
                    build_runs(
                        x,
                        y,
                        count,
                        window,
                        lane,
                        reference_x,
                        reference_y,
                        center_x,
                        center_y,
                        run_row,
                        run_count_row,
                    )
            if wp.static(mode == CACHE):
                if until_build == 0:
                    dropped += build_cache(
                        x,
                        y,
                        count,
                        window,
                        lane,
                        cache_radius,
                        cache_slots,
                        columns,
                        neighbors[env],
                        neighbor_counts[env],
                    )
                    until_build = cache_every
                until_build -= 1

            ease = wp.clamp(
                float(sweep - wp.static(EASE_BEGIN)) * wp.static(1.0 / EASE_SWEEPS), 0.0, 1.0
            )
            radius = stop_radius - ease_drop * ease
            flags = int(0)

            i = int(lane)
            while i < count:
                px = x[i + wp.static(HALO)]
                py = y[i + wp.static(HALO)]
                sum_x = float(0.0)
                sum_y = float(0.0)
                active = float(0.0)
                nearest2 = float(wp.static(CLEARANCE * CLEARANCE))
                if wp.static(mode == ADAPTIVE):
                    g = i // wp.static(GROUP)
                    slot = g * wp.static(2 * MAX_RUNS)
                    slot_end = slot + 2 * int(run_count_row[g])
                    while slot < slot_end:
                        unwrapped = wp.max(int(run_row[slot]), i + window + 1)
                        end = wp.min(int(run_row[slot + 1]), i + count - window)
                        while unwrapped < end:
                            j = wp.where(unwrapped >= count, unwrapped - count, unwrapped)
                            dx = px - x[j + wp.static(HALO)]
                            dy = py - y[j + wp.static(HALO)]
                            d2 = dx * dx + dy * dy
                            nearest2 = wp.min(nearest2, d2)
                            share = far_lack(d2)
                            sum_x += dx * share
                            sum_y += dy * share
                            active += wp.where(share > 0.0, 1.0, 0.0)
                            unwrapped += 1
                        slot += 2
                if wp.static(mode == DENSE):
                    unwrapped = i + window + 1
                    while unwrapped < i + count - window:
                        j = wp.where(unwrapped >= count, unwrapped - count, unwrapped)
                        dx = px - x[j + wp.static(HALO)]
                        dy = py - y[j + wp.static(HALO)]
                        d2 = dx * dx + dy * dy
                        nearest2 = wp.min(nearest2, d2)
                        share = far_lack(d2)
                        sum_x += dx * share
                        sum_y += dy * share
                        active += wp.where(share > 0.0, 1.0, 0.0)
                        unwrapped += 1
                if wp.static(mode == CACHE):
                    for s in range(int(neighbor_counts[env, i])):
                        j = int(neighbors[env, s * columns + i])
                        dx = px - x[j + wp.static(HALO)]
                        dy = py - y[j + wp.static(HALO)]
                        d2 = dx * dx + dy * dy
                        nearest2 = wp.min(nearest2, d2)
                        share = far_lack(d2)
                        sum_x += dx * share
                        sum_y += dy * share
                        active += wp.where(share > 0.0, 1.0, 0.0)
                if nearest2 < wp.static(NEAREST * NEAREST):
                    flags = flags | wp.static(VIOLATED)
                mean = 1.0 / wp.max(active, 1.0)
                move_x[i] = sum_x * mean
                move_y[i] = sum_y * mean
                i += wp.block_dim()

            state = correct(
                x,
                y,
                lane,
                count,
                rest2,
                bounds,
                1.0 / (radius * radius),
                move_x,
                move_y,
            )
            if state[0] > 0:
                flags = flags | wp.static(VIOLATED)
            damping = float(1.0)
            if sweep >= wp.static(CHEBYSHEV_START):
                damping = wp.static(CHEBYSHEV_DAMPING)
                momentum = 4.0 / (4.0 - wp.static(CHEBYSHEV_RHO2) * momentum)
                if sweep == wp.static(CHEBYSHEV_START):
                    momentum = wp.static(2.0 / (2.0 - CHEBYSHEV_RHO2))
            axis = int(0)
            while axis < 2:
                following = float_row(buffers, other + axis * width + zero, width)
                advance(
                    float_row(buffers, current + axis * width + zero, width),
                    float_row(moves[env + zero].ptr, axis * columns + zero, columns),
                    lane,
                    count,
                    momentum,
                    damping,
                    following,
                )
                wrap_ends(following, lane, tail, count)
                axis += 1
            next_x = float_row(buffers, other + zero, width)
            next_y = float_row(buffers, other + width + zero, width)
            if wp.static(mode == ADAPTIVE):
                if has_moved(next_x, next_y, reference_x, reference_y, lane, count):
                    flags = flags | wp.static(MOVED)

            vote = block_vote(flags, state[1], sweep & 1)
            if (vote[0] & wp.static(VIOLATED)) == 0 and vote[1] <= turn_limit:
                break
            rebuild = (vote[0] & wp.static(MOVED)) != 0
            swap = current
            current = other
            other = swap
            sweep += 1

        for step in range(2 * smoothing_passes):
            weight = wp.where(
                (step & 1) == 0, wp.static(0.5 * TAUBIN_SHRINK), wp.static(0.5 * TAUBIN_GROW)
            )
            axis = int(0)
            while axis < 2:
                before = float_row(buffers, current + axis * width, width)
                after = float_row(buffers, other + axis * width, width)
                smooth(before, lane, count, weight, after)
                wrap_ends(after, lane, tail, count)
                axis += 1
            block_sync()
            swap = current
            current = other
            other = swap
        x = float_row(buffers, current, width)
        y = float_row(buffers, current + width, width)
        for i in range(lane, count, wp.block_dim()):
            p = wp.vec2f(x[i + wp.static(HALO)], y[i + wp.static(HALO)])
            points[i] = origin + half_width * p
        if wp.static(mode == CACHE):
            dropped = block_sum_int(dropped)
        if lane == 0:
            sweeps_out[env] = sweep
            cache_overflow_out[env] = dropped

    return relax_kernel


def relax(
    points: wp.array,
    count: wp.array,
    length: wp.array,
    half_width: wp.array,
    pending: wp.array,
    sweeps: wp.array,
    cache_overflow: wp.array,
    config: RelaxConfig,
    scratch: RelaxScratch,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that relaxes closed polylines in place until the road clears itself.

    A row with fewer than 8 points, a point that is not finite or a half width that is not positive
    stays as it is. ``config.enable`` is the caller's business.

    Args:
        points: Points at equal arcs [length], vec2f [E, N_max]. Overwritten up to ``count``.
        count: Points per loop, int32 [E].
        length: Perimeter of the loop [length], float32 [E].
        half_width: Half width of the road [length], float32 [E].
        pending: Rows to relax, bool [E]; the others are not touched.
        sweeps: Sweeps applied, int32 [E]; written where pending.
        cache_overflow: Neighbours that did not fit into the cache, summed over its rebuilds,
            int32 [E]; written where pending.
        config: Settings of the stage.
        scratch: Work arrays.
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        make_relax_kernel(config.mode),
        points.shape[0],
        lanes,
        inputs=[
            count,
            length,
            half_width,
            pending,
            config.max_sweeps,
            config.stop_radius,
            config.smoothing_passes,
            config.sep_every or 0,
            config.sep_cache_slots,
            CLEARANCE * (1.0 + config.sep_cache_skin),
            scratch.positions,
            scratch.moves,
            scratch.centers,
            scratch.runs,
            scratch.run_counts,
            scratch.neighbors,
            scratch.neighbor_counts,
        ],
        outputs=[points, sweeps, cache_overflow],
        device=device,
    )
