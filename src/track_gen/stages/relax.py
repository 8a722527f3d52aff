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
from functools import cache

import warp as wp

from track_gen.block import (
    block_lane,
    block_launch,
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
STRIDES = wp.types.vector(length=5, dtype=wp.int32)(2, 3, 5, 8, 12)  # of chords along the curve
HALO = 12  # wrapped copies on both sides of a loop: the longest stride
GROUP = 4
MAX_RUNS = 8
TURN_ONE = 262144.0  # 2^18 units of the integer turn sum: 2 * 2^18 * 4095 < 2^31
PI = 3.141592653589793

Bounds = wp.types.vector(length=5, dtype=wp.float32)

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


# Loops are written with ``while`` over plain float rows, x and y apart, with indices that the
# compiler knows not to be negative, and they count and add integers instead of setting flags: on
# the CPU, where a block is one lane, they are then vectorised. Where an ``if`` only guards
# arithmetic it becomes a blend there and stays a branch on CUDA.


@wp.func
def _row(base: wp.uint64, offset: int, size: int) -> wp.array[wp.float32]:
    """View of ``size`` floats from element ``offset`` on."""
    return wp.array(ptr=base + wp.uint64(4 * offset), shape=(size,), dtype=wp.float32)


@wp.func
def _short_row(base: wp.uint64, size: int) -> wp.array[wp.int16]:
    return wp.array(ptr=base, shape=(size,), dtype=wp.int16)


@wp.func
def _chord_bound2(h: float, stride: int, window: int) -> float:
    """Squared least chord over ``stride`` points; 0 beyond the window."""
    if stride > window:
        return 0.0
    angle = wp.min(float(stride) * h * wp.static(0.5 / RADIUS), wp.static(0.5 * PI))
    chord = wp.min(wp.static(2.0 * RADIUS) * cos_sin(angle)[1], wp.static(CLEARANCE))
    return chord * chord


@wp.func
def _lack(dx: float, dy: float, bound2: float) -> float:
    """Share of the chord ``d`` that each of its ends moves; > 0 if it is shorter than its bound."""
    d2 = dx * dx + dy * dy
    share = float(0.0)
    if d2 < bound2:
        share = (bound2 - d2) / (4.0 * d2 + 1.0e-6 * bound2)
    return share


@wp.func
def _far_lack(d2: float) -> float:
    """:func:`_lack` of a far stretch of road, without a branch."""
    bound2 = wp.static(CLEARANCE * CLEARANCE)
    return wp.max(bound2 - d2, 0.0) / (4.0 * d2 + 1.0e-6 * bound2)


@wp.func
def _distance2(ax: float, ay: float, bx: float, by: float) -> float:
    return (ax - bx) * (ax - bx) + (ay - by) * (ay - by)


@wp.func
def _correct(
    x: wp.array[wp.float32],
    y: wp.array[wp.float32],
    lane: int,
    count: int,
    rest2: float,
    bounds: Bounds,
    inverse_radius2: float,
    move_x: wp.array[wp.float32],
    move_y: wp.array[wp.float32],
) -> wp.vec2i:
    """Add spacing, filters and near chords to the moves and clamp them.

    Returns VIOLATED or 0, and the turn sum of the loop as it is.
    """
    faults = int(0)
    turn = int(0)
    inverse_rest2 = 1.0 / rest2
    spacing_limit = wp.static(2.0 * SPACING_TOLERANCE) * rest2
    i = int(lane)
    while i < count:
        at = i + wp.static(HALO)
        px = x[at]
        py = y[at]
        p1x = x[at - 1]
        p1y = y[at - 1]
        n1x = x[at + 1]
        n1y = y[at + 1]
        p2x = x[at - 2]
        p2y = y[at - 2]
        n2x = x[at + 2]
        n2y = y[at + 2]
        dnx = n1x - px
        dny = n1y - py
        dpx = px - p1x
        dpy = py - p1y
        l2 = dnx * dnx + dny * dny
        m2 = dpx * dpx + dpy * dpy
        ln = wp.static(SPACING_WEIGHT) * (l2 - rest2) / (l2 + rest2)
        lp = wp.static(SPACING_WEIGHT) * (m2 - rest2) / (m2 + rest2)
        cx = move_x[i] + dnx * ln - dpx * lp
        cy = move_y[i] + dny * ln - dpy * lp
        cx += wp.static(FOURTH_1) * (4.0 * (p1x + n1x) - p2x - n2x - 6.0 * px)
        cy += wp.static(FOURTH_1) * (4.0 * (p1y + n1y) - p2y - n2y - 6.0 * py)
        cx += wp.static(FOURTH_2) * (4.0 * (p2x + n2x) - x[at - 4] - x[at + 4] - 6.0 * px)
        cy += wp.static(FOURTH_2) * (4.0 * (p2y + n2y) - y[at - 4] - y[at + 4] - 6.0 * py)
        sum_x = float(0.0)
        sum_y = float(0.0)
        active = float(0.0)
        for k in range(wp.static(len(STRIDES))):
            bound2 = bounds[k]
            for side in range(2):
                offset = wp.static(STRIDES)[k] * (1 - 2 * side)
                dx = px - x[at + offset]
                dy = py - y[at + offset]
                share = _lack(dx, dy, bound2)
                sum_x += dx * share
                sum_y += dy * share
                active += wp.where(share > 0.0, 1.0, 0.0)
        mean = 1.0 / wp.max(active, 1.0)
        cx += sum_x * mean
        cy += sum_y * mean
        c2 = cx * cx + cy * cy
        if c2 > wp.static(MAX_STEP * MAX_STEP):
            shorten = wp.static(MAX_STEP) / wp.sqrt(c2)
            cx *= shorten
            cy *= shorten
        move_x[i] = cx
        move_y[i] = cy

        # The border runs backwards where the unit normal turns by more than edge / half width.
        ax = n1x - p1x
        ay = n1y - p1y
        bx = n2x - px
        by = n2y - py
        ab = wp.sqrt((ax * ax + ay * ay) * (bx * bx + by * by))
        margin = 2.0 * (ab - (ax * bx + ay * by)) - l2 * ab * inverse_radius2
        faults += wp.where(margin > 0.0, 1, 0)
        faults += wp.where(wp.abs(l2 - rest2) > spacing_limit, 1, 0)
        bend = (wp.sqrt(l2 * m2) - (dnx * dpx + dny * dpy)) * inverse_rest2
        turn += int(wp.min(bend, 2.0) * wp.static(TURN_ONE))
        i += wp.block_dim()
    return wp.vec2i(wp.where(faults > 0, wp.static(VIOLATED), 0), turn)


@wp.func
def _advance(
    now: wp.array[wp.float32],
    move: wp.array[wp.float32],
    lane: int,
    count: int,
    momentum: float,
    damping: float,
    previous: wp.array[wp.float32],
):
    """Replace one coordinate of the previous iterate by the next; both factors 1: plain Jacobi."""
    i = int(lane)
    while i < count:
        old = previous[i + wp.static(HALO)]
        step = now[i + wp.static(HALO)] - old + damping * move[i]
        previous[i + wp.static(HALO)] = momentum * step + old
        i += wp.block_dim()


@wp.func
def _taubin(
    now: wp.array[wp.float32],
    lane: int,
    count: int,
    weight: float,
    following: wp.array[wp.float32],
):
    """One half step of one coordinate."""
    i = int(lane)
    while i < count:
        at = i + wp.static(HALO)
        p = now[at]
        following[at] = p + weight * (now[at - 1] + now[at + 1] - 2.0 * p)
        i += wp.block_dim()


@wp.func
def _wrap(row: wp.array[wp.float32], lane: int, tail: int, count: int):
    """Copy the ends of a loop into its halo; each lane copies the points that it wrote itself."""
    i = int(lane)
    while i < wp.min(count, wp.static(HALO)):
        row[i + count + wp.static(HALO)] = row[i + wp.static(HALO)]
        i += wp.block_dim()
    i = int(tail)
    while i < count:
        row[i - count + wp.static(HALO)] = row[i + wp.static(HALO)]
        i += wp.block_dim()


@wp.func
def _has_moved(
    x: wp.array[wp.float32],
    y: wp.array[wp.float32],
    reference_x: wp.array[wp.float32],
    reference_y: wp.array[wp.float32],
    lane: int,
    count: int,
) -> int:
    """MOVED if a point is half the skin away from where the lists saw it."""
    flags = int(0)
    i = int(lane)
    while i < count:
        dx = x[i + wp.static(HALO)] - reference_x[i]
        dy = y[i + wp.static(HALO)] - reference_y[i]
        far = dx * dx + dy * dy > wp.static(0.25 * LIST_SKIN * LIST_SKIN)
        flags = flags | wp.where(far, wp.static(MOVED), 0)
        i += wp.block_dim()
    return flags


@wp.func
def _build_runs(
    x: wp.array[wp.float32],
    y: wp.array[wp.float32],
    count: int,
    window: int,
    lane: int,
    reference_x: wp.array[wp.float32],
    reference_y: wp.array[wp.float32],
    center_x: wp.array[wp.float32],
    center_y: wp.array[wp.float32],
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
    g = int(lane)
    while g < groups:
        begin = g * wp.static(GROUP)
        end = wp.min(begin + wp.static(GROUP), count)
        first_at = begin + wp.static(HALO)
        last_at = end + wp.static(HALO - 1)
        cx = 0.5 * (x[first_at] + x[last_at])
        cy = 0.5 * (y[first_at] + y[last_at])
        center_x[g] = cx
        center_y[g] = cy
        i = int(begin)
        while i < end:
            px = x[i + wp.static(HALO)]
            py = y[i + wp.static(HALO)]
            reference_x[i] = px
            reference_y[i] = py
            spread2 = wp.max(spread2, (px - cx) * (px - cx) + (py - cy) * (py - cy))
            i += 1
        g += wp.block_dim()
    block_sync()
    stride2 = float(0.0)
    g = int(lane)
    while g < groups:
        after = wp.where(g + 1 < groups, g + 1, 0)
        dx = center_x[after] - center_x[g]
        dy = center_y[after] - center_y[g]
        stride2 = wp.max(stride2, dx * dx + dy * dy)
        g += wp.block_dim()
    stride = wp.sqrt(block_max(stride2))
    reach = wp.static(CLEARANCE + LIST_SKIN) + 2.0 * wp.sqrt(block_max(spread2))
    reach2 = reach * reach
    leap2 = (reach + 4.0 * stride) * (reach + 4.0 * stride)
    first = wp.max(1, (window - 2) // wp.static(GROUP))
    g = int(lane)
    while g < groups:
        begin = g * wp.static(GROUP)
        last = wp.min(begin + wp.static(GROUP), count) - 1
        cx = center_x[g]
        cy = center_y[g]
        at = begin + wp.static(HALO)
        last_at = last + wp.static(HALO)
        x0 = x[at]
        y0 = y[at]
        x1 = x[wp.min(at + 1, last_at)]
        y1 = y[wp.min(at + 1, last_at)]
        x2 = x[wp.min(at + 2, last_at)]
        y2 = y[wp.min(at + 2, last_at)]
        x3 = x[last_at]
        y3 = y[last_at]
        slot = g * wp.static(2 * MAX_RUNS)
        filled = int(0)
        run_end = int(-1)
        s = int(first)
        while s <= groups - first:
            other = g + s
            shift = int(0)
            if other >= groups:
                other -= groups
                shift = count
            dx = center_x[other] - cx
            dy = center_y[other] - cy
            distance2 = dx * dx + dy * dy
            if distance2 >= leap2:
                # No centre on the way can be in reach: a step along the groups is at most a stride.
                s += int(wp.min((wp.sqrt(distance2) - reach) / stride, float(groups)))
            else:
                if distance2 < reach2:
                    j = other * wp.static(GROUP)
                    end = wp.min(j + wp.static(GROUP), count)
                    # Points beyond the window of at least one point of the group.
                    j = wp.max(j, begin + window + 1 - shift)
                    end = wp.min(end, last + count - window - shift)
                    while j < end:
                        qx = x[j + wp.static(HALO)]
                        qy = y[j + wp.static(HALO)]
                        near2 = wp.min(
                            wp.min(_distance2(x0, y0, qx, qy), _distance2(x1, y1, qx, qy)),
                            wp.min(_distance2(x2, y2, qx, qy), _distance2(x3, y3, qx, qy)),
                        )
                        if near2 < wp.static((CLEARANCE + LIST_SKIN) ** 2.0):
                            unwrapped = j + shift
                            if unwrapped != run_end and filled < wp.static(MAX_RUNS):
                                runs[slot + 2 * filled] = wp.int16(unwrapped)
                                filled += 1
                            run_end = unwrapped + 1
                            runs[slot + 2 * filled - 1] = wp.int16(run_end)
                        j += 1
                s += 1
        run_counts[g] = wp.int16(filled)
        g += wp.block_dim()
    block_sync()


@wp.func
def _build_cache(
    x: wp.array[wp.float32],
    y: wp.array[wp.float32],
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
    dropped = int(0)
    i = int(lane)
    while i < count:
        px = x[i + wp.static(HALO)]
        py = y[i + wp.static(HALO)]
        filled = int(0)
        unwrapped = i + window + 1
        while unwrapped < i + count - window:
            j = wp.where(unwrapped >= count, unwrapped - count, unwrapped)
            dx = x[j + wp.static(HALO)] - px
            dy = y[j + wp.static(HALO)] - py
            if dx * dx + dy * dy < radius * radius:
                if filled < slots:
                    neighbors[filled * columns + i] = wp.int16(j)
                    filled += 1
                else:
                    dropped += 1
            unwrapped += 1
        neighbor_counts[i] = wp.int16(filled)
        i += wp.block_dim()
    return dropped


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
        first_x = _row(buffers, 0, width)
        first_y = _row(buffers, width, width)
        second_x = _row(buffers, 2 * width, width)
        second_y = _row(buffers, 3 * width, width)
        skip = wp.max(count - wp.static(HALO) - lane + wp.block_dim() - 1, 0) // wp.block_dim()
        tail = lane + skip * wp.block_dim()
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
                buffer = _row(buffers, row * width, width)
                buffer[k] = 0.0
                buffer[k + 2 * count + wp.static(HALO)] = 0.0
            k += wp.block_dim()
        _wrap(first_x, lane, tail, count)
        _wrap(first_y, lane, tail, count)
        if block_vote(bad, 0, 1)[0] != 0:
            return

        rest = h * (1.0 + 0.08 * wp.min(h, 1.0) * wp.min(h, 1.0))
        rest2 = rest * rest
        window = int(wp.min(wp.static(PI * RADIUS) / rest, wp.static(float(MAX_WINDOW))))
        window = wp.clamp(window, 2, wp.min((count - 1) // 2, wp.static(MAX_WINDOW)))
        bounds = Bounds()
        for k in range(wp.static(len(STRIDES))):
            bounds[k] = _chord_bound2(rest, wp.static(STRIDES)[k], window)
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
            x = _row(buffers, current + zero, width)
            y = _row(buffers, current + width + zero, width)
            move_x = _row(moves[env + zero].ptr, zero, columns)
            move_y = _row(moves[env + zero].ptr, columns + zero, columns)
            max_groups = run_counts.shape[1]
            center_x = _row(centers[env + zero].ptr, zero, max_groups)
            center_y = _row(centers[env + zero].ptr, max_groups + zero, max_groups)
            run_row = _short_row(runs[env + zero].ptr, runs.shape[1])
            run_count_row = _short_row(run_counts[env + zero].ptr, max_groups)
            # The row of ``points_out`` is free between loading and the last store: it holds the
            # positions that the lists were built from.
            reference_x = _row(points.ptr, zero, count)
            reference_y = _row(points.ptr, count + zero, count)
            if wp.static(mode == ADAPTIVE):
                if rebuild:
                    _build_runs(
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
                    dropped += _build_cache(
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
                            share = _far_lack(d2)
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
                        share = _far_lack(d2)
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
                        share = _far_lack(d2)
                        sum_x += dx * share
                        sum_y += dy * share
                        active += wp.where(share > 0.0, 1.0, 0.0)
                if nearest2 < wp.static(NEAREST * NEAREST):
                    flags = flags | wp.static(VIOLATED)
                mean = 1.0 / wp.max(active, 1.0)
                move_x[i] = sum_x * mean
                move_y[i] = sum_y * mean
                i += wp.block_dim()

            state = _correct(
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
            flags = flags | state[0]
            damping = float(1.0)
            if sweep >= wp.static(CHEBYSHEV_START):
                damping = wp.static(CHEBYSHEV_DAMPING)
                momentum = 4.0 / (4.0 - wp.static(CHEBYSHEV_RHO2) * momentum)
                if sweep == wp.static(CHEBYSHEV_START):
                    momentum = wp.static(2.0 / (2.0 - CHEBYSHEV_RHO2))
            axis = int(0)
            while axis < 2:
                following = _row(buffers, other + axis * width + zero, width)
                _advance(
                    _row(buffers, current + axis * width + zero, width),
                    _row(moves[env + zero].ptr, axis * columns + zero, columns),
                    lane,
                    count,
                    momentum,
                    damping,
                    following,
                )
                _wrap(following, lane, tail, count)
                axis += 1
            next_x = _row(buffers, other + zero, width)
            next_y = _row(buffers, other + width + zero, width)
            if wp.static(mode == ADAPTIVE):
                flags = flags | _has_moved(next_x, next_y, reference_x, reference_y, lane, count)

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
                before = _row(buffers, current + axis * width, width)
                after = _row(buffers, other + axis * width, width)
                _taubin(before, lane, count, weight, after)
                _wrap(after, lane, tail, count)
                axis += 1
            block_sync()
            swap = current
            current = other
            other = swap
        x = _row(buffers, current, width)
        y = _row(buffers, current + width, width)
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
