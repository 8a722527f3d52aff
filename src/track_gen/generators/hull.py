"""Hull family: angle-sorted corners with radially displaced midpoints, closed Catmull-Rom spline.

The spline is centripetal: the uniform one makes cusps and loops where short and long edges meet.

Lineage: G. Maciel, How to generate procedural racetracks (2013); Catmull and Rom, A class of local
interpolating splines (1974); Yuksel, Schaefer, Keyser, Parameterization and applications of
Catmull-Rom curves (2011).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import warp as wp

from track_gen.block import block_lane, block_launch, block_sync
from track_gen.generators.corners import (
    DISTANCE,
    CornerSettings,
    allocate_corners,
    allocate_curve,
    draw_simple_curve,
    place_corners,
    sort_by_angle,
)
from track_gen.generators.crossings import box_arrays
from track_gen.generators.spec import AnchorJob, AnchorSource, CurveJob, GeneratorSpec
from track_gen.geometry import chord_knot
from track_gen.parameters import Knob, Range
from track_gen.rng import Stream, draw_uniform

__all__ = ["SPEC", "Hull"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

_SAMPLES = 32
"""Points per edge; a corner has two edges."""


@dataclass(frozen=True, kw_only=True)
class Hull(CornerSettings):
    """Angle-sorted corners with displaced midpoints, joined by a closed Catmull-Rom spline."""

    side: ClassVar[float] = 1.7
    focus: ClassVar[float] = 0.78
    knobs: ClassVar[tuple[Knob, ...]] = (DISTANCE, Knob("displacement", 0.0, 0.9))
    difficulty: ClassVar[Mapping[str, tuple[Range, Range]]] = {
        "displacement": ((0.0, 0.1), (0.6, 0.9)),
    }

    displacement: Range = 0.15
    """Largest radial shift of an edge midpoint, as a fraction of its distance from the centroid of
    the corners, in [0, 0.9]."""


@wp.func
def _draw_midpoint(
    seed: int,
    episode: int,
    attempt: int,
    corners: wp.array2d[wp.vec2f],
    centroid: wp.vec2f,
    displacement: float,
    env: int,
    i: int,
    corner_count: int,
) -> wp.vec2f:
    """Middle of the edge that starts at corner ``i``, shifted along its ray."""
    middle = 0.5 * (corners[env, i] + corners[env, (i + 1) % corner_count])
    u = draw_uniform(seed, episode, wp.static(int(Stream.HULL_DISPLACEMENT)), attempt, i)
    return middle + (2.0 * u[0] - 1.0) * displacement * (middle - centroid)


@wp.kernel
def hull_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    pending_in: wp.array[wp.bool],
    knobs_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    min_corners: int,
    max_corners: int,
    side: float,
    focus: float,
    # Scratch:
    placed: wp.array2d[wp.vec2f],
    bearing: wp.array2d[wp.float32],
    corners: wp.array2d[wp.vec2f],
    vertices: wp.array2d[wp.vec2f],
    ahead: wp.array2d[wp.vec2f],
    behind: wp.array2d[wp.vec2f],
    shrink: wp.array2d[wp.float32],
    marks: wp.array2d[wp.int32],
    chunk_box: wp.array2d[wp.vec4f],
    group_box: wp.array2d[wp.vec4f],
    monotone: wp.array2d[wp.int32],
    # Out:
    curve_out: wp.array2d[wp.vec2f],
    curve_count_out: wp.array[wp.int32],
    fallback_out: wp.array[wp.int32],
):
    """Draw one closed curve per pending env. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    seed = seeds_in[env]
    episode = episode_in[env]
    displacement = knobs_in[env, first_knob + 1]
    corner_count = place_corners(
        seed,
        episode,
        wp.static(int(Stream.HULL_CORNERS)),
        attempt,
        min_corners,
        max_corners,
        knobs_in[env, first_knob],
        side,
        focus,
        env,
        lane,
        placed,
    )
    block_sync()
    centroid = sort_by_angle(placed, bearing, corners, env, lane, corner_count)
    for i in range(lane, corner_count, wp.block_dim()):
        vertices[env, 2 * i] = corners[env, i]
        vertices[env, 2 * i + 1] = _draw_midpoint(
            seed, episode, attempt, corners, centroid, displacement, env, i, corner_count
        )
    block_sync()
    count = 2 * corner_count
    for i in range(lane, count, wp.block_dim()):
        here = vertices[env, i]
        enter = here - vertices[env, (i + count - 1) % count]
        leave = vertices[env, (i + 1) % count] - here
        enter_knot = chord_knot(wp.vec2f(0.0, 0.0), enter)
        leave_knot = chord_knot(wp.vec2f(0.0, 0.0), leave)
        velocity = (
            enter / enter_knot - (enter + leave) / (enter_knot + leave_knot) + leave / leave_knot
        )
        ahead[env, i] = velocity * leave_knot / 3.0
        behind[env, i] = -velocity * enter_knot / 3.0
    fallback = draw_simple_curve(
        vertices,
        ahead,
        behind,
        shrink,
        marks,
        chunk_box,
        group_box,
        monotone,
        env,
        lane,
        count,
        wp.static(_SAMPLES),
        curve_out,
    )
    if lane == 0:
        curve_count_out[env] = count * wp.static(_SAMPLES)
        fallback_out[env] = fallback


@wp.kernel
def hull_anchors_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    pending_in: wp.array[wp.bool],
    count_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    side: float,
    focus: float,
    # Scratch:
    placed: wp.array2d[wp.vec2f],
    bearing: wp.array2d[wp.float32],
    corners: wp.array2d[wp.vec2f],
    # Out:
    anchors_out: wp.array2d[wp.vec2f],
):
    """Draw corners, at least 3, then displaced midpoints up to the count. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    seed = seeds_in[env]
    episode = episode_in[env]
    count = count_in[env]
    if count < 3:
        return
    corner_count = wp.max((count + 1) // 2, 3)
    place_corners(
        seed,
        episode,
        wp.static(int(Stream.HULL_CORNERS)),
        attempt,
        corner_count,
        corner_count,
        knobs_in[env, first_knob],
        side,
        focus,
        env,
        lane,
        placed,
    )
    block_sync()
    centroid = sort_by_angle(placed, bearing, corners, env, lane, corner_count)
    for i in range(lane, count, wp.block_dim()):
        if i < corner_count:
            anchors_out[env, i] = placed[env, i]
        else:
            anchors_out[env, i] = _draw_midpoint(
                seed,
                episode,
                attempt,
                corners,
                centroid,
                knobs_in[env, first_knob + 1],
                env,
                i - corner_count,
                corner_count,
            )


def _curve_size(settings: Hull) -> int:
    return 2 * settings.max_corners * _SAMPLES


def _allocate(settings: Hull, num_envs: int, device: wp.Device) -> dict[str, wp.array]:
    vertices = 2 * settings.max_corners
    return {
        **allocate_corners(num_envs, settings.max_corners, device),
        "vertices": wp.empty((num_envs, vertices), dtype=wp.vec2f, device=device),
        **allocate_curve(num_envs, vertices, _curve_size(settings), device),
    }


def _launches(settings: Hull, job: CurveJob) -> list[wp.Launch]:
    scratch = job.scratch
    return [
        block_launch(
            hull_kernel,
            job.num_envs,
            job.lanes,
            inputs=[
                job.seeds,
                job.episode,
                job.pending,
                job.knobs,
                job.first_knob,
                job.attempt,
                settings.min_corners,
                settings.max_corners,
                settings.side,
                settings.focus,
                *(scratch[name] for name in ("placed", "bearing", "corners", "vertices")),
                *(scratch[name] for name in ("ahead", "behind", "shrink", "marks")),
                *box_arrays(scratch),
            ],
            outputs=[job.curve, job.curve_count, scratch["fallback"]],
            device=job.device,
        )
    ]


def _anchor_launches(settings: Hull, job: AnchorJob) -> list[wp.Launch]:
    return [
        block_launch(
            hull_anchors_kernel,
            job.num_envs,
            job.lanes,
            inputs=[
                job.seeds,
                job.episode,
                job.pending,
                job.count,
                job.knobs,
                job.first_knob,
                job.attempt,
                settings.side,
                settings.focus,
                *(job.scratch[name] for name in ("placed", "bearing", "corners")),
            ],
            outputs=[job.anchors],
            device=job.device,
        )
    ]


def _typical_length(settings: Hull) -> float:
    """Fit to 2048 seeds of 3 to 64 corners and of displacements from 0 to 0.9."""
    growth = 0.42 + 0.0095 * settings.max_corners
    shift = max(float(np.max(settings.displacement)) - 0.15, 0.0)
    return (4.2 + 0.34 * settings.max_corners) * (1.0 + growth * shift)


SPEC = GeneratorSpec(
    name="hull",
    settings=Hull,
    launches=_launches,
    curve_size=_curve_size,
    fit="natural",
    allocate=_allocate,
    typical_length=_typical_length,
    anchors=AnchorSource(
        launches=_anchor_launches,
        count_range=lambda settings: (2 * settings.min_corners, 2 * settings.max_corners),
        allocate=lambda settings, max_count, num_envs, device: allocate_corners(
            num_envs, max_count, device
        ),
        angular=False,
        difficulty=Hull.difficulty,
    ),
)
