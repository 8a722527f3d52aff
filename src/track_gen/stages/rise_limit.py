"""Loops of limited rise: the largest minorant and the least majorant of given heights.

Both are running minima and maxima of ``height -+ distance`` (McShane: Extension of range of
functions, Bull. AMS 40, 1934), where the distance of two points is the largest rise between them.
Minima do not depend on their order, and the distances are a prefix sum in fixed chunks, so any
number of lanes gives the same bits.
"""

from __future__ import annotations

import warp as wp

from track_gen.block import SCAN_CHUNK, block_sync

__all__ = ["least", "limit_rise", "most"]

wp.set_module_options({"enable_backward": False})


@wp.func
def least(a: float, b: float) -> float:
    """The lesser of two numbers; unlike ``wp.min`` it spends nothing on NaN."""
    return wp.where(b < a, b, a)


@wp.func
def most(a: float, b: float) -> float:
    """The larger of two numbers; unlike ``wp.max`` it spends nothing on NaN."""
    return wp.where(b > a, b, a)


@wp.func
def limit_rise(
    values: wp.array[wp.float32],
    metric: wp.array[wp.float32],
    total: float,
    upper_weight: float,
    lower: wp.array[wp.float32],
    upper: wp.array[wp.float32],
    extremes: wp.array[wp.float32],
    lane: int,
    count: int,
):
    """Replace values by a blend of their minorant and majorant of limited rise round the loop.

    Args:
        values: Heights, overwritten, shape [>= count].
        metric: Largest rise from point 0 to each point, shape [>= count].
        total: Largest rise round the whole loop.
        upper_weight: Weight of the majorant: 0.5 is the mean, 0 the minorant alone.
        lower: Scratch, shape [>= count].
        upper: Scratch, shape [>= count]; not touched if ``upper_weight`` is 0.
        extremes: Scratch, shape [>= 4 * scan_offsets_size(count)].
        lane: Lane of the caller.
        count: Number of points, the same for the whole block.

    The caller has a barrier between writing ``values`` and ``metric`` and this call; it ends with
    one.
    """
    chunks = (count + wp.static(SCAN_CHUNK - 1)) // wp.static(SCAN_CHUNK)
    chunk = int(lane)
    while chunk < chunks:
        low_minus = float(wp.inf)
        low_plus = float(wp.inf)
        high_minus = float(-wp.inf)
        high_plus = float(-wp.inf)
        i = chunk * wp.static(SCAN_CHUNK)
        end = wp.min(i + wp.static(SCAN_CHUNK), count)
        while i < end:
            minus = values[i] - metric[i]
            plus = values[i] + metric[i]
            low_minus = least(low_minus, minus)
            low_plus = least(low_plus, plus)
            if upper_weight > 0.0:
                high_minus = most(high_minus, minus)
                high_plus = most(high_plus, plus)
            i += 1
        extremes[4 * chunk] = low_minus
        extremes[4 * chunk + 1] = low_plus
        extremes[4 * chunk + 2] = high_minus
        extremes[4 * chunk + 3] = high_plus
        chunk += wp.block_dim()
    block_sync()

    # Once round the loop, every point reaches every other one.
    round_low_minus = float(wp.inf)
    round_low_plus = float(wp.inf)
    round_high_minus = float(-wp.inf)
    round_high_plus = float(-wp.inf)
    chunk = int(0)
    while chunk < chunks:
        round_low_minus = least(round_low_minus, extremes[4 * chunk])
        round_low_plus = least(round_low_plus, extremes[4 * chunk + 1])
        round_high_minus = most(round_high_minus, extremes[4 * chunk + 2])
        round_high_plus = most(round_high_plus, extremes[4 * chunk + 3])
        chunk += 1
    round_low_minus += total
    round_low_plus += total
    round_high_minus -= total
    round_high_plus -= total

    # Forwards from the points before, then backwards from those after.
    low_before = float(wp.inf)
    high_before = float(-wp.inf)
    seen = int(0)
    chunk = int(lane)
    while chunk < chunks:
        while seen < chunk:
            low_before = least(low_before, extremes[4 * seen])
            high_before = most(high_before, extremes[4 * seen + 3])
            seen += 1
        low = least(low_before, round_low_minus)
        high = most(high_before, round_high_plus)
        i = chunk * wp.static(SCAN_CHUNK)
        end = wp.min(i + wp.static(SCAN_CHUNK), count)
        while i < end:
            distance = metric[i]
            low = least(low, values[i] - distance)
            lower[i] = low + distance
            if upper_weight > 0.0:
                high = most(high, values[i] + distance)
                upper[i] = high - distance
            i += 1
        chunk += wp.block_dim()
    block_sync()
    low_after = float(wp.inf)
    high_after = float(-wp.inf)
    seen = chunks - 1
    chunk = chunks - 1 - lane
    while chunk >= 0:
        while seen > chunk:
            low_after = least(low_after, extremes[4 * seen + 1])
            high_after = most(high_after, extremes[4 * seen + 2])
            seen -= 1
        low = least(low_after, round_low_plus)
        high = most(high_after, round_high_minus)
        begin = chunk * wp.static(SCAN_CHUNK)
        i = wp.min(begin + wp.static(SCAN_CHUNK), count) - 1
        while i >= begin:
            distance = metric[i]
            low = least(low, values[i] + distance)
            value = least(lower[i], low - distance)
            if upper_weight > 0.0:
                high = most(high, values[i] - distance)
                value += upper_weight * (most(upper[i], high + distance) - value)
            values[i] = value
            i -= 1
        chunk -= wp.block_dim()
    block_sync()
