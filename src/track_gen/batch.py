"""The published batch: arrays of fixed shape and address, and views of them for other tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import warp as wp

from track_gen.checks import check_device, check_int
from track_gen.files import check_suffix, write_csv
from track_gen.published import PublishedArrays
from track_gen.status import TrackStatus

__all__ = ["EnvTrack", "Track", "overlay_rows", "row_slice"]

T = TypeVar("T")


def row_slice(owner: T, low: int, high: int) -> T:
    """A shallow copy of a dataclass whose Warp arrays are views of the rows ``low`` to ``high``.

    Dictionaries of arrays are sliced too, but for entries whose name starts with ``shared_``.
    """

    def rows(name: str, value: Any) -> Any:
        if isinstance(value, wp.array) and not name.startswith("shared_"):
            return value[low:high]
        if isinstance(value, dict):
            return {key: rows(key, item) for key, item in value.items()}
        return value

    fields = dataclasses.fields(owner)  # type: ignore[arg-type]
    changes = {field.name: rows(field.name, getattr(owner, field.name)) for field in fields}
    return dataclasses.replace(owner, **changes)  # type: ignore[type-var]


_PER_POINT = ("center", "outer", "inner", "tangent", "normal", "up", "arclen", "curvature")
"""Arrays with a value per point."""

_ALIGNMENT = 64
"""Bytes; every array and every row of an overlay starts at a multiple."""


def overlay_rows(templates: Sequence[T], num_envs: int, device: wp.Device) -> list[T]:
    """Give the scratch of stages that run one after another the same memory.

    Each template is a dataclass or a dictionary of arrays with one row. The two-dimensional arrays
    of all of them are laid over each other in one allocation, row by row: a row of the batch owns
    one contiguous stretch, as long as the hungriest template needs. So the content of an array is
    lost when another template's stage runs. One-dimensional arrays get memory of their own, and
    entries whose name starts with ``shared_`` are kept as they are.

    Args:
        templates: Dataclasses or dictionaries of arrays with one row.
        num_envs: Rows E of the result.
        device: Device of the result.

    Returns:
        The templates with arrays of E rows, zero at first.
    """

    def padded(size: int) -> int:
        return -(-size // _ALIGNMENT) * _ALIGNMENT

    def members(template: Any) -> dict[str, Any]:
        if isinstance(template, dict):
            return template
        return {f.name: getattr(template, f.name) for f in dataclasses.fields(template)}

    def is_row(name: str, value: Any) -> bool:
        return isinstance(value, wp.array) and value.ndim > 1 and not name.startswith("shared_")

    def row_bytes(array: wp.array) -> int:
        return int(np.prod(array.shape[1:])) * wp.types.type_size_in_bytes(array.dtype)

    stride = max(
        sum(padded(row_bytes(v)) for n, v in members(template).items() if is_row(n, v))
        for template in templates
    )
    arena = wp.zeros((num_envs, stride), dtype=wp.uint8, device=device)
    base = int(arena.ptr or 0)
    results = []
    for template in templates:
        offset = 0
        replaced: dict[str, Any] = {}
        for name, value in members(template).items():
            if is_row(name, value):
                view = wp.array(
                    ptr=base + offset,
                    dtype=value.dtype,
                    shape=(num_envs, *value.shape[1:]),
                    strides=(stride, *value.strides[1:]),
                    device=device,
                )
                view._ref = arena  # keeps the allocation alive as long as any view
                replaced[name] = view
                offset += padded(row_bytes(value))
            elif isinstance(value, wp.array) and not name.startswith("shared_"):
                replaced[name] = wp.zeros(num_envs, dtype=value.dtype, device=device)
            else:
                replaced[name] = value
        if isinstance(template, dict):
            results.append(replaced)
        else:
            results.append(dataclasses.replace(template, **replaced))
    return results


@dataclass(frozen=True)
class EnvTrack:
    """One env of a batch as NumPy copies without padding; ``n`` is its count."""

    center: np.ndarray
    """Centerline points [length], float32, shape [n, 3]."""
    outer: np.ndarray
    """Outer border points [length], float32, shape [n, 3]."""
    inner: np.ndarray
    """Inner border points [length], float32, shape [n, 3]."""
    tangent: np.ndarray
    """Unit tangents, float32, shape [n, 3]."""
    normal: np.ndarray
    """Unit normals, left of travel, float32, shape [n, 3]."""
    up: np.ndarray
    """Unit normals of the road's surface, float32, shape [n, 3]."""
    arclen: np.ndarray
    """Arc length of each point [length], float32, shape [n]."""
    curvature: np.ndarray
    """Signed curvature [1/length], float32, shape [n]."""
    length: float
    """Closed perimeter [length]; NaN without a track."""
    half_width: float
    """Half width of the road [length]."""
    spacing: float
    """Length per point [length]."""
    valid: bool
    """Whether the track passed every test."""
    status: TrackStatus
    """Reasons why not."""
    count: int
    """Number of points n."""
    winding: int
    """+1 counter-clockwise, -1 clockwise, 0 without a track."""
    attempts: int
    """Attempts used."""
    required_count: int
    """Points that the last attempt needed."""
    family: int
    """Part of a mixture, 0 where there is one family."""


@dataclass
class Track(PublishedArrays):
    """A batch of closed tracks, one per env: E rows, ``N_max`` slots.

    Index ``i`` is the same place on all lines. Slots past ``count[env]`` are NaN in every
    component; a loop is closed without a repeated point. The arrays keep their addresses for the
    life of the generator and are overwritten by the next ``generate()``: :meth:`clone` keeps a
    batch.
    """

    _positions = ("center", "outer", "inner")
    _per_slot = _PER_POINT
    _positive = ("length", "half_width", "spacing")
    _unit = ("tangent", "normal", "up")
    _flags = TrackStatus
    _units = (
        "Lengths are in the units of scale and half_width; z is up; angles are counter-clockwise."
    )

    center: wp.array
    """Centerline points [length], vec3f, shape [E, N_max]."""
    outer: wp.array
    """Border that encloses the other [length], vec3f, shape [E, N_max].

    Right of travel if ``winding`` is +1, left if -1.
    """
    inner: wp.array
    """Border enclosed by the other [length], vec3f, shape [E, N_max].

    Left of travel if ``winding`` is +1, right if -1.
    """
    tangent: wp.array
    """Unit direction of travel, in space if the road climbs, vec3f, shape [E, N_max]."""
    normal: wp.array
    """Unit normal, left of travel in plan view, always level, vec3f, shape [E, N_max]."""
    up: wp.array
    """Unit normal of the road's surface, vec3f, shape [E, N_max]; (0, 0, 1) where it is level."""
    arclen: wp.array
    """Arc length from index 0 in space [length], float32, shape [E, N_max].

    Points are evenly spaced in plan view.
    """
    curvature: wp.array
    """Signed curvature in plan view [1/length], left turn positive, float32, shape [E, N_max]."""
    length: wp.array
    """Closed perimeter of the centerline in space [length], float32, shape [E]."""
    half_width: wp.array
    """Half width this env used [length], float32, shape [E]."""
    spacing: wp.array
    """Length / count [length], float32, shape [E]."""
    valid: wp.array
    """Whether ``status`` is 0, bool, shape [E]."""
    status: wp.array
    """Bit set of :class:`TrackStatus`, int32, shape [E]."""
    count: wp.array
    """Number of points, int32, shape [E]."""
    winding: wp.array
    """+1 counter-clockwise, -1 clockwise, 0 without a track, int32, shape [E]."""
    attempts: wp.array
    """Attempts used, int32, shape [E]."""
    required_count: wp.array
    """Points that the last attempt needed; above ``N_max`` after OVERFLOW, int32, shape [E]."""
    family: wp.array
    """Part of a mixture, 0 where there is one family, -1 if never generated, int32, shape [E]."""

    @classmethod
    def allocate(cls, num_envs: int, N_max: int, device: Any = None) -> Track:
        """Allocate a batch in which no env has been generated.

        Args:
            num_envs: Rows E, at least 1.
            N_max: Slots per row, at least 1.
            device: Warp device, or None for the current one.

        Raises:
            ValueError: If a size is out of range or the device does not exist.
        """
        num_envs = check_int("Track.allocate(num_envs)", num_envs, low=1, high=2**31 - 1)
        N_max = check_int("Track.allocate(N_max)", N_max, low=1, high=2**31 - 1)
        device = check_device("Track.allocate(device)", device)

        def points() -> wp.array:
            return wp.full(
                (num_envs, N_max), wp.vec3f(np.nan, np.nan, np.nan), dtype=wp.vec3f, device=device
            )

        def values() -> wp.array:
            return wp.full((num_envs, N_max), np.nan, dtype=wp.float32, device=device)

        def scalars() -> wp.array:
            return wp.full(num_envs, np.nan, dtype=wp.float32, device=device)

        def integers() -> wp.array:
            return wp.zeros(num_envs, dtype=wp.int32, device=device)

        return cls(
            center=points(),
            outer=points(),
            inner=points(),
            tangent=points(),
            normal=points(),
            up=points(),
            arclen=values(),
            curvature=values(),
            length=scalars(),
            half_width=scalars(),
            spacing=scalars(),
            valid=wp.zeros(num_envs, dtype=wp.bool, device=device),
            status=wp.full(num_envs, int(TrackStatus.NOT_GENERATED), dtype=wp.int32, device=device),
            count=integers(),
            winding=integers(),
            attempts=integers(),
            required_count=integers(),
            family=wp.full(num_envs, -1, dtype=wp.int32, device=device),
        )

    @classmethod
    def _rules(cls, arrays: Mapping[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
        """The sense, and an arc length that grows from 0 to below the closed perimeter."""
        arclen, length = arrays["arclen"], arrays["length"]
        inside = np.arange(arclen.shape[1]) < arrays["count"][:, None]
        grows = np.diff(arclen, axis=1) > 0.0
        broken = (arclen[:, 0] != 0.0) | (inside[:, 1:] & ~grows).any(axis=1)
        broken |= (inside & ~(arclen < length[:, None])).any(axis=1)
        whole = arrays["spacing"] * arrays["count"]
        return [
            ("'winding' of a valid row must be 1 or -1", np.abs(arrays["winding"]) != 1),
            ("'arclen' of a valid row must increase from 0 to below 'length'", broken),
            (
                "'spacing' of a valid row must be 'length' over 'count'",
                ~(np.abs(whole - length) <= 1.0e-3 * length),
            ),
        ]

    @property
    def N_max(self) -> int:
        """Slots per row."""
        return self.center.shape[1]

    def save_csv(self, path: str | Path, env: int = 0) -> Path:
        """Write the centerline of one env and the widths of its road as CSV.

        Columns and convention of the TUM race track database: see :mod:`track_gen.files`;
        ``Library.from_csv`` reads it.

        Args:
            path: File to write; its name must end with ``.csv``.
            env: Row in [-E, E - 1].

        Raises:
            TypeError: If ``env`` is not an int.
            ValueError: If the env has no valid track, or the name does not end with ``.csv``.
            IndexError: If there is no such row.
            FileExistsError: If the path holds something else than such a file.
            OSError: If the file cannot be written.
        """
        path = check_suffix("Track.save_csv(path)", path, ".csv")
        one = self.env(env)
        if not one.valid:
            raise ValueError(f"Track.save_csv(env): env {env} has no valid track: {one.status!r}")
        left, right = (one.inner, one.outer) if one.winding >= 0 else (one.outer, one.inner)
        center = one.center[:, :2].astype(np.float64)
        widths = (np.linalg.norm(border[:, :2] - center, axis=1) for border in (right, left))
        write_csv(path, center, *widths)
        return path

    def env(self, index: int) -> EnvTrack:
        """One env as NumPy copies without padding (an explicit synchronisation).

        Args:
            index: Row in [-E, E - 1].

        Raises:
            TypeError: If it is not an int.
            IndexError: If there is no such row.
        """
        row = self._env_row(index)
        count = int(row["count"])
        trimmed = {name: row[name][:count].copy() for name in _PER_POINT}
        return EnvTrack(
            **trimmed,
            length=float(row["length"]),
            half_width=float(row["half_width"]),
            spacing=float(row["spacing"]),
            valid=bool(row["valid"]),
            status=TrackStatus(int(row["status"])),
            count=count,
            winding=int(row["winding"]),
            attempts=int(row["attempts"]),
            required_count=int(row["required_count"]),
            family=int(row["family"]),
        )
