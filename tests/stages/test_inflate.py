"""The inflate stage against closed forms and a NumPy recomputation of its outputs."""

from __future__ import annotations

import numpy as np
import pytest
from roads import build, circle, perimeter, resample, spaced, stadium, star

FIELDS = ("center", "outer", "inner", "tangent", "normal", "arclen", "curvature")
SCALARS = ("length", "spacing", "winding")


def wiggly(count: int, seed: int = 0, wiggle: float = 0.2) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [spaced(star(rng, wiggle), 0.06) for _ in range(count)]


def cyclic_difference(values: np.ndarray) -> np.ndarray:
    return np.roll(values, -1, axis=0) - values


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.45])
def test_circle(ratio):
    radius = 3.0
    count = round(2 * np.pi / ratio)
    roads = build([circle(radius, count)], 0.5)
    curvature = roads.curvature[0, :count]
    np.testing.assert_allclose(curvature, 1 / radius, rtol=0.01)
    edges = np.linalg.norm(cyclic_difference(roads.center[0, :count]), axis=1)
    mean_edge = 0.5 * (edges + np.roll(edges, 1))
    assert (curvature * mean_edge).sum() == pytest.approx(2 * np.pi, abs=2e-5)
    assert roads.length[0] == pytest.approx(perimeter(circle(radius, count)), rel=1e-5)
    assert roads.spacing[0] == pytest.approx(roads.length[0] / count, rel=1e-6)
    middle = roads.center[0, :count].mean(0)
    for border, expected in ((roads.outer, 3.5), (roads.inner, 2.5)):
        found = np.linalg.norm(border[0, :count] - middle, axis=1)
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert roads.winding[0] == 1
    assert roads.valid[0]


def test_clockwise_mirrors_curvature_and_keeps_the_outer_border_outside():
    curve = wiggly(1)[0]
    roads = build([curve, curve[::-1]], 0.1)
    n = len(curve)
    assert roads.winding.tolist() == [1, -1]
    assert roads.curvature[0, :n].mean() > 0 > roads.curvature[1, :n].mean()
    right_of_travel = roads.center - 0.1 * roads.normal
    np.testing.assert_allclose(roads.outer[0, :n], right_of_travel[0, :n], atol=1e-6)
    np.testing.assert_allclose(roads.inner[1, :n], right_of_travel[1, :n], atol=1e-6)
    for e in range(2):
        assert perimeter(roads.outer[e, :n]) > perimeter(roads.inner[e, :n])
    # Point k of one is point n - 1 - k of the other, up to the new start of the re-spacing.
    np.testing.assert_allclose(roads.outer[0, :n], roads.outer[1, :n][::-1], atol=2e-3)


def test_every_output_follows_from_the_centreline():
    curves = wiggly(8) + [c[::-1] for c in wiggly(4, seed=1)]
    roads = build(curves, 0.1)
    for e, n in enumerate(roads.count):
        center = roads.center[e, :n].astype(float)
        edges = cyclic_difference(center)
        lengths = np.linalg.norm(edges, axis=1)
        assert roads.length[e] == pytest.approx(lengths.sum(), rel=1e-5)
        np.testing.assert_allclose(lengths, roads.spacing[e], rtol=0.01)
        arclen = np.concatenate([[0.0], lengths[:-1].cumsum()])
        np.testing.assert_allclose(roads.arclen[e, :n], arclen, atol=1e-5)
        assert roads.arclen[e, 0] == 0.0
        tangent = np.roll(center, -1, axis=0) - np.roll(center, 1, axis=0)
        tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
        np.testing.assert_allclose(roads.tangent[e, :n], tangent, atol=1e-5)
        normal = np.stack([-tangent[:, 1], tangent[:, 0], 0 * tangent[:, 0]], axis=1)
        np.testing.assert_allclose(roads.normal[e, :n], normal, atol=1e-5)
        side = -0.1 * roads.winding[e]
        np.testing.assert_allclose(roads.outer[e, :n], center + side * normal, atol=1e-6)
        np.testing.assert_allclose(roads.inner[e, :n], center - side * normal, atol=1e-6)
        incoming = np.roll(edges, 1, axis=0)
        turn = np.arctan2(
            incoming[:, 0] * edges[:, 1] - incoming[:, 1] * edges[:, 0],
            (incoming * edges).sum(1),
        )
        expected = turn / (0.5 * (lengths + np.roll(lengths, 1)))
        np.testing.assert_allclose(roads.curvature[e, :n], expected, atol=2e-4)
        assert roads.winding[e] == np.sign(turn.sum())
        lines = np.concatenate([roads.center[e, :n], roads.outer[e, :n], roads.inner[e, :n]])
        np.testing.assert_allclose(lines.min(0), -lines.max(0), atol=1e-6)
        for name in FIELDS:
            values = getattr(roads, name)
            assert np.isfinite(values[e, :n]).all()
            assert np.isnan(values[e, n:]).all()


@pytest.mark.parametrize("ratio", [0.4, 0.6, 0.8, 1.0])
def test_uneven_input_is_evened_out(ratio):
    """Edges that differ by tens of per cent on a smooth road of tight bends; its length stays."""
    rng = np.random.default_rng(4)
    w = 0.1
    dense = resample(stadium(1.2 * w, 10 * w), 8000)
    curves = []
    for _ in range(20):
        n = round(perimeter(dense) / (ratio * w))
        where = (np.arange(n) + rng.uniform(-0.12, 0.12, n)) * 8000 / n
        curves.append(dense[where.astype(int) % 8000])
    roads = build(curves, w)
    for e, n in enumerate(roads.count):
        before = np.linalg.norm(cyclic_difference(curves[e]), axis=1)
        assert np.abs(before / before.mean() - 1).max() > 0.1
        edges = np.linalg.norm(cyclic_difference(roads.center[e, :n]), axis=1)
        assert np.abs(edges * n / roads.length[e] - 1).max() < 0.01
        assert roads.length[e] == pytest.approx(before.sum(), rel=0.006)


def test_start_and_position_do_not_change_the_road():
    curves = wiggly(1)
    curve = resample(resample(curves[0], len(curves[0])), len(curves[0]))
    n = len(curve)
    roads = build([curve, np.roll(curve, -17, axis=0), curve + np.array([300.0, -200.0])], 0.1)
    rolled = np.roll(roads.outer[1, :n], 17, axis=0)
    np.testing.assert_allclose(rolled, roads.outer[0, :n], atol=2e-3)
    seam = np.abs(cyclic_difference(roads.curvature[0, :n]))
    assert seam[-1] < seam[:-1].max() + 1e-3
    # float32 input at 300 carries 3e-5 of rounding; nothing may be lost beyond that.
    np.testing.assert_allclose(roads.center[2, :n], roads.center[0, :n], atol=2e-4)
    np.testing.assert_allclose(roads.normal[2, :n], roads.normal[0, :n], atol=5e-3)
    assert roads.valid.all()


@pytest.mark.parametrize("count", [0, 600])
def test_rows_without_a_road_are_nan(count):
    """Count 0 (an overflow upstream) and a count beyond the buffer: never a shortened track."""
    roads = build([circle(1.0, 40)], 0.1, count=np.array([count]))
    for name in FIELDS:
        assert np.isnan(getattr(roads, name)).all(), name
    assert np.isnan(roads.length[0]) and np.isnan(roads.spacing[0])
    assert roads.winding[0] == 0
    assert not roads.valid[0] and roads.pending[0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_input_that_is_not_finite_becomes_nan_as_a_whole(bad):
    curve = circle(1.0, 40)
    curve[7, 1] = bad
    roads = build([curve, circle(1.0, 40)], 0.1)
    for name in FIELDS:
        assert np.isnan(getattr(roads, name)[0]).all(), name
    assert roads.valid.tolist() == [False, True]


@pytest.mark.parametrize("count", [1, 2, 40])
def test_equal_points_are_no_road(count):
    roads = build([np.ones((count, 2))], 0.1)
    assert not roads.valid[0]
    assert np.isnan(roads.center[0]).all()


def test_repeated_points_are_harmless():
    curve = circle(1.0, 40)
    roads = build([np.repeat(curve, 2, axis=0)], 0.1)
    assert np.isfinite(roads.curvature[0, :80]).all()
    assert roads.curvature[0, :80].mean() == pytest.approx(1.0, rel=0.02)


def test_rows_that_are_not_pending_are_untouched():
    curves = wiggly(5)
    pending = np.array([False, True, False, False, True])
    roads = build(curves, 0.1, pending=pending)
    everything = build(curves, 0.1)
    for name in (*FIELDS, *SCALARS):
        values = getattr(roads, name)
        assert (values[~pending] == -7).all(), name
        np.testing.assert_array_equal(values[pending], getattr(everything, name)[pending])
    assert not roads.attempts[~pending].any()


def test_row_slices_give_the_same_bytes():
    curves = wiggly(7)
    whole, sliced = build(curves, 0.1), build(curves, 0.1, slices=3)
    for name, values in vars(whole).items():
        assert values.tobytes() == getattr(sliced, name).tobytes(), name
