"""Pushes between the parts of a gate course in plan, for its relaxation."""

from __future__ import annotations

import warp as wp

from track_gen.flight_line import interval_curvature, interval_point, make_interval
from track_gen.geometry import cross, left_of

__all__ = ["corridor_push", "half_curvatures", "line_contact"]

wp.set_module_options({"enable_backward": False})


@wp.func
def half_curvatures(
    start: wp.vec2f, end: wp.vec2f, first: wp.vec3f, last: wp.vec3f, line: int, samples: int
) -> wp.vec2f:
    """Largest plan curvature of the first and of the second half of an interval."""
    interval = make_interval(start, end, first, last, line)
    first_half = float(0.0)
    second_half = float(0.0)
    step = 1.0 / float(samples)
    for k in range(samples // 2 + 1):
        u = float(k) * step
        first_half = wp.max(first_half, interval_curvature(interval, u))
        second_half = wp.max(second_half, interval_curvature(interval, u + 0.5))
    return wp.vec2f(wp.sqrt(first_half), wp.sqrt(second_half))


@wp.func
def line_contact(
    gate: wp.vec2f,
    start: wp.vec2f,
    end: wp.vec2f,
    first: wp.vec3f,
    last: wp.vec3f,
    line: int,
    outer: float,
    room: float,
    gap: float,
) -> wp.vec4f:
    """Push of a gate away from an interval: (x, y, parameter of the nearest point, distance).

    The parameter is negative where the line keeps ``room``. The interval is a polyline with an edge
    per ``outer``, so that its sagitta is small against the room.
    """
    chord = end - start
    length = wp.length(chord)
    none = wp.vec4f(0.0, 0.0, -1.0, 1.0e30)
    away = gate - 0.5 * (start + end)
    reach = 0.9 * length + room
    if wp.dot(away, away) > reach * reach:
        return none
    interval = make_interval(start, end, first, last, line)
    edges = wp.clamp(int(length / outer) + 1, 8, 32)
    step = 1.0 / float(edges)
    best = float(1.0e30)
    best_u = float(0.0)
    best_offset = wp.vec2f(0.0, 0.0)
    p = start
    k = int(0)
    while k < edges and best > 0.0:
        q = interval_point(interval, float(k + 1) * step)
        e = q - p
        d = gate - p
        t = wp.clamp(wp.dot(d, e) / wp.max(wp.dot(e, e), 1.0e-30), 0.0, 1.0)
        offset = d - t * e
        square = wp.dot(offset, offset)
        if square < best:
            best = square
            best_u = (float(k) + t) * step
            best_offset = offset
        p = q
        k += 1
    if best >= room * room:
        return none
    distance = wp.sqrt(best)
    normal = best_offset / wp.max(distance, 1.0e-30)
    if distance < 1.0e-6 * gap:
        normal = left_of(wp.normalize(chord))
    v = 1.0 - best_u
    push = (room - distance) / (1.0 + v * v + best_u * best_u)
    return wp.vec4f(push * normal[0], push * normal[1], best_u, distance)


@wp.func
def corridor_push(
    between: wp.vec2f,
    f0: wp.vec2f,
    f1: wp.vec2f,
    approach: float,
    half_width: float,
    outer: float,
    depth: float,
    sign: float,
) -> wp.vec3f:
    """Push of the bar of a gate out of another gate's corridor: (x, y, penetration).

    The separating axis test of two rectangles in plan; the push goes along the axis of least
    penetration.

    Args:
        between: From the corridor's gate to the bar's gate.
        f0: Forward of the corridor's gate.
        f1: Forward of the bar's gate.
        approach: Half length of the corridor.
        half_width: Half width of the corridor.
        outer: Half width of the bar.
        depth: Half depth of the bar.
        sign: Side that the bar goes to where both centres are level along the axis.
    """
    l0 = left_of(f0)
    l1 = left_of(f1)
    c = wp.abs(wp.dot(f0, f1))
    s = wp.abs(cross(f0, f1))
    least = float(1.0e30)
    axis = f0
    a = wp.dot(between, f0)
    p = approach + depth * c + outer * s - wp.abs(a)
    side = a
    if p < least:
        least = p
    a = wp.dot(between, l0)
    p = half_width + depth * s + outer * c - wp.abs(a)
    if p < least:
        least = p
        axis = l0
        side = a
    a = wp.dot(between, f1)
    p = depth + approach * c + half_width * s - wp.abs(a)
    if p < least:
        least = p
        axis = f1
        side = a
    a = wp.dot(between, l1)
    p = outer + approach * s + half_width * c - wp.abs(a)
    if p < least:
        least = p
        axis = l1
        side = a
    if least <= 0.0:
        return wp.vec3f(0.0, 0.0, 0.0)
    towards = float(1.0)
    if side < 0.0 or (side == 0.0 and sign < 0.0):
        towards = -1.0
    amount = 0.5 * least * towards
    return wp.vec3f(amount * axis[0], amount * axis[1], least)
