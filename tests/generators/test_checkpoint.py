from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from curve_job import SEEDS, area, assert_lanes_agree, boxed, curves_of, length, run_job
from shapely import get_parts, unary_union
from shapely.geometry import LinearRing, LineString

from track_gen.generators.checkpoint import SPEC, Checkpoint
from track_gen.rng import seeds_from_int

CROWDED = {"num_checkpoints": 40, "radius_min": 0.0}
WILD = [
    {"num_checkpoints": 3},
    {"num_checkpoints": 64},
    {"radius_min": 0.0},
    {"radius_min": 0.99},
    {"angle_jitter": 0.0},
    {"angle_jitter": 1.0},
    {"turn_rate": 1e-6},
    {"turn_rate": math.pi},
    {"steer_gain": 1e-6},
    {"lookahead": 1e-6},
    {"lookahead": 1.0},
]


def raw(job, rows=slice(None)):
    return job.curve.numpy()[rows].tobytes()


def crossings(curve):
    """Self-crossings of a closed curve, by noding: n crossings cut a ring into 2 n arcs."""
    ring = LinearRing(curve)
    if ring.is_simple:
        return 0
    closed = LineString(np.vstack([curve, curve[:1]]))
    return (len(get_parts(unary_union(closed))) - 1) // 2


def test_same_seed_same_curve_in_any_row_and_batch():
    one = run_job(SPEC, Checkpoint())
    assert raw(run_job(SPEC, Checkpoint())) == raw(one)
    order = np.random.default_rng(0).permutation(len(SEEDS))
    assert raw(run_job(SPEC, Checkpoint(), SEEDS[order])) == raw(one, order)


def test_seed_episode_and_attempt_all_matter():
    curves = {
        raw(run_job(SPEC, Checkpoint(), [seed], episode=episode, attempt=attempt))
        for seed in (0, 1, -1)
        for episode in (0, 1)
        for attempt in (0, 1)
    }
    assert len(curves) == 12


@pytest.mark.parametrize("options", [{}, *WILD], ids=str)
def test_curves_are_finite_and_simple_where_no_crossing_is_counted(options):
    job = run_job(SPEC, Checkpoint(**options), np.arange(-32, 32, dtype=np.int32))
    counted = job.scratch["crossings"].numpy()
    for curve, found in zip(curves_of(job), counted, strict=True):
        assert np.isfinite(curve).all()
        assert 4 * 128 <= len(curve) <= 4 * 256
        assert area(curve) > 0.0
        if found == 0:
            assert LinearRing(curve[::4]).is_simple


def test_crossings_are_counted_as_shapely_counts_them():
    job = run_job(SPEC, Checkpoint(best_of=1, num_checkpoints=28))
    counted = job.scratch["crossings"].numpy()
    kept = job.scratch["kept"].numpy().astype(np.float64)
    steps = job.curve_count.numpy() // 4
    wanted = [crossings(row[:n]) for row, n in zip(kept, steps, strict=True)]
    assert counted.tolist() == wanted
    assert counted.max() > 0


def test_more_candidates_cross_less_and_ties_keep_the_first():
    settings = {**CROWDED, "num_checkpoints": 22}
    one = run_job(SPEC, Checkpoint(best_of=1, **settings))
    four = run_job(SPEC, Checkpoint(best_of=4, **settings))
    before, after = (job.scratch["crossings"].numpy() for job in (one, four))
    assert (after <= before).all()
    assert (after > 0).sum() < (before > 0).sum()
    for row in np.flatnonzero(after == before):
        assert raw(one, row) == raw(four, row)


def test_clip_loop_removes_a_crossing_and_leaves_simple_paths_alone():
    settings = {**CROWDED, "num_checkpoints": 24, "best_of": 1}
    plain = run_job(SPEC, Checkpoint(**settings))
    clipped = run_job(SPEC, Checkpoint(clip_loop=True, **settings))
    counted = plain.scratch["crossings"].numpy()
    assert 0 < (counted > 0).sum() < len(SEEDS)
    left = []
    for row, (before, after) in enumerate(zip(curves_of(plain), curves_of(clipped), strict=True)):
        if counted[row] == 0:
            np.testing.assert_array_equal(before, after)
        else:
            assert len(before) / 2 <= len(after) < len(before)
            assert area(after) > 0.0
            left.append(crossings(after[::4]))
    assert np.mean(left) < 0.75 * counted[counted > 0].mean()


def test_checkpoints_are_in_angular_order_and_in_range():
    job = run_job(SPEC, Checkpoint(angle_jitter=1.0, num_checkpoints=9))
    points = job.scratch["checkpoints"].numpy().astype(np.float64)
    polar = job.scratch["polar"].numpy().astype(np.float64)
    radius = np.linalg.norm(points, axis=-1)
    assert radius.min() >= 0.33 - 1e-6 and radius.max() <= 1.0 + 1e-6
    for row, angles in zip(points, np.sort(polar[..., 0]), strict=True):
        turn = np.arctan2(row[:, 1], row[:, 0]) - angles
        assert np.abs(np.angle(np.exp(1j * turn))).max() < 1e-5


def test_path_comes_near_its_checkpoints():
    """The path keeps the bays: its steered lap stays near the checkpoint polygon."""
    job = run_job(SPEC, Checkpoint())
    ratios = []
    for curve, corners in zip(
        curves_of(job), job.scratch["checkpoints"].numpy().astype(np.float64), strict=True
    ):
        ratios.append(area(boxed(curve)) / area(boxed(corners)))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)


def test_golden_draws():
    """Ranks of the drawn radii; a change of these changes every track: raise ``seed_version``."""
    job = run_job(SPEC, Checkpoint(), np.arange(-8, 8, dtype=np.int32))
    cells = np.floor(job.scratch["polar"].numpy()[..., 1] * 1024).astype(int)
    assert hashlib.sha256(repr(cells.tolist()).encode()).hexdigest()[:16] == "6c8f545ccfb7e714"


def test_knobs_are_read_per_env():
    half = len(SEEDS) // 2
    for name, low, high in (
        ("radius_min", 0.1, 0.6),
        ("angle_jitter", 0.0, 0.9),
        ("turn_rate", 0.2, 1.0),
        ("steer_gain", 0.3, 0.9),
        ("lookahead", 0.1, 0.3),
    ):
        mixed = run_job(SPEC, Checkpoint(), knobs={name: [low] * half + [high] * half})
        lower = run_job(SPEC, Checkpoint(**{name: low}))
        upper = run_job(SPEC, Checkpoint(**{name: high}))
        assert raw(mixed, slice(0, half)) == raw(lower, slice(0, half))
        assert raw(mixed, slice(half, None)) == raw(upper, slice(half, None))
        assert raw(lower, 0) != raw(upper, 0)


def check_statistics(count):
    job = run_job(SPEC, Checkpoint(), seeds_from_int(11, count))
    curves = [boxed(curve) for curve in curves_of(job)]
    lengths = np.array([length(curve) for curve in curves])
    round_ = np.array([4 * math.pi * area(curve) for curve in curves]) / lengths**2
    assert (job.scratch["crossings"].numpy() > 0).mean() <= 0.002
    assert lengths.mean() == pytest.approx(4.6, abs=0.15)
    assert np.quantile(lengths, 0.999) < SPEC.typical_length(Checkpoint()) < 8.0
    assert round_.mean() == pytest.approx(0.60, abs=0.03)
    assert round_.std() > 0.08


def test_statistics():
    check_statistics(1024)


@pytest.mark.slow
def test_statistics_of_4096_seeds():
    check_statistics(4096)


def test_lanes_agree():
    assert_lanes_agree("checkpoint")


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"num_checkpoints": 2}, ValueError, r"num_checkpoints must be in \[3, 64\], got 2"),
        ({"best_of": 0}, ValueError, r"best_of must be in \[1, 64\], got 0"),
        ({"clip_loop": 1}, TypeError, "clip_loop must be a bool"),
        ({"radius_min": 1.0}, ValueError, "radius_min must be in"),
        ({"angle_jitter": -0.1}, ValueError, "angle_jitter must be in"),
        ({"turn_rate": 0.0}, ValueError, "turn_rate must be in"),
        ({"steer_gain": math.nan}, ValueError, "steer_gain must be in"),
        ({"lookahead": (0.3, 0.1)}, ValueError, "lookahead must be ordered"),
    ],
)
def test_bad_settings_are_errors(options, error, text):
    with pytest.raises(error, match=text):
        Checkpoint(**options)
