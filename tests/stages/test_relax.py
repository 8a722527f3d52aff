"""The relaxation stage: the road clears itself, whatever the scale, the rows and the lanes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import shapely

sys.path.insert(0, str(Path(__file__).parent))

from relax_job import (
    FAMILIES,
    HALF_WIDTH,
    N_MAX,
    SENTINEL,
    batch,
    comb,
    family_batch,
    run,
)

from track_gen.stages.relax import RelaxConfig, RelaxScratch

CACHE = {"sep_every": 4, "sep_cache_slots": 24, "sep_cache_skin": 0.5}


def borders(loop: np.ndarray, half_width: float) -> tuple[np.ndarray, np.ndarray]:
    tangent = np.roll(loop, -1, axis=0) - np.roll(loop, 1, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1)[:, None]
    normal = np.stack([-tangent[:, 1], tangent[:, 0]], 1)
    return loop + half_width * normal, loop - half_width * normal


def is_clear(loop: np.ndarray, half_width: float) -> bool:
    """Whether the road is a plain ring: simple nested borders and the area of its length."""
    if not np.isfinite(loop).all():
        return False
    left, right = (shapely.LinearRing(b) for b in borders(loop, half_width))
    if not (left.is_simple and right.is_simple):
        return False
    large, small = sorted((shapely.Polygon(left), shapely.Polygon(right)), key=lambda p: -p.area)
    if not large.contains(small):
        return False
    edge = np.linalg.norm(np.roll(loop, -1, axis=0) - loop, axis=1)
    ratio = edge.mean() / half_width
    area = (large.area - small.area) / (2 * half_width * edge.sum())
    return abs(area - 1) < 0.02 + 0.05 * ratio**2


def respaced(loop: np.ndarray) -> np.ndarray:
    """What the next stage does: equal arcs, twice."""
    for _ in range(2):
        closed = np.concatenate([loop, loop[:1]])
        arc = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
        at = arc[-1] * np.arange(len(loop)) / len(loop)
        loop = np.stack([np.interp(at, arc, closed[:, k]) for k in (0, 1)], 1)
    return loop


def clear_rows(data, result) -> np.ndarray:
    return np.array(
        [
            is_clear(respaced(result.loop(env, n)), data.half_width[env])
            for env, n in enumerate(data.count)
        ]
    )


@pytest.fixture(scope="module")
def hard():
    """A mixture that needs everything: bends, bays, hairpins."""
    parts = [family_batch(name, 24) for name in FAMILIES] + [batch([comb(0.14), comb(0.1)])]
    columns = ([getattr(p, f.name) for p in parts] for f in fields(parts[0]))
    return type(parts[0])(*(np.concatenate(column) for column in columns))


@pytest.mark.parametrize("ratio", [0.4, 0.6, 0.8])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_road_clears_itself(name, ratio):
    data = family_batch(name, 64, ratio)
    result = run(data)
    assert clear_rows(data, result).mean() == 1.0
    assert result.sweeps.max() <= 40
    if ratio == 0.6:
        assert result.sweeps.mean() <= 14.0
    raw = np.mean(
        [
            is_clear(p[:n].astype(float), HALF_WIDTH)
            for p, n in zip(data.points, data.count, strict=True)
        ]
    )
    if name != "easy":
        assert raw < 0.5, "the curves must need the relaxation"


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.4, 0.6, 0.8])
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_yield_of_thousands(name, ratio):
    data = family_batch(name, 2000, ratio, seed=1)
    assert clear_rows(data, run(data)).mean() >= 0.999


def test_good_curve_costs_no_sweep():
    angle = 2 * np.pi * np.arange(400) / 400
    data = batch([0.9 * np.stack([np.cos(angle), np.sin(angle)], 1)])
    result = run(data)
    assert result.sweeps[0] == 0
    n = data.count[0]
    moved = np.abs(result.points[0, :n] - data.points[0, :n]).max()
    assert moved < 0.01 * HALF_WIDTH


@pytest.mark.parametrize("bend", [0.5, 0.95, 1.0, 1.5])
def test_hairpins(bend):
    data = batch([comb(bend * HALF_WIDTH, length=1.2)])
    result = run(data)
    assert clear_rows(data, result).all()
    # Hairpins survive: the fingers are still long and the straights stay parallel.
    loop = result.loop(0, data.count[0])
    assert np.ptp(loop[:, 1]) > 1.7


def test_smoother_with_larger_stop_radius():
    data = family_batch("corner", 32)

    def roughness(result):
        total = 0.0
        for env, n in enumerate(data.count):
            loop = result.loop(env, n)
            edge = np.roll(loop, -1, axis=0) - loop
            heading = np.unwrap(np.arctan2(edge[:, 1], edge[:, 0]))
            turn = np.diff(heading, append=heading[0] + 2 * np.pi)
            total += np.square(np.diff(turn, append=turn[0])).mean()
        return total

    plain, smooth = run(data), run(data, RelaxConfig(stop_radius=1.2))
    assert smooth.sweeps.mean() > plain.sweeps.mean()
    assert roughness(smooth) < roughness(plain)


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**10])
def test_power_of_two_scale_is_exact(hard, scale):
    plain, scaled = run(hard), run(hard.scaled(scale))
    np.testing.assert_array_equal(scaled.sweeps, plain.sweeps)
    np.testing.assert_array_equal(scaled.points, plain.points * np.float32(scale))


@pytest.mark.parametrize(("scale", "offset"), [(1e-3, 0.0), (1e3, 0.0), (1.0, 3.0)])
def test_scale_and_offset(hard, scale, offset):
    moved = hard.scaled(scale, offset)
    plain, result = run(hard), run(moved)
    assert clear_rows(moved, result).tolist() == clear_rows(hard, plain).tolist()
    # Rounding of the input can switch a chord on or off, so a few tracks differ by more than it.
    difference = np.abs((result.points - offset) / scale - plain.points) / HALF_WIDTH
    worst = np.nanmax(difference, axis=(1, 2))
    assert np.median(worst) < 1e-3
    assert worst.max() < 0.5


def test_rows_are_independent(hard):
    whole = run(hard)
    order = np.random.default_rng(0).permutation(len(hard.count))
    shuffled = run(hard.rows(order))
    np.testing.assert_array_equal(shuffled.points, whole.points[order])
    np.testing.assert_array_equal(shuffled.sweeps, whole.sweeps[order])
    poisoned = hard.rows(slice(None))
    poisoned.points = hard.points.copy()
    poisoned.points[::2] = np.nan
    np.testing.assert_array_equal(run(poisoned).points[1::2], whole.points[1::2])


@pytest.mark.parametrize("mode", [{}, {"sep_every": 1}, CACHE])
def test_row_slices_are_bit_equal(hard, mode):
    config = RelaxConfig(**mode)
    cut = len(hard.count) // 3
    parts = run(hard, config, slices=[(cut, len(hard.count)), (0, cut)])
    assert parts.digest() == run(hard, config).digest()


def test_only_pending_rows_are_written(hard):
    data = hard.rows(slice(None))
    data.pending = np.zeros(len(data.count), np.bool_)
    data.pending[-1] = True
    result, whole = run(data), run(hard)
    np.testing.assert_array_equal(result.points[:-1], data.points[:-1])
    assert (result.sweeps[:-1] == SENTINEL).all()
    assert (result.overflow[:-1] == SENTINEL).all()
    np.testing.assert_array_equal(result.points[-1], whole.points[-1])
    assert result.overflow[-1] == 0


def test_padding_is_not_written(hard):
    data = hard.rows(slice(None))
    data.points = data.points.copy()
    past = np.arange(N_MAX) >= data.count[:, None]
    data.points[past] = 123.0
    result = run(data)
    assert (result.points[past] == 123.0).all()
    np.testing.assert_array_equal(result.points[~past], run(hard).points[~past])


def test_modes_agree(hard):
    adaptive = run(hard)
    dense = run(hard, RelaxConfig(sep_every=1))
    cache = run(hard, RelaxConfig(sep_every=2, sep_cache_slots=120, sep_cache_skin=2.0))
    assert (cache.overflow == 0).all()
    for other in (dense, cache):
        np.testing.assert_array_equal(other.sweeps, adaptive.sweeps)
        np.testing.assert_array_equal(other.points, adaptive.points)
    assert (adaptive.overflow == 0).all() and (dense.overflow == 0).all()


def test_full_lists_stretch_instead_of_dropping():
    """Ten fingers near one group need more runs than it has; dense scans tell the truth."""
    rng = np.random.default_rng(5)
    angle = 2 * np.pi * np.arange(240) / 240
    disc = 0.3 * np.stack([np.cos(angle), np.sin(angle)], 1)
    data = batch([disc] * 8)
    data.points[:, :240] = disc + rng.normal(0, 0.25, (8, 240, 2))
    data.count[:] = 240
    data.length[:] = 240 * 0.06
    adaptive, dense = run(data), run(data, RelaxConfig(sep_every=1))
    np.testing.assert_array_equal(adaptive.points, dense.points)
    np.testing.assert_array_equal(adaptive.sweeps, dense.sweeps)


def test_cache_overflow_is_counted(hard):
    starved = run(hard, RelaxConfig(sep_every=4, sep_cache_slots=1))
    roomy = run(hard, RelaxConfig(**CACHE))
    assert starved.overflow[-1] > 0, "hairpins have many neighbours"
    assert starved.overflow.sum() > roomy.overflow.sum()
    assert clear_rows(hard, roomy).mean() > 0.95


def test_short_loops():
    """Counts around every special length, the wrapped copies included."""
    for count in [8, 9, 10, 11, 12, 13, 14, 23, 24, 25, 31, 32, 33]:
        angle = 2 * np.pi * np.arange(400) / 400
        radius = 0.6 * count * HALF_WIDTH / (2 * np.pi)
        curve = radius * np.stack([1.3 * np.cos(angle), 0.7 * np.sin(angle)], 1)
        data = batch([curve])
        loop = curve[np.round(np.arange(count) * 400 / count).astype(int)]
        data.points[0] = np.nan
        data.points[0, :count] = loop
        data.count[0] = count
        result = run(data)
        assert np.isfinite(result.loop(0, count)).all()
        np.testing.assert_array_equal(
            result.points, run(data, RelaxConfig(sep_every=1)).points, err_msg=str(count)
        )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("at", [0, 5, -1])
def test_bad_points_are_left_alone(hard, value, at):
    data = hard.rows(slice(0, 2))
    data.points = data.points.copy()
    data.points[0, at % data.count[0], 1] = value
    result = run(data)
    np.testing.assert_array_equal(result.points[0], data.points[0])
    assert result.sweeps[0] == 0
    np.testing.assert_array_equal(result.points[1], run(hard).points[1])


@pytest.mark.parametrize("field", ["half_width", "length"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_bad_sizes_are_left_alone(hard, field, value):
    data = hard.rows(slice(0, 2))
    setattr(data, field, getattr(data, field).copy())
    getattr(data, field)[0] = value
    result = run(data)
    np.testing.assert_array_equal(result.points[0], data.points[0])
    assert result.sweeps[0] == 0


@pytest.mark.parametrize("count", [0, 1, 7])
def test_too_few_points_are_left_alone(hard, count):
    data = hard.rows(slice(0, 1))
    data.count = np.array([count], np.int32)
    result = run(data)
    np.testing.assert_array_equal(result.points, data.points)
    assert result.sweeps[0] == 0


def test_hopeless_roads_end_within_the_cap(hard):
    """Coincident points, and a road wider than the curve: bounded, no crash."""
    data = hard.rows(slice(0, 6))
    data.points = data.points.copy()
    data.points[0, : data.count[0]] = 0.25
    data.points[1, 1 : data.count[1] : 2] = data.points[1, 0 : data.count[1] - 1 : 2]
    data.half_width = np.array([0.1, 0.1, 1.0, 10.0, 1e-4, 0.1], np.float32)
    for config in (RelaxConfig(), RelaxConfig(max_sweeps=7)):
        result = run(data, config)
        assert result.sweeps.max() <= config.max_sweeps
        assert result.sweeps.max() > 0


def test_no_sweeps_and_no_smoothing_is_the_identity(hard):
    result = run(hard, RelaxConfig(max_sweeps=0, smoothing_passes=0))
    scale = np.nanmax(np.abs(hard.points))
    np.testing.assert_allclose(result.points, hard.points, atol=4e-7 * scale)
    assert (result.sweeps == 0).all()


def test_lanes_are_bit_equal():
    """1 lane, 32 lanes and 32 lanes in reversed order: a missing barrier shows as a difference."""
    script = str(Path(__file__).with_name("relax_job.py"))
    digests = {}
    for lanes, reverse in [(1, "0"), (32, "0"), (32, "1")]:
        environment = dict(os.environ, TRACK_GEN_REVERSE_LANES=reverse)
        done = subprocess.run(
            [sys.executable, script, str(lanes)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        lines = done.stdout.splitlines()
        digests[lanes, reverse] = [line for line in lines if line.startswith("digest")]
    assert len(digests[1, "0"]) == 12
    assert digests[1, "0"][:4] == digests[1, "0"][4:8], "adaptive and dense lists agree"
    assert digests[32, "0"] == digests[1, "0"]
    assert digests[32, "1"] == digests[1, "0"]


@pytest.mark.cuda
def test_cuda_agrees_in_yield(hard):
    cpu, cuda = run(hard), run(hard, lanes=64, device="cuda")
    assert clear_rows(hard, cuda).mean() >= clear_rows(hard, cpu).mean() - 0.02
    difference = np.nanmax(np.abs(cuda.points - cpu.points), axis=(1, 2)) / HALF_WIDTH
    assert np.median(difference) < 0.01


def test_scratch_budget():
    import warp as wp

    scratch = RelaxScratch.allocate(3, 512, RelaxConfig(), wp.get_device("cpu"))
    arrays = [getattr(scratch, f.name) for f in fields(scratch)]
    assert all(a.shape[0] == 3 for a in arrays)
    assert sum(a.capacity for a in arrays) / 3 <= 18 * 1024


BAD = [
    ({"max_sweeps": -1}, "TrackGenConfig.relax_max_sweeps must be in"),
    ({"max_sweeps": 1001}, "TrackGenConfig.relax_max_sweeps must be in"),
    ({"stop_radius": 0.9}, "TrackGenConfig.relax_stop_radius must be in"),
    ({"stop_radius": float("nan")}, "TrackGenConfig.relax_stop_radius must be in"),
    ({"smoothing_passes": 21}, "TrackGenConfig.relax_smoothing_passes must be in"),
    ({"sep_every": 0}, "TrackGenConfig.relax_sep_every must be in"),
    ({"sep_every": 1, "sep_cache_slots": 8}, "TrackGenConfig.relax_sep_cache_slots must be 0"),
    ({"sep_every": 4}, "TrackGenConfig.relax_sep_cache_slots must be > 0"),
    ({"sep_cache_slots": 8}, "TrackGenConfig.relax_sep_cache_slots must be 0"),
    ({"sep_cache_slots": 257}, "TrackGenConfig.relax_sep_cache_slots must be in"),
    ({"sep_cache_skin": 0.5}, "TrackGenConfig.relax_sep_cache_skin must be 0"),
    (
        {"sep_every": 4, "sep_cache_slots": 8, "sep_cache_skin": -1.0},
        "relax_sep_cache_skin must be in",
    ),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        RelaxConfig(**settings)


@pytest.mark.parametrize("field", [f.name for f in fields(RelaxConfig)])
def test_wrong_types(field):
    with pytest.raises(TypeError, match=rf"TrackGenConfig\.relax_{field} must be"):
        replace(RelaxConfig(), **{field: "x"})
