"""What all pictures share: colours, figures, files, and the reasons of an invalid env."""

# pyright: basic
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from track_gen.status import GateStatus, TrackStatus

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "ARROW",
    "ASPHALT",
    "BAD_ASPHALT",
    "BAD_EDGE",
    "CENTERLINE",
    "EDGE",
    "PAPER",
    "START",
    "TEXT",
    "cell_grid",
    "check_picture_path",
    "reason_text",
    "require_matplotlib",
    "save_figure",
]

PAPER = "#f7f6f2"
ASPHALT = "#33373d"
EDGE = "#15181c"
CENTERLINE = "#c9cdd2"
START = "#ffffff"
ARROW = "#ffb000"
BAD_ASPHALT = "#f3c5bf"
BAD_EDGE = "#c0392b"
TEXT = "#33373d"


def require_matplotlib() -> Any:
    """The matplotlib package.

    Raises:
        ImportError: If it is not installed, with the extra that brings it.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'track-gen[viz]'") from error
    return matplotlib


def check_picture_path(name: str, path: str | Path) -> Path:
    """``path`` if a picture can be written there.

    Raises:
        ValueError: If its suffix is no picture format or its folder does not exist.
        ImportError: If matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    path = Path(path)
    known = sorted(FigureCanvasAgg.get_supported_filetypes())
    if path.suffix.lower().lstrip(".") not in known:
        raise ValueError(f"{name} must end in one of {', '.join(known)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise ValueError(f"{name}: no such folder: {str(path.parent)!r}")
    return path


def reason_text(status: int) -> str:
    """The reasons in a status as text, ``"turning, border"``; empty for a valid track.

    Of a gate course if it is a ``GateStatus``, else of a track.
    """
    flags = GateStatus if isinstance(status, GateStatus) else TrackStatus
    return ", ".join(
        flag.name.lower().replace("_", " ") for flag in flags if flag & status and flag.name
    )


def cell_grid(
    rows: int, columns: int, title: str | None, label_width: float, cell: float
) -> tuple[Figure, np.ndarray]:
    """A figure with ``rows`` x ``columns`` axes, room for a title, and for labels at the left."""
    from matplotlib.figure import Figure

    top = 0.45 if title else 0.08
    width, height = columns * cell + label_width + 0.16, rows * cell + top + 0.08
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    axes = figure.subplots(
        rows,
        columns,
        squeeze=False,
        gridspec_kw={
            "left": (label_width + 0.08) / width,
            "right": 1.0 - 0.08 / width,
            "bottom": 0.08 / height,
            "top": 1.0 - top / height,
            "wspace": 0.04,
            "hspace": 0.04,
        },
    )
    if title:
        figure.text(
            0.5, 1.0 - 0.24 / height, title, ha="center", va="center", fontsize=12, color=TEXT
        )
    return figure, axes


def save_figure(figure: Figure, path: str | Path | None) -> Figure:
    """Write the figure if there is a path, and return it.

    Raises:
        ValueError: If it cannot be written there.
    """
    if path is not None:
        figure.savefig(check_picture_path("path", path), dpi=150, facecolor=PAPER)
    return figure
