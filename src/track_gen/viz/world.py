"""Many envs in one picture, each where it stands in the world."""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from track_gen.batch import EnvTrack, Track
from track_gen.checks import as_origins, check_bool
from track_gen.course_line import CourseLine
from track_gen.gate_batch import EnvGates, GateSequence
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
    check_picture_path,
    require_matplotlib,
    save_figure,
)
from track_gen.viz.tracks import track_extent, track_shapes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_world"]

_SIDE = 9.0
"""Longer side of the world in a figure of its own [inches]."""
_ENV_SIDE = 1.5
"""Room for one env at which lines have their full width [inches]."""


def _draw_tracks(axes: Axes, tracks: Sequence[EnvTrack], scale: float) -> None:
    """Draw tracks as four collections, which stays fast for thousands of them."""
    from matplotlib.collections import LineCollection, PathCollection, PolyCollection

    shapes = [track_shapes(track, track_extent([track])) for track in tracks]
    edges = [EDGE if track.valid else BAD_EDGE for track in tracks]
    roads = PathCollection(
        [one.road for one in shapes],
        facecolors=[ASPHALT if track.valid else BAD_ASPHALT for track in tracks],
        edgecolors=edges,
        linewidths=0.9 * scale,
        joinstyle="round",
        zorder=2,
    )
    axes.add_collection(roads)
    axes.add_collection(
        LineCollection(
            [one.center for one in shapes],
            colors=[CENTERLINE if track.valid else BAD_EDGE for track in tracks],
            linewidths=0.6 * scale,
            linestyles=[(0, (5, 4))],
            alpha=0.9,
            zorder=3,
        )
    )
    for zorder, color, polygons in (
        (4, START, [one.start for one in shapes]),
        (5, ARROW, [one.arrow for one in shapes]),
    ):
        marks = PolyCollection(
            polygons, facecolors=color, edgecolors=edges, linewidths=0.4 * scale, zorder=zorder
        )
        axes.add_collection(marks)


def _draw_courses(
    axes: Axes, courses: Sequence[EnvGates], lines: Sequence[np.ndarray], scale: float
) -> None:
    """Draw openings, flight lines, and an arrow through the first gate of each course."""
    from matplotlib.collections import LineCollection, PolyCollection

    closed = [np.vstack([line, line[:1]])[:, :2] for line in lines if len(line)]
    axes.add_collection(LineCollection(closed, colors=ARROW, linewidths=1.2 * scale, zorder=2))
    openings: list[np.ndarray] = []
    colors: list[str] = []
    arrows: list[np.ndarray] = []
    for course in courses:
        side = course.half_width[:, None] * course.normal[:, :2]
        p = course.position[:, :2]
        openings.extend(np.stack([p + side, p - side], axis=1))
        colors.extend([BAD_EDGE] + [EDGE if course.valid else BAD_EDGE] * (course.count - 1))
        nose = 2.6 * course.half_width[0] * course.tangent[0, :2]
        arrows.append(np.stack([p[0] + nose, p[0] + 0.7 * side[0], p[0] - 0.7 * side[0]]))
    axes.add_collection(
        LineCollection(openings, colors=colors, linewidths=2.6 * scale, capstyle="butt", zorder=3)
    )
    axes.add_collection(PolyCollection(arrows, facecolors=BAD_EDGE, linewidths=0.0, zorder=4))


def plot_world(
    batch: Track | GateSequence,
    origins: Any,
    envs: Sequence[int] | None = None,
    line: str = "arc",
    labels: bool = False,
    axes: Axes | None = None,
    path: str | Path | None = None,
    title: str | None = None,
) -> Figure:
    """Tracks or gate courses from above in one world; those that are not valid are red.

    Args:
        batch: Batch as it was generated; read back, so this synchronises.
        origins: Where each env stands [length], as for ``batch.placed``.
        envs: Rows to draw; None is all.
        line: Handles of the flight line of gate courses, as ``GateGenConfig.line``.
        labels: Write the number of each env at its origin.
        axes: Axes to draw in; None makes a figure.
        path: File to write (png, svg, pdf, ...), or None.
        title: Text above the world.

    Returns:
        The figure.

    Raises:
        ImportError: If matplotlib is not installed.
        IndexError: If a row does not exist.
        TypeError: If a type is wrong.
        ValueError: If there is no row, ``path`` cannot be written, or the origins do not fit.
    """
    require_matplotlib()
    from matplotlib.figure import Figure

    if not isinstance(batch, (Track, GateSequence)):
        raise TypeError(
            f"plot_world(batch) must be a Track or a GateSequence, got {type(batch).__name__}"
        )
    check_bool("plot_world(labels)", labels)
    if path is not None:
        check_picture_path("plot_world(path)", path)
    where = as_origins("plot_world(origins)", origins, batch.num_envs, batch.device)
    rows = list(range(batch.num_envs)) if envs is None else list(envs)
    if not rows:
        raise ValueError("plot_world(envs) must name at least one env, got none")
    placed = batch.placed(where)
    places = where.numpy()[rows, :2].astype(np.float64)
    drawn: list[Any] = [one for one in (placed.env(env) for env in rows) if _has_place(one)]
    outlines = [one.position if isinstance(one, EnvGates) else one.outer for one in drawn]
    points = np.concatenate([places, *(outline[:, :2] for outline in outlines)])
    points = points[np.isfinite(points).all(axis=1)]
    low, high = (points.min(axis=0), points.max(axis=0)) if len(points) else (np.zeros(2),) * 2
    # A course reaches beyond its gate centres, and a lone point needs room too.
    spans = [float(np.ptp(outline[:, :2], axis=0).max()) for outline in outlines]
    span = max(spans, default=1.0)
    low, high = low - 0.1 * span, high + 0.1 * span
    size = np.maximum(high - low, 0.02 * float((high - low).max()))
    if axes is None:
        inches = _SIDE * size / size.max() + np.array([0.6, 0.8 if title else 0.4])
        figure = Figure(figsize=tuple(np.maximum(inches, 1.5)), facecolor=PAPER)
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        axes.set_facecolor(PAPER)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=TEXT, labelsize=8)
        if title:
            figure.suptitle(title, fontsize=12, color=TEXT)
    elif title:
        axes.set_title(title, fontsize=12, color=TEXT)
    scale = float(np.clip(_SIDE * span / size.max() / _ENV_SIDE, 0.15, 1.0))
    axes.set_aspect("equal")
    if isinstance(batch, Track):
        _draw_tracks(axes, drawn, scale)
    else:
        course_line = CourseLine.through(batch, line=line, num_points=384).placed(where)
        centers, counts = course_line.center.numpy(), course_line.count.numpy()
        _draw_courses(axes, drawn, [centers[env, : counts[env]] for env in rows], scale)
    for env, place in zip(rows, places, strict=True) if labels else ():
        if np.isfinite(place).all():
            axes.text(
                float(place[0]),
                float(place[1]),
                str(env),
                ha="center",
                va="center",
                fontsize=9.0 * scale,
                color=TEXT,
                bbox={"facecolor": PAPER, "edgecolor": "none", "alpha": 0.85, "pad": 0.8},
                zorder=6,
            )
    axes.update_datalim([low, high])
    axes.margins(0.0)
    axes.autoscale_view()
    return save_figure(axes.get_figure(), path)  # type: ignore[arg-type]


def _has_place(one: EnvTrack | EnvGates) -> bool:
    """Whether there is something finite to draw."""
    points = one.position if isinstance(one, EnvGates) else one.outer
    return one.count >= 3 and bool(np.isfinite(points).all())
