"""Pictures of tracks, for a README, a notebook or a look at a batch.

Needs matplotlib, the ``viz`` extra. Figures are built without pyplot: no window, no global state,
so it works without a display and beside the plots of the caller.
"""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from track_gen.batch import EnvTrack, Track
from track_gen.checks import check_int
from track_gen.status import TrackStatus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["check_picture_path", "draw_track", "plot_families", "plot_tracks", "reason_text"]

_PAPER = "#f7f6f2"
_ASPHALT = "#33373d"
_EDGE = "#15181c"
_CENTERLINE = "#c9cdd2"
_START = "#ffffff"
_ARROW = "#ffb000"
_BAD_ASPHALT = "#f3c5bf"
_BAD_EDGE = "#c0392b"
_TEXT = "#33373d"


def _require_matplotlib() -> Any:
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
    _require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    path = Path(path)
    known = sorted(FigureCanvasAgg.get_supported_filetypes())
    if path.suffix.lower().lstrip(".") not in known:
        raise ValueError(f"{name} must end in one of {', '.join(known)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise ValueError(f"{name}: no such folder: {str(path.parent)!r}")
    return path


def reason_text(status: int) -> str:
    """The reasons in a status as text, ``"turning, border"``; empty for a valid track."""
    return ", ".join(
        flag.name.lower().replace("_", " ") for flag in TrackStatus if flag & status and flag.name
    )


def _loop(points: np.ndarray, codes: list[Any]) -> tuple[np.ndarray, list[Any]]:
    """Vertices and path codes of a closed loop."""
    move, line, close = codes
    vertices = np.vstack([points, points[:1]])
    return vertices, [move, *[line] * (len(points) - 1), close]


def draw_track(axes: Axes, track: EnvTrack, extent: float) -> None:
    """Draw one track: road, borders, centerline, start line and direction of travel.

    Args:
        axes: Axes with an equal aspect.
        track: Track of one env; nothing is drawn without points.
        extent: Width of the axes [length]; marks keep a visible size in it.
    """
    _require_matplotlib()
    from matplotlib.patches import PathPatch, Polygon
    from matplotlib.path import Path as VectorPath

    if track.count < 3:
        return
    center, outer, inner = (
        line[:, :2].astype(np.float64) for line in (track.center, track.outer, track.inner)
    )
    codes = [VectorPath.MOVETO, VectorPath.LINETO, VectorPath.CLOSEPOLY]
    asphalt, edge = (_ASPHALT, _EDGE) if track.valid else (_BAD_ASPHALT, _BAD_EDGE)

    # The inner border runs backwards, so that its inside is a hole under the nonzero fill rule.
    outer_vertices, outer_codes = _loop(outer, codes)
    inner_vertices, inner_codes = _loop(inner[::-1], codes)
    road = VectorPath(np.vstack([outer_vertices, inner_vertices]), outer_codes + inner_codes)
    axes.add_patch(
        PathPatch(
            road, facecolor=asphalt, edgecolor=edge, linewidth=0.9, joinstyle="round", zorder=2
        )
    )
    center_vertices, _ = _loop(center, codes)
    axes.plot(
        *center_vertices.T,
        color=_CENTERLINE if track.valid else edge,
        linewidth=0.6,
        dashes=(5, 4),
        alpha=0.9,
        zorder=3,
    )

    travel = track.tangent[0, :2].astype(np.float64)
    left = np.array([-travel[1], travel[0]])
    across = track.half_width * left
    depth = min(max(0.35 * track.half_width, 0.012 * extent), 0.02 * extent)
    bar = [
        center[0] + across,
        center[0] - across,
        center[0] - across - depth * travel,
        center[0] + across - depth * travel,
    ]
    axes.add_patch(Polygon(bar, facecolor=_START, edgecolor=edge, linewidth=0.4, zorder=4))
    size = min(max(0.7 * track.half_width, 0.028 * extent), 0.045 * extent)
    nose = center[0] + (0.6 * depth + 2.0 * size) * travel
    tail = center[0] + 0.6 * depth * travel
    arrow = [nose, tail + size * left, tail + 0.35 * size * travel, tail - size * left]
    axes.add_patch(
        Polygon(arrow, facecolor=_ARROW, edgecolor=edge, linewidth=0.5, joinstyle="round", zorder=5)
    )


def _cell(axes: Axes, track: EnvTrack, extent: float, label: str) -> None:
    """One cell of a grid: the track in the middle, its label below it."""
    if not track.valid:
        extent *= 1.2  # room for the reasons
    middle = np.zeros(2)
    if track.count:
        middle = (track.outer[:, :2].min(axis=0) + track.outer[:, :2].max(axis=0)) / 2.0
    half = extent / 2.0
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_aspect("equal")
    axes.axis("off")
    draw_track(axes, track, extent)
    reasons = "" if track.valid else f"{label}: {reason_text(track.status) or 'invalid'}"
    if reasons:
        axes.text(
            0.5,
            0.0 if track.count else 0.5,
            reasons,
            transform=axes.transAxes,
            ha="center",
            va="bottom",
            fontsize=6.5,
            color=_BAD_EDGE,
            bbox={"facecolor": _PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 1.0},
            zorder=6,
        )


def _extent(tracks: Sequence[EnvTrack]) -> float:
    """Width of a square that holds each of the tracks, with a margin; 1 if there is none."""
    sizes = [np.ptp(track.outer[:, :2], axis=0).max() for track in tracks if track.count]
    finite = [float(size) for size in sizes if math.isfinite(size)]
    return 1.08 * max(finite) if finite else 1.0


def _grid(
    rows: int, columns: int, title: str | None, label_width: float, cell: float
) -> tuple[Figure, np.ndarray]:
    """A figure with ``rows`` x ``columns`` axes, room for a title, and for labels at the left."""
    from matplotlib.figure import Figure

    top = 0.45 if title else 0.08
    width, height = columns * cell + label_width + 0.16, rows * cell + top + 0.08
    figure = Figure(figsize=(width, height), facecolor=_PAPER)
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
            0.5, 1.0 - 0.24 / height, title, ha="center", va="center", fontsize=12, color=_TEXT
        )
    return figure, axes


def _save(figure: Figure, path: str | Path | None) -> Figure:
    if path is not None:
        figure.savefig(check_picture_path("path", path), dpi=150, facecolor=_PAPER)
    return figure


def plot_tracks(
    track: Track,
    envs: Sequence[int] | None = None,
    columns: int = 8,
    path: str | Path | None = None,
    title: str | None = None,
    shared_scale: bool = False,
) -> Figure:
    """A grid of tracks; those that are not valid are red and carry their reasons.

    Args:
        track: Batch of tracks; read back, so this synchronises.
        envs: Rows to draw, in this order; default the first 64.
        columns: Cells per row of the grid.
        path: File to write (png, svg, pdf, ...), or None.
        title: Text above the grid.
        shared_scale: Draw all tracks to one scale, rather than each as large as its cell.

    Returns:
        The figure; ``figure.savefig`` writes it again.

    Raises:
        ImportError: If matplotlib is not installed.
        IndexError: If a row does not exist.
        ValueError: If there is nothing to draw or ``path`` cannot be written.
    """
    _require_matplotlib()
    columns = check_int("plot_tracks(columns)", columns, low=1, high=1000)
    rows = list(range(min(track.num_envs, 64)) if envs is None else envs)
    if not rows:
        raise ValueError("plot_tracks(envs) must name at least one env, got none")
    if path is not None:
        check_picture_path("plot_tracks(path)", path)
    tracks = [track.env(env) for env in rows]
    columns = min(columns, len(rows))
    figure, axes = _grid(-(-len(rows) // columns), columns, title, label_width=0.0, cell=1.5)
    shared = _extent(tracks)
    for cell in axes.flat:
        cell.axis("off")
    for cell, env, one in zip(axes.flat, rows, tracks, strict=False):
        _cell(cell, one, shared if shared_scale else _extent([one]), f"env {env}")
    return _save(figure, path)


def plot_families(
    batches: Mapping[str, Track],
    columns: int = 8,
    path: str | Path | None = None,
    title: str | None = None,
) -> Figure:
    """One row of tracks per family, its name at the left.

    Args:
        batches: Batches by the name of their family; read back, so this synchronises.
        columns: Tracks per family.
        path: File to write (png, svg, pdf, ...), or None.
        title: Text above the grid.

    Raises:
        ImportError: If matplotlib is not installed.
        ValueError: If there is nothing to draw or ``path`` cannot be written.
    """
    _require_matplotlib()
    columns = check_int("plot_families(columns)", columns, low=1, high=1000)
    if not batches:
        raise ValueError("plot_families(batches) must hold at least one batch, got none")
    if path is not None:
        check_picture_path("plot_families(path)", path)
    figure, axes = _grid(len(batches), columns, title, label_width=1.1, cell=1.5)
    for row, (name, batch) in zip(axes, batches.items(), strict=True):
        for column, cell in enumerate(row):
            cell.axis("off")
            if column < batch.num_envs:
                one = batch.env(column)
                _cell(cell, one, _extent([one]), f"env {column}")
        row[0].text(
            -0.06,
            0.5,
            name,
            transform=row[0].transAxes,
            ha="right",
            va="center",
            fontsize=11,
            color=_TEXT,
        )
    return _save(figure, path)
