"""The one script to run when there is a GPU: contracts, agreement with the CPU, timings.

    python benchmarks/gpu_check.py                        # under 8 minutes
    python benchmarks/gpu_check.py --quick                # under 3 minutes
    python benchmarks/gpu_check.py --device cpu --quick   # the same contracts on CPU captures

Exit code 0 if every contract holds. Timings are medians of replays, device synchronised; they stop
in time for the limits above.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from common import FAMILIES, machine, make, milliseconds, show
from track_gen import (
    Bezier,
    GateGenConfig,
    GateGenerator,
    Hull,
    Mixture,
    PerEnvSeededRNG,
    Polar,
    Uniform,
)

ORDERED_PAGE_MS = {
    "bezier": 93.2,
    "checkpoint": 92.2,
    "hull": 98.9,
    "polar": 80.8,
    "voronoi": 81.3,
}
"""Replay times at E = 8192, half_width 0.03, that a tenth of is the goal."""

_MIXTURE = Mixture({Bezier(): 2, Polar(): 1, Hull(): 1})
COURSES: dict[str, dict[str, Any]] = {
    **{f"gates {family}": {"generator": family} for family in FAMILIES},
    "gates random": {"ordering": "random"},
    "gates mixture": {"generator": _MIXTURE, "ordering": "sampled"},
    "gates hills": {
        "elevation": Uniform(low=1.5, high=9.0),
        "max_grade": 0.6,
        "align": "tangent",
        "generator": "polar",
    },
}
"""Gate courses whose contracts are checked; 8 to 13 gates."""

TIMED_COURSES = ("gates bezier", "gates polar", "gates random", "gates mixture")

CONTRACT_SECONDS, TRACK_SECONDS, COURSE_SECONDS = 200.0, 340.0, 420.0
"""Seconds after the start at which no further row of a table is begun; --quick takes a third."""


def make_course(
    num_envs: int, device: Any, seeds: Any = 0, capture: bool | None = None, **config: Any
) -> GateGenerator:
    """A gate generator with its RNG."""
    config = {"num_gates": (8, 13), **config}
    return GateGenerator(
        GateGenConfig(num_envs=num_envs, device=device, **config),
        PerEnvSeededRNG(seeds=seeds, num_envs=num_envs, device=device),
        capture=capture,
    )


def track_length(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Length of each valid track, NaN elsewhere."""
    return np.where(arrays["valid"], arrays["length"], np.nan)


def course_length(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Length of the polygon through the gates of each valid course, NaN elsewhere."""
    position, count = arrays["position"].astype(float), arrays["count"]
    nowhere = np.arange(position.shape[1]) >= count[:, None]
    edges = np.linalg.norm(np.diff(position, axis=1), axis=2)
    closing = np.linalg.norm(
        position[np.arange(len(count)), np.maximum(count - 1, 0)] - position[:, 0], axis=1
    )
    total = np.where(nowhere[:, 1:], 0.0, edges).sum(axis=1) + closing
    return np.where(arrays["valid"], total, np.nan)


@dataclass(frozen=True)
class Kind:
    """What is checked: a name, how it is made, where its points are, how long it is."""

    name: str
    make: Callable[..., Any]
    settings: dict[str, Any]
    points: str
    length: Callable[[dict[str, np.ndarray]], np.ndarray]


KINDS = [
    Kind(family, make, {"generator": family, "half_width": 0.1}, "center", track_length)
    for family in FAMILIES
] + [
    Kind(name, make_course, settings, "position", course_length)
    for name, settings in COURSES.items()
]


def raw(generator) -> dict[str, bytes]:
    """Bytes of every published array."""
    return {name: array.tobytes() for name, array in generator._published.numpy().items()}


def contracts(kind: Kind, device: str, E: int) -> list[dict]:
    """One row per contract: capture, masks, rows, agreement with the CPU."""
    captured = kind.make(E, device, capture=True, **kind.settings)
    eager = kind.make(E, device, capture=False, **kind.settings)
    rows = []

    def check(name: str, holds: bool, detail: str = "") -> None:
        rows.append({"what": kind.name, "contract": name, "holds": bool(holds), "detail": detail})

    same = True
    for round_index in range(3):
        mask = None if round_index == 0 else np.arange(E) % (round_index + 1) == 0
        for generator in (captured, eager):
            generator.set_difficulty(0.4 * round_index, mask)
            generator.rng.advance(mask)
            generator.generate(mask)
        same &= raw(captured) == raw(eager)
    check("captured == eager, 3 replays and difficulties", same)
    check("graph is kept", captured.graph is not None and eager.graph is None)

    before = captured._published.numpy()
    mask = np.arange(E) % 7 == 3
    captured.rng.advance(mask)
    captured.generate(mask)
    after = captured._published.numpy()
    check(
        "unmasked rows untouched",
        all(
            np.array_equal(before[k][~mask], after[k][~mask], equal_nan=before[k].dtype.kind == "f")
            for k in before
        ),
    )
    point = kind.points
    check("masked rows renewed", (after[point][mask, 0] != before[point][mask, 0]).any(1).all())

    order = np.random.default_rng(0).permutation(E)
    seeds = captured.rng.seeds_warp.numpy()
    one = kind.make(E, device, **kind.settings, seeds=seeds).generate().numpy()
    other = kind.make(E, device, **kind.settings, seeds=seeds[order]).generate().numpy()
    check("a seed's result in any row", one[point][order].tobytes() == other[point].tobytes())

    host = kind.make(E, "cpu", **kind.settings, seeds=seeds).generate().numpy()
    there, here = kind.length(host), kind.length(one)
    gap = np.abs(there - here) / there
    check(
        "CPU and device agree",
        abs(host["valid"].mean() - one["valid"].mean()) < 0.01
        and abs(np.nanmean(there) / np.nanmean(here) - 1) < 0.01
        and np.array_equal(host["family"], one["family"]),
        f"length gap p50 {np.nanmedian(gap):.1e} p99 {np.nanquantile(gap, 0.99):.1e}",
    )
    check("every one valid", one["valid"].all(), f"{one['valid'].mean():.4f}")

    step = wp.zeros(E, dtype=wp.bool, device=device)
    generator = kind.make(E, device, **kind.settings, seeds=seeds)
    generator.warmup()
    generator.generate()
    with wp.ScopedCapture(device=device) as capture:
        generator.rng.advance(step)
        generator.generate(step)
    step.assign(mask)
    wp.capture_launch(capture.graph)
    twin = kind.make(E, device, **kind.settings, seeds=seeds)
    twin.generate()
    twin.rng.advance(mask)
    twin.generate(mask)
    check("inside the caller's graph", raw(generator) == raw(twin))
    return rows


def timing(generator, num_envs: int, device: Any) -> dict[str, float]:
    """Milliseconds of a replay of all envs and of every hundredth."""
    replay = milliseconds(generator.generate, device)
    chosen = wp.array(np.arange(num_envs) % 100 == 0, dtype=wp.bool, device=device)
    masked = milliseconds(lambda: generator.generate(chosen), device)
    return {"replay ms": replay, "us each": 1e3 * replay / num_envs, "1 % masked ms": masked}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="fewer batch sizes")
    arguments.add_argument("--device", default="cuda:0", help="Warp device, cpu too")
    arguments.add_argument("--envs", type=int, default=512, help="batch size of the contracts")
    arguments.add_argument("--sizes", type=int, nargs="*", help="batch sizes that are timed")
    arguments.add_argument("--json", type=Path, default=None, help="timings of tracks")
    arguments.add_argument("--json-gates", type=Path, default=None, help="timings of gate courses")
    args = arguments.parse_args(argv)
    wp.config.quiet = True
    start = time.perf_counter()
    device = wp.get_device(args.device)
    about = machine(device)

    def late(limit: float) -> bool:
        return time.perf_counter() - start > (limit / 3.0 if args.quick else limit)

    checks, skipped = [], []
    for kind in KINDS:
        if late(CONTRACT_SECONDS):
            skipped.append(f"contracts of {kind.name}")
        else:
            checks += contracts(kind, str(device), args.envs)
    show("Contracts", checks, about, None)

    sizes = (64, 8192) if args.quick else (64, 512, 4096, 8192, 16384, 65536)
    if device.is_cpu:
        sizes = (64, 512)
    if args.sizes is not None:
        sizes = args.sizes
    tracks, courses, blocks = [], [], []
    for family in FAMILIES:
        for num_envs in sizes:
            if late(TRACK_SECONDS):
                skipped.append(f"timing of {family} at E = {num_envs}")
                continue
            generator = make(num_envs, str(device), generator=family, half_width=0.03)
            bar = ORDERED_PAGE_MS[family] if num_envs == 8192 else float("nan")
            row = {"family": family, "E": num_envs, **timing(generator, num_envs, device)}
            tracks.append({**row, "ordered page ms": bar, "times faster": bar / row["replay ms"]})
            del generator
    for name in TIMED_COURSES:
        for num_envs in sizes:
            if late(COURSE_SECONDS):
                skipped.append(f"timing of {name} at E = {num_envs}")
                continue
            generator = make_course(num_envs, str(device), **COURSES[name])
            courses.append({"what": name, "E": num_envs, **timing(generator, num_envs, device)})
            del generator
    if device.is_cuda:
        for block_dim in (32, 64, 128):
            track = make(8192, str(device), half_width=0.03, block_dim=block_dim)
            course = make_course(8192, str(device), block_dim=block_dim)
            blocks.append(
                {
                    "block_dim": block_dim,
                    "tracks ms": milliseconds(track.generate, device),
                    "courses ms": milliseconds(course.generate, device),
                }
            )
    for title, rows, path in (
        ("Tracks, half_width 0.03, seeds 0, median of 7", tracks, args.json),
        ("Gate courses of 8 to 13 gates, seeds 0, median of 7", courses, args.json_gates),
        ("Block size, bezier, E = 8192", blocks, None),
    ):
        if rows:
            show(title, rows, about, path)
    for text in skipped:
        print(f"no time left for {text}")
    failed = [row for row in checks if not row["holds"]]
    for row in failed:
        print(f"FAILED: {row['what']}: {row['contract']} {row['detail']}")
    print(f"{len(checks) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
