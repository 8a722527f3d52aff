"""Difficulty: one number in [0, 1] per env that moves a set of parameter ranges.

0 is wide and round, 1 is narrow and twisty. The width of the road or of the gates goes linearly
from the configured one to ``WIDTH_FACTOR`` of it, and each family names the ranges of its knobs at
both ends (``GeneratorSettings.difficulty``, ``AnchorSource.difficulty``). Only bounds in the
parameter table change, on the device, so a captured graph follows; the envs get them when they are
next generated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from track_gen.checks import as_device_mask, as_device_values, check_float
from track_gen.parameters import ParameterTable, Range, blend_bounds_kernel

__all__ = ["WIDTH_FACTOR", "Difficulty", "difficulty_ranges", "narrowing"]

WIDTH_FACTOR = 0.5
"""Width of the road or of the gates at difficulty 1 over the configured one."""


def _pair(value: Range) -> tuple[float, float]:
    return value if isinstance(value, tuple) else (float(value), float(value))


def narrowing(width: Range) -> tuple[Range, Range]:
    """Range of a width at difficulty 0, as configured, and at 1."""
    low, high = _pair(width)
    return (low, high), (WIDTH_FACTOR * low, WIDTH_FACTOR * high)


def difficulty_ranges(
    name: str, knobs: Mapping[str, tuple[Range, Range]], difficulty: float
) -> dict[str, tuple[float, float]]:
    """Ranges of all parameters that a difficulty sets, by name.

    Args:
        name: Owner in error messages.
        knobs: Ranges at difficulty 0 and 1, by name.
        difficulty: Number in [0, 1].

    Raises:
        ValueError: If it is out of bounds.
    """
    t = check_float(f"{name}(difficulty)", difficulty, 0.0, 1.0)
    ends = {name: (_pair(first), _pair(last)) for name, (first, last) in knobs.items()}

    def blend(a: float, b: float) -> float:
        return min(max((1.0 - t) * a + t * b, min(a, b)), max(a, b))

    return {
        name: (blend(first[0], last[0]), blend(first[1], last[1]))
        for name, (first, last) in ends.items()
    }


class Difficulty:
    """Writes the bounds of a difficulty into a parameter table.

    Args:
        parameters: Table to write.
        easy: Ranges at difficulty 0, by name.
        hard: Ranges at difficulty 1 of the same parameters.
    """

    def __init__(
        self,
        parameters: ParameterTable,
        easy: Mapping[str, tuple[float, float]],
        hard: Mapping[str, tuple[float, float]],
    ) -> None:
        self._parameters = parameters
        device = parameters.device
        columns = np.array([parameters.column(name) for name in easy], dtype=np.int32)
        ends = np.array([(easy[name], hard[name]) for name in easy], dtype=np.float32)
        self._columns = wp.array(columns, dtype=wp.int32, device=device)
        self._ends = wp.array(ends, dtype=wp.float32, device=device)

    def set(self, name: str, value: Any, mask: Any = None) -> None:
        """Write the bounds of the masked envs; see ``BatchGenerator.set_difficulty``.

        Args:
            name: Owner in error messages.
            value: Number in [0, 1], or float32 of shape [E].
            mask: Envs, bool [E], or None for all.
        """
        table = self._parameters
        amount, amounts, chosen = 0.0, None, None
        if isinstance(value, (int, float, np.integer, np.floating)):
            amount = check_float(f"{name}(value)", value, 0.0, 1.0)
        else:
            amounts = as_device_values(
                f"{name}(value)", value, table.num_envs, table.device, 0.0, 1.0
            )
        if mask is not None:
            chosen = as_device_mask(f"{name}(mask)", mask, table.num_envs, table.device)
        wp.launch(
            blend_bounds_kernel,
            dim=table.num_envs,
            inputs=[amount, amounts, chosen, self._columns, self._ends],
            outputs=[table.array],
            device=table.device,
        )
