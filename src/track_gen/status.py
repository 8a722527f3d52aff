"""Why an env has no valid track: a bit set that the stages write and the user reads."""

from __future__ import annotations

import enum

__all__ = ["TrackStatus"]


class TrackStatus(enum.IntFlag):
    """Reasons that make a track invalid; 0 is a valid track. Files hold the values: keep them."""

    TURNING = 1 << 0
    """The centreline does not turn exactly once around."""
    NONFINITE = 1 << 1
    """A coordinate is not finite, or the family produced no curve."""
    CURVATURE = 1 << 2
    """The centreline turns tighter than the half width: a border runs backwards."""
    SEPARATION = 1 << 3
    """Two parts of the centreline are closer than the road is wide."""
    BORDER = 1 << 4
    """A border crosses itself or the other one, is not where it must be, or the area is wrong."""
    GRADE = 1 << 5
    """The road is steeper than allowed."""
    OVERFLOW = 1 << 6
    """The track needs more than ``N_max`` points; ``Track.required_count`` says how many."""
    PARAMETER = 1 << 7
    """A parameter that was read on the device is out of bounds."""
    TOO_SHORT = 1 << 8
    """The centreline has fewer points than a loop needs."""
    NOT_GENERATED = 1 << 9
    """The row was never generated."""
