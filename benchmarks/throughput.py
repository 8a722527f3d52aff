"""Wall time per track: families, batch sizes, half widths, threads, masks.

python benchmarks/throughput.py --json out/throughput.json
"""

from __future__ import annotations

import numpy as np
import warp as wp

from common import FAMILIES, machine, make, milliseconds, parser, show


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--envs", type=int, nargs="+", default=[64, 256, 4096])
    arguments.add_argument("--repeats", type=int, default=7)
    args = arguments.parse_args()
    wp.config.quiet = True
    device = args.device
    rows = []
    for num_envs in args.envs:
        # Few envs: the grown families too, which take milliseconds per track.
        families = [*args.families, "serpentine", "repulsive"] if num_envs <= 64 else args.families
        for half_width, N_max in ((0.1, 512), (0.03, 512), (0.01, 1536)):
            if half_width < 0.03 and num_envs > 256:
                continue  # minutes
            for family in families:
                config = {"generator": family, "half_width": half_width}
                config["N_max"] = N_max if family in FAMILIES else 2 * N_max
                one, many = (make(num_envs, device, num_threads=n, **config) for n in (1, None))
                # Interleaved, so that both see the same machine.
                single, threaded = [], []
                for _ in range(3):
                    single.append(milliseconds(one.generate, device, max(1, args.repeats // 3)))
                    threaded.append(milliseconds(many.generate, device, max(1, args.repeats // 3)))
                median = milliseconds(many.generate, device, args.repeats)
                rows.append(
                    {
                        "family": family,
                        "half_width": half_width,
                        "E": num_envs,
                        "N_max": config["N_max"],
                        "points": float(np.mean(many.track.count.numpy())),
                        "ms/track": median / num_envs,
                        "1 thread ms/track": min(single) / num_envs,
                        "speed-up": min(single) / min(threaded),
                        "sweeps": float(many.sweeps.numpy().mean()),
                        "yield": many.report().yield_rate,
                    }
                )
    show("Throughput, seeds 0, median", rows, machine(device), args.json)

    rows = []
    num_envs = max(args.envs)
    generator = make(num_envs, device, half_width=0.1)
    full = milliseconds(generator.generate, device, args.repeats)
    for share in (0.0, 0.01, 0.1, 0.5, 1.0):
        host = np.random.default_rng(0).permutation(num_envs) < round(share * num_envs)
        mask = wp.array(host, dtype=wp.bool, device=device)
        took = milliseconds(lambda mask=mask: generator.generate(mask), device, args.repeats)
        rows.append({"masked": share, "E": num_envs, "ms": took, "of a full batch": took / full})
    path = args.json.with_stem(args.json.stem + "_masks") if args.json else None
    show("Masked regeneration, bezier, half_width 0.1", rows, machine(device), path)


if __name__ == "__main__":
    main()
