"""Elevation: heights on a finished plan view, with a grade that holds on all three lines.

The plan view is not touched. A profile gives the height wanted at each point; then the rise over
every edge is limited by the shortest of the three plan edges there, because the inner border of a
tight corner climbs as high as the centreline on a fraction of the way. The limited height is the
mean of the largest minorant and the least majorant of the wanted one whose rise keeps the limit
(:mod:`track_gen.stages.rise_limit`), so it keeps the range too, and what is gentle enough already
stays as it is.

Kinks are rounded by a five-point binomial filter. It averages the rises of five edges, so with each
limit taken as the least of its five neighbours beforehand, the filtered rise keeps its limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import warp as wp

from track_gen.block import (
    block_lane,
    block_launch,
    block_prefix_sum,
    block_sync,
    float_row,
    scan_offsets_size,
)
from track_gen.elevation import (
    DEFAULT_MAX_GRADE,
    PROFILE_SIZE,
    ElevationSettings,
    Flat,
    Profile,
    draw_profile,
    make_profile,
    profile_bounds,
    sample_profile,
)
from track_gen.stages.loop_rows import HALO, halo_tail, wrap_ends
from track_gen.stages.rise_limit import least, limit_rise, most

__all__ = ["ElevationConfig", "ElevationScratch", "elevate"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

BANKING_SHARE = 0.5
"""Part of a border's rise that banking may use; the rest is left to the centreline."""


@dataclass(frozen=True)
class ElevationConfig:
    """What the stage needs to know; made from the user's settings."""

    settings: ElevationSettings
    """Profile and banking."""

    @property
    def max_grade(self) -> float:
        """Largest rise over plan distance."""
        given = self.settings.max_grade
        return DEFAULT_MAX_GRADE if given is None else given

    @property
    def bank_slope(self) -> float:
        """Tangent of the largest banking angle."""
        return math.tan(math.radians(self.settings.banking))


@dataclass
class ElevationScratch:
    """Arrays that :func:`elevate` works in; first dimension E, nothing is kept between calls.

    Rows of ``loop = N_max + 2 * HALO`` values hold loops with wrapped ends.
    """

    coefficients: wp.array
    """Coefficients of the profile, float32, shape [E, PROFILE_SIZE]."""
    heights: wp.array
    """Heights above the middle of the range [length], then grades, float32, shape [E, loop]."""
    banks: wp.array
    """Height of the right border above the centreline [length], float32, shape [E, loop]."""
    limits: wp.array
    """Largest rise over each edge [length], float32, shape [E, loop]."""
    metric: wp.array
    """Largest rise from point 0 to each point [length], float32, shape [E, N_max]."""
    x: wp.array
    """Minorant, then x of the centreline [length], float32, shape [E, loop]."""
    y: wp.array
    """Majorant, then y of the centreline [length], float32, shape [E, loop]."""
    z: wp.array
    """Share of the banking, then z of the centreline [length], float32, shape [E, loop]."""
    extremes: wp.array
    """Four extremes of each chunk, float32, shape [E, 4 * scan_offsets_size(N_max)]."""
    offsets: wp.array
    """Chunk offsets of the prefix sums, float32, shape [E, scan_offsets_size(N_max)]."""

    @classmethod
    def allocate(cls, num_envs: int, N_max: int, device: wp.Device) -> ElevationScratch:
        """Allocate for ``num_envs`` rows of ``N_max`` points: about 29 bytes per point."""
        chunks = scan_offsets_size(N_max)
        loop = N_max + 2 * HALO

        def values(size: int) -> wp.array:
            return wp.empty((num_envs, size), dtype=wp.float32, device=device)

        return cls(
            coefficients=values(PROFILE_SIZE),
            heights=values(loop),
            banks=values(loop),
            limits=values(loop),
            metric=values(N_max),
            x=values(loop),
            y=values(loop),
            z=values(loop),
            extremes=values(4 * chunks),
            offsets=values(chunks),
        )


@wp.func
def _edge_squared(row: wp.array[wp.float32], i: int, j: int) -> float:
    """Squared plan distance of points ``i`` and ``j`` of a row of x, y, z."""
    dx = row[3 * j] - row[3 * i]
    dy = row[3 * j + 1] - row[3 * i + 1]
    return dx * dx + dy * dy


@wp.func
def _rise_limit(
    center: wp.array[wp.float32],
    outer: wp.array[wp.float32],
    inner: wp.array[wp.float32],
    i: int,
    j: int,
    max_grade: float,
    slack: float,
) -> float:
    """Largest rise from point ``i`` to its successor ``j`` that keeps the grade on all lines."""
    shortest = wp.sqrt(
        least(
            _edge_squared(center, i, j),
            least(_edge_squared(outer, i, j), _edge_squared(inner, i, j)),
        )
    )
    return most(max_grade * shortest * wp.static(1.0 - 1.0e-5) - slack, 0.0)


@wp.func
def _limit_near(limits: wp.array[wp.float32], edge: int) -> float:
    """Least limit of an edge and its two neighbours on either side; a row with a halo."""
    at = edge + wp.static(HALO)
    before = least(limits[at - 2], limits[at - 1])
    after = least(limits[at + 1], limits[at + 2])
    return least(least(before, after), limits[at])


@wp.func
def _smooth_at(values: wp.array[wp.float32], i: int) -> float:
    """Binomial mean of five values round a loop; a row with a halo."""
    at = i + wp.static(HALO)
    outer = values[at - 2] + values[at + 2]
    near = values[at - 1] + values[at + 1]
    return 0.0625 * (outer + 4.0 * near + 6.0 * values[at])


@wp.kernel
def elevate_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    pending_in: wp.array[wp.bool],
    count_in: wp.array[wp.int32],
    half_width_in: wp.array[wp.float32],
    winding_in: wp.array[wp.int32],
    curvature_in: wp.array2d[wp.float32],
    N_max: int,
    attempt: int,
    profile: Profile,
    varying: int,
    max_grade: float,
    bank_slope: float,
    bank_radius: float,
    # Scratch:
    coefficients: wp.array2d[wp.float32],
    heights: wp.array2d[wp.float32],
    banks: wp.array2d[wp.float32],
    limits: wp.array2d[wp.float32],
    metric: wp.array2d[wp.float32],
    x: wp.array2d[wp.float32],
    y: wp.array2d[wp.float32],
    z: wp.array2d[wp.float32],
    extremes: wp.array2d[wp.float32],
    offsets: wp.array2d[wp.float32],
    # In and out:
    center_out: wp.array2d[wp.vec3f],
    outer_out: wp.array2d[wp.vec3f],
    inner_out: wp.array2d[wp.vec3f],
    tangent_out: wp.array2d[wp.vec3f],
    up_out: wp.array2d[wp.vec3f],
    arclen_out: wp.array2d[wp.float32],
    length_out: wp.array[wp.float32],
    spacing_out: wp.array[wp.float32],
):
    """Lift the flat road of every pending env onto its profile. Launch dim (E, lanes).

    A row without a road, which has no length, is left alone.
    """
    env, thread = wp.tid()
    lane = block_lane(thread)
    if wp.block_dim() == 1:
        lane = 0  # so that the compiler knows it
    if not pending_in[env]:
        return
    n = count_in[env]
    length = length_out[env]
    if n < 3 or n > N_max or not length > 0.0:
        return
    half_width = half_width_in[env]
    bounds = profile_bounds(profile, length)
    middle = 0.5 * (bounds[0] + bounds[1])
    # A range that no road of this length can use only costs precision.
    half = wp.min(0.5 * (bounds[1] - bounds[0]), 4.0 * max_grade * length)

    width = N_max + wp.static(2 * HALO)
    tail = halo_tail(lane, n)
    heights_row = float_row(heights[env].ptr, 0, width)
    heights_loop = float_row(heights[env].ptr, wp.static(HALO), N_max)
    banks_row = float_row(banks[env].ptr, 0, width)
    banks_loop = float_row(banks[env].ptr, wp.static(HALO), N_max)
    limits_row = float_row(limits[env].ptr, 0, width)
    metric_row = float_row(metric[env].ptr, 0, N_max)
    x_row = float_row(x[env].ptr, 0, width)
    y_row = float_row(y[env].ptr, 0, width)
    z_row = float_row(z[env].ptr, 0, width)
    extremes_row = float_row(extremes[env].ptr, 0, extremes.shape[1])
    center_row = float_row(center_out[env].ptr, 0, 3 * N_max)
    outer_row = float_row(outer_out[env].ptr, 0, 3 * N_max)
    inner_row = float_row(inner_out[env].ptr, 0, 3 * N_max)
    tangent_row = float_row(tangent_out[env].ptr, 0, 3 * N_max)
    up_row = float_row(up_out[env].ptr, 0, 3 * N_max)
    arclen_row = float_row(arclen_out[env].ptr, 0, N_max)
    curvature_row = float_row(curvature_in[env].ptr, 0, N_max)

    # What rounding of the published heights, and of distances round the loop, can add to an angle
    # or a rise is taken off beforehand.
    largest = wp.max(wp.abs(bounds[0]), wp.abs(bounds[1])) + half_width * bank_slope
    slack = 4.0e-7 * largest + 1.0e-6 * (max_grade * length + half)
    bank_most = wp.max(wp.static(1.0 - 1.0e-6) * half_width * bank_slope - 2.0e-7 * largest, 0.0)
    if varying != 0 or bank_slope > 0.0:
        i = int(lane)
        while i < n - 1:
            limits_row[i + wp.static(HALO)] = _rise_limit(
                center_row, outer_row, inner_row, i, i + 1, max_grade, slack
            )
            i += wp.block_dim()
        if i == n - 1:
            limits_row[i + wp.static(HALO)] = _rise_limit(
                center_row, outer_row, inner_row, i, 0, max_grade, slack
            )
        wrap_ends(limits_row, lane, tail, n)

    if bank_slope > 0.0:
        # ``z_row`` holds the banking wanted as a share of the largest one, left positive.
        i = int(lane)
        while i < n:
            share = curvature_row[i] * half_width * bank_radius
            z_row[i + wp.static(HALO)] = least(most(share, -1.0), 1.0)
            i += wp.block_dim()
        wrap_ends(z_row, lane, tail, n)
        block_sync()
        part = wp.where(varying != 0, wp.static(BANKING_SHARE), 1.0)
        i = int(lane)
        while i < n:
            at = i + wp.static(HALO)
            share = z_row[at]
            bank = bank_most * wp.abs(share)
            # Across a change of sign both sides add up.
            before = wp.where(share * z_row[at - 1] < 0.0, 0.5 * part * limits_row[at - 1], bank)
            after = wp.where(share * z_row[at + 1] < 0.0, 0.5 * part * limits_row[at], bank)
            banks_row[at] = least(least(bank, before), after)
            metric_row[i] = wp.where(i > 0, part * limits_row[at - 1], 0.0)
            i += wp.block_dim()
        block_sync()
        block_prefix_sum(metric, offsets, env, lane, n)
        total = metric_row[n - 1] + part * limits_row[n - 1 + wp.static(HALO)]
        limit_rise(
            banks_loop, metric_row, total, 0.0, heights_row, heights_row, extremes_row, lane, n
        )
        i = int(lane)
        while i < n:
            at = i + wp.static(HALO)
            bank = least(most(banks_row[at], 0.0), bank_most)
            banks_row[at] = wp.where(z_row[at] < 0.0, -bank, bank)
            i += wp.block_dim()
        wrap_ends(banks_row, lane, tail, n)
        block_sync()
        i = int(lane)
        while i < n:
            at = i + wp.static(HALO)
            rise = wp.abs(banks_row[at + 1] - banks_row[at])
            limits_row[at] = most(limits_row[at] - rise, 0.0)
            i += wp.block_dim()
        wrap_ends(limits_row, lane, tail, n)

    if varying != 0:
        # Its barriers also stand between writing the limits and reading them.
        draw_profile(
            profile, seeds_in[env], episode_in[env], attempt, length, coefficients, env, lane
        )
        per_length = 1.0 / length
        i = int(lane)
        while i < n:
            u = arclen_row[i] * per_length
            heights_loop[i] = half * sample_profile(profile, coefficients, env, u)
            i += wp.block_dim()
        i = int(lane)
        while i < n:
            metric_row[i] = wp.where(i > 0, _limit_near(limits_row, i - 1), 0.0)
            i += wp.block_dim()
        block_sync()
        block_prefix_sum(metric, offsets, env, lane, n)
        total = metric_row[n - 1] + _limit_near(limits_row, n - 1)
        limit_rise(heights_loop, metric_row, total, 0.5, x_row, y_row, extremes_row, lane, n)
        wrap_ends(heights_row, lane, tail, n)
        block_sync()

    outside = float(winding_in[env])
    # Not through the rows of floats, for the CPU scatters single floats slowly.
    center_points = center_out[env]
    outer_points = outer_out[env]
    inner_points = inner_out[env]
    i = int(lane)
    while i < n:
        at = i + wp.static(HALO)
        height = middle
        if varying != 0:
            height += _smooth_at(heights_row, i)
        height = least(most(height, bounds[0]), bounds[1])
        bank = float(0.0)
        if bank_slope > 0.0:
            bank = outside * banks_row[at]
        z_row[at] = height
        center_points[i][2] = height
        outer_points[i][2] = height + bank
        inner_points[i][2] = height - bank
        i += wp.block_dim()
    if varying == 0 and bank_slope == 0.0:
        return

    if varying != 0:
        i = int(lane)
        while i < n:
            x_row[i + wp.static(HALO)] = center_row[3 * i]
            y_row[i + wp.static(HALO)] = center_row[3 * i + 1]
            i += wp.block_dim()
        wrap_ends(x_row, lane, tail, n)
        wrap_ends(y_row, lane, tail, n)
        wrap_ends(z_row, lane, tail, n)
        block_sync()
        # From here on ``heights_loop`` holds grades.
        i = int(lane)
        while i < n:
            at = i + wp.static(HALO)
            dx = x_row[at + 1] - x_row[at - 1]
            dy = y_row[at + 1] - y_row[at - 1]
            run = wp.sqrt(dx * dx + dy * dy)
            grade = (z_row[at + 1] - z_row[at - 1]) / run
            heights_loop[i] = wp.where(run > 0.0, grade, 0.0)
            dx = x_row[at] - x_row[at - 1]
            dy = y_row[at] - y_row[at - 1]
            dz = z_row[at] - z_row[at - 1]
            arclen_row[i] = wp.where(i > 0, wp.sqrt(dx * dx + dy * dy + dz * dz), 0.0)
            i += wp.block_dim()
    i = int(lane)
    while i < n:
        hx = tangent_row[3 * i]
        hy = tangent_row[3 * i + 1]
        grade = float(0.0)
        cosine = float(1.0)
        if varying != 0:
            grade = heights_loop[i]
            cosine = 1.0 / wp.sqrt(1.0 + grade * grade)
            tangent_row[3 * i] = cosine * hx
            tangent_row[3 * i + 1] = cosine * hy
            tangent_row[3 * i + 2] = cosine * grade
        ux = -grade * hx
        uy = -grade * hy
        if bank_slope > 0.0:
            slope = banks_loop[i] / half_width
            ux -= slope * hy
            uy += slope * hx
            cosine = 1.0 / wp.sqrt(ux * ux + uy * uy + 1.0)
        up_row[3 * i] = cosine * ux
        up_row[3 * i + 1] = cosine * uy
        up_row[3 * i + 2] = cosine
        i += wp.block_dim()

    if varying != 0:
        block_sync()
        block_prefix_sum(arclen_out, offsets, env, lane, n)
        if lane == 0:
            last = n - 1 + wp.static(HALO)
            dx = x_row[last + 1] - x_row[last]
            dy = y_row[last + 1] - y_row[last]
            dz = z_row[last + 1] - z_row[last]
            perimeter = arclen_row[n - 1] + wp.sqrt(dx * dx + dy * dy + dz * dz)
            length_out[env] = perimeter
            spacing_out[env] = perimeter / float(n)


def elevate(
    seeds: wp.array,
    episode: wp.array,
    pending: wp.array,
    count: wp.array,
    half_width: wp.array,
    winding: wp.array,
    curvature: wp.array,
    center: wp.array,
    outer: wp.array,
    inner: wp.array,
    tangent: wp.array,
    up: wp.array,
    arclen: wp.array,
    length: wp.array,
    spacing: wp.array,
    attempt: int,
    config: ElevationConfig,
    scratch: ElevationScratch,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that lifts the road of every pending env; runs nothing.

    x and y of all lines, the normals, the curvature, and slots past ``count`` are left as they are.

    Args:
        seeds: Seeds, int32, shape [E].
        episode: Episode counters, int32, shape [E].
        pending: Envs to work on, bool, shape [E].
        count: Points, int32, shape [E].
        half_width: Half width [length], float32, shape [E].
        winding: +1 or -1, int32, shape [E].
        curvature: Plan curvature, left positive, float32, shape [E, N_max].
        center: In and out: centreline, vec3f, shape [E, N_max].
        outer: In and out: the border that encloses the other, vec3f, shape [E, N_max].
        inner: In and out: the other border, vec3f, shape [E, N_max].
        tangent: In and out: unit direction of travel, vec3f, shape [E, N_max].
        up: Output: unit normal of the road's surface, vec3f, shape [E, N_max].
        arclen: In and out: arc length, in plan, then in space, float32, shape [E, N_max].
        length: In and out: closed perimeter, in plan, then in space, float32, shape [E].
        spacing: In and out: length / count, float32, shape [E].
        attempt: Attempt, from 0.
        config: Profile, grade and banking.
        scratch: Work arrays of the same rows.
        lanes: Block size.
        device: Device of all arrays.
    """
    settings = config.settings
    return block_launch(
        elevate_kernel,
        center.shape[0],
        lanes,
        inputs=[
            seeds, episode, pending, count, half_width, winding, curvature,
            center.shape[1], attempt, make_profile(settings, config.max_grade),
            int(not isinstance(settings, Flat)), config.max_grade, config.bank_slope,
            settings.banking_radius,
            scratch.coefficients, scratch.heights, scratch.banks, scratch.limits, scratch.metric,
            scratch.x, scratch.y, scratch.z, scratch.extremes, scratch.offsets,
        ],
        outputs=[center, outer, inner, tangent, up, arclen, length, spacing],
        device=device,
    )  # fmt: skip
