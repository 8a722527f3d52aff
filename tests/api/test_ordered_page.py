"""The page that the product was ordered with: its code blocks, with "cpu" and small batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp

from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator


def test_capture_and_replay_block():
    E = 8
    config = TrackGenConfig(num_envs=E, half_width=0.03, device="cpu")
    rng = PerEnvSeededRNG(seeds=0, num_envs=E, device="cpu")

    gen = TrackGenerator(config, rng)

    # First call: captures the pipeline, replays immediately.
    track = gen.generate()

    # Subsequent calls: replay only (new seeds are written to the seed buffer
    # before each replay).
    rng2 = PerEnvSeededRNG(seeds=42, num_envs=E, device="cpu")
    gen2 = TrackGenerator(config, rng2)  # fresh RNG, same config
    track2 = gen2.generate()  # fast replay

    assert gen.graph is None  # eager on the CPU
    assert track.valid.numpy().all() and track2.valid.numpy().all()
    assert track.center.numpy().tobytes() != track2.center.numpy().tobytes()


def test_clone_block():
    config = TrackGenConfig(num_envs=8, half_width=0.03, device="cpu")
    rng = PerEnvSeededRNG(seeds=0, num_envs=8, device="cpu")
    gen = TrackGenerator(config, rng)

    track = gen.generate()
    saved = track.clone()  # independent copy; safe to store across generate()
    first = {name: array.numpy().tobytes() for name, array in saved.arrays().items()}

    rng.set_seeds_warp(wp.array(np.arange(8) + 50, dtype=wp.int32, device="cpu"), None)
    track = gen.generate()  # overwrites gen's internal buffers
    # saved still holds the first batch's data
    assert {name: array.numpy().tobytes() for name, array in saved.arrays().items()} == first
    assert track.center.numpy().tobytes() != first["center"]
    assert track.center.ptr != saved.center.ptr


@pytest.mark.parametrize("capture", [None, True])
def test_step_loop_block(capture):
    E, device = 8, "cpu"
    config = TrackGenConfig(num_envs=E, half_width=0.03, device=device)
    rng = PerEnvSeededRNG(seeds=0, num_envs=E, device=device)
    gen = TrackGenerator(config, rng, capture=capture)

    # First reset — first call captures the CUDA graph.
    track = gen.generate()

    center = wp.to_torch(track.center).view(E, config.N_max, 3)
    outer = wp.to_torch(track.outer).view(E, config.N_max, 3)
    inner = wp.to_torch(track.inner).view(E, config.N_max, 3)
    valid = wp.to_torch(track.valid).bool()
    count = wp.to_torch(track.count)
    pointers = [tensor.data_ptr() for tensor in (center, outer, inner)]
    same_track = track

    # --- Sim step loop ---
    previous = None
    for episode in range(5):
        # Work with the current tracks.  All views above stay valid until the
        # next generate() call.  Clone if you need them to survive past that.
        obs = center[:, : int(count.max()), :]  # example: max-length slice
        assert obs.shape[2] == 3
        for env in range(E):
            assert torch.isfinite(center[env, : count[env]]).all()
            assert torch.isnan(center[env, count[env] :]).all()
        assert valid.all()

        # On episode boundary: generate a fresh batch (fast CUDA graph replay).
        new_seeds = wp.array(episode + 1 + np.arange(E), dtype=wp.int32, device=device)
        rng.set_seeds_warp(new_seeds, None)
        track = gen.generate()

        assert track is same_track
        assert [tensor.data_ptr() for tensor in (center, outer, inner)] == pointers
        assert center.data_ptr() == track.center.ptr
        if previous is not None:
            # The loop's seeds shift the batch by one env each episode, as the docs say.
            assert torch.equal(torch.nan_to_num(center[:-1]), torch.nan_to_num(previous[1:]))
        previous = center.clone()


def test_cache_block():
    E = 8
    config = TrackGenConfig(
        num_envs=E,
        half_width=0.03,
        relax_sep_every=40,
        relax_sep_cache_slots=16,
        relax_sep_cache_skin=0.0,
        device="cpu",
    )
    gen = TrackGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=E, device="cpu"))
    assert gen.generate().valid.numpy().all()
    assert gen.cache_overflow.shape == (E,)


def test_cpu_fallback_block():
    E = 8
    config_cpu = TrackGenConfig(num_envs=E, half_width=0.03, device="cpu")
    rng_cpu = PerEnvSeededRNG(seeds=0, num_envs=E, device="cpu")
    gen_cpu = TrackGenerator(config_cpu, rng_cpu)
    track_cpu = gen_cpu.generate()  # eager, no graph
    assert gen_cpu.graph is None
    assert track_cpu.valid.numpy().all()


def test_fixed_batch():
    gen = TrackGenerator(
        TrackGenConfig(num_envs=4, half_width=0.03, device="cpu"),
        PerEnvSeededRNG(seeds=0, num_envs=4, device="cpu"),
    )
    first = gen.generate().center.numpy().tobytes()
    assert gen.generate(4).center.numpy().tobytes() == first
    with pytest.raises(ValueError, match="construct a new TrackGenerator"):
        gen.generate(5)
    with pytest.raises(TypeError):
        gen.generate(True)
    with pytest.raises(ValueError, match="num_envs"):
        TrackGenerator(gen.config, PerEnvSeededRNG(seeds=0, num_envs=5, device="cpu"))
