"""The racing line has the same bits for any number of lanes, in either order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]

PROGRAM = """
import sys
import numpy as np
import warp as wp
wp.config.quiet = True
wp.config.enable_cpu_blocks = True
from road_reference import circle, to_track
from track_gen.block import scan_offsets_size
from track_gen.runtime import RacingLine, track_view
from track_gen.runtime.racing_line import racing_line_kernel

arrays = circle(3, n=77)
wave = 1.0 + 0.2 * np.sin(3.0 * 2.0 * np.pi * np.arange(77) / 77)
for name in ("center", "inner", "outer"):
    arrays[name] = (arrays[name] * wave[:, None]).astype(np.float32)
arrays["valid"][1] = False
track = to_track(arrays)
E, N = track.center.shape
names = ("offset", "center", "tangent", "normal", "arclen", "curvature", "length")
expected = None
for lanes in (1, 8, 32, 64):
    line = RacingLine(track)
    out = [getattr(line, name) for name in names]
    scratch = [
        wp.zeros((E, N), dtype=wp.vec2f, device="cpu"),
        wp.zeros((E, N), dtype=wp.vec2f, device="cpu"),
        wp.zeros((E, N), dtype=wp.vec2f, device="cpu"),
        wp.zeros((E, N), dtype=wp.float32, device="cpu"),
        wp.zeros((E, scan_offsets_size(N)), dtype=wp.float32, device="cpu"),
    ]
    wp.launch(
        racing_line_kernel,
        dim=(E, lanes),
        inputs=[0, track_view(track), line.every_env, 3, 0.2, N, *scratch],
        outputs=out,
        device="cpu",
        block_dim=lanes,
    )
    found = [a.numpy().tobytes() for a in out]
    assert np.isfinite(line.length.numpy()).tolist() == [True, False, True]
    assert np.abs(line.offset.numpy()[0]).max() > 0.01
    expected = expected or found
    assert found == expected, lanes
print("same")
"""


def run(reverse: str) -> str:
    paths = [str(TESTS / "runtime"), str(TESTS), str(TESTS.parent / "examples")]
    environment = {
        **os.environ,
        "TRACK_GEN_REVERSE_LANES": reverse,
        "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lanes_change_nothing():
    assert run("0").endswith("same\n")


def test_reversed_lanes_change_nothing():
    assert run("1").endswith("same\n")
