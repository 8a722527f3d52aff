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
import os
import textwrap
import typing
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

__all__ = [
    "check_suffix",
    "description",
    "field_texts",
    "load_csv",
    "read_npz",
    "write_csv",
    "write_npz",
]

_HEADER = "# x_m,y_m,w_tr_right_m,w_tr_left_m"


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


def write_npz(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays, replacing the file as a whole: no reader ever sees half of one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            np.savez_compressed(file, **{name: np.asarray(value) for name, value in arrays.items()})
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def description(owner: type, flags: type[Any], units: str) -> dict[str, Any]:
    """What makes a file explain itself: texts of the fields, status bits, units, versions."""
    return {
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
    except (ValueError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not an npz file of arrays") from error


def write_csv(path: Path, points: np.ndarray, right: np.ndarray, left: np.ndarray) -> None:
    """Write points [n, 2] and the widths [n] to their right and left."""
    table = np.c_[points, right, left].astype(np.float64)
    lines = [_HEADER, *(",".join(f"{value:.9g}" for value in row) for row in table)]
    path.write_text("\n".join(lines) + "\n")


def load_csv(path: str | Path) -> np.ndarray:
    """Read a centerline: columns x, y, width to the right, width to the left.

    Comment lines start with ``#``; the separator is a comma, a semicolon or white space. A first
    point that is repeated at the end is dropped. Files with x and y alone get NaN widths.

    Returns:
        Points and widths, float64, shape [n, 4].

    Raises:
        ValueError: If a line is malformed (the message names the file and the line) or there are
            fewer than 3 points.
        OSError: If the file cannot be read.
    """
    rows = []
    for number, line in enumerate(Path(path).read_text().splitlines(), start=1):
        text = line.partition("#")[0].replace(";", " ").replace(",", " ").split()
        if not text:
            continue
        try:
            values = [float(word) for word in text]
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: not a number in {line.strip()!r}") from error
        if len(values) not in (2, 4):
            raise ValueError(
                f"{path}, line {number}: expected x, y and two widths, got {len(values)} values"
            )
        if not np.isfinite(values[:2]).all():
            raise ValueError(f"{path}, line {number}: must be finite, got {line.strip()!r}")
        rows.append(values + [np.nan] * (4 - len(values)))
    table = np.array(rows, dtype=np.float64).reshape(-1, 4)
    if len(table) > 1 and np.array_equal(table[0, :2], table[-1, :2]):
        table = table[:-1]
    if len(table) < 3:
        raise ValueError(f"{path}: a centerline needs at least 3 points, got {len(table)}")
    return table
