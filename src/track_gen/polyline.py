"""Closed polylines as ``@wp.func``: index arithmetic, arc length, lookup, the separation walk.

A closed polyline has ``count`` points without a repeated end point; edge ``i`` joins point ``i``
and its successor, the last edge closes the loop. Arc lengths are measured at the points:
``arc[0] = 0``, and the perimeter is ``arc[count - 1]`` plus the closing edge.
"""

from __future__ import annotations

import warp as wp

from track_gen.block import block_prefix_sum, block_sync

__all__ = [
    "arc_edge_near",
    "arc_segment",
    "measure_arc",
    "next_index",
    "planar",
    "previous_index",
    "to_turn_units",
    "turn_from_units",
    "walk_step",
]

wp.set_module_options({"enable_backward": False})

_TURN_UNITS = 65536.0
"""Fixed-point units of one radian: 4095 turns of pi fit into 31 bits."""


@wp.func
def next_index(i: int, count: int) -> int:
    """Index after ``i`` around the loop."""
    j = i + 1
    if j == count:
        j = 0
    return j


@wp.func
def previous_index(i: int, count: int) -> int:
    """Index before ``i`` around the loop."""
    j = i - 1
    if j < 0:
        j = count - 1
    return j


@wp.func
def planar(p: wp.vec3f) -> wp.vec2f:
    """Plan view of a point."""
    return wp.vec2f(p[0], p[1])


@wp.func
def to_turn_units(angle: float) -> int:
    """An angle in [-pi, pi] as a fixed-point integer, so that sums do not depend on their order."""
    return int(wp.round(angle * wp.static(_TURN_UNITS)))


@wp.func
def turn_from_units(units: int) -> float:
    """Angle [rad] of a sum of :func:`to_turn_units`."""
    return float(units) * wp.static(1.0 / _TURN_UNITS)


@wp.func
def walk_step(distance: float, reach: float, longest_edge: float) -> int:
    """Indices to advance in a separation walk, at least 1.

    A partner at ``distance`` moves by at most ``longest_edge`` per index, so every index that the
    step skips is still farther than ``reach``.
    """
    return wp.max(int(wp.min((distance - reach) / longest_edge, 1.0e6)), 1)


@wp.func
def measure_arc(
    points: wp.array2d[wp.vec2f],
    arc: wp.array2d[wp.float32],
    offsets: wp.array2d[wp.float32],
    env: int,
    lane: int,
    count: int,
) -> float:
    """Write the arc length at each point of a closed polyline and return its perimeter.

    Args:
        points: Points, shape [E, >= count].
        arc: Output, arc length at each point, shape [E, >= count].
        offsets: Scratch of :func:`block_prefix_sum`.
        env: Row.
        lane: Lane of the caller.
        count: Number of points, the same for the whole block and at least 1.

    Ends with a barrier. The perimeter is NaN or infinite if any point is not finite.
    """
    for i in range(lane, count, wp.block_dim()):
        edge = float(0.0)
        if i > 0:
            edge = wp.length(points[env, i] - points[env, i - 1])
        arc[env, i] = edge
    block_sync()
    block_prefix_sum(arc, offsets, env, lane, count)
    return arc[env, count - 1] + wp.length(points[env, 0] - points[env, count - 1])


@wp.func
def arc_edge_near(arc: wp.array[wp.float32], count: int, target: float, guess: int) -> int:
    """Edge that holds arc length ``target``: the last ``e`` with ``arc[e] <= target``, or 0.

    Walks from ``guess``, so it costs the distance to the answer; the answer does not depend on it.
    """
    e = wp.clamp(guess, 0, count - 1)
    while e > 0 and arc[e] > target:
        e -= 1
    while e + 1 < count and arc[e + 1] <= target:
        e += 1
    return e


@wp.func
def arc_segment(ends: wp.array2d[wp.float32], env: int, count: int, target: float) -> int:
    """Edge that holds arc length ``target``, by binary search: the first whose end lies beyond.

    Here ``ends[env, e]`` is the arc length at the end of edge ``e``, as :func:`block_prefix_sum` of
    the edge lengths gives it; the last edge if no end lies beyond ``target``.
    """
    low = int(0)
    high = count - 1
    while low < high:
        middle = (low + high) // 2
        if ends[env, middle] > target:
            high = middle
        else:
            low = middle + 1
    return low
