"""Yield, narrowness and twistiness of gate courses over the difficulty, by family and order.

python benchmarks/gate_difficulty.py --envs 2048 --json out/gate_difficulty.json
"""

from __future__ import annotations

import numpy as np
import warp as wp

from common import machine, parser, show
from track_gen import CourseLine, GateGenConfig, GateGenerator, PerEnvSeededRNG
from track_gen.runtime import TrackMetrics


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--envs", type=int, default=2048)
    arguments.add_argument("--seed", type=int, default=90210)
    arguments.add_argument("--orders", nargs="+", default=["ccw", "random"])
    arguments.add_argument("--steps", type=int, default=11)
    arguments.add_argument("--gates", nargs=2, type=int, default=None, help="fewest and most")
    args = arguments.parse_args()
    wp.config.quiet = True
    rows = []
    for ordering in args.orders:
        for family in args.families:
            config = GateGenConfig(
                num_envs=args.envs,
                device=args.device,
                generator=family,
                ordering=ordering,
                num_gates=args.gates and tuple(args.gates),
            )
            rng = PerEnvSeededRNG(seeds=args.seed, num_envs=args.envs, device=args.device)
            generator = GateGenerator(config, rng)
            gates = generator.generate()
            line = CourseLine.through(gates, num_points=512)
            metrics = TrackMetrics(line)
            for value in np.linspace(0.0, 1.0, args.steps):
                generator.set_difficulty(float(value))
                generator.generate()
                line.update()
                metrics.update()
                valid, attempts = gates.valid.numpy(), gates.attempts.numpy()
                length, counts = metrics.length.numpy()[valid], gates.count.numpy()[valid]
                bend = metrics.mean_abs_curvature.numpy()[valid]
                width = 2.0 * gates.half_width.numpy()[valid, 0]
                rows.append(
                    {
                        "order": ordering,
                        "family": family,
                        "difficulty": round(float(value), 2),
                        "E": args.envs,
                        "first attempt": float((valid & (attempts == 1)).mean()),
                        "final": float(valid.mean()),
                        "width / spacing": float((width * counts / length).mean()),
                        "turning / turn": float((bend * length / (2.0 * np.pi)).mean()),
                        "turn per length": float(bend.mean()),
                        "tightest bend": float(metrics.max_curvature.numpy()[valid].mean()),
                        "length": float(length.mean()),
                    }
                )
    wanted = "of the family" if args.gates is None else f"{args.gates[0]} to {args.gates[1]}"
    title = f"Gate courses over the difficulty, number of gates {wanted}, seeds {args.seed}"
    show(title, rows, machine(args.device), args.json)


if __name__ == "__main__":
    main()
