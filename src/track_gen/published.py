"""What every published batch can do with its arrays: names, copies, views for other frameworks."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import numpy as np
import warp as wp

__all__ = ["PublishedArrays"]

T = TypeVar("T", bound="PublishedArrays")


class PublishedArrays:
    """Base of a dataclass whose fields are Warp arrays with E rows."""

    @property
    def _first(self) -> wp.array:
        return getattr(self, dataclasses.fields(self)[0].name)  # type: ignore[arg-type]

    @property
    def num_envs(self) -> int:
        """Rows E."""
        return self._first.shape[0]

    @property
    def device(self) -> wp.Device:
        """Device of all arrays."""
        return self._first.device

    def arrays(self) -> dict[str, wp.array]:
        """All arrays by field name, not copied."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in fields}

    def clone(self: T) -> T:
        """An independent copy that survives the next ``generate()``."""
        return type(self)(**{name: wp.clone(array) for name, array in self.arrays().items()})

    def numpy(self) -> dict[str, np.ndarray]:
        """All arrays as NumPy copies by field name (an explicit synchronisation)."""
        return {name: array.numpy().copy() for name, array in self.arrays().items()}

    def torch(self) -> dict[str, Any]:
        """All arrays as torch tensors by field name, sharing memory; they follow ``generate()``.

        A view keeps its memory alive.

        Raises:
            ImportError: If torch is not installed.
        """
        return {name: wp.to_torch(array) for name, array in self.arrays().items()}

    def jax(self) -> dict[str, Any]:
        """All arrays as JAX arrays by field name, sharing memory; they follow ``generate()``.

        JAX takes its arrays for constant: use them before the next ``generate()``, or those of a
        :meth:`clone`. A view keeps its memory alive.

        Raises:
            ImportError: If JAX is not installed.
        """
        return {name: wp.to_jax(array) for name, array in self.arrays().items()}

    def _env_row(self, index: int) -> dict[str, Any]:
        """One row of every array as NumPy (an explicit synchronisation).

        Raises:
            IndexError: If there is no such row.
        """
        if not -self.num_envs <= index < self.num_envs:
            raise IndexError(
                f"{type(self).__name__}.env(index) must be in "
                f"[{-self.num_envs}, {self.num_envs - 1}], got {index}"
            )
        row = int(index) % self.num_envs
        return {name: array[row : row + 1].numpy()[0] for name, array in self.arrays().items()}
