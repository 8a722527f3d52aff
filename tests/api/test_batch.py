"""Track: allocation, copies, views; scratch overlays; the parameter table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp

from conftest import make
from track_gen import Track, TrackStatus
from track_gen.batch import overlay_rows, row_slice


def test_allocated_track_is_not_generated():
    track = Track.allocate(3, 20, "cpu")
    assert track.num_envs == 3 and track.N_max == 20 and track.device.is_cpu
    arrays = track.numpy()
    assert np.isnan(arrays["center"]).all()
    assert (arrays["status"] == int(TrackStatus.NOT_GENERATED)).all()
    assert not arrays["valid"].any()
    with pytest.raises(ValueError, match="num_envs"):
        Track.allocate(0, 20, "cpu")


def test_numpy_copies_and_torch_shares():
    generator = make(num_envs=3)
    track = generator.generate()
    copied, shared = track.numpy(), track.torch()
    assert shared["valid"].dtype == torch.bool
    assert shared["center"].shape == (3, 512, 3)
    track.center.fill_(wp.vec3f(1.0, 2.0, 3.0))
    assert copied["center"][0, 0, 0] != 1.0
    assert shared["center"][0, 0].tolist() == [1.0, 2.0, 3.0]


def test_env_trims_and_copies():
    track = make(num_envs=3).generate()
    one = track.env(1)
    assert one.center.shape == (one.count, 3)
    assert one.curvature.shape == (one.count,)
    assert np.isfinite(one.outer).all()
    assert one.valid and one.status == TrackStatus(0)
    kept = one.center.copy()
    track.center.fill_(wp.vec3f())
    np.testing.assert_array_equal(one.center, kept)
    assert track.env(-1).count == track.env(np.int64(2)).count
    for index in (3, -4):
        with pytest.raises(IndexError, match=r"\[-3, 2\]"):
            track.env(index)


def test_overlay_shares_memory_between_templates_but_not_between_rows():
    device = wp.get_device("cpu")

    def template(columns):
        return {
            "a": wp.zeros((1, columns), dtype=wp.float32, device=device),
            "b": wp.zeros((1, 3), dtype=wp.vec2f, device=device),
            "flag": wp.zeros(1, dtype=wp.int32, device=device),
            "shared_table": wp.full(4, 2.5, dtype=wp.float32, device=device),
        }

    first, second = overlay_rows([template(5), template(40)], 7, device)
    for overlay, columns in ((first, 5), (second, 40)):
        assert overlay["a"].shape == (7, columns) and overlay["flag"].shape == (7,)
        assert overlay["shared_table"].numpy().tolist() == [2.5] * 4
    second["a"].fill_(1.0)
    second["b"].fill_(wp.vec2f(2.0, 2.0))
    assert (second["a"].numpy() == 1.0).all() and (second["b"].numpy() == 2.0).all()
    assert (first["a"].numpy() == 1.0).all()  # the same memory
    first["a"][3:4].fill_(9.0)
    changed = (second["a"].numpy() != 1.0).any(axis=1)
    assert changed.tolist() == [row == 3 for row in range(7)]
    assert first["flag"].ptr != second["flag"].ptr


def test_row_slice_views_rows():
    track = Track.allocate(6, 20, "cpu")
    part = row_slice(track, 2, 5)
    assert part.num_envs == 3
    part.count.fill_(8)
    assert track.count.numpy().tolist() == [0, 0, 8, 8, 8, 0]


def test_parameters_set_and_get():
    generator = make(num_envs=4)
    parameters = generator.parameters
    assert parameters.names[:2] == ("half_width", "scale")
    np.testing.assert_allclose(parameters.get("half_width"), np.full((4, 2), 0.1), rtol=1e-6)
    parameters.set("rad", (0.2, 0.6), mask=np.array([True, False, False, True]))
    np.testing.assert_allclose(parameters.get("rad")[0], (0.2, 0.6), rtol=1e-6)
    np.testing.assert_allclose(parameters.get("rad")[1], (0.4, 0.4), rtol=1e-6)
    parameters.set("half_width", np.array([0.05, 0.06, 0.07, 0.08]))
    np.testing.assert_allclose(parameters.get("half_width")[:, 1], [0.05, 0.06, 0.07, 0.08])
    for value in (torch.full((4,), 0.3), wp.full(4, 0.3, dtype=wp.float32, device="cpu")):
        parameters.set("rad", value)
        np.testing.assert_allclose(parameters.get("rad"), 0.3, rtol=1e-6)
    generator.generate()
    np.testing.assert_allclose(generator.track.half_width.numpy(), [0.05, 0.06, 0.07, 0.08])


def test_parameters_reject_nonsense():
    parameters = make(num_envs=4).parameters
    with pytest.raises(KeyError, match=r"Did you mean: 'half_width'\?"):
        parameters.set("halfwidth", 0.1)
    with pytest.raises(ValueError, match="half_width must be finite and > 0, got nan"):
        parameters.set("half_width", np.nan)
    with pytest.raises(ValueError, match="got -1"):
        parameters.set("half_width", np.array([0.1, 0.1, -1.0, 0.1]))
    with pytest.raises(ValueError, match="got nan"):
        parameters.set("half_width", np.array([0.1, 0.1, np.nan, 0.1]))
    with pytest.raises(ValueError, match="shape"):
        parameters.set("half_width", np.array([0.1, 0.1]))
    with pytest.raises(ValueError, match="ordered"):
        parameters.set("scale", (2.0, 1.0))
    with pytest.raises(KeyError, match="expected"):
        parameters.load_state_dict({"half_width": np.ones((4, 2))})


def test_edits_between_replays_change_only_what_is_regenerated():
    generator = make(num_envs=4, capture=True)
    generator.generate()
    before = generator.track.numpy()
    mask = np.array([False, True, False, True])
    generator.parameters.set("half_width", 0.05)
    generator.generate(mask)
    after = generator.track.numpy()
    np.testing.assert_allclose(after["half_width"], [0.1, 0.05, 0.1, 0.05], rtol=1e-6)
    for key in before:
        assert after[key][~mask].tobytes() == before[key][~mask].tobytes()
