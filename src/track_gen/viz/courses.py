"""Gate courses from above, in a grid of cells."""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from track_gen.checks import check_int
from track_gen.course_line import CourseLine
from track_gen.gate_batch import EnvGates, GateSequence
from track_gen.viz.canvas import (
    ARROW,
    BAD_EDGE,
    EDGE,
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

__all__ = ["draw_course", "flight_lines", "plot_courses"]


def draw_course(axes: Axes, gates: EnvGates, line: np.ndarray, clearance: float = 0.0) -> None:
    """Draw one course from above: openings, direction, flying order and flight line.

    Args:
        axes: Axes with an equal aspect.
        gates: Course of one env; nothing is drawn without gates.
        line: Points of the flight line, [n, 2 or 3]; may be empty.
        clearance: Free space beside the openings to draw [length].
    """
    color = EDGE if gates.valid else BAD_EDGE
    if len(line):
        closed = np.vstack([line, line[:1]])
        axes.plot(closed[:, 0], closed[:, 1], color=ARROW, linewidth=1.4, zorder=2)
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
            arrowprops={"arrowstyle": "->", "color": BAD_EDGE if first else color, "lw": 1.0},
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
            color=BAD_EDGE if first else TEXT,
            zorder=5,
        )


def flight_lines(gates: GateSequence, line: str) -> list[np.ndarray]:
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
    require_matplotlib()
    if path is not None:
        check_picture_path("plot_courses(path)", path)
    rows = list(range(min(gates.num_envs, 16))) if envs is None else list(envs)
    if not rows:
        raise ValueError("plot_courses(envs) must name at least one env, got none")
    across = math.ceil(math.sqrt(len(rows))) if columns is None else columns
    across = check_int("plot_courses(columns)", across, low=1, high=64)
    courses = [gates.env(env) for env in rows]
    lines = flight_lines(gates, line)
    figure, grid = cell_grid(math.ceil(len(rows) / across), across, title, 0.0, 3.0)
    sizes = [float(np.ptp(c.position[:, :2], axis=0).max()) for c in courses if c.count]
    extent = 1.3 * max(sizes, default=1.0)
    for axes in grid.flat:
        axes.axis("off")
    for axes, env, course in zip(grid.flat, rows, courses, strict=False):
        middle = np.zeros(2)
        if course.count:
            plan = course.position[:, :2]
            middle = (plan.min(axis=0) + plan.max(axis=0)) / 2.0
        axes.set_xlim(middle[0] - extent / 2.0, middle[0] + extent / 2.0)
        axes.set_ylim(middle[1] - extent / 2.0, middle[1] + extent / 2.0)
        axes.set_aspect("equal")
        draw_course(axes, course, lines[env], clearance)
        if not course.valid:
            text = f"{env}: {reason_text(course.status) or 'invalid'}"
            axes.text(
                0.5, 0.0, text, transform=axes.transAxes, ha="center", color=BAD_EDGE, fontsize=7
            )
    return save_figure(figure, path)
