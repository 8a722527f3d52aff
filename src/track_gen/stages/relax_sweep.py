"""Steps of the relaxation along the curve: constraints, filters, acceleration, smoothing.

The near chords do the bending, the spacing keeps points at equal arcs, fourth differences at two
strides take out zigzag. All of them read one iterate and add up to one move per point.
"""

from __future__ import annotations

import warp as wp

from track_gen.geometry import cos_sin
from track_gen.stages.loop_rows import HALO
from track_gen.stages.relax_neighbors import CLEARANCE

__all__ = ["TURN_ONE", "advance", "chord_bounds", "chord_window", "correct", "smooth"]

wp.set_module_options({"enable_backward": False})

# Lengths in units of the half width, as everywhere here.
RADIUS = 1.6  # radius of the chord bound: above the stop radius, for chords push weakly near it
MAX_STEP = 0.5  # longest move per sweep; longer ones tunnel

SPACING_WEIGHT = 0.25
FOURTH_1 = 0.4 / 16.0
FOURTH_2 = 0.3 / 16.0
SPACING_TOLERANCE = 0.2
TURN_ONE = 262144.0  # 2^18 units of the integer turn sum: 2 * 2^18 * 4095 < 2^31

MAX_WINDOW = 15
STRIDES = wp.types.vector(length=5, dtype=wp.int32)(2, 3, 5, 8, 12)  # of chords along the curve
PI = 3.141592653589793

Bounds = wp.types.vector(length=5, dtype=wp.float32)


@wp.func
def _chord_bound2(h: float, stride: int, window: int) -> float:
    """Squared least chord over ``stride`` points; 0 beyond the window."""
    if stride > window:
        return 0.0
    angle = wp.min(float(stride) * h * wp.static(0.5 / RADIUS), wp.static(0.5 * PI))
    chord = wp.min(wp.static(2.0 * RADIUS) * cos_sin(angle)[1], wp.static(CLEARANCE))
    return chord * chord


@wp.func
def chord_window(rest: float, count: int) -> int:
    """Points along the curve, on either side, to which near chords reach; at most their bound."""
    window = int(wp.min(wp.static(PI * RADIUS) / rest, wp.static(float(MAX_WINDOW))))
    return wp.clamp(window, 2, wp.min((count - 1) // 2, wp.static(MAX_WINDOW)))


@wp.func
def chord_bounds(rest: float, window: int) -> Bounds:
    """Squared least chord over each stride."""
    bounds = Bounds()
    for k in range(wp.static(len(STRIDES))):
        bounds[k] = _chord_bound2(rest, wp.static(STRIDES)[k], window)
    return bounds


@wp.func
def _lack(dx: float, dy: float, bound2: float) -> float:
    """Share of the chord ``d`` that each of its ends moves; > 0 if it is shorter than its bound."""
    d2 = dx * dx + dy * dy
    share = float(0.0)
    if d2 < bound2:
        share = (bound2 - d2) / (4.0 * d2 + 1.0e-6 * bound2)
    return share


@wp.func
def correct(
    x: wp.array[wp.float32],
    y: wp.array[wp.float32],
    lane: int,
    count: int,
    rest2: float,
    bounds: Bounds,
    inverse_radius2: float,
    move_x: wp.array[wp.float32],
    move_y: wp.array[wp.float32],
) -> wp.vec2i:
    """Add spacing, filters and near chords to the moves and clamp them.

    Returns the number of violations and the turn sum of the loop as it is.
    """
    faults = int(0)
    turn = int(0)
    inverse_rest2 = 1.0 / rest2
    spacing_limit = wp.static(2.0 * SPACING_TOLERANCE) * rest2
    i = int(lane)
    while i < count:
        at = i + wp.static(HALO)
        px = x[at]
        py = y[at]
        p1x = x[at - 1]
        p1y = y[at - 1]
        n1x = x[at + 1]
        n1y = y[at + 1]
        p2x = x[at - 2]
        p2y = y[at - 2]
        n2x = x[at + 2]
        n2y = y[at + 2]
        dnx = n1x - px
        dny = n1y - py
        dpx = px - p1x
        dpy = py - p1y
        l2 = dnx * dnx + dny * dny
        m2 = dpx * dpx + dpy * dpy
        ln = wp.static(SPACING_WEIGHT) * (l2 - rest2) / (l2 + rest2)
        lp = wp.static(SPACING_WEIGHT) * (m2 - rest2) / (m2 + rest2)
        cx = move_x[i] + dnx * ln - dpx * lp
        cy = move_y[i] + dny * ln - dpy * lp
        cx += wp.static(FOURTH_1) * (4.0 * (p1x + n1x) - p2x - n2x - 6.0 * px)
        cy += wp.static(FOURTH_1) * (4.0 * (p1y + n1y) - p2y - n2y - 6.0 * py)
        cx += wp.static(FOURTH_2) * (4.0 * (p2x + n2x) - x[at - 4] - x[at + 4] - 6.0 * px)
        cy += wp.static(FOURTH_2) * (4.0 * (p2y + n2y) - y[at - 4] - y[at + 4] - 6.0 * py)
        sum_x = float(0.0)
        sum_y = float(0.0)
        active = float(0.0)
        for k in range(wp.static(len(STRIDES))):
            bound2 = bounds[k]
            for side in range(2):
                offset = wp.static(STRIDES)[k] * (1 - 2 * side)
                dx = px - x[at + offset]
                dy = py - y[at + offset]
                share = _lack(dx, dy, bound2)
                sum_x += dx * share
                sum_y += dy * share
                active += wp.where(share > 0.0, 1.0, 0.0)
        mean = 1.0 / wp.max(active, 1.0)
        cx += sum_x * mean
        cy += sum_y * mean
        c2 = cx * cx + cy * cy
        if c2 > wp.static(MAX_STEP * MAX_STEP):
            shorten = wp.static(MAX_STEP) / wp.sqrt(c2)
            cx *= shorten
            cy *= shorten
        move_x[i] = cx
        move_y[i] = cy

        # The border runs backwards where the unit normal turns by more than edge / half width.
        ax = n1x - p1x
        ay = n1y - p1y
        bx = n2x - px
        by = n2y - py
        ab = wp.sqrt((ax * ax + ay * ay) * (bx * bx + by * by))
        margin = 2.0 * (ab - (ax * bx + ay * by)) - l2 * ab * inverse_radius2
        faults += wp.where(margin > 0.0, 1, 0)
        faults += wp.where(wp.abs(l2 - rest2) > spacing_limit, 1, 0)
        bend = (wp.sqrt(l2 * m2) - (dnx * dpx + dny * dpy)) * inverse_rest2
        turn += int(wp.min(bend, 2.0) * wp.static(TURN_ONE))
        i += wp.block_dim()
    return wp.vec2i(faults, turn)


@wp.func
def advance(
    now: wp.array[wp.float32],
    move: wp.array[wp.float32],
    lane: int,
    count: int,
    momentum: float,
    damping: float,
    previous: wp.array[wp.float32],
):
    """Replace one coordinate of the previous iterate by the next; both factors 1: plain Jacobi."""
    i = int(lane)
    while i < count:
        old = previous[i + wp.static(HALO)]
        step = now[i + wp.static(HALO)] - old + damping * move[i]
        previous[i + wp.static(HALO)] = momentum * step + old
        i += wp.block_dim()


@wp.func
def smooth(
    now: wp.array[wp.float32],
    lane: int,
    count: int,
    weight: float,
    following: wp.array[wp.float32],
):
    """One half step of one coordinate."""
    i = int(lane)
    while i < count:
        at = i + wp.static(HALO)
        p = now[at]
        following[at] = p + weight * (now[at - 1] + now[at + 1] - 2.0 * p)
        i += wp.block_dim()
