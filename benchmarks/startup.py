"""Start-up time with a warm and an empty kernel cache, and memory per env.

    python benchmarks/startup.py --json out/startup.json

Each time is that of a fresh process, from its start to the end of the first batch of 256 tracks.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import warp as wp

from common import machine, make, parser, show
from memory import scratch_bytes

_CHILD = """
import warp as wp
wp.config.quiet = True
cache = {cache!r}
if cache:
    wp.config.kernel_cache_dir = cache
from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator
config = TrackGenConfig(num_envs=256, half_width=0.1, device={device!r}, generator={family!r})
rng = PerEnvSeededRNG(seeds=0, num_envs=256, device={device!r})
TrackGenerator(config, rng).generate()
wp.synchronize()
"""


def seconds(family: str, device: str, cache: str) -> float:
    """Wall time of one fresh process."""
    code = _CHILD.format(family=family, device=device, cache=cache)
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    )
    return time.perf_counter() - start


def main() -> None:
    args = parser(__doc__.splitlines()[0]).parse_args()
    wp.config.quiet = True
    device = str(wp.get_device(args.device))
    rows = []
    for family in args.families:
        with tempfile.TemporaryDirectory() as cache:
            cold = seconds(family, device, cache)
            warm = statistics.median(seconds(family, device, cache) for _ in range(3))
        generator = make(64, device, generator=family, half_width=0.1)
        outputs = sum(a.capacity for a in generator.track.arrays().values()) / 64
        rows.append(
            {
                "family": family,
                "empty cache s": cold,
                "warm cache s": warm,
                "outputs KiB/env": outputs / 1024,
                "beyond KiB/env": scratch_bytes(generator) / 64 / 1024,
            }
        )
    show("Start-up, first batch of 256; memory at N_max 512", rows, machine(device), args.json)


if __name__ == "__main__":
    main()
