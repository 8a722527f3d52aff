"""The validity gate: known answers, and agreement with the float64 judge."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from roads import (
    build,
    circle,
    figure_eight,
    gate,
    perimeter,
    publish,
    resample,
    spaced,
    stadium,
    star,
)

from judge import judge_batch, judge_track
from track_gen.stages.validity import ValidityConfig
from track_gen.status import TrackStatus

RATIOS = (0.4, 0.5, 0.6, 0.7, 0.8)


def judged(roads) -> np.ndarray:
    """Verdict of the judge on every row."""
    verdicts = judge_batch(roads.center, roads.outer, roads.inner, roads.count, roads.half_width)
    return np.array([not reasons for reasons in verdicts])


def wiggly(rng: np.random.Generator, count: int, spacing: float) -> list[np.ndarray]:
    return [spaced(star(rng, rng.uniform(0.1, 0.95)), spacing) for _ in range(count)]


def test_status_values_are_fixed():
    names = (
        "TURNING NONFINITE CURVATURE SEPARATION BORDER GRADE OVERFLOW PARAMETER TOO_SHORT "
        "NOT_GENERATED"
    )
    assert [(s.name, s.value) for s in TrackStatus] == [
        (name, 1 << k) for k, name in enumerate(names.split())
    ]


def test_tolerances_are_checked():
    for name in vars(ValidityConfig()):
        for bad in (-0.1, np.nan, np.inf, 2.0):
            with pytest.raises(ValueError, match=f"TrackGenConfig.validity_{name} must be in"):
                ValidityConfig(**{name: bad})
        with pytest.raises(TypeError, match=f"TrackGenConfig.validity_{name}"):
            ValidityConfig(**{name: "wide"})


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize(
    ("radius", "good"),
    [(0.5, False), (0.9, False), (0.95, False), (0.98, False), (1.02, True), (1.5, True)],
)
def test_hairpins(ratio, radius, good):
    """Stadiums of any phase and straight: legal from the radius where the border stays ahead."""
    rng = np.random.default_rng(5)
    w, E, N_max = 0.1, 40, 256
    lines = np.full((3, E, N_max, 3), np.nan, np.float32)
    count = np.zeros(E, np.int32)
    for e in range(E):
        dense = resample(stadium(radius * w, rng.uniform(2, 20) * w), 4000)
        curve = spaced(np.roll(dense, rng.integers(4000), axis=0), ratio * w)
        angle = rng.uniform(0, 2 * np.pi)
        curve = curve @ np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
        count[e] = len(curve)
        for line, values in zip(lines, publish(curve, w), strict=True):
            line[e, : count[e]] = values
    _, valid, _, _ = gate(*lines, count, np.full(E, w))
    good_rows = [not reasons for reasons in judge_batch(*lines, count, np.full(E, w))]
    assert valid.all() if good else not valid.any()
    assert all(good_rows) if good else not any(good_rows)


def test_hairpin_of_095_half_widths_is_rejected():
    roads = build([spaced(stadium(0.095, 1.0), 0.06)], 0.1)
    assert not roads.valid[0]
    assert roads.status[0] & (TrackStatus.CURVATURE | TrackStatus.BORDER)


def test_one_kink_narrows_the_road():
    """A vertex that turns by ``t`` leaves cos(t / 2) of the width, whatever its neighbours do."""
    w, h, side = 0.1, 0.08, 40
    verdicts = []
    for turn in (0.8, 0.85, 0.95, 1.1):
        turns = np.full(4 * side, (2 * np.pi - 4 * turn) / (4 * side - 4))
        turns[::side] = turn  # four alike, so that the loop closes
        heading = turns.cumsum()
        step = h * np.stack([np.cos(heading), np.sin(heading)], axis=1)
        curve = step.cumsum(0)
        lines = [line[None] for line in publish(curve, w)]
        found, valid, _, _ = gate(*lines, np.array([len(curve)]), np.array([w]))
        assert valid[0] == (judge_track(*(line[0] for line in lines), w) == [])
        verdicts.append((bool(valid[0]), int(found[0])))
    bad = (False, int(TrackStatus.CURVATURE))
    assert verdicts == [(True, 0), (True, 0), bad, bad]


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("share", [0.96, 1.04])
def test_borders_must_lie_where_they_should(side, share):
    """A border 4 % off passes the rules on area and crossings; its place gives it away."""
    roads = build([circle(1.0, 60)], 0.1)
    borders = [roads.outer, roads.inner]
    borders[side][:] = roads.center + share * (borders[side] - roads.center)
    found, valid, _, _ = gate(roads.center, *borders, roads.count, roads.half_width)
    assert found[0] == TrackStatus.BORDER
    assert not valid[0]


def test_area_of_the_road():
    """The vertex normals of a coarse loop leave out a known share of the area."""
    count, w = 12, 0.4
    roads = build([circle(1.0, count)], w)
    arrays = roads.center, roads.outer, roads.inner, roads.count, roads.half_width
    missing = 1.0 - np.cos(np.pi / count)
    for tolerance, good in ((0.98 * missing, False), (1.02 * missing, True)):
        config = ValidityConfig(area_tolerance=tolerance, area_tolerance_spacing=0.0)
        found, valid, _, _ = gate(*arrays, config=config)
        assert valid[0] == good
        assert found[0] == (0 if good else TrackStatus.BORDER)


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_coarse_spacing_does_not_hide_a_tight_corner(ratio):
    """A square corner has a three-point curvature of only about 1 / h."""
    half_width = 0.1
    square = resample(np.array([(0, 0), (1, 0), (1, 1), (0, 1)], float), round(4 / ratio / 0.1))
    roads = build([square], half_width)
    assert not roads.valid[0]
    assert roads.status[0] & TrackStatus.CURVATURE


def test_figure_eight_is_invalid():
    roads = build([figure_eight(2.0, 120)], 0.1)
    assert roads.status[0] & TrackStatus.TURNING
    assert roads.status[0] & TrackStatus.BORDER
    assert not judged(roads)[0]


def test_double_loop_is_invalid():
    t = 4 * np.pi * np.arange(200) / 200
    radius = 1.0 + 0.4 * np.cos(t / 2)
    roads = build([radius[:, None] * np.stack([np.cos(t), np.sin(t)], axis=1)], 0.05)
    assert roads.status[0] & TrackStatus.TURNING
    assert not judged(roads)[0]


@pytest.mark.parametrize("ratio", [0.4, 0.6, 0.8])
def test_pinched_road(ratio):
    """A dumbbell: two lobes joined by straights ``gap`` half widths apart; only the gap decides."""
    w = 0.1
    verdicts = {}
    for gap in (1.6, 1.8, 1.9, 2.1, 2.3, 3.0):
        t = 2 * np.pi * np.arange(8000) / 8000
        x = 12 * w * np.cos(t)
        lobe = gap / 2 + 5.0 * (1 - np.exp(-((x / w / 5.5) ** 4)))
        curve = np.stack([x, w * lobe * np.sin(t)], axis=1)
        roads = build([spaced(curve, ratio * w)], w)
        assert roads.valid[0] == judged(roads)[0]
        verdicts[gap] = roads.valid[0], TrackStatus(int(roads.status[0]))
    assert [v for v, _ in verdicts.values()] == [False, False, False, True, True, True]
    assert all(s & TrackStatus.SEPARATION for v, s in verdicts.values() if not v)


def test_crossing_between_samples_is_found():
    """Two strands cross at coarse spacing with all points far from each other."""
    w = 0.02
    curve = figure_eight(1.0, 2000)
    lobe = curve.copy()
    lobe[:, 1] += 0.3 * np.abs(curve[:, 0])
    roads = build([spaced(lobe, 1.0 * w)], w)
    assert roads.status[0] & TrackStatus.BORDER


@pytest.mark.parametrize("scale", [2.0**-10, 1e-3, 1e3, 2.0**10])
def test_scale_does_not_matter(scale):
    rng = np.random.default_rng(6)
    curves = wiggly(rng, 200, 0.06)
    plain = build(curves, 0.1)
    scaled = build([c * scale for c in curves], 0.1 * scale)
    assert 20 < plain.valid.sum() < 180
    np.testing.assert_array_equal(plain.status, scaled.status)


def test_position_and_start_do_not_matter():
    rng = np.random.default_rng(7)
    curves = wiggly(rng, 200, 0.06)
    plain = build(curves, 0.1)
    rolled = build([np.roll(c, len(c) // 3, axis=0) for c in curves], 0.1)
    moved = build([c + np.array([20.0, 30.0]) for c in curves], 0.1)
    assert (plain.valid == rolled.valid).mean() > 0.96
    assert (plain.valid == moved.valid).mean() > 0.98


def test_thin_roads():
    """A half width of a thousandth of the extent leaves few digits; it must still be judged."""
    rng = np.random.default_rng(8)
    w = 0.0022
    curves = [spaced(star(rng, 0.3), 1.0 * w) for _ in range(4)]
    roads = build(curves, w, N_max=4095)
    assert roads.count.max() > 3000
    assert roads.valid.all()
    assert judged(roads).all()


def test_nothing_is_measured_after_an_earlier_reason():
    roads = build([circle(1.0, 60)] * 4, 0.1)
    status = np.array([0, int(TrackStatus.OVERFLOW), int(TrackStatus.PARAMETER), 0])
    found, valid, attempts, pending = gate(
        roads.center,
        roads.outer,
        roads.inner,
        np.array([60, 0, 60, 60]),
        roads.half_width,
        status=status,
        pending=np.array([True, True, True, False]),
        attempt=2,
    )
    np.testing.assert_array_equal(found, status)
    assert valid.tolist() == [True, False, False, False]
    assert attempts.tolist() == [3, 3, 3, 0]
    assert pending.tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("count", "half_width", "reason"),
    [
        (0, 0.1, TrackStatus.NONFINITE),
        (5, 0.1, TrackStatus.TOO_SHORT),
        (513, 0.1, TrackStatus.OVERFLOW),
        (60, np.nan, TrackStatus.PARAMETER),
        (60, 0.0, TrackStatus.PARAMETER),
        (60, -0.1, TrackStatus.PARAMETER),
        (60, np.inf, TrackStatus.PARAMETER),
    ],
)
def test_unreadable_rows_have_a_reason(count, half_width, reason):
    roads = build([circle(1.0, 60)], 0.1)
    found, valid, _, pending = gate(
        roads.center, roads.outer, roads.inner, np.array([count]), np.array([half_width])
    )
    assert found[0] == reason
    assert not valid[0] and pending[0]


@pytest.mark.parametrize("name", ["center", "outer", "inner"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_coordinate_that_is_not_finite(name, bad, axis):
    roads = build([circle(1.0, 60)], 0.1)
    getattr(roads, name)[0, 33, axis] = bad
    found, valid, _, _ = gate(roads.center, roads.outer, roads.inner, roads.count, roads.half_width)
    assert found[0] & TrackStatus.NONFINITE
    assert not valid[0]


def mutate(rng: np.random.Generator, kind: int, arrays: list[np.ndarray], w: float) -> None:
    """Break a good road (center, outer, inner of shape [n, 3]) in place."""
    center, outer, inner = arrays
    n = len(center)
    i = int(rng.integers(n))
    direction = rng.normal(size=2)
    direction /= np.linalg.norm(direction)
    if kind == 0:  # one border point pushed toward the centreline
        border = arrays[1 + int(rng.integers(2))]
        border[i] += rng.uniform(0.3, 0.9) * (center[i] - border[i])
    elif kind == 1:  # a centreline point moved
        center[i, :2] += rng.uniform(0.5, 3) * w * direction
    elif kind == 2:  # borders swapped
        arrays[1][:], arrays[2][:] = inner.copy(), outer.copy()
    elif kind == 3:  # a road half as wide as asked
        for border in (outer, inner):
            border[:] = center + rng.uniform(0.4, 0.9) * (border - center)
    elif kind == 4:  # two border points exchanged
        border = arrays[1 + int(rng.integers(2))]
        j = (i + int(rng.integers(1, n // 3))) % n
        border[[i, j]] = border[[j, i]]
    elif kind == 5:  # one border shifted as a whole
        arrays[1 + int(rng.integers(2))][:, :2] += rng.uniform(0.5, 3) * w * direction
    elif kind == 6:  # a piece of all three lines moved across the road
        k = (i + np.arange(n // 4)) % n
        for line in arrays:
            line[k, :2] -= 0.9 * np.asarray(center[k].mean(0)[:2])
    else:  # a loop: a piece of all three lines in reversed order
        k = (i + np.arange(n // 3)) % n
        for line in arrays:
            line[k] = line[k[::-1]]


def test_mutated_roads_are_rejected_by_gate_and_judge():
    rng = np.random.default_rng(9)
    w = 0.1
    curves = [spaced(star(rng, 0.3), 0.06) for _ in range(200)]
    roads = build(curves, w)
    good = np.flatnonzero(roads.valid & judged(roads))
    chosen = good[np.arange(200) % good.size]
    arrays = [getattr(roads, name)[chosen].copy() for name in ("center", "outer", "inner")]
    count = roads.count[chosen]
    for e in range(200):
        mutate(rng, e % 8, [a[e, : count[e]] for a in arrays], w)
    _, valid, _, pending = gate(*arrays, count, np.full(200, w))
    assert not valid.any(), np.flatnonzero(valid) % 8
    assert pending.all()
    accepted = [e for e, reasons in enumerate(judge_batch(*arrays, count, np.full(200, w)))
                if not reasons]  # fmt: skip
    assert not accepted, np.array(accepted) % 8


@pytest.mark.parametrize("ratio", RATIOS)
def test_gate_agrees_with_the_judge(ratio):
    """Random wiggly curves, half of them invalid: no false accept, hardly a false reject."""
    rng = np.random.default_rng(10)
    curves = wiggly(rng, 600, ratio * 0.1)
    curves += [c[::-1] for c in wiggly(rng, 200, ratio * 0.1)]
    roads = build(curves, 0.1)
    good = judged(roads)
    assert 0.2 < good.mean() < 0.8
    assert not (roads.valid & ~good).any()
    assert (~roads.valid & good).sum() <= 2


@pytest.mark.slow
@pytest.mark.parametrize("ratio", RATIOS)
def test_gate_agrees_with_the_judge_on_thousands(ratio):
    """As above, with kinks of up to a tenth of a half width and at three scales."""
    rng = np.random.default_rng(11)
    accepted = rejected = total = 0
    for scale in (1e-3, 1.0, 1e3):
        curves = []
        for curve in wiggly(rng, 4000, ratio * 0.1):
            noise = rng.uniform(0.0, 0.01) * (rng.random() < 0.3)
            curves.append(scale * (curve + noise * rng.normal(size=curve.shape)))
        roads = build(curves, 0.1 * scale, N_max=1024)
        good = judged(roads)
        accepted += (roads.valid & ~good).sum()
        rejected += (~roads.valid & good).sum()
        total += good.sum()
    assert total > 2000
    assert accepted == 0
    assert rejected <= 0.002 * total


def test_the_judge_can_fail():
    """Each of the judge's rules, on a road that only it rejects or accepts."""
    n, w = 100, 0.1
    center, outer, inner = circle(1.0, n), circle(1.0 + w, n), circle(1.0 - w, n)
    assert judge_track(center, outer, inner, w) == []
    assert judge_track(center[::-1], outer[::-1], inner[::-1], w) == []
    assert judge_track(center, inner, outer, w)
    assert judge_track(center, outer, inner[::-1], w)
    assert judge_track(center, circle(1.0 + 0.9 * w, n), inner, w)
    assert judge_track(center, outer, inner, 1.1 * w)
    assert judge_track(center, outer + np.array([2 * w, 0.0]), inner, w)
    assert judge_track(center * np.nan, outer, inner, w) == ["not finite"]
    assert perimeter(center) == pytest.approx(2 * np.pi, rel=1e-3)


LANES = """
import hashlib, sys
sys.path.insert(0, {folder!r})
import numpy as np, warp as wp
wp.config.quiet = True
wp.config.enable_cpu_blocks = {blocks}
from roads import build, figure_eight, spaced, star
rng = np.random.default_rng(12)
curves = [spaced(star(rng, rng.uniform(0.1, 0.95)), 0.06) for _ in range(24)]
curves += [figure_eight(1.0, 70), np.full((20, 2), np.nan), np.ones((9, 2)), curves[0][:5]]
curves += [c[::-1] for c in curves[:4]]
for lanes in {lanes}:
    roads = build(curves, 0.1, N_max=256, lanes=lanes)
    assert 3 < roads.valid.sum() < len(curves) - 3
    digest = hashlib.sha256()
    for values in vars(roads).values():
        digest.update(values.tobytes())
    print("digest", digest.hexdigest())
"""


def test_any_number_and_order_of_lanes_gives_the_same_bits():
    folder = str(Path(__file__).parent)
    digests = set()
    for blocks, lanes, reverse in ((False, [1], "0"), (True, [32], "0"), (True, [32], "1")):
        done = subprocess.run(
            [sys.executable, "-c", LANES.format(folder=folder, blocks=blocks, lanes=lanes)],
            env={**os.environ, "TRACK_GEN_REVERSE_LANES": reverse},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        digests.update(line for line in done.stdout.splitlines() if line.startswith("digest"))
    assert len(digests) == 1
