"""Heights and poses of the gates of a course.

Heights come from a profile, are brought to a Lipschitz bound over the plan distance of neighbours
(mean of the lower and the upper envelope), and shrink once, linearly, so that the flight line keeps
its limits of grade, range and vertical curvature: all three are linear in the heights, so one step
hits the limits. The plan never changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import warp as wp

from track_gen.block import block_lane, block_launch, block_max, block_sync
from track_gen.elevation import PROFILE_SIZE, Profile, draw_profile, profile_bounds, sample_profile
from track_gen.flight_line import (
    gate_heights,
    gate_interval,
    height_slope,
    interval_height,
    write_gate_lines,
)
from track_gen.gate_rules import GateRules, bounding_box, gate_sizes
from track_gen.polyline import next_index, planar

__all__ = ["GateHeightScratch", "place_gates"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


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
    sizes = gate_sizes(rules, knobs_in, env)
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
        write_gate_lines(position_out, lines, env, lane, count)
        steepest = float(0.0)
        highest = float(0.0)
        sharpest = float(0.0)
        for i in range(lane, count, wp.block_dim()):
            interval = gate_interval(position_out, lines, env, i, count, rules.line)
            height = gate_heights(interval, position_out, lines, env, i, count)
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

    write_gate_lines(position_out, lines, env, lane, count)
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
        knobs: Drawn knobs, float32, shape [E, P]: gate width, scale and largest turn first.
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
