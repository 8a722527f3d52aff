"""Racing line and speed profile: faster, on the road, within the limits, closed."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from road_reference import circle, lateral_limit, mixed_tracks, road, to_track

from track_gen.runtime import Localizer, RacingLine, SpeedProfile, ideal_lap_time, speed_profile

LIMITS = (
    {"lateral": 1.0, "acceleration": 1.0, "braking": 1.0},
    {"lateral": 8.0, "acceleration": 3.0, "braking": 6.0, "max_speed": 1.5},
    {"lateral": 1.0, "acceleration": 0.1, "braking": 5.0},
    {"lateral": 6.0, "acceleration": 50.0, "braking": 50.0},
)


def test_the_line_is_faster_and_on_the_road_of_512_tracks():
    arrays = mixed_tracks(512)
    track = to_track(arrays)
    line = RacingLine(track)
    line.update()
    for limits in (*LIMITS[:2], {"lateral": 1.0, "acceleration": 0.2, "braking": 1.0}):
        center, racing = (ideal_lap_time(x, **limits).numpy() for x in (track, line))
        assert (racing < center).all()
        assert (racing / center).mean() < 0.95
    points, offset = line.center.numpy(), line.offset.numpy()
    for env in range(512):
        n = arrays["count"][env]
        truth = road(arrays, env)
        ring = points[env, :n, :2].astype(np.float64)
        assert truth.surface().contains(shapely.LinearRing(ring))
        assert truth.clearance(ring).min() > 0.19 * truth.half_width
        assert np.isnan(points[env, n:]).all() and np.isnan(offset[env, n:]).all()
        edges = np.linalg.norm(np.roll(ring, -1, axis=0) - ring, axis=1)
        assert line.length.numpy()[env] == pytest.approx(edges.sum(), rel=1e-5)
        arclen = line.arclen.numpy()[env, :n]
        assert arclen == pytest.approx(np.cumsum(edges) - edges, abs=1e-4)


def bend(center: np.ndarray) -> float:
    """Integral of the squared curvature of a closed polygon."""
    edges = np.roll(center, -1, axis=0) - center
    lengths = np.linalg.norm(edges, axis=1)
    following = np.roll(edges, -1, axis=0)
    cross = edges[:, 0] * following[:, 1] - edges[:, 1] * following[:, 0]
    turns = np.arctan2(cross, (edges * following).sum(1))
    return float((turns**2 / (0.5 * (lengths + np.roll(lengths, -1)))).sum())


def test_the_line_bends_least():
    arrays = mixed_tracks(100)
    line, longer = RacingLine(to_track(arrays)), RacingLine(to_track(arrays), rounds=60)
    line.update()
    longer.update()
    rng = np.random.default_rng(0)
    for env in range(100):
        n, width = arrays["count"][env], 0.8 * float(arrays["half_width"][env])
        center = arrays["center"][env, :n, :2].astype(np.float64)
        normal = arrays["normal"][env, :n, :2].astype(np.float64)
        x = line.offset.numpy()[env, :n].astype(np.float64)
        found = bend(center + x[:, None] * normal)
        assert found < 0.95 * bend(center)
        assert found < 1.25 * bend(longer.center.numpy()[env, :n, :2].astype(np.float64))
        # No smooth change within the road makes it much better.
        angle = 2.0 * np.pi * np.arange(n) / n
        for _ in range(20):
            wave = np.cos(rng.integers(1, 9) * angle + rng.uniform(0.0, 6.3))
            for size in (0.2, -0.2, 0.03, -0.03):
                moved = np.clip(x + size * width * wave, -width, width)
                assert bend(center + moved[:, None] * normal) > 0.97 * found


def test_masked_rows_stay_and_bad_envs_are_nan():
    arrays = {name: array.copy() for name, array in mixed_tracks(10).items()}
    arrays["valid"][1] = False
    track = to_track(arrays)
    line = RacingLine(track)
    profile = SpeedProfile(line, **LIMITS[0])
    mask = np.arange(10) < 5
    line.update(mask)
    profile.update(mask)
    for name in ("offset", "center", "tangent", "normal", "arclen", "curvature", "length"):
        value = getattr(line, name).numpy()
        assert np.isnan(value[5:]).all() and np.isnan(value[1]).all(), name
        assert np.isfinite(value[0]).any(), name
    assert np.isnan(profile.lap_time.numpy()[[1, 5, 9]]).all()
    assert np.isnan(profile.speed.numpy()[[1, 5, 9]]).all()
    assert (profile.lap_time.numpy()[[0, 2, 3, 4]] > 0.0).all()


def test_other_tools_take_the_line():
    track = to_track(mixed_tracks(10))
    line = RacingLine(track)
    line.update()
    localizer = Localizer(line)
    localizer.update(line.center[:, 3:4])
    assert np.abs(localizer.n.numpy()).max() < 1e-6
    assert localizer.s.numpy()[:, 0] == pytest.approx(line.arclen.numpy()[:, 3], abs=1e-5)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("racing", [False, True])
def test_the_profile_keeps_its_limits_and_is_the_fastest(limits, racing):
    arrays = mixed_tracks(200)
    line = to_track(arrays)
    if racing:
        line = RacingLine(line)
        line.update()
    profile = speed_profile(line, **limits)
    speeds, times = profile.speed.numpy().astype(np.float64), profile.lap_time.numpy()
    arclen, curvature = line.arclen.numpy(), line.curvature.numpy().astype(np.float64)
    length = line.length.numpy().astype(np.float64)
    cap = limits.get("max_speed", np.inf)
    for env in range(200):
        n = arrays["count"][env]
        v, k = speeds[env, :n], curvature[env, :n]
        edge = np.diff(np.append(arclen[env, :n].astype(np.float64), length[env]))
        gain = (np.roll(v, -1) ** 2 - v**2) / (2.0 * edge)
        slack = 1e-4 * max(limits["acceleration"], limits["braking"], (v**2 / edge).max())
        # Both are linear between two points: nowhere more than the limit.
        share = np.linspace(0.0, 1.0, 41)[:, None]
        square, bent = ((1.0 - share) * x + share * np.roll(x, -1) for x in (v**2, k))
        assert (square * np.abs(bent) <= limits["lateral"] * (1.0 + 1e-5)).all()
        assert (gain <= limits["acceleration"] + slack).all()
        assert (-gain <= limits["braking"] + slack).all()
        assert (v <= cap * (1.0 + 1e-6)).all()
        # Nothing can be faster: at each point one of the limits is reached.
        tight = (
            (v**2 >= lateral_limit(k, limits["lateral"]) * (1.0 - 1e-4))
            | (np.roll(gain, 1) >= limits["acceleration"] - slack)
            | (-gain >= limits["braking"] - slack)
            | (v >= cap * (1.0 - 1e-4))
        )
        assert tight.all()
        assert times[env] == pytest.approx((2.0 * edge / (v + np.roll(v, -1))).sum(), rel=1e-4)
        assert np.isnan(speeds[env, n:]).all()


def test_the_lateral_limit_is_exact_on_each_edge():
    """At the tighter end the limit; at the other nothing more without a breach in between."""
    k = np.random.default_rng(0).normal(size=(2000, 2))
    share = np.linspace(0.0, 1.0, 401)
    bent = np.abs(k[:, :1] + share * (k[:, 1:] - k[:, :1]))
    tight = np.abs(k).argmax(1)
    rows = np.arange(2000)
    ends = np.empty((2000, 2))
    for i, pair in enumerate(k):
        ends[i] = lateral_limit(pair, 1.0)
    assert ends[rows, tight] == pytest.approx(1.0 / np.abs(k).max(1))
    for factor, exceeded in ((1.0, False), (1.02, True)):
        raised = ends.copy()
        raised[rows, 1 - tight] *= factor
        square = raised[:, :1] + share * (raised[:, 1:] - raised[:, :1])
        most = (square * bent).max(1)
        assert (most > 1.0 + 1e-9).mean() == pytest.approx(float(exceeded), abs=0.02)


def test_lap_time_of_a_circle():
    track = to_track(circle(radius=2.0, n=100))
    time = ideal_lap_time(track, lateral=2.0, acceleration=1.0, braking=1.0).numpy()[0]
    assert time == pytest.approx(2.0 * np.pi, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda t: RacingLine(t, margin=1.5), "RacingLine.margin must be in"),
        (lambda t: RacingLine(t, rounds=0), "RacingLine.rounds must be in"),
        (lambda t: speed_profile(t, lateral=0, acceleration=1, braking=1), "lateral must be in"),
        (
            lambda t: speed_profile(t, lateral=1, acceleration=1, braking=float("nan")),
            "SpeedProfile.braking must be in",
        ),
    ],
)
def test_bad_arguments(call, text):
    with pytest.raises(ValueError, match=text):
        call(to_track(circle()))
