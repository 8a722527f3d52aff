"""Runs a family's launches alone, on a job built by hand. As a script: once per lane setting."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import warp as wp

from track_gen.generators.spec import CurveJob

SEEDS = (np.arange(64, dtype=np.int32) * 7919 + 13).astype(np.int32)


def build_job(spec, settings, seeds=SEEDS, *, episode=0, attempt=0, lanes=1, knobs=None):
    """A job with every row pending, NaN in the output; ``knobs`` maps names to values per env."""
    device = wp.get_device("cpu")
    seeds = np.asarray(seeds, np.int32)
    num_envs = len(seeds)
    table = np.ones((num_envs, 2 + len(settings.knobs)), np.float32)
    for column, knob in enumerate(settings.knobs):
        table[:, 2 + column] = (knobs or {}).get(knob.name, getattr(settings, knob.name))
    nan = wp.vec2f(float("nan"), float("nan"))
    return CurveJob(
        seeds=wp.array(seeds, dtype=wp.int32, device=device),
        episode=wp.full(num_envs, episode, dtype=wp.int32, device=device),
        pending=wp.full(num_envs, True, dtype=wp.bool, device=device),
        knobs=wp.array(table, dtype=wp.float32, device=device),
        attempt=attempt,
        curve=wp.full((num_envs, spec.curve_size(settings)), nan, dtype=wp.vec2f, device=device),
        curve_count=wp.zeros(num_envs, dtype=wp.int32, device=device),
        scratch=spec.allocate(settings, num_envs, device),
        first_knob=2,
        lanes=lanes,
        device=device,
    )


def run_job(spec, settings, seeds=SEEDS, **options):
    """Run one job; returns it."""
    job = build_job(spec, settings, seeds, **options)
    for launch in spec.launches(settings, job):
        launch.launch()
    return job


def curves_of(job):
    """Curves of a job as float64 arrays [n, 2]."""
    rows = job.curve.numpy().astype(np.float64)
    return [row[:count] for row, count in zip(rows, job.curve_count.numpy(), strict=True)]


def area(curve):
    """Signed area."""
    following = np.roll(curve, -1, axis=0)
    return 0.5 * np.sum(curve[:, 0] * following[:, 1] - curve[:, 1] * following[:, 0])


def length(curve):
    """Closed perimeter."""
    return np.linalg.norm(np.roll(curve, -1, axis=0) - curve, axis=1).sum()


def boxed(curve):
    """Fit "box": centred, longer side 1.44."""
    low, high = curve.min(axis=0), curve.max(axis=0)
    return (curve - (low + high) / 2) * (1.44 / (high - low).max())


def lane_cases():
    """Settings that the lane comparison runs: defaults and those that reach the rare branches."""
    from track_gen.generators import bezier, checkpoint, hull, library, polar, voronoi

    Polar, Voronoi, Library = polar.Polar, voronoi.Voronoi, library.Library
    Bezier, Hull, Checkpoint = bezier.Bezier, hull.Hull, checkpoint.Checkpoint
    crowded = {"num_checkpoints": 40, "radius_min": 0.0, "best_of": 2}
    wild = {"radial_jitter": 0.85, "angular_jitter": 0.45}
    t = np.linspace(0.0, 2.0 * np.pi, 37)[:-1]
    shapes = [np.c_[np.cos(t), a * np.sin(t)] for a in (0.3, 1.0, 3.0)]
    return {
        "polar": (polar.SPEC, Polar()),
        "polar_5": (polar.SPEC, Polar(num_knots=5, **wild)),
        "polar_64": (polar.SPEC, Polar(num_knots=64, **wild)),
        **{f"voronoi_{name}": (voronoi.SPEC, Voronoi(layout=name)) for name in voronoi.LAYOUTS},
        "voronoi_6": (voronoi.SPEC, Voronoi(layout="box", num_sites=6, num_anchors=6)),
        "voronoi_40": (voronoi.SPEC, Voronoi(layout="box", num_sites=40, num_anchors=40)),
        "library": (library.SPEC, Library(curves=shapes)),
        "bezier": (bezier.SPEC, Bezier()),
        "bezier_64": (bezier.SPEC, Bezier(min_corners=64, max_corners=64, rad=1.0)),
        "hull": (hull.SPEC, Hull()),
        "hull_64": (hull.SPEC, Hull(min_corners=60, max_corners=64, displacement=0.9)),
        "checkpoint": (checkpoint.SPEC, Checkpoint()),
        "checkpoint_40": (checkpoint.SPEC, Checkpoint(clip_loop=True, **crowded)),
    }


def lane_outputs(lanes):
    """Outputs of every case as one flat dict."""
    found = {}
    for name, (spec, settings) in lane_cases().items():
        job = run_job(spec, settings, SEEDS[:24], lanes=lanes)
        found[f"{name}/curve"] = job.curve.numpy()
        found[f"{name}/count"] = job.curve_count.numpy()
        for key in ("fallback", "choice", "crossings"):
            if key in job.scratch:
                found[f"{name}/{key}"] = job.scratch[key].numpy()
    return found


@functools.cache
def lane_outputs_elsewhere(lanes, reverse):
    """:func:`lane_outputs` of a process with ``lanes`` CPU fibers, in reversed order if asked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.npz"
        subprocess.run(
            [sys.executable, __file__, str(lanes), str(path)],
            env={**os.environ, "TRACK_GEN_REVERSE_LANES": "1" if reverse else "0"},
            check=True,
            capture_output=True,
            timeout=300,
        )
        with np.load(path) as loaded:
            return dict(loaded)


def assert_lanes_agree(prefix):
    """1, 32 and 32 reversed lanes give the same bits for the cases of this prefix."""
    one = {k: v for k, v in lane_outputs(1).items() if k.startswith(prefix)}
    assert one
    for reverse in (False, True):
        other = lane_outputs_elsewhere(32, reverse)
        for key, value in one.items():
            assert other[key].tobytes() == value.tobytes(), (key, reverse)


if __name__ == "__main__":
    wp.config.quiet = True
    wp.config.enable_cpu_blocks = True
    np.savez(sys.argv[2], **lane_outputs(int(sys.argv[1])))
