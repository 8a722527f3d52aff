"""The verdict on a gate course: tests of the published arrays that scale with the gates."""

from __future__ import annotations

import math

import warp as wp

from track_gen.block import block_lane, block_launch, block_vote
from track_gen.flight_line import (
    gate_heights,
    gate_interval,
    height_slope,
    interval_curvature,
    interval_height,
    interval_point,
    interval_reach,
    write_gate_lines,
)
from track_gen.gate_rules import GateRules, GateSizes, boxes_apart, gate_sizes
from track_gen.geometry import cross, turn_angle
from track_gen.polyline import next_index, planar, previous_index
from track_gen.status import GateStatus

__all__ = ["judge_gates"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

_TWO_PI = 2.0 * math.pi
_FIXED = int(GateStatus.PARAMETER)


@wp.func
def _pair_flags(
    position: wp.array2d[wp.vec3f],
    tangent: wp.array2d[wp.vec3f],
    normal: wp.array2d[wp.vec3f],
    sizes: GateSizes,
    env: int,
    i: int,
    j: int,
) -> int:
    """Reasons of an ordered pair: spacing, overlap, frame ``j`` in the approach of gate ``i``."""
    flags = int(0)
    between = position[env, j] - position[env, i]
    distance = wp.length(between)
    outer = wp.vec3f(0.0, sizes.outer, sizes.outer_height)
    corridor = wp.vec3f(sizes.approach, sizes.half_width, sizes.half_height)
    tolerance = 2.0e-5 * sizes.half_width
    if i < j:
        if distance < wp.static(1.0 - 1.0e-5) * sizes.gap:
            flags |= wp.static(int(GateStatus.SPACING))
        if distance < 2.0 * wp.length(outer):
            if not boxes_apart(
                between,
                tangent[env, i],
                normal[env, i],
                outer,
                tangent[env, j],
                normal[env, j],
                outer,
                tolerance,
            ):
                flags |= wp.static(int(GateStatus.OVERLAP))
    if distance < wp.length(outer) + wp.length(corridor):
        if not boxes_apart(
            between,
            tangent[env, i],
            normal[env, i],
            corridor,
            tangent[env, j],
            normal[env, j],
            outer,
            tolerance,
        ):
            flags |= wp.static(int(GateStatus.APPROACH))
    return flags


@wp.func
def _line_flags(
    position: wp.array2d[wp.vec3f],
    lines: wp.array2d[wp.vec4f],
    forward: wp.vec3f,
    left: wp.vec3f,
    rules: GateRules,
    outer: float,
    outer_height: float,
    env: int,
    i: int,
    gate: int,
    count: int,
) -> int:
    """Reasons of flying the interval that starts at gate ``i`` past or through gate ``gate``."""
    center = position[env, gate]
    interval = gate_interval(position, lines, env, i, count, rules.line)
    j = next_index(i, count)
    chord = planar(position[env, j]) - interval.start
    away = planar(center) - interval.start - 0.5 * chord
    leads_here = j == gate
    reach = interval_reach(interval, chord) + 2.0 * (outer + outer_height)
    if wp.dot(away, away) > reach * reach:
        return 0
    height = gate_heights(interval, position, lines, env, i, count)
    up = wp.cross(forward, left)
    flags = int(0)
    passed = bool(False)
    step = 1.0 / float(rules.samples)
    a = position[env, i] - center
    ax = wp.dot(forward, a)
    if gate == i:
        ax = 0.0
    for k in range(1, rules.samples + 1):
        u = float(k) * step
        p = interval_point(interval, u)
        b = wp.vec3f(p[0], p[1], interval_height(height, u)) - center
        bx = wp.dot(forward, b)
        own = leads_here and k == rules.samples
        if own:
            bx = 0.0
            passed = ax < 0.0
        elif (ax < 0.0 and bx >= 0.0) or (ax >= 0.0 and bx < 0.0):
            alpha = ax / (ax - bx)
            at = a + alpha * (b - a)
            y = wp.abs(wp.dot(left, at))
            z = wp.abs(wp.dot(up, at))
            if y <= outer and z <= outer_height:
                flags |= wp.static(int(GateStatus.LINE))
            elif leads_here and ax < 0.0 and y <= 2.0 * outer and z <= 2.0 * outer_height:
                flags |= wp.static(int(GateStatus.MISS))
        a = b
        ax = bx
    if leads_here and not passed:
        flags |= wp.static(int(GateStatus.LINE))
    return flags


@wp.func
def _gate_flags(
    position: wp.array2d[wp.vec3f],
    tangent: wp.array2d[wp.vec3f],
    normal: wp.array2d[wp.vec3f],
    left: wp.array2d[wp.vec3f],
    right: wp.array2d[wp.vec3f],
    orientation: wp.array2d[wp.quatf],
    lines: wp.array2d[wp.vec4f],
    rules: GateRules,
    radius: float,
    max_turn: float,
    env: int,
    i: int,
    count: int,
) -> int:
    """Reasons of one gate and of the interval that starts there."""
    flags = int(0)
    here = position[env, i]
    forward = tangent[env, i]
    q = orientation[env, i]
    total = here + forward + normal[env, i] + left[env, i] + right[env, i]
    if not wp.isfinite(total[0] + total[1] + total[2] + q[0] + q[1] + q[2] + q[3]):
        flags |= wp.static(int(GateStatus.NONFINITE))
    leave = position[env, next_index(i, count)] - here
    enter = here - position[env, previous_index(i, count)]
    turn = turn_angle(planar(enter), planar(leave))
    if not wp.abs(turn) <= max_turn:
        flags |= wp.static(int(GateStatus.TURN))
    grade = wp.static(1.0 + 1.0e-4) * rules.max_grade
    if not wp.abs(leave[2]) <= grade * wp.length(planar(leave)):
        flags |= wp.static(int(GateStatus.GRADE))
    line = lines[env, i]
    along = wp.vec3f(line[0], line[1], line[3])
    angle = wp.atan2(wp.length(wp.cross(forward, along)), wp.dot(forward, along))
    if not angle <= rules.max_incidence + 1.0e-4:
        flags |= wp.static(int(GateStatus.INCIDENCE))
    interval = gate_interval(position, lines, env, i, count, rules.line)
    height = gate_heights(interval, position, lines, env, i, count)
    steepest = float(0.0)
    bent = float(0.0)
    for k in range(rules.samples + 1):
        u = float(k) / float(rules.samples)
        slope = height_slope(interval, height, u)
        steepest = wp.max(steepest, wp.abs(slope[0]))
        curvature = interval_curvature(interval, u)
        bent = wp.max(bent, wp.max(curvature, slope[1] * slope[1]))
    if not steepest <= grade:
        flags |= wp.static(int(GateStatus.GRADE))
    if not bent * radius * radius <= 1.0:
        flags |= wp.static(int(GateStatus.RADIUS))
    return flags


@wp.kernel
def judge_gates_kernel(
    # In:
    count_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    position_in: wp.array2d[wp.vec3f],
    tangent_in: wp.array2d[wp.vec3f],
    normal_in: wp.array2d[wp.vec3f],
    left_in: wp.array2d[wp.vec3f],
    right_in: wp.array2d[wp.vec3f],
    orientation_in: wp.array2d[wp.quatf],
    rules: GateRules,
    min_gates: int,
    max_gates: int,
    winding: int,
    attempt: int,
    # Scratch:
    lines: wp.array2d[wp.vec4f],
    # In and out:
    pending: wp.array[wp.bool],
    status: wp.array[wp.int32],
    # Out:
    valid_out: wp.array[wp.bool],
    attempts_out: wp.array[wp.int32],
):
    """Judge the published course of each pending env. Launch dim (E, lanes).

    The env stays pending if it is not valid. PARAMETER is kept, all other reasons are fresh.
    """
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending[env]:
        return
    count = count_in[env]
    flags = status[env] & wp.static(_FIXED)
    if count < min_gates or count > max_gates:
        flags |= wp.static(int(GateStatus.COUNT))
    if count >= 3:
        sizes = gate_sizes(rules, knobs_in, env)
        write_gate_lines(position_in, lines, env, lane, count)
        for i in range(lane, count, wp.block_dim()):
            flags |= _gate_flags(
                position_in,
                tangent_in,
                normal_in,
                left_in,
                right_in,
                orientation_in,
                lines,
                rules,
                sizes.radius,
                sizes.max_turn,
                env,
                i,
                count,
            )
        for k in range(lane, count * count, wp.block_dim()):
            i = k // count
            j = k - i * count
            if i != j:
                flags |= _pair_flags(position_in, tangent_in, normal_in, sizes, env, i, j)
            flags |= _line_flags(
                position_in,
                lines,
                tangent_in[env, j],
                normal_in[env, j],
                rules,
                sizes.outer,
                sizes.outer_height,
                env,
                i,
                j,
                count,
            )
        if lane == 0:
            turning = float(0.0)
            area = float(0.0)
            low = planar(position_in[env, 0])
            high = low
            before = planar(position_in[env, count - 1])
            for i in range(count):
                here = planar(position_in[env, i])
                after = planar(position_in[env, next_index(i, count)])
                turning += turn_angle(here - before, after - here)
                area += cross(before, here)
                low = wp.min(low, here)
                high = wp.max(high, here)
                before = here
            if winding != 0:
                wanted = float(winding) * wp.static(_TWO_PI)
                if not (wp.abs(turning - wanted) <= 1.0e-3 and float(winding) * area > 0.0):
                    flags |= wp.static(int(GateStatus.WINDING))
            if rules.max_extent > 0.0:
                if not wp.max(high[0] - low[0], high[1] - low[1]) <= rules.max_extent:
                    flags |= wp.static(int(GateStatus.EXTENT))
        flags = block_vote(flags, 0, 0)[0]
    if lane == 0:
        status[env] = flags
        valid_out[env] = flags == 0
        attempts_out[env] = attempt + 1
        pending[env] = flags != 0


def judge_gates(
    count: wp.array,
    knobs: wp.array,
    pending: wp.array,
    gates: dict[str, wp.array],
    attempt: int,
    min_gates: int,
    max_gates: int,
    winding: int,
    rules: GateRules,
    lines: wp.array,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that judges the course of every pending env; runs nothing.

    Args:
        count: Gates of each env, int32, shape [E].
        knobs: Drawn knobs, float32, shape [E, P]: gate width, scale and largest turn first.
        pending: In and out: envs to work on; false where the course is valid, bool, shape [E].
        gates: Poses, and the outputs ``status``, ``valid`` and ``attempts``, by field name.
        attempt: Attempt, from 0.
        min_gates: Fewest gates of a valid course.
        max_gates: Most gates of a valid course.
        winding: Sense the course must turn in, +1 or -1; 0 for any.
        rules: Sizes and limits.
        lines: Scratch of ``GateHeightScratch``, vec4f, shape [E, G].
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        judge_gates_kernel,
        pending.shape[0],
        lanes,
        inputs=[
            count,
            knobs,
            *(gates[n] for n in ("position", "tangent", "normal", "left", "right", "orientation")),
            rules,
            min_gates,
            max_gates,
            winding,
            attempt,
            lines,
            pending,
            gates["status"],
        ],
        outputs=[gates["valid"], gates["attempts"]],
        device=device,
    )
