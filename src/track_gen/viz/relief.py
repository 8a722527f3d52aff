"""Heights: along a lap, and tracks and gate courses in space."""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from track_gen.batch import EnvTrack, Track
from track_gen.checks import check_float
from track_gen.gate_batch import GateSequence
from track_gen.viz.canvas import (
    ARROW,
    ASPHALT,
    BAD_EDGE,
    CENTERLINE,
    EDGE,
    PAPER,
    TEXT,
    check_picture_path,
    reason_text,
    require_matplotlib,
    save_figure,
)
from track_gen.viz.courses import flight_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_course_relief", "plot_elevation", "plot_relief"]


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
    require_matplotlib()
    from matplotlib.figure import Figure

    if path is not None:
        check_picture_path("plot_elevation(path)", path)
    one = _one_road("plot_elevation(env)", track, env)
    figure = Figure(figsize=(9.0, 3.2), facecolor=PAPER, layout="constrained")
    heights, grades = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    lap = np.append(one.arclen, one.length)
    closed = {
        name: np.vstack([line, line[:1]]).astype(np.float64)
        for name, line in (("outer", one.outer), ("inner", one.inner), ("center", one.center))
    }
    colors = {"outer": ARROW, "inner": BAD_EDGE, "center": EDGE}
    low = min(line[:, 2].min() for line in closed.values())
    heights.fill_between(lap, closed["center"][:, 2], low, color=ASPHALT, alpha=0.12, linewidth=0)
    for name, line in closed.items():
        width = 1.4 if name == "center" else 0.9
        heights.plot(lap, line[:, 2], color=colors[name], linewidth=width, label=name)
        rise = np.diff(line, axis=0)
        run = np.maximum(np.hypot(rise[:, 0], rise[:, 1]), 1e-30)
        grades.stairs(100.0 * rise[:, 2] / run, lap, color=colors[name], linewidth=width)
    if max_grade is not None:
        for limit in (-max_grade, max_grade):
            grades.axhline(100.0 * limit, color=TEXT, linewidth=0.8, linestyle=(0, (5, 4)))
    heights.set_ylabel("height", color=TEXT)
    heights.legend(loc="upper right", frameon=False, ncols=3, fontsize=8)
    grades.set_ylabel("grade [%]", color=TEXT)
    grades.set_xlabel("arc length", color=TEXT)
    grades.set_xlim(0.0, one.length)
    for axes in (heights, grades):
        axes.set_facecolor(PAPER)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=TEXT, labelsize=8)
    if title:
        figure.suptitle(title, fontsize=12, color=TEXT)
    return save_figure(figure, path)


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
    require_matplotlib()
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
    figure = Figure(figsize=(4.2 * len(roads), 3.4), facecolor=PAPER)
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
        faces[: one.count] = to_rgba(ASPHALT)
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
        axes.set_facecolor(PAPER)
    figure.subplots_adjust(left=0.0, right=1.0, bottom=0.0, top=0.92 if title else 1.0, wspace=0.0)
    if title:
        figure.suptitle(title, fontsize=12, color=TEXT)
    return save_figure(figure, path)


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
    require_matplotlib()
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    if path is not None:
        check_picture_path("plot_course_relief(path)", path)
    courses = [gates.env(env) for env in envs]
    if not courses:
        raise ValueError("plot_course_relief(envs) must name at least one env, got none")
    lines = flight_lines(gates, line)
    figure = Figure(figsize=(4.6 * len(courses), 3.6), facecolor=PAPER)
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
        axes.add_collection3d(Line3DCollection(poles, colors=CENTERLINE, linewidths=0.8))
        height = (points[:, 2] - p[:, 2].min()) / max(float(np.ptp(p[:, 2])), 1e-9)
        pieces = np.stack([points, np.roll(points, -1, axis=0)], axis=1)
        tint = colors(np.clip(0.1 + 0.8 * height, 0.0, 1.0))
        axes.add_collection3d(Line3DCollection(pieces, colors=tint, linewidths=1.6))
        closed = np.concatenate([frames, frames[:, :1]], axis=1)
        axes.add_collection3d(Line3DCollection(closed, colors=EDGE, linewidths=1.4))
        axes.text(*(p[0] + 1.6 * up[0]), "0", color=BAD_EDGE, fontsize=8)
        low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
        top = float(frames[..., 2].max())
        axes.set_xlim(low[0], high[0])
        axes.set_ylim(low[1], high[1])
        axes.set_zlim(floor, top)
        axes.set_box_aspect((*(high - low), max(top - floor, 1e-9)), zoom=1.0)
        axes.view_init(elev=30.0, azim=-60.0)
        axes.set_axis_off()
        axes.set_facecolor(PAPER)
    figure.subplots_adjust(left=0.0, right=1.0, bottom=0.0, top=0.92 if title else 1.0, wspace=0.0)
    if title:
        figure.suptitle(title, fontsize=12, color=TEXT)
    return save_figure(figure, path)
