"""The one script to run when there is a GPU: contracts, agreement with the CPU, timings.

    python benchmarks/gpu_check.py            # under 8 minutes
    python benchmarks/gpu_check.py --quick    # under 3 minutes

Exit code 0 if every contract holds. Timings are medians of graph replays, device synchronised.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import warp as wp

from common import FAMILIES, machine, make, milliseconds, show

ORDERED_PAGE_MS = {
    "bezier": 93.2,
    "checkpoint": 92.2,
    "hull": 98.9,
    "polar": 80.8,
    "voronoi": 81.3,
}
"""Replay times at E = 8192, half_width 0.03, that a tenth of is the goal."""


def raw(track) -> dict[str, bytes]:
    """Bytes of every array."""
    return {name: array.tobytes() for name, array in track.numpy().items()}


def contracts(family: str, device: str) -> list[dict]:
    """One row per contract: capture, masks, rows, agreement with the CPU."""
    E = 512
    captured = make(E, device, generator=family, half_width=0.1)
    eager = make(E, device, capture=False, generator=family, half_width=0.1)
    rows = []

    def check(name: str, holds: bool, detail: str = "") -> None:
        rows.append({"family": family, "contract": name, "holds": bool(holds), "detail": detail})

    same = True
    for round_index in range(3):
        mask = None if round_index == 0 else np.arange(E) % (round_index + 1) == 0
        for generator in (captured, eager):
            generator.rng.advance(mask)
            generator.generate(mask)
        same &= raw(captured.track) == raw(eager.track)
    check("captured == eager, 3 replays", same)
    check("graph is kept", captured.graph is not None and eager.graph is None)

    before = captured.track.numpy()
    mask = np.arange(E) % 7 == 3
    captured.rng.advance(mask)
    captured.generate(mask)
    after = captured.track.numpy()
    check(
        "unmasked rows untouched",
        all(
            np.array_equal(before[k][~mask], after[k][~mask], equal_nan=before[k].dtype.kind == "f")
            for k in before
        ),
    )
    check(
        "masked rows renewed", (after["center"][mask, 0] != before["center"][mask, 0]).any(1).all()
    )

    order = np.random.default_rng(0).permutation(E)
    seeds = captured.rng.seeds_warp.numpy()
    one = make(E, device, generator=family, half_width=0.1, seeds=seeds).generate().numpy()
    other = make(E, device, generator=family, half_width=0.1, seeds=seeds[order]).generate().numpy()
    check("a seed's track in any row", one["center"][order].tobytes() == other["center"].tobytes())

    host = make(E, "cpu", generator=family, half_width=0.1, seeds=seeds).generate().numpy()
    gap = np.abs(host["length"] - one["length"]) / host["length"]
    check(
        "CPU and GPU agree",
        abs(host["valid"].mean() - one["valid"].mean()) < 0.01
        and abs(np.nanmean(host["length"]) / np.nanmean(one["length"]) - 1) < 0.01,
        f"length gap p50 {np.nanmedian(gap):.1e} p99 {np.nanquantile(gap, 0.99):.1e}",
    )
    check("every track valid", one["valid"].all(), f"{one['valid'].mean():.4f}")

    step = wp.zeros(E, dtype=wp.bool, device=device)
    generator = make(E, device, generator=family, half_width=0.1, seeds=seeds)
    generator.warmup()
    generator.generate()
    with wp.ScopedCapture(device=device) as capture:
        generator.rng.advance(step)
        generator.generate(step)
    step.assign(mask)
    wp.capture_launch(capture.graph)
    twin = make(E, device, generator=family, half_width=0.1, seeds=seeds)
    twin.generate()
    twin.rng.advance(mask)
    twin.generate(mask)
    check("inside the caller's graph", raw(generator.track) == raw(twin.track))
    return rows


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="fewer batch sizes")
    arguments.add_argument("--device", default="cuda:0")
    arguments.add_argument("--json", type=Path, default=None)
    args = arguments.parse_args()
    wp.config.quiet = True
    start = time.perf_counter()
    device = wp.get_device(args.device)
    about = machine(device)

    checks = [row for family in FAMILIES for row in contracts(family, str(device))]
    show("Contracts", checks, about, None)

    sizes = (64, 8192) if args.quick else (64, 512, 4096, 8192, 16384, 65536)
    timings = []
    for family in FAMILIES:
        for num_envs in sizes:
            generator = make(num_envs, str(device), generator=family, half_width=0.03)
            replay = milliseconds(generator.generate, device)
            one_percent = np.arange(num_envs) % 100 == 0
            mask = wp.array(one_percent, dtype=wp.bool, device=device)
            masked = milliseconds(lambda g=generator, m=mask: g.generate(m), device)
            bar = ORDERED_PAGE_MS[family] if num_envs == 8192 else float("nan")
            timings.append(
                {
                    "family": family,
                    "E": num_envs,
                    "replay ms": replay,
                    "us/track": 1e3 * replay / num_envs,
                    "1 % masked ms": masked,
                    "ordered page ms": bar,
                    "times faster": bar / replay,
                }
            )
            del generator
            if time.perf_counter() - start > (160 if args.quick else 440):
                break
    blocks = []
    for block_dim in (32, 64, 128):
        generator = make(8192, str(device), half_width=0.03, block_dim=block_dim)
        blocks.append(
            {"block_dim": block_dim, "replay ms": milliseconds(generator.generate, device)}
        )
    show("Replay, half_width 0.03, seeds 0, median of 7", timings, about, args.json)
    show("Block size, bezier, E = 8192", blocks, about, None)
    failed = [row for row in checks if not row["holds"]]
    print(f"{len(checks) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
