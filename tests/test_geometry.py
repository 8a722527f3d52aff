"""Every function of geometry.py against NumPy in float64, degenerate cases included."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from shapely.geometry import LineString

from track_gen import geometry as g

wp.set_module_options({"enable_backward": False})

M = 4000


@wp.kernel
def vector_kernel(
    # In:
    a_in: wp.array[wp.vec2f],
    b_in: wp.array[wp.vec2f],
    angle_in: wp.array[wp.float32],
    # Out:
    cross_out: wp.array[wp.float32],
    left_out: wp.array[wp.vec2f],
    rotate_out: wp.array[wp.vec2f],
    wrap_out: wp.array[wp.float32],
    cos_sin_out: wp.array[wp.vec2f],
    turn_out: wp.array[wp.float32],
    knot_out: wp.array[wp.float32],
    bearing_out: wp.array[wp.float32],
):
    i = wp.tid()
    cross_out[i] = g.cross(a_in[i], b_in[i])
    left_out[i] = g.left_of(a_in[i])
    rotate_out[i] = g.rotate(a_in[i], b_in[i])
    wrap_out[i] = g.wrap_angle(angle_in[i])
    cos_sin_out[i] = g.cos_sin(angle_in[i])
    turn_out[i] = g.turn_angle(a_in[i], b_in[i])
    knot_out[i] = g.chord_knot(a_in[i], b_in[i])
    bearing_out[i] = g.angle_of(a_in[i])


@wp.kernel
def curve_kernel(
    # In:
    p0_in: wp.array[wp.vec2f],
    p1_in: wp.array[wp.vec2f],
    p2_in: wp.array[wp.vec2f],
    p3_in: wp.array[wp.vec2f],
    t_in: wp.array[wp.float32],
    # Out:
    bezier_out: wp.array[wp.vec2f],
    uniform_out: wp.array[wp.vec2f],
    centripetal_out: wp.array[wp.vec2f],
    hermite_out: wp.array[wp.vec2f],
    tangents_out: wp.array[wp.vec4f],
):
    i = wp.tid()
    p0 = p0_in[i]
    p1 = p1_in[i]
    p2 = p2_in[i]
    p3 = p3_in[i]
    bezier_out[i] = g.cubic_bezier(p0, p1, p2, p3, t_in[i])
    uniform_out[i] = g.catmull_rom(p0, p1, p2, p3, 1.0, 1.0, 1.0, t_in[i])
    centripetal_out[i] = g.catmull_rom(
        p0,
        p1,
        p2,
        p3,
        g.chord_knot(p0, p1),
        g.chord_knot(p1, p2),
        g.chord_knot(p2, p3),
        t_in[i],
    )
    tangents = g.catmull_rom_tangents(p0, p1, p2, p3)
    tangents_out[i] = tangents
    hermite_out[i] = g.hermite(p1, p2, tangents, t_in[i])


@wp.kernel
def segment_kernel(
    # In:
    p_in: wp.array[wp.vec2f],
    u_in: wp.array[wp.vec2f],
    q_in: wp.array[wp.vec2f],
    v_in: wp.array[wp.vec2f],
    tolerance: float,
    # Out:
    meet_out: wp.array[wp.bool],
    point_out: wp.array[wp.float32],
    segment_out: wp.array[wp.float32],
):
    i = wp.tid()
    meet_out[i] = g.segments_meet(p_in[i], u_in[i], q_in[i], v_in[i], tolerance)
    point_out[i] = g.point_segment_distance_squared(p_in[i], q_in[i], v_in[i])
    segment_out[i] = g.segment_distance_squared(p_in[i], u_in[i], q_in[i], v_in[i])


def call(kernel, inputs, dtypes, device):
    """Run a kernel on NumPy inputs; vectors are arrays [n, 2]."""
    size = max(len(a) for a in inputs if isinstance(a, np.ndarray))
    given = [
        wp.array(a, dtype=wp.vec2f if a.ndim == 2 else wp.float32, device=device)
        if isinstance(a, np.ndarray)
        else a
        for a in inputs
    ]
    outputs = [wp.zeros(size, dtype=dtype, device=device) for dtype in dtypes]
    wp.launch(kernel, dim=size, inputs=given, outputs=outputs, device=device)
    return [array.numpy() for array in outputs]


def points(seed, count=M):
    """Random float32 points."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (count, 2)).astype(np.float32)


def cross64(a, b):
    """Cross product in float64."""
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def vectors(a, b, angle, device):
    """Outputs of vector_kernel by name."""
    f, v = wp.float32, wp.vec2f
    names = ("cross", "left", "rotate", "wrap", "cos_sin", "turn", "knot", "bearing")
    found = call(vector_kernel, [a, b, angle], (f, v, v, f, v, f, f, f), device)
    return dict(zip(names, found, strict=True))


def test_vectors(device):
    a, b = points(0), points(1)
    found = vectors(a, b, np.zeros(M, np.float32), device)
    a, b = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(found["cross"], cross64(a, b), atol=3e-7)
    assert (found["left"] == np.c_[-a[:, 1], a[:, 0]]).all()
    product = (a[:, 0] + 1j * a[:, 1]) * (b[:, 0] + 1j * b[:, 1])
    np.testing.assert_allclose(found["rotate"], np.c_[product.real, product.imag], atol=3e-7)
    turn = np.angle((b[:, 0] + 1j * b[:, 1]) / (a[:, 0] + 1j * a[:, 1]))
    # Near a half turn the sign is a matter of rounding.
    wrapped = (found["turn"] - turn + np.pi) % (2 * np.pi) - np.pi
    assert np.abs(wrapped).max() < 1e-4
    assert np.median(np.abs(wrapped)) < 1e-7
    np.testing.assert_allclose(
        found["knot"], np.sqrt(np.linalg.norm(b - a, axis=1)), rtol=1e-6, atol=1e-6
    )


def test_degenerate_vectors_are_finite(device):
    a = np.array([[0, 0], [1, 0], [0, 0], [1, 0], [1, 0], [1e-30, 0]], np.float32)
    b = np.array([[0, 0], [0, 0], [1, 0], [1, 0], [-1, 0], [1e-30, 0]], np.float32)
    found = vectors(a, b, np.zeros(len(a), np.float32), device)
    for value in found.values():
        assert np.isfinite(value).all()
    assert found["turn"][:4].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert abs(found["turn"][4]) == pytest.approx(np.pi)
    assert (found["knot"] > 0.0).all()
    assert found["bearing"].tolist() == [0.0] * len(a)


def test_bearings(device):
    bearing = np.r_[np.linspace(-np.pi, np.pi, 9), np.random.default_rng(4).uniform(-3, 3, 4000)]
    size = np.r_[np.ones(9), 10.0 ** np.random.default_rng(5).uniform(-12, 12, 4000)]
    a = (size[:, None] * np.c_[np.cos(bearing), np.sin(bearing)]).astype(np.float32)
    found = vectors(a, points(1, len(a)), np.zeros(len(a), np.float32), device)["bearing"]
    wanted = np.arctan2(a[:, 1].astype(np.float64), a[:, 0].astype(np.float64))
    np.testing.assert_allclose(found, wanted, atol=3e-7)


def test_angles(device):
    k = np.arange(-800, 801)
    exact = np.concatenate([k * np.pi / 4, k * np.pi / 4 + 1e-6])
    angle = np.concatenate([np.linspace(-700.0, 700.0, 30001), exact]).astype(np.float32)
    found = vectors(points(0, len(angle)), points(1, len(angle)), angle, device)
    wide = angle.astype(np.float64)
    wanted = np.c_[np.cos(wide), np.sin(wide)]
    # The reduction is exact up to 128 quarter turns; beyond, it errs by half an ulp of the angle.
    assert np.abs(found["cos_sin"] - wanted)[np.abs(wide) < 200.0].max() < 3e-7
    assert np.abs(found["cos_sin"] - wanted).max() < 4e-5
    norm = np.linalg.norm(found["cos_sin"].astype(np.float64), axis=1)
    assert np.abs(norm - 1.0).max() < 3e-7
    assert np.abs(found["wrap"]).max() <= np.pi + 5e-5
    same = np.exp(1j * found["wrap"].astype(np.float64)) - np.exp(1j * wide)
    assert np.abs(same).max() < 1e-4


def test_quarter_turns_are_nearly_exact(device):
    angle = (np.arange(-8, 9) * np.pi / 2).astype(np.float32)
    found = vectors(points(0, 17), points(1, 17), angle, device)["cos_sin"]
    exact = np.c_[np.cos(np.arange(-8, 9) * np.pi / 2), np.sin(np.arange(-8, 9) * np.pi / 2)]
    assert np.abs(found - exact).max() < 1.5e-6


def catmull_rom64(p0, p1, p2, p3, t, power):
    """Barry and Goldman's pyramid, the definition, in float64."""
    t0 = np.zeros(len(p0))
    t1 = t0 + np.linalg.norm(p1 - p0, axis=1) ** power
    t2 = t1 + np.linalg.norm(p2 - p1, axis=1) ** power
    t3 = t2 + np.linalg.norm(p3 - p2, axis=1) ** power
    x = t1 + t * (t2 - t1)

    def blend(p, q, a, b):
        return ((b - x) / (b - a))[:, None] * p + ((x - a) / (b - a))[:, None] * q

    a1, a2, a3 = blend(p0, p1, t0, t1), blend(p1, p2, t1, t2), blend(p2, p3, t2, t3)
    return blend(blend(a1, a2, t0, t2), blend(a2, a3, t1, t3), t1, t2)


def splines(given, t, device):
    """Outputs of curve_kernel by name."""
    names = ("bezier", "uniform", "centripetal", "hermite", "tangents")
    found = call(curve_kernel, [*given, t], (wp.vec2f,) * 4 + (wp.vec4f,), device)
    return dict(zip(names, found, strict=True))


def test_splines(device):
    given = [points(seed) for seed in range(4)]
    t = np.linspace(0.0, 1.0, M).astype(np.float32)
    found = splines(given, t, device)
    p0, p1, p2, p3 = (p.astype(np.float64) for p in given)
    wide = t.astype(np.float64)
    s, w = 1.0 - wide[:, None], wide[:, None]
    bezier = s**3 * p0 + 3 * s**2 * w * p1 + 3 * s * w**2 * p2 + w**3 * p3
    np.testing.assert_allclose(found["bezier"], bezier, atol=1e-6)
    np.testing.assert_allclose(
        found["uniform"], catmull_rom64(p0, p1, p2, p3, wide, 0.0), atol=2e-6
    )
    wanted = catmull_rom64(p0, p1, p2, p3, wide, 0.5)
    np.testing.assert_allclose(found["centripetal"], wanted, atol=5e-6)
    np.testing.assert_allclose(found["hermite"], wanted, atol=5e-6)
    # The end derivatives are those of the curve.
    step = 1e-6
    for columns, at in ((slice(0, 2), 0.0), (slice(2, 4), 1.0)):
        ends = [catmull_rom64(p0, p1, p2, p3, np.full(M, at + d), 0.5) for d in (-step, step)]
        np.testing.assert_allclose(
            found["tangents"][:, columns], (ends[1] - ends[0]) / (2 * step), atol=1e-4
        )


@pytest.mark.parametrize("at", [0.0, 1.0])
def test_splines_pass_through_their_ends(at, device):
    given = [points(seed) for seed in range(4)]
    found = splines(given, np.full(M, at, np.float32), device)
    end = given[1] if at == 0.0 else given[2]
    assert (found["uniform"] == end).all()
    assert (found["centripetal"] == end).all()
    np.testing.assert_allclose(found["hermite"], end, atol=1e-7)
    assert (found["bezier"] == (given[0] if at == 0.0 else given[3])).all()


def test_splines_of_coinciding_points_are_finite(device):
    a, b, c = [0.0, 0.0], [1.0, 0.0], [1.0, 1.0]
    cases = [(a, a, a, a), (a, a, b, c), (a, b, b, c), (a, b, c, c), (a, a, b, b), (a, b, a, b)]
    given = [np.array(column, np.float32) for column in zip(*cases, strict=True)]
    for at in (0.0, 0.3, 1.0):
        found = splines(given, np.full(len(cases), at, np.float32), device)
        for key in ("bezier", "centripetal", "hermite", "tangents"):
            assert np.isfinite(found[key]).all()
            assert np.abs(found[key]).max() < 4.0
    assert (found["hermite"][2] == np.array(b)).all()


def segments(p, u, q, v, device, tolerance=0.0):
    """Outputs of segment_kernel: meet, squared point distance, squared segment distance."""
    kinds = (wp.bool, wp.float32, wp.float32)
    return call(segment_kernel, [p, u, q, v, tolerance], kinds, device)


def test_random_segments(device):
    p, u, q, v = (points(seed, 2000) for seed in range(4))
    meet, point, segment = segments(p, u, q, v, device)
    for i in range(len(p)):
        a = LineString([p[i], p[i].astype(np.float64) + u[i]])
        b = LineString([q[i], q[i].astype(np.float64) + v[i]])
        distance = a.distance(b)
        if meet[i] != a.intersects(b):
            assert distance < 1e-6
        assert np.sqrt(segment[i]) == pytest.approx(distance, abs=2e-6)
        assert np.sqrt(point[i]) == pytest.approx(b.distance(LineString([p[i], p[i]])), abs=2e-6)
    assert 0.03 < meet.mean() < 0.97


# (p, p + u, q, q + v, meet, distance)
NAMED = {
    "crossing": ((0, 0), (2, 2), (0, 2), (2, 0), True, 0.0),
    "disjoint": ((0, 0), (1, 0), (0, 1), (1, 1), False, 1.0),
    "touching end to middle": ((0, 0), (2, 0), (1, 0), (1, 1), True, 0.0),
    "sharing an end": ((0, 0), (1, 0), (1, 0), (2, 5), True, 0.0),
    "just short of touching": ((0, 0), (2, 0), (1, 0.25), (1, 1), False, 0.25),
    "line crosses, segment does not": ((0, 0), (1, 0), (3, -1), (3, 1), False, 2.0),
    "collinear, apart": ((0, 0), (1, 0), (2, 0), (3, 0), False, 1.0),
    "collinear, apart, opposite": ((0, 0), (1, 0), (3, 0), (2, 0), False, 1.0),
    "collinear, overlapping": ((0, 0), (2, 0), (1, 0), (3, 0), True, 0.0),
    "collinear, touching": ((0, 0), (1, 0), (1, 0), (2, 0), True, 0.0),
    "collinear, one in the other": ((0, 0), (4, 0), (1, 0), (2, 0), True, 0.0),
    "equal": ((0, 0), (1, 1), (0, 0), (1, 1), True, 0.0),
    "equal, opposite": ((0, 0), (1, 1), (1, 1), (0, 0), True, 0.0),
    "parallel": ((0, 0), (2, 0), (1, 1), (3, 1), False, 1.0),
    "point on a segment": ((1, 0), (1, 0), (0, 0), (2, 0), True, 0.0),
    "point off a segment": ((1, 1), (1, 1), (0, 0), (2, 0), False, 1.0),
    "point beyond a segment": ((3, 0), (3, 0), (0, 0), (2, 0), False, 1.0),
    "two equal points": ((1, 1), (1, 1), (1, 1), (1, 1), True, 0.0),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_segments(name, device):
    *ends, meet, distance = NAMED[name]
    a, b, c, d = (np.array([end], np.float32) for end in ends)
    for p, u, q, v in (
        (a, b - a, c, d - c),
        (b, a - b, c, d - c),
        (a, b - a, d, c - d),
        (c, d - c, a, b - a),
    ):
        found, _, squared = segments(p, u, q, v, device)
        assert bool(found[0]) == meet
        assert np.sqrt(squared[0]) == pytest.approx(distance, abs=1e-6)


def test_two_points_apart_do_not_meet(device):
    p, q, none = (np.array([end], np.float32) for end in ((0, 0), (3, 4), (0, 0)))
    assert not segments(p, none, q, none, device)[0][0]


def test_tolerance_counts_near_misses_as_hits(device):
    p, u = np.array([[0, 0]], np.float32), np.array([[2, 0]], np.float32)
    q, v = np.array([[1, 0.01]], np.float32), np.array([[0, 1]], np.float32)
    assert not segments(p, u, q, v, device)[0][0]
    assert not segments(p, u, q, v, device, tolerance=0.019)[0][0]
    assert segments(p, u, q, v, device, tolerance=0.021)[0][0]
