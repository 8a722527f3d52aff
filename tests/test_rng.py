from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp

from track_gen.rng import (
    PerEnvSeededRNG,
    Stream,
    draw_int,
    draw_uniform,
    draw_words,
    philox,
    philox_numpy,
    seeds_from_int,
)

wp.set_module_options({"enable_backward": False})

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0)
KNOWN = [
    # (counter, key, words), from kat_vectors of the Random123 library, philox4x32 with 10 rounds.
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI[:4], PI[4:], (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@wp.kernel
def philox_kernel(
    key_in: wp.array2d[wp.uint32], counter_in: wp.array2d[wp.uint32], words_out: wp.array[wp.vec4ui]
):
    i = wp.tid()
    words_out[i] = philox(
        key_in[i, 0],
        key_in[i, 1],
        counter_in[i, 0],
        counter_in[i, 1],
        counter_in[i, 2],
        counter_in[i, 3],
    )


@wp.kernel
def draw_kernel(
    seed_in: wp.array[wp.int32],
    low: int,
    high: int,
    words_out: wp.array[wp.vec4ui],
    uniform_out: wp.array[wp.vec4f],
    int_out: wp.array[wp.int32],
):
    i = wp.tid()
    words_out[i] = draw_words(seed_in[i], 5, 13, 2, i)
    uniform_out[i] = draw_uniform(seed_in[i], 5, 13, 2, i)
    int_out[i] = draw_int(words_out[i][0], low, high)


def device_philox(keys, counters, device="cpu"):
    words = wp.zeros(len(keys), dtype=wp.vec4ui, device=device)
    arrays = [wp.array(a, dtype=wp.uint32, device=device) for a in (keys, counters)]
    wp.launch(philox_kernel, dim=len(keys), inputs=arrays, outputs=[words], device=device)
    return words.numpy()


def test_known_answers_on_the_device(device):
    counters, keys, words = (np.array(part, np.uint32) for part in zip(*KNOWN, strict=True))
    assert (device_philox(keys, counters, device) == words).all()


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers_on_the_host(counter, key, words):
    assert tuple(int(word) for word in philox_numpy(key, counter)) == words


def test_host_and_device_draw_the_same(device):
    rng = np.random.default_rng(1)
    keys = rng.integers(0, 2**32, (500, 2), dtype=np.uint32)
    counters = rng.integers(0, 2**32, (500, 4), dtype=np.uint32)
    host = np.stack(philox_numpy(tuple(keys.T), tuple(counters.T)), axis=1)
    assert (device_philox(keys, counters, device) == host).all()


def draw(num=20000, low=0, high=9, device="cpu"):
    seeds = np.arange(-num // 2, num // 2, dtype=np.int32)
    outputs = [wp.zeros(num, dtype=t, device=device) for t in (wp.vec4ui, wp.vec4f, wp.int32)]
    given = wp.array(seeds, dtype=wp.int32, device=device)
    wp.launch(draw_kernel, num, inputs=[given, low, high], outputs=outputs, device=device)
    return seeds, *(array.numpy() for array in outputs)


def test_a_draw_is_philox_of_seed_episode_and_counter(device):
    seeds, words, uniform, _ = draw(device=device)
    counter = (np.arange(len(seeds)), 13, 2, 0)
    host = np.stack(philox_numpy((seeds.view(np.uint32), 5), counter), axis=1)
    assert (words == host).all()
    assert (uniform == (host >> 8) / 2.0**24).all()


def test_uniform_floats_are_in_range_and_uniform():
    *_, uniform, _ = draw()
    assert uniform.min() >= 0.0
    assert uniform.max() < 1.0
    for column in uniform.T:
        histogram = np.histogram(column, 20, (0.0, 1.0))[0]
        assert np.sum((histogram - 1000.0) ** 2 / 1000.0) < 60.0
    correlation = np.corrcoef(uniform.T) - np.eye(4)
    assert np.abs(correlation).max() < 0.03


@pytest.mark.parametrize(
    ("low", "high"), [(0, 9), (-3, 3), (7, 7), (9, 13), (0, 2**31 - 2), (5, 4), (5, -9)]
)
def test_integers_are_in_range(low, high):
    *_, found = draw(low=low, high=high)
    if high <= low:
        assert (found == low).all()
        return
    assert found.min() >= low
    assert found.max() <= high
    if high - low < 20:
        counts = np.bincount(found - low)
        assert len(counts) == high - low + 1
        expected = len(found) / len(counts)
        assert np.sum((counts - expected) ** 2 / expected) < 60.0


def test_streams_have_distinct_values():
    assert len({int(stream) for stream in Stream}) == len(Stream.__members__)


def test_seeds_from_int_have_no_duplicates_and_a_stable_prefix():
    for base in (0, 1, -1, 2**64 - 1):
        seeds = seeds_from_int(base, 200_000)
        assert seeds.dtype == np.int32
        assert len(np.unique(seeds)) == len(seeds)
        assert (seeds_from_int(base, 100) == seeds[:100]).all()


def test_neighbouring_bases_share_no_seed():
    zero, one = (set(seeds_from_int(base, 4096).tolist()) for base in (0, 1))
    assert not zero & one


def test_a_base_is_taken_mod_2_to_the_64():
    assert (seeds_from_int(2**64 + 5, 50) == seeds_from_int(5, 50)).all()
    assert (seeds_from_int(-1, 50) == seeds_from_int(2**64 - 1, 50)).all()
    seen = {
        seeds_from_int(base, 50).tobytes() for base in (0, 1, -1, 2**31 - 1, -(2**31), 2**32, 2**63)
    }
    assert len(seen) == 7


def test_golden_seeds():
    """What an int seed means; a change is a break for every user."""
    assert seeds_from_int(0, 4).tolist() == [-1638398744, -422576605, -1273955760, 1306383646]
    assert seeds_from_int(42, 4).tolist() == [1766003301, 1398819599, 507597940, -1832234649]


def test_an_array_of_seeds_is_used_verbatim_and_copied(device):
    values = np.array([3, -1, 2**31 - 1, 0], np.int32)
    sources = (values, wp.array(values, dtype=wp.int32, device=device))
    for source in sources:
        rng = PerEnvSeededRNG(seeds=source, num_envs=4, device=device)
        assert rng.seeds_warp.numpy().tolist() == values.tolist()
        rng.set_seeds_warp(np.arange(4, dtype=np.int32))
        rng.advance()
        kept = source.numpy() if isinstance(source, wp.array) else source
        assert kept.tolist() == [3, -1, 2**31 - 1, 0]
    tensor = torch.tensor(values, device=device)
    rng = PerEnvSeededRNG(seeds=tensor, num_envs=4, device=device)
    rng.set_seeds_warp(np.arange(4, dtype=np.int32))
    assert tensor.tolist() == values.tolist()


@pytest.mark.parametrize("kind", ["numpy", "warp", "torch", "list"])
def test_set_some_seeds(kind, device):
    rng = PerEnvSeededRNG(seeds=np.arange(6, dtype=np.int32), num_envs=6, device=device)
    rng.advance()
    ids = [4, 1]
    seeds = np.array([40, -10], np.int32)
    given_ids, given = {
        "numpy": lambda: (np.array(ids, np.int64), seeds),
        "list": lambda: (ids, seeds),
        "warp": lambda: tuple(wp.array(a, dtype=wp.int32, device=device) for a in (ids, seeds)),
        "torch": lambda: tuple(
            torch.tensor(np.array(a, np.int32), device=device) for a in (ids, seeds)
        ),
    }[kind]()
    address = rng.seeds_warp.ptr, rng.episode_warp.ptr
    rng.set_seeds_warp(given, given_ids)
    assert rng.seeds_warp.numpy().tolist() == [0, -10, 2, 3, 40, 5]
    assert rng.episode_warp.numpy().tolist() == [1, 0, 1, 1, 0, 1]
    assert (rng.seeds_warp.ptr, rng.episode_warp.ptr) == address
    assert seeds.tolist() == [40, -10]


def test_set_all_seeds_restarts_all_episodes(device):
    rng = PerEnvSeededRNG(seeds=7, num_envs=3, device=device)
    rng.advance()
    rng.set_seeds_warp(np.array([1, 2, 3], np.int32))
    assert rng.seeds_warp.numpy().tolist() == [1, 2, 3]
    assert rng.episode_warp.numpy().tolist() == [0, 0, 0]


def test_no_ids_set_nothing():
    rng = PerEnvSeededRNG(seeds=7, num_envs=3, device="cpu")
    before = rng.state_dict()
    rng.set_seeds_warp(np.zeros(0, np.int32), [])
    assert (rng.seeds_warp.numpy() == before["seeds"]).all()


def test_device_ids_out_of_range_are_ignored(device):
    rng = PerEnvSeededRNG(seeds=np.zeros(3, np.int32), num_envs=3, device=device)
    ids = wp.array([-1, 1, 3, 2**31 - 1], dtype=wp.int32, device=device)
    rng.set_seeds_warp(wp.array([5, 6, 7, 8], dtype=wp.int32, device=device), ids)
    assert rng.seeds_warp.numpy().tolist() == [0, 6, 0]


def test_advance_with_masks(device):
    rng = PerEnvSeededRNG(seeds=7, num_envs=4, device=device)
    mask = np.array([True, False, False, True])
    rng.advance(mask)
    rng.advance(wp.array(mask, dtype=wp.bool, device=device))
    rng.advance(torch.tensor(mask, device=device))
    rng.advance(np.zeros(4, bool))
    assert rng.episode_warp.numpy().tolist() == [3, 0, 0, 3]
    rng.advance()
    assert rng.episode_warp.numpy().tolist() == [4, 1, 1, 4]
    assert mask.tolist() == [True, False, False, True]


def test_state_is_restored_bit_for_bit(device):
    rng = PerEnvSeededRNG(seeds=7, num_envs=4, device=device)
    rng.advance(np.array([True, False, False, True]))
    state = rng.state_dict()
    rng.advance()
    rng.set_seeds_warp(np.arange(4, dtype=np.int32))
    assert state["episode"].tolist() == [1, 0, 0, 1]
    other = PerEnvSeededRNG(seeds=0, num_envs=4, device=device)
    for target in (rng, other):
        target.load_state_dict(state)
        for key, value in target.state_dict().items():
            assert value.tobytes() == state[key].tobytes()
    state["seeds"][:] = 0
    assert rng.seeds_warp.numpy().any()


def test_errors_of_the_constructor():
    make = PerEnvSeededRNG
    for num_envs in (0, -1, 2**31):
        with pytest.raises(ValueError, match=r"PerEnvSeededRNG\.num_envs must be in \[1, "):
            make(seeds=0, num_envs=num_envs, device="cpu")
    for num_envs in (2.0, True, "2", None):
        with pytest.raises(TypeError, match=r"PerEnvSeededRNG\.num_envs must be an int"):
            make(seeds=0, num_envs=num_envs, device="cpu")
    with pytest.raises(
        ValueError, match=r"PerEnvSeededRNG\.seeds must have shape \(3\), got \(2,\)"
    ):
        make(seeds=np.zeros(2, np.int32), num_envs=3, device="cpu")
    for bad in (np.zeros(3), np.zeros(3, np.int64), torch.zeros(3), wp.zeros(3, dtype=float)):
        with pytest.raises(TypeError, match=r"PerEnvSeededRNG\.seeds must have dtype int32"):
            make(seeds=bad, num_envs=3, device="cpu")
    for bad in (1.5, True, "0", None, [1, 2, 3]):
        with pytest.raises(TypeError, match=r"PerEnvSeededRNG\.seeds"):
            make(seeds=bad, num_envs=3, device="cpu")
    with pytest.raises(ValueError, match="no Warp device 'cuda:99'"):
        make(seeds=0, num_envs=3, device="cuda:99")


def test_errors_of_set_seeds_and_advance():
    rng = PerEnvSeededRNG(seeds=7, num_envs=3, device="cpu")
    before = rng.state_dict()
    two = np.zeros(2, np.int32)
    cases = [
        (two, None, ValueError, r"\(seeds\) must have shape \(3\), got \(2,\)"),
        (two, [0], ValueError, r"\(seeds\) must have shape \(1\), got \(2,\)"),
        (two, [0, 3], ValueError, r"\(ids\) must be in \[0, 2\], got 0 to 3"),
        (two, [-1, 0], ValueError, r"\(ids\) must be in \[0, 2\], got -1 to 0"),
        (two, np.array([1, 1]), ValueError, r"\(ids\) must not repeat a row"),
        (two, [0.0, 1.0], TypeError, r"\(ids\) must be one-dimensional integers"),
        (two, [[0, 1]], TypeError, r"\(ids\) must be one-dimensional integers"),
        (np.zeros(2), [0, 1], TypeError, r"\(seeds\) must have dtype int32"),
        ([1, 2], [0, 1], TypeError, r"\(seeds\) must be a Warp array"),
        (5, None, TypeError, r"\(seeds\) must be a Warp array"),
    ]
    for seeds, ids, kind, message in cases:
        with pytest.raises(kind, match=r"PerEnvSeededRNG\.set_seeds_warp" + message):
            rng.set_seeds_warp(seeds, ids)
    with pytest.raises(ValueError, match=r"advance\(mask\) must have shape \(3\), got \(2,\)"):
        rng.advance(np.ones(2, bool))
    for mask in (np.ones(3, np.int32), [True, True, True], True):
        with pytest.raises(TypeError, match=r"advance\(mask\)"):
            rng.advance(mask)
    with pytest.raises(ValueError, match="must have shape"):
        rng.load_state_dict({"seeds": two, "episode": two})
    with pytest.raises(KeyError):
        rng.load_state_dict({"seeds": before["seeds"]})
    for key, value in rng.state_dict().items():
        assert value.tobytes() == before[key].tobytes()


def test_global_generators_are_left_alone():
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    expected = np.random.random(), torch.rand(1).item()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    rng = PerEnvSeededRNG(seeds=7, num_envs=3, device="cpu")
    rng.advance()
    assert (np.random.random(), torch.rand(1).item()) == expected  # noqa: NPY002
