"""The rules of a gate course in float64 NumPy, written from their text: reasons per course.

Nothing here is shared with the package. A course is a dictionary of one env's arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

SAMPLES = 32


@dataclass(frozen=True)
class Limits:
    """What the course must keep; lengths resolved."""

    width: float
    height: float
    clearance: float
    gap: float
    approach: float
    radius: float
    max_turn: float
    max_grade: float
    max_incidence: float
    max_extent: float | None
    line: str
    winding: int
    counts: tuple[int, int]

    @classmethod
    def of(cls, config, width: float | None = None) -> Limits:
        """Limits of a configuration for one env's gate width."""
        w = float(config.gate_width if width is None else width)
        c = 0.5 * w if config.clearance is None else config.clearance
        return cls(
            width=w,
            height=w if config.gate_height is None else config.gate_height,
            clearance=c,
            gap=max(w + 2 * c, config.min_gap),
            approach=w if config.approach is None else config.approach,
            radius=0.75 * w if config.min_radius is None else config.min_radius,
            max_turn=math.radians(config.max_turn),
            max_grade=config.max_grade,
            max_incidence=math.radians(config.max_incidence),
            max_extent=config.max_extent,
            line=config.line,
            winding={"ccw": 1, "cw": -1}.get(config.ordering, 0),
            counts=config.count_range,
        )


class Line:
    """The closed flight line: per interval, cubic coefficients of x, y, z in the parameter."""

    def __init__(self, p: np.ndarray, kind: str) -> None:
        n = len(p)
        e = np.roll(p, -1, 0) - p
        chord = np.linalg.norm(e[:, :2], axis=1)
        k = np.sqrt(chord)
        before, kb = np.roll(e, 1, 0), np.roll(k, 1)
        v = before / kb[:, None] - (before + e) / (kb + k)[:, None] + e / k[:, None]
        speed = np.linalg.norm(v[:, :2], axis=1)
        self.direction = v[:, :2] / speed[:, None]
        self.slope = v[:, 2] / speed
        nxt = np.roll(np.arange(n), -1)
        if kind == "arc":

            def handle(t):
                x = (t * e[:, :2]).sum(1) / chord
                return chord * np.minimum(2 / (1 + x), 1.6)

            first, last = handle(self.direction), handle(self.direction[nxt])
        else:
            first, last = k * speed, k * speed[nxt]
        h0 = np.c_[self.direction, self.slope] * first[:, None]
        h1 = np.c_[self.direction, self.slope][nxt] * last[:, None]
        self.coefficients = np.stack([p, h0, 3 * e - 2 * h0 - h1, h0 + h1 - 2 * e], axis=1)

    def at(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points and two derivatives by the parameter, each of shape [n, len(u), 3]."""
        one = np.ones_like(u)
        basis = np.stack([one, u, u**2, u**3])
        first = np.stack([0 * u, one, 2 * u, 3 * u**2])
        second = np.stack([0 * u, 0 * u, 2 * one, 6 * u])
        return tuple(np.einsum("nkd,ku->nud", self.coefficients, b) for b in (basis, first, second))


def boxes_overlap(c0, axes0, s0, c1, axes1, s1, tolerance) -> bool:
    """Whether two boxes share more than ``tolerance`` along all 15 axes."""
    axes = [*axes0, *axes1, *(np.cross(a, b) for a in axes0 for b in axes1)]
    for axis in axes:
        size = np.linalg.norm(axis)
        if size < 1e-6:
            continue
        axis = axis / size
        shadow = np.abs(axes0 @ axis) @ s0 + np.abs(axes1 @ axis) @ s1
        if shadow - abs(axis @ (c1 - c0)) <= tolerance:
            return False
    return True


def crossings(points: np.ndarray, center, axes, exact: dict[int, float]):
    """Plane crossings of a polyline: (segment, +1 or -1, y, z); ``exact`` replaces distances."""
    local = (points - center) @ axes.T
    x = local[:, 0].copy()
    for index, value in exact.items():
        x[index] = value
    found = []
    for s in range(len(points) - 1):
        a, b = x[s], x[s + 1]
        if (a < 0 <= b) or (a >= 0 > b):
            alpha = a / (a - b)
            y, z = (local[s] + alpha * (local[s + 1] - local[s]))[1:]
            found.append((s, 1 if a < 0 else -1, y, z))
    return found


def judge(course: dict[str, np.ndarray], limits: Limits) -> set[str]:
    """Reasons why a course is not valid; empty if it is."""
    n = int(course["count"])
    reasons: set[str] = set()
    if not limits.counts[0] <= n <= limits.counts[1]:
        reasons.add("COUNT")
    p = course["position"][:n].astype(np.float64)
    forward = course["tangent"][:n].astype(np.float64)
    left = course["normal"][:n].astype(np.float64)
    for name in ("position", "tangent", "normal", "left", "right", "orientation", "half_width"):
        if not np.isfinite(course[name][:n]).all():
            reasons.add("NONFINITE")
    if reasons:
        return reasons
    axes = np.stack([forward, left, np.cross(forward, left)], axis=1)
    hw, hh = limits.width / 2, limits.height / 2
    outer = np.array([0.0, hw + limits.clearance, hh + limits.clearance])
    corridor = np.array([limits.approach, hw, hh])
    tolerance = 1e-5 * limits.width
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            if np.linalg.norm(p[i] - p[j]) < limits.gap * (1 - 1e-5):
                reasons.add("SPACING")
            if i < j and boxes_overlap(p[i], axes[i], outer, p[j], axes[j], outer, tolerance):
                reasons.add("OVERLAP")
            if boxes_overlap(p[i], axes[i], corridor, p[j], axes[j], outer, tolerance):
                reasons.add("APPROACH")

    e = np.roll(p, -1, 0) - p
    before = np.roll(e, 1, 0)
    turn = np.arctan2(
        before[:, 0] * e[:, 1] - before[:, 1] * e[:, 0], (before[:, :2] * e[:, :2]).sum(1)
    )
    if (np.abs(turn) > limits.max_turn).any():
        reasons.add("TURN")
    plan = np.linalg.norm(e[:, :2], axis=1)
    line = Line(p, limits.line)
    u = np.linspace(0, 1, SAMPLES + 1)
    points, d1, d2 = line.at(u)
    speed = np.linalg.norm(d1[..., :2], axis=2)
    slope = d1[..., 2] / speed
    if (np.abs(e[:, 2]) > limits.max_grade * plan * (1 + 1e-4)).any():
        reasons.add("GRADE")
    if (np.abs(slope) > limits.max_grade * (1 + 1e-4)).any():
        reasons.add("GRADE")
    along = np.c_[line.direction, line.slope]
    along /= np.linalg.norm(along, axis=1)[:, None]
    angle = np.arctan2(np.linalg.norm(np.cross(forward, along), axis=1), (forward * along).sum(1))
    if (angle > limits.max_incidence + 1e-4).any():
        reasons.add("INCIDENCE")
    bend = np.abs(d1[..., 0] * d2[..., 1] - d1[..., 1] * d2[..., 0]) / speed**3
    lift = (d2[..., 2] * speed**2 - d1[..., 2] * (d1 * d2)[..., :2].sum(2)) / speed**4
    if (bend * limits.radius > 1).any() or (np.abs(lift) * limits.radius > 1).any():
        reasons.add("RADIUS")

    for j in range(n):
        passed = 0
        for k in range(n):
            exact = {}
            if k == j:
                exact[0] = 0.0
            if (k + 1) % n == j:
                exact[SAMPLES] = 0.0
            for s, way, y, z in crossings(points[k], p[j], axes[j], exact):
                own = (k + 1) % n == j and s == SAMPLES - 1
                if own and way > 0:
                    passed += 1
                elif abs(y) <= outer[1] and abs(z) <= outer[2]:
                    reasons.add("LINE")
                elif way > 0 and (k + 1) % n == j:
                    if abs(y) <= 2 * outer[1] and abs(z) <= 2 * outer[2]:
                        reasons.add("MISS")
        if passed != 1:
            reasons.add("LINE")

    if limits.winding:
        q = np.roll(p, -1, 0)
        area = 0.5 * (p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]).sum()
        if abs(turn.sum() - limits.winding * 2 * np.pi) > 1e-3 or area * limits.winding <= 0:
            reasons.add("WINDING")
    if limits.max_extent is not None and np.ptp(p[:, :2], axis=0).max() > limits.max_extent:
        reasons.add("EXTENT")
    return reasons
