"""Poses, handedness, heights: recomputed from the positions for every row."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gate_cells import CELLS, FAMILIES, courses, make_gates
from judge_a import Line

from track_gen import Flat, Noise, RandomWalk, Uniform


def axes_of(q):
    """Local axes of unit quaternions (x, y, z, w): forward, left, up."""
    x, y, z, w = q.T.astype(float)
    forward = np.c_[1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]
    left = np.c_[2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)]
    up = np.c_[2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)]
    return forward, left, up


@pytest.mark.parametrize("cell", ["base", "hill", "wide"])
@pytest.mark.parametrize("ordering", ["ccw", "cw", "random"])
@pytest.mark.parametrize("family", FAMILIES)
def test_poses(family, ordering, cell):
    generator = make_gates(16, generator=family, ordering=ordering, **CELLS[cell])
    generator.generate()
    generator.rng.advance()
    gates = generator.generate(np.arange(16) % 3 == 0)
    config = generator.config
    assert gates.valid.numpy().all()
    for course in courses(gates):
        n = int(course["count"])
        assert 8 <= n <= 13
        for name in ("position", "tangent", "normal", "left", "right", "orientation"):
            assert np.isnan(course[name][n:]).all()
        p = course["position"][:n].astype(float)
        low, high = p[:, :2].min(0), p[:, :2].max(0)
        assert np.abs(low + high).max() < 1e-5 * (high - low).max()
        line = Line(p, "arc")
        rise = line.slope if config.align == "tangent" else 0 * line.slope
        forward = np.c_[line.direction, rise] / np.sqrt(1 + rise**2)[:, None]
        normal = np.c_[-line.direction[:, 1], line.direction[:, 0], np.zeros(n)]
        np.testing.assert_allclose(course["tangent"][:n], forward, atol=2e-5)
        np.testing.assert_allclose(course["normal"][:n], normal, atol=2e-5)
        f, left, up = axes_of(course["orientation"][:n])
        np.testing.assert_allclose(np.linalg.norm(course["orientation"][:n], axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(f, course["tangent"][:n], atol=2e-6)
        np.testing.assert_allclose(left, course["normal"][:n], atol=2e-6)
        assert (up[:, 2] > 0.5).all()
        half = config.gate_width / 2
        np.testing.assert_allclose(course["left"][:n], p + half * normal, atol=1e-4)
        np.testing.assert_allclose(course["right"][:n], p - half * normal, atol=1e-4)
        np.testing.assert_allclose(course["half_width"][:n], half)
        height = config.gate_width if config.gate_height is None else config.gate_height
        np.testing.assert_allclose(course["half_height"][:n], height / 2)
        # The next gate lies ahead, the last one behind: flown in the order of the index.
        assert (((np.roll(p, -1, 0) - p) * forward).sum(1) > -0.5 * half).all()
        if ordering != "random":
            x, y = p[:, 0], p[:, 1]
            area = (x * np.roll(y, -1) - y * np.roll(x, -1)).sum()
            assert np.sign(area) == (1 if ordering == "ccw" else -1)


@pytest.mark.parametrize("family", FAMILIES)
def test_random_orders_are_random(family):
    """The order is drawn, not angular, and differs between envs."""
    gates = make_gates(64, generator=family, ordering="random", num_gates=10).generate()
    turning = []
    for course in courses(gates):
        p = course["position"][:10, :2].astype(float)
        e = np.roll(p, -1, 0) - p
        b = np.roll(e, 1, 0)
        turn = np.arctan2(b[:, 0] * e[:, 1] - b[:, 1] * e[:, 0], (b * e).sum(1)).sum()
        turning.append(round(turn / (2 * math.pi)))
    counts = {k: turning.count(k) for k in set(turning)}
    assert len(counts) >= 3
    assert 8 < sum(v for k, v in counts.items() if k < 0) + counts.get(0, 0) / 2 < 56


PROFILES = {
    "uniform": Uniform(low=1.5, high=6.0),
    "walk": RandomWalk(z=3.0, span=3.0),
    "noise": Noise(z=3.0, amplitude=2.0),
    "default uniform": Uniform(),
    "default walk": RandomWalk(),
    "default noise": Noise(),
}
RANGES = {"uniform": (1.5, 6.0), "walk": (1.5, 4.5), "noise": (1.0, 5.0)}


@pytest.mark.parametrize("align", ["yaw", "tangent"])
@pytest.mark.parametrize("profile", PROFILES)
def test_heights_keep_their_limits_and_leave_the_plan_alone(profile, align):
    """The grade holds on the line between the gates too, densely; nothing is flat by mistake."""
    settings = {"max_grade": 0.15, "align": align}
    gates = make_gates(64, elevation=PROFILES[profile], **settings).generate()
    assert gates.valid.numpy().all()
    flat = make_gates(64, **settings).generate().numpy()
    arrays = gates.numpy()
    if align == "yaw":
        assert arrays["position"][..., :2].tobytes() == flat["position"][..., :2].tobytes()
    ranges = []
    for course in courses(gates):
        n = int(course["count"])
        line = Line(course["position"][:n].astype(float), "arc")
        points, first, _ = line.at(np.linspace(0, 1, 201))
        slope = first[..., 2] / np.linalg.norm(first[..., :2], axis=2)
        assert np.abs(slope).max() <= 0.15 * 1.0005
        ranges.append(np.ptp(points[..., 2]))
        if profile in RANGES:
            low, high = RANGES[profile]
            assert points[..., 2].min() >= low - 1e-4 and points[..., 2].max() <= high + 1e-4
    assert min(ranges) > 0.05
    assert np.median(ranges) > 0.6


def test_flat_at_a_height():
    gates = make_gates(4, elevation=Flat(z=2.5)).generate()
    for course in courses(gates):
        assert (course["position"][: course["count"], 2] == 2.5).all()


def test_tangent_gates_dive_and_climb():
    """Square to the line in space: no incidence, and gates that really lean."""
    gates = make_gates(32, **CELLS["hill"]).generate()
    rises = []
    for course in courses(gates):
        n = int(course["count"])
        line = Line(course["position"][:n].astype(float), "arc")
        along = np.c_[line.direction, line.slope]
        along /= np.linalg.norm(along, axis=1)[:, None]
        assert ((course["tangent"][:n] * along).sum(1) > 1 - 1e-6).all()
        rises += course["tangent"][:n, 2].tolist()
    assert max(rises) > 0.2 and min(rises) < -0.2


@pytest.mark.parametrize("family", FAMILIES)
def test_scale_invariance(family):
    base = make_gates(16, generator=family).generate().numpy()
    for factor in (1e-3, 1e3):
        gates = make_gates(
            16, generator=family, gate_width=1.2 * factor, scale=17.0 * factor
        ).generate()
        arrays = gates.numpy()
        assert arrays["valid"].all()
        assert (arrays["count"] == base["count"]).all()
        moved = np.nanmax(np.abs(arrays["position"] / factor - base["position"]), axis=(1, 2))
        assert np.median(moved) < 1e-3


def test_width_range_is_drawn_per_env():
    gates = make_gates(64, gate_width=(0.6, 1.8)).generate()
    width = 2 * gates.half_width.numpy()[:, 0]
    assert width.min() >= 0.6 and width.max() <= np.float32(1.8) and width.std() > 0.2
    assert gates.valid.numpy().all()


def test_family_counts_are_the_default():
    for family, low, high in (("bezier", 9, 13), ("hull", 18, 26), ("voronoi", 18, 18)):
        generator = make_gates(64, generator=family, num_gates=None)
        counts = generator.generate().count.numpy()
        assert counts.min() >= low and counts.max() <= high
        assert low == high or len(set(counts)) == high - low + 1
