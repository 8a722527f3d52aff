"""A track family of one's own: superellipses, registered and used like the built-in ones.

python examples/own_family.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import warp as wp

from track_gen import (
    GeneratorSettings,
    GeneratorSpec,
    PerEnvSeededRNG,
    TrackGenConfig,
    TrackGenerator,
    register_generator,
)
from track_gen.block import block_lane, block_launch
from track_gen.generators import CurveJob
from track_gen.geometry import cos_sin
from track_gen.parameters import Knob, Range
from track_gen.rng import draw_uniform

NUM_POINTS = 256
STREAM = 1000  # streams from 1000 on are free


@dataclass(frozen=True, kw_only=True)
class Superellipse(GeneratorSettings):
    """|x / a|^p + |y / b|^p = 1 with a random aspect b / a."""

    knobs: ClassVar[tuple[Knob, ...]] = (Knob("power", 1.2, 8.0), Knob("least_aspect", 0.3, 1.0))

    power: Range = (1.5, 4.0)
    """Exponent p in [1.2, 8]: 2 is an ellipse, more is squarer."""
    least_aspect: Range = 0.4
    """Least aspect b / a in [0.3, 1]; drawn from there to 1."""


@wp.kernel
def superellipse_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    pending_in: wp.array[wp.bool],
    knobs_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    # Out:
    curve_out: wp.array2d[wp.vec2f],
    curve_count_out: wp.array[wp.int32],
):
    """Write the curve of each pending env. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    power = knobs_in[env, first_knob]
    least = knobs_in[env, first_knob + 1]
    u = draw_uniform(seeds_in[env], episode_in[env], wp.static(STREAM), attempt, 0)
    aspect = least + (1.0 - least) * u[0]
    for i in range(lane, wp.static(NUM_POINTS), wp.block_dim()):
        direction = cos_sin(float(i) * wp.static(6.283185307 / NUM_POINTS))
        norm = wp.pow(wp.abs(direction[0]), power) + wp.pow(wp.abs(direction[1]), power)
        radius = wp.pow(norm, -1.0 / power)
        curve_out[env, i] = wp.vec2f(radius * direction[0], aspect * radius * direction[1])
    if lane == 0:
        curve_count_out[env] = wp.static(NUM_POINTS)


def superellipse_launches(settings: Superellipse, job: CurveJob) -> list[wp.Launch]:
    """Prepare the one launch of the family."""
    launch = block_launch(
        superellipse_kernel,
        job.num_envs,
        job.lanes,
        inputs=[job.seeds, job.episode, job.pending, job.knobs, job.first_knob, job.attempt],
        outputs=[job.curve, job.curve_count],
        device=job.device,
    )
    return [launch]


SPEC = GeneratorSpec(
    name="superellipse",
    settings=Superellipse,
    launches=superellipse_launches,
    curve_size=lambda settings: NUM_POINTS,
    typical_length=lambda settings: 6.0,
)


def main(num_envs: int = 64) -> TrackGenerator:
    """Register the family and generate a batch."""
    register_generator(SPEC, replace=True)
    config = TrackGenConfig(num_envs=num_envs, half_width=0.1, generator=Superellipse())
    generator = TrackGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=num_envs))
    generator.generate()
    print(generator.report())
    return generator


if __name__ == "__main__":
    main()
