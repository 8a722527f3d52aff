"""What elevation adds to the time of a batch: interleaved medians.

python benchmarks/elevation.py --json out/elevation.json
"""

from __future__ import annotations

import statistics
import time

import warp as wp

from common import machine, make, parser, show
from track_gen import Flat, Noise, RandomWalk, Uniform

PROFILES = {
    "none": None,
    "Flat()": Flat(),
    "Uniform()": Uniform(),
    "RandomWalk()": RandomWalk(),
    "Noise()": Noise(),
    "RandomWalk(banking=15)": RandomWalk(banking=15.0),
    "Noise(banking=15)": Noise(banking=15.0),
}


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--envs", type=int, default=2048)
    arguments.add_argument("--rounds", type=int, default=11)
    args = arguments.parse_args()
    wp.config.quiet = True
    rows = []
    for half_width in (0.1, 0.03):
        generators = {
            name: make(args.envs, args.device, half_width=half_width, elevation=elevation)
            for name, elevation in PROFILES.items()
        }
        times: dict[str, list[float]] = {name: [] for name in PROFILES}
        for turn in range(args.rounds + 1):
            for name, generator in generators.items():
                wp.synchronize_device(generator.device)
                start = time.perf_counter()
                generator.generate()
                wp.synchronize_device(generator.device)
                if turn:
                    times[name].append(1e3 * (time.perf_counter() - start) / args.envs)
        base = times["none"]
        for name, taken in times.items():
            ratio = statistics.median(a / b for a, b in zip(taken, base, strict=True))
            rows.append(
                {
                    "elevation": name,
                    "half_width": half_width,
                    "E": args.envs,
                    "ms/track": statistics.median(taken),
                    "added %": 100.0 * (ratio - 1.0),
                }
            )
    show("Elevation, bezier, seeds 0, median", rows, machine(args.device), args.json)


if __name__ == "__main__":
    main()
