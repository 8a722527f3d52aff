"""What design promises of every generator, for gate courses of every family."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import warp as wp
from gate_cells import CELLS, FAMILIES, courses, make_gates

from track_gen import (
    Checkpoint,
    GateGenConfig,
    GateGenerator,
    GateSequence,
    GateStatus,
    Hull,
    Mixture,
    PerEnvSeededRNG,
    Polar,
)

families = pytest.mark.parametrize("name", FAMILIES)
ORDERINGS = ("ccw", "random")


def raw_bytes(gates, rows=slice(None)):
    return {name: array[rows].tobytes() for name, array in gates.numpy().items()}


def poison(gates):
    """Fill the batch with recognisable bytes."""
    for array in gates.arrays().values():
        if array.dtype is wp.bool:
            array.fill_(True)
        elif array.dtype is wp.int32:
            array.fill_(-77)
        elif array.dtype is wp.float32:
            array.fill_(np.float32(-7.5))
        elif array.dtype is wp.quatf:
            array.fill_(wp.quatf(1.5, -2.5, 3.5, 4.5))
        else:
            array.fill_(wp.vec3f(1.5, -2.5, 3.5))


@families
def test_same_object_same_addresses_same_bytes(name, device):
    generator = make_gates(generator=name, device=device)
    gates = generator.generate()
    pointers = {key: array.ptr for key, array in gates.arrays().items()}
    first = raw_bytes(gates)
    again = generator.generate()
    assert again is gates
    assert {key: array.ptr for key, array in again.arrays().items()} == pointers
    assert raw_bytes(again) == first
    assert gates.valid.numpy().all()


@families
def test_small_batch_is_a_prefix_of_a_large_one(name, device):
    small = make_gates(4, generator=name, device=device).generate()
    large = make_gates(64, generator=name, device=device).generate()
    assert raw_bytes(small) == raw_bytes(large, slice(0, 4))


@pytest.mark.parametrize("ordering", ORDERINGS)
@families
def test_a_seed_gives_the_same_course_in_any_row_and_with_any_threads(name, ordering):
    values = np.random.default_rng(7).integers(-(2**31), 2**31, 13).astype(np.int32)
    order = np.random.default_rng(8).permutation(13)
    settings = {"generator": name, "ordering": ordering}
    one = make_gates(13, seeds=values, num_threads=1, **settings).generate()
    for threads in (2, 3, 8):
        other = make_gates(13, seeds=values[order], num_threads=threads, **settings)
        assert raw_bytes(other.generate()) == raw_bytes(one, order)


@families
def test_seeds_0_and_1_share_no_course(name):
    seen = set()
    for seed in (0, 1):
        for row in make_gates(64, seeds=seed, generator=name).generate().position.numpy():
            assert row.tobytes() not in seen
            seen.add(row.tobytes())


@families
def test_extreme_seeds_behave(name):
    seeds = np.array([2**31 - 1, 0, -1, -(2**31), 1], np.int32)
    gates = make_gates(5, seeds=seeds, generator=name).generate()
    assert gates.valid.numpy().all()
    assert len({row.tobytes() for row in gates.position.numpy()}) == 5


@families
def test_advance_gives_new_courses_and_set_seeds_the_old_ones(name):
    generator = make_gates(generator=name)
    first = raw_bytes(generator.generate())
    seeds = generator.rng.seeds_warp.numpy().copy()
    seen = {first["position"]}
    for _ in range(3):
        generator.rng.advance()
        seen.add(raw_bytes(generator.generate())["position"])
    assert len(seen) == 4
    generator.rng.set_seeds_warp(seeds, None)
    assert raw_bytes(generator.generate()) == first


MASKS = ([0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0] * 5, [1] * 5, [0, 1, 0, 1, 1])


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize("ordering", ORDERINGS)
@families
def test_masked_regeneration_leaves_other_rows_alone(name, ordering, capture):
    settings = {"generator": name, "ordering": ordering, "elevation": CELLS["hill"]["elevation"]}
    generator = make_gates(5, capture=capture, **settings)
    gates = generator.generate()
    fresh_generator = make_gates(5, **settings)
    for mask in MASKS:
        chosen = np.array(mask, dtype=bool)
        poison(gates)
        before = gates.numpy()
        generator.rng.advance()
        fresh_generator.rng.advance()
        generator.generate(chosen)
        after = gates.numpy()
        fresh = fresh_generator.generate().numpy()
        for key in before:
            assert after[key][~chosen].tobytes() == before[key][~chosen].tobytes(), key
            assert after[key][chosen].tobytes() == fresh[key][chosen].tobytes(), key


def test_mask_kinds_agree():
    chosen = np.array([True, False, True, False, False, True, False, False])
    results = []
    for mask in (
        chosen,
        wp.array(chosen, dtype=wp.bool, device="cpu"),
        torch.from_numpy(chosen),
    ):
        generator = make_gates()
        generator.generate()
        generator.rng.advance()
        results.append(raw_bytes(generator.generate(mask)))
    assert results[0] == results[1] == results[2]


def test_rows_never_generated_say_so():
    arrays = make_gates(4).generate(np.array([False, True, False, False])).numpy()
    for row in (0, 2, 3):
        assert arrays["status"][row] == int(GateStatus.NOT_GENERATED)
        assert arrays["count"][row] == 0 and not arrays["valid"][row]
        assert np.isnan(arrays["position"][row]).all()
    assert arrays["valid"][1]


@pytest.mark.parametrize("ordering", ORDERINGS)
@families
def test_captured_equals_eager_over_replays(name, ordering):
    """Outputs are poisoned before each replay, so a launch missing from the graph shows."""
    settings = {"generator": name, "ordering": ordering, **CELLS["hill"]}
    captured = make_gates(16, capture=True, **settings)
    eager = make_gates(16, capture=False, **settings)
    captured.generate()
    eager.generate()
    assert captured.graph is not None and eager.graph is None
    for mask in (None, np.arange(16) % 2 == 0, np.arange(16) % 5 == 0):
        for generator in (captured, eager):
            poison(generator.gates)
            generator.rng.advance()
            generator.generate(mask)
        assert raw_bytes(captured.gates) == raw_bytes(eager.gates)


def test_a_captured_graph_follows_parameters():
    generator = make_gates(capture=True)
    generator.generate()
    generator.parameters.set("gate_width", 0.9)
    generator.generate()
    np.testing.assert_allclose(generator.gates.half_width.numpy()[:, 0], 0.45)
    assert generator.gates.valid.numpy().all()


@families
def test_device_parameters_that_make_no_sense_are_reported(name):
    generator = make_gates(4, generator=name)
    table = generator.parameters.array.numpy()
    table[1, 0] = np.nan
    table[2, 1] = (-1.0, -1.0)
    table[3, 0] = (0.2, 0.1)
    generator.parameters.array.assign(table)
    arrays = generator.generate().numpy()
    assert arrays["valid"].tolist() == [True, False, False, False]
    assert ((arrays["status"][1:] & int(GateStatus.PARAMETER)) != 0).all()
    assert np.isnan(arrays["position"][1:]).all()
    assert (arrays["count"][1:] == 0).all()


def test_hot_path_allocates_nothing_and_never_synchronises(monkeypatch):
    for capture in (False, True):
        generator = make_gates(16, capture=capture, ordering="random", **CELLS["hill"])
        mask = wp.array(np.arange(16) % 2 == 0, dtype=wp.bool, device="cpu")
        generator.generate()
        generator.generate(mask)

        def forbidden(*args, **kwargs):
            raise AssertionError("the hot path allocates or synchronises")

        with monkeypatch.context() as patch:
            for name in ("empty", "zeros", "full", "clone", "synchronize"):
                patch.setattr(wp, name, forbidden)
            patch.setattr(wp.array, "numpy", forbidden)
            patch.setattr(wp.array, "__init__", forbidden)
            for chosen in (None, mask, None):
                generator.rng.advance()
                generator.generate(chosen)


def test_launches_are_few():
    angular, free = make_gates(4), make_gates(4, ordering="random")
    for generator, most in ((angular, 5), (free, 14)):
        generator.warmup()
        pipeline = generator._executor._whole
        assert len(pipeline.start) <= 2
        assert all(len(attempt) <= most for attempt in pipeline.attempts)


def test_inside_a_callers_capture():
    generator = make_gates(6)
    mask = wp.zeros(6, dtype=wp.bool, device="cpu")
    with pytest.raises(RuntimeError, match="warmup"), wp.ScopedCapture(device="cpu"):
        generator.generate()
    generator.generate()
    first = raw_bytes(generator.gates)
    others = raw_bytes(generator.gates, slice(2, 6))
    with wp.ScopedCapture(device="cpu") as capture:
        with pytest.raises(RuntimeError, match="NumPy array"):
            generator.generate(np.ones(6, bool))
        generator.rng.advance(mask)
        generator.generate(mask)
    assert raw_bytes(generator.gates) == first
    mask.assign(np.arange(6) < 2)
    wp.capture_launch(capture.graph)
    assert raw_bytes(generator.gates, slice(2, 6)) == others
    changed = generator.gates.position.numpy()
    reference = make_gates(6)
    reference.rng.advance()
    fresh = reference.generate().position.numpy()
    assert changed[:2].tobytes() == fresh[:2].tobytes()
    assert changed[2:].tobytes() != fresh[2:].tobytes()


def test_two_generators_in_two_threads():
    expected = [raw_bytes(make_gates(32, seeds=s).generate()) for s in (1, 2)]
    results = [None, None]

    def work(k):
        generator = make_gates(32, seeds=k + 1, num_threads=2)
        for _ in range(3):
            results[k] = raw_bytes(generator.generate())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == expected


def test_clone_and_buffer_reuse():
    """The pattern of replays: the same buffers, and copies that survive them."""
    generator = make_gates(4, capture=True)
    kept = generator.generate().clone()
    first = raw_bytes(kept)
    view = wp.to_torch(generator.gates.position).view(4, generator.config.max_gates, 3)
    generator.rng.advance()
    generator.generate()
    assert raw_bytes(kept) == first
    assert isinstance(kept, GateSequence)
    assert view.numpy().tobytes() == generator.gates.position.numpy().tobytes() != first["position"]


def test_views_and_env():
    generator = make_gates(4)
    gates = generator.generate()
    assert set(gates.torch()) == set(gates.numpy()) == set(gates.arrays())
    one = gates.env(np.int64(-1))
    assert one.count == len(one.position) == len(one.orientation) and one.valid
    assert one.status == GateStatus(0)
    with pytest.raises(IndexError, match=r"\[-4, 3\]"):
        gates.env(4)
    assert (gates.num_envs, gates.max_gates) == (4, 32)
    with pytest.raises(ValueError, match="num_envs"):
        GateSequence.allocate(0, 4)


def test_state_dict_restores_bit_for_bit():
    generator = make_gates(8, gate_width=(1.0, 1.4))
    generator.rng.advance()
    generator.parameters.set("scale", 20.0)
    first = raw_bytes(generator.generate())
    state = generator.state_dict()
    other = make_gates(8, seeds=99, gate_width=(1.0, 1.4))
    other.load_state_dict(state)
    assert raw_bytes(other.generate()) == first


def test_attempts_differ_and_end():
    """Free orders in a tight arena need attempts; each has numbers of its own."""
    settings = {"ordering": "random", "num_gates": 13, "max_extent": 8.3, "generator": "polar"}
    first = make_gates(128, max_attempts=1, **settings)
    more = make_gates(128, max_attempts=8, **settings)
    first.generate()
    more.generate()
    assert first.report().num_valid < 128
    assert more.report().num_valid > first.report().num_valid
    assert more.report().attempts_max > 1


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        (np.ones(3, bool), ValueError, "shape"),
        (np.ones(4, np.int32), TypeError, "bool"),
        (True, TypeError, "mask"),
        (5, ValueError, "fixed-batch"),
        ("all", TypeError, "mask"),
    ],
)
def test_bad_masks(mask, error, text):
    with pytest.raises(error, match=text):
        make_gates(4).generate(mask)


def test_config_and_rng_must_agree():
    config = GateGenConfig(num_envs=4, device="cpu")
    with pytest.raises(ValueError, match=r"num_envs is 4 but PerEnvSeededRNG.num_envs is 5"):
        GateGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=5, device="cpu"))
    with pytest.raises(TypeError, match="GateGenConfig"):
        GateGenerator("bezier", PerEnvSeededRNG(seeds=0, num_envs=4, device="cpu"))
    with pytest.raises(TypeError, match="PerEnvSeededRNG"):
        GateGenerator(config, 0)


GOLDEN = {
    "ccw": [[-11.122, -7.128], [-3.551, -7.468], [4.928, -9.690]],
    "random": [[-4.291, 3.972], [-1.387, -9.562], [12.777, -8.934]],
}


@pytest.mark.parametrize("ordering", GOLDEN)
def test_golden_courses(ordering):
    """The course of a seed changes on purpose only."""
    gates = make_gates(1, seeds=np.array([7], np.int32), ordering=ordering).generate()
    assert gates.count.numpy()[0] == 13
    assert np.abs(gates.position.numpy()[0, :3, :2] - GOLDEN[ordering]).max() < 1e-2


def lane_cases():
    """Settings that reach every branch of the layout."""
    for name in FAMILIES:
        yield {"generator": name, **CELLS["hill"]}
        yield {"generator": name, "ordering": "random"}
    yield {"generator": "bezier", "ordering": "random", **CELLS["many"]}
    yield {"generator": "hull", "ordering": "random", **CELLS["arena"], "max_extent": 14.0}
    yield {"generator": "polar", "line": "centripetal", "max_extent": 16.0}
    yield {"generator": "voronoi", "ordering": "sampled", **CELLS["climb"]}
    yield {"generator": Mixture({Hull(): 1, Polar(): 1, Checkpoint(): 1}), "ordering": "sampled"}


def main(lanes: int) -> None:
    """Print a digest per case, run with this many lanes."""
    import hashlib

    for case in lane_cases():
        generator = make_gates(6, seeds=3, num_threads=1, **case)
        generator._executor._build.lanes = lanes
        digest = hashlib.sha256()
        for data in raw_bytes(generator.generate()).values():
            digest.update(data)
        digest.update(generator.sweeps.numpy().tobytes())
        print("digest", digest.hexdigest())


def run_lanes(lanes: int, reverse: bool) -> list[str]:
    """Digests of another process, on fibers."""
    code = (
        "import warp as wp; wp.config.quiet = True; wp.config.enable_cpu_blocks = True\n"
        f"import test_gate_contract; test_gate_contract.main({lanes})"
    )
    here = Path(__file__).parent
    environment = {
        **os.environ,
        "TRACK_GEN_REVERSE_LANES": str(int(reverse)),
        "PYTHONPATH": os.pathsep.join([str(here), str(here.parent)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.startswith("digest")]


def test_lanes_agree():
    """32 lanes, in either order, give the bits of one: no barrier is missing."""
    one = run_lanes(1, False)
    assert len(one) == len(list(lane_cases()))
    assert run_lanes(32, False) == one
    assert run_lanes(32, True) == one


@pytest.mark.cuda
def test_cuda_agrees_with_the_cpu():
    for ordering in ORDERINGS:
        gpu = make_gates(256, device="cuda", ordering=ordering)
        captured = raw_bytes(gpu.generate())
        assert gpu.graph is not None
        eager = make_gates(256, device="cuda", ordering=ordering, capture=False)
        assert raw_bytes(eager.generate()) == captured
        cpu = make_gates(256, ordering=ordering)
        cpu.generate()
        assert gpu.report().yield_rate == cpu.report().yield_rate == 1.0
        near = [
            np.nanmax(np.abs(a["position"] - b["position"])) < 1e-2
            for a, b in zip(courses(gpu.gates), courses(cpu.gates), strict=True)
        ]
        assert np.mean(near) > 0.9
