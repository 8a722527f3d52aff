"""One suite over every family: what design promises of all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp

from conftest import FAMILIES, make, raw_bytes, spec
from track_gen import PerEnvSeededRNG, TrackStatus

pytestmark = pytest.mark.parametrize("name", FAMILIES)


def seeds_of(*values):
    return np.array(values, dtype=np.int32)


def test_same_object_same_addresses_same_bytes(name, device):
    generator = make(generator=name, device=device)
    track = generator.generate()
    pointers = {key: array.ptr for key, array in track.arrays().items()}
    first = raw_bytes(track)
    again = generator.generate()
    assert again is track
    assert {key: array.ptr for key, array in again.arrays().items()} == pointers
    assert raw_bytes(again) == first
    assert track.valid.numpy().all()


def test_small_batch_is_a_prefix_of_a_large_one(name, device):
    small = make(generator=name, num_envs=4, device=device).generate()
    large = make(generator=name, num_envs=64, device=device).generate()
    assert raw_bytes(small) == raw_bytes(large, slice(0, 4))


def test_a_seed_gives_the_same_track_in_any_row_and_with_any_threads(name):
    values = np.random.default_rng(7).integers(-(2**31), 2**31, 13).astype(np.int32)
    order = np.random.default_rng(8).permutation(13)
    one = make(generator=name, num_envs=13, seeds=values, num_threads=1).generate()
    for threads in (2, 3, 8):
        other = make(generator=name, num_envs=13, seeds=values[order], num_threads=threads)
        assert raw_bytes(other.generate()) == raw_bytes(one, order)


def test_seeds_0_and_1_share_no_track(name):
    batches = [make(generator=name, num_envs=64, seeds=seed).generate() for seed in (0, 1)]
    seen = set()
    for batch in batches:
        for row in batch.numpy()["center"]:
            assert row.tobytes() not in seen
            seen.add(row.tobytes())


def test_extreme_seeds_behave(name):
    track = make(
        generator=name, num_envs=5, seeds=seeds_of(2**31 - 1, 0, -1, -(2**31), 1)
    ).generate()
    assert track.valid.numpy().all()
    assert len({row.tobytes() for row in track.numpy()["center"]}) == 5
    for base in (-1, 2**31 - 1, 2**64 + 5):
        assert make(generator=name, num_envs=2, seeds=base).generate().valid.numpy().all()


def test_row_does_not_matter(name):
    """All rows of one seed are the same track, beside any others."""
    track = make(generator=name, num_envs=6, seeds=seeds_of(9, 9, 3, 9, 4, 9)).generate()
    rows = track.numpy()["center"]
    for row in (1, 3, 5):
        assert rows[row].tobytes() == rows[0].tobytes()


def test_advance_gives_new_tracks_and_set_seeds_the_old_ones(name):
    generator = make(generator=name)
    first = raw_bytes(generator.generate())
    seeds = generator.rng.seeds_warp.numpy().copy()
    seen = {first["center"]}
    for _ in range(3):
        generator.rng.advance()
        seen.add(raw_bytes(generator.generate())["center"])
    assert len(seen) == 4
    generator.rng.set_seeds_warp(seeds, None)
    assert raw_bytes(generator.generate()) == first


MASKS = {
    "last row": [False, False, False, False, True],
    "first row": [True, False, False, False, False],
    "none": [False] * 5,
    "all": [True] * 5,
    "mixed": [False, True, False, True, True],
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("capture", [False, True])
def test_masked_regeneration_leaves_other_rows_alone(name, mask, capture):
    if capture and not spec(name).capturable:
        pytest.skip("not capturable")
    chosen = np.array(MASKS[mask])
    generator = make(generator=name, num_envs=5, capture=capture)
    track = generator.generate()
    poison(track)
    before = track.numpy()
    generator.rng.advance()
    generator.generate(chosen)
    after = track.numpy()
    fresh_generator = make(generator=name, num_envs=5, capture=False)
    fresh_generator.rng.advance()
    fresh = fresh_generator.generate().numpy()
    for key in before:
        assert after[key][~chosen].tobytes() == before[key][~chosen].tobytes(), key
        assert after[key][chosen].tobytes() == fresh[key][chosen].tobytes(), key


def poison(track):
    """Fill the batch with recognisable bytes."""
    for array in track.arrays().values():
        if array.dtype is wp.bool:
            array.fill_(True)
        elif array.dtype is wp.int32:
            array.fill_(-77)
        elif array.dtype is wp.float32:
            array.fill_(np.float32(-7.5))
        else:
            array.fill_(wp.vec3f(1.5, -2.5, 3.5))


def test_mask_kinds_agree(name):
    chosen = np.array([True, False, True, False, False, True, False, False])
    results = []
    for mask in (
        chosen,
        wp.array(chosen, dtype=wp.bool, device="cpu"),
        torch.from_numpy(chosen),
    ):
        generator = make(generator=name)
        generator.generate()
        generator.rng.advance()
        results.append(raw_bytes(generator.generate(mask)))
        assert chosen.tolist() == [True, False, True, False, False, True, False, False]
    assert results[0] == results[1] == results[2]


def test_one_env(name):
    generator = make(generator=name, num_envs=1)
    first = raw_bytes(generator.generate())
    generator.rng.advance(np.array([False]))
    assert raw_bytes(generator.generate(np.array([True]))) == first
    assert raw_bytes(generator.generate(np.array([False]))) == first


def test_rows_never_generated_say_so(name):
    generator = make(generator=name, num_envs=4)
    track = generator.generate(np.array([False, True, False, False]))
    arrays = track.numpy()
    for row in (0, 2, 3):
        assert arrays["status"][row] == int(TrackStatus.NOT_GENERATED)
        assert arrays["count"][row] == 0
        assert not arrays["valid"][row]
        assert np.isnan(arrays["center"][row]).all()
    assert arrays["valid"][1]


def test_published_arrays_are_consistent(name):
    """Recompute everything from the center line, for every row, after a partial reset too."""
    generator = make(generator=name, num_envs=16)
    generator.generate()
    generator.rng.advance()
    track = generator.generate(np.arange(16) % 3 == 0)
    arrays = track.numpy()
    for env in range(16):
        n = arrays["count"][env]
        for key in ("center", "outer", "inner", "tangent", "normal", "arclen", "curvature"):
            assert np.isnan(arrays[key][env, n:]).all(), key
            assert np.isfinite(arrays[key][env, :n]).all(), key
        center = arrays["center"][env, :n].astype(np.float64)
        edges = np.roll(center, -1, 0) - center
        lengths = np.linalg.norm(edges, axis=1)
        length = lengths.sum()
        half_width = arrays["half_width"][env]
        assert arrays["length"][env] == pytest.approx(length, rel=1e-5)
        assert arrays["spacing"][env] == pytest.approx(length / n, rel=1e-5)
        assert np.abs(lengths / (length / n) - 1).max() < 0.01
        np.testing.assert_allclose(
            arrays["arclen"][env, :n], np.r_[0, np.cumsum(lengths)[:-1]], atol=1e-5 * length
        )
        turn = np.arctan2(
            np.roll(edges, 1, 0)[:, 0] * edges[:, 1] - np.roll(edges, 1, 0)[:, 1] * edges[:, 0],
            (np.roll(edges, 1, 0)[:, :2] * edges[:, :2]).sum(1),
        )
        mean_edge = 0.5 * (lengths + np.roll(lengths, 1))
        np.testing.assert_allclose(
            arrays["curvature"][env, :n] * half_width, turn / mean_edge * half_width, atol=2e-3
        )
        assert turn.sum() == pytest.approx(2 * np.pi * arrays["winding"][env], abs=1e-3)
        assert arrays["winding"][env] == 1
        chord = np.roll(center, -1, 0) - np.roll(center, 1, 0)
        tangent = chord / np.linalg.norm(chord, axis=1, keepdims=True)
        np.testing.assert_allclose(arrays["tangent"][env, :n], tangent, atol=1e-4)
        normal = np.c_[-tangent[:, 1], tangent[:, 0], np.zeros(n)]
        np.testing.assert_allclose(arrays["normal"][env, :n], normal, atol=1e-4)
        np.testing.assert_allclose(
            arrays["inner"][env, :n], center + half_width * normal, atol=1e-4 * half_width + 1e-6
        )
        np.testing.assert_allclose(
            arrays["outer"][env, :n], center - half_width * normal, atol=1e-4 * half_width + 1e-6
        )
        lines = np.concatenate([arrays[k][env, :n] for k in ("center", "outer", "inner")])
        assert np.abs(lines.min(0) + lines.max(0)).max() < 1e-4


@pytest.mark.parametrize("direction", ["ccw", "cw", "random"])
def test_direction(name, direction):
    track = make(generator=name, num_envs=32, direction=direction).generate()
    winding = track.winding.numpy()
    arrays = track.numpy()
    assert arrays["valid"].all()
    for env in range(32):
        n = arrays["count"][env]
        x, y = arrays["center"][env, :n, 0], arrays["center"][env, :n, 1]
        area = 0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum()
        assert np.sign(area) == winding[env]

        def enclosed(line, n=n, env=env):
            border = arrays[line][env, :n]
            return abs(
                (
                    border[:, 0] * np.roll(border[:, 1], -1)
                    - border[:, 1] * np.roll(border[:, 0], -1)
                ).sum()
            )

        assert enclosed("outer") > enclosed("inner")
    if direction == "random":
        assert 4 < (winding == 1).sum() < 28
    else:
        assert (winding == (1 if direction == "ccw" else -1)).all()


def test_scale_invariance(name):
    base = make(generator=name, num_envs=16).generate().numpy()
    for factor in (1e-3, 1e3):
        track = make(generator=name, num_envs=16, half_width=0.1 * factor, scale=factor).generate()
        arrays = track.numpy()
        assert (arrays["status"] == base["status"]).all()
        assert (arrays["count"] == base["count"]).mean() > 0.8
        np.testing.assert_allclose(arrays["length"], base["length"] * factor, rtol=0.05)


def test_small_n_max_overflows_and_never_truncates(name):
    with pytest.warns(UserWarning, match="N_max"):
        generator = make(generator=name, num_envs=32, N_max=60, half_width=0.05)
    arrays = generator.generate().numpy()
    overflow = (arrays["status"] & int(TrackStatus.OVERFLOW)) != 0
    assert overflow.any()
    assert (arrays["count"][overflow] == 0).all()
    assert (arrays["required_count"][overflow] > 60).all()
    assert not arrays["valid"][overflow].any()
    assert np.isnan(arrays["center"][overflow]).all()
    assert (arrays["required_count"][~overflow] <= 60).all()
    assert generator.report().reasons["OVERFLOW"] == overflow.sum()


def test_half_width_range_is_drawn_per_env_and_not_per_attempt(name):
    track = make(generator=name, num_envs=64, half_width=(0.03, 0.08), N_max=1024).generate()
    half_width = track.half_width.numpy()
    assert half_width.min() >= 0.03 and half_width.max() <= np.float32(0.08)
    assert half_width.std() > 0.008
    assert track.valid.numpy().all()
    np.testing.assert_allclose(track.spacing.numpy() / half_width, 0.6, atol=0.06)


def test_device_parameters_that_make_no_sense_are_reported(name):
    generator = make(generator=name, num_envs=4)
    table = generator.parameters.array.numpy()
    table[1, 0] = np.nan
    table[2, 1] = (-1.0, -1.0)
    table[3, 0] = (0.2, 0.1)
    generator.parameters.array.assign(table)
    arrays = generator.generate().numpy()
    assert arrays["valid"].tolist() == [True, False, False, False]
    assert (arrays["status"][1:] == int(TrackStatus.PARAMETER)).all()
    assert np.isnan(arrays["center"][1:]).all()
    assert (arrays["count"][1:] == 0).all()


def test_callers_arrays_are_unchanged(name):
    seeds = seeds_of(*range(8))
    given = wp.array(seeds, dtype=wp.int32, device="cpu")
    generator = make(generator=name, seeds=given)
    mask = wp.array([True] * 8, dtype=wp.bool, device="cpu")
    for _ in range(2):
        generator.rng.advance(mask)
        generator.generate(mask)
    assert given.numpy().tolist() == seeds.tolist()
    assert mask.numpy().all()


def test_global_random_state_is_untouched(name):
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    numpy_state = np.random.get_state()[1].tobytes()  # noqa: NPY002
    torch_state = torch.get_rng_state().clone()
    make(generator=name).generate()
    assert np.random.get_state()[1].tobytes() == numpy_state  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_captured_equals_eager_over_replays(name):
    """Outputs are poisoned before each replay, so a launch missing from the graph shows."""
    if not spec(name).capturable:
        generator = make(generator=name)
        generator.generate()
        assert generator.graph is None
        with pytest.raises(ValueError, match="cannot be captured"):
            make(generator=name, capture=True)
        return
    captured = make(generator=name, num_envs=16, capture=True)
    eager = make(generator=name, num_envs=16, capture=False)
    masks = [None, np.arange(16) % 2 == 0, np.arange(16) % 5 == 0]
    captured.generate()
    eager.generate()
    graph = captured.graph
    assert graph is not None and eager.graph is None
    for round_index, mask in enumerate(masks):
        for generator in (captured, eager):
            poison(generator.track)
            generator.rng.set_seeds_warp(np.arange(16, dtype=np.int32) + 100 * round_index, None)
            generator.generate(mask)
        assert captured.graph is graph
        assert raw_bytes(captured.track) == raw_bytes(eager.track)


def test_impossible_settings_end_invalid_with_a_reason(name):
    generator = make(generator=name, num_envs=4, half_width=1.0, max_attempts=3)
    arrays = generator.generate().numpy()
    assert (arrays["attempts"] <= 3).all()
    assert ((arrays["status"] != 0) == ~arrays["valid"]).all()
    for env in range(4):
        if not arrays["valid"][env]:
            assert arrays["attempts"][env] == 3


@pytest.mark.parametrize("knob", [0, 1, 2, 3])
def test_pairs_of_every_knob(name, knob):
    """min == max and a real pair work for every continuous knob; invalid envs have a reason."""
    generator = make(generator=name, num_envs=8)
    if knob + 2 >= len(generator.parameters.knobs):
        pytest.skip("no such knob")
    column = generator.parameters.knobs[knob + 2]
    low, high = generator.parameters.get(column.name)[0].tolist()
    generator.parameters.set(column.name, (low, high))
    first = raw_bytes(generator.generate())
    assert first == raw_bytes(make(generator=name, num_envs=8).generate())
    generator.parameters.set(column.name, (low, low))
    assert generator.generate().valid.numpy().all()
    least = column.low + 1e-3 if column.low_open else column.low
    generator.parameters.set(column.name, (least, min(column.high, 1e3)))
    arrays = generator.generate().numpy()
    assert ((arrays["status"] == 0) == arrays["valid"]).all()
    assert not (arrays["status"] & int(TrackStatus.PARAMETER)).any()


def test_report(name):
    generator = make(generator=name, num_envs=16)
    generator.generate()
    report = generator.report()
    assert report.num_envs == 16 and report.num_valid == 16 and report.yield_rate == 1.0
    assert report.attempts_mean >= 1.0 and report.reasons == {}


def test_state_dict_restores_bit_for_bit(name):
    generator = make(generator=name)
    generator.rng.advance()
    generator.parameters.set("half_width", (0.05, 0.1))
    state = generator.state_dict()
    first = raw_bytes(generator.generate())
    other = make(generator=name, seeds=5)
    other.load_state_dict(state)
    assert raw_bytes(other.generate()) == first


def test_rng_is_read_at_each_call(name):
    generator = make(generator=name, num_envs=3)
    generator.generate()
    generator.rng.set_seeds_warp(seeds_of(11), [2])
    generator.rng.set_seeds_warp(seeds_of(12), [0])
    first = generator.generate().numpy()["center"]
    alone = make(generator=name, num_envs=1, seeds=seeds_of(11)).generate().numpy()["center"]
    assert first[2].tobytes() == alone[0].tobytes()
    assert isinstance(generator.rng, PerEnvSeededRNG)
