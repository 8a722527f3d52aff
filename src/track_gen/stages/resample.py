"""From a dense curve to evenly spaced points: place it in the plane, augment it, resample it.

The families write a counter-clockwise curve in units of scale 1 at any position. Here, in one
place for all of them, the curve is centred on its bounding box and scaled, rotated, mirrored and
given its start point and direction, and sampled linearly at ``n = round(L / spacing)`` equal arcs,
the closing edge included.
"""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from track_gen.block import (
    block_lane,
    block_launch,
    block_max,
    block_prefix_sum,
    block_vote,
    scan_offsets_size,
)
from track_gen.geometry import cos_sin, rotate
from track_gen.polyline import arc_segment
from track_gen.rng import Stream, draw_uniform
from track_gen.status import TrackStatus

__all__ = ["DIRECTIONS", "ResampleConfig", "ResampleScratch", "resample"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

DIRECTIONS = ("ccw", "cw", "random")
"""Choices of ``TrackGenConfig.direction``; a kernel gets the index."""

MIN_COUNT = 8
"""Fewest points of a loop."""

BOX_SIDE = 1.44
"""Longer side of the bounding box at scale 1 for families that are fitted to a box."""

_CHUNK = 16
_PARAMETER = int(TrackStatus.PARAMETER)


@dataclass(frozen=True, kw_only=True)
class ResampleConfig:
    """What the resampling needs to know; part of ``TrackGenConfig``, checked there."""

    spacing: float
    """Wanted spacing [length], or 0 for ``spacing_ratio * half_width``."""
    spacing_ratio: float = 0.6
    """Spacing in half widths where ``spacing`` is 0."""
    fit_box: int
    """Bit k: whether in family k the longer side of the bounding box becomes 1.44 * scale."""
    direction: str = "ccw"
    """Direction of travel: one of ``DIRECTIONS``."""
    augment: bool = True
    """Whether to rotate, mirror and shift the start at random."""


@dataclass
class ResampleScratch:
    """Scratch of the resampling, 4 bytes per curve point."""

    arcs: wp.array
    """Arc length at the end of each edge [curve units], float32, shape [E, C]."""
    offsets: wp.array
    """Chunk offsets of the prefix sum, float32, shape [E, ceil(C / 16)]."""

    @classmethod
    def allocate(cls, num_envs: int, curve_size: int, device: wp.Device) -> ResampleScratch:
        """Allocate for curves of at most ``curve_size`` points."""
        return cls(
            arcs=wp.empty((num_envs, curve_size), dtype=wp.float32, device=device),
            offsets=wp.empty(
                (num_envs, scan_offsets_size(curve_size)), dtype=wp.float32, device=device
            ),
        )


@wp.kernel
def resample_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    pending_in: wp.array[wp.bool],
    family_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    curve_in: wp.array2d[wp.vec2f],
    curve_count_in: wp.array[wp.int32],
    attempt: int,
    spacing: float,
    spacing_ratio: float,
    fit_box: int,
    direction: int,
    augment: int,
    # Scratch:
    arcs: wp.array2d[wp.float32],
    offsets: wp.array2d[wp.float32],
    # Out:
    points_out: wp.array2d[wp.vec2f],
    count_out: wp.array[wp.int32],
    perimeter_out: wp.array[wp.float32],
    required_count_out: wp.array[wp.int32],
    status_out: wp.array[wp.int32],
):
    """Place, augment and resample the curve of each pending env. Launch dim (E, lanes).

    Starts the status of the attempt: PARAMETER is kept, everything else is cleared. With a failure
    the count is 0.
    """
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return

    status = status_out[env] & wp.static(_PARAMETER)
    count = int(0)
    required = int(0)
    perimeter = float(0.0)
    curve_count = curve_count_in[env]

    if status == 0 and curve_count < 3:
        status = wp.static(int(TrackStatus.NONFINITE))

    half_width = knobs_in[env, 0]
    wanted = wp.where(spacing > 0.0, spacing, spacing_ratio * half_width)
    center = wp.vec2f()
    factor = float(1.0)
    if status == 0:
        left = float(wp.inf)
        right = float(-wp.inf)
        bottom = float(wp.inf)
        top = float(-wp.inf)
        broken = int(0)
        curve = curve_in[env]
        for i in range(lane, curve_count, wp.block_dim()):
            p = curve[i]
            after = i + 1
            if after == curve_count:
                after = 0
            chord = wp.length(curve[after] - p)
            arcs[env, i] = chord
            if not wp.isfinite(chord):
                broken = 1
            left = wp.min(left, p[0])
            right = wp.max(right, p[0])
            bottom = wp.min(bottom, p[1])
            top = wp.max(top, p[1])
        broken = block_vote(broken, 0, 0)[0]
        if broken != 0:
            status = wp.static(int(TrackStatus.NONFINITE))
        else:
            left = -block_max(-left)
            right = block_max(right)
            bottom = -block_max(-bottom)
            top = block_max(top)
            center = wp.vec2f(0.5 * (left + right), 0.5 * (bottom + top))
            scale = knobs_in[env, 1]
            factor = scale
            if ((fit_box >> family_in[env]) & 1) != 0:
                factor = (
                    wp.static(BOX_SIDE)
                    * scale
                    / wp.max(wp.max(right - left, top - bottom), 1.0e-30)
                )
            block_prefix_sum(arcs, offsets, env, lane, curve_count)
            total = arcs[env, curve_count - 1]
            perimeter = total * factor
            if perimeter < wp.static(2.0 * 3.14159265) * half_width:
                status = wp.static(int(TrackStatus.TOO_SHORT))
            elif not wp.isfinite(perimeter):
                status = wp.static(int(TrackStatus.NONFINITE))
            else:
                required = wp.max(
                    int(wp.round(wp.min(perimeter / wanted, 1.0e9))), wp.static(MIN_COUNT)
                )
                if required > points_out.shape[1]:
                    status = wp.static(int(TrackStatus.OVERFLOW))
                else:
                    count = required

    if lane == 0:
        count_out[env] = count
        perimeter_out[env] = perimeter
        required_count_out[env] = required
        status_out[env] = status
    if count == 0:
        return

    # Sample m lies at arc (m + phase) * step; index 0 is sample `first`, indices ascend or descend.
    seed = seeds_in[env]
    episode = episode_in[env]
    forward = bool(True)
    spin = wp.vec2f(1.0, 0.0)
    flip = float(1.0)
    phase = float(0.0)
    first = int(0)
    if augment != 0:
        u = draw_uniform(seed, episode, wp.static(int(Stream.AUGMENT)), attempt, 0)
        spin = cos_sin(6.283185307 * u[0])
        if u[1] < 0.5:
            flip = -1.0
            forward = False
        shift = u[2] * float(count)
        first = wp.min(int(shift), count - 1)
        phase = wp.clamp(shift - float(first), 0.0, 1.0)
    reverse = bool(direction == 1)
    if direction == 2:
        u = draw_uniform(seed, episode, wp.static(int(Stream.DIRECTION)), 0, 0)
        reverse = u[0] < 0.5
    if reverse:
        forward = not forward

    curve = curve_in[env]
    total = arcs[env, curve_count - 1]
    step = total / float(count)
    chunks = (count + wp.static(_CHUNK - 1)) // wp.static(_CHUNK)
    for chunk in range(lane, chunks, wp.block_dim()):
        m = chunk * wp.static(_CHUNK)
        edge = arc_segment(arcs, env, curve_count, (float(m) + phase) * step)
        end = wp.min(m + wp.static(_CHUNK), count)
        while m < end:
            arc = (float(m) + phase) * step
            while edge < curve_count - 1 and arcs[env, edge] <= arc:
                edge += 1
            start = float(0.0)
            if edge > 0:
                start = arcs[env, edge - 1]
            after = edge + 1
            if after == curve_count:
                after = 0
            span = arcs[env, edge] - start
            t = wp.clamp((arc - start) / wp.max(span, 1.0e-30), 0.0, 1.0)
            p = curve[edge]
            p = factor * (p + t * (curve[after] - p) - center)
            p = rotate(wp.vec2f(flip * p[0], p[1]), spin)
            k = m - first
            if not forward:
                k = -k
            if k < 0:
                k += count
            points_out[env, k] = p
            m += 1


def resample(
    seeds: wp.array,
    episode: wp.array,
    pending: wp.array,
    family: wp.array,
    knobs: wp.array,
    curve: wp.array,
    curve_count: wp.array,
    points: wp.array,
    count: wp.array,
    perimeter: wp.array,
    required_count: wp.array,
    status: wp.array,
    attempt: int,
    config: ResampleConfig,
    scratch: ResampleScratch,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that places, augments and resamples the dense curves.

    Args:
        seeds: Seeds, int32, shape [E].
        episode: Episode counters, int32, shape [E].
        pending: Envs to work on, bool, shape [E].
        family: Family of each env, int32, shape [E].
        knobs: Drawn knobs, float32, shape [E, P]; half_width and scale are columns 0 and 1.
        curve: Dense curves [curve units], vec2f, shape [E, C].
        curve_count: Points of the curves, int32, shape [E].
        points: Output points [length], vec2f, shape [E, N_max]; slots past the count are untouched.
        count: Output number of points, int32, shape [E]; 0 with a failure.
        perimeter: Output length of the curve [length], float32, shape [E].
        required_count: Output number of points needed, int32, shape [E].
        status: In and out, int32, shape [E]: an env with PARAMETER gets no points.
        attempt: Attempt, from 0.
        config: Spacing, fit, direction, augmentation.
        scratch: Scratch of the stage.
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        resample_kernel,
        pending.shape[0],
        lanes,
        inputs=[
            seeds,
            episode,
            pending,
            family,
            knobs,
            curve,
            curve_count,
            attempt,
            config.spacing,
            config.spacing_ratio,
            config.fit_box,
            DIRECTIONS.index(config.direction),
            int(config.augment),
            scratch.arcs,
            scratch.offsets,
        ],
        outputs=[points, count, perimeter, required_count, status],
        device=device,
    )
