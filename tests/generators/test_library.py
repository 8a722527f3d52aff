from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
from curve_job import SEEDS, area, assert_lanes_agree, curves_of, length, run_job

from track_gen.generators.library import SPEC, Library

T = np.linspace(0.0, 2.0 * np.pi, 49)
CIRCLE = np.c_[np.cos(T), np.sin(T)]
SQUARE = [[0, 0], [0, 2], [2, 2], [2, 2], [2, 0], [0, 0]]
EIGHT = np.c_[np.sin(T[:-1]), np.sin(2 * T[:-1])]


def test_curves_are_cleaned():
    library = Library(curves=[CIRCLE[::-1], SQUARE, EIGHT])
    assert [len(c) for c in library.curves] == [48, 4, 48]
    np.testing.assert_allclose(library.curves[0], np.roll(CIRCLE[1:], 1, axis=0), atol=1e-12)
    # The square is clockwise as given: turned, starting where it started.
    assert library.curves[1].tolist() == [[0, 0], [2, 0], [2, 2], [0, 2]]
    assert all(area(c) > 0.0 for c in library.curves[:2])


def test_the_caller_and_the_library_share_no_memory():
    mine = CIRCLE.copy()
    library = Library(curves=[mine])
    before = library.curves[0].copy()
    mine[:] = 7.0
    assert (library.curves[0] == before).all()
    for held in (library.curves[0], library.points[0]):
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 0.0


@pytest.mark.parametrize("normalize", [True, False])
def test_points_on_the_device(normalize):
    library = Library(curves=[CIRCLE * 500.0 + [5e5, 4e6], SQUARE], normalize=normalize)
    assert SPEC.fit_of(library) == ("box" if normalize else "natural")
    job = run_job(SPEC, library)
    choice = job.scratch["choice"].numpy()
    assert set(choice) == {0, 1}
    side = (1.44, 1.44) if normalize else (1000.0, 2.0)
    for curve, index in zip(curves_of(job), choice, strict=True):
        assert curve.tolist() == library.points[index].astype(np.float64).tolist()
        np.testing.assert_allclose(curve.max(axis=0), side[index] / 2, rtol=1e-6)
        np.testing.assert_allclose(curve.min(axis=0), -side[index] / 2, rtol=1e-6)


def test_map_coordinates_keep_their_detail():
    library = Library(curves=[CIRCLE * 1e-3 + [5e5, 4e6]])
    radius = np.linalg.norm(library.points[0], axis=1)
    np.testing.assert_allclose(radius, 0.72, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e300])
def test_any_scale_can_be_normalised(scale):
    library = Library(curves=[CIRCLE * scale])
    np.testing.assert_allclose(np.linalg.norm(library.points[0], axis=1), 0.72, rtol=1e-5)


def test_choice_depends_on_seed_and_episode_but_not_on_attempt():
    library = Library(curves=[CIRCLE * r for r in range(1, 8)])
    seeds = np.arange(700)
    choice = run_job(SPEC, library, seeds).scratch["choice"].numpy()
    counts = np.bincount(choice, minlength=7)
    assert counts.min() > 60
    assert counts.max() < 140
    for attempt in (1, 3):
        again = run_job(SPEC, library, seeds, attempt=attempt).scratch["choice"].numpy()
        assert (again == choice).all()
    assert (run_job(SPEC, library, seeds, episode=1).scratch["choice"].numpy() != choice).any()
    order = np.random.default_rng(0).permutation(700)
    assert (run_job(SPEC, library, seeds[order]).scratch["choice"].numpy() == choice[order]).all()


def test_golden_choice():
    """Changes only together with ``seed_version``."""
    library = Library(curves=[CIRCLE * r for r in range(1, 8)])
    choice = run_job(SPEC, library, np.arange(12)).scratch["choice"].numpy()
    assert choice.tolist() == [3, 0, 3, 5, 5, 1, 0, 6, 5, 3, 1, 0]
    assert SPEC.seed_version == 1


def test_fixed_index():
    library = Library(curves=[CIRCLE, SQUARE, EIGHT], index=1)
    job = run_job(SPEC, library)
    assert (job.scratch["choice"].numpy() == 1).all()
    assert (job.curve_count.numpy() == 4).all()
    assert SPEC.typical_length(library) == pytest.approx(4 * 1.44)


def test_figure_eight_passes_through():
    (curve,) = curves_of(run_job(SPEC, Library(curves=[EIGHT], normalize=False), [1]))
    assert len(curve) == 48
    assert abs(area(curve)) < 1e-5


def test_sizes():
    library = Library(curves=[CIRCLE, SQUARE])
    assert SPEC.curve_size(library) == 48
    longest = max(length(p.astype(np.float64)) for p in library.points)
    assert SPEC.typical_length(library) == pytest.approx(longest, rel=1e-6)
    natural = Library(curves=[CIRCLE * 50, SQUARE], normalize=False)
    assert SPEC.typical_length(natural) == pytest.approx(50 * length(CIRCLE), rel=1e-6)


BAD = {
    "two points": ([[0, 0], [1, 1]], "must have at least 3 distinct points, got 2"),
    "two distinct points": (
        [[0, 0], [1, 1], [0, 0], [1, 1]],
        "must have at least 3 distinct points, got 2",
    ),
    "one point": ([[3, 3]] * 5, "must have at least 3 distinct points, got 1"),
    "nothing": (np.zeros((0, 2)), "must have at least 3 distinct points, got 0"),
    "nan": ([[0, 0], [1, math.nan], [1, 1]], "must be finite, got nan"),
    "infinity": ([[0, 0], [1, -math.inf], [1, 1]], "must be finite, got -inf"),
    "3-D points": (np.zeros((5, 3)), r"must have shape \[n, 2\], got \(5, 3\)"),
    "flat": ([0.0, 1.0, 2.0], r"must have shape \[n, 2\], got \(3,\)"),
    "ragged": ([[0, 0], [1], [1, 1]], r"must be numbers of shape \[n, 2\]"),
    "text": ([["a", "b"]] * 3, r"must be numbers of shape \[n, 2\]"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_curves_are_named(kind):
    curve, message = BAD[kind]
    with pytest.raises(ValueError, match=r"Library.curves\[1\] " + message):
        Library(curves=[CIRCLE, curve])
    with pytest.raises(ValueError, match=r"Library.curves\[1\] \('Monza'\) " + message):
        Library(curves=[CIRCLE, curve], names=["Spa", "Monza"])


def test_natural_size_must_fit_float32():
    with pytest.raises(ValueError, match=r"Library.curves\[0\] must fit float32"):
        Library(curves=[CIRCLE * 1e39], normalize=False)


def test_other_errors():
    for curves in (3, "monza", {"monza": CIRCLE}, None):
        with pytest.raises(TypeError, match=r"Library\.curves must be a list"):
            Library(curves=curves)
    with pytest.raises(ValueError, match="at least one curve"):
        Library(curves=[])
    with pytest.raises(TypeError, match="curves"):
        Library()
    with pytest.raises(ValueError, match=r"one name per curve \(1\), got 2"):
        Library(curves=[CIRCLE], names=["a", "b"])
    for names in ("a", [1], 3):
        with pytest.raises(TypeError, match=r"Library\.names"):
            Library(curves=[CIRCLE], names=names)
    for index in (1, -1):
        with pytest.raises(ValueError, match=r"Library.index must be in \[0, 0\]"):
            Library(curves=[CIRCLE], index=index)
    with pytest.raises(TypeError, match=r"Library\.normalize"):
        Library(curves=[CIRCLE], normalize=1)


def test_compares_and_hashes_by_identity():
    one, other = Library(curves=[CIRCLE]), Library(curves=[CIRCLE])
    assert one == one
    assert one != other
    assert len({one, other, one}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.index = 0


def test_copies_hold_the_same_curves():
    library = Library(curves=[CIRCLE, SQUARE], names=["a", "b"])
    for other in (
        dataclasses.replace(library, index=1),
        copy.deepcopy(library),
        pickle.loads(pickle.dumps(library)),
    ):
        for mine, theirs in zip(library.points, other.points, strict=True):
            assert (mine == theirs).all()


def test_lanes_agree():
    assert_lanes_agree("library")
    assert len(SEEDS) == 64
