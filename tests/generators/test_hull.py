from __future__ import annotations

import math

import numpy as np
import pytest
from curve_job import SEEDS, area, assert_lanes_agree, curves_of, length, run_job
from shapely.geometry import LinearRing

from track_gen.generators.hull import SPEC, Hull
from track_gen.rng import seeds_from_int

WILD = [
    {"displacement": 0.0},
    {"displacement": 0.9},
    {"min_corner_distance": 0.0},
    {"min_corners": 3, "max_corners": 3},
    {"min_corners": 64, "max_corners": 64},
]


def raw(job, rows=slice(None)):
    return job.curve.numpy()[rows].tobytes()


def test_same_seed_same_curve_in_any_row_and_batch():
    one = run_job(SPEC, Hull())
    assert raw(run_job(SPEC, Hull())) == raw(one)
    order = np.random.default_rng(0).permutation(len(SEEDS))
    assert raw(run_job(SPEC, Hull(), SEEDS[order])) == raw(one, order)


def test_seed_episode_and_attempt_all_matter():
    curves = {
        raw(run_job(SPEC, Hull(), [seed], episode=episode, attempt=attempt))
        for seed in (0, 1, -1)
        for episode in (0, 1)
        for attempt in (0, 1)
    }
    assert len(curves) == 12


@pytest.mark.parametrize("options", [{}, *WILD], ids=str)
def test_curves_are_finite_simple_and_counter_clockwise(options):
    job = run_job(SPEC, Hull(**options), np.arange(-64, 64, dtype=np.int32))
    for curve in curves_of(job):
        assert np.isfinite(curve).all()
        assert area(curve) > 0.0
        assert LinearRing(curve).is_simple


def test_midpoints_move_on_their_ray_within_the_displacement():
    job = run_job(SPEC, Hull(displacement=0.4))
    shifts = []
    for curve, vertices in zip(curves_of(job), job.scratch["vertices"].numpy(), strict=True):
        vertices = vertices[: len(curve) // 32].astype(np.float64)
        np.testing.assert_allclose(curve[::32], vertices, atol=1e-6)
        corners = vertices[::2]
        away = 0.5 * (corners + np.roll(corners, -1, axis=0)) - corners.mean(axis=0)
        shift = vertices[1::2] - corners.mean(axis=0) - away
        cross = shift[:, 0] * away[:, 1] - shift[:, 1] * away[:, 0]
        assert np.abs(cross).max() < 1e-6
        shifts.extend(np.sum(shift * away, axis=1) / np.sum(away * away, axis=1))
    assert np.abs(shifts).max() <= 0.4 + 1e-4
    assert np.abs(shifts).max() > 0.38
    assert abs(np.mean(shifts)) < 0.05


def test_knobs_are_read_per_env():
    half = len(SEEDS) // 2
    mixed = run_job(SPEC, Hull(), knobs={"displacement": [0.0] * half + [0.5] * half})
    flat = run_job(SPEC, Hull(displacement=0.0))
    wide = run_job(SPEC, Hull(displacement=0.5))
    assert raw(mixed, slice(0, half)) == raw(flat, slice(0, half))
    assert raw(mixed, slice(half, None)) == raw(wide, slice(half, None))


def check_statistics(count):
    job = run_job(SPEC, Hull(), seeds_from_int(11, count))
    curves = curves_of(job)
    lengths = np.array([length(curve) for curve in curves])
    sides = [np.ptp(curve, axis=0).max() for curve in curves]
    assert job.scratch["fallback"].numpy().mean() <= 0.005
    assert np.mean(sides) == pytest.approx(1.46, abs=0.05)
    assert lengths.mean() == pytest.approx(5.3, abs=0.25)
    assert np.quantile(lengths, 0.999) < SPEC.typical_length(Hull()) < 10.0
    return curves


def test_statistics():
    check_statistics(1024)


@pytest.mark.slow
def test_statistics_and_simplicity_of_4096_seeds():
    assert all(LinearRing(curve).is_simple for curve in check_statistics(4096))


def test_lanes_agree():
    assert_lanes_agree("hull")


@pytest.mark.parametrize("value", [-0.1, 0.91, math.nan, math.inf, (0.3, 0.2)])
def test_bad_displacement_is_an_error(value):
    with pytest.raises(ValueError, match=r"Hull\.displacement"):
        Hull(displacement=value)
