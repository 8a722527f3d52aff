"""A batch for the command line: made, timed, and shown as a table."""

# pyright: basic
from __future__ import annotations

import contextlib
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from track_gen.cli.arguments import user_input
from track_gen.config import N_MAX_LIMIT
from track_gen.gate_config import GateGenConfig
from track_gen.gate_generator import GateGenerator
from track_gen.report import GenerationReport
from track_gen.rng import PerEnvSeededRNG
from track_gen.status import TrackStatus
from track_gen.track_generator import TrackGenerator

__all__ = [
    "MeasuredBatch",
    "TIMED_CALLS",
    "gate_table",
    "invalid_text",
    "make_generator",
    "metrics_table",
    "run_batch",
    "track_table",
]

TIMED_CALLS = 3
"""Warm calls whose median is shown."""


def _compactness(track: dict[str, np.ndarray]) -> np.ndarray:
    """4 pi area / length^2 of the valid tracks: 1 for a circle."""
    values = []
    for center, count in zip(
        track["center"][track["valid"]], track["count"][track["valid"]], strict=True
    ):
        x, y = center[:count, :2].astype(np.float64).T
        dx, dy = np.roll(x, -1) - x, np.roll(y, -1) - y
        area = 0.5 * abs(float(np.sum(x * dy - y * dx)))
        values.append(4.0 * np.pi * area / np.hypot(dx, dy).sum() ** 2)
    return np.asarray(values)


def make_generator(config: Any, seed: int) -> Any:
    """A generator and its random numbers; what Warp cannot allocate is a usage error too."""
    with user_input(RuntimeError, MemoryError), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rng = PerEnvSeededRNG(seeds=seed, num_envs=config.num_envs, device=config.device)
        kind: Any = GateGenerator if isinstance(config, GateGenConfig) else TrackGenerator
        generator = kind(config, rng)
    for warning in caught:
        print(f"track-gen: warning: {warning.message}", file=sys.stderr)
    return generator


@dataclass(frozen=True)
class MeasuredBatch:
    """A generated batch with its figures."""

    track: Any
    """A ``Track`` or a ``GateSequence``."""
    arrays: dict[str, np.ndarray]
    report: GenerationReport
    milliseconds: float
    """Median wall clock per track [ms]."""


@contextlib.contextmanager
def _progress_bar(generator: Any) -> Iterator[None]:
    """A bar on stderr while a host-driven family grows its tracks; nothing for the others."""
    if generator.config.spec.capturable:
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} grown, {task.fields[iterations]} iterations"),
        TimeElapsedColumn(),
    )
    num_envs = generator.config.num_envs
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(generator.config.spec.name, total=num_envs, iterations=0)
        generator.on_progress = lambda iterations, growing: progress.update(
            task, completed=num_envs - growing, iterations=iterations
        )
        try:
            yield
        finally:
            generator.on_progress = None


def run_batch(generator: Any) -> MeasuredBatch:
    """Generate the batch and time the warm calls; a repeated call gives the same tracks."""
    with _progress_bar(generator):
        return _run_timed(generator)


def _run_timed(generator: Any) -> MeasuredBatch:
    generator.warmup()
    times: list[float] = []
    batch: Any = None
    for _ in range(TIMED_CALLS):
        wp.synchronize_device(generator.device)
        start = time.perf_counter()
        batch = generator.generate()
        wp.synchronize_device(generator.device)
        times.append(time.perf_counter() - start)
    milliseconds = 1e3 * statistics.median(times) / generator.config.num_envs
    return MeasuredBatch(batch, batch.numpy(), generator.report(), milliseconds)


def track_table(batches: dict[str, MeasuredBatch], title: str) -> Any:
    """The figures of some batches, one row each."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("family")
    for name in ("yield", "attempts", "length", "compactness", "ms per track"):
        table.add_column(name, justify="right")
    for name, batch in batches.items():
        lengths = batch.arrays["length"][batch.arrays["valid"]].astype(np.float64)
        compactness = _compactness(batch.arrays)
        table.add_row(
            name,
            f"{100.0 * batch.report.yield_rate:.2f} %",
            f"{batch.report.attempts_mean:.3f}",
            f"{lengths.mean():.3g} ± {lengths.std():.2g}" if len(lengths) else "-",
            f"{compactness.mean():.2f} ± {compactness.std():.2f}" if len(lengths) else "-",
            f"{batch.milliseconds:.3f}",
        )
    return table


def gate_table(name: str, batch: MeasuredBatch, title: str) -> Any:
    """The figures of a batch of gate courses."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("family")
    for column in ("yield", "attempts", "gates", "extent", "ms per course"):
        table.add_column(column, justify="right")
    valid = batch.arrays["valid"]
    counts, points = batch.arrays["count"][valid], batch.arrays["position"][valid][..., :2]
    extents = [np.ptp(p[:n], axis=0).max() for p, n in zip(points, counts, strict=True)]
    table.add_row(
        name,
        f"{100.0 * batch.report.yield_rate:.2f} %",
        f"{batch.report.attempts_mean:.3f}",
        f"{counts.min()} to {counts.max()}" if len(counts) else "-",
        f"{np.mean(extents):.3g} ± {np.std(extents):.2g}" if len(counts) else "-",
        f"{batch.milliseconds:.3f}",
    )
    return table


def metrics_table(metrics: dict[str, np.ndarray]) -> Any:
    """Mean, spread and range of each metric over the valid tracks."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("metric")
    for column in ("mean", "deviation", "least", "largest"):
        table.add_column(column, justify="right")
    for name, values in metrics.items():
        known = values[np.isfinite(values)].astype(np.float64)
        figures = (known.mean(), known.std(), known.min(), known.max()) if len(known) else ()
        table.add_row(name, *(f"{x:.3g}" for x in figures))
    return table


def invalid_text(batch: MeasuredBatch, N_max: int) -> str:
    """Why some tracks are not valid, as one line; empty if all are."""
    if not batch.report.reasons:
        return ""
    reasons = ", ".join(f"{name} {count}" for name, count in batch.report.reasons.items())
    text = f"{batch.report.num_envs - batch.report.num_valid} not valid: {reasons}"
    overflow = (batch.arrays["status"] & int(TrackStatus.OVERFLOW)) != 0
    if "required_count" in batch.arrays and overflow.any():
        required = int(batch.arrays["required_count"][overflow].max())
        text += f"; N_max is {N_max}, "
        text += (
            f"{required} would do"
            if required <= N_MAX_LIMIT
            else f"the longest takes {required} and the limit is {N_MAX_LIMIT}: "
            "the road is too narrow for the scale"
        )
    return text
