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
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import warp as wp

from track_gen.block import (
    block_launch,
    block_lane,
    block_max,
    block_sum_int,
    block_sync,
    block_vote,
)
from track_gen.checks import check_bool, check_float, check_int
from track_gen.geometry import cos_sin

__all__ = ["RelaxConfig", "RelaxScratch", "relax"]

wp.set_module_options({"enable_backward": False})

# Lengths in units of the half width.
RADIUS = 1.6  # radius of the chord bound: above the stop radius, for chords push weakly near it
CLEARANCE = 2.4  # distance at which two stretches of road stop pushing
LIST_SKIN = 1.25  # lists of near stretches hold until a point has moved half of this
MAX_STEP = 0.5  # longest move per sweep; longer ones tunnel
NEAREST = 1.02 * 2.0  # two stretches of road closer than this overlap, or soon will
EASED_STOP_RADIUS = 1.05  # stop radius from sweep EASE_END on, unless the wanted one is less

SPACING_WEIGHT = 0.25
FOURTH_1 = 0.4 / 16.0
FOURTH_2 = 0.3 / 16.0
SPACING_TOLERANCE = 0.2
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
MAX_WINDOW = 15
HALO = 12  # wrapped copies on both sides of a loop: the longest stride
GROUP = 4
MAX_RUNS = 8
TURN_ONE = 262144.0  # 2^18 units of the integer turn sum: 2 * 2^18 * 4095 < 2^31
PI = 3.141592653589793

ADAPTIVE = 0
DENSE = 1
CACHE = 2

VIOLATED = 1
MOVED = 2


@dataclass(frozen=True, kw_only=True)
class RelaxConfig:
    """How the centreline is relaxed. ``TrackGenConfig`` holds these fields as ``relax_<field>``.

    ``sep_every``, ``sep_cache_slots`` and ``sep_cache_skin`` choose how a point finds the stretches
    of road that it must keep clear of:

    * None, 0 slots: exact lists, rebuilt when a point has moved too far. The default.
    * 1, 0 slots: exact scan of the whole loop in every sweep.
    * K > 1, S > 0 slots: a cache of at most S points per point, rebuilt every K sweeps. What does not
      fit is counted in ``cache_overflow``.
    """

    enable: bool = True
    """Whether the centreline is relaxed at all."""
    max_sweeps: int = 40
    """Most sweeps per track, in [0, 1000]."""
    stop_radius: float = 1.15
    """Least radius [half widths], in [1, 1.5], at which a track is left alone; larger is smoother."""
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
    """Two buffers of one loop with its halo [half widths], vec2f [E, 2 * (N_max + 2 * HALO)]."""
    far: wp.array
    """Correction by far stretches of road [half widths], vec2f [E, N_max]."""
    centers: wp.array
    """Group centres [half widths], vec2f [E, groups]."""
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
            positions=empty(2 * (N_max + 2 * HALO), wp.vec2f),
            far=empty(N_max, wp.vec2f),
            centers=empty(groups, wp.vec2f),
            runs=empty(groups * 2 * MAX_RUNS, wp.int16),
            run_counts=empty(groups, wp.int16),
            neighbors=empty(max(1, slots * N_max), wp.int16),
            neighbor_counts=empty(N_max if slots else 1, wp.int16),
        )


@wp.func
def _store(row: wp.array[wp.vec2f], base: int, i: int, count: int, position: wp.vec2f):
    """Write point ``i`` of the buffer at ``base`` and its copies in the halo."""
    row[base + i] = position
    if i < wp.static(HALO):
        row[base + i + count] = position
    if i >= count - wp.static(HALO):
        row[base + i - count] = position


@wp.func
def _push(sum: wp.vec3f, d: wp.vec2f, bound2: float) -> wp.vec3f:
    """Add the move away along ``d`` that half cures a chord shorter than its bound; z counts."""
    d2 = wp.dot(d, d)
    if d2 < bound2:
        f = (bound2 - d2) / (4.0 * d2 + 1.0e-6 * bound2)
        sum = sum + wp.vec3f(d[0] * f, d[1] * f, 1.0)
    return sum


@wp.func
def _chord_bound2(h: float, stride: int, window: int) -> float:
    """Squared least chord over ``stride`` points; 0 beyond the window."""
    if stride > window:
        return 0.0
    angle = wp.min(float(stride) * h * wp.static(0.5 / RADIUS), wp.static(0.5 * PI))
    chord = wp.min(wp.static(2.0 * RADIUS) * cos_sin(angle)[1], wp.static(CLEARANCE))
    return chord * chord


@wp.func
def _build_runs(
    row: wp.array[wp.vec2f],
    base: int,
    count: int,
    window: int,
    lane: int,
    reference: wp.array[wp.vec2f],
    centers: wp.array[wp.vec2f],
    runs: wp.array[wp.int16],
    run_counts: wp.array[wp.int16],
):
    """List, for each group of points, the runs of points that may come near it.

    A run is a range of unwrapped indices ``j`` in (i, i + count). Every point within the clearance
    and the skin of a group is in its runs: a full list stretches its last run instead of dropping
    any. Ends with a barrier.
    """
    groups = (count + wp.static(GROUP - 1)) // wp.static(GROUP)
    spread2 = float(0.0)
    for g in range(lane, groups, wp.block_dim()):
        begin = g * wp.static(GROUP)
        end = wp.min(begin + wp.static(GROUP), count)
        center = 0.5 * (row[base + begin] + row[base + end - 1])
        centers[g] = center
        for i in range(begin, end):
            p = row[base + i]
            reference[i] = p
            spread2 = wp.max(spread2, wp.length_sq(p - center))
    block_sync()
    stride2 = float(0.0)
    for g in range(lane, groups, wp.block_dim()):
        after = wp.where(g + 1 < groups, g + 1, 0)
        stride2 = wp.max(stride2, wp.length_sq(centers[after] - centers[g]))
    spread = wp.sqrt(block_max(spread2))
    stride = wp.sqrt(block_max(stride2))
    reach = wp.static(CLEARANCE + LIST_SKIN) + 2.0 * spread
    first = wp.max(1, (window - 2) // wp.static(GROUP))
    legal = count - 2 * window - 1
    for g in range(lane, groups, wp.block_dim()):
        begin = g * wp.static(GROUP)
        end = wp.min(begin + wp.static(GROUP), count)
        slot = g * wp.static(2 * MAX_RUNS)
        filled = int(0)
        run_end = int(-1)
        center = centers[g]
        s = int(first)
        while s <= groups - first:
            other = g + s
            shift = int(0)
            if other >= groups:
                other -= groups
                shift = count
            distance = wp.length(centers[other] - center)
            if distance >= reach:
                s += wp.max(1, int(wp.min((distance - reach) / stride, float(groups))))
            else:
                other_begin = other * wp.static(GROUP)
                other_end = wp.min(other_begin + wp.static(GROUP), count)
                for j in range(other_begin, other_end):
                    q = row[base + j]
                    unwrapped = j + shift
                    hit = bool(False)
                    for i in range(begin, end):
                        gap = unwrapped - i
                        if gap > window and gap - window <= legal:
                            near = wp.length_sq(row[base + i] - q)
                            if near < wp.static((CLEARANCE + LIST_SKIN) * (CLEARANCE + LIST_SKIN)):
                                hit = True
                    if hit:
                        if unwrapped != run_end and filled < wp.static(MAX_RUNS):
                            runs[slot + 2 * filled] = wp.int16(unwrapped)
                            filled += 1
                        run_end = unwrapped + 1
                        runs[slot + 2 * filled - 1] = wp.int16(run_end)
                s += 1
        run_counts[g] = wp.int16(filled)
    block_sync()


@wp.func
def _build_cache(
    row: wp.array[wp.vec2f],
    base: int,
    count: int,
    window: int,
    lane: int,
    radius: float,
    slots: int,
    columns: int,
    neighbors: wp.array[wp.int16],
    neighbor_counts: wp.array[wp.int16],
) -> int:
    """Store up to ``slots`` points within ``radius`` of each point; return how many did not fit."""
    radius2 = radius * radius
    dropped = int(0)
    for i in range(lane, count, wp.block_dim()):
        p = row[base + i]
        filled = int(0)
        for unwrapped in range(i + window + 1, i + count - window):
            j = wp.where(unwrapped >= count, unwrapped - count, unwrapped)
            if wp.length_sq(row[base + j] - p) < radius2:
                if filled < slots:
                    neighbors[filled * columns + i] = wp.int16(j)
                    filled += 1
                else:
                    dropped += 1
        neighbor_counts[i] = wp.int16(filled)
    return dropped


@wp.func
def _push_far(sum: wp.vec3f, d: wp.vec2f) -> wp.vec3f:
    return _push(sum, d, wp.static(CLEARANCE * CLEARANCE))


@lru_cache(maxsize=None)
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
        positions: wp.array2d[wp.vec2f],
        far: wp.array2d[wp.vec2f],
        centers: wp.array2d[wp.vec2f],
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
        if not pending_in[env]:
            return
        count = count_in[env]
        half_width = half_width_in[env]
        h = length_in[env] / float(count) / half_width
        usable = count >= wp.static(MIN_COUNT) and h > 0.0 and wp.isfinite(h)
        if lane == 0:
            sweeps_out[env] = 0
            cache_overflow_out[env] = 0
        if not usable:
            return

        # The row of ``points_out`` is free between loading and the last store: it holds the
        # positions that the lists were built from.
        points = points_out[env]
        row = positions[env]
        far_row = far[env]
        columns = points.shape[0]
        current = int(wp.static(HALO))
        other = int(columns + wp.static(3 * HALO))

        origin = points[0]
        bad = int(0)
        for i in range(lane, count, wp.block_dim()):
            p = (points[i] - origin) / half_width
            if not wp.isfinite(wp.dot(p, p)):
                bad = 1
            _store(row, current, i, count, p)
        if block_vote(bad, 0, 1)[0] != 0:
            return

        rest = h * (1.0 + 0.08 * wp.min(h, 1.0) * wp.min(h, 1.0))
        rest2 = rest * rest
        inverse_rest2 = 1.0 / rest2
        window = int(wp.min(wp.static(PI * RADIUS) / rest, wp.static(float(MAX_WINDOW))))
        window = wp.clamp(window, 2, wp.min((count - 1) // 2, wp.static(MAX_WINDOW)))
        bound_2 = _chord_bound2(rest, 2, window)
        bound_3 = _chord_bound2(rest, 3, window)
        bound_5 = _chord_bound2(rest, 5, window)
        bound_8 = _chord_bound2(rest, 8, window)
        bound_12 = _chord_bound2(rest, 12, window)
        spacing_limit = wp.static(2.0 * SPACING_TOLERANCE) * rest2
        turn_limit = int(float(count) * wp.static(TURN_LIMIT * 4.0 * TURN_ONE))
        ease_drop = wp.clamp(stop_radius - wp.static(EASED_STOP_RADIUS), 0.0, wp.static(EASE_DROP))

        rebuild = bool(True)
        momentum = float(1.0)
        until_build = int(0)
        dropped = int(0)
        sweep = int(0)
        while sweep < max_sweeps:
            if wp.static(mode == ADAPTIVE):
                if rebuild:
                    _build_runs(
                        row,
                        current,
                        count,
                        window,
                        lane,
                        points,
                        centers[env],
                        runs[env],
                        run_counts[env],
                    )
            if wp.static(mode == CACHE):
                if until_build == 0:
                    dropped += _build_cache(
                        row,
                        current,
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

            if sweep == wp.static(CHEBYSHEV_START):
                momentum = wp.static(2.0 / (2.0 - CHEBYSHEV_RHO2))
            elif sweep > wp.static(CHEBYSHEV_START):
                momentum = 4.0 / (4.0 - wp.static(CHEBYSHEV_RHO2) * momentum)
            ease = wp.clamp(
                float(sweep - wp.static(EASE_BEGIN)) * wp.static(1.0 / EASE_SWEEPS), 0.0, 1.0
            )
            radius = stop_radius - ease_drop * ease
            inverse_radius2 = 1.0 / (radius * radius)
            flags = int(0)
            turn = int(0)

            for i in range(lane, count, wp.block_dim()):
                p = row[current + i]
                sum = wp.vec3f(0.0, 0.0, 0.0)
                nearest2 = float(wp.static(CLEARANCE * CLEARANCE))
                if wp.static(mode == ADAPTIVE):
                    g = i // wp.static(GROUP)
                    for r in range(int(run_counts[env, g])):
                        slot = g * wp.static(2 * MAX_RUNS) + 2 * r
                        for unwrapped in range(int(runs[env, slot]), int(runs[env, slot + 1])):
                            gap = unwrapped - i
                            if gap > window and gap < count - window:
                                j = wp.where(unwrapped >= count, unwrapped - count, unwrapped)
                                d = p - row[current + j]
                                nearest2 = wp.min(nearest2, wp.dot(d, d))
                                sum = _push_far(sum, d)
                if wp.static(mode == DENSE):
                    for unwrapped in range(i + window + 1, i + count - window):
                        j = wp.where(unwrapped >= count, unwrapped - count, unwrapped)
                        d = p - row[current + j]
                        nearest2 = wp.min(nearest2, wp.dot(d, d))
                        sum = _push_far(sum, d)
                if wp.static(mode == CACHE):
                    for s in range(int(neighbor_counts[env, i])):
                        d = p - row[current + int(neighbors[env, s * columns + i])]
                        nearest2 = wp.min(nearest2, wp.dot(d, d))
                        sum = _push_far(sum, d)
                if nearest2 < wp.static(NEAREST * NEAREST):
                    flags = flags | wp.static(VIOLATED)
                c = wp.vec2f(0.0, 0.0)
                if sum[2] > 0.0:
                    c = wp.vec2f(sum[0] / sum[2], sum[1] / sum[2])
                far_row[i] = c

            for i in range(lane, count, wp.block_dim()):
                at = current + i
                p = row[at]
                p1 = row[at - 1]
                n1 = row[at + 1]
                p2 = row[at - 2]
                n2 = row[at + 2]
                dn = n1 - p
                dp = p - p1
                l2 = wp.dot(dn, dn)
                m2 = wp.dot(dp, dp)
                c = wp.static(SPACING_WEIGHT) * (
                    dn * ((l2 - rest2) / (l2 + rest2)) - dp * ((m2 - rest2) / (m2 + rest2))
                )
                c += wp.static(FOURTH_1) * (4.0 * (p1 + n1) - p2 - n2 - 6.0 * p)
                c += wp.static(FOURTH_2) * (4.0 * (p2 + n2) - row[at - 4] - row[at + 4] - 6.0 * p)
                sum = wp.vec3f(0.0, 0.0, 0.0)
                sum = _push(sum, p - p2, bound_2)
                sum = _push(sum, p - n2, bound_2)
                sum = _push(sum, p - row[at - 3], bound_3)
                sum = _push(sum, p - row[at + 3], bound_3)
                sum = _push(sum, p - row[at - 5], bound_5)
                sum = _push(sum, p - row[at + 5], bound_5)
                sum = _push(sum, p - row[at - 8], bound_8)
                sum = _push(sum, p - row[at + 8], bound_8)
                sum = _push(sum, p - row[at - 12], bound_12)
                sum = _push(sum, p - row[at + 12], bound_12)
                c += wp.vec2f(sum[0], sum[1]) / wp.max(sum[2], 1.0)
                c += far_row[i]
                c2 = wp.dot(c, c)
                if c2 > wp.static(MAX_STEP * MAX_STEP):
                    c *= wp.static(MAX_STEP) / wp.sqrt(c2)
                old = row[other + i]
                y = p + c
                if sweep >= wp.static(CHEBYSHEV_START):
                    y = momentum * (wp.static(CHEBYSHEV_DAMPING) * c + p - old) + old

                # The border runs backwards where the unit normal turns by more than edge / width.
                a = n1 - p1
                b = n2 - p
                ab = wp.sqrt(wp.dot(a, a) * wp.dot(b, b))
                if 2.0 * (ab - wp.dot(a, b)) > l2 * ab * inverse_radius2:
                    flags = flags | wp.static(VIOLATED)
                if wp.abs(l2 - rest2) > spacing_limit:
                    flags = flags | wp.static(VIOLATED)
                bend = (wp.sqrt(l2 * m2) - wp.dot(dn, dp)) * inverse_rest2
                turn += int(wp.min(bend, 2.0) * wp.static(TURN_ONE))
                if wp.static(mode == ADAPTIVE):
                    if wp.length_sq(y - points[i]) > wp.static(0.25 * LIST_SKIN * LIST_SKIN):
                        flags = flags | wp.static(MOVED)
                _store(row, other, i, count, y)

            vote = block_vote(flags, turn, sweep & 1)
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
            for i in range(lane, count, wp.block_dim()):
                at = current + i
                p = row[at]
                _store(row, other, i, count, p + weight * (row[at - 1] + row[at + 1] - 2.0 * p))
            block_sync()
            swap = current
            current = other
            other = swap
        for i in range(lane, count, wp.block_dim()):
            points[i] = origin + half_width * row[current + i]
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
        points: Centreline points at equal arcs [length], vec2f [E, N_max]. Overwritten up to ``count``.
        count: Points per loop, int32 [E].
        length: Perimeter of the loop [length], float32 [E].
        half_width: Half width of the road [length], float32 [E].
        pending: Rows to relax, bool [E]; the others are not touched.
        sweeps: Sweeps applied, int32 [E]; written where pending.
        cache_overflow: Neighbours that did not fit into the cache, summed over its rebuilds, int32 [E];
            written where pending.
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
            scratch.far,
            scratch.centers,
            scratch.runs,
            scratch.run_counts,
            scratch.neighbors,
            scratch.neighbor_counts,
        ],
        outputs=[points, sweeps, cache_overflow],
        device=device,
    )
