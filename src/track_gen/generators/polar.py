"""Polar family: jittered radial knots joined by a closed spline.

Knots stand at nearly even angles around a centre, each moved along the circle and along its ray; a
closed Catmull-Rom spline passes through them. Jitter below half a cell keeps the knots in angular
order, so their polygon is star-shaped and simple. The spline is centripetal (Yuksel, Schaefer,
Keyser: Parameterization and applications of Catmull-Rom curves, Computer-Aided Design 2011): no
cusps and no loops inside an edge, where the uniform one overshoots short edges. If strong jitter
makes edges cross, those that run backward around the centre become straight; the curve is star-
shaped then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import warp as wp

from track_gen.block import block_lane, block_launch, block_sum_int, block_sync
from track_gen.checks import check_int
from track_gen.generators.crossings import (
    allocate_boxes,
    box_arrays,
    build_boxes,
    mark_crossings,
)
from track_gen.generators.spec import (
    AnchorJob,
    AnchorSource,
    CurveJob,
    GeneratorSettings,
    GeneratorSpec,
)
from track_gen.geometry import catmull_rom_tangents, cos_sin, cross, hermite
from track_gen.parameters import Knob, Range
from track_gen.rng import Stream, draw_uniform

__all__ = ["SPEC", "Polar"]

wp.set_module_options({"enable_backward": False})


@dataclass(frozen=True, kw_only=True)
class Polar(GeneratorSettings):
    """Jittered radial knots joined by a closed spline."""

    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("radial_jitter", 0.0, 0.85),
        Knob("angular_jitter", 0.0, 0.45),
    )
    difficulty: ClassVar[Mapping[str, tuple[Range, Range]]] = {
        "radial_jitter": ((0.1, 0.3), (0.7, 0.85)),
        "angular_jitter": ((0.0, 0.1), (0.3, 0.45)),
    }

    num_knots: int = 12
    """Knots of the loop, in [4, 128]."""
    radial_jitter: Range = 0.60
    """Largest relative change of a knot's radius, in [0, 0.85]; a pair draws it per env."""
    angular_jitter: Range = 0.30
    """Largest shift of a knot along the circle, as a fraction of the angle between two knots, in
    [0, 0.45]; a pair draws it per env."""

    def check(self) -> None:
        """Check the number of knots.

        Raises:
            ValueError: If it is out of bounds.
            TypeError: If it is not an int.
        """
        check_int("Polar.num_knots", self.num_knots, 4, 128)


@wp.func
def _draw_knot(
    seed: int,
    episode: int,
    attempt: int,
    i: int,
    num_knots: int,
    radial_jitter: float,
    angular_jitter: float,
) -> wp.vec2f:
    """Knot ``i``: at its even angle and radius 1, each with its jitter."""
    u = draw_uniform(seed, episode, wp.static(int(Stream.POLAR_KNOTS)), attempt, i)
    turns = (float(i) + angular_jitter * (2.0 * u[0] - 1.0)) / float(num_knots)
    radius = wp.max(1.0 + radial_jitter * (2.0 * u[1] - 1.0), 0.1)
    return radius * cos_sin(wp.static(2.0 * math.pi) * turns)


@wp.kernel
def write_polar_anchors_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    count_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    # Out:
    anchors_out: wp.array2d[wp.vec2f],
):
    """Draw the knots of an env, as many as asked for. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    count = count_in[env]
    for i in range(lane, count, wp.block_dim()):
        anchors_out[env, i] = _draw_knot(
            seeds_in[env],
            episode_in[env],
            attempt,
            i,
            count,
            knobs_in[env, first_knob],
            knobs_in[env, first_knob + 1],
        )


@wp.kernel
def write_polar_curve_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    samples: int,
    # Out:
    knots_out: wp.array2d[wp.vec2f],
    tangents_out: wp.array2d[wp.vec4f],
    backward_out: wp.array2d[wp.int32],
    chunk_box_out: wp.array2d[wp.vec4f],
    group_box_out: wp.array2d[wp.vec4f],
    monotone_out: wp.array2d[wp.int32],
    marks_out: wp.array2d[wp.int32],
    fallback_out: wp.array[wp.int32],
    curve_out: wp.array2d[wp.vec2f],
    curve_count_out: wp.array[wp.int32],
):
    """Draw the knots of an env and write its spline, ``samples`` points an edge. Dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    num_knots = knots_out.shape[1]
    radial_jitter = knobs_in[env, first_knob]
    angular_jitter = knobs_in[env, first_knob + 1]
    for i in range(lane, num_knots, wp.block_dim()):
        knots_out[env, i] = _draw_knot(
            seeds_in[env], episode_in[env], attempt, i, num_knots, radial_jitter, angular_jitter
        )
    block_sync()
    for i in range(lane, num_knots, wp.block_dim()):
        tangents_out[env, i] = catmull_rom_tangents(
            knots_out[env, (i + num_knots - 1) % num_knots],
            knots_out[env, i],
            knots_out[env, (i + 1) % num_knots],
            knots_out[env, (i + 2) % num_knots],
        )
        backward_out[env, i] = 0
    block_sync()
    count = num_knots * samples
    for j in range(lane, count, wp.block_dim()):
        i = j // samples
        t = float(j - i * samples) / float(samples)
        curve_out[env, j] = hermite(
            knots_out[env, i], knots_out[env, (i + 1) % num_knots], tangents_out[env, i], t
        )
    block_sync()

    # A curve whose angle only grows is star-shaped, so simple; only the others are tested.
    backward = int(0)
    for j in range(lane, count, wp.block_dim()):
        if cross(curve_out[env, j], curve_out[env, (j + 1) % count]) <= 0.0:
            backward += 1
            backward_out[env, j // samples] = 1
    fallback = int(0)
    if block_sum_int(backward) > 0:
        build_boxes(curve_out, env, lane, count, chunk_box_out, group_box_out, monotone_out)
        crossings = mark_crossings(
            curve_out,
            env,
            lane,
            count,
            chunk_box_out,
            group_box_out,
            monotone_out,
            samples,
            marks_out,
        )
        if block_sum_int(crossings) > 0:
            fallback = 1
            block_sync()
            for j in range(lane, count, wp.block_dim()):
                i = j // samples
                if backward_out[env, i] != 0:
                    a = knots_out[env, i]
                    t = float(j - i * samples) / float(samples)
                    curve_out[env, j] = a + t * (knots_out[env, (i + 1) % num_knots] - a)
    if lane == 0:
        fallback_out[env] = fallback
        curve_count_out[env] = count


def _samples(settings: Polar) -> int:
    """Samples of an edge: 64 for few knots, at least 16 for many."""
    return max(16, min(64, 1024 // settings.num_knots))


def _curve_size(settings: Polar) -> int:
    return settings.num_knots * _samples(settings)


def _allocate(settings: Polar, num_envs: int, device: wp.Device) -> dict[str, wp.array]:
    shape = (num_envs, settings.num_knots)
    return {
        "knots": wp.zeros(shape, dtype=wp.vec2f, device=device),
        "tangents": wp.zeros(shape, dtype=wp.vec4f, device=device),
        "backward": wp.zeros(shape, dtype=wp.int32, device=device),
        "marks": wp.zeros(shape, dtype=wp.int32, device=device),
        "fallback": wp.zeros(num_envs, dtype=wp.int32, device=device),
        **allocate_boxes(num_envs, _curve_size(settings), device),
    }


def _launches(settings: Polar, job: CurveJob) -> list[wp.Launch]:
    scratch = job.scratch
    return [
        block_launch(
            write_polar_curve_kernel,
            job.num_envs,
            job.lanes,
            inputs=[
                job.pending,
                job.seeds,
                job.episode,
                job.knobs,
                job.first_knob,
                job.attempt,
                _samples(settings),
            ],
            outputs=[
                scratch["knots"],
                scratch["tangents"],
                scratch["backward"],
                *box_arrays(scratch),
                scratch["marks"],
                scratch["fallback"],
                job.curve,
                job.curve_count,
            ],
            device=job.device,
        )
    ]


def _anchor_launches(settings: Polar, job: AnchorJob) -> list[wp.Launch]:
    return [
        block_launch(
            write_polar_anchors_kernel,
            job.num_envs,
            job.lanes,
            inputs=[
                job.pending,
                job.seeds,
                job.episode,
                job.count,
                job.knobs,
                job.first_knob,
                job.attempt,
            ],
            outputs=[job.anchors],
            device=job.device,
        )
    ]


def _typical_length(settings: Polar) -> float:
    """Upper fit to the 99.9 % lengths over the whole range of knots and jitters (see the tests)."""
    jitter = float(np.max(settings.radial_jitter))
    return 4.8 + 0.54 * settings.num_knots * jitter / (1.0 + 0.85 * jitter)


SPEC = GeneratorSpec(
    name="polar",
    settings=Polar,
    launches=_launches,
    curve_size=_curve_size,
    allocate=_allocate,
    typical_length=_typical_length,
    anchors=AnchorSource(
        launches=_anchor_launches,
        count_range=lambda settings: (settings.num_knots, settings.num_knots),
        allocate=lambda settings, max_count, num_envs, device: {},
        angular=True,
        difficulty=Polar.difficulty,
    ),
)
