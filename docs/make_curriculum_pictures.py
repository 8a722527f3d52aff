"""Draw the pictures of the pages on curricula and metrics.

python docs/make_curriculum_pictures.py
"""

from __future__ import annotations

import numpy as np
import warp as wp
from make_pictures import save
from make_runtime_pictures import BLUE, GREEN, ORANGE, PAPER, RED, road
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from track_gen import (
    CourseLine,
    GateGenConfig,
    GateGenerator,
    PerEnvSeededRNG,
    TrackGenConfig,
    TrackGenerator,
)
from track_gen.runtime import TrackMetrics
from track_gen.viz import draw_track

FAMILIES = ("bezier", "hull", "polar", "voronoi", "checkpoint", "serpentine")
COURSES = (
    *((family, "ccw") for family in ("bezier", "hull", "polar", "voronoi", "checkpoint")),
    ("bezier", "random"),
    ("polar", "random"),
)
STEPS = np.linspace(0.0, 1.0, 6)
SEED = 3


def generator_of(family: str, num_envs: int, seed: int = 0, **options) -> TrackGenerator:
    """A generator with slots enough for the hardest tracks."""
    config = TrackGenConfig(
        num_envs=num_envs, half_width=0.1, generator=family, N_max=1024, device="cpu", **options
    )
    return TrackGenerator(config, PerEnvSeededRNG(seeds=seed, num_envs=num_envs, device="cpu"))


def difficulty_picture() -> None:
    """One seed per family at rising difficulty."""
    figure = Figure(figsize=(11.0, 11.4), facecolor=PAPER, layout="constrained")
    for row, family in enumerate(FAMILIES):
        generator = generator_of(family, len(STEPS), augment=False)
        generator.rng.set_seeds_warp(np.full(len(STEPS), SEED, np.int32), None)
        generator.set_difficulty(STEPS)
        track = generator.generate()
        tracks = [track.env(k) for k in range(len(STEPS))]
        extent = max(float(np.ptp(one.outer[:, :2], axis=0).max()) for one in tracks)
        for k, one in enumerate(tracks):
            axes = cell(figure, len(FAMILIES), row, k, family, extent)
            draw_track(axes, one, extent)
    save(figure, "difficulty.png")


def cell(figure: Figure, rows: int, row: int, k: int, name: str, extent: float):
    """Axes of one track or course, with a name at the left and the difficulty at the top."""
    axes = figure.add_subplot(rows, len(STEPS), row * len(STEPS) + k + 1)
    axes.set_aspect("equal")
    axes.set_xlim(-0.53 * extent, 0.53 * extent)
    axes.set_ylim(-0.53 * extent, 0.53 * extent)
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    if row == 0:
        axes.set_title(f"{STEPS[k]:.1f}", fontsize=11)
    if k == 0:
        axes.set_ylabel(name, fontsize=11)
    return axes


def courses_picture() -> None:
    """One seed of gate courses per family and order at rising difficulty."""
    figure = Figure(figsize=(11.0, 13.2), facecolor=PAPER, layout="constrained")
    for row, (family, ordering) in enumerate(COURSES):
        config = GateGenConfig(
            num_envs=len(STEPS),
            generator=family,
            ordering=ordering,
            num_gates=11,
            device="cpu",
        )
        generator = GateGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=6, device="cpu"))
        generator.rng.set_seeds_warp(np.full(len(STEPS), SEED, np.int32), None)
        generator.set_difficulty(STEPS)
        gates = generator.generate()
        line = CourseLine.through(gates, num_points=512)
        tracks = [line.env(k) for k in range(len(STEPS))]
        extent = 1.02 * max(float(np.ptp(one.center[:, :2], axis=0).max()) for one in tracks)
        for k, one in enumerate(tracks):
            name = family if ordering == "ccw" else f"{family}, {ordering}"
            axes = cell(figure, len(COURSES), row, k, name, extent)
            path = np.r_[one.center[:, :2], one.center[:1, :2]]
            middle = 0.5 * (path.min(axis=0) + path.max(axis=0))
            axes.plot(*(path - middle).T, color=BLUE, linewidth=1.3)
            course = gates.env(k)
            posts = np.stack([course.left[:, :2], course.right[:, :2]], axis=1) - middle
            colors = [RED if i == 0 else "black" for i in range(len(posts))]
            axes.add_collection(LineCollection(list(posts), colors=colors, linewidths=2.2))
    save(figure, "gates-difficulty.png")


def curves_picture() -> None:
    """Mean metrics of every family over the difficulty."""
    figure = Figure(figsize=(10.0, 3.6), facecolor=PAPER, layout="constrained")
    steps = np.linspace(0.0, 1.0, 11)
    panels = {
        "turning / one turn": lambda m: m["mean_abs_curvature"] * m["length"] / (2.0 * np.pi),
        "compactness": lambda m: m["compactness"],
        "straight fraction": lambda m: m["straight_fraction"],
    }
    axes = {name: figure.add_subplot(1, 3, k + 1) for k, name in enumerate(panels)}
    for family in FAMILIES:
        generator = generator_of(family, 64 if family == "serpentine" else 256)
        metrics = TrackMetrics(generator.track)
        values: dict[str, list[float]] = {name: [] for name in panels}
        for step in steps:
            generator.set_difficulty(float(step))
            generator.generate()
            metrics.update()
            found = metrics.numpy()
            for name, of in panels.items():
                values[name].append(float(np.nanmean(of(found))))
        for name, points in values.items():
            axes[name].plot(steps, points, marker=".", label=family)
    for name, one in axes.items():
        one.set_title(name, fontsize=10)
        one.set_xlabel("difficulty")
        one.set_facecolor(PAPER)
    axes["turning / one turn"].legend(fontsize=8, frameon=False)
    save(figure, "difficulty-metrics.png")


def metrics_picture() -> None:
    """Three tracks with what the metrics see in them."""
    generator = generator_of("bezier", 3, seed=12)
    generator.set_difficulty(np.array([0.0, 0.4, 0.8]))
    track = generator.generate()
    metrics = TrackMetrics(track)
    metrics.update()
    found = metrics.numpy()
    figure = Figure(figsize=(13.0, 6.6), facecolor=PAPER, layout="constrained")
    for k in range(3):
        axes = figure.add_subplot(1, 3, k + 1)
        road(axes, track, k)
        one = track.env(k)
        ring = np.r_[one.center[:, :2], one.center[:1, :2]]
        bend = one.curvature * one.half_width
        colours = np.where(np.abs(bend) < 0.1, ORANGE, np.where(bend > 0.0, BLUE, RED))
        lines = LineCollection(
            list(np.stack([ring[:-1], ring[1:]], axis=1)), colors=colours, linewidths=3, zorder=6
        )
        axes.add_collection(lines)
        tightest = int(np.argmax(np.abs(one.curvature)))
        axes.plot(*one.center[tightest, :2], "o", color=GREEN, markersize=9, zorder=7)
        text = "\n".join(
            f"{name.replace('_', ' ')}  {found[name][k]:.2f}"
            for name in ("length", "compactness", "min_radius", "min_clearance", "ideal_lap_time")
        )
        text += f"\nturns  {found['turns_left'][k]:.0f} left, {found['turns_right'][k]:.0f} right"
        text += f"\nstraight  {found['straight_fraction'][k]:.0%}"
        axes.set_ylim(-0.9, 1.6)
        axes.text(0.5, 1.0, text, fontsize=9, ha="center", va="top", transform=axes.transAxes)
    save(figure, "metrics.png")


def main() -> None:
    wp.config.quiet = True
    difficulty_picture()
    courses_picture()
    curves_picture()
    metrics_picture()


if __name__ == "__main__":
    main()
