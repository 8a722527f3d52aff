"""The whole pipeline with 32 lanes per block equals one lane, and reversed lanes equal lanes.

CPU fibers run the lanes of a block one after another between barriers: a missing barrier shows as
a difference between the two orders: a race detector without a GPU. Warp's CPU blocks are a setting
of the process, so each variant runs in its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import hashlib, sys
import numpy as np
import warp as wp
lanes = int(sys.argv[1])
wp.config.quiet = True
wp.config.enable_cpu_blocks = lanes > 1
from conftest import FAMILIES, make
for name in FAMILIES:
    for options in ({"half_width": 0.1}, {"half_width": (0.04, 0.12), "direction": "random"}):
        generator = make(num_envs=3, generator=name, num_threads=1, **options)
        generator._executor._build.lanes = lanes
        generator.generate()
        generator.rng.advance(np.array([True, False, True]))
        track = generator.generate(np.array([True, False, True]))
        digest = hashlib.sha256()
        for key, array in sorted(track.numpy().items()):
            digest.update(array.tobytes())
        print(name, sorted(options), digest.hexdigest())
"""


def run(lanes: int, reverse: bool) -> str:
    environment = {**os.environ, "TRACK_GEN_REVERSE_LANES": str(int(reverse))}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "examples")])
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(lanes)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return "\n".join(line for line in result.stdout.splitlines() if "[" in line)


@pytest.fixture(scope="module")
def one_lane() -> str:
    text = run(1, reverse=False)
    assert text.count("\n") >= 10
    return text


@pytest.mark.parametrize("reverse", [False, True])
def test_32_lanes_equal_one_lane(one_lane, reverse):
    assert run(32, reverse) == one_lane
