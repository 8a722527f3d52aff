from __future__ import annotations

import math

import numpy as np
import pytest
from curve_job import (
    SEEDS,
    area,
    assert_lanes_agree,
    boxed,
    build_job,
    curves_of,
    length,
    run_job,
)
from shapely.geometry import LinearRing

from track_gen.generators.polar import SPEC, Polar

WILD = {"radial_jitter": 0.85, "angular_jitter": 0.45}


def raw(job, rows=slice(None)):
    return job.curve.numpy()[rows].tobytes()


def test_same_seed_same_curve_in_any_row_and_batch():
    one = run_job(SPEC, Polar())
    assert raw(run_job(SPEC, Polar())) == raw(one)
    order = np.random.default_rng(0).permutation(len(SEEDS))
    assert raw(run_job(SPEC, Polar(), SEEDS[order])) == raw(one, order)
    assert raw(run_job(SPEC, Polar(), SEEDS[5:6])) == raw(one, slice(5, 6))


def test_seed_episode_and_attempt_all_matter():
    curves = {
        raw(run_job(SPEC, Polar(), [seed], episode=episode, attempt=attempt))
        for seed in (0, 1, -1)
        for episode in (0, 1)
        for attempt in (0, 1)
    }
    assert len(curves) == 12


def test_rows_not_pending_stay():
    job = build_job(SPEC, Polar())
    pending = np.zeros(len(SEEDS), bool)
    pending[3] = True
    job.pending.assign(pending)
    for launch in SPEC.launches(Polar(), job):
        launch.launch()
    assert np.isnan(job.curve.numpy()[~pending]).all()
    assert np.isfinite(job.curve.numpy()[3]).all()
    assert (job.curve_count.numpy() > 0).tolist() == pending.tolist()


@pytest.mark.parametrize("num_knots", [4, 5, 12, 31, 128])
@pytest.mark.parametrize("jitter", [{"radial_jitter": 0.0, "angular_jitter": 0.0}, {}, WILD])
def test_curves_are_finite_simple_and_counter_clockwise(num_knots, jitter):
    settings = Polar(num_knots=num_knots, **jitter)
    job = run_job(SPEC, settings)
    for curve in curves_of(job):
        assert len(curve) == SPEC.curve_size(settings)
        assert np.isfinite(curve).all()
        assert area(curve) > 0.0
        assert LinearRing(curve).is_simple
        assert (np.linalg.norm(np.roll(curve, -1, axis=0) - curve, axis=1) > 0.0).all()


def test_knots_lie_where_the_settings_say():
    settings = Polar(num_knots=16, radial_jitter=0.4, angular_jitter=0.2)
    knots = run_job(SPEC, settings).scratch["knots"].numpy().astype(np.float64)
    radius = np.linalg.norm(knots, axis=2)
    assert radius.min() >= 0.6 - 1e-6
    assert radius.max() <= 1.4 + 1e-6
    assert radius.min() < 0.65
    assert radius.max() > 1.35
    shift = np.angle(
        (knots[..., 0] + 1j * knots[..., 1]) * np.exp(-2j * np.pi * np.arange(16) / 16)
    )
    cell = 2 * math.pi / 16
    assert np.abs(shift).max() <= 0.2 * cell + 1e-6
    assert np.abs(shift).max() > 0.19 * cell


def test_curve_passes_through_its_knots():
    job = run_job(SPEC, Polar())
    samples = SPEC.curve_size(Polar()) // 12
    assert job.curve.numpy()[:, ::samples].tobytes() == job.scratch["knots"].numpy().tobytes()


def test_only_backward_edges_of_crossing_curves_become_straight():
    assert not run_job(SPEC, Polar()).scratch["fallback"].numpy().any()
    settings = Polar(num_knots=64, **WILD)
    job = run_job(SPEC, settings)
    rows = job.scratch["fallback"].numpy() == 1
    assert 0 < rows.sum() < len(rows)
    edges = job.curve.numpy().reshape(len(rows), 64, -1, 2)
    knots = job.scratch["knots"].numpy()[:, :, None]
    t = np.arange(edges.shape[2], dtype=np.float32)[:, None] / edges.shape[2]
    chords = knots + t * (np.roll(knots, -1, axis=1) - knots)
    straight = np.abs(edges - chords).max(axis=(2, 3)) < 1e-5
    backward = job.scratch["backward"].numpy() == 1
    assert straight[rows][backward[rows]].all()
    assert not straight[rows][~backward[rows]].any()
    assert not straight[~rows].any()


def test_knobs_are_read_per_env():
    jitter = np.linspace(0.0, 0.85, len(SEEDS))
    job = run_job(
        SPEC,
        Polar(),
        np.full(len(SEEDS), 3),
        knobs={"radial_jitter": jitter, "angular_jitter": 0.0},
    )
    spread = np.linalg.norm(job.scratch["knots"].numpy(), axis=2).std(axis=1)
    assert (np.diff(spread) > 0.0).all()


def test_no_jitter_is_a_circle():
    (curve,) = curves_of(run_job(SPEC, Polar(radial_jitter=0.0, angular_jitter=0.0), [5]))
    assert np.abs(np.linalg.norm(curve, axis=1) - 1.0).max() < 2e-3


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.01, -1, 1e30])
@pytest.mark.parametrize(("field", "high"), [("radial_jitter", 0.85), ("angular_jitter", 0.45)])
def test_knobs_out_of_bounds_are_errors(field, high, value):
    for bad in (value, (0.0, value), high + 0.01, (0.3, 0.1)):
        with pytest.raises(ValueError, match=f"Polar.{field}"):
            Polar(**{field: bad})
    with pytest.raises(TypeError, match=f"Polar.{field}"):
        Polar(**{field: "0.1"})
    assert getattr(Polar(**{field: (0.0, high)}), field) == (0.0, high)
    assert getattr(Polar(**{field: (0.1, 0.1)}), field) == (0.1, 0.1)


@pytest.mark.parametrize("value", [3, 0, -1, 129])
def test_number_of_knots_has_bounds(value):
    with pytest.raises(ValueError, match=r"Polar.num_knots must be in \[4, 128\]"):
        Polar(num_knots=value)


@pytest.mark.parametrize("value", [12.0, True, "12", math.nan])
def test_number_of_knots_is_an_int(value):
    with pytest.raises(TypeError, match=r"Polar\.num_knots"):
        Polar(num_knots=value)


def test_nan_on_the_device_stays_in_its_row():
    jitter = np.full(len(SEEDS), 0.6)
    jitter[2] = np.nan
    job = run_job(SPEC, Polar(), knobs={"radial_jitter": jitter})
    others = np.arange(len(SEEDS)) != 2
    assert raw(job, others) == raw(run_job(SPEC, Polar()), others)


def test_lanes_agree():
    assert_lanes_agree("polar")


def test_golden_geometry():
    (curve,) = curves_of(run_job(SPEC, Polar(), [12345]))
    golden = [[1.56786, -0.07722], [0.09691, 1.40699], [-0.97933, -0.05373], [-0.00312, -1.58354]]
    assert np.abs(curve[::192] - golden).max() < 1e-3


def test_character():
    curves = [boxed(c) for c in curves_of(run_job(SPEC, Polar(), np.arange(512) * 31))]
    lengths = np.array([length(c) for c in curves])
    compactness = np.array([4 * np.pi * area(c) for c in curves]) / lengths**2
    assert abs(lengths.mean() / 4.74 - 1.0) < 0.10
    assert compactness.mean() < 0.61
    assert compactness.std() > 0.095


@pytest.mark.parametrize(
    "settings",
    [
        Polar(),
        Polar(num_knots=4, **WILD),
        Polar(num_knots=8, radial_jitter=0.85, angular_jitter=0.0),
        Polar(num_knots=24, radial_jitter=0.2),
        Polar(num_knots=64, **WILD),
        Polar(num_knots=128, **WILD),
        Polar(radial_jitter=0.0, angular_jitter=0.0),
    ],
)
def test_typical_length_is_not_exceeded(settings):
    curves = curves_of(run_job(SPEC, settings, np.arange(1024)))
    measured = np.quantile([length(boxed(c)) for c in curves], 0.999)
    assert measured <= SPEC.typical_length(settings) <= 1.35 * measured
