"""Difficulty of gate courses: monotone metrics, yield, edits on the device, masks, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp
from gate_cells import CELLS, FAMILIES, make_gates

from track_gen import (
    Bezier,
    CourseLine,
    GateGenConfig,
    GateGenerator,
    GateStatus,
    Hull,
    Mixture,
    PerEnvSeededRNG,
    Polar,
    get_spec,
)
from track_gen.runtime import TrackMetrics

STEPS = np.linspace(0.0, 1.0, 11)


def raw_bytes(gates):
    return {name: array.tobytes() for name, array in gates.numpy().items()}


def over_the_difficulty(generator):
    """Per step: valid envs, width over the mean distance of gates, turning, tightest bend."""
    gates = generator.generate()
    line = CourseLine.through(gates, num_points=512)
    metrics = TrackMetrics(line)
    rows = []
    for step in STEPS:
        generator.set_difficulty(float(step))
        generator.generate()
        line.update()
        metrics.update()
        valid = gates.valid.numpy()
        length = metrics.length.numpy()[valid]
        width = 2.0 * gates.half_width.numpy()[valid, 0]
        turning = metrics.mean_abs_curvature.numpy()[valid] * length / (2.0 * np.pi)
        rows.append(
            (
                valid.mean(),
                (valid & (gates.attempts.numpy() == 1)).mean(),
                (width * gates.count.numpy()[valid] / length).mean(),
                turning.mean(),
                metrics.max_curvature.numpy()[valid].mean(),
                metrics.mean_abs_curvature.numpy()[valid].mean(),
            )
        )
    return np.array(rows).T


@pytest.mark.parametrize("ordering", ["ccw", "random"])
@pytest.mark.parametrize("name", FAMILIES)
def test_narrowness_and_twistiness_rise_with_difficulty(name, ordering):
    """Over 11 steps the mean of each never falls, and every course is valid."""
    generator = make_gates(128, generator=name, ordering=ordering)
    valid, _, width, turning, tightest, bend = over_the_difficulty(generator)
    assert (valid == 1.0).all()
    assert (np.diff(width) < 0.0).all(), width
    assert width[-1] < 0.6 * width[0]
    assert (np.diff(turning) > -0.01).all(), turning
    assert turning[-1] > 1.3 * turning[0]
    if ordering == "ccw":
        assert (np.diff(tightest) > 0.0).all(), tightest
        # Per length of the line too; a random order gets longer with every sharp turn it may have.
        assert (np.diff(bend) > -0.002).all() and bend[-1] > 1.15 * bend[0], bend


@pytest.mark.slow
@pytest.mark.parametrize("gates", [None, (8, 13), (4, 7)])
@pytest.mark.parametrize("ordering", ["ccw", "random"])
@pytest.mark.parametrize("name", FAMILIES)
def test_yield_over_the_difficulty(name, ordering, gates):
    generator = make_gates(2048, seeds=90210, generator=name, ordering=ordering, num_gates=gates)
    valid, first, width, turning, *_ = over_the_difficulty(generator)
    assert valid.min() >= 0.999
    assert first.min() >= 0.995
    assert (np.diff(width) < 0.0).all()
    # Of 4 to 7 gates a course hardly turns more than it must.
    assert (np.diff(turning) > (-0.01 if gates == (4, 7) else 0.0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("ordering", ["ccw", "random"])
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_at_both_ends(cell, ordering):
    for name in FAMILIES:
        generator = make_gates(256, seeds=77, generator=name, ordering=ordering, **CELLS[cell])
        for value in (0.0, 1.0):
            generator.set_difficulty(value)
            generator.generate()
            assert generator.report().yield_rate == 1.0, (name, value, generator.report())


@pytest.mark.parametrize("generator", ["bezier", "polar", Mixture({Hull(): 1, Polar(): 2})])
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_equals_the_configuration_at_that_difficulty(generator, value):
    edited = make_gates(8, generator=generator, gate_width=(0.9, 1.2), max_turn=(120.0, 140.0))
    edited.set_difficulty(value)
    config = edited.config.at_difficulty(value)
    fresh = GateGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=8, device="cpu"))
    np.testing.assert_allclose(
        fresh.parameters.array.numpy(), edited.parameters.array.numpy(), rtol=1e-6, atol=1e-7
    )
    assert fresh.generate().valid.numpy().all()
    if value != 0.3:
        assert raw_bytes(fresh.gates) == raw_bytes(edited.generate())


def test_ranges():
    config = GateGenConfig(num_envs=1, device="cpu")
    assert set(config.difficulty_ranges(0.0)) == {"gate_width", "max_turn", "min_corner_distance"}
    assert config.difficulty_ranges(0.0)["max_turn"] == (75.0, 75.0)
    assert config.difficulty_ranges(1.0)["max_turn"] == (135.0, 135.0)
    assert config.difficulty_ranges(0.5)["gate_width"] == pytest.approx((0.9, 0.9))
    few = GateGenConfig(num_envs=1, device="cpu", num_gates=4)
    assert few.difficulty_ranges(0.0)["max_turn"] == (112.5, 112.5)
    gentle = GateGenConfig(num_envs=1, device="cpu", num_gates=8, max_turn=(60.0, 100.0))
    assert gentle.difficulty_ranges(0.0)["max_turn"] == (60.0, 75.0)
    assert gentle.difficulty_ranges(1.0)["max_turn"] == (60.0, 100.0)
    for value in (-0.1, 1.5, float("nan")):
        for call in (config.difficulty_ranges, config.at_difficulty):
            with pytest.raises(ValueError, match=r"GateGenConfig.difficulty_ranges\(difficulty\)"):
                call(value)


@pytest.mark.parametrize("name", FAMILIES)
def test_ranges_are_legal_and_those_of_the_anchors(name):
    spec = get_spec(name)
    settings = spec.settings()
    knobs = {knob.name: knob for knob in spec.knobs_of(settings)}
    assert spec.anchor_difficulty_of(settings)
    for key, ends in spec.anchor_difficulty_of(settings).items():
        moved = []
        for low, high in ends:
            assert knobs[key].low <= low <= high <= knobs[key].high
            generator = make_gates(2, generator=name)
            generator.parameters.set(key, (low, high))
            moved.append(generator.generate().position.numpy().tobytes())
        assert moved[0] != moved[1]
    for corners in (Bezier(max_corners=64), Bezier(min_corners=3, max_corners=3)):
        for d in (0.0, 1.0):
            GateGenConfig(num_envs=1, device="cpu", generator=corners, num_gates=8).at_difficulty(d)


def test_value_kinds_and_masks():
    values = np.linspace(0.0, 1.0, 6)
    tables = []
    for value in (
        values,
        torch.from_numpy(values.astype(np.float32)),
        wp.array(values, dtype=wp.float32, device="cpu"),
    ):
        generator = make_gates(6)
        generator.set_difficulty(value)
        tables.append(generator.parameters.array.numpy().copy())
    assert tables[0].tobytes() == tables[1].tobytes() == tables[2].tobytes()
    np.testing.assert_allclose(tables[0][:, 0, 0], 1.2 - 0.6 * values, rtol=1e-6)
    np.testing.assert_allclose(tables[0][:, 2, 1], 75.0 + 60.0 * values, rtol=1e-6)
    generator = make_gates(6)
    before = generator.parameters.array.numpy().copy()
    mask = np.array([True, False, True, False, False, False])
    generator.set_difficulty(0.5, mask=mask)
    after = generator.parameters.array.numpy()
    assert after[~mask].tobytes() == before[~mask].tobytes()
    changed = (after[mask] != before[mask]).any(axis=(0, 2))
    names = [n for n, c in zip(generator.parameters.names, changed, strict=True) if c]
    assert names == ["gate_width", "max_turn", "min_corner_distance"]


def test_a_whole_curriculum_step_can_be_one_graph():
    """Difficulty, episodes and courses in the caller's graph, by arrays on the device."""
    generator, twin = make_gates(8, ordering="random"), make_gates(8, ordering="random")
    values = wp.zeros(8, dtype=wp.float32, device="cpu")
    mask = wp.zeros(8, dtype=wp.bool, device="cpu")
    for one in (generator, twin):
        one.generate()
        one.set_difficulty(values, mask)
    with wp.ScopedCapture(device="cpu") as capture:
        generator.set_difficulty(values, mask)
        generator.rng.advance(mask)
        generator.generate(mask)
    for k in range(3):
        host = np.linspace(0.0, 0.5 * k, 8).astype(np.float32)
        chosen = np.arange(8) % (k + 1) == 0
        values.assign(host)
        mask.assign(chosen)
        wp.capture_launch(capture.graph)
        twin.set_difficulty(host, chosen)
        twin.rng.advance(chosen)
        twin.generate(chosen)
        assert raw_bytes(generator.gates) == raw_bytes(twin.gates)


def test_nonsense():
    generator = make_gates(4)
    for value in (-0.1, 1.5, np.nan, np.array([0.1, 0.2, 0.3, 1.1])):
        with pytest.raises(ValueError, match=r"GateGenerator.set_difficulty\(value\) must be in"):
            generator.set_difficulty(value)
    with pytest.raises(ValueError, match="shape"):
        generator.set_difficulty(np.array([0.1, 0.2]))
    with pytest.raises(TypeError, match="must be a Warp array"):
        generator.set_difficulty("hard")
    generator.set_difficulty(wp.array([0.0, np.nan, 1.5, -0.5], dtype=wp.float32, device="cpu"))
    status = generator.generate().status.numpy()
    assert status[0] == 0 and ((status[1:] & int(GateStatus.PARAMETER)) != 0).all()
    generator.set_difficulty(0.5)
    assert generator.generate().valid.numpy().all()


def test_max_turn_is_a_limit_of_each_env():
    """Drawn per env, held by the course, and an env with too little of it says so."""
    generator = make_gates(64, generator="polar", max_turn=(60.0, 150.0), num_gates=9)
    gates = generator.generate()
    assert gates.valid.numpy().all()
    limits = generator._buffers.knobs.numpy()[:, 2]
    assert np.ptp(limits) > 60.0
    p = gates.position.numpy()[:, :9, :2]
    ahead, behind = np.roll(p, -1, 1) - p, p - np.roll(p, 1, 1)
    cross = behind[..., 0] * ahead[..., 1] - behind[..., 1] * ahead[..., 0]
    turns = np.degrees(np.abs(np.arctan2(cross, (behind * ahead).sum(-1)))).max(1)
    assert (turns <= limits + 0.01).all()
    assert turns.max() > 100.0
    generator.parameters.set("max_turn", np.where(np.arange(64) < 3, 38.0, 120.0))
    status = generator.generate().status.numpy()
    assert ((status[:3] & int(GateStatus.TURN)) != 0).all() and (status[3:] == 0).all()
