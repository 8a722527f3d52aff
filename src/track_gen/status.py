"""Why an env has no valid track or course: bit sets that the stages write and the user reads."""

from __future__ import annotations

import enum

__all__ = ["GateStatus", "TrackStatus"]


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


class GateStatus(enum.IntFlag):
    """Reasons that make a gate course invalid; 0 is a valid course. Files hold the values.

    Bits of the same name as in :class:`TrackStatus` have the same values.
    """

    NONFINITE = 1 << 1
    """A coordinate is not finite."""
    GRADE = 1 << 5
    """Two gates in a row, or a place of the flight line, are steeper than allowed."""
    PARAMETER = 1 << 7
    """A parameter that was read on the device is out of bounds."""
    NOT_GENERATED = 1 << 9
    """The row was never generated."""
    COUNT = 1 << 10
    """The course does not have the number of gates that was asked for."""
    SPACING = 1 << 11
    """Two gates are closer than their openings and clearances, or than ``min_gap``."""
    OVERLAP = 1 << 12
    """Two openings with their clearances overlap."""
    APPROACH = 1 << 13
    """A frame stands in the approach of another gate."""
    TURN = 1 << 14
    """A turn in plan is sharper than ``max_turn``."""
    INCIDENCE = 1 << 15
    """The flight line passes a gate at a larger angle than ``max_incidence``."""
    RADIUS = 1 << 16
    """The flight line bends tighter than ``min_radius``, in plan or up and down."""
    LINE = 1 << 17
    """The flight line does not pass a gate once from front to back, or hits another one's frame."""
    MISS = 1 << 18
    """The flight line passes a gate's plane beside it on its way to it."""
    WINDING = 1 << 19
    """The course does not turn once around in the direction that was asked for."""
    EXTENT = 1 << 20
    """The course is larger than ``max_extent``."""
