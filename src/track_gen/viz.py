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
from track_gen.checks import check_float, check_int
from track_gen.course_line import CourseLine
from track_gen.gate_batch import EnvGates, GateSequence
from track_gen.status import GateStatus, TrackStatus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "check_picture_path",
    "draw_course",
    "draw_track",
    "plot_course_relief",
    "plot_courses",
    "plot_elevation",
    "plot_families",
    "plot_relief",
    "plot_tracks",
    "reason_text",
]

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
    """The reasons in a status as text, ``"turning, border"``; empty for a valid track.

    Of a gate course if it is a ``GateStatus``, else of a track.
    """
    flags = GateStatus if isinstance(status, GateStatus) else TrackStatus
    return ", ".join(
        flag.name.lower().replace("_", " ") for flag in flags if flag & status and flag.name
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


def _one_road(name: str, track: Track, env: int) -> EnvTrack:
    """One env of a batch that has a road.

    Raises:
        IndexError: If the row does not exist.
        ValueError: If it has no road.
    """
    one = track.env(env)
    if one.count < 3:
        raise ValueError(f"{name}: env {env} has no road: {reason_text(one.status)}")
    return one


def plot_elevation(
    track: Track,
    env: int = 0,
    max_grade: float | None = None,
    path: str | Path | None = None,
    title: str | None = None,
) -> Figure:
    """The heights of one track along its lap, and below them the grade of its three lines.

    Args:
        track: Batch of tracks; one row is read back, so this synchronises.
        env: Row to draw.
        max_grade: Limit to mark, or None.
        path: File to write (png, svg, pdf, ...), or None.
        title: Text above the strip.

    Raises:
        ImportError: If matplotlib is not installed.
        IndexError: If the row does not exist.
        ValueError: If the row has no road or ``path`` cannot be written.
    """
    _require_matplotlib()
    from matplotlib.figure import Figure

    if path is not None:
        check_picture_path("plot_elevation(path)", path)
    one = _one_road("plot_elevation(env)", track, env)
    figure = Figure(figsize=(9.0, 3.2), facecolor=_PAPER, layout="constrained")
    heights, grades = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    lap = np.append(one.arclen, one.length)
    closed = {
        name: np.vstack([line, line[:1]]).astype(np.float64)
        for name, line in (("outer", one.outer), ("inner", one.inner), ("center", one.center))
    }
    colors = {"outer": _ARROW, "inner": _BAD_EDGE, "center": _EDGE}
    low = min(line[:, 2].min() for line in closed.values())
    heights.fill_between(lap, closed["center"][:, 2], low, color=_ASPHALT, alpha=0.12, linewidth=0)
    for name, line in closed.items():
        width = 1.4 if name == "center" else 0.9
        heights.plot(lap, line[:, 2], color=colors[name], linewidth=width, label=name)
        rise = np.diff(line, axis=0)
        run = np.maximum(np.hypot(rise[:, 0], rise[:, 1]), 1e-30)
        grades.stairs(100.0 * rise[:, 2] / run, lap, color=colors[name], linewidth=width)
    if max_grade is not None:
        for limit in (-max_grade, max_grade):
            grades.axhline(100.0 * limit, color=_TEXT, linewidth=0.8, linestyle=(0, (5, 4)))
    heights.set_ylabel("height", color=_TEXT)
    heights.legend(loc="upper right", frameon=False, ncols=3, fontsize=8)
    grades.set_ylabel("grade [%]", color=_TEXT)
    grades.set_xlabel("arc length", color=_TEXT)
    grades.set_xlim(0.0, one.length)
    for axes in (heights, grades):
        axes.set_facecolor(_PAPER)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_TEXT, labelsize=8)
    if title:
        figure.suptitle(title, fontsize=12, color=_TEXT)
    return _save(figure, path)


def plot_relief(
    track: Track,
    envs: Sequence[int] = (0,),
    exaggeration: float = 3.0,
    path: str | Path | None = None,
    title: str | None = None,
) -> Figure:
    """Tracks in space, seen from above at an angle, on embankments coloured by height.

    Args:
        track: Batch of tracks; read back, so this synchronises.
        envs: Rows to draw side by side.
        exaggeration: Factor on the heights, > 0.
        path: File to write (png, svg, pdf, ...), or None.
        title: Text above the picture.

    Raises:
        ImportError: If matplotlib is not installed.
        IndexError: If a row does not exist.
        ValueError: If a row has no road, there is none, or ``path`` cannot be written.
    """
    _require_matplotlib()
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    exaggeration = check_float("plot_relief(exaggeration)", exaggeration, 0.0, low_open=True)
    if path is not None:
        check_picture_path("plot_relief(path)", path)
    roads = [_one_road("plot_relief(envs)", track, env) for env in envs]
    if not roads:
        raise ValueError("plot_relief(envs) must name at least one env, got none")
    figure = Figure(figsize=(4.2 * len(roads), 3.4), facecolor=_PAPER)
    colors = colormaps["viridis"]
    for column, one in enumerate(roads):
        axes: Any = figure.add_subplot(1, len(roads), column + 1, projection="3d")
        outer, inner = (line.astype(np.float64) for line in (one.outer, one.inner))
        z = np.concatenate([outer[:, 2], inner[:, 2]])
        span = float(np.ptp(z))
        floor = z.min() - max(0.05 * np.ptp(outer[:, 0]) / exaggeration, 0.2 * span)
        shade = (one.center[:, 2] - z.min()) / max(span, 1e-30)
        outer_next, inner_next = (np.roll(line, -1, axis=0) for line in (outer, inner))
        pieces = [np.stack([outer, outer_next, inner_next, inner], axis=1)]
        for line, after in ((outer, outer_next), (inner, inner_next)):
            walls = np.stack([line, after, after, line], axis=1)
            walls[:, 2:, 2] = floor
            pieces.append(walls)
        faces = np.tile(colors(0.25 + 0.65 * shade), (3, 1))
        faces[: one.count] = to_rgba(_ASPHALT)
        # One collection, so that nearer pieces hide those behind them.
        axes.add_collection3d(
            Poly3DCollection(
                np.concatenate(pieces), facecolors=faces, edgecolors=faces, linewidths=0.4
            )
        )
        low, high = outer[:, :2].min(axis=0), outer[:, :2].max(axis=0)
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])
        axes.set_zlim(floor, z.max())
        axes.set_box_aspect((*(high - low), exaggeration * (z.max() - floor)), zoom=1.05)
        axes.view_init(elev=38.0, azim=-60.0)
        axes.set_axis_off()
        axes.set_facecolor(_PAPER)
    figure.subplots_adjust(left=0.0, right=1.0, bottom=0.0, top=0.92 if title else 1.0, wspace=0.0)
    if title:
        figure.suptitle(title, fontsize=12, color=_TEXT)
    return _save(figure, path)


def draw_course(axes: Axes, gates: EnvGates, line: np.ndarray, clearance: float = 0.0) -> None:
    """Draw one course from above: openings, direction, flying order and flight line.

    Args:
        axes: Axes with an equal aspect.
        gates: Course of one env; nothing is drawn without gates.
        line: Points of the flight line, [n, 2 or 3]; may be empty.
        clearance: Free space beside the openings to draw [length].
    """
    color = _EDGE if gates.valid else _BAD_EDGE
    if len(line):
        closed = np.vstack([line, line[:1]])
        axes.plot(closed[:, 0], closed[:, 1], color=_ARROW, linewidth=1.4, zorder=2)
    middle = gates.position[:, :2].mean(axis=0) if gates.count else np.zeros(2)
    for index in range(gates.count):
        p, n = gates.position[index, :2], gates.normal[index, :2]
        t = gates.tangent[index, :2] / max(float(np.hypot(*gates.tangent[index, :2])), 1e-9)
        half = float(gates.half_width[index])
        for a, b, width in ((half, half + clearance, 0.9), (-half, half, 2.6)):
            for side in (-1.0, 1.0) if a > 0.0 else (1.0,):
                ends = np.array([p + side * a * n, p + side * b * n])
                axes.plot(*ends.T, color=color, linewidth=width, solid_capstyle="butt", zorder=3)
        first = index == 0
        tip = p + 2.6 * half * t
        axes.annotate(
            "",
            xy=tuple(tip),
            xytext=tuple(p),
            arrowprops={"arrowstyle": "->", "color": _BAD_EDGE if first else color, "lw": 1.0},
            zorder=4,
        )
        away = p - middle
        away = away / max(float(np.hypot(*away)), 1e-9)
        side = np.sign(float(away @ n)) or 1.0
        label = p + side * (half + clearance + 0.7 * half) * n
        axes.text(
            float(label[0]),
            float(label[1]),
            str(index),
            ha="center",
            va="center",
            fontsize=7,
            fontweight="bold" if first else "normal",
            color=_BAD_EDGE if first else _TEXT,
            zorder=5,
        )


def _lines(gates: GateSequence, line: str) -> list[np.ndarray]:
    """Points of the flight line of each env; none where there is no valid course."""
    track = CourseLine.through(gates, line=line, num_points=384)
    centers, counts = track.center.numpy(), track.count.numpy()
    return [row[:count] for row, count in zip(centers, counts, strict=True)]


def plot_courses(
    gates: GateSequence,
    envs: Sequence[int] | None = None,
    line: str = "arc",
    clearance: float = 0.0,
    columns: int | None = None,
    path: str | Path | None = None,
    title: str | None = None,
) -> Figure:
    """A grid of gate courses from above, each to the same scale; invalid ones say why.

    Args:
        gates: Batch of courses; read back, so this synchronises.
        envs: Rows to draw; None is the first 16.
        line: Handles of the flight line, as ``GateGenConfig.line``.
        clearance: Free space beside the openings to draw [length].
        columns: Cells per row; None is about a square.
        path: File to write (png, svg, pdf, ...), or None.
        title: Text above the grid.

    Raises:
        ImportError: If matplotlib is not installed.
        IndexError: If a row does not exist.
        ValueError: If there is no row, or ``path`` cannot be written.
    """
    _require_matplotlib()
    if path is not None:
        check_picture_path("plot_courses(path)", path)
    rows = list(range(min(gates.num_envs, 16))) if envs is None else list(envs)
    if not rows:
        raise ValueError("plot_courses(envs) must name at least one env, got none")
    across = math.ceil(math.sqrt(len(rows))) if columns is None else columns
    across = check_int("plot_courses(columns)", across, low=1, high=64)
    courses = [gates.env(env) for env in rows]
    lines = _lines(gates, line)
    figure, grid = _grid(math.ceil(len(rows) / across), across, title, 0.0, 3.0)
    sizes = [float(np.ptp(c.position[:, :2], axis=0).max()) for c in courses if c.count]
    extent = 1.3 * max(sizes, default=1.0)
    for axes in grid.flat:
        axes.axis("off")
    for axes, env, course in zip(grid.flat, rows, courses, strict=False):
        axes.set_xlim(-extent / 2.0, extent / 2.0)
        axes.set_ylim(-extent / 2.0, extent / 2.0)
        axes.set_aspect("equal")
        draw_course(axes, course, lines[env], clearance)
        if not course.valid:
            text = f"{env}: {reason_text(course.status) or 'invalid'}"
            axes.text(
                0.5, 0.0, text, transform=axes.transAxes, ha="center", color=_BAD_EDGE, fontsize=7
            )
    return _save(figure, path)


def plot_course_relief(
    gates: GateSequence,
    envs: Sequence[int] = (0,),
    line: str = "arc",
    path: str | Path | None = None,
    title: str | None = None,
) -> Figure:
    """Gate courses in space: openings as frames on poles, the flight line coloured by height.

    Args:
        gates: Batch of courses; read back, so this synchronises.
        envs: Rows to draw side by side.
        line: Handles of the flight line, as ``GateGenConfig.line``.
        path: File to write (png, svg, pdf, ...), or None.
        title: Text above the picture.

    Raises:
        ImportError: If matplotlib is not installed.
        IndexError: If a row does not exist.
        ValueError: If a row has no valid course, there is none, or ``path`` cannot be written.
    """
    _require_matplotlib()
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    if path is not None:
        check_picture_path("plot_course_relief(path)", path)
    courses = [gates.env(env) for env in envs]
    if not courses:
        raise ValueError("plot_course_relief(envs) must name at least one env, got none")
    lines = _lines(gates, line)
    figure = Figure(figsize=(4.6 * len(courses), 3.6), facecolor=_PAPER)
    colors = colormaps["viridis"]
    for column, (env, course) in enumerate(zip(envs, courses, strict=True)):
        if not course.valid:
            reasons = reason_text(course.status)
            raise ValueError(f"plot_course_relief(envs): env {env} has no course: {reasons}")
        axes: Any = figure.add_subplot(1, len(courses), column + 1, projection="3d")
        p = course.position.astype(np.float64)
        side = course.half_width[:, None] * course.normal
        up = course.half_height[:, None] * np.cross(course.tangent, course.normal)
        frames = np.stack([p + side + up, p - side + up, p - side - up, p + side - up], axis=1)
        points = lines[env].astype(np.float64)
        floor = min(float(frames[..., 2].min()), 0.0)
        foot = p - up
        poles = np.stack([foot, np.c_[foot[:, :2], np.full(len(p), floor)]], axis=1)
        axes.add_collection3d(Line3DCollection(poles, colors=_CENTERLINE, linewidths=0.8))
        height = (points[:, 2] - p[:, 2].min()) / max(float(np.ptp(p[:, 2])), 1e-9)
        pieces = np.stack([points, np.roll(points, -1, axis=0)], axis=1)
        tint = colors(np.clip(0.1 + 0.8 * height, 0.0, 1.0))
        axes.add_collection3d(Line3DCollection(pieces, colors=tint, linewidths=1.6))
        closed = np.concatenate([frames, frames[:, :1]], axis=1)
        axes.add_collection3d(Line3DCollection(closed, colors=_EDGE, linewidths=1.4))
        axes.text(*(p[0] + 1.6 * up[0]), "0", color=_BAD_EDGE, fontsize=8)
        low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
        top = float(frames[..., 2].max())
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])
        axes.set_zlim(floor, top)
        axes.set_box_aspect((*(high - low), max(top - floor, 1e-9)), zoom=1.0)
        axes.view_init(elev=30.0, azim=-60.0)
        axes.set_axis_off()
        axes.set_facecolor(_PAPER)
    figure.subplots_adjust(left=0.0, right=1.0, bottom=0.0, top=0.92 if title else 1.0, wspace=0.0)
    if title:
        figure.suptitle(title, fontsize=12, color=_TEXT)
    return _save(figure, path)
