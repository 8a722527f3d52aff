"""Loops as the relaxation stores them: rows of floats whose ends are wrapped, x and y apart.

Everything is in the frame of the first point and in units of the half width. The parts of the
solver write their loops with ``while`` over such rows, with indices that the compiler knows not to
be negative, and they count and add integers instead of setting flags: on the CPU, where a block is
one lane, they are then vectorised. Where an ``if`` only guards arithmetic it becomes a blend there
and stays a branch on CUDA.
"""

from __future__ import annotations

import warp as wp

__all__ = ["CLEARANCE", "HALO", "MOVED", "VIOLATED", "float_row", "short_row", "wrap_ends"]

wp.set_module_options({"enable_backward": False})

CLEARANCE = 2.4  # distance [half widths] at which two stretches of road stop pushing
HALO = 12  # wrapped copies on both sides of a loop: the longest stride of chords along the curve

# Flags of the vote that ends a sweep.
VIOLATED = 1
MOVED = 2


@wp.func
def float_row(base: wp.uint64, offset: int, size: int) -> wp.array[wp.float32]:
    """View of ``size`` floats from element ``offset`` on."""
    return wp.array(ptr=base + wp.uint64(4 * offset), shape=(size,), dtype=wp.float32)


@wp.func
def short_row(base: wp.uint64, size: int) -> wp.array[wp.int16]:
    """View of ``size`` short integers."""
    return wp.array(ptr=base, shape=(size,), dtype=wp.int16)


@wp.func
def wrap_ends(row: wp.array[wp.float32], lane: int, tail: int, count: int):
    """Copy the ends of a loop into its halo; each lane copies the points that it wrote itself."""
    i = int(lane)
    while i < wp.min(count, wp.static(HALO)):
        row[i + count + wp.static(HALO)] = row[i + wp.static(HALO)]
        i += wp.block_dim()
    i = int(tail)
    while i < count:
        row[i - count + wp.static(HALO)] = row[i + wp.static(HALO)]
        i += wp.block_dim()
