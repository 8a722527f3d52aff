"""Polar family: jittered radial knots joined by a closed spline.

Knots stand at nearly even angles around a centre, each moved along the circle and along its ray;
a closed Catmull-Rom spline passes through them. Jitter below half a cell keeps the knots in angular
order, so their polygon is star-shaped and simple. The spline is centripetal (Yuksel, Schaefer,
Keyser: Parameterization and applications of Catmull-Rom curves, Computer-Aided Design 2011): no
cusps and no loops inside an edge, where the uniform one overshoots short edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import warp as wp

from track_gen.block import block_lane, block_launch, block_sync
from track_gen.checks import check_int
from track_gen.generators.spec import CurveJob, GeneratorSettings, GeneratorSpec
from track_gen.geometry import catmull_rom_tangents, cos_sin, hermite
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
        u = draw_uniform(
            seeds_in[env], episode_in[env], wp.static(int(Stream.POLAR_KNOTS)), attempt, i
        )
        turns = (float(i) + angular_jitter * (2.0 * u[0] - 1.0)) / float(num_knots)
        radius = wp.max(1.0 + radial_jitter * (2.0 * u[1] - 1.0), 0.1)
        knots_out[env, i] = radius * cos_sin(wp.static(2.0 * math.pi) * turns)
    block_sync()
    for i in range(lane, num_knots, wp.block_dim()):
        tangents_out[env, i] = catmull_rom_tangents(
            knots_out[env, (i + num_knots - 1) % num_knots],
            knots_out[env, i],
            knots_out[env, (i + 1) % num_knots],
            knots_out[env, (i + 2) % num_knots],
        )
    block_sync()
    for j in range(lane, num_knots * samples, wp.block_dim()):
        i = j // samples
        t = float(j - i * samples) / float(samples)
        curve_out[env, j] = hermite(
            knots_out[env, i], knots_out[env, (i + 1) % num_knots], tangents_out[env, i], t
        )
    if lane == 0:
        curve_count_out[env] = num_knots * samples


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
    }


def _launches(settings: Polar, job: CurveJob) -> list[wp.Launch]:
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
            outputs=[job.scratch["knots"], job.scratch["tangents"], job.curve, job.curve_count],
            device=job.device,
        )
    ]


def _typical_length(settings: Any) -> float:
    return 8.0


SPEC = GeneratorSpec(
    name="polar",
    settings=Polar,
    launches=_launches,
    curve_size=_curve_size,
    allocate=_allocate,
    typical_length=_typical_length,
)
