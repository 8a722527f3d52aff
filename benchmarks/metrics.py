"""What metrics, mixtures and difficulty cost next to generating the tracks.

    python benchmarks/metrics.py --json out/metrics.json

Times are per track, medians, on one thread on the CPU; ``share`` is relative to generating the same
batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import warp as wp

from common import machine, make, milliseconds, parser, show
from track_gen import Bezier, Mixture, Polar
from track_gen.runtime import TrackMetrics


def microseconds(call: Callable[[], Any], num_envs: int, device: Any) -> float:
    """Time of a call per env."""
    return 1e3 * milliseconds(call, device, 9) / num_envs


def main() -> None:
    arguments = parser("Cost of metrics, mixtures and difficulty")
    arguments.add_argument("--num-envs", type=int, default=1024)
    args = arguments.parse_args()
    wp.config.quiet = True
    device = wp.get_device(args.device)
    E = args.num_envs
    threads = {"num_threads": 1} if device.is_cpu else {}
    rows = []

    def add(what: str, half_width: float, cost: float, generate: float) -> None:
        rows.append(
            {
                "what": what,
                "half_width": half_width,
                "us/track": cost,
                "generate us/track": generate,
                "share": cost / generate,
            }
        )

    for half_width in (0.1, 0.03):
        alone = {}
        for family in ("bezier", "polar"):
            generator = make(E, device, generator=family, half_width=half_width, **threads)
            generate = alone[family] = microseconds(generator.generate, E, device)
            metrics = TrackMetrics(generator.track, **threads)
            cost = microseconds(metrics.update, E, device)
            add(f"TrackMetrics, {family}", half_width, cost, generate)
        mixture = Mixture({Bezier(): 1, Polar(): 1})
        generator = make(E, device, generator=mixture, half_width=half_width, **threads)
        cost = microseconds(generator.generate, E, device)
        add("mixture of both", half_width, cost, 0.5 * sum(alone.values()))
        values = wp.full(E, 0.3, dtype=wp.float32, device=device)
        call = lambda g=generator, v=values: g.set_difficulty(v)  # noqa: E731
        add("set_difficulty", half_width, microseconds(call, E, device), cost)
    show("Metrics, mixtures, difficulty", rows, machine(device), args.json)


if __name__ == "__main__":
    main()
