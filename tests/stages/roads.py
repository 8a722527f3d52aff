"""Curves and a runner for the tests of the inflate stage and the validity gate."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import warp as wp

sys.path.insert(0, str(Path(__file__).parents[1]))

from track_gen.stages.inflate import InflateScratch, inflate
from track_gen.stages.validity import ValidityConfig, check_validity


def resample(points: np.ndarray, count: int) -> np.ndarray:
    """``count`` points at equal arcs of a closed polyline."""
    closed = np.vstack([points, points[:1]])
    arc = np.concatenate([[0.0], np.linalg.norm(np.diff(closed, axis=0), axis=1).cumsum()])
    targets = arc[-1] * np.arange(count) / count
    return np.stack([np.interp(targets, arc, closed[:, k]) for k in range(2)], axis=1)


def perimeter(points: np.ndarray) -> float:
    return float(np.linalg.norm(np.roll(points, -1, axis=0) - points, axis=1).sum())


def spaced(points: np.ndarray, spacing: float) -> np.ndarray:
    return resample(points, round(perimeter(points) / spacing))


def circle(radius: float, count: int) -> np.ndarray:
    t = 2 * np.pi * np.arange(count) / count
    return radius * np.stack([np.cos(t), np.sin(t)], axis=1)


def stadium(radius: float, straight: float, samples: int = 4000) -> np.ndarray:
    """Two half circles joined by straights."""
    t = np.linspace(-np.pi / 2, np.pi / 2, samples)
    cap = radius * np.stack([np.cos(t), np.sin(t)], axis=1)
    shift = np.array([straight / 2, 0.0])
    return np.vstack([cap + shift, -cap - shift])


def figure_eight(size: float, count: int) -> np.ndarray:
    t = 2 * np.pi * np.arange(count) / count
    return size * np.stack([np.sin(t), np.sin(2 * t) / 2], axis=1)


def star(rng: np.random.Generator, wiggle: float, size: float = 1.0) -> np.ndarray:
    """Star-shaped closed curve with a few random harmonics; ``wiggle`` below 1 keeps it simple."""
    t = 2 * np.pi * np.arange(2000) / 2000
    orders = np.arange(2, 8)
    amplitudes = rng.normal(size=orders.size) / orders
    phases = rng.uniform(0, 2 * np.pi, orders.size)
    wave = (amplitudes[:, None] * np.cos(orders[:, None] * t + phases[:, None])).sum(0)
    radius = 1.0 + wiggle * wave / np.abs(wave).max()
    angle = rng.uniform(0, 2 * np.pi)
    return size * radius[:, None] * np.stack([np.cos(t + angle), np.sin(t + angle)], axis=1)


def publish(points: np.ndarray, half_width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centre, outer and inner line of exact counter-clockwise points, without any re-spacing."""
    tangent = np.roll(points, -1, axis=0) - np.roll(points, 1, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    offset = half_width * np.stack([tangent[:, 1], -tangent[:, 0]], axis=1)
    lines = (points, points + offset, points - offset)
    return tuple(np.c_[line, np.zeros(len(line))].astype(np.float32) for line in lines)


@dataclass
class Roads:
    """A batch of roads and everything the two stages wrote, as NumPy arrays."""

    center: np.ndarray
    outer: np.ndarray
    inner: np.ndarray
    tangent: np.ndarray
    normal: np.ndarray
    up: np.ndarray
    arclen: np.ndarray
    curvature: np.ndarray
    length: np.ndarray
    spacing: np.ndarray
    winding: np.ndarray
    count: np.ndarray
    half_width: np.ndarray
    status: np.ndarray
    valid: np.ndarray
    attempts: np.ndarray
    pending: np.ndarray


def pack(curves: list[np.ndarray], N_max: int) -> tuple[np.ndarray, np.ndarray]:
    points = np.full((len(curves), N_max, 2), np.nan, np.float32)
    for e, curve in enumerate(curves):
        points[e, : len(curve)] = curve
    return points, np.array([len(curve) for curve in curves], np.int32)


def gate(
    center: np.ndarray,
    outer: np.ndarray,
    inner: np.ndarray,
    count: np.ndarray,
    half_width: np.ndarray,
    pending: np.ndarray | None = None,
    status: np.ndarray | None = None,
    attempt: int = 0,
    lanes: int = 1,
    config: ValidityConfig | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Run the validity gate on published arrays; returns status, valid, attempts, pending."""
    device = wp.get_device("cpu")
    E = len(count)
    arrays = [wp.array(a, dtype=wp.vec3f, device=device) for a in (center, outer, inner)]
    count_in = wp.array(count, dtype=wp.int32, device=device)
    width_in = wp.array(half_width, dtype=wp.float32, device=device)
    pending_io = wp.array(
        np.ones(E, bool) if pending is None else pending, dtype=wp.bool, device=device
    )
    status_io = wp.array(np.zeros(E) if status is None else status, dtype=wp.int32, device=device)
    valid = wp.zeros(E, dtype=wp.bool, device=device)
    attempts = wp.zeros(E, dtype=wp.int32, device=device)
    check_validity(
        *arrays, count_in, width_in, pending_io, status_io, valid, attempts, attempt,
        config or ValidityConfig(), lanes, device,
    ).launch()  # fmt: skip
    return tuple(a.numpy().copy() for a in (status_io, valid, attempts, pending_io))


def build(
    curves: list[np.ndarray],
    half_width: float | np.ndarray,
    N_max: int = 512,
    count: np.ndarray | None = None,
    pending: np.ndarray | None = None,
    lanes: int = 1,
    fill: float = -7.0,
    slices: int = 1,
) -> Roads:
    """Inflate and judge a batch; outputs start as ``fill``; rows are launched in ``slices``."""
    device = wp.get_device("cpu")
    points, found = pack(curves, N_max)
    count = found if count is None else np.asarray(count, np.int32)
    E = len(curves)
    widths = np.broadcast_to(np.float32(half_width), E).astype(np.float32)
    chosen = np.ones(E, bool) if pending is None else pending
    points_in = wp.array(points, dtype=wp.vec2f, device=device)
    count_in = wp.array(count, dtype=wp.int32, device=device)
    width_in = wp.array(widths, dtype=wp.float32, device=device)
    pending_io = wp.array(chosen, dtype=wp.bool, device=device)
    vectors = [wp.full((E, N_max), wp.vec3f(fill), dtype=wp.vec3f, device=device) for _ in range(6)]
    scalars = [wp.full((E, N_max), fill, dtype=wp.float32, device=device) for _ in range(2)]
    sizes = [wp.full(E, fill, dtype=wp.float32, device=device) for _ in range(2)]
    winding = wp.full(E, -7, dtype=wp.int32, device=device)
    scratch = InflateScratch.allocate(E, N_max, device)
    status = wp.zeros(E, dtype=wp.int32, device=device)
    valid = wp.zeros(E, dtype=wp.bool, device=device)
    attempts = wp.zeros(E, dtype=wp.int32, device=device)
    bounds = np.linspace(0, E, slices + 1).astype(int)
    for low, high in pairwise(bounds):
        rows = slice(int(low), int(high))
        part = InflateScratch(scratch.points[rows], scratch.offsets[rows])
        out = [a[rows] for a in (*vectors, *scalars, *sizes, winding)]
        inputs = (points_in[rows], count_in[rows], width_in[rows], pending_io[rows])
        inflate(*inputs, *out, part, lanes, device).launch()
        check_validity(
            *out[:3], count_in[rows], width_in[rows], pending_io[rows], status[rows], valid[rows],
            attempts[rows], 0, ValidityConfig(), lanes, device,
        ).launch()  # fmt: skip
    outputs = [a.numpy().copy() for a in (*vectors, *scalars, *sizes, winding)]
    tail = [a.numpy().copy() for a in (status, valid, attempts, pending_io)]
    return Roads(*outputs, count, widths, *tail)
