"""Files that other tools read: npz that explains itself, centerlines as CSV.

The CSV follows the convention of the TUM race track database: columns ``x_m, y_m, w_tr_right_m,
w_tr_left_m``, a header line that starts with ``#``, one point per line in the direction of travel,
not closed. Widths are measured from the centerline to the right and to the left of travel
(Heilmeier et al.: Minimum curvature trajectory planning and control for an autonomous race car,
Vehicle System Dynamics 2020).
"""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import itertools
import json
import math
import os
import textwrap
import typing
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import warp as wp

__all__ = [
    "check_batch",
    "check_suffix",
    "description",
    "field_texts",
    "load_csv",
    "read_npz",
    "write_csv",
    "write_npz",
]

_UNIT_TOLERANCE = 1.0e-3
"""How far the length of a unit vector may be from 1."""

_COLUMNS = ("x_m", "y_m", "w_tr_right_m", "w_tr_left_m")


def check_suffix(name: str, path: str | Path, suffix: str) -> Path:
    """``path`` as a Path, so that one format does not overwrite another.

    Raises:
        ValueError: If it has another suffix.
    """
    path = Path(path)
    if path.suffix != suffix:
        raise ValueError(f"{name} must end with {suffix}, got {str(path)!r}")
    return path


def field_texts(owner: type) -> dict[str, str]:
    """The string below each field of a dataclass, by field name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    body = typing.cast(ast.ClassDef, tree.body[0]).body
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _replace(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """Write a file beside ``path`` and rename it: no reader ever sees half of one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            write(file)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays; an older file of the same ``format`` entry is replaced as a whole.

    Raises:
        FileExistsError: If the path holds something else.
        OSError: If the file cannot be written.
    """
    if path.exists():
        try:
            found = str(read_npz(path).get("format"))
        except ValueError:
            found = "None"
        if found != str(arrays.get("format")):
            raise FileExistsError(
                f"{path} exists and is no file of a {arrays.get('format')}: it is not replaced"
            )
    entries = {name: np.asarray(value) for name, value in arrays.items()}
    _replace(path, lambda file: np.savez_compressed(file, **entries))


def description(owner: type, flags: type[Any], units: str) -> dict[str, Any]:
    """What makes a file explain itself: texts of the fields, status bits, units, versions."""
    return {
        "format": f"track_gen.{owner.__name__}",
        "fields": json.dumps(field_texts(owner)),
        "units": units,
        "status_names": [flag.name for flag in flags],
        "status_bits": np.array([int(flag) for flag in flags], np.int32),
        "package_version": importlib.metadata.version("track-gen"),
        "warp_version": wp.__version__,
    }


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """Arrays of an npz file by name.

    Raises:
        ValueError: If the file is not one.
        OSError: If it cannot be read.
    """
    try:
        with np.load(Path(path), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (
        ValueError,
        AttributeError,
        TypeError,
        EOFError,
        KeyError,
        NotImplementedError,
        zlib.error,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(f"{path}: not an npz file of arrays") from error


def check_batch(
    path: str | Path,
    arrays: Mapping[str, np.ndarray],
    wanted: Mapping[str, np.ndarray],
    per_slot: Sequence[str],
    positive: Sequence[str] = (),
    unit: Sequence[str] = (),
    rules: Callable[[Mapping[str, np.ndarray]], list[tuple[str, np.ndarray]]] | None = None,
) -> None:
    """Refuse a file whose arrays are not those of a batch, or with a row that contradicts itself.

    Kernels trust ``count`` and ``valid``, and the tools all that is said of a valid row.

    Args:
        path: File, for the message.
        arrays: Arrays of the file.
        wanted: Arrays of the same names, shapes and types, among them ``valid``, ``status`` and
            ``count``.
        per_slot: Names of those with a value per slot, [E, slots, ...], finite up to ``count``.
        positive: Names of those that are finite and > 0, per env or up to ``count``.
        unit: Names of those per slot that are unit vectors.
        rules: More rules for valid rows: from the arrays to texts and which rows break them. Called
            when the arrays have the right shapes and types.

    Raises:
        ValueError: If an array is missing or has another shape or type, or a row breaks a rule; the
            message names it.
    """
    for name, like in wanted.items():
        if name not in arrays:
            raise ValueError(f"{path}: no array {name!r}")
        found = arrays[name]
        if found.shape != like.shape or found.dtype != like.dtype:
            raise ValueError(
                f"{path}: {name!r} must be {like.dtype} of shape {like.shape}, "
                f"got {found.dtype} of shape {found.shape}"
            )
    valid, count = arrays["valid"], arrays["count"]
    slots = wanted[per_slot[0]].shape[1]
    inside = np.arange(slots) < count[:, None]
    checks = [
        (f"'count' must be in [0, {slots}]", (count < 0) | (count > slots)),
        ("'valid' must be true exactly where 'status' is 0", valid != (arrays["status"] == 0)),
        ("'count' of a valid row must be at least 3", valid & (count < 3)),
    ]

    def demand(name: str, what: str, good: np.ndarray) -> None:
        """A rule for valid rows, per env or per slot up to ``count``."""
        bad = ~good if good.ndim == 1 else (inside & ~good).any(axis=1)
        checks.append((f"{name!r} of a valid row must be {what}", valid & bad))

    with np.errstate(invalid="ignore", over="ignore"):
        for name in per_slot:
            values = arrays[name].reshape(*inside.shape, -1)
            demand(name, "finite", np.isfinite(values).all(axis=2))
        for name in positive:
            demand(name, "finite and > 0", np.isfinite(arrays[name]) & (arrays[name] > 0.0))
        for name in unit:
            norm = np.linalg.norm(arrays[name].astype(np.float64), axis=2)
            demand(name, "of unit length", np.abs(norm - 1.0) <= _UNIT_TOLERANCE)
        if rules is not None:
            checks += [(rule, valid & broken) for rule, broken in rules(arrays)]
    for rule, broken in checks:
        if broken.any():
            raise ValueError(f"{path}: {rule}, which row {int(np.argmax(broken))} breaks")


def _columns(line: str) -> tuple[str, ...]:
    """The four columns in the order that a header names them, or nothing."""
    names = tuple(name.strip() for name in line.lstrip("# ").replace(";", ",").split(","))
    return names if sorted(names) == sorted(_COLUMNS) else ()


def write_csv(path: Path, points: np.ndarray, right: np.ndarray, left: np.ndarray) -> None:
    """Write points [n, 2] and the widths [n] to their right and left.

    Nine digits give every float32 back. An older file with the same header is replaced as a whole.

    Raises:
        FileExistsError: If the path holds something else.
        OSError: If the file cannot be written.
    """
    if path.exists() and path.stat().st_size > 0:
        with path.open("rb") as file:
            first = file.readline(200).decode("utf-8-sig", errors="replace")
        if not _columns(first):
            raise FileExistsError(f"{path} exists and is no centerline: it is not replaced")
    table = np.c_[points, right, left].astype(np.float64)
    header = "# " + ",".join(_COLUMNS)
    lines = [header, *(",".join(f"{value:.9g}" for value in row) for row in table)]
    _replace(path, lambda file: file.write(("\n".join(lines) + "\n").encode()))


def load_csv(path: str | Path) -> np.ndarray:
    """Read a centerline: columns x, y, width to the right, width to the left.

    Comments start with ``#``; the separator is a comma, a semicolon or white space. A header that
    names the four columns, commented out or not, gives their order. A first point that is repeated
    at the end is dropped. Files with x and y alone get NaN widths.

    Returns:
        Points and widths, float64, shape [n, 4].

    Raises:
        ValueError: If a line is malformed (the message names the file and the line) or there are
            fewer than 3 points.
        OSError: If the file cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file") from error
    order = _COLUMNS
    rows = []
    for number, line in enumerate(lines, start=1):
        if not rows and _columns(line):
            order = _columns(line)
            continue
        text = line.partition("#")[0].replace(";", " ").replace(",", " ").split()
        if not text:
            continue
        where = f"{path}, line {number}"
        try:
            values = [float(word) for word in text]
        except ValueError as error:
            raise ValueError(f"{where}: not a number in {line.strip()[:80]!r}") from error
        if len(values) not in (2, 4):
            raise ValueError(f"{where}: expected x, y and two widths, got {len(values)} values")
        named = dict(zip(order if len(values) == 4 else _COLUMNS, values, strict=False))
        for name, value in named.items():
            if not math.isfinite(value):
                raise ValueError(f"{where}: {name} must be finite, got {value}")
            if name.startswith("w_") and value < 0.0:
                raise ValueError(f"{where}: {name} must be >= 0, got {value}")
        rows.append([named.get(name, np.nan) for name in _COLUMNS])
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    while len(table) > 1 and np.array_equal(table[0, :2], table[-1, :2]):
        table = table[:-1]
    if len(table) < 3:
        raise ValueError(f"{path}: a centerline needs at least 3 points, got {len(table)}")
    return table
