"""Metrics: known shapes, a float64 reference, independence of the sampling, masks, capture."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

from conftest import make
from track_gen import Library
from track_gen.runtime import TrackMetrics
from track_gen.runtime import metrics as module


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
    counts, _ = np.histogram(np.clip(scaled, -1, 1), 16, (-1, 1))
    share = counts[counts > 0] / n
    straight = np.abs(scaled) < module.STRAIGHT
    runs, turns = [0], {1: 0, -1: 0}
    start = int(np.argmin(straight))
    sign, turned, run = 0, 0.0, 0
    for k in [*np.roll(np.arange(n), -start), None]:
        now = 0 if k is None or straight[k] else int(np.sign(smooth[k]))
        if k is None or now != sign:
            if abs(turned) >= module.TURN:
                turns[int(np.sign(turned))] += 1
            turned, sign = 0.0, now
        if k is not None:
            run = run + 1 if straight[k] else 0
            runs.append(run)
            turned += smooth[k] * h
    d = np.linalg.norm(p[:, None] - p[None], axis=2)
    gap = np.abs(np.arange(n)[:, None] - np.arange(n)[None])
    arc = np.minimum(gap, n - gap) * h
    near = d[(arc >= module.APPROACH * d) & (arc > 1.5 * h)]
    return {
        "area": area,
        "compactness": 4 * np.pi * area / length**2,
        "max_curvature": np.abs(smooth).max(),
        "min_radius": 1 / np.abs(smooth).max(),
        "mean_abs_curvature": np.abs(smooth).mean(),
        "curvature_entropy": -(share * np.log2(share)).sum(),
        "turns_left": turns[1],
        "turns_right": turns[-1],
        "straight_fraction": straight.mean(),
        "longest_straight": max(runs) * h,
        "min_clearance": near.min() - 2 * half_width,
    }


@pytest.mark.parametrize("name", ["bezier", "hull", "voronoi", "serpentine"])
def test_float64_reference(name):
    generator = make(num_envs=24, generator=name, half_width=(0.05, 0.1))
    track = generator.generate()
    metrics = TrackMetrics(track)
    metrics.update()
    found = metrics.numpy()
    assert set(found) == set(metrics.names) and len(found) == 13
    loose = {"curvature_entropy": 0.05, "turns_left": 1, "turns_right": 1}
    for env in range(24):
        one = track.env(env)
        for key, value in reference(one.center, one.half_width).items():
            # A value on the edge of a bin or a threshold may fall to either side.
            tolerance = loose.get(key, 2e-3 * abs(value) + 1e-4)
            if key in ("straight_fraction", "longest_straight"):
                tolerance = 2.1 / one.count * (1 if key == "straight_fraction" else one.length)
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


def test_sampling_does_not_matter():
    """The same lines at three spacings: sizes within 6 %, counts within 1."""
    base = make(num_envs=16).generate()
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
        for key in ("length", "area", "compactness", "mean_abs_curvature"):
            np.testing.assert_allclose(found[key][valid], middle[key][valid], rtol=0.06)
        for key in ("max_curvature", "min_radius", "ideal_lap_time"):
            np.testing.assert_allclose(found[key][valid], middle[key][valid], rtol=0.08)
        entropy = np.abs(found["curvature_entropy"] - middle["curvature_entropy"])
        assert entropy[valid].max() < 0.3  # bits, of about 3
        for key in ("turns_left", "turns_right"):
            assert np.abs(found[key] - middle[key])[valid].max() <= 1
        assert np.abs(found["min_clearance"] - middle["min_clearance"])[valid].max() < 0.04
        assert np.abs(found["straight_fraction"] - middle["straight_fraction"])[valid].max() < 0.08


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
