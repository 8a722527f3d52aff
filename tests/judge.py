"""Independent judge of a published road: float64, shapely, nothing of track_gen.

It reads only what a user sees: the centreline and the two borders. ``judge_track`` returns the
reasons why a road is wrong; an empty list is a good road.
"""

from __future__ import annotations

import numpy as np
import shapely

WIDTH = 0.02
"""Share of the half width that may be missing anywhere."""
WIDTH_SPACING = 0.125 / (1.0 - WIDTH) ** 2
"""More of it per (h / half_width)^2. Borders leave a vertex of turn t along its normal, so beside
its edges the road is half_width * cos(t / 2) wide, t is up to h / radius, and the radius is at
least (1 - WIDTH) * half_width."""
AREA = 0.02
"""Relative error of the area of the road."""
AREA_SPACING = 0.05
"""More of it per (h / half_width)^2; the mean over a whole road of what WIDTH_SPACING bounds."""


def turns(points: np.ndarray) -> float:
    """Signed number of turns of a closed polygon."""
    edges = np.roll(points, -1, axis=0) - points
    following = np.roll(edges, -1, axis=0)
    cross = edges[:, 0] * following[:, 1] - edges[:, 1] * following[:, 0]
    return float(np.arctan2(cross, (edges * following).sum(1)).sum() / (2 * np.pi))


def signed_area(points: np.ndarray) -> float:
    """Area of a closed polygon, counter-clockwise positive."""
    p = points - points[0]
    q = np.roll(p, -1, axis=0)
    return float(0.5 * (p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]).sum())


def judge_track(
    center: np.ndarray, outer: np.ndarray, inner: np.ndarray, half_width: float
) -> list[str]:
    """Reasons why a road is not what it claims to be.

    Args:
        center: Centreline without a repeated end point, shape [n, >= 2].
        outer: Border that should enclose the other, shape [n, >= 2].
        inner: The other border, shape [n, >= 2].
        half_width: Half width asked for.
    """
    if not all(np.isfinite(np.asarray(a)).all() for a in (center, outer, inner)):
        return ["not finite"]
    if len(center) < 3 or not len(center) == len(outer) == len(inner):
        return ["not a loop"]
    center, outer, inner = (np.asarray(a, np.float64)[:, :2] for a in (center, outer, inner))
    half_width = float(half_width)
    reasons = []
    edges = np.linalg.norm(np.roll(center, -1, axis=0) - center, axis=1)
    length = edges.sum()
    ratio = length / len(center) / half_width

    turn = turns(center)
    if abs(abs(turn) - 1.0) > 0.25:
        reasons.append(f"centreline turns {turn:.2f} times")
    direction = 1.0 if turn >= 0 else -1.0
    areas = direction * signed_area(outer), direction * signed_area(inner)
    if not areas[0] > areas[1] > 0.0:
        reasons.append(f"border areas {areas[0]:g} and {areas[1]:g}")
    area_error = abs((areas[0] - areas[1]) / (2.0 * half_width * length) - 1.0)
    if not area_error <= AREA + AREA_SPACING * ratio**2:
        reasons.append(f"road area wrong by {area_error:.4f}")

    rings = shapely.linearrings([center, outer, inner])
    simple = shapely.is_simple(rings)
    for name, good in zip(("centreline", "outer border", "inner border"), simple, strict=True):
        if not good:
            reasons.append(f"{name} crosses itself")
    if simple.all():
        outer_shape, inner_shape = shapely.polygons(rings[1]), shapely.polygons(rings[2])
        shapely.prepare([outer_shape, inner_shape])
        if not shapely.contains_properly(outer_shape, rings[2]):
            reasons.append("inner border leaves the outer one")
        if not shapely.contains_properly(outer_shape, rings[0]):
            reasons.append("centreline leaves the outer border")
        if shapely.intersects(inner_shape, rings[0]):
            reasons.append("centreline enters the inner border")

    narrow = float(shapely.distance(rings[1:], rings[0]).min()) / half_width
    if not narrow >= 1.0 - WIDTH - WIDTH_SPACING * ratio**2:
        reasons.append(f"road only {narrow:.4f} of its width")
    return reasons


def judge_batch(
    center: np.ndarray,
    outer: np.ndarray,
    inner: np.ndarray,
    count: np.ndarray,
    half_width: np.ndarray,
) -> list[list[str]]:
    """:func:`judge_track` of every row of padded arrays, shapes [E, N_max, >= 2], [E], [E]."""
    return [
        judge_track(center[e, :n], outer[e, :n], inner[e, :n], half_width[e])
        for e, n in enumerate(np.asarray(count))
    ]
