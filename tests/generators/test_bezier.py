from __future__ import annotations

import math

import numpy as np
import pytest
from curve_job import SEEDS, area, assert_lanes_agree, build_job, curves_of, length, run_job
from shapely.geometry import LinearRing

from track_gen.generators.bezier import SPEC, Bezier
from track_gen.rng import seeds_from_int

WILD = [
    {"rad": 0.0},
    {"handle_clamp": 0.0},
    {"rad": 1.0, "handle_clamp": 1.0},
    {"edgy": 100.0},
    {"edgy": -100.0, "rad": 1.0, "handle_clamp": 1.0},
    {"min_corner_distance": 0.0},
    {"min_corners": 3, "max_corners": 3},
    {"min_corners": 64, "max_corners": 64},
]


def raw(job, rows=slice(None)):
    return job.curve.numpy()[rows].tobytes()


def test_same_seed_same_curve_in_any_row_and_batch():
    one = run_job(SPEC, Bezier())
    assert raw(run_job(SPEC, Bezier())) == raw(one)
    order = np.random.default_rng(0).permutation(len(SEEDS))
    assert raw(run_job(SPEC, Bezier(), SEEDS[order])) == raw(one, order)
    assert raw(run_job(SPEC, Bezier(), SEEDS[5:6])) == raw(one, slice(5, 6))


def test_seed_episode_and_attempt_all_matter():
    curves = {
        raw(run_job(SPEC, Bezier(), [seed], episode=episode, attempt=attempt))
        for seed in (0, 1, -1)
        for episode in (0, 1)
        for attempt in (0, 1)
    }
    assert len(curves) == 12


def test_rows_not_pending_stay():
    job = build_job(SPEC, Bezier())
    pending = np.zeros(len(SEEDS), bool)
    pending[3] = True
    job.pending.assign(pending)
    for launch in SPEC.launches(Bezier(), job):
        launch.launch()
    assert np.isnan(job.curve.numpy()[~pending]).all()
    assert (job.curve_count.numpy() > 0).tolist() == pending.tolist()


@pytest.mark.parametrize("options", [{}, *WILD], ids=str)
def test_curves_are_finite_simple_and_counter_clockwise(options):
    job = run_job(SPEC, Bezier(**options), np.arange(-64, 64, dtype=np.int32))
    for curve in curves_of(job):
        assert np.isfinite(curve).all()
        assert area(curve) > 0.0
        assert LinearRing(curve).is_simple


def test_zero_handles_give_the_polygon():
    job = run_job(SPEC, Bezier(rad=0.0))
    for curve, corners in zip(curves_of(job), job.scratch["corners"].numpy(), strict=True):
        polygon = corners[: len(curve) // 64].astype(np.float64)
        assert length(curve) == pytest.approx(length(polygon), rel=1e-5)


def test_curve_passes_through_its_corners_smoothly():
    """No handle was shrunk to nothing: the tangent does not jump at a corner."""
    job = run_job(SPEC, Bezier())
    turns = []
    for curve, corners in zip(curves_of(job), job.scratch["corners"].numpy(), strict=True):
        np.testing.assert_array_equal(curve[::64], corners[: len(curve) // 64])
        edge = np.roll(curve, -1, axis=0) - curve
        before = np.roll(edge, 1, axis=0)[::64]
        after = edge[::64]
        cross = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
        turns.extend(np.abs(np.arctan2(cross, np.sum(before * after, axis=1))))
    assert np.median(turns) < 0.15
    assert np.mean(np.array(turns) > 1.5) < 0.02


def test_knobs_are_read_per_env():
    low = run_job(SPEC, Bezier(rad=0.1))
    high = run_job(SPEC, Bezier(rad=0.5, edgy=2.0))
    half = len(SEEDS) // 2
    mixed = run_job(
        SPEC,
        Bezier(),
        knobs={"rad": [0.1] * half + [0.5] * half, "edgy": [0.0] * half + [2.0] * half},
    )
    assert raw(mixed, slice(0, half)) == raw(low, slice(0, half))
    assert raw(mixed, slice(half, None)) == raw(high, slice(half, None))


def check_statistics(count):
    job = run_job(SPEC, Bezier(), seeds_from_int(11, count))
    curves = curves_of(job)
    lengths = np.array([length(curve) for curve in curves])
    sides = [np.ptp(curve, axis=0).max() for curve in curves]
    assert job.scratch["fallback"].numpy().mean() <= 0.005
    assert np.mean(sides) == pytest.approx(1.46, abs=0.05)
    assert lengths.mean() == pytest.approx(5.3, abs=0.25)
    assert np.quantile(lengths, 0.999) < SPEC.typical_length(Bezier()) < 10.0
    return curves


def test_statistics():
    check_statistics(1024)


@pytest.mark.slow
def test_statistics_and_simplicity_of_4096_seeds():
    assert all(LinearRing(curve).is_simple for curve in check_statistics(4096))


def test_lanes_agree():
    assert_lanes_agree("bezier")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"rad": 1.01}, ValueError, r"Bezier.rad must be in \[0, 1\], got 1.01"),
        ({"rad": -0.1}, ValueError, "Bezier.rad must be in"),
        ({"rad": (0.5, 0.4)}, ValueError, "Bezier.rad must be ordered"),
        ({"edgy": math.inf}, ValueError, "Bezier.edgy must be in"),
        ({"handle_clamp": math.nan}, ValueError, "Bezier.handle_clamp must be in"),
        ({"handle_clamp": "0.4"}, TypeError, "Bezier.handle_clamp must be a number"),
    ],
)
def test_bad_settings_are_errors(options, error, text):
    with pytest.raises(error, match=text):
        Bezier(**options)
