"""Heights and poses of the gates of a course, and the verdict on it.

Heights come from a profile, are brought to a Lipschitz bound over the plan distance of neighbours
(mean of the lower and the upper envelope), and shrink once, linearly, so that the flight line keeps
its limits of grade, range and vertical curvature: all three are linear in the heights, so one step
hits the limits. The plan never changes.

The verdict reads the published arrays, by tests that scale with the gates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import warp as wp

from track_gen.block import block_lane, block_launch, block_max, block_sync, block_vote
from track_gen.elevation import PROFILE_SIZE, Profile, draw_profile, profile_bounds, sample_profile
from track_gen.flight_line import (
    LineInterval,
    gate_direction,
    gate_slope,
    height_coefficients,
    height_slope,
    interval_curvature,
    interval_height,
    interval_point,
    interval_reach,
    make_interval,
)
from track_gen.gate_rules import GateRules, bounding_box, boxes_apart, gate_sizes
from track_gen.geometry import cross, turn_angle
from track_gen.polyline import next_index, planar, previous_index
from track_gen.status import GateStatus

__all__ = ["GateHeightScratch", "judge_gates", "place_gates"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

_TWO_PI = 2.0 * math.pi
_FIXED = int(GateStatus.PARAMETER)


@dataclass
class GateHeightScratch:
    """Working arrays of heights and verdict; rows of a batch."""

    coefficients: wp.array
    """Coefficients of the profile, float32, shape [E, PROFILE_SIZE]."""
    lower: wp.array
    """Lower envelope of the heights, float32, shape [E, G]."""
    upper: wp.array
    """Upper envelope of the heights, float32, shape [E, G]."""
    lines: wp.array
    """Direction, speed and slope of the line at each gate, vec4f, shape [E, G]."""

    @classmethod
    def allocate(cls, num_envs: int, max_gates: int, device: wp.Device) -> GateHeightScratch:
        """Allocate for E rows and G gates."""

        def rows(size: int, dtype: type) -> wp.array:
            return wp.zeros((num_envs, size), dtype=dtype, device=device)

        return cls(
            coefficients=rows(PROFILE_SIZE, wp.float32),
            lower=rows(max_gates, wp.float32),
            upper=rows(max_gates, wp.float32),
            lines=rows(max_gates, wp.vec4f),
        )


@wp.func
def _write_lines(
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
def _interval(
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
def _heights(
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


@wp.func
def _limit_steps(
    position: wp.array2d[wp.vec3f],
    lower: wp.array2d[wp.float32],
    upper: wp.array2d[wp.float32],
    env: int,
    count: int,
    grade: float,
):
    """Turn heights into envelopes whose steps between neighbours keep ``grade``. One lane."""
    for way in range(2):
        low = lower[env, 0]
        high = upper[env, 0]
        previous = planar(position[env, 0])
        for k in range(1, 2 * count + 1):
            i = k % count
            if way == 1:
                i = (2 * count - k) % count
            here = planar(position[env, i])
            step = grade * wp.length(here - previous)
            previous = here
            low = wp.min(lower[env, i], low + step)
            high = wp.max(upper[env, i], high - step)
            lower[env, i] = low
            upper[env, i] = high


@wp.kernel
def place_gates_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    count_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    points_in: wp.array2d[wp.vec2f],
    rules: GateRules,
    profile: Profile,
    varies: bool,
    grade: float,
    attempt: int,
    # Scratch:
    coefficients: wp.array2d[wp.float32],
    lower: wp.array2d[wp.float32],
    upper: wp.array2d[wp.float32],
    lines: wp.array2d[wp.vec4f],
    # Out:
    position_out: wp.array2d[wp.vec3f],
    tangent_out: wp.array2d[wp.vec3f],
    normal_out: wp.array2d[wp.vec3f],
    left_out: wp.array2d[wp.vec3f],
    right_out: wp.array2d[wp.vec3f],
    orientation_out: wp.array2d[wp.quatf],
    half_width_out: wp.array2d[wp.float32],
    half_height_out: wp.array2d[wp.float32],
):
    """Centre the course, give the gates heights and poses; padding is NaN. Dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    count = count_in[env]
    sizes = gate_sizes(rules, knobs_in[env, 0])
    for i in range(count + lane, position_out.shape[1], wp.block_dim()):
        nothing = wp.vec3f(wp.nan, wp.nan, wp.nan)
        position_out[env, i] = nothing
        tangent_out[env, i] = nothing
        normal_out[env, i] = nothing
        left_out[env, i] = nothing
        right_out[env, i] = nothing
        orientation_out[env, i] = wp.quatf(wp.nan, wp.nan, wp.nan, wp.nan)
        half_width_out[env, i] = wp.nan
        half_height_out[env, i] = wp.nan
    if count < 3:
        return

    box = bounding_box(points_in, env, count)
    middle = 0.5 * wp.vec2f(box[0] + box[2], box[1] + box[3])
    for i in range(lane, count, wp.block_dim()):
        centred = points_in[env, i] - middle
        position_out[env, i] = wp.vec3f(centred[0], centred[1], profile.low)
    block_sync()

    if varies:
        perimeter = float(0.0)
        for i in range(count):
            perimeter += wp.length(
                planar(position_out[env, next_index(i, count)] - position_out[env, i])
            )
        draw_profile(
            profile, seeds_in[env], episode_in[env], attempt, perimeter, coefficients, env, lane
        )
        bounds = profile_bounds(profile, perimeter)
        level = 0.5 * (bounds[0] + bounds[1])
        half = 0.5 * (bounds[1] - bounds[0])
        for i in range(lane, count, wp.block_dim()):
            along = float(0.0)
            for j in range(i):
                along += wp.length(planar(position_out[env, j + 1] - position_out[env, j]))
            u = wp.clamp(along / wp.max(perimeter, 1.0e-30), 0.0, 1.0)
            z = half * sample_profile(profile, coefficients, env, u)
            lower[env, i] = z
            upper[env, i] = z
        block_sync()
        if lane == 0:
            _limit_steps(position_out, lower, upper, env, count, 0.8 * grade)
        block_sync()
        for i in range(lane, count, wp.block_dim()):
            p = position_out[env, i]
            position_out[env, i] = wp.vec3f(p[0], p[1], 0.5 * (lower[env, i] + upper[env, i]))
        block_sync()
        _write_lines(position_out, lines, env, lane, count)
        steepest = float(0.0)
        highest = float(0.0)
        sharpest = float(0.0)
        for i in range(lane, count, wp.block_dim()):
            interval = _interval(position_out, lines, env, i, count, rules.line)
            height = _heights(interval, position_out, lines, env, i, count)
            for k in range(rules.samples + 1):
                u = float(k) / float(rules.samples)
                slope = height_slope(interval, height, u)
                steepest = wp.max(steepest, wp.abs(slope[0]))
                sharpest = wp.max(sharpest, wp.abs(slope[1]))
                highest = wp.max(highest, wp.abs(interval_height(height, u)))
        steepest = block_max(steepest)
        highest = block_max(highest)
        sharpest = block_max(sharpest)
        factor = wp.min(1.0, 0.995 * grade / wp.max(steepest, 1.0e-30))
        factor = wp.min(factor, half / wp.max(highest, 1.0e-30))
        factor = wp.min(factor, 0.98 / wp.max(sizes.radius * sharpest, 1.0e-30))
        block_sync()
        for i in range(lane, count, wp.block_dim()):
            p = position_out[env, i]
            z = wp.clamp(level + factor * p[2], bounds[0], bounds[1])
            position_out[env, i] = wp.vec3f(p[0], p[1], z)
        block_sync()

    _write_lines(position_out, lines, env, lane, count)
    for i in range(lane, count, wp.block_dim()):
        p = position_out[env, i]
        direction = lines[env, i]
        c = direction[0]
        s = direction[1]
        rise = float(0.0)
        if rules.tangent != 0:
            rise = direction[3]
        run = 1.0 / wp.sqrt(1.0 + rise * rise)
        # Half angles of heading and pitch without trigonometry; the heading's cosine is >= 0.
        yaw_c = wp.sqrt(wp.max(0.5 * (1.0 + c), 0.0))
        yaw_s = wp.sqrt(wp.max(0.5 * (1.0 - c), 0.0))
        if c > 0.0:
            yaw_s = 0.5 * s / yaw_c
        else:
            yaw_c = 0.5 * wp.abs(s) / yaw_s
            if s < 0.0:
                yaw_s = -yaw_s
        pitch_c = wp.sqrt(0.5 * (1.0 + run))
        pitch_s = -0.5 * rise * run / pitch_c
        normal = wp.vec3f(-s, c, 0.0)
        tangent_out[env, i] = wp.vec3f(c * run, s * run, rise * run)
        normal_out[env, i] = normal
        left_out[env, i] = p + sizes.half_width * normal
        right_out[env, i] = p - sizes.half_width * normal
        orientation_out[env, i] = wp.quatf(
            -yaw_s * pitch_s, yaw_c * pitch_s, yaw_s * pitch_c, yaw_c * pitch_c
        )
        half_width_out[env, i] = sizes.half_width
        half_height_out[env, i] = sizes.half_height


@wp.func
def _pair_flags(
    position: wp.array2d[wp.vec3f],
    tangent: wp.array2d[wp.vec3f],
    normal: wp.array2d[wp.vec3f],
    rules: GateRules,
    width: float,
    env: int,
    i: int,
    j: int,
) -> int:
    """Reasons of an ordered pair: spacing, overlap, frame ``j`` in the approach of gate ``i``."""
    sizes = gate_sizes(rules, width)
    flags = int(0)
    between = position[env, j] - position[env, i]
    distance = wp.length(between)
    outer = wp.vec3f(0.0, sizes.outer, sizes.outer_height)
    corridor = wp.vec3f(sizes.approach, sizes.half_width, sizes.half_height)
    tolerance = 1.0e-5 * width
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
    interval = _interval(position, lines, env, i, count, rules.line)
    j = next_index(i, count)
    chord = planar(position[env, j]) - interval.start
    away = planar(center) - interval.start - 0.5 * chord
    leads_here = j == gate
    reach = interval_reach(interval, chord) + 2.0 * (outer + outer_height)
    if wp.dot(away, away) > reach * reach:
        return 0
    height = _heights(interval, position, lines, env, i, count)
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
    if not wp.abs(turn) <= rules.max_turn:
        flags |= wp.static(int(GateStatus.TURN))
    grade = wp.static(1.0 + 1.0e-4) * rules.max_grade
    if not wp.abs(leave[2]) <= grade * wp.length(planar(leave)):
        flags |= wp.static(int(GateStatus.GRADE))
    line = lines[env, i]
    along = wp.vec3f(line[0], line[1], line[3])
    angle = wp.atan2(wp.length(wp.cross(forward, along)), wp.dot(forward, along))
    if not angle <= rules.max_incidence + 1.0e-4:
        flags |= wp.static(int(GateStatus.INCIDENCE))
    interval = _interval(position, lines, env, i, count, rules.line)
    height = _heights(interval, position, lines, env, i, count)
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
    width = knobs_in[env, 0]
    flags = status[env] & wp.static(_FIXED)
    if count < min_gates or count > max_gates:
        flags |= wp.static(int(GateStatus.COUNT))
    if count >= 3:
        sizes = gate_sizes(rules, width)
        _write_lines(position_in, lines, env, lane, count)
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
                env,
                i,
                count,
            )
        for k in range(lane, count * count, wp.block_dim()):
            i = k // count
            j = k - i * count
            if i != j:
                flags |= _pair_flags(position_in, tangent_in, normal_in, rules, width, env, i, j)
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


def place_gates(
    seeds: wp.array,
    episode: wp.array,
    count: wp.array,
    knobs: wp.array,
    pending: wp.array,
    points: wp.array,
    gates: dict[str, wp.array],
    attempt: int,
    rules: GateRules,
    profile: Profile,
    varies: bool,
    grade: float,
    scratch: GateHeightScratch,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that writes heights and poses of every pending env; runs nothing.

    Args:
        seeds: Seeds, int32, shape [E].
        episode: Episode counters, int32, shape [E].
        count: Gates of each env, int32, shape [E].
        knobs: Drawn knobs, float32, shape [E, P]: gate width first.
        pending: Envs to work on, bool, shape [E].
        points: Gate centres in plan [length], vec2f, shape [E, G].
        gates: Outputs by the field names of ``GateSequence``, shape [E, G].
        attempt: Attempt, from 0.
        rules: Sizes and limits.
        profile: Heights.
        varies: Whether the profile is not flat.
        grade: Largest grade of the profile, at most that of the rules.
        scratch: Working arrays.
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        place_gates_kernel,
        pending.shape[0],
        lanes,
        inputs=[
            pending,
            seeds,
            episode,
            count,
            knobs,
            points,
            rules,
            profile,
            varies,
            grade,
            attempt,
            scratch.coefficients,
            scratch.lower,
            scratch.upper,
            scratch.lines,
        ],
        outputs=[
            gates[name]
            for name in (
                "position",
                "tangent",
                "normal",
                "left",
                "right",
                "orientation",
                "half_width",
                "half_height",
            )
        ],
        device=device,
    )


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
    scratch: GateHeightScratch,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that judges the course of every pending env; runs nothing.

    Args:
        count: Gates of each env, int32, shape [E].
        knobs: Drawn knobs, float32, shape [E, P]: gate width first.
        pending: In and out: envs to work on; false where the course is valid, bool, shape [E].
        gates: Poses, and the outputs ``status``, ``valid`` and ``attempts``, by field name.
        attempt: Attempt, from 0.
        min_gates: Fewest gates of a valid course.
        max_gates: Most gates of a valid course.
        winding: Sense the course must turn in, +1 or -1; 0 for any.
        rules: Sizes and limits.
        scratch: Working arrays.
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
            scratch.lines,
            pending,
            gates["status"],
        ],
        outputs=[gates["valid"], gates["attempts"]],
        device=device,
    )
