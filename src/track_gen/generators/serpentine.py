"""Serpentine family: a curve grown by self-repulsion, in one launch that a graph can hold.

The growth is the one of :mod:`track_gen.generators.growth`, and the same seed gives the same curve
as in the repulsive family; here the blocks of an env leave the one launch when the env is done.
"""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from track_gen.generators.growth import (
    CURVE_POINTS,
    MAX_ITERATIONS,
    GrowthSettings,
    allocate_growth,
    growth_launch,
    growth_length,
)
from track_gen.generators.spec import CurveJob, GeneratorSpec

__all__ = ["SPEC", "Serpentine"]


@dataclass(frozen=True, kw_only=True)
class Serpentine(GrowthSettings):
    """A curve grown by self-repulsion among obstacles, in one launch."""


def _curve_size(settings: Serpentine) -> int:
    return CURVE_POINTS


def _launches(settings: Serpentine, job: CurveJob) -> list[wp.Launch]:
    return [growth_launch(settings, job, begin=True, budget=MAX_ITERATIONS)]


SPEC = GeneratorSpec(
    name="serpentine",
    settings=Serpentine,
    launches=_launches,
    curve_size=_curve_size,
    fit="natural",
    allocate=allocate_growth,
    typical_length=growth_length,
)
