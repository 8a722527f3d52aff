"""Draw the pictures of the documentation: one plate per family, and the one on top of the README.

python docs/make_pictures.py
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import warp as wp
from matplotlib.figure import Figure
from PIL import Image

from track_gen import Library, Noise, PerEnvSeededRNG, TrackGenConfig, TrackGenerator
from track_gen.viz import plot_elevation, plot_families, plot_relief, plot_tracks

IMAGES = Path(__file__).parent / "images"
FAMILIES = ("bezier", "hull", "polar", "voronoi", "checkpoint")


def save(figure: Figure, name: str, dpi: int = 80) -> None:
    """Write a small PNG: 64 colours are plenty for these drawings."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor=figure.get_facecolor())
    image = Image.open(buffer).convert("RGB")
    image.quantize(64, dither=Image.Dither.NONE).save(IMAGES / name, optimize=True)


def batch(generator, num_envs: int, half_width: float, elevation=None):
    """A batch of tracks with seed 0."""
    config = TrackGenConfig(
        num_envs=num_envs,
        half_width=half_width,
        generator=generator,
        elevation=elevation,
        device="cpu",
    )
    rng = PerEnvSeededRNG(seeds=0, num_envs=num_envs, device="cpu")
    return TrackGenerator(config, rng).generate()


def example_curves() -> list[np.ndarray]:
    """A stadium, a kidney, an L and a clover, as a user might bring them."""
    t = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    stadium = np.c_[np.cos(t) + np.sign(np.cos(t)), 0.8 * np.sin(t)]
    kidney = np.c_[np.cos(t) * (1 + 0.3 * np.cos(2 * t)), np.sin(t) * (1 + 0.4 * np.sin(t))]
    corner = np.array([[0, 0], [3, 0], [3, 1.2], [1.2, 1.2], [1.2, 3], [0, 3]], dtype=float)
    clover = np.c_[np.cos(t), np.sin(t)] * (1 + 0.35 * np.cos(4 * t))[:, None]
    return [stadium, kidney, corner, clover]


def main() -> None:
    wp.config.quiet = True
    IMAGES.mkdir(exist_ok=True)
    rows = {name: batch(name, 8, 0.06) for name in (*FAMILIES, "serpentine")}
    save(plot_families(rows), "families.png")
    for name in FAMILIES:
        save(plot_tracks(batch(name, 64, 0.06), columns=16), f"{name}.png")
    for name, half_width in (("repulsive", 0.08), ("serpentine", 0.1)):
        save(plot_tracks(batch(name, 64, half_width), columns=16), f"{name}.png")
    library = Library(curves=example_curves(), names=["stadium", "kidney", "corner", "clover"])
    save(plot_tracks(batch(library, 16, 0.08), columns=8), "library.png")
    hills = batch("bezier", 4, 0.06, Noise(banking=15.0))
    save(plot_relief(hills, (0, 1, 2)), "elevation-relief.png")
    save(plot_elevation(hills, 0, max_grade=0.15), "elevation-strip.png")


if __name__ == "__main__":
    main()
