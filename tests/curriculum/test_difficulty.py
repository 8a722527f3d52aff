"""Difficulty: monotone metrics, edits on the device, masks, captures, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import warp as wp

from conftest import FAMILIES, family, make, raw_bytes, spec
from track_gen import Bezier, Mixture, PerEnvSeededRNG, Polar, TrackGenerator, TrackStatus
from track_gen.runtime import TrackMetrics

STEPS = np.linspace(0.0, 1.0, 11)
ROUND = {"library", "superellipse"}
"""Families without a knob for their shape: only the road gets narrower."""


@pytest.mark.parametrize("name", FAMILIES)
def test_narrowness_and_twistiness_rise_with_difficulty(name):
    """Over 11 steps the mean of each never falls, and every track is valid."""
    E = {"serpentine": 48, "repulsive": 24}.get(name, 160)
    generator = make(generator=name, num_envs=E, N_max=1024)
    metrics = TrackMetrics(generator.track)
    width, turning, tightest = [], [], []
    for step in STEPS:
        generator.set_difficulty(float(step))
        track = generator.generate()
        assert track.valid.numpy().all()
        metrics.update()
        width.append(track.half_width.numpy().mean())
        turns = metrics.mean_abs_curvature.numpy() * metrics.length.numpy() / (2.0 * np.pi)
        turning.append(turns.mean())
        tightest.append(metrics.max_curvature.numpy().mean())
    np.testing.assert_allclose(width, 0.1 * (1.0 - 0.5 * STEPS), rtol=1e-5)
    assert tightest[-1] > 1.02 * tightest[0]
    if name in ROUND:
        assert (np.diff(turning) > -0.005).all(), turning
    else:
        assert (np.diff(turning) > 0.0).all(), turning
        assert turning[-1] > 1.25 * turning[0]


@pytest.mark.parametrize("name", ["bezier", "library", "mixture"])
@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_equals_the_configuration_at_that_difficulty(name, value):
    generator = make(generator=name, num_envs=12, half_width=(0.08, 0.1), N_max=1024)
    generator.set_difficulty(value)
    config = generator.config.at_difficulty(value)
    rng = PerEnvSeededRNG(seeds=0, num_envs=12, device="cpu")
    fresh = TrackGenerator(config, rng)
    np.testing.assert_allclose(
        fresh.parameters.array.numpy(), generator.parameters.array.numpy(), rtol=1e-6, atol=1e-7
    )
    for side, at in ((0, 0.0), (1, 1.0)):
        if value == at:
            assert raw_bytes(fresh.generate()) == raw_bytes(generator.generate()), side


def test_value_kinds_and_masks():
    values = np.linspace(0.0, 1.0, 6)
    tables = []
    for value in (
        values,
        torch.from_numpy(values.astype(np.float32)),
        wp.array(values, dtype=wp.float32, device="cpu"),
    ):
        generator = make(num_envs=6, N_max=1024)
        generator.set_difficulty(value)
        tables.append(generator.parameters.array.numpy().copy())
    assert tables[0].tobytes() == tables[1].tobytes() == tables[2].tobytes()
    half_width = tables[0][:, 0, :]
    np.testing.assert_allclose(half_width, np.c_[values, values] * -0.05 + 0.1, rtol=1e-6)

    generator = make(num_envs=6, N_max=1024)
    before = generator.parameters.array.numpy().copy()
    mask = np.array([True, False, True, False, False, False])
    generator.set_difficulty(0.5, mask=mask)
    after = generator.parameters.array.numpy()
    assert after[~mask].tobytes() == before[~mask].tobytes()
    changed = (after[mask] != before[mask]).any(axis=(0, 2))
    names = [n for n, c in zip(generator.parameters.names, changed, strict=True) if c]
    assert names == ["half_width", "rad", "handle_clamp"]
    assert set(generator.config.difficulty_ranges(0.5)) == set(names)


def test_edits_between_replays_of_a_graph_change_exactly_the_masked_envs():
    generator = make(num_envs=12, N_max=1024, capture=True)
    track = generator.generate()
    graph = generator.graph
    mask = np.arange(12) % 3 == 0
    before = track.numpy()
    generator.set_difficulty(1.0)  # for all, but only the masked ones are regenerated
    generator.generate(mask)
    assert generator.graph is graph
    after = track.numpy()
    np.testing.assert_allclose(after["half_width"], np.where(mask, 0.05, 0.1), rtol=1e-6)
    for key in before:
        assert after[key][~mask].tobytes() == before[key][~mask].tobytes()
    eager = make(num_envs=12, N_max=1024, capture=False)
    eager.generate()
    eager.set_difficulty(1.0)
    assert raw_bytes(eager.generate(mask)) == raw_bytes(track)


def test_a_whole_curriculum_step_can_be_one_graph():
    """Difficulty, episodes and tracks in the caller's graph, by arrays on the device."""
    generator = make(num_envs=8, N_max=1024)
    generator.generate()
    values = wp.zeros(8, dtype=wp.float32, device="cpu")
    mask = wp.zeros(8, dtype=wp.bool, device="cpu")
    generator.set_difficulty(values, mask)
    with wp.ScopedCapture(device="cpu") as capture:
        generator.set_difficulty(values, mask)
        generator.parameters.set("scale", 1.5, mask)
        generator.rng.advance(mask)
        generator.generate(mask)
    twin = make(num_envs=8, N_max=1024)
    twin.generate()
    for k in range(3):
        host = np.linspace(0.0, 0.3 * k, 8).astype(np.float32)
        chosen = np.arange(8) % (k + 1) == 0
        values.assign(host)
        mask.assign(chosen)
        wp.capture_launch(capture.graph)
        twin.set_difficulty(host, chosen)
        twin.parameters.set("scale", 1.5, chosen)
        twin.rng.advance(chosen)
        twin.generate(chosen)
        assert raw_bytes(generator.track) == raw_bytes(twin.track)


def test_hot_path_allocates_nothing(monkeypatch):
    generator = make(num_envs=8, N_max=1024)
    values = wp.full(8, 0.5, dtype=wp.float32, device="cpu")
    mask = wp.full(8, True, dtype=wp.bool, device="cpu")
    generator.generate(mask)
    generator.set_difficulty(values, mask)

    def forbidden(*args, **kwargs):
        raise AssertionError("allocates or synchronises")

    for name in ("empty", "zeros", "full", "clone", "synchronize", "synchronize_device"):
        monkeypatch.setattr(wp, name, forbidden)
    monkeypatch.setattr(wp.array, "numpy", forbidden)
    monkeypatch.setattr(wp.array, "__init__", forbidden)
    generator.set_difficulty(values, mask)
    generator.set_difficulty(0.25)
    generator.parameters.set("rad", (0.2, 0.4), mask)
    generator.parameters.set("half_width", values)


def test_nonsense():
    generator = make(num_envs=4, N_max=1024)
    for value in (-0.1, 1.5, np.nan, np.array([0.1, 0.2, 0.3, 1.1])):
        with pytest.raises(ValueError, match=r"set_difficulty\(value\) must be in \[0, 1\]"):
            generator.set_difficulty(value)
    with pytest.raises(ValueError, match="shape"):
        generator.set_difficulty(np.array([0.1, 0.2]))
    with pytest.raises(TypeError, match="must be a Warp array"):
        generator.set_difficulty("hard")
    device_values = wp.array([0.0, np.nan, 1.5, -0.5], dtype=wp.float32, device="cpu")
    generator.set_difficulty(device_values)
    status = generator.generate().status.numpy()
    assert status.tolist() == [0] + [int(TrackStatus.PARAMETER)] * 3
    generator.set_difficulty(0.5)
    assert generator.generate().valid.numpy().all()


def test_small_n_max_warns_once_and_fixed_spacing_is_refused():
    generator = make(num_envs=2, N_max=180, generator=Polar())
    with pytest.warns(UserWarning, match=r"at difficulty 1; .* N_max=\d+ suffices"):
        generator.set_difficulty(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generator.set_difficulty(0.2)
    with pytest.raises(ValueError, match="spacing must be in"):
        make(num_envs=2, spacing=0.06).set_difficulty(0.5)
    with pytest.raises(ValueError, match="difficulty"):
        generator.config.at_difficulty(2.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_ranges_are_legal(name):
    own = spec(name)
    settings = family(name)
    settings = own.settings() if isinstance(settings, str) else settings
    knobs = {knob.name: knob for knob in own.knobs_of(settings)}
    for key, ends in own.difficulty_of(settings).items():
        for low, high in ends:
            assert knobs[key].low <= low <= high <= knobs[key].high


def test_mixtures_take_the_ranges_of_their_parts():
    generator = make(num_envs=4, generator=Mixture({Bezier(): 1, Polar(): 2}), N_max=1024)
    generator.set_difficulty(1.0)
    parameters = generator.parameters
    np.testing.assert_allclose(parameters.get("bezier.rad"), [(0.7, 1.0)] * 4)
    np.testing.assert_allclose(parameters.get("polar.radial_jitter"), [(0.7, 0.85)] * 4)
    np.testing.assert_allclose(parameters.get("polar.weight"), [(2.0, 2.0)] * 4)
