"""The flight line of a gate course: one cubic per interval, with the directions of a spline.

Directions are those of the centripetal Catmull-Rom spline through the gate centres in plan (Yuksel,
Schaefer, Keyser: Parameterization and applications of Catmull-Rom curves, Computer-Aided Design
2011). The handles of an interval are the spline's own (``CENTRIPETAL``), or as long as a circular
arc needs (``ARC``), which doubles the tightest radius. Height rides on the parameter of the plan
curve and its slope at a gate is the spline's: height never changes the plan, and scaling it scales
every grade.
"""

from __future__ import annotations

import warp as wp

from track_gen.block import block_sync
from track_gen.geometry import cross
from track_gen.polyline import next_index, planar, previous_index

__all__ = [
    "ARC",
    "CENTRIPETAL",
    "LINES",
    "LineInterval",
    "gate_direction",
    "gate_heights",
    "gate_interval",
    "gate_slope",
    "height_coefficients",
    "height_slope",
    "interval_acceleration",
    "interval_curvature",
    "interval_height",
    "interval_point",
    "interval_reach",
    "interval_velocity",
    "make_interval",
    "write_gate_lines",
]

wp.set_module_options({"enable_backward": False})

LINES = ("arc", "centripetal")
"""Names of the lines in ``GateGenConfig.line``; the index is the kernels' number."""
ARC, CENTRIPETAL = range(2)


@wp.struct
class LineInterval:
    """Plan curve of one interval: ``start + u b + u^2 c + u^3 d``, with its handle lengths."""

    start: wp.vec2f
    b: wp.vec2f
    c: wp.vec2f
    d: wp.vec2f
    first_handle: wp.float32
    last_handle: wp.float32


@wp.func
def gate_direction(before: wp.vec2f, here: wp.vec2f, after: wp.vec2f) -> wp.vec3f:
    """Unit direction (x, y) of the line at a gate, and the spline's speed in its own parameter."""
    e0 = here - before
    e1 = after - here
    k0 = wp.max(wp.sqrt(wp.length(e0)), 1.0e-12)
    k1 = wp.max(wp.sqrt(wp.length(e1)), 1.0e-12)
    velocity = e0 / k0 - (e0 + e1) / (k0 + k1) + e1 / k1
    speed = wp.length(velocity)
    if speed > 0.0:
        velocity = velocity / speed
    return wp.vec3f(velocity[0], velocity[1], speed)


@wp.func
def gate_slope(before: wp.vec3f, here: wp.vec3f, after: wp.vec3f, speed: float) -> float:
    """Slope dz/ds of the line at a gate; ``speed`` is the third part of :func:`gate_direction`."""
    k0 = wp.max(wp.sqrt(wp.length(wp.vec2f(here[0] - before[0], here[1] - before[1]))), 1.0e-12)
    k1 = wp.max(wp.sqrt(wp.length(wp.vec2f(after[0] - here[0], after[1] - here[1]))), 1.0e-12)
    z0 = here[2] - before[2]
    z1 = after[2] - here[2]
    return (z0 / k0 - (z0 + z1) / (k0 + k1) + z1 / k1) / wp.max(speed, 1.0e-12)


@wp.func
def _arc_factor(cosine: float) -> float:
    """Handle over chord for a circular arc whose end tangent has this cosine with the chord."""
    return wp.min(2.0 / wp.max(1.0 + cosine, 1.0e-3), 1.6)


@wp.func
def make_interval(
    start: wp.vec2f, end: wp.vec2f, first: wp.vec3f, last: wp.vec3f, line: int
) -> LineInterval:
    """Plan curve between two gates from their :func:`gate_direction`."""
    chord = end - start
    length = wp.max(wp.length(chord), 1.0e-20)
    t0 = wp.vec2f(first[0], first[1])
    t1 = wp.vec2f(last[0], last[1])
    interval = LineInterval()
    if line == wp.static(ARC):
        interval.first_handle = length * _arc_factor(wp.dot(t0, chord) / length)
        interval.last_handle = length * _arc_factor(wp.dot(t1, chord) / length)
    else:
        knot = wp.sqrt(length)
        interval.first_handle = first[2] * knot
        interval.last_handle = last[2] * knot
    h0 = interval.first_handle * t0
    h1 = interval.last_handle * t1
    interval.start = start
    interval.b = h0
    interval.c = 3.0 * chord - 2.0 * h0 - h1
    interval.d = h0 + h1 - 2.0 * chord
    return interval


@wp.func
def interval_point(interval: LineInterval, u: float) -> wp.vec2f:
    """Plan point at ``u`` in [0, 1]; exactly the start at 0."""
    return interval.start + u * (interval.b + u * (interval.c + u * interval.d))


@wp.func
def interval_velocity(interval: LineInterval, u: float) -> wp.vec2f:
    """Derivative of the plan point with respect to ``u``."""
    return interval.b + u * (2.0 * interval.c + (3.0 * u) * interval.d)


@wp.func
def interval_acceleration(interval: LineInterval, u: float) -> wp.vec2f:
    """Second derivative of the plan point with respect to ``u``."""
    return 2.0 * interval.c + (6.0 * u) * interval.d


@wp.func
def interval_reach(interval: LineInterval, chord: wp.vec2f) -> float:
    """Radius about the chord's middle that holds the whole plan curve: its Bezier polygon's."""
    middle = 0.5 * chord
    first = interval.b / 3.0 - middle
    last = (2.0 * interval.b + interval.c) / 3.0 - middle
    return wp.sqrt(wp.max(wp.dot(middle, middle), wp.max(wp.dot(first, first), wp.dot(last, last))))


@wp.func
def interval_curvature(interval: LineInterval, u: float) -> float:
    """Squared plan curvature at ``u``."""
    v = interval_velocity(interval, u)
    bc = cross(interval.b, interval.c)
    bd = cross(interval.b, interval.d)
    cd = cross(interval.c, interval.d)
    turn = 2.0 * bc + u * (6.0 * bd + (6.0 * u) * cd)
    speed = wp.max(wp.dot(v, v), 1.0e-30)
    return turn * turn / (speed * speed * speed)


@wp.func
def height_coefficients(
    interval: LineInterval, z0: float, z1: float, first_slope: float, last_slope: float
) -> wp.vec4f:
    """Height over an interval as ``x + u y + u^2 z + u^3 w``, from heights and slopes at gates."""
    h0 = first_slope * interval.first_handle
    h1 = last_slope * interval.last_handle
    rise = z1 - z0
    return wp.vec4f(z0, h0, 3.0 * rise - 2.0 * h0 - h1, h0 + h1 - 2.0 * rise)


@wp.func
def interval_height(height: wp.vec4f, u: float) -> float:
    """Height at ``u``."""
    return height[0] + u * (height[1] + u * (height[2] + u * height[3]))


@wp.func
def height_slope(interval: LineInterval, height: wp.vec4f, u: float) -> wp.vec2f:
    """(dz/ds, d2z/ds2) at ``u`` over plan arc length s."""
    v = interval_velocity(interval, u)
    a = 2.0 * interval.c + (6.0 * u) * interval.d
    dz = height[1] + u * (2.0 * height[2] + (3.0 * u) * height[3])
    ddz = 2.0 * height[2] + (6.0 * u) * height[3]
    speed2 = wp.max(wp.dot(v, v), 1.0e-30)
    return wp.vec2f(dz / wp.sqrt(speed2), (ddz * speed2 - dz * wp.dot(v, a)) / (speed2 * speed2))


@wp.func
def write_gate_lines(
    position: wp.array2d[wp.vec3f], lines: wp.array2d[wp.vec4f], env: int, lane: int, count: int
):
    """Write direction, speed and slope of the flight line at every gate; ends with a barrier."""
    for i in range(lane, count, wp.block_dim()):
        before = position[env, previous_index(i, count)]
        here = position[env, i]
        after = position[env, next_index(i, count)]
        d = gate_direction(planar(before), planar(here), planar(after))
        lines[env, i] = wp.vec4f(d[0], d[1], d[2], gate_slope(before, here, after, d[2]))
    block_sync()


@wp.func
def gate_interval(
    position: wp.array2d[wp.vec3f],
    lines: wp.array2d[wp.vec4f],
    env: int,
    i: int,
    count: int,
    line: int,
) -> LineInterval:
    """Plan curve of the interval that starts at gate ``i``."""
    j = next_index(i, count)
    a = lines[env, i]
    b = lines[env, j]
    return make_interval(
        planar(position[env, i]),
        planar(position[env, j]),
        wp.vec3f(a[0], a[1], a[2]),
        wp.vec3f(b[0], b[1], b[2]),
        line,
    )


@wp.func
def gate_heights(
    interval: LineInterval,
    position: wp.array2d[wp.vec3f],
    lines: wp.array2d[wp.vec4f],
    env: int,
    i: int,
    count: int,
) -> wp.vec4f:
    """Height over the interval that starts at gate ``i``."""
    j = next_index(i, count)
    return height_coefficients(
        interval, position[env, i][2], position[env, j][2], lines[env, i][3], lines[env, j][3]
    )
