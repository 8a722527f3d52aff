"""Inflate: turn a relaxed centreline into a road with frames, borders, arc length, curvature."""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from track_gen.block import (
    block_lane,
    block_launch,
    block_max,
    block_min,
    block_sum_int,
    block_sync,
    scan_offsets_size,
)
from track_gen.geometry import left_of, turn_angle
from track_gen.polyline import (
    arc_edge_near,
    measure_arc,
    next_index,
    previous_index,
    to_turn_units,
)

__all__ = ["InflateScratch", "inflate"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@dataclass
class InflateScratch:
    """Arrays that :func:`inflate` works in; first dimension E, nothing is kept between calls."""

    points: wp.array
    """Once re-spaced points, vec2f, shape [E, N_max]."""
    offsets: wp.array
    """Chunk offsets of the arc length scan, float32, shape [E, scan_offsets_size(N_max)]."""

    @classmethod
    def allocate(cls, num_envs: int, N_max: int, device: wp.Device) -> InflateScratch:
        """Allocate for ``num_envs`` rows of ``N_max`` points: about 8.3 bytes per point."""
        return cls(
            points=wp.empty((num_envs, N_max), dtype=wp.vec2f, device=device),
            offsets=wp.empty((num_envs, scan_offsets_size(N_max)), dtype=wp.float32, device=device),
        )


@wp.func
def _respace(
    points: wp.array2d[wp.vec2f],
    arc: wp.array2d[wp.float32],
    env: int,
    lane: int,
    count: int,
    perimeter: float,
    respaced: wp.array2d[wp.vec2f],
):
    """Write ``count`` points at equal arcs of a measured polyline, relative to its first point.

    Edges are looked up by polygon length; on an edge the points follow the Catmull-Rom cubic, as
    chords would cut every corner a little. Ends with a barrier.
    """
    arc_row = arc[env]
    origin = points[env, 0]
    spacing = perimeter / float(count)
    edge = lane
    for k in range(lane, count, wp.block_dim()):
        target = float(k) * spacing
        edge = arc_edge_near(arc_row, count, target, edge)
        start = arc_row[edge]
        end = perimeter
        if edge + 1 < count:
            end = arc_row[edge + 1]
        fraction = float(0.0)
        if end > start:
            fraction = wp.clamp((target - start) / (end - start), 0.0, 1.0)
        following = next_index(edge, count)
        a = points[env, edge]
        b = points[env, following]
        slope_a = 0.5 * (b - points[env, previous_index(edge, count)])
        slope_b = 0.5 * (points[env, next_index(following, count)] - a)
        t = fraction
        t2 = t * t
        moved = (3.0 - 2.0 * t) * t2 * (b - a) + t * (1.0 - t) * ((1.0 - t) * slope_a - t * slope_b)
        respaced[env, k] = (a - origin) + moved
        edge += wp.block_dim()
    block_sync()


@wp.kernel
def inflate_kernel(
    # In:
    count_in: wp.array[wp.int32],
    half_width_in: wp.array[wp.float32],
    pending_in: wp.array[wp.bool],
    N_max: int,
    # Scratch:
    points: wp.array2d[wp.vec2f],
    respaced: wp.array2d[wp.vec2f],
    offsets: wp.array2d[wp.float32],
    # Out:
    center_out: wp.array2d[wp.vec3f],
    outer_out: wp.array2d[wp.vec3f],
    inner_out: wp.array2d[wp.vec3f],
    tangent_out: wp.array2d[wp.vec3f],
    normal_out: wp.array2d[wp.vec3f],
    up_out: wp.array2d[wp.vec3f],
    arclen_out: wp.array2d[wp.float32],
    curvature_out: wp.array2d[wp.float32],
    length_out: wp.array[wp.float32],
    spacing_out: wp.array[wp.float32],
    winding_out: wp.array[wp.int32],
):
    """Re-space the centreline and write the road of every pending env. Launch dim (E, lanes).

    ``points`` holds the centreline on entry. A centreline that is not finite, has no points or no
    length becomes NaN as a whole.
    """
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    n = count_in[env]
    if n > N_max:
        n = 0
    half_width = half_width_in[env]

    # The first pass evens the edges out to 2 or 3 %, the second to 1 %, the third to 0.3 %.
    perimeter = float(0.0)
    if n > 0:
        perimeter = measure_arc(points, arclen_out, offsets, env, lane, n)
    if perimeter > 0.0 and perimeter < 1.0e30:
        _respace(points, arclen_out, env, lane, n, perimeter, respaced)
        perimeter = measure_arc(respaced, arclen_out, offsets, env, lane, n)
        _respace(respaced, arclen_out, env, lane, n, perimeter, points)
        perimeter = measure_arc(points, arclen_out, offsets, env, lane, n)
        _respace(points, arclen_out, env, lane, n, perimeter, respaced)
        perimeter = measure_arc(respaced, arclen_out, offsets, env, lane, n)

        turn_sum = int(0)
        low_x = float(1.0e30)
        low_y = float(1.0e30)
        high_x = float(-1.0e30)
        high_y = float(-1.0e30)
        for i in range(lane, n, wp.block_dim()):
            p = respaced[env, i]
            incoming = p - respaced[env, previous_index(i, n)]
            outgoing = respaced[env, next_index(i, n)] - p
            tangent = wp.normalize(incoming + outgoing)
            normal = left_of(tangent)
            turn = turn_angle(incoming, outgoing)
            turn_sum += to_turn_units(turn)
            mean_edge = 0.5 * (wp.length(incoming) + wp.length(outgoing))
            curvature = float(0.0)
            if mean_edge > 0.0:
                curvature = turn / mean_edge
            curvature_out[env, i] = curvature
            tangent_out[env, i] = wp.vec3f(tangent[0], tangent[1], 0.0)
            normal_out[env, i] = wp.vec3f(normal[0], normal[1], 0.0)
            up_out[env, i] = wp.vec3f(0.0, 0.0, 1.0)
            reach_x = half_width * wp.abs(normal[0])
            reach_y = half_width * wp.abs(normal[1])
            low_x = wp.min(low_x, p[0] - reach_x)
            low_y = wp.min(low_y, p[1] - reach_y)
            high_x = wp.max(high_x, p[0] + reach_x)
            high_y = wp.max(high_y, p[1] + reach_y)
        turn_sum = block_sum_int(turn_sum)
        middle_x = 0.5 * (block_min(low_x) + block_max(high_x))
        middle_y = 0.5 * (block_min(low_y) + block_max(high_y))

        winding = int(1)
        if turn_sum < 0:
            winding = -1
        outward = -half_width * float(winding)
        for i in range(lane, n, wp.block_dim()):
            p = respaced[env, i]
            center = wp.vec3f(p[0] - middle_x, p[1] - middle_y, 0.0)
            offset = outward * normal_out[env, i]
            center_out[env, i] = center
            outer_out[env, i] = center + offset
            inner_out[env, i] = center - offset
        if lane == 0:
            length_out[env] = perimeter
            spacing_out[env] = perimeter / float(n)
            winding_out[env] = winding
    else:
        n = 0
        block_sync()  # lanes may still read the arc length that is overwritten below
        if lane == 0:
            length_out[env] = wp.nan
            spacing_out[env] = wp.nan
            winding_out[env] = 0

    blank = wp.vec3f(wp.nan, wp.nan, wp.nan)
    for i in range(n + lane, N_max, wp.block_dim()):
        center_out[env, i] = blank
        outer_out[env, i] = blank
        inner_out[env, i] = blank
        tangent_out[env, i] = blank
        normal_out[env, i] = blank
        up_out[env, i] = blank
        arclen_out[env, i] = wp.nan
        curvature_out[env, i] = wp.nan


def inflate(
    points: wp.array,
    count: wp.array,
    half_width: wp.array,
    pending: wp.array,
    center: wp.array,
    outer: wp.array,
    inner: wp.array,
    tangent: wp.array,
    normal: wp.array,
    up: wp.array,
    arclen: wp.array,
    curvature: wp.array,
    length: wp.array,
    spacing: wp.array,
    winding: wp.array,
    scratch: InflateScratch,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that writes the road of every pending env; runs nothing.

    The centreline is re-spaced along its spline until its edges are equal to 1 %, its frames are
    central differences, the borders lie ``half_width`` left and right, and everything is shifted so
    that the bounding box of all lines is centred on the origin. Slots past ``count`` become NaN.

    Args:
        points: Centreline [length], vec2f, shape [E, N_max]. Overwritten.
        count: Points of each centreline, int32, shape [E]; 0 gives a row of NaN.
        half_width: Half width of each road [length], float32, shape [E].
        pending: Envs to work on, bool, shape [E].
        center: Output: centreline, vec3f, shape [E, N_max].
        outer: Output: the border that encloses the other, vec3f, shape [E, N_max].
        inner: Output: the other border, vec3f, shape [E, N_max].
        tangent: Output: unit direction of travel, vec3f, shape [E, N_max].
        normal: Output: unit left normal, vec3f, shape [E, N_max].
        up: Output: normal of the flat road, (0, 0, 1), vec3f, shape [E, N_max].
        arclen: Output: arc length at each point, 0 at the first, float32, shape [E, N_max].
        curvature: Output: turn angle over mean adjacent edge, left positive, shape [E, N_max].
        length: Output: closed perimeter, float32, shape [E].
        spacing: Output: length / count, float32, shape [E].
        winding: Output: +1 counter-clockwise, -1 clockwise, 0 without a road, int32, shape [E].
        scratch: Work arrays of the same rows.
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        inflate_kernel,
        points.shape[0],
        lanes,
        inputs=[
            count, half_width, pending, points.shape[1], points, scratch.points, scratch.offsets,
        ],
        outputs=[
            center, outer, inner, tangent, normal, up, arclen, curvature, length, spacing, winding,
        ],
        device=device,
    )  # fmt: skip
