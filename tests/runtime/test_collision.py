"""Collision checker against the float64 reference; contacts; the swept test."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from road_reference import (
    box_clearance,
    circle,
    corners,
    floats,
    mixed_tracks,
    place,
    points,
    road,
    to_track,
)

from conftest import make
from track_gen.runtime import CollisionChecker, Localizer, RacingLine

BAND = 1e-5


def poses(arrays: dict, num_agents: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions and headings on the road, on the seam, at pinches, beside and far away."""
    rng = np.random.default_rng(seed)
    E, A = len(arrays["count"]), num_agents
    half_width = arrays["half_width"][:, None]
    s = rng.random((E, A)) * arrays["length"][:, None]
    n = rng.uniform(-1.1, 1.1, (E, A)) * half_width
    s[:, 0] = 0.0
    tightest = np.nanargmax(np.abs(arrays["curvature"]), axis=1)
    s[:, 1] = arrays["arclen"][np.arange(E), tightest]
    p, heading = place(arrays, s, n)
    heading += rng.normal(0.0, 0.5, (E, A))
    heading[:, 2:4] = rng.uniform(-10.0, 10.0, (E, 2))
    p[:, 4, :2] = rng.uniform(-2.0, 2.0, (E, 2))
    p[:, 5, :2] = rng.uniform(-20.0, 20.0, (E, 2))
    return p.astype(np.float32), heading.astype(np.float32)


def test_discs_agree_with_the_reference_on_1000_tracks():
    arrays = mixed_tracks(1000)
    p, _ = poses(arrays, 8, 0)
    checker = CollisionChecker(to_track(arrays), 8, radius=0.02)
    for _ in range(2):  # the second time warm
        checker.update(points(p))
        found = {
            name: getattr(checker, name).numpy()
            for name in ("inside", "clearance", "point", "normal", "border")
        }
        for env in range(1000):
            truth = road(arrays, env)
            q = p[env, :, :2].astype(np.float64)
            left, right = truth.borders(q)
            clearance = np.minimum(left, right) - 0.02
            assert np.abs(found["clearance"][env] - clearance).max() < 1e-4
            clear = np.abs(clearance) > BAND
            assert ((clearance > 0.0) == found["inside"][env])[clear].all()
            decided = np.abs(left - right) > BAND
            assert ((right < left) == found["border"][env])[decided].all()
            # The point is on the border, and the normal leads from it to the position or away.
            point, normal = found["point"][env].astype(np.float64), found["normal"][env]
            line = np.where(
                found["border"][env] == 0, truth.left.distance(point), truth.right.distance(point)
            )
            assert line.max() < 1e-5
            signed = found["clearance"][env] + 0.02
            arrow = np.abs(point + normal * signed[:, None] - q).max(axis=1)
            assert arrow[np.abs(signed) > 1e-3].max() < 1e-4
            assert np.abs(np.linalg.norm(normal, axis=1) - 1.0).max() < 1e-5


@pytest.mark.parametrize(
    ("share", "box", "offset"),
    [
        (1000, (0.08, 0.04), 0.0),
        (100, (0.16, 0.05), 0.08),
        (100, (0.02, 0.12), -0.01),
        (100, (0.4, 0.05), 0.0),
        (50, (1.0, 0.6), 0.0),
    ],
)
def test_boxes_agree_with_the_reference(share, box, offset):
    arrays = mixed_tracks(1000)
    arrays = {name: array[:: 1000 // share] for name, array in arrays.items()}
    p, heading = poses(arrays, 6, 1)
    checker = CollisionChecker(to_track(arrays), 6, box=box, offset=offset)
    for _ in range(2):
        checker.update(points(p), floats(heading))
    inside, clearance = checker.inside.numpy(), checker.clearance.numpy()
    both = set()
    for env in range(share):
        truth = road(arrays, env)
        for k in range(6):
            at, yaw = p[env, k, :2].astype(np.float64), float(heading[env, k])
            expected = box_clearance(truth, at, yaw, box, offset)
            assert abs(clearance[env, k] - expected) < 1e-4, (env, k)
            if abs(expected) > BAND:
                whole = truth.surface().contains(shapely.Polygon(corners(at, yaw, box, offset)))
                assert inside[env, k] == whole, (env, k)
                both.add(whole)
    assert False in both
    assert (True in both) == (box[0] < 1.0)


def gaps(arrays: dict) -> tuple[np.ndarray, np.ndarray]:
    """Middle [E, 1, 3] and direction [E, 1] of the narrowest gap between two stretches of road."""
    E = len(arrays["count"])
    p, heading = np.zeros((E, 1, 3), np.float32), np.zeros((E, 1), np.float32)
    for env in range(E):
        n, best = int(arrays["count"][env]), np.inf
        apart = np.abs(np.arange(n)[:, None] - np.arange(n))
        near = np.minimum(apart, n - apart) < n // 8
        for border in ("inner", "outer"):
            q = arrays[border][env, :n, :2].astype(np.float64)
            middle = 0.5 * (q + np.roll(q, -1, 0))
            between = np.linalg.norm(middle[:, None] - middle, axis=2)
            between[near] = np.inf
            i, j = np.unravel_index(between.argmin(), between.shape)
            if between[i, j] < best:
                best = between[i, j]
                p[env, 0, :2] = 0.5 * (middle[i] + middle[j])
                way = middle[j] - middle[i]
                heading[env, 0] = np.arctan2(way[1], way[0])
    return p, heading


@pytest.mark.parametrize("box", [(0.24, 0.05), (0.1, 0.05), (0.3, 0.001)])
@pytest.mark.parametrize("name", ["bezier", "hull", "serpentine"])
def test_a_border_through_the_middle_of_a_box(name, box):
    """No border point lies in the box, but a border does."""
    arrays = make(num_envs=48, generator=name, spacing=0.1).generate().numpy()
    p, heading = gaps(arrays)
    for plan_view in (True, False):
        track = to_track(arrays)
        localizer = Localizer(track, plan_view=plan_view)
        checker = CollisionChecker(track, box=box, localizer=localizer)
        localizer.update(points(p), floats(heading))
        checker.update(points(p), floats(heading))
        through = 0
        for env in range(48):
            truth = road(arrays, env)
            at, yaw = p[env, 0, :2].astype(np.float64), float(heading[env, 0])
            shape = shapely.Polygon(corners(at, yaw, box))
            expected = box_clearance(truth, at, yaw, box)
            inside, clearance = checker.inside.numpy()[env, 0], checker.clearance.numpy()[env, 0]
            if abs(expected) > BAND:
                assert inside == truth.surface().contains(shape), env
            if plan_view:
                assert abs(clearance - expected) < 1e-4, env
            through += expected < 0.0
        assert through > 10


def test_beside_the_road_with_a_localizer_in_space():
    """Its borders are those abreast, and a body beyond them is outside."""
    arrays = mixed_tracks(40)
    track = to_track(arrays)
    rng = np.random.default_rng(3)
    p = np.concatenate([rng.uniform(-4.0, 4.0, (40, 16, 2)), np.zeros((40, 16, 1))], 2)
    p = p.astype(np.float32)
    heading = rng.uniform(-3.0, 3.0, (40, 16)).astype(np.float32)
    localizer = Localizer(track, 16, plan_view=False)
    localizer.update(points(p), floats(heading))
    for body in ({"box": (0.05, 0.03)}, {"radius": 0.02}):
        checker = CollisionChecker(track, 16, localizer=localizer, **body)
        checker.update(points(p), floats(heading))
        for env in range(40):
            truth = road(arrays, env)
            for k in range(16):
                at = p[env, k, :2].astype(np.float64)
                expected = truth.clearance(at[None])[0] - 0.02
                if "box" in body:
                    expected = box_clearance(truth, at, float(heading[env, k]), body["box"])
                if abs(expected) > BAND:
                    assert checker.inside.numpy()[env, k] == (expected > 0.0), (env, k)


@pytest.mark.parametrize("body", [{"box": (0.05, 0.03)}, {"radius": 0.02}])
def test_a_racing_line_has_the_borders_of_its_track(body):
    generator = make(num_envs=24, generator="serpentine", N_max=1024)
    track = generator.generate()
    line = RacingLine(track, margin=0.1)
    line.update()
    arrays = track.numpy()
    rng = np.random.default_rng(5)
    s = rng.random((24, 32)) * arrays["length"][:, None]
    n = rng.uniform(-1.6, 1.6, (24, 32)) * arrays["half_width"][:, None]
    p, heading = place(arrays, s, n)
    heading = heading + rng.normal(0.0, 1.0, heading.shape)
    results = []
    for of in (track, line):
        localizer = Localizer(of, 32)
        checker = CollisionChecker(of, 32, localizer=localizer, **body)
        localizer.update(points(p), floats(heading))
        checker.update(points(p), floats(heading))
        results.append([checker.clearance, checker.inside, localizer.left, localizer.right])
    for of_track, of_line in zip(*results, strict=True):
        assert of_track.numpy().tobytes() == of_line.numpy().tobytes()


@pytest.mark.parametrize("far", [1e3, 1e6, 1e10, 1e14, 1e16, 1e20, 3e38])
def test_positions_far_away_are_outside(far):
    arrays = mixed_tracks(12)
    track = to_track(arrays)
    p = np.zeros((12, 2, 3))
    p[:, 0, 0], p[:, 1, 1] = far, -far
    heading = np.full((12, 2), 0.3)
    for plan_view in (True, False):
        localizer = Localizer(track, 2, plan_view=plan_view)
        localizer.update(points(p), floats(heading))
        for body in ({"box": (0.05, 0.03)}, {"radius": 0.02}):
            checker = CollisionChecker(track, 2, localizer=localizer, **body)
            checker.update(points(p), floats(heading))
            assert not checker.inside.numpy().any()
            if far > 1e15:  # too far for squares of distances: as a position that is not finite
                assert np.isnan(checker.clearance.numpy()).all()
                assert (localizer.segment.numpy() == -1).all()
            else:
                assert checker.clearance.numpy() == pytest.approx(-far, rel=0.01)


def test_a_contact_points_into_the_road():
    arrays = circle()
    checker = CollisionChecker(to_track(arrays), 2, box=(0.06, 0.02))
    # Beside the outer border, inside of it and reaching over it.
    p = np.array([[[1.08, 0.0, 0.0], [1.095, 0.0, 0.0]]])
    checker.update(points(p), floats([[np.pi / 2, np.pi / 2]]))
    assert checker.inside.numpy()[0].tolist() == [True, False]
    assert checker.clearance.numpy()[0] == pytest.approx([0.01, -0.005], abs=2e-3)
    assert checker.border.numpy()[0].tolist() == [1, 1]
    assert checker.normal.numpy()[0][:, 0] == pytest.approx([-1.0, -1.0], abs=0.02)


def test_defined_without_a_track_or_a_pose():
    arrays = circle(4)
    arrays["valid"][1] = False
    arrays["count"][2] = 0
    for options in ({"radius": 0.01}, {"box": (0.02, 0.01)}):
        checker = CollisionChecker(to_track(arrays), swept=True, **options)
        p = arrays["center"][:, :1].copy()
        heading = np.zeros((4, 1))
        checker.update(points(p), floats(heading))
        p[3] = np.nan
        checker.update(points(p), floats(heading))
        assert checker.inside.numpy()[:, 0].tolist() == [True, False, False, False]
        assert checker.border.numpy()[1:, 0].tolist() == [-1, -1, -1]
        for name in ("clearance", "point", "normal", "swept_fraction"):
            value = getattr(checker, name).numpy()
            assert np.isfinite(value[0]).all() and np.isnan(value[1:]).all(), name
        assert not checker.swept_hit.numpy().any()
    heading[0] = np.nan
    checker.update(points(arrays["center"][:, :1]), floats(heading))
    assert not checker.inside.numpy()[0, 0] and np.isnan(checker.clearance.numpy()[0, 0])


def test_the_swept_test_finds_what_happens_between_two_poses():
    arrays = circle()
    track = to_track(arrays)
    disc = CollisionChecker(track, 4, radius=0.02, swept=True)
    box = CollisionChecker(track, 4, box=(0.04, 0.02), swept=True)
    # Along the road, out and over both borders, across the infield, and only a touch.
    before = np.array([[[1, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]], float)
    after = np.array([[[1, 0.1, 0], [2, 0, 0], [-1, 0, 0], [1.09, 0, 0]]], float)
    heading = floats(np.zeros((1, 4)))
    for checker in (disc, box):
        checker.update(points(before), heading)
        assert not checker.swept_hit.numpy().any()
        assert np.isnan(checker.swept_fraction.numpy()).all()
        checker.update(points(after), heading)
        assert checker.swept_hit.numpy()[0].tolist() == [False, True, True, True]
        fraction = checker.swept_fraction.numpy()[0]
        assert fraction[0] == 1.0
        assert fraction[1:] == pytest.approx([0.08, 0.04, 0.885], abs=5e-3)
    # After a reset there is no way to test.
    checker.reset()
    checker.update(points(-before), heading)
    assert not checker.swept_hit.numpy().any()


def test_swept_discs_agree_with_shapely():
    arrays = mixed_tracks(200)
    rng = np.random.default_rng(2)
    p, _ = poses(arrays, 6, 3)
    step = rng.normal(0.0, 0.15, p.shape).astype(np.float32)
    step[..., 2] = 0.0
    q = p + step
    checker = CollisionChecker(to_track(arrays), 6, radius=0.01, swept=True)
    checker.update(points(p))
    checker.update(points(q))
    hit, fraction = checker.swept_hit.numpy(), checker.swept_fraction.numpy()
    for env in range(200):
        truth = road(arrays, env)
        lines = shapely.MultiLineString([truth.left.ring.coords, truth.right.ring.coords])
        for k in range(6):
            a, b = p[env, k, :2].astype(float), q[env, k, :2].astype(float)
            distance = shapely.LineString([a, b]).distance(lines)
            if abs(distance - 0.01) > BAND:
                assert hit[env, k] == (distance < 0.01), (env, k)
            if hit[env, k] and fraction[env, k] > 0.0:
                touch = shapely.Point(a + fraction[env, k] * (b - a)).distance(lines)
                assert touch == pytest.approx(0.01, abs=1e-4)
                earlier = shapely.LineString([a, a + 0.98 * fraction[env, k] * (b - a)])
                assert earlier.distance(lines) > 0.01 - BAND


def test_sizes_may_differ_and_change():
    arrays = circle(2)
    checker = CollisionChecker(to_track(arrays), 2, radius=0.05)
    checker.size.assign(np.array([[[0.01, 0], [0.2, 0]], [[0.05, 0], [0.05, 0]]], np.float32))
    checker.update(points(np.repeat(arrays["center"][:, :1], 2, axis=1)))
    assert checker.inside.numpy().tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, ValueError, "needs either a radius or a box"),
        ({"radius": 0.1, "box": (1, 1)}, ValueError, "needs either a radius or a box"),
        ({"radius": -0.1}, ValueError, "CollisionChecker.radius must be finite and >= 0"),
        ({"box": (0.1, 0.0)}, ValueError, r"CollisionChecker.box\[1\] must be finite and > 0"),
        ({"box": 0.1}, TypeError, r"box must be \(length, width\), got 0.1"),
        ({"box": (0.1, 0.1), "offset": 0.2}, ValueError, "CollisionChecker.offset must be in"),
        ({"radius": 0.1, "offset": 0.01}, ValueError, "offset must be 0 for a disc"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        CollisionChecker(to_track(circle()), **arguments)


def test_boxes_need_headings():
    checker = CollisionChecker(to_track(circle()), box=(0.1, 0.1))
    with pytest.raises(ValueError, match="needs headings for boxes"):
        checker.update(points(np.zeros((1, 1, 3))))
