"""The per-env parameter table: every continuous knob is a range that each env draws from.

``parameters[E, P, 2]`` holds the bounds on the device, ``half_width`` and ``scale`` first; the
kernels read it, so a captured graph follows edits made between replays. One draw per (seed,
episode), not per attempt: attempts do not bend the distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import warp as wp

from track_gen.rng import Stream, draw_uniform

__all__ = ["HALF_WIDTH", "SCALE", "Knob", "Range", "draw_parameter"]

wp.set_module_options({"enable_backward": False})

Range: TypeAlias = "float | tuple[float, float]"
"""A number, or a ``(low, high)`` pair drawn uniformly per env."""


@dataclass(frozen=True)
class Knob:
    """A continuous knob: its name and the legal bounds of its values."""

    name: str
    """Field name of the settings class."""
    low: float
    """Least legal value."""
    high: float
    """Largest legal value."""
    low_open: bool = False
    """Whether ``low`` itself is illegal."""


HALF_WIDTH = Knob("half_width", 0.0, math.inf, low_open=True)
"""Column 0 of every table [length]."""
SCALE = Knob("scale", 0.0, math.inf, low_open=True)
"""Column 1 of every table [length]."""


@wp.func
def draw_parameter(low: float, high: float, seed: int, episode: int, column: int) -> float:
    """Value of one column for an env: uniform in [low, high], the same for every attempt."""
    u = draw_uniform(seed, episode, wp.static(int(Stream.PARAMETER)), 0, column)
    return wp.clamp(low + (high - low) * u[0], low, high)
