"""Metrics: known shapes, a float64 reference, independence of the sampling, masks, capture."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from road_reference import lateral_limit

from conftest import make
from track_gen import Library
from track_gen.runtime import TrackMetrics
from track_gen.runtime import metrics as module

FINE = (np.arange(200) + 0.5) / 200
"""Places along an edge where the reference looks."""


def lap_time(curvature, edges, lateral=4.0, acceleration=2.0, braking=4.0):
    """Flying lap: both passes twice around, so the seam does not matter."""
    n = len(edges)
    square = np.minimum(1e24, lateral_limit(curvature, lateral))
    for k in range(2 * n):
        i, j = k % n, (k + 1) % n
        square[j] = min(square[j], square[i] + 2 * acceleration * edges[i])
    for k in range(2 * n, 0, -1):
        i, j = k % n, (k - 1) % n
        square[j] = min(square[j], square[i] + 2 * braking * edges[j])
    speed = np.sqrt(square)
    return (2 * edges / (speed + np.roll(speed, -1))).sum()


def longest_run(flags):
    """Longest run of true flags."""
    edges = np.flatnonzero(np.diff(np.r_[False, flags, False].astype(int)))
    return (edges[1::2] - edges[::2]).max(initial=0)


def reference(center, half_width):
    """The definitions in float64."""
    p = np.asarray(center, np.float64)[:, :2]
    n = len(p)
    edge = np.roll(p, -1, 0) - p
    size = np.linalg.norm(edge, axis=1)
    back = np.roll(edge, 1, 0)
    turn = np.arctan2(back[:, 0] * edge[:, 1] - back[:, 1] * edge[:, 0], (back * edge).sum(1))
    vertex = turn / (0.5 * (size + np.roll(size, 1)))
    length = size.sum()
    h = length / n
    x, y = p.T
    area = abs(0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum())
    reach = module.WINDOW * half_width / h - 0.5
    whole = int(np.floor(reach))
    part = reach - whole
    smooth = sum(np.roll(vertex, k) for k in range(-whole, whole + 1))
    smooth = smooth + part * (np.roll(vertex, whole + 1) + np.roll(vertex, -whole - 1))
    smooth = smooth / (2 * (whole + part) + 1)
    scaled = smooth * half_width
    fine = scaled[:, None] + (np.roll(scaled, -1) - scaled)[:, None] * FINE
    counts, _ = np.histogram(np.clip(fine, -1, 1), 16, (-1, 1))
    share = counts[counts > 0] / fine.size
    straight = np.abs(scaled) < module.STRAIGHT
    within = np.abs(fine) < module.STRAIGHT  # the same, along the edges
    turns = {1: 0, -1: 0}
    start = int(np.argmin(straight))
    sign, turned = 0, 0.0
    for k in [*np.roll(np.arange(n), -start), None]:
        now = 0 if k is None or straight[k] else int(np.sign(smooth[k]))
        if k is None or now != sign:
            if sign != 0 and abs(turned) >= module.TURN:
                turns[int(np.sign(turned))] += 1
            turned, sign = 0.0, now
        if k is not None:
            turned += smooth[k] * h
    near = np.inf
    for s in range(2, n // 2 + 1):
        lack, last = (
            module.APPROACH * np.linalg.norm(np.roll(p, -k, 0) - p, axis=1) - k * h
            for k in (s, s - 1)
        )
        from_, along = np.roll(p, 1 - s, 0), np.roll(p, -s, 0) - np.roll(p, 1 - s, 0)
        t = np.clip(((p - from_) * along).sum(1) / (along**2).sum(1), 0, 1)
        whole_edge = np.linalg.norm(from_ + t[:, None] * along - p, axis=1)
        ends = [np.linalg.norm(from_ - p, axis=1), np.linalg.norm(from_ + along - p, axis=1)]
        t = last / np.where(last == lack, 1.0, last - lack)
        crossing = np.minimum(ends[0] + t * (ends[1] - ends[0]), ends[1])
        found = np.where(last > 0, crossing, whole_edge)[lack <= 0]
        near = min(near, found.min(initial=np.inf))
    return {
        "area": area,
        "compactness": 4 * np.pi * area / length**2,
        "max_curvature": np.abs(smooth).max(),
        "min_radius": 1 / np.abs(smooth).max(),
        "mean_abs_curvature": np.abs(smooth).mean(),
        "curvature_entropy": -(share * np.log2(share)).sum(),
        "turns_left": turns[1],
        "turns_right": turns[-1],
        "straight_fraction": within.mean(),
        "longest_straight": longest_run(np.roll(within, -start, 0).ravel()) * h / FINE.size,
        "min_clearance": near - 2 * half_width,
        "ideal_lap_time": lap_time(smooth, size),
    }


@pytest.mark.parametrize("name", ["bezier", "hull", "voronoi", "serpentine"])
def test_float64_reference(name):
    generator = make(num_envs=24, generator=name, half_width=(0.05, 0.1))
    track = generator.generate()
    metrics = TrackMetrics(track)
    metrics.update()
    found = metrics.numpy()
    assert set(found) == set(metrics.names) and len(found) == 13
    loose = {"curvature_entropy": 0.01, "turns_left": 1, "turns_right": 1}
    for env in range(24):
        one = track.env(env)
        for key, value in reference(one.center, one.half_width).items():
            # A turn on the edge of a threshold may fall to either side.
            tolerance = loose.get(key, 2e-3 * abs(value) + 1e-4)
            if key in ("straight_fraction", "longest_straight"):
                tolerance = 0.1 / one.count * (1 if key == "straight_fraction" else one.length)
            assert found[key][env] == pytest.approx(value, abs=tolerance), (key, env)
        assert found["length"][env] == one.length
    assert np.isfinite(found["ideal_lap_time"]).all()


def published(curves, half_width, ratio):
    return make(
        num_envs=len(curves) * 6,
        generator=Library(curves=curves, normalize=False),
        half_width=half_width,
        spacing=ratio * half_width,
        relax_enable=False,
        max_attempts=1,
    )


@pytest.mark.parametrize("ratio", [0.4, 0.6, 0.8])
def test_circle_and_stadium(ratio):
    t = np.linspace(0, 2 * np.pi, 3000, endpoint=False)
    circle = np.c_[np.cos(t), np.sin(t)]
    half = np.linspace(-np.pi / 2, np.pi / 2, 1500)
    end = np.c_[1.5 + np.cos(half), np.sin(half)]
    stadium = np.r_[end, -end]
    generator = published([circle, stadium], 0.2, ratio)
    track = generator.generate()
    metrics = TrackMetrics(track, lateral=4.0, max_speed=1.0)
    metrics.update()
    found = metrics.numpy()
    choice = generator._buffers.family["choice"].numpy()
    assert set(choice) == {0, 1}
    for env, shape in enumerate(choice):
        got = {key: value[env] for key, value in found.items()}
        assert got["max_curvature"] == pytest.approx(1.0, rel=0.02)
        assert got["min_radius"] == pytest.approx(1.0, rel=0.02)
        assert got["turns_right"] == 0
        assert got["min_clearance"] == pytest.approx(2.0 - 0.4, rel=0.02)
        assert got["ideal_lap_time"] == pytest.approx(got["length"], rel=0.01)  # at the cap
        if shape == 0:
            assert got["length"] == pytest.approx(2 * np.pi, rel=0.005)
            assert got["area"] == pytest.approx(np.pi, rel=0.01)
            assert got["compactness"] == pytest.approx(1.0, abs=0.01)
            assert got["straight_fraction"] == 0 and got["longest_straight"] == 0
            assert got["turns_left"] == 1 and got["curvature_entropy"] == 0
        else:
            assert got["turns_left"] == 2
            assert got["longest_straight"] == pytest.approx(3.0, abs=0.5)
            assert got["straight_fraction"] == pytest.approx(6 / (6 + 2 * np.pi), abs=0.1)


SAMPLING = {
    "length": 0.01,
    "area": 0.01,
    "compactness": 0.02,
    "mean_abs_curvature": 0.03,
    "max_curvature": 0.06,
    "min_radius": 0.06,
    "ideal_lap_time": 0.03,
}
"""Largest relative difference between spacings of 0.4, 0.6 and 0.8 half widths."""
SAMPLING_ABSOLUTE = {
    "curvature_entropy": 0.15,
    "turns_left": 1.0,
    "turns_right": 1.0,
    "straight_fraction": 0.04,
    "min_clearance": 0.025,
}
"""Largest absolute difference, of bits, turns, a share, and lengths at half width 0.1."""


@pytest.mark.parametrize("name", ["bezier", "checkpoint"])
def test_sampling_does_not_matter(name):
    """The same lines at three spacings."""
    base = make(num_envs=16, generator=name).generate()
    curves = [base.env(env).center[:, :2] for env in range(16)]
    results = []
    for ratio in (0.4, 0.6, 0.8):
        generator = published(curves, 0.1, ratio)
        metrics = TrackMetrics(generator.generate())
        metrics.update()
        results.append((metrics.numpy(), generator.track.valid.numpy()))
    valid = np.logical_and.reduce([valid for _, valid in results])
    assert valid.mean() > 0.7
    middle = results[1][0]
    for found, _ in results:
        for key, limit in SAMPLING.items():
            np.testing.assert_allclose(found[key][valid], middle[key][valid], rtol=limit)
        for key, limit in SAMPLING_ABSOLUTE.items():
            assert np.abs(found[key] - middle[key])[valid].max() <= limit, key
        straights = found["longest_straight"][valid].mean()
        assert straights == pytest.approx(middle["longest_straight"][valid].mean(), rel=0.06)
    assert set(SAMPLING) | set(SAMPLING_ABSOLUTE) | {"longest_straight"} == set(metrics.names)


LANES = """
import numpy as np
import warp as wp
wp.config.quiet = True
wp.config.enable_cpu_blocks = True
from conftest import make
from track_gen.runtime import TrackMetrics, track_view
from track_gen.runtime.metrics import ENTROPY_BINS, _CHUNK, metrics_kernel

generator = make(num_envs=6, generator="mixture", half_width=(0.04, 0.1), num_threads=1)
track = generator.generate()
valid = track.valid.numpy()
valid[2] = False
track.valid.assign(valid)
E, N = track.center.shape
metrics = TrackMetrics(track, num_threads=1)
expected = None
for lanes in (1, 8, 32, 64):
    outputs = [getattr(metrics, name) for name in metrics.names[:-1]]
    for output in outputs:
        output.fill_(-7.0)
    scratch = [
        wp.full((E, N), -3.0, dtype=wp.float32, device="cpu"),
        wp.full((E, 2 * (-(-N // _CHUNK))), -3.0, dtype=wp.float32, device="cpu"),
        wp.full((E, ENTROPY_BINS), -3, dtype=wp.int32, device="cpu"),
    ]
    wp.launch(
        metrics_kernel,
        dim=(E, lanes),
        inputs=[0, track_view(track), metrics.every_env, *scratch],
        outputs=outputs,
        device="cpu",
        block_dim=lanes,
    )
    found = [output.numpy().tobytes() for output in outputs]
    assert np.isnan(metrics.area.numpy()).tolist() == [k == 2 for k in range(E)]
    expected = expected or found
    for name, a, b in zip(metrics.names, found, expected):
        assert a == b, (lanes, name)
print("same")
"""


@pytest.mark.parametrize("reverse", ["0", "1"])
def test_metrics_do_not_depend_on_the_lanes(reverse):
    tests = Path(__file__).resolve().parents[1]
    paths = [str(tests), str(tests.parent / "examples")]
    environment = {
        **os.environ,
        "TRACK_GEN_REVERSE_LANES": reverse,
        "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", LANES], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("same\n")


def test_masks_invalid_rows_threads_and_capture():
    generator = make(num_envs=12, half_width=(0.05, 0.1))
    generator.parameters.set("half_width", 30.0, mask=np.arange(12) == 5)
    track = generator.generate()
    results = []
    for threads in (1, 3):
        metrics = TrackMetrics(track, num_threads=threads)
        assert np.isnan(metrics.numpy()["area"]).all()
        metrics.update()
        results.append(metrics.numpy())
    for key in metrics.names:
        assert results[0][key].tobytes() == results[1][key].tobytes()
        assert np.isnan(results[0][key][5])
        assert np.isfinite(np.delete(results[0][key], 5)).all()

    mask = wp.array(np.arange(12) % 3 == 0, dtype=wp.bool, device="cpu")
    generator.rng.advance(mask)
    with wp.ScopedCapture(device="cpu") as capture:
        generator.generate(mask)
        metrics.update(mask)
    for name in metrics.names:
        getattr(metrics, name).fill_(-1.0)
    wp.capture_launch(capture.graph)
    found = metrics.numpy()
    eager = TrackMetrics(track)
    eager.update(mask.numpy())
    for key, value in eager.numpy().items():
        chosen = mask.numpy()
        assert found[key][chosen].tobytes() == value[chosen].tobytes()
        assert (found[key][~chosen] == -1.0).all()


@pytest.mark.parametrize("capture", [False, True])
def test_metrics_computed_with_the_tracks(capture):
    settings = {"num_envs": 12, "half_width": (0.05, 0.1), "metrics": True, "num_threads": 2}
    generator = make(**settings, capture=capture)
    metrics = generator.metrics
    assert metrics is not None
    addresses = {name: getattr(metrics, name).ptr for name in metrics.names}
    generator.warmup()
    for value in metrics.numpy().values():
        assert np.isnan(value).all()
    generator.parameters.set("half_width", 30.0, mask=np.arange(12) == 5)
    for _ in range(3):
        generator.rng.advance()
        for name in metrics.names:
            getattr(metrics, name).fill_(-1.0)
        track = generator.generate()
        by_hand = TrackMetrics(track)
        by_hand.update()
        for key, value in by_hand.numpy().items():
            assert metrics.numpy()[key].tobytes() == value.tobytes()
            assert np.isnan(value[5]) and np.isfinite(np.delete(value, 5)).all()

    before, chosen = metrics.numpy(), np.arange(12) % 3 == 2
    generator.rng.advance(wp.array(chosen, dtype=wp.bool, device="cpu"))
    generator.generate(np.zeros(12, bool))
    for key, value in metrics.numpy().items():
        assert value.tobytes() == before[key].tobytes()
    generator.generate(chosen)
    by_hand.update()
    for key, value in metrics.numpy().items():
        assert value.tobytes() == by_hand.numpy()[key].tobytes()
        assert value[~chosen].tobytes() == before[key][~chosen].tobytes()
    assert (metrics.numpy()["length"] != before["length"])[chosen & (np.arange(12) != 5)].all()
    assert {name: getattr(metrics, name).ptr for name in metrics.names} == addresses
    assert (generator.graph is not None) == capture


def test_metrics_are_measured_only_when_asked_for():
    assert make().metrics is None


def test_metrics_of_a_family_grown_under_host_control():
    generator = make(num_envs=3, generator="repulsive", metrics=True)
    found = TrackMetrics(generator.generate())
    found.update()
    assert found.area.numpy().tobytes() == generator.metrics.area.numpy().tobytes()
