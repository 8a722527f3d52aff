"""Sizes and limits of a gate course as a kernel argument, and the overlap test of two boxes."""

from __future__ import annotations

import math

import warp as wp

__all__ = ["LINE_SAMPLES", "GateRules", "GateSizes", "bounding_box", "boxes_apart", "gate_sizes"]

wp.set_module_options({"enable_backward": False})

LINE_SAMPLES = 32
"""Samples per interval of the flight line; a kernel argument, so that nothing is unrolled."""


@wp.struct
class GateRules:
    """Configuration of a course; a length below zero follows the gate's width.

    ``samples`` per interval of the flight line are what its limits are judged at.
    """

    gate_height: wp.float32
    clearance: wp.float32
    min_gap: wp.float32
    approach: wp.float32
    min_radius: wp.float32
    max_extent: wp.float32
    max_grade: wp.float32
    max_incidence: wp.float32
    lean: wp.float32
    line: wp.int32
    samples: wp.int32
    sense: wp.int32
    tangent: wp.int32


@wp.struct
class GateSizes:
    """Sizes of one env's gates [length] and its largest turn [rad]."""

    half_width: wp.float32
    half_height: wp.float32
    outer: wp.float32
    outer_height: wp.float32
    gap: wp.float32
    approach: wp.float32
    radius: wp.float32
    lean: wp.float32
    max_turn: wp.float32


@wp.func
def _or_else(value: float, default: float) -> float:
    if value < 0.0:
        return default
    return value


@wp.func
def gate_sizes(rules: GateRules, knobs: wp.array2d[wp.float32], env: int) -> GateSizes:
    """Sizes that follow from the width of the opening, and the largest turn: columns 0 and 2.

    ``outer`` and ``outer_height`` are half the outer rectangle, the opening with its clearance;
    ``gap`` is the least distance of two gates; ``approach`` half the depth of the corridor that
    other gates keep free; ``lean`` how far a gate that dives or climbs reaches in plan.
    """
    width = knobs[env, 0]
    clearance = _or_else(rules.clearance, 0.5 * width)
    sizes = GateSizes()
    sizes.half_width = 0.5 * width
    sizes.half_height = 0.5 * _or_else(rules.gate_height, width)
    sizes.outer = sizes.half_width + clearance
    sizes.outer_height = sizes.half_height + clearance
    sizes.gap = wp.max(width + 2.0 * clearance, rules.min_gap)
    sizes.approach = _or_else(rules.approach, width)
    sizes.radius = _or_else(rules.min_radius, 0.75 * width)
    sizes.lean = rules.lean * sizes.outer_height
    sizes.max_turn = knobs[env, 2] * wp.static(math.pi / 180.0)
    return sizes


@wp.func
def _apart_along(
    axis: wp.vec3f,
    between: wp.vec3f,
    f0: wp.vec3f,
    l0: wp.vec3f,
    u0: wp.vec3f,
    size0: wp.vec3f,
    f1: wp.vec3f,
    l1: wp.vec3f,
    u1: wp.vec3f,
    size1: wp.vec3f,
    tolerance: float,
) -> bool:
    """Whether the boxes' shadows on an axis overlap by at most ``tolerance``."""
    length = wp.length(axis)
    if length < 1.0e-6:
        return False
    shadow = (
        size0[0] * wp.abs(wp.dot(axis, f0))
        + size0[1] * wp.abs(wp.dot(axis, l0))
        + size0[2] * wp.abs(wp.dot(axis, u0))
        + size1[0] * wp.abs(wp.dot(axis, f1))
        + size1[1] * wp.abs(wp.dot(axis, l1))
        + size1[2] * wp.abs(wp.dot(axis, u1))
    )
    return shadow - wp.abs(wp.dot(axis, between)) <= tolerance * length


@wp.func
def boxes_apart(
    between: wp.vec3f,
    f0: wp.vec3f,
    l0: wp.vec3f,
    size0: wp.vec3f,
    f1: wp.vec3f,
    l1: wp.vec3f,
    size1: wp.vec3f,
    tolerance: float,
) -> bool:
    """Whether two boxes overlap by at most ``tolerance``: the separating axis test on 15 axes.

    S. Gottschalk, M. C. Lin, D. Manocha: OBBTree: a hierarchical structure for rapid interference
    detection (SIGGRAPH 1996).

    Args:
        between: Vector from the centre of the first box to that of the second.
        f0: Unit forward axis of the first box.
        l0: Unit left axis of the first box.
        size0: Half sizes of the first box along forward, left, up; one may be 0.
        f1: Unit forward axis of the second box.
        l1: Unit left axis of the second box.
        size1: Half sizes of the second box.
        tolerance: Overlap that still counts as touching [length].
    """
    u0 = wp.cross(f0, l0)
    u1 = wp.cross(f1, l1)
    if _apart_along(f0, between, f0, l0, u0, size0, f1, l1, u1, size1, tolerance):
        return True
    if _apart_along(l0, between, f0, l0, u0, size0, f1, l1, u1, size1, tolerance):
        return True
    if _apart_along(f1, between, f0, l0, u0, size0, f1, l1, u1, size1, tolerance):
        return True
    if _apart_along(l1, between, f0, l0, u0, size0, f1, l1, u1, size1, tolerance):
        return True
    if _apart_along(u0, between, f0, l0, u0, size0, f1, l1, u1, size1, tolerance):
        return True
    if _apart_along(u1, between, f0, l0, u0, size0, f1, l1, u1, size1, tolerance):
        return True
    # The nine edge pairs, one of the first box with all three of the second per round.
    edge = f0
    for k in range(3):
        for m in range(3):
            other = f1
            if m == 1:
                other = l1
            if m == 2:
                other = u1
            if _apart_along(
                wp.cross(edge, other),
                between,
                f0,
                l0,
                u0,
                size0,
                f1,
                l1,
                u1,
                size1,
                tolerance,
            ):
                return True
        if k == 0:
            edge = l0
        else:
            edge = u0
    return False


@wp.func
def bounding_box(points: wp.array2d[wp.vec2f], env: int, count: int) -> wp.vec4f:
    """Bounding box (low x, low y, high x, high y), on every lane."""
    low = points[env, 0]
    high = low
    for i in range(1, count):
        low = wp.min(low, points[env, i])
        high = wp.max(high, points[env, i])
    return wp.vec4f(low[0], low[1], high[0], high[1])
