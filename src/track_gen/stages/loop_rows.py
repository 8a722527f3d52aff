"""Closed loops as rows of floats whose ends are wrapped: neighbours need no test for the ends.

Loops over such rows are written with ``while``, with indices that the compiler knows not to be
negative, and they count and add integers instead of setting flags: on the CPU, where a block is one
lane, they are then vectorised. Where an ``if`` only guards arithmetic it becomes a blend there and
stays a branch on CUDA.
"""

from __future__ import annotations

import warp as wp

__all__ = ["HALO", "halo_tail", "wrap_ends"]

wp.set_module_options({"enable_backward": False})

HALO = 12
"""Wrapped copies on both sides of a loop: point ``i`` lies at ``i + HALO``, the row is ``2 * HALO``
longer than the loop."""


@wp.func
def halo_tail(lane: int, count: int) -> int:
    """First of the points of a lane, ``lane + k * block_dim``, that are wrapped to the front."""
    skip = wp.max(count - wp.static(HALO) - lane + wp.block_dim() - 1, 0) // wp.block_dim()
    return lane + skip * wp.block_dim()


@wp.func
def wrap_ends(row: wp.array[wp.float32], lane: int, tail: int, count: int):
    """Copy the ends of a loop into its halo; each lane copies its own points, ``i % block_dim``.

    ``tail`` is :func:`halo_tail`. A loop shorter than the halo fills ``count`` copies on each side.
    """
    i = int(lane)
    while i < wp.min(count, wp.static(HALO)):
        row[i + count + wp.static(HALO)] = row[i + wp.static(HALO)]
        i += wp.block_dim()
    i = int(tail)
    while i < count:
        row[i - count + wp.static(HALO)] = row[i + wp.static(HALO)]
        i += wp.block_dim()
