"""Yield, time and size of gate courses by family, order and cell.

python benchmarks/gates.py --envs 1024 --json out/gates.json
"""

from __future__ import annotations

import numpy as np
import warp as wp

from common import machine, milliseconds, parser, show
from track_gen import GateGenConfig, GateGenerator, PerEnvSeededRNG, Uniform

HILLS = {"max_grade": 0.6, "align": "tangent", "elevation": Uniform(low=1.5, high=9.0)}
CLIMB = {"max_grade": 0.15, "align": "tangent", "elevation": Uniform(low=1.5, high=6.0)}
WIDE = {"gate_width": 4.0, "gate_height": 2.0, "clearance": 1.0, "min_radius": 3.0}
CELLS = {
    "base": {},
    "unit": {"gate_width": 1.2 / 17, "clearance": 0.6 / 17, "scale": 1.0},
    "wide": WIDE,
    "climb": CLIMB,
    "hill": HILLS,
    "small": {"gate_width": 0.4, "clearance": 0.1, "scale": 1.0},
    "arena": {"max_extent": 22.0},
    "few": {"num_gates": (4, 7)},
    "many": {"num_gates": 32},
}
"""Settings that differ from 8 to 13 gates at the defaults."""


def make(num_envs: int, device: str | None, seed: int, **settings) -> GateGenerator:
    """A gate generator with one attempt per env."""
    settings = {"num_gates": (8, 13), "max_attempts": 1, **settings}
    config = GateGenConfig(num_envs=num_envs, device=device, **settings)
    rng = PerEnvSeededRNG(seeds=seed, num_envs=num_envs, device=device)
    return GateGenerator(config, rng)


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--envs", type=int, default=1024)
    arguments.add_argument("--seed", type=int, default=90210)
    arguments.add_argument("--cells", nargs="+", default=list(CELLS), choices=CELLS)
    arguments.add_argument("--orders", nargs="+", default=["ccw", "cw", "random"])
    args = arguments.parse_args()
    wp.config.quiet = True
    rows = []
    for cell in args.cells:
        for ordering in args.orders:
            for family in args.families:
                settings = {**CELLS[cell], "generator": family, "ordering": ordering}
                generator = make(args.envs, args.device, args.seed, **settings)
                gates = generator.generate()
                report = generator.report()
                every = (
                    make(args.envs, args.device, args.seed, **settings, max_attempts=4)
                    if report.reasons
                    else generator
                )
                every.generate()
                taken = milliseconds(generator.generate, generator.device, repeats=5)
                valid, counts = gates.valid.numpy(), gates.count.numpy()
                extents = [
                    np.ptp(p[:n, :2], axis=0).max()
                    for p, n in zip(gates.position.numpy()[valid], counts[valid], strict=True)
                ]
                rows.append(
                    {
                        "cell": cell,
                        "order": ordering,
                        "family": family,
                        "E": args.envs,
                        "first attempt": report.yield_rate,
                        "4 attempts": every.report().yield_rate,
                        "ms/course": taken / args.envs,
                        "sweeps 50 %": float(np.median(generator.sweeps.numpy())),
                        "sweeps max": int(generator.sweeps.numpy().max()),
                        "extent 50 %": float(np.median(extents)),
                    }
                )
    title = f"Gate courses, seeds {args.seed}, median of 5 warm calls"
    show(title, rows, machine(args.device), args.json)


if __name__ == "__main__":
    main()
