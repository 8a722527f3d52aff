"""What every published batch can do with its arrays: names, copies, views for other frameworks."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import warp as wp

from track_gen.checks import as_device_mask, as_origins, check_index
from track_gen.files import check_batch, check_suffix, description, read_npz, write_npz
from track_gen.placement import Placement
from track_gen.recording import recording_here

__all__ = ["PublishedArrays"]

T = TypeVar("T", bound="PublishedArrays")


class PublishedArrays:
    """Base of a dataclass whose fields are Warp arrays with E rows."""

    _positions: ClassVar[tuple[str, ...]] = ()
    """Fields that hold positions, vec3f [E, slots]."""
    _per_slot: ClassVar[tuple[str, ...]] = ()
    """Fields with a value per slot, [E, slots, ...]; the first one holds vec3f."""
    _positive: ClassVar[tuple[str, ...]] = ()
    """Fields that are finite and > 0 in a valid row, per env or per slot."""
    _unit: ClassVar[tuple[str, ...]] = ()
    """Fields of unit vectors or quaternions, [E, slots]."""
    _flags: ClassVar[type[enum.IntFlag]]
    """Names of the bits of ``status``."""
    _units: ClassVar[str]
    """What a file says about its units."""
    _placement: Placement | None = None
    is_placed: bool = False
    """Whether the positions are those of a world that all envs share: see :meth:`placed`."""

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
        copy = type(self)(**{name: wp.clone(array) for name, array in self.arrays().items()})
        copy.is_placed = self.is_placed
        return copy

    def placed(self: T, origins: Any, out: T | None = None, mask: Any = None) -> T:
        """The batch in a world that all envs share: every position shifted by its env's origin.

        All else (directions, arc lengths, counts, reasons, ...) is copied, so the result is a batch
        of its own. With ``out`` it keeps its addresses, follows the generator at each call,
        allocates and synchronises nothing, and can be captured. An env whose origin on the device
        is not finite becomes invalid, with the reason NONFINITE.

        Args:
            origins: Where each env stands [length]: vec3f [E] or float32 [E, 3] as Warp array or
                torch tensor on the device, read in place; or a NumPy array [E, 3], copied.
            out: What an earlier call returned, or another batch of this type and shape; None
                allocates one.
            mask: Rows of ``out`` to write, bool [E] as Warp array, torch tensor or NumPy array; the
                others stay as they are. None is all.

        Returns:
            ``out``, or the new batch.

        Raises:
            TypeError: If a type or dtype is wrong.
            ValueError: If a shape or device is wrong, ``out`` shares memory with the batch, a
                number on the host is not finite, or there is a mask but no ``out``.
            RuntimeError: If a capture is open and something would have to be allocated.
        """
        owner, device = f"{type(self).__name__}.placed", self.device
        source = self.arrays()
        if out is None and mask is not None:
            raise ValueError(f"{owner}(mask) needs out: a new batch has no other rows to keep")
        if out is not None:
            self._check_target(f"{owner}(out)", source, out)
        where = as_origins(f"{owner}(origins)", origins, self.num_envs, device)
        rows = mask
        if mask is not None:
            rows = as_device_mask(f"{owner}(mask)", mask, self.num_envs, device)
        if (
            out is None
            or out._placement is None
            or not out._placement.connects(source, out.arrays())
        ):
            if recording_here(device):
                raise RuntimeError(
                    f"{owner}: call it once before the capture is opened, and pass what it "
                    "returned as out"
                )
            if out is None:
                out = type(self)(**{name: wp.empty_like(array) for name, array in source.items()})
            every = out._placement.every_env if out._placement else None
            if every is None:
                every = wp.full(self.num_envs, True, dtype=wp.bool, device=device)
            out._placement = Placement(source, out.arrays(), self._positions, every, device)
        out._placement(where, rows)
        out.is_placed = True
        return out

    def _check_target(self, name: str, source: dict[str, wp.array], out: Any) -> None:
        """Refuse what :meth:`placed` cannot write into.

        Raises:
            TypeError: If it is another kind of batch.
            ValueError: If its arrays have other shapes or another device, or share memory.
        """
        if type(out) is not type(self):
            raise TypeError(f"{name} must be a {type(self).__name__}, got {type(out).__name__}")
        target = out.arrays()
        for field, array in source.items():
            other = target[field]
            if other.dtype is not array.dtype or other.shape != array.shape:
                raise ValueError(
                    f"{name}.{field} must be {array.dtype.__name__} of shape {array.shape}, "
                    f"got {other.dtype.__name__} of shape {other.shape}"
                )
            if other.device != array.device:
                raise ValueError(
                    f"{name}.{field} must be on device {array.device}, got {other.device}"
                )
            if other.ptr == array.ptr:
                raise ValueError(
                    f"{name}.{field} must not share memory with the batch: it would drift away"
                )

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

    @classmethod
    def file_notes(cls) -> dict[str, Any]:
        """What explains the arrays in a file: texts of fields, status bits, units, versions."""
        return description(cls, cls._flags, cls._units)

    def save(self, path: str | Path) -> Path:
        """Write all arrays as compressed npz (an explicit synchronisation).

        The file holds every array by its field name, the text of each field, names and bits of the
        status, and the versions; NumPy alone reads it.

        Args:
            path: File to write; its name must end with ``.npz``.

        Raises:
            ValueError: If the name does not end with ``.npz``.
            FileExistsError: If the path holds something else than a file of such a batch.
            OSError: If the file cannot be written.
        """
        path = check_suffix(f"{type(self).__name__}.save(path)", path, ".npz")
        write_npz(path, {**self.numpy(), **self.file_notes()})
        return path

    @classmethod
    def load(cls: type[T], path: str | Path, device: Any = None) -> T:
        """Read what :meth:`save` or the command line wrote.

        Args:
            path: File.
            device: Warp device, or None for the current one.

        Raises:
            ValueError: If the file is not such a file or a row contradicts itself; the message
                names what is missing or wrong.
            OSError: If it cannot be read.
        """
        arrays = read_npz(path)
        name = cls._per_slot[0]
        first = arrays.get(name)
        if first is None or first.ndim != 3 or 0 in first.shape or first.shape[2] != 3:
            raise ValueError(f"{path}: no array {name!r} of shape [E, slots, 3]")
        batch = cls.allocate(first.shape[0], first.shape[1], device)
        check_batch(
            path, arrays, batch.numpy(), cls._per_slot, cls._positive, cls._unit, cls._rules
        )
        for name, target in batch.arrays().items():
            target.assign(arrays[name])
        return batch

    @classmethod
    def _rules(cls, arrays: Mapping[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
        """More that holds in a valid row: texts, and which rows break them."""
        return []

    @classmethod
    def allocate(cls: type[T], num_envs: int, slots: int, device: Any = None) -> T:
        """Allocate a batch in which no env has been generated.

        Args:
            num_envs: Rows E, at least 1.
            slots: Slots per row, at least 1.
            device: Warp device, or None for the current one.

        Raises:
            ValueError: If a size is out of range or the device does not exist.
        """
        raise NotImplementedError

    def _env_row(self, index: int) -> dict[str, Any]:
        """One row of every array as NumPy (an explicit synchronisation).

        Raises:
            TypeError: If it is not an int.
            IndexError: If there is no such row.
        """
        row = check_index(f"{type(self).__name__}.env(index)", index, self.num_envs)
        return {name: array[row : row + 1].numpy()[0] for name, array in self.arrays().items()}
