"""Tracks with hills and a float64 judge of their heights. As a script: once per lane setting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import warp as wp

sys.path.insert(0, str(Path(__file__).parents[1]))

from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator
from track_gen.elevation import Flat, Noise, RandomWalk, Uniform
from track_gen.stages.elevation import ElevationConfig, ElevationScratch, elevate
from track_gen.stages.inflate import InflateScratch, inflate

LINES = ("center", "outer", "inner")
HILLS = {
    "uniform": Uniform(),
    "walk": RandomWalk(),
    "noise": Noise(),
    "banked walk": RandomWalk(banking=20.0),
}
HARD = {
    "steep range": Uniform(low=-3.0, high=9.0, knots=40, max_grade=0.05),
    "far up": Uniform(low=100.0, high=110.0),
    "loud noise": Noise(amplitude=50.0, harmonics=32, max_grade=0.3),
    "long walk": RandomWalk(knots=64, max_grade=1.0),
    "short walk": RandomWalk(span=0.02, z=-1.0),
    "banked flat": Flat(banking=45.0, z=2.0),
    "banked noise": Noise(banking=30.0, banking_radius=10.0),
}


def make(num_envs, elevation, *, seeds=0, capture=None, **config):
    """A generator on the CPU."""
    config = {"half_width": 0.1, "num_envs": num_envs, "device": "cpu", **config}
    return TrackGenerator(
        TrackGenConfig(elevation=elevation, **config),
        PerEnvSeededRNG(seeds=seeds, num_envs=num_envs, device="cpu"),
        capture=capture,
    )


def tracks(num_envs, elevation, **config):
    """Arrays of one batch."""
    return make(num_envs, elevation, **config).generate().numpy()


def max_grade(settings):
    return 0.15 if settings.max_grade is None else settings.max_grade


def grades(line):
    """|dz| over plan distance of every edge of a closed line, in float64."""
    p = np.asarray(line, np.float64)
    edge = np.roll(p, -1, axis=0) - p
    return np.abs(edge[:, 2]) / np.hypot(edge[:, 0], edge[:, 1])


def complaints(batch, settings):
    """What is wrong with the heights of a batch, judged in float64 on valid rows."""
    found = []
    limit = max_grade(settings)
    for env in np.flatnonzero(batch["valid"]):
        n = batch["count"][env]
        center, outer, inner = (batch[line][env, :n].astype(np.float64) for line in LINES)
        for name, line in zip(LINES, (center, outer, inner), strict=True):
            steepest = grades(line).max()
            if not steepest <= limit:
                found.append(f"env {env}: {name} has grade {steepest:.6f}")
        across = outer - inner
        angle = np.degrees(np.arctan2(np.abs(across[:, 2]), np.hypot(across[:, 0], across[:, 1])))
        if not angle.max() <= settings.banking:
            found.append(f"env {env}: banked by {angle.max():.6f} degrees")
        level = 0.5 * (outer[:, 2] + inner[:, 2]) - center[:, 2]
        if not np.abs(level).max() <= 1e-6 * (1.0 + np.abs(center[:, 2]).max()):
            found.append(f"env {env}: centreline off the cross section")
        if not isinstance(settings, Flat) and not np.ptp(center[:, 2]) > 0.0:
            found.append(f"env {env}: flat")
    return found


def lift(curves, half_width, settings, lanes=1):
    """Inflate and elevate given centrelines; arrays by name, and the flat arrays."""
    device = wp.get_device("cpu")
    E, N = len(curves), max(len(c) for c in curves) + 7
    points = np.full((E, N, 2), np.nan, np.float32)
    for env, curve in enumerate(curves):
        points[env, : len(curve)] = curve
    count = wp.array([len(c) for c in curves], dtype=wp.int32, device=device)
    width = wp.full(E, half_width, dtype=wp.float32, device=device)
    pending = wp.full(E, True, dtype=wp.bool, device=device)
    seeds = wp.array(np.arange(E, dtype=np.int32), dtype=wp.int32, device=device)
    episode = wp.zeros(E, dtype=wp.int32, device=device)
    out = {
        **{
            name: wp.zeros((E, N), dtype=wp.vec3f, device=device)
            for name in (*LINES, "tangent", "normal", "up")
        },
        **{n: wp.zeros((E, N), dtype=wp.float32, device=device) for n in ("arclen", "curvature")},
        **{n: wp.zeros(E, dtype=wp.float32, device=device) for n in ("length", "spacing")},
        "winding": wp.zeros(E, dtype=wp.int32, device=device),
    }
    inflate(
        wp.array(points, dtype=wp.vec2f, device=device), count, width, pending, *out.values(),
        InflateScratch.allocate(E, N, device), lanes, device,
    ).launch()  # fmt: skip
    flat = {name: array.numpy().copy() for name, array in out.items()}
    o = out
    elevate(
        seeds, episode, pending, count, width, o["winding"], o["curvature"],
        o["center"], o["outer"], o["inner"], o["tangent"], o["up"], o["arclen"], o["length"],
        o["spacing"], 0, ElevationConfig(settings), ElevationScratch.allocate(E, N, device), lanes,
        device,
    ).launch()  # fmt: skip
    lifted = {name: array.numpy().copy() for name, array in out.items()}
    for arrays in (flat, lifted):
        arrays["count"] = count.numpy().copy()
        arrays["valid"] = np.ones(E, bool)
    return lifted, flat


def wiggly(count, points, seed=0):
    """Closed curves with a few harmonics, some clockwise."""
    rng = np.random.default_rng(seed)
    curves = []
    for k in range(count):
        t = 2 * np.pi * np.arange(points + 13 * k) / (points + 13 * k)
        radius = 1.0 + 0.25 * np.cos(3 * t + rng.uniform(0, 6)) + 0.1 * np.cos(5 * t)
        curve = radius[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1)
        curves.append(curve[::-1] if k % 2 else curve)
    return curves


def lane_outputs(lanes):
    """Outputs of every profile, with and without banking, as one flat dict."""
    found = {}
    for name, settings in {**HILLS, **HARD}.items():
        lifted, _ = lift(wiggly(6, 61), 0.1, settings, lanes)
        found |= {f"{name}/{key}": value for key, value in lifted.items()}
    return found


def lane_outputs_elsewhere(lanes, reverse, path):
    """:func:`lane_outputs` of a process with CPU fibers, in reversed order if asked."""
    subprocess.run(
        [sys.executable, __file__, str(lanes), str(path)],
        env={**os.environ, "TRACK_GEN_REVERSE_LANES": "1" if reverse else "0"},
        check=True,
        capture_output=True,
        timeout=300,
    )
    with np.load(path) as loaded:
        return dict(loaded)


if __name__ == "__main__":
    wp.config.enable_cpu_blocks = True
    np.savez(sys.argv[2], **lane_outputs(int(sys.argv[1])))
