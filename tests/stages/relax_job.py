"""Curves and a runner for the relaxation tests. As a script: prints one digest per lane setting."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, fields

import numpy as np
import warp as wp

from track_gen.stages.relax import RelaxConfig, RelaxScratch, relax

N_MAX = 256
HALF_WIDTH = 0.1
SENTINEL = -7


def spline(knots: np.ndarray, samples: int = 40) -> np.ndarray:
    """Closed uniform Catmull-Rom spline."""
    p0, p2, p3 = (np.roll(knots, k, axis=0) for k in (1, -1, -2))
    t = (np.arange(samples) / samples)[None, :, None]
    a, b, c, d = (p[:, None, :] for p in (p0, knots, p2, p3))
    cubic = -a + 3 * b - 3 * c + d
    square = 2 * a - 5 * b + 4 * c - d
    return (b + 0.5 * t * (c - a + t * (square + t * cubic))).reshape(-1, 2)


def corners(rng: np.random.Generator) -> np.ndarray:
    """Nine to thirteen random points of a square in angular order."""
    points = rng.uniform(-0.95, 0.95, (rng.integers(9, 14), 2))
    points -= points.mean(0)
    return points[np.argsort(np.arctan2(points[:, 1], points[:, 0]))]


def corner_curve(rng: np.random.Generator) -> np.ndarray:
    """Corners joined by straights with rounded ends: the hard bends of bezier and hull."""
    points = corners(rng)
    following = np.roll(points, -1, axis=0)
    knots = np.stack([points, 0.7 * points + 0.3 * following, 0.3 * points + 0.7 * following], 1)
    return spline(knots.reshape(-1, 2))


def radial_curve(rng: np.random.Generator) -> np.ndarray:
    """Twelve jittered radial knots: the deep bays of polar."""
    angle = 2 * np.pi * (np.arange(12) + rng.uniform(-0.3, 0.3, 12)) / 12
    radius = 1 + rng.uniform(-0.6, 0.6, 12)
    curve = spline(radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1))
    return curve * 1.44 / np.ptp(curve, axis=0).max()


def easy_curve(rng: np.random.Generator) -> np.ndarray:
    """A few harmonics on a circle."""
    angle = 2 * np.pi * np.arange(400) / 400
    radius = np.ones(400)
    for order in (2, 3, 5):
        radius += 0.18 * rng.uniform(-1, 1) * np.cos(order * angle + rng.uniform(0, 6.28))
    return 0.72 * radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)


def comb(bend: float, fingers: int = 3, length: float = 1.0) -> np.ndarray:
    """Parallel straights joined by hairpins of radius ``bend``, closed by a wide loop."""
    t = np.linspace(0, np.pi, 60, endpoint=False)
    pieces = []
    for k in range(2 * fingers):
        x = 2 * bend * k
        top = k % 2 == 0
        pieces.append([[x, 0.0 if top else length], [x, length if top else 0.0]])
        if k < 2 * fingers - 1:
            arc = np.stack([x + bend - bend * np.cos(t), bend * np.sin(t)], 1)[1:]
            pieces.append(arc * [1, 1] + [0, length] if top else arc * [1, -1])
    x = 2 * bend * (2 * fingers - 1)
    pieces.append([[x, -1.0], [0.0, -1.0]])
    return np.concatenate([np.asarray(piece, float) for piece in pieces])[::-1]


FAMILIES = {"corner": corner_curve, "radial": radial_curve, "easy": easy_curve}


def resample(curve: np.ndarray, spacing: float) -> tuple[np.ndarray, float]:
    """Points at equal arcs, and the perimeter of the curve."""
    closed = np.concatenate([curve, curve[:1]])
    arc = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))])
    count = max(round(arc[-1] / spacing), 12)
    at = arc[-1] * np.arange(count) / count
    return np.stack([np.interp(at, arc, closed[:, k]) for k in (0, 1)], 1), float(arc[-1])


@dataclass
class Batch:
    """Input of the stage."""

    points: np.ndarray
    count: np.ndarray
    length: np.ndarray
    half_width: np.ndarray
    pending: np.ndarray

    def scaled(self, scale: float, offset: float = 0.0) -> Batch:
        return Batch(
            (self.points * np.float32(scale) + np.float32(offset)).astype(np.float32),
            self.count,
            (self.length * scale).astype(np.float32),
            (self.half_width * scale).astype(np.float32),
            self.pending,
        )

    def rows(self, index) -> Batch:
        return Batch(*(getattr(self, f.name)[index] for f in fields(self)))


def batch(curves: list[np.ndarray], ratio: float = 0.6, half_width: float = HALF_WIDTH) -> Batch:
    """Curves sampled every ``ratio`` half widths, padded with NaN."""
    num_envs = len(curves)
    points = np.full((num_envs, N_MAX, 2), np.nan, np.float32)
    count = np.zeros(num_envs, np.int32)
    length = np.zeros(num_envs, np.float32)
    for env, curve in enumerate(curves):
        loop, length[env] = resample(curve, ratio * half_width)
        count[env] = len(loop)
        points[env, : len(loop)] = loop
    return Batch(
        points,
        count,
        length,
        np.full(num_envs, half_width, np.float32),
        np.ones(num_envs, np.bool_),
    )


def family_batch(name: str, num_envs: int, ratio: float = 0.6, seed: int = 0) -> Batch:
    """Random curves of one kind; only those that do not cross themselves."""
    import shapely

    rng = np.random.default_rng(seed)
    curves = []
    while len(curves) < num_envs:
        curve = FAMILIES[name](rng)
        if shapely.LinearRing(curve).is_simple:
            curves.append(curve)
    return batch(curves, ratio)


@dataclass
class Result:
    """Output of the stage."""

    points: np.ndarray
    sweeps: np.ndarray
    overflow: np.ndarray

    def loop(self, env: int, count: int) -> np.ndarray:
        return self.points[env, :count].astype(np.float64)

    def digest(self) -> str:
        return hashlib.sha256(
            self.points.tobytes() + self.sweeps.tobytes() + self.overflow.tobytes()
        ).hexdigest()


def run(
    data: Batch,
    config: RelaxConfig | None = None,
    lanes: int = 1,
    slices: list[tuple[int, int]] | None = None,
    device: str = "cpu",
) -> Result:
    """Relax a batch, whole or as row slices."""
    config = config or RelaxConfig()
    target = wp.get_device(device)
    num_envs = len(data.count)
    arrays = [
        wp.array(data.points, dtype=wp.vec2f, device=target),
        wp.array(data.count, dtype=wp.int32, device=target),
        wp.array(data.length, dtype=wp.float32, device=target),
        wp.array(data.half_width, dtype=wp.float32, device=target),
        wp.array(data.pending, dtype=wp.bool, device=target),
        wp.full(num_envs, SENTINEL, dtype=wp.int32, device=target),
        wp.full(num_envs, SENTINEL, dtype=wp.int32, device=target),
    ]
    scratch = RelaxScratch.allocate(num_envs, data.points.shape[1], config, target)
    for field in fields(scratch):
        array = getattr(scratch, field.name)
        array.fill_(-1 if array.dtype is wp.int16 else float("nan"))
    for low, high in slices or [(0, num_envs)]:
        part = RelaxScratch(**{f.name: getattr(scratch, f.name)[low:high] for f in fields(scratch)})
        command = relax(*(a[low:high] for a in arrays), config, part, lanes, target)
        command.launch()
    points, *_, sweeps, overflow = (a.numpy().copy() for a in arrays)
    return Result(points, sweeps, overflow)


def lane_digests() -> list[str]:
    """Digest of every mode, for the lanes of the command line."""
    lanes = int(sys.argv[1])
    if lanes > 1:
        wp.config.enable_cpu_blocks = True
    data = [family_batch(name, 12) for name in FAMILIES]
    data.append(batch([comb(0.14), comb(0.08)]))
    modes = [
        RelaxConfig(),
        RelaxConfig(sep_every=1),
        RelaxConfig(sep_every=3, sep_cache_slots=4, sep_cache_skin=0.5),
    ]
    return [run(d, config, lanes).digest() for config in modes for d in data]


if __name__ == "__main__":
    print("\n".join("digest " + digest for digest in lane_digests()))
