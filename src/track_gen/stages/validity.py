"""Validity: judge the published road, not samples of it.

Every length is relative to the half width and every coordinate is used as a difference to a near
point, so the result does not depend on scale or position. Nothing assumes a ratio of spacing
to half width, and no pair of edges is exempt because its indices are close: hairpins are legal by
construction, not by a window.

Sums over points are fixed-point integers, so they do not depend on the order of the lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import warp as wp

from track_gen.block import block_lane, block_launch, block_max, block_vote
from track_gen.checks import check_float
from track_gen.geometry import (
    cross,
    left_of,
    point_segment_distance_squared,
    segment_distance_squared,
    segments_meet,
    turn_angle,
)
from track_gen.polyline import (
    next_index,
    planar,
    previous_index,
    to_turn_units,
    turn_from_units,
    walk_step,
)
from track_gen.status import TrackStatus

__all__ = ["ValidityConfig", "check_validity"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

MIN_COUNT = 6
"""Fewer points than this do not make a road."""

_PI = 3.141592653589793
_UNITS = 65536.0
_MAX_EDGE = 8.0
_MAX_QUAD = 7.0
_TURNING = int(TrackStatus.TURNING)
_NONFINITE = int(TrackStatus.NONFINITE)
_CURVATURE = int(TrackStatus.CURVATURE)
_SEPARATION = int(TrackStatus.SEPARATION)
_BORDER = int(TrackStatus.BORDER)
_GRADE = int(TrackStatus.GRADE)
_OVERFLOW = int(TrackStatus.OVERFLOW)
_PARAMETER = int(TrackStatus.PARAMETER)
_TOO_SHORT = int(TrackStatus.TOO_SHORT)
_LOOK_CLOSER = 1 << 20
"""Flag of this kernel alone: the road is near its limits, so measure it between all pairs."""


@dataclass(frozen=True, kw_only=True)
class ValidityConfig:
    """Tolerances of the validity gate, all relative to the half width or the area asked for."""

    width_tolerance: float = 0.02
    """Share of the half width by which the road may be too narrow or a border too tight."""
    area_tolerance: float = 0.02
    """Relative error allowed in the area of the road."""
    area_tolerance_spacing: float = 0.05
    """More of it per (spacing / half_width)^2: the normal at a vertex halves the turn, which
    narrows a polygonal road by that order although nothing is wrong."""
    turning_tolerance: float = 0.25
    """Distance allowed between the number of turns of the centreline and 1."""

    def __post_init__(self) -> None:
        for name, high in (
            ("width_tolerance", 0.5),
            ("area_tolerance", 0.5),
            ("area_tolerance_spacing", 1.0),
            ("turning_tolerance", 0.5),
        ):
            check_float(f"TrackGenConfig.validity_{name}", getattr(self, name), 0.0, high)


@wp.func
def _units(value: float, limit: float) -> int:
    """Fixed-point integer of ``value`` clamped to +-``limit``."""
    return int(wp.round(wp.clamp(value, -limit, limit) * wp.static(_UNITS)))


@wp.func
def _finite(p: wp.vec3f) -> bool:
    return wp.isfinite(p[0]) and wp.isfinite(p[1]) and wp.isfinite(p[2])


@wp.func
def _steep(a: wp.vec3f, b: wp.vec3f, max_grade: float, rounding: float) -> bool:
    """Whether the edge ``a .. b`` rises more than ``max_grade`` times its plan length."""
    edge = planar(b) - planar(a)
    rise = wp.abs(b[2] - a[2]) - rounding - 4.8e-7 * wp.abs(a[2])
    return rise > 0.0 and rise * rise > max_grade * max_grade * wp.dot(edge, edge)


@wp.func
def _width_squared(c0: wp.vec2f, c1: wp.vec2f, b0: wp.vec2f, b1: wp.vec2f) -> float:
    """Squared distance between a centreline edge and the border edge beside it."""
    u = c1 - c0
    v = b1 - b0
    return wp.min(
        wp.min(
            point_segment_distance_squared(b0, c0, u), point_segment_distance_squared(b1, c0, u)
        ),
        wp.min(
            point_segment_distance_squared(c0, b0, v), point_segment_distance_squared(c1, b0, v)
        ),
    )


@wp.func
def _borders_meet(
    o0: wp.vec2f,
    o1: wp.vec2f,
    n0: wp.vec2f,
    n1: wp.vec2f,
    p0: wp.vec2f,
    p1: wp.vec2f,
    q0: wp.vec2f,
    q1: wp.vec2f,
    adjacent: bool,
    tolerance: float,
    rounding: float,
) -> bool:
    """Whether border edges of road piece (``o``, ``n``) touch those of (``p``, ``q``).

    ``tolerance`` [length squared] is that of :func:`segments_meet`; ``rounding`` [length] is the
    uncertainty of a coordinate, which matters in proportion to the edges.
    """
    ou = o1 - o0
    nu = n1 - n0
    pu = p1 - p0
    qu = q1 - q0
    size = wp.max(wp.dot(ou, ou) + wp.dot(nu, nu), wp.dot(pu, pu) + wp.dot(qu, qu))
    slack = tolerance + rounding * wp.sqrt(size)
    if segments_meet(o0, ou, q0, qu, slack) or segments_meet(n0, nu, p0, pu, slack):
        return True
    if adjacent:
        return False
    return segments_meet(o0, ou, p0, pu, slack) or segments_meet(n0, nu, q0, qu, slack)


@wp.kernel
def check_validity_kernel(
    # In:
    center_in: wp.array2d[wp.vec3f],
    outer_in: wp.array2d[wp.vec3f],
    inner_in: wp.array2d[wp.vec3f],
    count_in: wp.array[wp.int32],
    half_width_in: wp.array[wp.float32],
    N_max: int,
    attempt: int,
    width_tolerance: float,
    area_tolerance: float,
    area_tolerance_spacing: float,
    turning_tolerance: float,
    max_grade: float,
    # In and out:
    pending: wp.array[wp.bool],
    status: wp.array[wp.int32],
    # Out:
    valid_out: wp.array[wp.bool],
    attempts_out: wp.array[wp.int32],
):
    """Judge the road of every pending env. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending[env]:
        return
    n = count_in[env]
    half_width = half_width_in[env]
    flags = status[env]

    # Road that cannot be read at all. Nothing below this block runs for it.
    if flags == 0:
        if n > N_max:
            flags = wp.static(_OVERFLOW)
        elif n <= 0:
            flags = wp.static(_NONFINITE)
        elif n < wp.static(MIN_COUNT):
            flags = wp.static(_TOO_SHORT)
        elif not (half_width > 0.0 and wp.isfinite(half_width)):
            flags = wp.static(_PARAMETER)
    readable = flags == 0

    turn_sum = int(0)
    edge_sum = int(0)
    longest = float(0.0)
    extent = float(0.0)
    if readable:
        for i in range(lane, n, wp.block_dim()):
            center = center_in[env, i]
            if not (_finite(center) and _finite(outer_in[env, i]) and _finite(inner_in[env, i])):
                flags |= wp.static(_NONFINITE)
            p = planar(center)
            incoming = p - planar(center_in[env, previous_index(i, n)])
            outgoing = planar(center_in[env, next_index(i, n)]) - p
            edge = wp.length(outgoing)
            if not edge < wp.static(_MAX_EDGE) * half_width:
                flags |= wp.static(_BORDER)
            if flags == 0:
                turn_sum += to_turn_units(turn_angle(incoming, outgoing))
                edge_sum += _units(edge / half_width, wp.static(_MAX_EDGE))
                longest = wp.max(longest, edge)
                extent = wp.max(extent, wp.max(wp.abs(p[0]), wp.abs(p[1])))
        vote = block_vote(flags, turn_sum, 0)
        flags = vote[0]
        turn_sum = vote[1]
        edge_sum = block_vote(0, edge_sum, 1)[1]
        longest = block_max(longest)
        extent = block_max(extent) + half_width
        readable = flags == 0 and edge_sum > 0

    if readable:
        length = float(edge_sum) * wp.static(1.0 / _UNITS) * half_width
        spacing = length / float(n)
        winding = float(1.0)
        if turn_sum < 0:
            winding = -1.0
        turns = wp.abs(turn_from_units(turn_sum)) * wp.static(0.5 / _PI)
        if wp.abs(turns - 1.0) > turning_tolerance:
            flags |= wp.static(_TURNING)

        # Borders where they must be, never backwards, with the area of the road between them.
        quad_sum = int(0)
        outer_sum = int(0)
        inner_sum = int(0)
        quad_unit = 1.0 / (2.0 * half_width * spacing)
        # Terms of a border's area stay below this bound in units of half_width * spacing, and the
        # fixed point is chosen so that n of them cannot overflow.
        bound = (0.5 * length / half_width + 2.0) * (longest / spacing) * 1.5 + 1.0
        area_scale = 5.0e8 / (float(n) * bound)
        area_unit = 0.5 * area_scale / (half_width * spacing)
        outer_origin = planar(outer_in[env, 0])
        inner_origin = planar(inner_in[env, 0])
        slack = width_tolerance * half_width
        # Borders leave a vertex of turn t along its normal: beside its edges the road is
        # half_width * cos(t / 2) wide, which is legal as far as t <= spacing / radius. Past a kink
        # the next edges can be nearer still: a road near its limits is looked at more closely.
        ratio = spacing / half_width
        kept = 1.0 - width_tolerance
        narrowest = half_width * wp.max(kept + 1.0e-4 - 0.125 * ratio * ratio / (kept * kept), 0.0)
        narrow_suspect = narrowest + 0.01 * half_width
        for i in range(lane, n, wp.block_dim()):
            j = next_index(i, n)
            c0 = planar(center_in[env, i])
            c1 = planar(center_in[env, j])
            o0 = planar(outer_in[env, i])
            o1 = planar(outer_in[env, j])
            n0 = planar(inner_in[env, i])
            n1 = planar(inner_in[env, j])
            normal = left_of(wp.normalize(c1 - planar(center_in[env, previous_index(i, n)])))
            offset = (-winding * half_width) * normal
            if wp.length(o0 - c0 - offset) > slack or wp.length(n0 - c0 + offset) > slack:
                flags |= wp.static(_BORDER)

            if max_grade < wp.inf:
                rounding = 1.0e-6 * max_grade * length
                if (
                    _steep(center_in[env, i], center_in[env, j], max_grade, rounding)
                    or _steep(outer_in[env, i], outer_in[env, j], max_grade, rounding)
                    or _steep(inner_in[env, i], inner_in[env, j], max_grade, rounding)
                ):
                    flags |= wp.static(_GRADE)

            change = 0.5 * ((o1 - n1) - (o0 - n0))
            bend = wp.length(change)
            edge = wp.length(c1 - c0)
            width = wp.min(_width_squared(c0, c1, o0, o1), _width_squared(c0, c1, n0, n1))
            if kept * bend > edge or width < narrowest * narrowest:
                flags |= wp.static(_CURVATURE)
            if bend > 0.97 * edge or width < narrow_suspect * narrow_suspect:
                flags |= wp.static(_LOOK_CLOSER)

            quad = winding * quad_unit * 0.5 * cross(o1 - n0, n1 - o0)
            if wp.abs(quad) > wp.static(_MAX_QUAD):
                flags |= wp.static(_BORDER)
            quad_sum += _units(quad, wp.static(_MAX_QUAD))

            outer_term = winding * area_unit * cross(o0 - outer_origin, o1 - o0)
            inner_term = winding * area_unit * cross(n0 - inner_origin, n1 - n0)
            limit = bound * area_scale
            outer_sum += int(wp.round(wp.clamp(outer_term, -limit, limit)))
            inner_sum += int(wp.round(wp.clamp(inner_term, -limit, limit)))
        vote = block_vote(flags, quad_sum, 0)
        look_closer = (vote[0] & wp.static(_LOOK_CLOSER)) != 0
        flags = vote[0] & wp.static(_LOOK_CLOSER - 1)
        quad_sum = vote[1]
        outer_sum = block_vote(0, outer_sum, 1)[1]
        inner_sum = block_vote(0, inner_sum, 0)[1]

        allowed = area_tolerance + area_tolerance_spacing * ratio * ratio
        area = float(quad_sum) * wp.static(1.0 / _UNITS) / float(n)
        # A border that is inverted as a whole is simple, and its area can fit: the sign tells.
        least = 1.0e-4 * float(n) * area_scale
        if (
            not wp.abs(area - 1.0) <= allowed
            or float(outer_sum) < least
            or float(inner_sum) < least
        ):
            flags |= wp.static(_BORDER)

        # Pairs of road pieces whose borders could touch: all border edges lie within
        # half_width + longest / 2 of the middle of their centreline edge.
        reach = (2.0 * half_width * (1.0 + width_tolerance) + longest) * 1.00001
        clearance = 2.0 * half_width * (1.0 - width_tolerance)
        # "Almost touching" counts as touching: by rounding of the half width, and by 4 units in the
        # last place of the coordinates on thin roads.
        tolerance = 3.0e-7 * half_width * (half_width + longest)
        rounding = 4.8e-7 * extent
        margin = 2.0e-3 * half_width * half_width
        for i in range(lane, n, wp.block_dim()):
            i1 = next_index(i, n)
            c0 = planar(center_in[env, i])
            c1 = planar(center_in[env, i1])
            o0 = planar(outer_in[env, i])
            o1 = planar(outer_in[env, i1])
            n0 = planar(inner_in[env, i])
            n1 = planar(inner_in[env, i1])
            middle = 0.5 * (c0 + c1)
            # The cross section at point i1 separates this piece from most of its neighbours.
            axis = left_of(o1 - n1)
            if wp.dot(axis, c1 - c0) < 0.0:
                axis = -axis
            behind = wp.dot(axis, o0 - o1) < -margin and wp.dot(axis, n0 - o1) < -margin
            touching = bool(False)
            close = bool(False)
            step = int(1)
            while step <= n // 2:
                j = i + step
                if j >= n:
                    j -= n
                j1 = next_index(j, n)
                e0 = planar(center_in[env, j])
                e1 = planar(center_in[env, j1])
                distance = wp.length(0.5 * (e0 + e1) - middle)
                if distance > reach:
                    step += walk_step(distance, reach, longest)
                else:
                    p0 = planar(outer_in[env, j])
                    p1 = planar(outer_in[env, j1])
                    q0 = planar(inner_in[env, j])
                    q1 = planar(inner_in[env, j1])
                    if not touching:
                        apart = (
                            behind
                            and wp.dot(axis, p1 - o1) > margin
                            and wp.dot(axis, q1 - o1) > margin
                        )
                        if step > 1:
                            apart = (
                                apart
                                and wp.dot(axis, p0 - o1) > margin
                                and wp.dot(axis, q0 - o1) > margin
                            )
                        if not apart:
                            touching = _borders_meet(
                                o0, o1, n0, n1, p0, p1, q0, q1, step == 1, tolerance, rounding
                            )
                    if not close and float(step - 1) * spacing >= wp.static(_PI) * half_width:
                        gap = segment_distance_squared(c0, c1 - c0, e0, e1 - e0)
                        close = gap < clearance * clearance
                    if look_closer:
                        width = wp.min(
                            wp.min(_width_squared(c0, c1, p0, p1), _width_squared(c0, c1, q0, q1)),
                            wp.min(_width_squared(e0, e1, o0, o1), _width_squared(e0, e1, n0, n1)),
                        )
                        if width < narrowest * narrowest:
                            flags |= wp.static(_CURVATURE)
                    step += 1
            if touching:
                flags |= wp.static(_BORDER)
            if close:
                flags |= wp.static(_SEPARATION)
        flags = block_vote(flags, 0, 1)[0]

    if lane == 0:
        status[env] = flags
        valid_out[env] = flags == 0
        attempts_out[env] = attempt + 1
        pending[env] = flags != 0


def check_validity(
    center: wp.array,
    outer: wp.array,
    inner: wp.array,
    count: wp.array,
    half_width: wp.array,
    pending: wp.array,
    status: wp.array,
    valid: wp.array,
    attempts: wp.array,
    attempt: int,
    config: ValidityConfig,
    lanes: int,
    device: wp.Device,
    max_grade: float = math.inf,
) -> wp.Launch:
    """Prepare the launch that judges the published road of every pending env; runs nothing.

    An env whose ``status`` is already set by an earlier stage keeps it and is not measured.

    Args:
        center: Centreline, vec3f, shape [E, N_max]; z, finite, counts for the grade only.
        outer: Border that encloses the other, vec3f, shape [E, N_max].
        inner: The other border, vec3f, shape [E, N_max].
        count: Points, int32, shape [E].
        half_width: Half width asked for [length], float32, shape [E].
        pending: In and out: envs to judge, then those that are still invalid, bool, shape [E].
        status: In and out: reasons found in this attempt (:class:`TrackStatus`), int32, shape [E].
        valid: Output: status == 0, bool, shape [E].
        attempts: Output: attempts used, ``attempt + 1``, int32, shape [E].
        attempt: Attempt, from 0.
        config: Tolerances.
        lanes: Block size.
        device: Device of all arrays.
        max_grade: Largest rise over plan distance of the three lines; infinite for a flat road.
    """
    return block_launch(
        check_validity_kernel,
        center.shape[0],
        lanes,
        inputs=[
            center, outer, inner, count, half_width, center.shape[1], attempt,
            config.width_tolerance, config.area_tolerance, config.area_tolerance_spacing,
            config.turning_tolerance, max_grade, pending, status,
        ],
        outputs=[valid, attempts],
        device=device,
    )  # fmt: skip
