"""Views for other libraries share memory, follow ``generate()`` and outlive their owner."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from conftest import make


def test_torch_views_follow_generate():
    generator = make(num_envs=3)
    track = generator.generate()
    views = track.torch()
    assert set(views) == set(track.arrays())
    first, kept = views["center"].clone(), track.clone()
    address = views["center"].data_ptr()
    generator.rng.advance()
    generator.generate()
    assert address == views["center"].data_ptr() == track.center.ptr
    assert not torch.equal(views["center"].nan_to_num(), first.nan_to_num())
    assert torch.equal(kept.torch()["center"].nan_to_num(), first.nan_to_num())
    assert views["valid"].dtype is torch.bool and views["center"].shape == (3, track.N_max, 3)


def test_torch_views_keep_the_memory_alive():
    generator = make(num_envs=3)
    views = generator.generate().torch()
    copies = {name: view.clone() for name, view in views.items()}
    del generator
    gc.collect()
    blocks = [np.full(views["center"].shape, -1.0, np.float32) for _ in range(50)]
    for name, view in views.items():
        assert view.numpy().tobytes() == copies[name].numpy().tobytes()
    assert len(blocks) == 50


def test_numpy_copies():
    generator = make(num_envs=3)
    track = generator.generate()
    copies = track.numpy()
    first = copies["center"].copy()
    generator.rng.advance()
    generator.generate()
    assert copies["center"].tobytes() == first.tobytes()


def test_masks_are_torch_tensors_too():
    generator = make(num_envs=4)
    track = generator.generate()
    before = track.numpy()["center"]
    generator.rng.advance()
    generator.generate(torch.tensor([True, False, True, False]))
    after = track.numpy()["center"]
    changed = [before[env].tobytes() != after[env].tobytes() for env in range(4)]
    assert changed == [True, False, True, False]


def test_jax_views_share_memory():
    pytest.importorskip("jax")
    track = make(num_envs=3).generate()
    views = track.jax()
    assert set(views) == set(track.arrays())
    for name, array in track.arrays().items():
        assert np.asarray(views[name]).tobytes() == array.numpy().tobytes(), name
    assert views["center"].unsafe_buffer_pointer() == track.center.ptr
