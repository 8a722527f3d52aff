"""Capture, replay, threads, and what a hot path must not do."""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
import warp as wp

from conftest import make, raw_bytes
from track_gen import executor as executor_module
from track_gen.recording import exclusive_cpu_capture

FORBIDDEN = ("empty", "zeros", "ones", "full", "clone", "synchronize", "load_module")
FORBIDDEN += ("synchronize_device", "synchronize_stream", "empty_like", "zeros_like", "from_numpy")


@pytest.mark.parametrize("capture", [False, True])
def test_hot_path_allocates_nothing_and_never_synchronises(monkeypatch, capture):
    generator = make(num_envs=16, capture=capture)
    mask = wp.array(np.arange(16) % 2 == 0, dtype=wp.bool, device="cpu")
    generator.generate()
    generator.generate(mask)

    def forbidden(*args, **kwargs):
        raise AssertionError("the hot path allocates or synchronises")

    for name in FORBIDDEN:
        monkeypatch.setattr(wp, name, forbidden)
    monkeypatch.setattr(wp.array, "numpy", forbidden)
    monkeypatch.setattr(wp.array, "__init__", forbidden)
    for chosen in (None, mask, None):
        generator.rng.advance()
        generator.rng.advance(mask)
        generator.generate(chosen)


def test_launches_per_attempt_are_few():
    generator = make(num_envs=4)
    generator.warmup()
    pipeline = generator._executor._whole
    assert len(pipeline.start) <= 2
    assert all(len(attempt) <= 12 for attempt in pipeline.attempts)
    assert len(pipeline.attempts) == generator.config.max_attempts


def test_inside_a_callers_capture():
    """A user's graph holds advance and generate; a device mask is read again at each replay."""
    generator = make(num_envs=6)
    mask = wp.zeros(6, dtype=wp.bool, device="cpu")
    with (
        pytest.raises(RuntimeError, match="warmup"),
        wp.ScopedCapture(device="cpu"),
    ):
        generator.generate(mask)
    generator.generate()
    with wp.ScopedCapture(device="cpu") as capture:
        generator.rng.advance(mask)
        generator.generate(mask)
        with pytest.raises(RuntimeError, match="NumPy"):
            generator.generate(np.ones(6, dtype=bool))
        with pytest.raises(RuntimeError, match="capture is open"):
            generator.warmup()
    twin = make(num_envs=6)
    twin.generate()
    for chosen in ([1, 0, 0, 1, 0, 0], [0] * 6, [1] * 6):
        host = np.array(chosen, dtype=bool)
        mask.assign(host)
        wp.capture_launch(capture.graph)
        twin.rng.advance(host)
        twin.generate(host)
        assert raw_bytes(generator.track) == raw_bytes(twin.track)


def test_an_exception_inside_a_capture_leaves_the_process_usable(monkeypatch):
    generator = make(num_envs=4, capture=True)
    original = executor_module.Executor.launch_all
    calls = []

    def fail_while_recording(self):
        calls.append(1)
        if len(calls) == 2:  # 1 is the warm-up
            raise KeyError("inside the capture")
        original(self)

    monkeypatch.setattr(executor_module.Executor, "launch_all", fail_while_recording)
    with pytest.raises(KeyError, match="inside the capture"):
        generator.generate()
    monkeypatch.undo()
    assert not wp.get_device("cpu").is_capturing
    assert raw_bytes(generator.generate()) == raw_bytes(make(num_envs=4).generate())


def test_capture_while_another_thread_captures():
    """capture=True is refused with a reason; eager calls run normally meanwhile."""
    eager = make(num_envs=8, num_threads=2)
    eager.generate()
    expected = raw_bytes(make(num_envs=8, seeds=3).generate())
    captured = make(num_envs=8, capture=True)
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with exclusive_cpu_capture(), wp.ScopedCapture(device="cpu"):
            inside.set()
            leave.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert inside.wait(20)
        with pytest.raises(RuntimeError, match="another thread"):
            captured.generate()
        eager.rng.load_state_dict(make(num_envs=8, seeds=3).rng.state_dict())
        assert raw_bytes(eager.generate()) == expected
    finally:
        leave.set()
        holder.join()
    captured.generate()
    assert captured.graph is not None


def test_two_generators_in_two_threads():
    expected = {seed: raw_bytes(make(num_envs=32, seeds=seed).generate()) for seed in (0, 1)}
    results: dict[int, list] = {0: [], 1: []}

    def work(seed):
        generator = make(num_envs=32, seeds=seed, num_threads=2)
        for _ in range(5):
            results[seed].append(raw_bytes(generator.generate()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in (0, 1):
        assert len(results[seed]) == 5
        assert all(result == expected[seed] for result in results[seed])


def _child(queue):
    generator = make(num_envs=8, num_threads=2)
    queue.put(generator.generate().center.numpy().tobytes())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_works():
    """Worker threads do not survive a fork; the child starts its own."""
    expected = make(num_envs=8, num_threads=2).generate().center.numpy().tobytes()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=60) == expected
    finally:
        child.join(timeout=20)
        if child.is_alive():
            child.kill()


def test_views_outlive_the_generator():
    generator = make(num_envs=8)
    center = wp.to_torch(generator.generate().center)
    array = generator.track.outer.numpy()
    kept, kept_outer = center.clone(), array.copy()
    del generator
    gc.collect()
    waste = [wp.full((8, 512), wp.vec3f(9.0, 9.0, 9.0), dtype=wp.vec3f) for _ in range(50)]
    assert torch.equal(torch.nan_to_num(center), torch.nan_to_num(kept))
    np.testing.assert_array_equal(array, kept_outer)
    del waste


def test_generators_are_freed_without_the_garbage_collector():
    """No reference cycle holds the buffers: memory stays flat over many generators."""
    import weakref

    gc.collect()
    gc.disable()
    try:
        generator = make(num_envs=8)
        generator.generate()
        center = weakref.ref(generator.track.center)
        del generator
        assert center() is None
    finally:
        gc.enable()


def test_memory_is_flat_over_fifty_generators():
    import resource

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for _ in range(5):
        make(num_envs=256).generate()
    before = peak()
    for _ in range(50):
        make(num_envs=256).generate()
    assert peak() - before < 40_000  # KiB; one generator is about 18 MiB


def test_scratch_per_env_is_small():
    """Memory beyond the outputs: under 44 KiB per env at N_max 512."""
    from memory import scratch_bytes

    for name in ("bezier", "hull", "polar", "voronoi", "checkpoint", "library"):
        assert scratch_bytes(make(num_envs=4, generator=name)) / 4 < 44 * 1024


@pytest.mark.parametrize(
    ("mask", "error", "text"),
    [
        (np.ones(5, dtype=bool), ValueError, "shape"),
        (np.ones(4, dtype=np.int32), TypeError, "bool"),
        (np.ones((4, 1), dtype=bool), ValueError, "shape"),
        (3, ValueError, "construct a new TrackGenerator"),
        (True, TypeError, "bool"),
        ([True] * 4, TypeError, "list"),
        ("all", TypeError, "str"),
    ],
)
def test_bad_masks(mask, error, text):
    generator = make(num_envs=4)
    with pytest.raises(error, match=text):
        generator.generate(mask)


def test_config_and_rng_must_agree():
    from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator

    config = TrackGenConfig(num_envs=4, half_width=0.1, device="cpu")
    with pytest.raises(ValueError, match=r"num_envs is 4 but .* is 5"):
        TrackGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=5, device="cpu"))
    with pytest.raises(TypeError, match="TrackGenConfig"):
        TrackGenerator({}, PerEnvSeededRNG(seeds=0, num_envs=4, device="cpu"))  # type: ignore
    with pytest.raises(TypeError, match="PerEnvSeededRNG"):
        TrackGenerator(config, 0)  # type: ignore
    with pytest.raises(TypeError, match="capture"):
        TrackGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=4, device="cpu"), capture="yes")  # type: ignore


@pytest.mark.cuda
def test_cuda_capture_equals_eager_and_agrees_with_the_cpu():
    captured = make(num_envs=64, device="cuda")
    eager = make(num_envs=64, device="cuda", capture=False)
    for _ in range(3):
        for generator in (captured, eager):
            generator.rng.advance()
            generator.generate()
        assert raw_bytes(captured.track) == raw_bytes(eager.track)
    assert captured.graph is not None and eager.graph is None
    cpu = make(num_envs=64)
    cpu.rng.load_state_dict(captured.rng.state_dict())
    host, device = cpu.generate().numpy(), captured.track.numpy()
    assert host["valid"].mean() == pytest.approx(device["valid"].mean(), abs=0.05)
    assert np.median(np.abs(host["length"] - device["length"])) < 1e-2


FRESH = """
import sys
import numpy as np
import warp as wp
wp.config.quiet = True
from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator
config = TrackGenConfig(num_envs=8, half_width=0.1, device="cpu", generator="polar")
rng = PerEnvSeededRNG(seeds=0, num_envs=8, device="cpu")
track = TrackGenerator(config, rng, capture=True).generate()
print("sum", np.nansum(track.center.numpy().astype(np.float64)).hex())
"""


def fresh_processes(count, **environment):
    """Results of processes that start together."""
    command = [sys.executable, "-c", FRESH]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [
        subprocess.Popen(command, env={**os.environ, **environment}, **options)
        for _ in range(count)
    ]
    results = []
    for process in running:
        out, error = process.communicate(timeout=300)
        assert process.returncode == 0, error
        results += [line for line in out.splitlines() if line.startswith("sum")]
    return results


def test_processes_that_share_an_empty_kernel_cache(tmp_path):
    """Fresh processes compile and capture at the same time; all give the same batch."""
    results = fresh_processes(3, WARP_CACHE_PATH=str(tmp_path / "cache"))
    track = make(num_envs=8, generator="polar").generate()
    expected = "sum " + float(np.nansum(track.center.numpy().astype(np.float64))).hex()
    assert results == [expected] * 3


def test_a_home_that_cannot_be_written(tmp_path):
    """The kernel cache moves to the temporary folder."""
    (tmp_path / "home").write_text("not a folder")
    environment = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": ""}
    assert len(fresh_processes(1, **environment)) == 1
    assert list(tmp_path.glob("warp-*"))


def test_garbage_collection_during_a_capture():
    """Arrays that die while a capture is open do not disturb it."""
    generator = make(num_envs=8, generator="polar")
    expected = raw_bytes(generator.generate())
    with wp.ScopedCapture(device="cpu") as capture:
        waste = [make(num_envs=8, generator="hull") for _ in range(3)]
        generator.generate()
        del waste
        gc.collect()
    poisoned = wp.vec3f(7.0, 7.0, 7.0)
    generator.track.center.fill_(poisoned)
    wp.capture_launch(capture.graph)
    assert raw_bytes(generator.track) == expected
