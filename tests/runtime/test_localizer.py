"""Localizer against the float64 reference; warm against cold; laps."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from road_reference import circle, floats, mixed_tracks, place, points, road, to_track

from conftest import make
from track_gen.runtime import Localizer, RacingLine
from track_gen.runtime.view import TrackView, locate, nearest_borders, track_view

NAMES = ("s", "n", "heading_error", "segment", "fraction", "left", "right", "height")


def results(localizer: Localizer) -> dict[str, np.ndarray]:
    return {name: getattr(localizer, name).numpy().copy() for name in NAMES}


def poses(arrays: dict, seed: int = 0) -> np.ndarray:
    """Positions [E, 24, 3]: on the road, on the seam, at pinches, beside the road, far away."""
    rng = np.random.default_rng(seed)
    E = len(arrays["count"])
    half_width, length = arrays["half_width"][:, None], arrays["length"][:, None]
    s = rng.random((E, 24)) * length
    n = rng.uniform(-1.0, 1.0, (E, 24)) * half_width
    s[:, 8:11] = rng.normal(0.0, 1e-4, (E, 3)) * length
    s[:, 11] = 0.0
    tightest = np.nanargmax(np.abs(arrays["curvature"]), axis=1)
    rows = np.arange(E)
    s[:, 12:15] = arrays["arclen"][rows, tightest, None] + rng.normal(0, 0.5, (E, 3)) * half_width
    inward = np.sign(arrays["curvature"][rows, tightest, None]) * half_width
    n[:, 12:15] = inward * np.array([1.0, 0.98, 0.9])
    n[:, 15:20] *= 5.0
    p = place(arrays, s, n)[0]
    p[:, 20:22, :2] = rng.uniform(-2.0, 2.0, (E, 2, 2))
    p[:, 22:, :2] = rng.uniform(-20.0, 20.0, (E, 2, 2))
    p[..., 2] = rng.normal(0.0, 1.0, (E, 24))
    return p.astype(np.float32)


def test_agrees_with_the_reference_on_1000_tracks():
    arrays = mixed_tracks(1000)
    E, A = len(arrays["count"]), 24
    track = to_track(arrays)
    p = poses(arrays)
    heading = np.random.default_rng(1).uniform(-10.0, 10.0, (E, A)).astype(np.float32)
    cold, warm = Localizer(track, A), Localizer(track, A)
    cold.update(points(p), floats(heading))
    nearby = p + np.random.default_rng(2).normal(0.0, 0.05, p.shape)
    warm.update(points(nearby))
    warm.update(points(p), floats(heading))
    ties = 0
    for env in range(E):
        truth = road(arrays, env)
        q = p[env, :, :2].astype(np.float64)
        segment, fraction, distance = truth.center.nearest(q)
        left, right = truth.borders(q)
        for found in (results(cold), results(warm)):
            assert np.abs(found["n"][env] - truth.n(q)).max() < 1e-4
            assert np.abs(found["left"][env] - left).max() < 1e-4
            assert np.abs(found["right"][env] - right).max() < 1e-4
            assert np.abs(found["height"][env] - p[env, :, 2]).max() < 1e-6
            s = found["s"][env]
            assert (s >= 0.0).all() and (s < truth.length).all()
            error = np.abs(np.mod(s - truth.s(segment, fraction) + truth.length / 2, truth.length))
            wrong = np.abs(error - truth.length / 2) > 1e-4
            # Two places may be equally near in single precision; then either will do.
            own = truth.center.distances(q)[np.arange(A), found["segment"][env]]
            assert (own - distance < 1e-6 * (1.0 + distance))[wrong].all()
            ties += wrong.sum()
            i, t = found["segment"][env], found["fraction"][env][:, None]
            tangent = truth.tangent[i]
            tangent = tangent + t * (truth.tangent[(i + 1) % len(truth.tangent)] - tangent)
            turn = heading[env] - np.arctan2(tangent[:, 1], tangent[:, 0])
            off = np.abs(np.mod(found["heading_error"][env] - turn + np.pi, 2 * np.pi) - np.pi)
            assert off.max() < 1e-5
    assert ties <= 0.01 * 2 * E * A


def test_warm_and_cold_agree_along_two_laps():
    arrays = mixed_tracks(1000)
    E = 1000
    track = to_track(arrays)
    warm, cold = Localizer(track, 2), Localizer(track, 2)
    rng = np.random.default_rng(3)
    length = arrays["length"][:, None].astype(np.float64)
    s = rng.random((E, 2)) * length
    steps = 90
    wave = rng.uniform(2.0, 9.0, (E, 2))
    ties = 0
    for k in range(steps + 1):
        n = np.sin(wave * k / steps * 6.0) * arrays["half_width"][:, None] * [0.9, 1.3]
        p = points(place(arrays, s + 2.0 * length * k / steps, n)[0])
        warm.update(p)
        cold.reset()
        cold.update(p)
        a, b = results(warm), results(cold)
        for name in ("n", "left", "right"):
            assert np.abs(np.abs(a[name]) - np.abs(b[name])).max() < 2e-6, name
        differ = np.abs(np.mod(a["s"] - b["s"] + length / 2, length) - length / 2) > 1e-5
        ties += differ.sum()
    assert ties <= 1e-4 * 2 * E * steps


def test_s_of_points_and_the_seam():
    arrays = circle(n=40)
    localizer = Localizer(to_track(arrays))
    for i in (0, 1, 20, 39):
        localizer.update(points(arrays["center"][:, i : i + 1]))
        assert localizer.s.numpy()[0, 0] == pytest.approx(arrays["arclen"][0, i], abs=1e-6)
        assert localizer.n.numpy()[0, 0] == pytest.approx(0.0, abs=1e-6)
    # Beyond the middle of the closing edge it is still below the length, and then 0 again.
    closing = 0.001 * arrays["center"][:, 39:] + 0.999 * arrays["center"][:, :1]
    localizer.update(points(closing))
    assert 0.999 * arrays["length"][0] < localizer.s.numpy()[0, 0] < arrays["length"][0]


@pytest.mark.parametrize("winding", [1, -1])
def test_signs(winding):
    arrays = circle()
    if winding < 0:
        for name in ("center", "outer", "inner", "tangent", "normal"):
            arrays[name] = arrays[name] * np.array([1, -1, 1], np.float32)
        arrays["normal"] = -arrays["normal"]
        arrays["curvature"] = -arrays["curvature"]
        arrays["winding"][:] = -1
    localizer = Localizer(to_track(arrays), 3)
    # On the centreline, inside of the loop, beyond the outer border.
    x = np.array([1.0, 0.95, 1.25])
    localizer.update(
        points(np.stack([x, np.zeros(3), np.zeros(3)], -1)[None]),
        floats([[winding * np.pi / 2 + 0.1] * 3]),
    )
    n, left, right = (getattr(localizer, k).numpy()[0] for k in ("n", "left", "right"))
    assert n == pytest.approx(winding * np.array([0.0, 0.05, -0.25]), abs=2e-3)
    inner, outer = (left, right) if winding > 0 else (right, left)
    assert inner == pytest.approx([0.1, 0.05, 0.35], abs=2e-3)
    assert outer == pytest.approx([0.1, 0.15, -0.15], abs=2e-3)
    assert localizer.heading_error.numpy()[0] == pytest.approx([0.1] * 3, abs=3e-3)


def test_sides_at_spikes():
    # Every vertex of a star turns by more than 90 degrees, where its two edges disagree on sides.
    arrays = circle(n=16)
    reach = np.where(np.arange(16) % 2 == 0, 1.0, 0.15).astype(np.float32)[:, None]
    for name in ("center", "outer", "inner"):
        arrays[name] = arrays[name] / np.linalg.norm(arrays[name], axis=-1, keepdims=True) * reach
    arrays["half_width"][:] = 0.1
    edges = np.linalg.norm(np.roll(arrays["center"], -1, axis=1) - arrays["center"], axis=-1)
    arrays["arclen"] = (np.cumsum(edges, axis=1) - edges).astype(np.float32)
    arrays["length"] = edges.sum(axis=1).astype(np.float32)
    rng = np.random.default_rng(6)
    tips = arrays["center"][0, rng.integers(0, 16, 400)]
    p = (tips + rng.normal(0.0, 0.1, (400, 3)) * [1, 1, 0]).astype(np.float32)[None]
    localizer = Localizer(to_track(arrays), 400)
    localizer.update(points(p))
    truth = road(arrays, 0)
    left, right = truth.borders(p[0, :, :2].astype(np.float64))
    assert np.abs(localizer.n.numpy()[0] - truth.n(p[0, :, :2].astype(np.float64))).max() < 1e-5
    assert np.abs(localizer.left.numpy()[0] - left).max() < 1e-5
    assert np.abs(localizer.right.numpy()[0] - right).max() < 1e-5


def test_no_place_is_nan_and_minus_one():
    arrays = circle(4)
    arrays["valid"][1] = False
    arrays["count"][2] = 0
    localizer = Localizer(to_track(arrays), 2)
    p = np.tile(arrays["center"][:, :1], (1, 2, 1))
    p[3, 0, 1] = np.nan
    p[3, 1, 0] = np.inf
    localizer.update(points(p), floats(np.zeros((4, 2))))
    for name, value in results(localizer).items():
        if name == "segment":
            assert (value[1:] == -1).all() and (value[0] >= 0).all()
        else:
            assert np.isnan(value[1:]).all() and np.isfinite(value[0]).all(), name


def test_without_heading_or_borders():
    arrays = circle()
    localizer = Localizer(to_track(arrays), borders=False)
    localizer.update(points(arrays["center"][:, :1]))
    assert np.isnan(localizer.heading_error.numpy()).all()
    assert np.isnan(localizer.left.numpy()).all()
    assert np.isfinite(localizer.s.numpy()).all()


def test_three_dimensions_tell_an_overpass_apart():
    # A figure of eight that passes over itself at the origin.
    n = 200
    t = 2.0 * np.pi * np.arange(n) / n
    line = np.stack([np.sin(t), np.sin(t) * np.cos(t), 0.3 * np.cos(t)], axis=-1)
    arrays = circle(n=n)
    arrays["center"][0] = line
    along = np.roll(line, -1, axis=0) - np.roll(line, 1, axis=0)
    arrays["tangent"][0] = along / np.linalg.norm(along, axis=-1, keepdims=True)
    edges = np.linalg.norm(np.roll(line, -1, axis=0) - line, axis=-1)
    arrays["arclen"][0] = np.cumsum(edges) - edges
    arrays["length"][0] = edges.sum()
    localizer = Localizer(to_track(arrays), 2, plan_view=False)
    localizer.update(points([[[0.0, 0.0, 0.28], [0.0, 0.0, -0.28]]]))
    assert localizer.s.numpy()[0, 0] == pytest.approx(0.0, abs=0.01)
    assert localizer.s.numpy()[0, 1] == pytest.approx(edges.sum() / 2, abs=0.01)
    assert localizer.height.numpy()[0] == pytest.approx([-0.02, 0.02], abs=1e-3)


def test_a_jump_is_found_again():
    arrays = mixed_tracks(100)
    track = to_track(arrays)
    jumping, fresh = Localizer(track), Localizer(track)
    rng = np.random.default_rng(4)
    for _ in range(20):
        s = rng.random((100, 1)) * arrays["length"][:, None]
        p = points(place(arrays, s, 0.5 * arrays["half_width"][:, None])[0])
        jumping.update(p)
        fresh.reset()
        fresh.update(p)
        assert np.abs(jumping.n.numpy() - fresh.n.numpy()).max() < 2e-6
        assert (np.abs(jumping.s.numpy() - fresh.s.numpy()) < 1e-5).mean() > 0.98


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"num_agents": 0}, ValueError, r"Localizer.num_agents must be in \[1"),
        ({"num_agents": 1.0}, TypeError, "Localizer.num_agents must be an int"),
        ({"reach": float("nan")}, ValueError, "Localizer.reach must be finite"),
        ({"plan_view": 1}, TypeError, "Localizer.plan_view must be a bool"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        Localizer(to_track(circle()), **arguments)


def test_bad_poses():
    localizer = Localizer(to_track(circle(2)), 3)
    with pytest.raises(ValueError, match=r"position\) must have shape \(2, 3, 2 or 3\), got"):
        localizer.update(wp.zeros((2, 2), dtype=wp.vec3f, device="cpu"))
    with pytest.raises(TypeError, match="must be of float32, vec2f or vec3f, got float64"):
        localizer.update(wp.zeros((2, 3, 3), dtype=wp.float64, device="cpu"))
    with pytest.raises(TypeError, match="must be a Warp array or a torch tensor, got ndarray"):
        localizer.update(np.zeros((2, 3, 3), np.float32))
    good = wp.zeros((2, 3), dtype=wp.vec3f, device="cpu")
    with pytest.raises(ValueError, match=r"heading\) must have shape \(2, 3\), got"):
        localizer.update(good, wp.zeros((2, 2), dtype=wp.float32, device="cpu"))
    with pytest.raises(TypeError, match=r"mask\) must have dtype bool"):
        localizer.update(good, mask=wp.zeros(2, dtype=wp.int32, device="cpu"))


@wp.kernel
def walk_and_look_kernel(
    # In:
    view: TrackView,
    position_in: wp.array2d[wp.vec3f],
    # Out:
    walked_out: wp.array2d[wp.vec2f],
    looked_out: wp.array2d[wp.vec2f],
):
    """Distances to both borders by a walk and by looking at all of them. Dim (E, A)."""
    env, agent = wp.tid()
    p = position_in[env, agent]
    foot = locate(view, env, p, -1, 0.95)
    walked = nearest_borders(view, env, p, foot.segment)
    looked = nearest_borders(view, env, p, -1)
    walked_out[env, agent] = wp.vec2f(walked.to_left, walked.to_right)
    looked_out[env, agent] = wp.vec2f(looked.to_left, looked.to_right)


@pytest.mark.parametrize("spacing", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("name", ["bezier", "hull", "serpentine"])
def test_walks_along_borders_find_the_nearest_place(name, spacing):
    """On and beside the road, from the centreline and from a racing line, for coarse tracks too."""
    track = make(num_envs=64, generator=name, spacing=0.1 * spacing, N_max=1024).generate()
    line = RacingLine(track, margin=0.1)
    line.update()
    rng = np.random.default_rng(7)
    at = track.numpy()
    i = (rng.random((64, 1000)) * at["count"][:, None]).astype(int)
    p = at["center"][np.arange(64)[:, None], i]
    p[..., :2] += rng.normal(0.0, 0.12, (64, 1000, 2))
    for of in (track, line):
        walked, looked = (wp.zeros((64, 1000), dtype=wp.vec2f, device="cpu") for _ in range(2))
        inputs = [track_view(of), wp.array(p, dtype=wp.vec3f, device="cpu")]
        outputs = [walked, looked]
        wp.launch(walk_and_look_kernel, (64, 1000), inputs=inputs, outputs=outputs, device="cpu")
        assert walked.numpy().tobytes() == looked.numpy().tobytes()
        on_road = (looked.numpy() > 0.0).all(axis=2)
        assert 0.4 < on_road.mean() < 0.9
