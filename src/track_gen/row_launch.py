"""One kernel over the rows of a batch, prepared once, on all cores."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from track_gen.executor import usable_cores, worker_pool
from track_gen.recording import recording_here

__all__ = ["RowLaunch"]

_AGENTS_PER_CHUNK = 256
"""Agents that are worth a worker thread: handing a range over costs about 30 microseconds."""


class RowLaunch:
    """One kernel over the rows of a batch, prepared once and launched every step.

    The first argument of the kernel must be ``first_env``, which it adds to the row that
    ``wp.tid()`` gives: so a range of rows needs no slices of the arrays. On the CPU the rows are
    split over worker threads; while a capture records, and on CUDA, it is one launch from the
    calling thread. The arrays of the last call are kept alive.

    Args:
        kernel: Kernel; its first argument is ``first_env: int``.
        num_envs: Rows E, the first dimension of the launch.
        inner: The other dimensions.
        inputs: Input arguments after ``first_env``; those that are given at each call are
            placeholders of the right type.
        outputs: Output arguments.
        device: Device of all arrays.
        num_threads: CPU threads; None is one per core.
        block_dim: Threads per block on CUDA.
        rows_per_chunk: Rows that are worth a worker thread; None goes by the number of agents.
    """

    def __init__(
        self,
        kernel: wp.Kernel,
        num_envs: int,
        inner: tuple[int, ...],
        inputs: list[Any],
        outputs: list[Any],
        device: wp.Device,
        num_threads: int | None = None,
        block_dim: int = 128,
        rows_per_chunk: int | None = None,
    ) -> None:
        self._device = device
        self._values: list[Any] = [0, *inputs, *outputs]
        self._names = {arg.label: k for k, arg in enumerate(kernel.adj.args)}

        def prepare(low: int, high: int) -> wp.Launch:
            return wp.launch(
                kernel,
                dim=(high - low, *inner),
                inputs=[low, *inputs],
                outputs=outputs,
                device=device,
                block_dim=block_dim if device.is_cuda else 1,
                record_cmd=True,
            )

        self._prepare = prepare
        self._whole = prepare(0, num_envs)
        self._chunks: list[wp.Launch] = []
        if device.is_cpu:
            threads = usable_cores() if num_threads is None else num_threads
            worth = rows_per_chunk
            if worth is None:
                worth = max(_AGENTS_PER_CHUNK // int(np.prod(inner, dtype=np.int64)), 1)
            chunks = max(min(threads, num_envs // worth), 1)
            edges = np.linspace(0, num_envs, chunks + 1).astype(int).tolist()
            if chunks > 1:
                self._chunks = [prepare(low, high) for low, high in itertools.pairwise(edges)]

    def command(self, low: int, high: int, **changes: Any) -> wp.Launch:
        """The launch over the rows ``low`` to ``high``, for whoever launches it.

        ``changes`` are arguments that differ, by name; their arrays must be kept alive.
        """
        command = self._prepare(low, high)
        for name, value in changes.items():
            command.set_param_at_index(self._names[name], value)
        return command

    def __call__(self, **changes: Any) -> None:
        """Launch, after setting the arguments that differ from those of the last call."""
        for name, value in changes.items():
            index = self._names[name]
            last = self._values[index]
            if value is not last and not (isinstance(value, (int, float)) and value == last):
                self._values[index] = value
                self._whole.set_param_at_index(index, value)
                for chunk in self._chunks:
                    chunk.set_param_at_index(index, value)
        if not self._chunks or recording_here(self._device):
            self._whole.launch()
            return
        pool = worker_pool(len(self._chunks) - 1)
        futures = [pool.submit(_launch(chunk)) for chunk in self._chunks[1:]]
        try:
            self._chunks[0].launch()
        finally:
            for future in futures:
                future.result()


def _launch(command: wp.Launch) -> Callable[[], None]:
    return command.launch
