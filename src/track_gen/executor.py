"""The only file that captures, replays, or starts threads.

A generator hands over a :class:`Pipeline` per range of rows: prepared launches, grouped by attempt.
They run in one of three ways with the same result:

* captured once as a graph and replayed;
* eagerly in order, from the calling thread (CUDA with ``capture=False``, a caller's open capture);
* eagerly on the CPU, the batch split into row ranges over worker threads.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import warp as wp

from track_gen.generators.spec import Command
from track_gen.recording import exclusive_cpu_capture

__all__ = ["Executor", "Pipeline", "usable_cores", "worker_pool"]

_CHUNKS_PER_THREAD = 4
"""Row ranges per worker thread: enough to balance the load, few enough to launch cheaply."""


@dataclass
class Pipeline:
    """Prepared launches for a range of rows."""

    start: list[Command]
    """Run once per batch: draws the knobs, makes the active envs pending."""
    attempts: list[list[Command]]
    """One list per attempt; all of them leave envs alone that are not pending."""
    pending: wp.array
    """Envs that need another attempt, bool, rows of the range."""
    finish: list[Command] = field(default_factory=list)
    """Run once per batch after all attempts."""


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1


_pools: dict[int, ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()


def _forget_after_fork() -> None:
    """Worker threads and held locks do not survive a fork; start afresh in the child."""
    global _pools_lock
    _pools.clear()
    _pools_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def worker_pool(workers: int) -> ThreadPoolExecutor:
    """The process's worker threads for this number of workers, started on first use."""
    with _pools_lock:
        if workers not in _pools:
            _pools[workers] = ThreadPoolExecutor(workers, thread_name_prefix="track_gen")
        return _pools[workers]


class Executor:
    """Runs the pipelines of one generator.

    Args:
        build: Makes the pipeline for the rows ``low`` to ``high``.
        num_envs: Rows E.
        device: Device.
        num_threads: CPU threads, the calling one included.
    """

    def __init__(
        self,
        build: Callable[[int, int], Pipeline],
        num_envs: int,
        device: wp.Device,
        num_threads: int,
    ) -> None:
        self._build = build
        self._num_envs = num_envs
        self._device = device
        self._num_threads = min(num_threads, num_envs) if device.is_cpu else 1
        self._whole: Pipeline | None = None
        self._chunks: list[tuple[Pipeline, np.ndarray]] | None = None
        self._build_lock = threading.Lock()
        self.graph: wp.Graph | None = None

    @property
    def ready(self) -> bool:
        """Whether all launches are prepared, so that running them loads nothing."""
        return self._whole is not None and (not self._device.is_cpu or self._chunks is not None)

    def prepare(self) -> None:
        """Prepare all launches; loads (and once compiles) the kernel modules on this thread."""
        with self._build_lock:
            if self._whole is None:
                self._whole = self._build(0, self._num_envs)
            if self._device.is_cpu and self._chunks is None:
                wanted = 1 if self._num_threads == 1 else self._num_threads * _CHUNKS_PER_THREAD
                edges = np.linspace(0, self._num_envs, min(wanted, self._num_envs) + 1).astype(int)
                chunks = []
                for low, high in itertools.pairwise(edges.tolist()):
                    pipeline = self._build(low, high)
                    chunks.append((pipeline, pipeline.pending.numpy()))
                self._chunks = chunks

    def launch_all(self) -> None:
        """Launch everything in order from the calling thread: what a capture records."""
        assert self._whole is not None
        for command in self._whole.start:
            command.launch()
        for attempt in self._whole.attempts:
            for command in attempt:
                command.launch()
        for command in self._whole.finish:
            command.launch()

    def run(self) -> None:
        """Run eagerly, on the CPU with the worker threads."""
        if not self._device.is_cpu:
            self.launch_all()
            return
        chunks = self._chunks
        assert chunks is not None
        if self._num_threads == 1 or len(chunks) == 1:
            for chunk in chunks:
                _run_chunk(*chunk)
            return
        queue = deque(chunks)

        def work() -> None:
            while queue:
                try:
                    chunk = queue.popleft()
                except IndexError:
                    return
                try:
                    _run_chunk(*chunk)
                except BaseException:
                    queue.clear()  # an error or Ctrl-C: the others finish their range and stop
                    raise

        futures = [
            worker_pool(self._num_threads - 1).submit(work) for _ in range(self._num_threads - 1)
        ]
        try:
            work()
        finally:
            for future in futures:
                if not future.cancel():
                    future.result()

    def capture(self) -> None:
        """Record everything as one graph, kept in ``graph``; an exception closes the capture.

        Raises:
            RuntimeError: If a CPU capture is open in another thread.
        """
        if self._device.is_cpu:
            with exclusive_cpu_capture():
                self.graph = self._record()
        else:
            self.graph = self._record()

    def _record(self) -> wp.Graph:
        with wp.ScopedCapture(device=self._device, force_module_load=False) as capture:
            self.launch_all()
        return capture.graph

    def replay(self) -> None:
        """Launch the graph."""
        wp.capture_launch(self.graph)


def _run_chunk(pipeline: Pipeline, pending: np.ndarray) -> None:
    """Run one row range; CPU launches are synchronous, so ``pending`` can be looked at for free."""
    for command in pipeline.start:
        command.launch()
    for attempt in pipeline.attempts:
        if not pending.any():
            break
        for command in attempt:
            command.launch()
    for command in pipeline.finish:
        command.launch()
