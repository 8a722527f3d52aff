"""Repulsive family: a curve grown by self-repulsion, window by window under host control.

The growth is the one of :mod:`track_gen.generators.growth`, and the same seed gives the same curve
as in the serpentine family. Here the host launches a window of iterations at a time, looks how many
envs still grow, reports it, and stops as soon as none does: no graph, but progress and an early end
on every device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import warp as wp

from track_gen.generators.growth import (
    CURVE_POINTS,
    MAX_ITERATIONS,
    GrowthSettings,
    allocate_growth,
    growth_launch,
    growth_length,
)
from track_gen.generators.spec import Command, CurveJob, GeneratorSpec, Progress

__all__ = ["SPEC", "WINDOW", "Repulsive"]

WINDOW = 16
"""Iterations per launch."""


@dataclass(frozen=True, kw_only=True)
class Repulsive(GrowthSettings):
    """A curve grown by self-repulsion among obstacles, with the host looking on."""


class _HostDrivenGrowth:
    """Runs windows of iterations until no env of the rows grows."""

    def __init__(
        self,
        begin: wp.Launch,
        resume: wp.Launch,
        growing: wp.array,
        on_cpu: bool,
        progress: Progress | None,
    ) -> None:
        self._begin = begin
        self._resume = resume
        self._growing = growing
        self._progress = progress
        # CPU launches are synchronous: the flags can be looked at where they lie.
        self._flags = growing.numpy() if on_cpu else None

    def _count(self) -> int:
        flags = self._growing.numpy() if self._flags is None else self._flags
        return int(np.count_nonzero(flags))

    def launch(self) -> None:
        """Grow the curves of all pending rows to the end."""
        command = self._begin
        for iteration in range(WINDOW, MAX_ITERATIONS + WINDOW, WINDOW):
            command.launch()
            growing = self._count()
            if self._progress is not None:
                self._progress.report(id(self), min(iteration, MAX_ITERATIONS), growing)
            if growing == 0:
                return
            command = self._resume


def _curve_size(settings: Repulsive) -> int:
    return CURVE_POINTS


def _launches(settings: Repulsive, job: CurveJob) -> list[Command]:
    return [
        _HostDrivenGrowth(
            growth_launch(settings, job, begin=True, budget=WINDOW),
            growth_launch(settings, job, begin=False, budget=WINDOW),
            job.scratch["growing"],
            job.device.is_cpu,
            job.progress,
        )
    ]


SPEC = GeneratorSpec(
    name="repulsive",
    settings=Repulsive,
    launches=_launches,
    curve_size=_curve_size,
    capturable=False,
    fit="natural",
    allocate=allocate_growth,
    typical_length=growth_length,
)
