"""Views for other libraries share memory, follow ``generate()`` and outlive their owner."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from conftest import make
from track_gen import GateGenConfig, GateGenerator, PerEnvSeededRNG


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


def gates():
    """A batch of gate courses."""
    config = GateGenConfig(num_envs=3, device="cpu")
    return GateGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=3, device="cpu")).generate()


@pytest.mark.parametrize("batch", [lambda: make(num_envs=3).generate(), gates])
def test_jax_views_share_memory_and_keep_it_alive(batch):
    pytest.importorskip("jax")
    published = batch()
    views = published.jax()
    assert set(views) == set(published.arrays())
    copies = published.numpy()
    for name, array in published.arrays().items():
        assert views[name].shape == copies[name].shape, name
        assert np.asarray(views[name]).tobytes() == copies[name].tobytes(), name
        assert views[name].unsafe_buffer_pointer() == array.ptr, name
    del published, array
    gc.collect()
    blocks = [np.full(copies[name].shape, -1, copies[name].dtype) for name in copies] * 20
    for name, view in views.items():
        assert np.asarray(view).tobytes() == copies[name].tobytes(), name
    assert len(blocks) == 20 * len(copies)


def test_jax_computes_on_views():
    jnp = pytest.importorskip("jax.numpy")
    generator = make(num_envs=3)
    track = generator.generate()
    first = track.jax()
    turned = float(jnp.nansum(first["curvature"][0]) * first["length"][0] / first["count"][0])
    assert turned == pytest.approx(2.0 * np.pi, abs=1e-3)
    generator.rng.advance()
    center = generator.generate().jax()["center"]
    assert np.asarray(center).tobytes() == track.center.numpy().tobytes()
