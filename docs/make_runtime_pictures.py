"""Draw the pictures of the pages on the runtime tools.

python docs/make_runtime_pictures.py
"""

from __future__ import annotations

import numpy as np
import warp as wp
from make_pictures import batch, save
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from track_gen import (
    Bezier,
    Checkpoint,
    Hull,
    Mixture,
    PerEnvSeededRNG,
    Polar,
    Track,
    Voronoi,
    grid_origins,
)
from track_gen.runtime import (
    CollisionChecker,
    Localizer,
    ProgressTracker,
    RacingLine,
    Sensors,
    Spawner,
    speed_profile,
)
from track_gen.viz import draw_track, plot_world

PAPER, ORANGE, GREEN, RED, BLUE = "#f7f6f2", "#ffb000", "#3fb77f", "#e2574c", "#5aa9e6"


def panels(count: int, width: float = 5.0) -> tuple[Figure, list]:
    """A figure with panels side by side."""
    figure = Figure(figsize=(width * count, width), facecolor=PAPER, layout="constrained")
    axes = [figure.add_subplot(1, count, k + 1) for k in range(count)]
    return figure, axes


def road(axes, track: Track, env: int, window: tuple | None = None) -> None:
    """Draw a track in a panel, or a window (x, y, half size) of it."""
    row = track.env(env)
    extent = float(np.ptp(row.outer[:, :2], axis=0).max())
    draw_track(axes, row, extent if window is None else 2.0 * window[2])
    axes.set_aspect("equal")
    axes.axis("off")
    if window is None:
        axes.autoscale_view()
    else:
        x, y, size = window
        axes.set_xlim(x - size, x + size)
        axes.set_ylim(y - size, y + size)


def car(axes, p, heading: float, colour: str, size=(0.08, 0.04)) -> None:
    """Draw a box at a pose."""
    x = np.array([np.cos(heading), np.sin(heading)])
    y = np.array([-x[1], x[0]])
    a, b = 0.5 * size[0] * x, 0.5 * size[1] * y
    corners = [p[:2] + a + b, p[:2] - a + b, p[:2] - a - b, p[:2] + a - b]
    axes.add_patch(Polygon(corners, facecolor=colour, edgecolor="white", linewidth=0.8, zorder=6))


def arrow(axes, p, q, colour: str) -> None:
    """Draw an arrow from one point to another."""
    axes.annotate(
        "", q[:2], p[:2], arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.6}, zorder=7
    )


def poses(track: Track, num_agents: int, seed: int, **options) -> Spawner:
    """Random poses of one env."""
    rng = PerEnvSeededRNG(seeds=seed, num_envs=1, device="cpu")
    spawner = Spawner(track, num_agents, rng=rng)
    spawner.random(**options)
    return spawner


def localizer_picture(track: Track) -> None:
    spawner = poses(track, 9, 3, lateral=0.95, heading_noise=0.6)
    localizer = Localizer(track, 9)
    localizer.update(spawner.position, spawner.heading)
    row = track.env(0)
    figure, (axes,) = panels(1, 6.0)
    road(axes, track, 0)
    segment, fraction = localizer.segment.numpy()[0], localizer.fraction.numpy()[0]
    s, n = localizer.s.numpy()[0], localizer.n.numpy()[0]
    following = (segment + 1) % row.count
    feet = row.center[segment] + fraction[:, None] * (row.center[following] - row.center[segment])
    for k, p in enumerate(spawner.position.numpy()[0]):
        axes.plot(*np.c_[p[:2], feet[k, :2]], color=ORANGE, linewidth=2.0, zorder=5)
        axes.plot(*feet[k, :2], "o", color=ORANGE, markersize=4, zorder=6)
        car(axes, p, spawner.heading.numpy()[0, k], BLUE)
        out = feet[k] + row.normal[segment[k]] * (0.2 if n[k] > 0 else -0.2)
        text = f"s {s[k]:.2f}\nn {n[k]:+.2f}"
        axes.text(*out[:2], text, fontsize=7, ha="center", va="center", zorder=8)
    save(figure, "runtime-localizer.png")


def progress_picture(track: Track) -> None:
    length = float(track.length.numpy()[0])
    way = np.concatenate(
        [
            np.linspace(0.0, 1.3, 130),
            np.linspace(1.3, 1.1, 20),
            np.linspace(1.1, 1.5, 40),
            np.linspace(1.9, 2.4, 50),
            np.linspace(2.4, 3.15, 75),
        ]
    )
    tracker, spawner = ProgressTracker(track), Spawner(track)
    rows = []
    for w in way:
        spawner.at(float(w * length))
        tracker.update(spawner.position)
        rows.append(
            [
                spawner.s.numpy()[0, 0] / length,
                tracker.total.numpy()[0, 0] / length,
                tracker.laps.numpy()[0, 0],
                tracker.wrong_way.numpy()[0, 0],
                tracker.jumped.numpy()[0, 0],
            ]
        )
    s, total, laps, wrong, jumped = np.array(rows).T
    figure, (axes,) = panels(1, 5.0)
    figure.set_size_inches(8.0, 4.0)
    axes.set_facecolor(PAPER)
    steps = np.arange(len(way))
    axes.plot(steps, np.where(np.r_[False, np.abs(np.diff(s)) > 0.3], np.nan, s), color="#999999",
              label="s / length")  # fmt: skip
    axes.plot(steps, total, color=BLUE, linewidth=2.2, label="total / length")
    axes.step(steps, laps, color=GREEN, where="post", linewidth=1.6, label="laps")
    axes.fill_between(steps, 0, 3, where=wrong > 0, color=ORANGE, alpha=0.35, label="wrong way")
    for k in np.flatnonzero(jumped):
        axes.axvline(k, color=RED, linestyle=":", label="jump: no progress, lap spoiled")
    axes.set_xlabel("step")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, "runtime-progress.png")


def collision_picture(track: Track) -> None:
    spawner = poses(track, 14, 5, lateral=1.0, heading_noise=0.9)
    checker = CollisionChecker(track, 14, box=(0.1, 0.05))
    checker.update(spawner.position, spawner.heading)
    figure, (axes,) = panels(1, 6.0)
    road(axes, track, 0)
    inside = checker.inside.numpy()[0]
    for k, p in enumerate(spawner.position.numpy()[0]):
        car(axes, p, spawner.heading.numpy()[0, k], GREEN if inside[k] else RED, (0.1, 0.05))
        at = checker.point.numpy()[0, k]
        axes.plot(*at, "o", color=ORANGE, markersize=4, zorder=8)
        arrow(axes, at, at + 0.08 * checker.normal.numpy()[0, k], ORANGE)
    save(figure, "runtime-collision.png")


def sensors_picture(track: Track) -> None:
    spawner = poses(track, 3, 8, lateral=0.4, heading_noise=0.3)
    angles = np.linspace(-1.6, 1.6, 17)
    sensors = Sensors(
        track, 3, look_ahead=[0.15, 0.3, 0.45, 0.6], rays=angles.tolist(), max_range=1.0
    )
    sensors.update(spawner.position, spawner.heading)
    figure, (axes,) = panels(1, 6.0)
    road(axes, track, 0)
    for k, p in enumerate(spawner.position.numpy()[0]):
        yaw = spawner.heading.numpy()[0, k]
        c, s = np.cos(yaw), np.sin(yaw)
        for angle, reach in zip(angles, sensors.ranges.numpy()[0, k], strict=True):
            end = p[:2] + reach * np.array([np.cos(yaw + angle), np.sin(yaw + angle)])
            axes.plot(*np.c_[p[:2], end], color=RED, linewidth=0.8, zorder=5)
            axes.plot(*end, ".", color=RED, markersize=4, zorder=5)
        ahead = sensors.points.numpy()[0, k]
        world = p[:2] + ahead[:, :2] @ np.array([[c, s], [-s, c]])
        axes.plot(*world.T, "o", color=ORANGE, markersize=5, zorder=7)
        car(axes, p, yaw, BLUE)
    save(figure, "runtime-sensors.png")


def spawner_picture(track: Track) -> None:
    figure, both = panels(2)
    grid = Spawner(track, 8, radius=0.04)
    grid.grid(gap=1.5)
    scattered = poses(track, 8, 2, lateral=0.8, heading_noise=0.4)
    for axes, spawner in zip(both, (grid, scattered), strict=True):
        road(axes, track, 0)
        for k, p in enumerate(spawner.position.numpy()[0]):
            car(axes, p, spawner.heading.numpy()[0, k], ORANGE if k == 0 else BLUE)
    save(figure, "runtime-spawner.png")


def racing_line_picture(track: Track) -> None:
    limits = {"lateral": 1.0, "acceleration": 0.6, "braking": 1.0}
    line = RacingLine(track)
    line.update()
    figure, (axes, chart) = panels(2)
    road(axes, track, 0)
    n = track.env(0).count
    points = line.center.numpy()[0, :n, :2]
    profile = speed_profile(line, **limits)
    speed = profile.speed.numpy()[0, :n]
    pieces = np.stack([points, np.roll(points, -1, axis=0)], axis=1)
    axes.add_collection(LineCollection(pieces, array=speed, cmap="RdYlGn", linewidth=3.0, zorder=5))
    chart.set_facecolor(PAPER)
    center = speed_profile(track, **limits)
    for name, source, found, colour in (
        ("racing line", line, profile, GREEN),
        ("centreline", track, center, "#999999"),
    ):
        chart.plot(
            source.arclen.numpy()[0, :n],
            found.speed.numpy()[0, :n],
            color=colour,
            linewidth=2.0,
            label=f"{name}, lap {found.lap_time.numpy()[0]:.2f}",
        )
    chart.set_xlabel("arc length")
    chart.set_ylabel("speed")
    chart.legend(frameon=False, fontsize=8)
    chart.spines[["top", "right"]].set_visible(False)
    save(figure, "runtime-racing-line.png")


def world_picture() -> None:
    families = (Bezier(), Hull(), Polar(), Voronoi(), Checkpoint())
    tracks = batch(Mixture(dict.fromkeys(families, 1.0)), 36, 0.06)
    figure = plot_world(tracks, grid_origins(36, 2.2, "cpu"), labels=True)
    save(figure, "runtime-world.png", dpi=110)


def main() -> None:
    wp.config.quiet = True
    track = batch("hull", 1, 0.1)
    localizer_picture(track)
    progress_picture(track)
    collision_picture(track)
    sensors_picture(track)
    spawner_picture(track)
    racing_line_picture(track)
    world_picture()


if __name__ == "__main__":
    main()
