"""Bezier family: random corners sorted by angle, joined by cubic Bezier edges.

The corners form a star-shaped polygon; every corner gets one tangent between its two edges, and
every edge becomes a cubic whose handles are limited by the shorter edge at the corner.

Lineage: random closed shapes from angle-sorted points (a widely copied Stack Overflow answer,
50731785, 2018), used for Bezier levels of CarRacing by Jiang et al. (2021).
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
from track_gen.parameters import Knob, Range
from track_gen.rng import Stream

__all__ = ["SPEC", "Bezier"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@dataclass(frozen=True, kw_only=True)
class Bezier(CornerSettings):
    """Random corners sorted by angle, joined by cubic Bezier edges."""

    side: ClassVar[float] = 1.665
    focus: ClassVar[float] = 0.8
    knobs: ClassVar[tuple[Knob, ...]] = (
        DISTANCE,
        Knob("rad", 0.0, 1.0),
        Knob("edgy", -100.0, 100.0),
        Knob("handle_clamp", 0.0, 1.0),
    )
    difficulty: ClassVar[Mapping[str, tuple[Range, Range]]] = {
        "rad": ((0.1, 0.3), (0.7, 1.0)),
        "handle_clamp": ((0.3, 0.4), (0.8, 1.0)),
    }

    rad: Range = 0.4
    """Handle length as a fraction of the edge, in [0, 1]; 0 gives polygons, 1 wide loops."""
    edgy: Range = 0.0
    """Lean of the corner tangents, in [-100, 100]: 0 halves the angle between the two edges, large
    positive values follow the edge ahead, large negative values the edge behind."""
    handle_clamp: Range = 0.4
    """Largest handle as a fraction of the shorter edge at its corner, in [0, 1]."""


@wp.kernel
def bezier_kernel(
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
    samples: int,
    # Scratch:
    placed: wp.array2d[wp.vec2f],
    bearing: wp.array2d[wp.float32],
    corners: wp.array2d[wp.vec2f],
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
    distance = knobs_in[env, first_knob]
    rad = knobs_in[env, first_knob + 1]
    lean = wp.atan2(knobs_in[env, first_knob + 2], 1.0) * wp.static(0.3183098861837907) + 0.5
    clamp = knobs_in[env, first_knob + 3]
    count = place_corners(
        seeds_in[env],
        episode_in[env],
        wp.static(int(Stream.BEZIER_CORNERS)),
        attempt,
        min_corners,
        max_corners,
        distance,
        side,
        focus,
        env,
        lane,
        placed,
    )
    block_sync()
    sort_by_angle(placed, bearing, corners, env, lane, count)
    for i in range(lane, count, wp.block_dim()):
        here = corners[env, i]
        enter = here - corners[env, (i + count - 1) % count]
        leave = corners[env, (i + 1) % count] - here
        enter_length = wp.length(enter)
        leave_length = wp.length(leave)
        # A zero sum (a full reversal) leaves no tangent and so a plain corner.
        tangent = wp.normalize(lean * wp.normalize(leave) + (1.0 - lean) * wp.normalize(enter))
        longest = clamp * wp.min(enter_length, leave_length)
        ahead[env, i] = tangent * wp.min(rad * leave_length, longest)
        behind[env, i] = -tangent * wp.min(rad * enter_length, longest)
    fallback = draw_simple_curve(
        corners,
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
        samples,
        curve_out,
    )
    if lane == 0:
        curve_count_out[env] = count * samples
        fallback_out[env] = fallback


@wp.kernel
def bezier_anchors_kernel(
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
    # Out:
    anchors_out: wp.array2d[wp.vec2f],
):
    """Draw the corners of an env, as many as asked for. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    place_corners(
        seeds_in[env],
        episode_in[env],
        wp.static(int(Stream.BEZIER_CORNERS)),
        attempt,
        count_in[env],
        count_in[env],
        knobs_in[env, first_knob],
        side,
        focus,
        env,
        lane,
        anchors_out,
    )


def _samples(settings: Bezier) -> int:
    """Points per edge: dense enough for a half width of 0.01, fewer on the short edges of many."""
    return 64 if settings.max_corners <= 16 else 32


def _curve_size(settings: Bezier) -> int:
    return settings.max_corners * _samples(settings)


def _allocate(settings: Bezier, num_envs: int, device: wp.Device) -> dict[str, wp.array]:
    corners = settings.max_corners
    return {
        **allocate_corners(num_envs, corners, device),
        **allocate_curve(num_envs, corners, _curve_size(settings), device),
    }


def _launches(settings: Bezier, job: CurveJob) -> list[wp.Launch]:
    scratch = job.scratch
    return [
        block_launch(
            bezier_kernel,
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
                _samples(settings),
                *(scratch[name] for name in ("placed", "bearing", "corners")),
                *(scratch[name] for name in ("ahead", "behind", "shrink", "marks")),
                *box_arrays(scratch),
            ],
            outputs=[job.curve, job.curve_count, scratch["fallback"]],
            device=job.device,
        )
    ]


def _anchor_launches(settings: Bezier, job: AnchorJob) -> list[wp.Launch]:
    return [
        block_launch(
            bezier_anchors_kernel,
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
            ],
            outputs=[job.anchors],
            device=job.device,
        )
    ]


def _typical_length(settings: Bezier) -> float:
    """Fit to 2048 seeds of 3 to 64 corners and of handles from 0 to 1."""
    handle = min(np.max(settings.rad), np.max(settings.handle_clamp))
    lean = 1.05 if np.any(settings.edgy) else 1.0
    return float((4.2 + 0.34 * settings.max_corners) * (1.0 + 0.28 * max(handle - 0.4, 0.0)) * lean)


SPEC = GeneratorSpec(
    name="bezier",
    settings=Bezier,
    launches=_launches,
    curve_size=_curve_size,
    fit="natural",
    allocate=_allocate,
    typical_length=_typical_length,
    anchors=AnchorSource(
        launches=_anchor_launches,
        count_range=lambda settings: (settings.min_corners, settings.max_corners),
        allocate=lambda settings, max_count, num_envs, device: {},
        angular=False,
        difficulty={"min_corner_distance": ((0.1, 0.14), (0.0, 0.05))},
    ),
)
