"""Tracks from above, in a grid of cells."""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from track_gen.batch import EnvTrack, Track
from track_gen.checks import check_int
from track_gen.viz.canvas import (
    ARROW,
    ASPHALT,
    BAD_ASPHALT,
    BAD_EDGE,
    CENTERLINE,
    EDGE,
    PAPER,
    START,
    TEXT,
    cell_grid,
    check_picture_path,
    reason_text,
    require_matplotlib,
    save_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "TrackShapes",
    "draw_track",
    "plot_families",
    "plot_tracks",
    "track_extent",
    "track_shapes",
]


@dataclass(frozen=True)
class TrackShapes:
    """What a picture of one track consists of; all points are [n, 2]."""

    road: Any
    """The asphalt, a matplotlib path with a hole."""
    center: np.ndarray
    """The centerline, its first point repeated at the end."""
    start: np.ndarray
    """Corners of the start line."""
    arrow: np.ndarray
    """Corners of the arrow of travel."""


def track_shapes(track: EnvTrack, extent: float) -> TrackShapes:
    """The shapes of a track with at least three points; marks keep a visible size in ``extent``."""
    from matplotlib.path import Path as VectorPath

    center, outer, inner = (
        line[:, :2].astype(np.float64) for line in (track.center, track.outer, track.inner)
    )
    count = len(center)
    codes = [VectorPath.MOVETO, *[VectorPath.LINETO] * (count - 1), VectorPath.CLOSEPOLY]
    # The inner border runs backwards, so that its inside is a hole under the nonzero fill rule.
    loops = [np.vstack([line, line[:1]]) for line in (outer, inner[::-1])]
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
    size = min(max(0.7 * track.half_width, 0.028 * extent), 0.045 * extent)
    nose = center[0] + (0.6 * depth + 2.0 * size) * travel
    tail = center[0] + 0.6 * depth * travel
    arrow = [nose, tail + size * left, tail + 0.35 * size * travel, tail - size * left]
    return TrackShapes(
        road=VectorPath(np.vstack(loops), codes + codes),
        center=np.vstack([center, center[:1]]),
        start=np.array(bar),
        arrow=np.array(arrow),
    )


def draw_track(axes: Axes, track: EnvTrack, extent: float) -> None:
    """Draw one track: road, borders, centerline, start line and direction of travel.

    Args:
        axes: Axes with an equal aspect.
        track: Track of one env; nothing is drawn without points.
        extent: Width of the axes [length]; marks keep a visible size in it.
    """
    require_matplotlib()
    from matplotlib.patches import PathPatch, Polygon

    if track.count < 3:
        return
    shapes = track_shapes(track, extent)
    asphalt, edge = (ASPHALT, EDGE) if track.valid else (BAD_ASPHALT, BAD_EDGE)
    axes.add_patch(
        PathPatch(
            shapes.road,
            facecolor=asphalt,
            edgecolor=edge,
            linewidth=0.9,
            joinstyle="round",
            zorder=2,
        )
    )
    axes.plot(
        *shapes.center.T,
        color=CENTERLINE if track.valid else edge,
        linewidth=0.6,
        dashes=(5, 4),
        alpha=0.9,
        zorder=3,
    )
    axes.add_patch(Polygon(shapes.start, facecolor=START, edgecolor=edge, linewidth=0.4, zorder=4))
    axes.add_patch(
        Polygon(
            shapes.arrow,
            facecolor=ARROW,
            edgecolor=edge,
            linewidth=0.5,
            joinstyle="round",
            zorder=5,
        )
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
            color=BAD_EDGE,
            bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 1.0},
            zorder=6,
        )


def track_extent(tracks: Sequence[EnvTrack]) -> float:
    """Width of a square that holds each of the tracks, with a margin; 1 if there is none."""
    sizes = [np.ptp(track.outer[:, :2], axis=0).max() for track in tracks if track.count]
    finite = [float(size) for size in sizes if math.isfinite(size)]
    return 1.08 * max(finite) if finite else 1.0


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
    require_matplotlib()
    columns = check_int("plot_tracks(columns)", columns, low=1, high=1000)
    rows = list(range(min(track.num_envs, 64)) if envs is None else envs)
    if not rows:
        raise ValueError("plot_tracks(envs) must name at least one env, got none")
    if path is not None:
        check_picture_path("plot_tracks(path)", path)
    tracks = [track.env(env) for env in rows]
    columns = min(columns, len(rows))
    figure, axes = cell_grid(-(-len(rows) // columns), columns, title, label_width=0.0, cell=1.5)
    shared = track_extent(tracks)
    for cell in axes.flat:
        cell.axis("off")
    for cell, env, one in zip(axes.flat, rows, tracks, strict=False):
        _cell(cell, one, shared if shared_scale else track_extent([one]), f"env {env}")
    return save_figure(figure, path)


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
    require_matplotlib()
    columns = check_int("plot_families(columns)", columns, low=1, high=1000)
    if not batches:
        raise ValueError("plot_families(batches) must hold at least one batch, got none")
    if path is not None:
        check_picture_path("plot_families(path)", path)
    figure, axes = cell_grid(len(batches), columns, title, label_width=1.1, cell=1.5)
    for row, (name, batch) in zip(axes, batches.items(), strict=True):
        for column, cell in enumerate(row):
            cell.axis("off")
            if column < batch.num_envs:
                one = batch.env(column)
                _cell(cell, one, track_extent([one]), f"env {column}")
        row[0].text(
            -0.06,
            0.5,
            name,
            transform=row[0].transAxes,
            ha="right",
            va="center",
            fontsize=11,
            color=TEXT,
        )
    return save_figure(figure, path)
