"""Neighbour search of the relaxation: the far stretches of road that each point keeps clear of.

Two ways to store them: exact lists of runs of points per group of points, which hold until a point
has moved half a skin, and a cache of a fixed number of points per point. Lengths are in units of
the half width.
"""

from __future__ import annotations

import warp as wp

from track_gen.block import block_max, block_sync
from track_gen.stages.loop_rows import HALO

__all__ = [
    "CLEARANCE",
    "GROUP",
    "MAX_RUNS",
    "build_cache",
    "build_runs",
    "far_lack",
    "has_moved",
]

wp.set_module_options({"enable_backward": False})

CLEARANCE = 2.4  # distance at which two stretches of road stop pushing
LIST_SKIN = 1.25  # lists of near stretches hold until a point has moved half of this
GROUP = 4  # points that share a list
MAX_RUNS = 8


@wp.func
def far_lack(d2: float) -> float:
    """Share of their distance that each of two far points moves; 0 beyond the clearance."""
    bound2 = wp.static(CLEARANCE * CLEARANCE)
    return wp.max(bound2 - d2, 0.0) / (4.0 * d2 + 1.0e-6 * bound2)


@wp.func
def _distance2(ax: float, ay: float, bx: float, by: float) -> float:
    return (ax - bx) * (ax - bx) + (ay - by) * (ay - by)


@wp.func
def has_moved(
    x: wp.array[wp.float32],
    y: wp.array[wp.float32],
    reference_x: wp.array[wp.float32],
    reference_y: wp.array[wp.float32],
    lane: int,
    count: int,
) -> bool:
    """Whether a point is half the skin away from where the lists saw it."""
    far = int(0)
    i = int(lane)
    while i < count:
        dx = x[i + wp.static(HALO)] - reference_x[i]
        dy = y[i + wp.static(HALO)] - reference_y[i]
        far += wp.where(dx * dx + dy * dy > wp.static(0.25 * LIST_SKIN * LIST_SKIN), 1, 0)
        i += wp.block_dim()
    return far > 0


@wp.func
def build_runs(
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
def build_cache(
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
