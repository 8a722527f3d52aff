"""Look-ahead and ray casts against the float64 reference."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from road_reference import circle, floats, mixed_tracks, place, points, road, to_track

from track_gen.runtime import Sensors


def poses(arrays: dict, num_agents: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, headings and arc lengths on the road, some at the seam and at pinches."""
    rng = np.random.default_rng(seed)
    E, A = len(arrays["count"]), num_agents
    s = rng.random((E, A)) * arrays["length"][:, None]
    n = rng.uniform(-0.9, 0.9, (E, A)) * arrays["half_width"][:, None]
    s[:, 0] = 0.0
    s[:, 1] = arrays["length"] * 0.999
    tightest = np.nanargmax(np.abs(arrays["curvature"]), axis=1)
    s[:, 2] = arrays["arclen"][np.arange(E), tightest]
    p, heading = place(arrays, s, n)
    heading += rng.normal(0.0, 1.0, (E, A))
    return p.astype(np.float32), heading.astype(np.float32), s


def test_look_ahead_agrees_with_the_reference_on_1000_tracks():
    arrays = mixed_tracks(1000)
    E, A = 1000, 4
    p, heading, _ = poses(arrays, A, 0)
    distances = [0.0, 0.05, 0.3, 1.0, 5.0, -0.4]
    sensors = Sensors(to_track(arrays), A, look_ahead=distances)
    sensors.update(points(p), floats(heading))
    s = sensors.localizer.s.numpy().astype(np.float64)
    found, curvature = sensors.points.numpy(), sensors.curvatures.numpy()
    assert found.shape == (E, A, 6, 3) and curvature.shape == (E, A, 6)
    bend = {**arrays, "center": arrays["curvature"][..., None] * [1.0, 0.0, 0.0]}
    for k, distance in enumerate(distances):
        at = place(arrays, s + distance, np.zeros((E, A)))[0]
        d = at - p
        c, sn = np.cos(heading.astype(np.float64)), np.sin(heading.astype(np.float64))
        expected = np.stack(
            [c * d[..., 0] + sn * d[..., 1], c * d[..., 1] - sn * d[..., 0], d[..., 2]], -1
        )
        assert np.abs(found[:, :, k] - expected).max() < 1e-4
        exact = place(bend, s + distance, np.zeros((E, A)))[0][..., 0]
        assert np.abs(curvature[:, :, k] - exact).max() < 2e-3


def test_rays_agree_with_shapely_on_1000_tracks():
    arrays = mixed_tracks(1000)
    A = 4
    p, heading, _ = poses(arrays, A, 1)
    p[:, 3, :2] = np.random.default_rng(2).uniform(-3.0, 3.0, (1000, 2))
    angles = [0.0, 1.0, -1.0, np.pi / 2, np.pi]
    sensors = Sensors(to_track(arrays), A, rays=angles, max_range=2.0)
    sensors.update(points(p), floats(heading))
    ranges = sensors.ranges.numpy()
    compared = 0
    for env in range(1000):
        truth = road(arrays, env)
        lines = shapely.MultiLineString([truth.left.ring.coords, truth.right.ring.coords])
        shapely.prepare(lines)
        origin = p[env, :, :2].astype(np.float64)
        yaw = heading[env].astype(np.float64)[:, None] + np.array(angles)
        ends = origin[:, None] + 2.0 * np.stack([np.cos(yaw), np.sin(yaw)], -1)
        rays = shapely.linestrings(np.stack(np.broadcast_arrays(origin[:, None], ends), axis=-2))
        hits = shapely.intersection(rays, lines)
        expected = np.minimum(
            np.nan_to_num(shapely.distance(shapely.points(origin)[:, None], hits), nan=2.0), 2.0
        )
        error = np.abs(ranges[env] - expected)
        # A ray that only grazes a border may pass it by a rounding error: then it must be near.
        for a, k in zip(*np.nonzero(error > 1e-4), strict=True):
            first = min(expected[a, k], ranges[env, a, k]) * (1.0 + 1e-3)
            nearly = shapely.LineString(
                [origin[a], origin[a] + (ends[a, k] - origin[a]) * first / 2.0]
            )
            assert nearly.distance(lines) < 1e-5 or error[a, k] < 1e-3, (env, a, k)
        compared += (error <= 1e-4).sum()
    assert compared > 0.999 * ranges.size


def test_rays_on_a_circle():
    arrays = circle(n=256)
    sensors = Sensors(to_track(arrays), rays=[0.0, np.pi / 2, -np.pi / 2], max_range=0.3)
    sensors.update(points([[[1.0, 0.0, 0.0]]]), floats([[np.pi / 2]]))
    assert sensors.ranges.numpy()[0, 0] == pytest.approx([0.3, 0.1, 0.1], abs=1e-3)
    sensors = Sensors(to_track(arrays), rays=[0.0])
    sensors.update(points([[[1.0, 0.0, 0.0]]]), floats([[np.pi / 2]]))
    assert sensors.ranges.numpy()[0, 0, 0] == pytest.approx(np.sqrt(1.1**2 - 1.0), abs=2e-3)


def test_rays_through_vertices_do_not_slip_out():
    arrays = circle(n=64)
    angles = (2.0 * np.pi * np.arange(64) / 64).tolist()
    sensors = Sensors(to_track(arrays), rays=angles)
    sensors.update(points(np.zeros((1, 1, 3))), floats([[0.0]]))
    assert sensors.ranges.numpy() == pytest.approx(0.9, abs=1e-5)


def test_look_ahead_without_a_curvature_array():
    arrays = mixed_tracks(20)

    class Line:
        pass

    line, track = Line(), to_track(arrays)
    for name, array in track.arrays().items():
        if name != "curvature":
            setattr(line, name, array)
    p, heading, _ = poses(arrays, 4, 3)
    values = []
    for source in (track, line):
        sensors = Sensors(source, 4, look_ahead=[0.1, 0.5])
        sensors.update(points(p), floats(heading))
        values.append(sensors.curvatures.numpy().copy())
    assert np.abs(values[0] - values[1]).max() < 0.02


def test_defined_without_a_track_or_a_pose():
    arrays = circle(5)
    arrays["valid"][1] = False
    arrays["count"][2] = 0
    sensors = Sensors(to_track(arrays), look_ahead=[0.1], rays=[0.0])
    p = arrays["center"][:, :1].copy()
    p[3] = np.nan
    heading = np.zeros((5, 1))
    heading[4] = np.nan
    sensors.update(points(p), floats(heading))
    for value in (sensors.points, sensors.curvatures, sensors.ranges):
        assert np.isfinite(value.numpy()[0]).all() and np.isnan(value.numpy()[1:]).all()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "Sensors needs look_ahead distances or rays"),
        ({"look_ahead": [0.1, float("nan")]}, r"Sensors.look_ahead\[1\] must be finite"),
        ({"rays": [float("inf")]}, r"Sensors.rays\[0\] must be finite"),
        ({"rays": [0.0], "max_range": 0.0}, "Sensors.max_range must be finite and > 0"),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        Sensors(to_track(circle()), **arguments)
