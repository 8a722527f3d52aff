"""Fly the line densely past solid frames: a second judge that knows no rule but the physical ones.

The line is evaluated by de Casteljau on Bezier control points, 250 points per interval; each frame
is four solid boxes. A course passes if a point flies it with the whole clearance solid, a sphere
with half of it, if every opening is entered from the front once a lap, and if spacing, grade, turn
and radius, by finite differences, keep their limits with 3 % of slack.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

PER_INTERVAL = 250


def handles(p: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Bezier control points after and before each gate's end of its intervals, [n, 3] each."""
    n = len(p)
    after = np.empty((n, 3))
    ahead = np.empty((n, 3))
    for i in range(n):
        a, b, c = p[i - 1], p[i], p[(i + 1) % n]
        ta, tc = np.hypot(*(b - a)[:2]) ** 0.5, np.hypot(*(c - b)[:2]) ** 0.5
        # Non-uniform Catmull-Rom tangent by the Barry-Goldman pyramid's derivative.
        rate = (tc * (b - a) / ta + ta * (c - b) / tc) / (ta + tc)
        size = np.hypot(*rate[:2])
        for out, other, knot, sign in ((after, c, tc, 1.0), (ahead, a, ta, -1.0)):
            chord = sign * (other - b)[:2]
            if kind == "arc":
                length = np.hypot(*chord)
                cosine = chord @ rate[:2] / (length * size)
                reach = length * min(2.0 / (1.0 + cosine), 1.6) / size
            else:
                reach = knot
            out[i] = b + sign * rate * reach / 3.0
    return after, ahead


def fly(p: np.ndarray, kind: str) -> np.ndarray:
    """Points of one lap, [n * PER_INTERVAL, 3], starting at gate 0."""
    after, ahead = handles(p, kind)
    t = (np.arange(PER_INTERVAL) / PER_INTERVAL)[:, None]
    lap = []
    for i in range(len(p)):
        j = (i + 1) % len(p)
        q = [p[i], after[i], ahead[j], p[j]]
        while len(q) > 1:
            q = [(1 - t) * a + t * b for a, b in pairwise(q)]
        lap.append(q[0] * np.ones((PER_INTERVAL, 1)))
    return np.concatenate(lap)


def frame_boxes(half_width, half_height, band, depth):
    """(centre y, z, half sizes) of the posts, full height, and of the beams between them."""
    y, z = half_width + band / 2, half_height + band / 2
    post = (depth, band / 2, half_height + band)
    beam = (depth, half_width, band / 2)
    return [(-y, 0, post), (y, 0, post), (0, -z, beam), (0, z, beam)]


def hits(local: np.ndarray, half_width, half_height, band, depth, body) -> bool:
    """Whether a sphere at any point touches a frame; points in gate axes."""
    for y, z, size in frame_boxes(half_width, half_height, band, depth):
        d = np.maximum(np.abs(local - [0, y, z]) - size, 0)
        if (np.linalg.norm(d, axis=1) < body - 1e-9).any() or (
            body == 0 and (d.max(axis=1) <= 0).any()
        ):
            return True
    return False


def judge(course: dict[str, np.ndarray], limits) -> list[str]:
    """What goes wrong in flight; empty if nothing."""
    n = int(course["count"])
    p = course["position"][:n].astype(float)
    f = course["tangent"][:n].astype(float)
    left = course["normal"][:n].astype(float)
    if not np.isfinite(p).all():
        return ["not finite"]
    lap = fly(p, limits.line)
    wrong = []
    hw, hh, c = limits.width / 2, limits.height / 2, limits.clearance
    for i in range(n):
        axes = np.stack([f[i], left[i], np.cross(f[i], left[i])])
        local = (lap - p[i]) @ axes.T
        inside = (np.abs(local[:, 1]) <= hw + c) & (np.abs(local[:, 2]) <= hh + c)
        x = local[:, 0]
        start = i * PER_INTERVAL
        # The gate's own point lies on the plane; who flies on is behind it one point before.
        x[start] = 0.0
        nxt = np.roll(x, -1)
        forward = np.flatnonzero((x < 0) & (nxt >= 0) & (inside | np.roll(inside, -1)))
        backward = np.flatnonzero((x >= 0) & (nxt < 0) & (inside | np.roll(inside, -1)))
        if list(forward) != [(start - 1) % len(lap)] or len(backward):
            wrong.append("order")
        thin = 0.002 * limits.width
        if c > 0 and hits(local, hw, hh, c * (1 - 1e-4), thin, 0.0):
            wrong.append("band")
        # A body must fit the opening too: that is no matter of the course.
        if c > 0 and hits(local, hw, hh, 0.5 * c, thin, 0.49 * min(c, hw, hh)):
            wrong.append("body")
    apart = np.linalg.norm(p[:, None] - p[None], axis=2) + 1e9 * np.eye(n)
    if apart.min() < limits.gap * 0.99999:
        wrong.append("spacing")
    step = np.roll(lap, -1, 0) - lap
    plan = np.hypot(step[:, 0], step[:, 1])
    if (np.abs(step[:, 2]) > 1.03 * limits.max_grade * plan).any():
        wrong.append("grade")
    heading = np.arctan2(step[:, 1], step[:, 0])
    turn = np.angle(np.exp(1j * (np.roll(heading, -1) - heading)))
    if (np.abs(turn) * limits.radius > 1.03 * 0.5 * (plan + np.roll(plan, -1))).any():
        wrong.append("radius")
    if limits.winding and round(turn.sum() / (2 * np.pi)) != limits.winding:
        wrong.append("winding")
    chord = np.roll(p, -1, 0) - p
    angle = np.arctan2(chord[:, 1], chord[:, 0])
    corner = np.abs(np.angle(np.exp(1j * (angle - np.roll(angle, 1)))))
    if (corner > limits.max_turn + 1e-6).any():
        wrong.append("corner")
    return wrong
