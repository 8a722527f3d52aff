"""Elevation: heights on a finished plan view, with a grade that holds on all three lines.

The plan view is not touched. A profile gives the height wanted at each point; then the rise over
every edge is limited by the shortest of the three plan edges there, because the inner border of a
tight corner climbs as high as the centreline on a fraction of the way. The limited height is the
mean of the largest minorant and the least majorant of the wanted one whose rise keeps the limit
(McShane: Extension of range of functions, Bull. AMS 40, 1934), so it keeps the range too, and what
is gentle enough already stays as it is.

Kinks are rounded by a five-point binomial filter. It averages the rises of five edges, so with each
limit taken as the least of its five neighbours beforehand, the filtered rise keeps its limit.

Minorants along a loop are running minima of ``height -+ distance``: minima do not depend on their
order, and the distances are a prefix sum in fixed chunks, so any number of lanes gives the same
bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import warp as wp

from track_gen.block import (
    SCAN_CHUNK,
    block_lane,
    block_launch,
    block_prefix_sum,
    block_sync,
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
from track_gen.polyline import next_index, planar, previous_index

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
    """Arrays that :func:`elevate` works in; first dimension E, nothing is kept between calls."""

    coefficients: wp.array
    """Coefficients of the profile, float32, shape [E, PROFILE_SIZE]."""
    heights: wp.array
    """Heights above the middle of the range [length], float32, shape [E, N_max]."""
    banks: wp.array
    """Height of the right border above the centreline [length], float32, shape [E, N_max]."""
    limits: wp.array
    """Largest rise over each edge [length], float32, shape [E, N_max]."""
    metric: wp.array
    """Largest rise from point 0 to each point [length], float32, shape [E, N_max]."""
    upper: wp.array
    """Majorant, float32, shape [E, N_max]."""
    extremes: wp.array
    """Extremes of each chunk of points, vec4f, shape [E, scan_offsets_size(N_max)]."""
    offsets: wp.array
    """Chunk offsets of the prefix sums, float32, shape [E, scan_offsets_size(N_max)]."""

    @classmethod
    def allocate(cls, num_envs: int, N_max: int, device: wp.Device) -> ElevationScratch:
        """Allocate for ``num_envs`` rows of ``N_max`` points: about 21 bytes per point."""
        chunks = scan_offsets_size(N_max)

        def values(size: int) -> wp.array:
            return wp.empty((num_envs, size), dtype=wp.float32, device=device)

        return cls(
            coefficients=values(PROFILE_SIZE),
            heights=values(N_max),
            banks=values(N_max),
            limits=values(N_max),
            metric=values(N_max),
            upper=values(N_max),
            extremes=wp.empty((num_envs, chunks), dtype=wp.vec4f, device=device),
            offsets=values(chunks),
        )


@wp.func
def _wrapped(i: int, count: int) -> int:
    """``i`` in [-count, 2 * count) as an index round the loop."""
    if i < 0:
        return i + count
    if i >= count:
        return i - count
    return i


@wp.func
def _limit_near(limits: wp.array[wp.float32], edge: int, count: int) -> float:
    """Least limit of an edge and its two neighbours on either side."""
    least = float(wp.inf)
    if edge >= 2 and edge + 2 < count:
        for k in range(wp.static(5)):
            least = wp.min(least, limits[edge - 2 + k])
    else:
        for k in range(wp.static(5)):
            least = wp.min(least, limits[_wrapped(edge - 2 + k, count)])
    return least


@wp.func
def _smooth_at(values: wp.array[wp.float32], i: int, count: int) -> float:
    """Binomial mean of five values round a loop."""
    if i >= 2 and i + 2 < count:
        outer = values[i - 2] + values[i + 2]
        return 0.0625 * (outer + 4.0 * (values[i - 1] + values[i + 1]) + 6.0 * values[i])
    outer = values[_wrapped(i - 2, count)] + values[_wrapped(i + 2, count)]
    near = values[_wrapped(i - 1, count)] + values[_wrapped(i + 1, count)]
    return 0.0625 * (outer + 4.0 * near + 6.0 * values[i])


@wp.func
def _limit_rise(
    values: wp.array[wp.float32],
    metric: wp.array[wp.float32],
    total: float,
    upper_weight: float,
    lower: wp.array[wp.float32],
    upper: wp.array[wp.float32],
    extremes: wp.array[wp.vec4f],
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
        upper: Scratch, shape [>= count].
        extremes: Scratch, shape [>= scan_offsets_size(count)].
        lane: Lane of the caller.
        count: Number of points, the same for the whole block.

    The caller has a barrier between writing ``values`` and ``metric`` and this call; it ends with
    one.
    """
    chunks = (count + wp.static(SCAN_CHUNK - 1)) // wp.static(SCAN_CHUNK)
    for chunk in range(lane, chunks, wp.block_dim()):
        low_minus = float(wp.inf)
        low_plus = float(wp.inf)
        high_minus = float(-wp.inf)
        high_plus = float(-wp.inf)
        start = chunk * wp.static(SCAN_CHUNK)
        for i in range(start, wp.min(start + wp.static(SCAN_CHUNK), count)):
            minus = values[i] - metric[i]
            plus = values[i] + metric[i]
            low_minus = wp.min(low_minus, minus)
            low_plus = wp.min(low_plus, plus)
            high_minus = wp.max(high_minus, minus)
            high_plus = wp.max(high_plus, plus)
        extremes[chunk] = wp.vec4f(low_minus, low_plus, high_minus, high_plus)
    block_sync()

    # Once round the loop, every point reaches every other one.
    round_low_minus = float(wp.inf)
    round_low_plus = float(wp.inf)
    round_high_minus = float(-wp.inf)
    round_high_plus = float(-wp.inf)
    for chunk in range(chunks):
        e = extremes[chunk]
        round_low_minus = wp.min(round_low_minus, e[0])
        round_low_plus = wp.min(round_low_plus, e[1])
        round_high_minus = wp.max(round_high_minus, e[2])
        round_high_plus = wp.max(round_high_plus, e[3])
    round_low_minus += total
    round_low_plus += total
    round_high_minus -= total
    round_high_plus -= total

    # Forwards from the points before, then backwards from those after.
    low_before = float(wp.inf)
    high_before = float(-wp.inf)
    seen = int(0)
    for chunk in range(lane, chunks, wp.block_dim()):
        while seen < chunk:
            low_before = wp.min(low_before, extremes[seen][0])
            high_before = wp.max(high_before, extremes[seen][3])
            seen += 1
        low = low_before
        high = high_before
        start = chunk * wp.static(SCAN_CHUNK)
        for i in range(start, wp.min(start + wp.static(SCAN_CHUNK), count)):
            distance = metric[i]
            low = wp.min(low, values[i] - distance)
            high = wp.max(high, values[i] + distance)
            lower[i] = wp.min(low, round_low_minus) + distance
            upper[i] = wp.max(high, round_high_plus) - distance
    block_sync()
    low_after = float(wp.inf)
    high_after = float(-wp.inf)
    seen = chunks - 1
    for turn in range(lane, chunks, wp.block_dim()):
        chunk = chunks - 1 - turn
        while seen > chunk:
            low_after = wp.min(low_after, extremes[seen][1])
            high_after = wp.max(high_after, extremes[seen][2])
            seen -= 1
        low = low_after
        high = high_after
        start = chunk * wp.static(SCAN_CHUNK)
        size = wp.min(wp.static(SCAN_CHUNK), count - start)
        for back in range(size):
            i = start + size - 1 - back
            distance = metric[i]
            low = wp.min(low, values[i] + distance)
            high = wp.max(high, values[i] - distance)
            least = wp.min(lower[i], wp.min(low, round_low_plus) - distance)
            most = wp.max(upper[i], wp.max(high, round_high_minus) + distance)
            values[i] = least + upper_weight * (most - least)
    block_sync()


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
    upper: wp.array2d[wp.float32],
    extremes: wp.array2d[wp.vec4f],
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
    if not pending_in[env]:
        return
    n = count_in[env]
    length = length_out[env]
    if n <= 0 or n > N_max or not length > 0.0:
        return
    half_width = half_width_in[env]
    bounds = profile_bounds(profile, length)
    middle = 0.5 * (bounds[0] + bounds[1])
    # A range that no road of this length can use only costs precision.
    half = wp.min(0.5 * (bounds[1] - bounds[0]), 4.0 * max_grade * length)

    # Rows as values of their own: the CPU compiler keeps them in registers across stores.
    heights_row = heights[env]
    banks_row = banks[env]
    limits_row = limits[env]
    metric_row = metric[env]
    upper_row = upper[env]
    extremes_row = extremes[env]
    center_row = center_out[env]
    outer_row = outer_out[env]
    inner_row = inner_out[env]
    tangent_row = tangent_out[env]
    up_row = up_out[env]
    arclen_row = arclen_out[env]
    curvature_row = curvature_in[env]

    # What rounding of the published heights, and of distances round the loop, can add to an angle
    # or a rise is taken off beforehand.
    largest = wp.max(wp.abs(bounds[0]), wp.abs(bounds[1])) + half_width * bank_slope
    slack = 4.0e-7 * largest + 1.0e-6 * (max_grade * length + half)
    bank_most = wp.max(wp.static(1.0 - 1.0e-6) * half_width * bank_slope - 2.0e-7 * largest, 0.0)
    for i in range(lane, n, wp.block_dim()):
        j = next_index(i, n)
        center_edge = planar(center_row[j]) - planar(center_row[i])
        outer_edge = planar(outer_row[j]) - planar(outer_row[i])
        inner_edge = planar(inner_row[j]) - planar(inner_row[i])
        shortest = wp.sqrt(
            wp.min(
                wp.dot(center_edge, center_edge),
                wp.min(wp.dot(outer_edge, outer_edge), wp.dot(inner_edge, inner_edge)),
            )
        )
        limits_row[i] = wp.max(max_grade * shortest * wp.static(1.0 - 1.0e-5) - slack, 0.0)
    block_sync()

    if bank_slope > 0.0:
        share = wp.where(varying != 0, wp.static(BANKING_SHARE), 1.0)
        for i in range(lane, n, wp.block_dim()):
            before = previous_index(i, n)
            after = next_index(i, n)
            curvature = curvature_row[i]
            bank = bank_most * wp.min(wp.abs(curvature) * half_width * bank_radius, 1.0)
            # Across a change of sign both sides add up.
            if curvature * curvature_row[before] < 0.0:
                bank = wp.min(bank, 0.5 * share * limits_row[before])
            if curvature * curvature_row[after] < 0.0:
                bank = wp.min(bank, 0.5 * share * limits_row[i])
            banks_row[i] = bank
            step = float(0.0)
            if i > 0:
                step = share * limits_row[i - 1]
            metric_row[i] = step
        block_sync()
        block_prefix_sum(metric, offsets, env, lane, n)
        total = metric_row[n - 1] + share * limits_row[n - 1]
        _limit_rise(
            banks_row, metric_row, total, 0.0, heights_row, upper_row, extremes_row, lane, n
        )
        for i in range(lane, n, wp.block_dim()):
            bank = wp.clamp(banks_row[i], 0.0, bank_most)
            banks_row[i] = wp.where(curvature_row[i] < 0.0, -bank, bank)
        block_sync()
        for i in range(lane, n, wp.block_dim()):
            rise = wp.abs(banks_row[next_index(i, n)] - banks_row[i])
            limits_row[i] = wp.max(limits_row[i] - rise, 0.0)
        block_sync()

    if varying != 0:
        draw_profile(
            profile, seeds_in[env], episode_in[env], attempt, length, coefficients, env, lane
        )
        per_length = 1.0 / length
        for i in range(lane, n, wp.block_dim()):
            u = arclen_row[i] * per_length
            heights_row[i] = half * sample_profile(profile, coefficients, env, u)
            step = float(0.0)
            if i > 0:
                step = _limit_near(limits_row, i - 1, n)
            metric_row[i] = step
        block_sync()
        block_prefix_sum(metric, offsets, env, lane, n)
        total = metric_row[n - 1] + _limit_near(limits_row, n - 1, n)
        _limit_rise(
            heights_row, metric_row, total, 0.5, limits_row, upper_row, extremes_row, lane, n
        )

    outside = float(winding_in[env])
    for i in range(lane, n, wp.block_dim()):
        z = middle
        if varying != 0:
            z += _smooth_at(heights_row, i, n)
        z = wp.clamp(z, bounds[0], bounds[1])
        bank = float(0.0)
        if bank_slope > 0.0:
            bank = outside * banks_row[i]
        p = center_row[i]
        center_row[i] = wp.vec3f(p[0], p[1], z)
        p = outer_row[i]
        outer_row[i] = wp.vec3f(p[0], p[1], z + bank)
        p = inner_row[i]
        inner_row[i] = wp.vec3f(p[0], p[1], z - bank)
    block_sync()

    if varying == 0 and bank_slope == 0.0:
        return
    for i in range(lane, n, wp.block_dim()):
        heading = tangent_row[i]
        grade = float(0.0)
        cosine = float(1.0)
        if varying != 0:
            here = center_row[i]
            behind = center_row[previous_index(i, n)]
            ahead = center_row[next_index(i, n)]
            run = wp.length(planar(ahead) - planar(behind))
            if run > 0.0:
                grade = (ahead[2] - behind[2]) / run
                cosine = 1.0 / wp.sqrt(1.0 + grade * grade)
                tangent_row[i] = cosine * wp.vec3f(heading[0], heading[1], grade)
            edge = float(0.0)
            if i > 0:
                edge = wp.length(here - behind)
            arclen_row[i] = edge
        up = wp.vec3f(-grade * heading[0], -grade * heading[1], 1.0)
        if bank_slope > 0.0:
            slope = banks_row[i] / half_width
            up += slope * wp.vec3f(-heading[1], heading[0], 0.0)
            cosine = 1.0 / wp.length(up)
        up_row[i] = cosine * up

    if varying != 0:
        block_sync()
        block_prefix_sum(arclen_out, offsets, env, lane, n)
        if lane == 0:
            perimeter = arclen_row[n - 1] + wp.length(center_row[0] - center_row[n - 1])
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
            scratch.upper, scratch.extremes, scratch.offsets,
        ],
        outputs=[center, outer, inner, tangent, up, arclen, length, spacing],
        device=device,
    )  # fmt: skip
