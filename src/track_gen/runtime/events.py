"""What can happen at a line or a gate: one record for lap progress and for gate crossings.

``ProgressTracker.crossing`` and ``GateCrossing.event`` use the same numbers, so a start line and a
gate read alike: positive is the direction of travel.
"""

from __future__ import annotations

import enum

import warp as wp

__all__ = ["BACKWARD", "FORWARD", "FRAME", "MISS", "NONE", "Crossing", "CrossingEvent"]

wp.set_module_options({"enable_backward": False})


class Crossing(enum.IntEnum):
    """Kind of an event."""

    BACKWARD = -1
    """Passed against the direction of travel."""
    NONE = 0
    """Nothing."""
    FORWARD = 1
    """Passed in the direction of travel."""
    MISS = 2
    """Passed the plane of the target gate beside its opening, in the direction of travel."""
    FRAME = 3
    """Touched the frame of a gate."""


BACKWARD = int(Crossing.BACKWARD)
NONE = int(Crossing.NONE)
FORWARD = int(Crossing.FORWARD)
MISS = int(Crossing.MISS)
FRAME = int(Crossing.FRAME)


@wp.struct
class CrossingEvent:
    """One event of one step."""

    kind: wp.int32
    """One of :class:`Crossing`."""
    gate: wp.int32
    """Gate, or 0 for a start line; -1 with NONE."""
    alpha: wp.float32
    """When it happened, as a fraction of the step in [0, 1]."""
