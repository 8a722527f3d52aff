"""Self-repulsion of a closed curve: energy, gradient, metric and even spacing, as ``@wp.func``.

The tangent-point energy sums ``|d x T_i|**3 / |d|**6 * w_i * w_j`` over all ordered pairs of
points, ``d`` from point i to j, ``T`` the unit tangents, ``w`` the lumped edge lengths;
wall and discs add ``w_i`` times an analytic density. :mod:`track_gen.generators.growth` descends
it.

Everything of one env is a row of floats with its parts at fixed places, so that the row loops can
read the same memory as blocks of eight.
"""

from __future__ import annotations

import math

import numpy as np
import warp as wp

from track_gen.block import block_prefix_sum, block_sync
from track_gen.geometry import hermite
from track_gen.polyline import arc_segment, next_index, previous_index

__all__ = [
    "POINTS",
    "convolve_row",
    "measure",
    "metric_tables",
    "point_of",
    "respace",
    "subdivided",
    "vec8",
    "write_forces",
    "write_gradients",
    "write_kernel",
    "write_point",
    "write_tangents",
]

wp.set_module_options({"enable_backward": False})

vec8 = wp.types.vector(length=8, dtype=wp.float32)
"""Eight neighbouring values of a row: the row loops carry eight independent sums."""

POINTS = 256
"""Most points while growing, and the floats of a part of the row."""
TABLE = 768
"""Entries of the tables; a multiple of every number of points in use."""
WALL = 22.0
"""Strength of the wall."""
DISC = 15.0
"""Strength of a disc per radius."""

# Parts of the row, 256 floats each. The arc lengths of the spacing share one with the edge weights
# and with the partial sums: one is dead where another lives. It comes first, where
# block_prefix_sum and arc_segment can reach it.
W, X, Y, TX, TY = (POINTS * part for part in range(5))
GX, GY, UX, UY, GW = (POINTS * part for part in range(5, 10))
PX, PY, YX, YY = (POINTS * part for part in range(10, 14))
DISCS = POINTS * 14
"""Where the discs lie: x, y and radius of each."""
SUMS = 64
"""Distance of the partial sums in part W."""


def metric_tables() -> np.ndarray:
    """cos(2 pi t / 768) and sin(pi t / 768)**2, made in float64, shape [2, 768]."""
    t = np.arange(TABLE) / TABLE
    return np.stack([np.cos(2.0 * np.pi * t), np.sin(np.pi * t) ** 2]).astype(np.float32)


@wp.func
def total(v: vec8) -> float:
    """Sum of eight values in a fixed order."""
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]))


@wp.func
def point_of(row: wp.array[wp.float32], base: int, i: int) -> wp.vec2f:
    """Point ``i`` of a pair of rows."""
    return wp.vec2f(row[base + i], row[base + wp.static(POINTS) + i])


@wp.func
def write_point(row: wp.array[wp.float32], base: int, i: int, p: wp.vec2f):
    """Write point ``i`` of a pair of rows."""
    row[base + i] = p[0]
    row[base + wp.static(POINTS) + i] = p[1]


@wp.func
def write_tangents(row: wp.array[wp.float32], count: int, lane: int):
    """Unit tangents and edge weights of all points; the caller puts barriers around it."""
    for i in range(lane, count, wp.block_dim()):
        here = point_of(row, X, i)
        after = point_of(row, X, next_index(i, count))
        before = point_of(row, X, previous_index(i, count))
        write_point(row, TX, i, wp.normalize(after - before))
        row[W + i] = 0.5 * (wp.length(after - here) + wp.length(here - before))


@wp.func
def repel_row(blocks: wp.array[vec8], here: wp.vec2f, tangent: wp.vec2f, count: int):
    """One row of the tangent-point energy against all points, itself (which adds 0) included.

    Returns:
        Sums over the other points: position gradient (2), tangent gradient (2), energy density; and
        the largest inverse tangent-point diameter.
    """
    xi = here[0]
    yi = here[1]
    txi = tangent[0]
    tyi = tangent[1]
    gx = vec8()
    gy = vec8()
    hx = vec8()
    hy = vec8()
    energy = vec8()
    inverse = vec8()
    for b in range(count // 8):
        x = blocks[wp.static(X // 8) + b]
        y = blocks[wp.static(Y // 8) + b]
        tx = blocks[wp.static(TX // 8) + b]
        ty = blocks[wp.static(TY // 8) + b]
        w = blocks[wp.static(W // 8) + b]
        for k in range(wp.static(8)):
            dx = x[k] - xi
            dy = y[k] - yi
            q = 1.0 / (dx * dx + dy * dy + 1.0e-9)
            ci = dx * tyi - dy * txi
            cj = dx * ty[k] - dy * tx[k]
            ai = wp.abs(ci)
            aj = wp.abs(cj)
            weight = w[k] * q * q * q
            pi = ai * ci * weight
            pj = aj * cj * weight
            f = (ai * ai * ai + aj * aj * aj) * weight
            s = 2.0 * f * q
            gx[k] += s * dx - pi * tyi - pj * ty[k]
            gy[k] += s * dy + pi * txi + pj * tx[k]
            hx[k] -= pi * dy
            hy[k] += pi * dx
            energy[k] += f
            inverse[k] = wp.max(inverse[k], wp.max(ai, aj) * q)
    largest = wp.max(
        wp.max(wp.max(inverse[0], inverse[1]), wp.max(inverse[2], inverse[3])),
        wp.max(wp.max(inverse[4], inverse[5]), wp.max(inverse[6], inverse[7])),
    )
    return total(gx), total(gy), total(hx), total(hy), total(energy), largest


@wp.func
def write_forces(
    row: wp.array[wp.float32],
    blocks: wp.array[vec8],
    count: int,
    discs: int,
    axes: wp.vec2f,
    lane: int,
) -> wp.vec2f:
    """Gradient of pairs, wall and discs by point, tangent and weight.

    The caller puts barriers around it.

    Returns:
        Over the rows of this lane, the largest inverse tangent-point diameter and the largest
        radius in the wall's ellipse.
    """
    inverse = float(0.0)
    reach = float(0.0)
    for i in range(lane, count, wp.block_dim()):
        here = point_of(row, X, i)
        tangent = point_of(row, TX, i)
        gx, gy, hx, hy, density, largest = repel_row(blocks, here, tangent, count)
        inverse = wp.max(inverse, largest)
        e = wp.cw_div(here, axes)
        radius = wp.length(e)
        reach = wp.max(reach, radius)
        room = wp.max(1.0 - radius, 0.05)
        density += wp.static(WALL) / (room * room)
        push = (
            wp.static(2.0 * WALL)
            / (room * room * room * wp.max(radius, 1.0e-6))
            * wp.cw_div(e, axes)
        )
        for disc in range(discs):
            k = wp.static(DISCS) + 3 * disc
            away = here - wp.vec2f(row[k], row[k + 1])
            size = row[k + 2]
            u = 1.0 / (wp.dot(away, away) + size * size)
            p = wp.static(DISC) * size * u * wp.sqrt(u)
            density += p
            push -= 3.0 * p * u * away
        weight = row[W + i]
        write_point(row, GX, i, weight * (3.0 * wp.vec2f(gx, gy) + push))
        h = wp.vec2f(hx, hy)
        span = point_of(row, X, next_index(i, count)) - point_of(row, X, previous_index(i, count))
        turn = 3.0 * weight / wp.max(wp.length(span), 1.0e-12)
        write_point(row, UX, i, turn * (h - wp.dot(h, tangent) * tangent))
        row[GW + i] = density
    return wp.vec2f(inverse, reach)


@wp.func
def write_gradients(row: wp.array[wp.float32], count: int, lane: int):
    """Gradient of the energy (P rows) and of the length (Y rows); barriers are the caller's."""
    for i in range(lane, count, wp.block_dim()):
        after = next_index(i, count)
        before = previous_index(i, count)
        here = point_of(row, X, i)
        ahead = wp.normalize(point_of(row, X, after) - here)
        behind = wp.normalize(here - point_of(row, X, before))
        density = row[GW + i]
        p = point_of(row, GX, i) + point_of(row, UX, before) - point_of(row, UX, after)
        p += 0.5 * (row[GW + before] + density) * behind
        p -= 0.5 * (density + row[GW + after]) * ahead
        write_point(row, PX, i, p)
        write_point(row, YX, i, behind - ahead)


@wp.func
def write_kernel(
    row: wp.array[wp.float32],
    kernel: wp.array[wp.float32],
    tables: wp.array2d[wp.float32],
    count: int,
    fold: float,
    lane: int,
):
    """Inverse of the metric as a circulant matrix: its first row in eight shifted copies.

    Mode k has the factor ``1 / (lambda**2 + (fold * count)**4)``, ``lambda`` about k squared; mode
    0 has none. Uses the force rows; begins and ends with a barrier.
    """
    block_sync()
    half = count // 2
    stride = wp.static(TABLE) // count
    scale = float(count) * float(count) * wp.static(1.0 / math.pi**2)
    cut = fold * float(count)
    cut = cut * cut * cut * cut
    for k in range(1 + lane, half + 1, wp.block_dim()):
        mode = scale * tables[1, k * stride]
        factor = 1.0 / (mode * mode + cut)
        if k < half:
            factor = 2.0 * factor
        row[GX + k] = factor
    block_sync()
    for m in range(lane, half + 1, wp.block_dim()):
        step = m * stride
        phase = int(0)
        value = float(0.0)
        for k in range(1, half + 1):
            phase += step
            if phase >= wp.static(TABLE):
                phase -= wp.static(TABLE)
            value += row[GX + k] * tables[0, phase]
        row[UX + m] = value
        if m > 0:
            row[UX + count - m] = value
    block_sync()
    for k in range(lane, 8 * count, wp.block_dim()):
        z = k // count
        t = k - z * count + z
        if t >= count:
            t -= count
        kernel[k] = row[UX + t]
    block_sync()


@wp.func
def convolve_row(
    blocks: wp.array[vec8], kernel_blocks: wp.array[vec8], i: int, count: int
) -> wp.vec4f:
    """Row ``i`` of the circulant matrix times the energy's and the length's gradient."""
    size = count // 8
    shift = (i + 7) // 8
    copy = (8 * shift - i) * size
    px = vec8()
    py = vec8()
    yx = vec8()
    yy = vec8()
    for b in range(size):
        at = b - shift
        if at < 0:
            at += size
        k = kernel_blocks[copy + at]
        ax = blocks[wp.static(PX // 8) + b]
        ay = blocks[wp.static(PY // 8) + b]
        bx = blocks[wp.static(YX // 8) + b]
        by = blocks[wp.static(YY // 8) + b]
        for j in range(wp.static(8)):
            px[j] += k[j] * ax[j]
            py[j] += k[j] * ay[j]
            yx[j] += k[j] * bx[j]
            yy[j] += k[j] * by[j]
    return wp.vec4f(total(px), total(py), total(yx), total(yy))


@wp.func
def measure(row: wp.array[wp.float32], count: int, lane: int) -> wp.vec3f:
    """Mean point and perimeter; sums go by chunks of eight. Needs a barrier before and after."""
    for chunk in range(lane, count // 8, wp.block_dim()):
        middle = wp.vec2f()
        perimeter = float(0.0)
        for i in range(8 * chunk, 8 * chunk + 8):
            here = point_of(row, X, i)
            middle += here
            perimeter += wp.length(point_of(row, X, next_index(i, count)) - here)
        row[W + chunk] = middle[0]
        row[wp.static(W + SUMS) + chunk] = middle[1]
        row[wp.static(W + 2 * SUMS) + chunk] = perimeter
    block_sync()
    sums = wp.vec3f()
    for chunk in range(count // 8):
        sums += wp.vec3f(
            row[W + chunk],
            row[wp.static(W + SUMS) + chunk],
            row[wp.static(W + 2 * SUMS) + chunk],
        )
    return wp.vec3f(sums[0] / float(count), sums[1] / float(count), sums[2])


@wp.func
def subdivided(row: wp.array[wp.float32], base: int, stride: int, j: int, count: int) -> wp.vec2f:
    """Point ``j`` of the curve with twice the points (Deslauriers-Dubuc, six points)."""
    i = j // 2
    x0 = wp.vec2f(row[base + i], row[base + stride + i])
    if 2 * i == j:
        return x0
    b1 = previous_index(i, count)
    b2 = previous_index(b1, count)
    a1 = next_index(i, count)
    a2 = next_index(a1, count)
    a3 = next_index(a2, count)
    return (
        150.0 * (x0 + wp.vec2f(row[base + a1], row[base + stride + a1]))
        - 25.0
        * (
            wp.vec2f(row[base + b1], row[base + stride + b1])
            + wp.vec2f(row[base + a2], row[base + stride + a2])
        )
        + 3.0
        * (
            wp.vec2f(row[base + b2], row[base + stride + b2])
            + wp.vec2f(row[base + a3], row[base + stride + a3])
        )
    ) * wp.static(1.0 / 256.0)


@wp.func
def respace(
    state: wp.array2d[wp.float32],
    offsets: wp.array2d[wp.float32],
    env: int,
    lane: int,
    count: int,
    wanted: int,
    last: bool,
):
    """Space the points evenly along the chords, ``wanted`` of them; starts and ends with a barrier.

    Cubic Hermite with three-point, chord-weighted tangents. For the last stage the spline gives the
    power of two at or above ``count``, and subdivision the rest up to 256.
    """
    row = state[env]
    goal = int(wanted)
    if last:
        goal = int(32)
        while goal < count:
            goal *= 2
    block_sync()
    for i in range(lane, count, wp.block_dim()):
        here = point_of(row, X, i)
        after = point_of(row, X, next_index(i, count))
        before = point_of(row, X, previous_index(i, count))
        ahead = after - here
        behind = here - before
        a = wp.max(wp.length(ahead), 1.0e-12)
        b = wp.max(wp.length(behind), 1.0e-12)
        write_point(row, TX, i, (b / a * ahead + a / b * behind) / (a + b))
        row[W + i] = wp.length(ahead)
    block_sync()
    block_prefix_sum(state, offsets, env, lane, count)
    step = row[W + count - 1] / float(goal)
    for j in range(lane, goal, wp.block_dim()):
        arc = float(j) * step
        edge = arc_segment(state, env, count, arc)
        start = float(0.0)
        if edge > 0:
            start = row[W + edge - 1]
        span = wp.max(row[W + edge] - start, 1.0e-12)
        end = next_index(edge, count)
        m0 = span * point_of(row, TX, edge)
        m1 = span * point_of(row, TX, end)
        p = hermite(
            point_of(row, X, edge),
            point_of(row, X, end),
            wp.vec4f(m0[0], m0[1], m1[0], m1[1]),
            wp.clamp((arc - start) / span, 0.0, 1.0),
        )
        write_point(row, PX, j, p)
    block_sync()
    for j in range(lane, goal, wp.block_dim()):
        write_point(row, X, j, point_of(row, PX, j))
    block_sync()
    if last:
        while goal < wp.static(POINTS):
            for j in range(lane, 2 * goal, wp.block_dim()):
                write_point(row, PX, j, subdivided(row, X, POINTS, j, goal))
            block_sync()
            goal *= 2
            for j in range(lane, goal, wp.block_dim()):
                write_point(row, X, j, point_of(row, PX, j))
            block_sync()
