"""The flight line as a track: spacing, fields, and the runtime tools on it."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from gate_cells import CELLS, FAMILIES, courses, make_gates
from judge_b import fly

from track_gen import CourseLine, GateSequence, Track
from track_gen.runtime import Localizer, ProgressTracker


@pytest.mark.parametrize("line", ["arc", "centripetal"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_line_is_even_and_passes_the_gates(family, line):
    generator = make_gates(
        8, generator=family, line=line, ordering="cw", **{**CELLS["hill"], "max_turn": 120.0}
    )
    gates = generator.generate()
    course = CourseLine.through(gates, line=line, num_points=512)
    assert isinstance(course, Track) and course.valid.numpy().all()
    arrays = course.numpy()
    assert (arrays["count"] == 512).all() and (arrays["winding"] == -1).all()
    for env, gate in enumerate(courses(gates)):
        n = int(gate["count"])
        center = arrays["center"][env].astype(float)
        edges = np.linalg.norm(np.roll(center, -1, 0) - center, axis=1)
        length = arrays["length"][env]
        assert edges.max() / edges.min() < 1.02
        assert edges.sum() == pytest.approx(length, rel=1e-3)
        np.testing.assert_allclose(arrays["arclen"][env], np.arange(512) * length / 512, rtol=1e-5)
        lap = fly(gate["position"][:n].astype(float), line)
        far = np.linalg.norm(center[:, None] - lap[None], axis=2).min(1)
        assert far.max() < 0.5 * np.linalg.norm(np.diff(lap, axis=0), axis=1).max() + 1e-4
        at = arrays["gate_arclen"][env]
        assert at[0] == 0 and (np.diff(at[:n]) > 0).all() and np.isnan(at[n:]).all()
        index = at[:n] / length * 512
        low = np.floor(index).astype(int)
        w = (index - low)[:, None]
        points = center[low % 512] * (1 - w) + center[(low + 1) % 512] * w
        assert np.linalg.norm(points - gate["position"][:n], axis=1).max() < 0.02
        tangent = np.roll(center, -1, 0) - np.roll(center, 1, 0)
        tangent /= np.linalg.norm(tangent, axis=1)[:, None]
        assert ((arrays["tangent"][env] * tangent).sum(1) > 0.99).all()
        np.testing.assert_allclose(np.linalg.norm(arrays["up"][env], axis=1), 1, atol=1e-5)
        assert np.abs((arrays["up"][env] * arrays["tangent"][env]).sum(1)).max() < 1e-5
        half = generator.config.gate_width / 2
        left = center + half * arrays["normal"][env]
        np.testing.assert_allclose(arrays["outer"][env], left, atol=1e-4)  # clockwise
        edge = np.hypot(*(np.roll(center, -1, 0) - center)[:, :2].T)
        turn = (arrays["curvature"][env] * edge).sum()
        assert turn == pytest.approx(-2 * np.pi, abs=0.2)


def test_update_follows_the_gates_and_respects_the_mask():
    generator = make_gates(6)
    gates = generator.generate()
    course = CourseLine.through(gates)
    kept = course.clone()
    generator.rng.advance()
    generator.generate()
    mask = np.array([True, False, True, False, False, False])
    course.update(mask)
    moved = (course.center.numpy() != kept.center.numpy()).any((1, 2))
    assert (moved == mask).all()
    fresh = CourseLine.through(gates).numpy()
    course.update()
    for name, array in course.numpy().items():
        assert array.tobytes() == fresh[name].tobytes(), name
    with pytest.raises(TypeError, match="copy"):
        kept.update()


def test_no_course_no_line():
    gates = GateSequence.allocate(2, 8, "cpu")
    course = CourseLine.through(gates)
    assert not course.valid.numpy().any()
    assert (course.count.numpy() == 0).all()
    assert np.isnan(course.center.numpy()).all()


def test_errors():
    with pytest.raises(TypeError, match="GateSequence"):
        CourseLine.through("gates")
    gates = GateSequence.allocate(2, 8, "cpu")
    with pytest.raises(ValueError, match="'arc'"):
        CourseLine.through(gates, line="arcs")
    with pytest.raises(ValueError, match="num_points"):
        CourseLine.through(gates, num_points=4)


def test_runtime_tools_work_on_a_course():
    """Localised where it is, a lap of progress is a lap."""
    gates = make_gates(8, ordering="ccw").generate()
    course = CourseLine.through(gates, num_points=512)
    center, length = course.center.numpy(), course.length.numpy()
    localizer = Localizer(course)
    tracker = ProgressTracker(course)
    for k in [*range(0, 512, 4), 0, 4]:
        position = wp.array(center[:, k], dtype=wp.vec3f, device="cpu")
        localizer.update(position)
        tracker.update(position)
        wrapped = np.abs(localizer.s.numpy()[:, 0] / length - k / 512)
        assert np.minimum(wrapped, 1 - wrapped).max() < 1e-3
    np.testing.assert_allclose(tracker.total.numpy()[:, 0], length * (1 + 4 / 512), rtol=1e-2)
    assert (tracker.laps.numpy() == 1).all()


def test_progress_counts_three_half_openings_beside_the_line():
    gates = make_gates(32, ordering="ccw", max_turn=90.0).generate()
    course = CourseLine.through(gates, num_points=512)
    center, normal = course.center.numpy(), course.normal.numpy()
    length, half = course.length.numpy(), course.half_width.numpy()
    tracker, everywhere = ProgressTracker(course), ProgressTracker(course, max_offset=np.inf)
    for k in [*range(0, 512, 2), 0, 2]:
        position = wp.array(
            center[:, k] - 3.0 * half[:, None] * normal[:, k], dtype=wp.vec3f, device="cpu"
        )
        tracker.update(position)
        everywhere.update(position)
        assert not tracker.beside.numpy().any()
    assert np.median(tracker.total.numpy()[:, 0] / length) == pytest.approx(1.0, abs=0.02)
    for name in ("total", "laps"):
        assert (getattr(tracker, name).numpy() == getattr(everywhere, name).numpy()).all()

    # Circling in the middle is no lap.
    tracker.reset()
    middle = center.mean(1)
    for k in range(200):
        angle = 2.0 * np.pi * k / 50.0
        tracker.update(
            wp.array(
                middle + 2.0 * half[:, None] * np.array([np.cos(angle), np.sin(angle), 0.0]),
                dtype=wp.vec3f,
                device="cpu",
            )
        )
    assert (tracker.laps.numpy() == 0).all()
    assert np.median(tracker.total.numpy()) == 0.0
