"""What the benchmark scripts share: the machine's description, timing, tables, JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp
from rich.console import Console
from rich.table import Table

from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator, __version__
from track_gen.executor import usable_cores

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

FAMILIES = ("bezier", "hull", "polar", "voronoi", "checkpoint")
"""Generated families, in the order of the tables."""


def parser(description: str) -> argparse.ArgumentParser:
    """Arguments that every benchmark takes."""
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--device", default=None, help="Warp device; default is the current one")
    arguments.add_argument("--json", type=Path, default=None, help="where to write the figures")
    arguments.add_argument("--families", nargs="+", default=list(FAMILIES))
    return arguments


def machine(device: Any) -> dict[str, Any]:
    """Device, versions, cores."""
    device = wp.get_device(device)
    return {
        "device": device.name if device.is_cuda else f"CPU {platform.machine()}",
        "cores": usable_cores(),
        "load": round(os.getloadavg()[0], 2),
        "warp": wp.config.version,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "track_gen": __version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def make(
    num_envs: int, device: Any, seeds: Any = 0, capture: bool | None = None, **config: Any
) -> TrackGenerator:
    """A generator with its RNG."""
    return TrackGenerator(
        TrackGenConfig(num_envs=num_envs, device=device, **config),
        PerEnvSeededRNG(seeds=seeds, num_envs=num_envs, device=device),
        capture=capture,
    )


def milliseconds(call: Callable[[], Any], device: Any, repeats: int = 7) -> float:
    """Median wall time of a call, the device's work included, after one warm-up call."""
    device = wp.get_device(device)
    call()
    wp.synchronize_device(device)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        wp.synchronize_device(device)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def show(
    title: str, rows: Sequence[dict[str, Any]], about: dict[str, Any], path: Path | None
) -> None:
    """Print the rows as a table and write them as JSON."""
    console = Console(width=max(120, Console().width))
    console.print(f"\n[bold]{title}[/bold]")
    console.print(", ".join(f"{key} {value}" for key, value in about.items()), style="dim")
    table = Table()
    for column in rows[0]:
        table.add_column(column, justify="left" if isinstance(rows[0][column], str) else "right")
    for row in rows:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    console.print(table)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({"title": title, "machine": about, "rows": list(rows)}, indent=1)
        )
