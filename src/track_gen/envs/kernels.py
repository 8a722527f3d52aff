"""Kernels of the environment; what they ask of a track is the ``@wp.func`` layer of the tools."""

from __future__ import annotations

import warp as wp

from track_gen.envs.vehicle import VehicleParameters, drive
from track_gen.geometry import cos_sin, rotate
from track_gen.polyline import planar
from track_gen.rng import Stream, draw_uniform
from track_gen.runtime.contact import disc_contact
from track_gen.runtime.sensors import cast_ray
from track_gen.runtime.view import (
    TrackView,
    curvature_at,
    find_segment,
    frenet_n,
    frenet_s,
    is_drivable,
    locate,
    point_at,
    tangent_at,
    wrap_s,
)

__all__ = [
    "OBSERVATION_LIMIT",
    "VALUES_AHEAD",
    "VALUES_HERE",
    "accept_levels_kernel",
    "drive_kernel",
    "give_ring_kernel",
    "judge_kernel",
    "mark_levels_kernel",
    "start_kernel",
]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

VALUES_HERE = 5
"""Observed values of the car itself."""
VALUES_AHEAD = 3
"""Observed values per look-ahead distance."""
OBSERVATION_LIMIT = 4.0
"""Largest magnitude of an observed value."""

WARM_REACH = 0.95
"""Lateral offset in half widths up to which the place of the last step tells where the car is."""

RING_RADIUS = 6.0
"""Radius of the track of last resort, in half widths."""

SAME_STEP = 0
NEXT_STEP = 1
DISABLED = 2


@wp.func
def _observed(value: float) -> float:
    return wp.clamp(value, -wp.static(OBSERVATION_LIMIT), wp.static(OBSERVATION_LIMIT))


@wp.kernel
def drive_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    vehicle: VehicleParameters,
    action_in: wp.array2d[wp.float32],
    moves: int,
    clear_share: float,
    distances_in: wp.array[wp.float32],
    rays_in: wp.array[wp.vec2f],
    ray_range: float,
    # State:
    position: wp.array2d[wp.vec3f],
    heading: wp.array2d[wp.float32],
    speed: wp.array[wp.float32],
    segment: wp.array2d[wp.int32],
    # Out:
    s_out: wp.array2d[wp.float32],
    off_road_out: wp.array[wp.bool],
    observation_out: wp.array2d[wp.float32],
):
    """Drive the masked envs one step and observe; ``moves`` 0 only observes. Launch dim (rows,).

    A car whose disc is nearer to the centreline than ``clear_share`` half widths touches no border.
    """
    env = first_env + wp.tid()
    if not (mask_in[env] and is_drivable(view, env)):
        return
    half_width = view.half_width[env]
    unit = vehicle.unit
    if unit <= 0.0:
        unit = half_width
    p = position[env, 0]
    yaw = heading[env, 0]
    v = speed[env]
    if moves != 0:
        steer = action_in[env, 0]
        throttle = action_in[env, 1]
        if not wp.isfinite(steer):
            steer = 0.0
        if not wp.isfinite(throttle):
            throttle = 0.0
        pose = drive(
            vehicle,
            wp.vec4f(p[0], p[1], yaw, v),
            wp.clamp(steer, -1.0, 1.0),
            wp.clamp(throttle, -1.0, 1.0),
            unit,
        )
        p = wp.vec3f(pose[0], pose[1], p[2])
        yaw = pose[2]
        v = pose[3]

    foot = locate(view, env, p, segment[env, 0], wp.static(WARM_REACH))
    s = frenet_s(view, env, foot)
    p = wp.vec3f(p[0], p[1], point_at(view, env, foot.segment, foot.fraction)[2])
    segment[env, 0] = foot.segment
    s_out[env, 0] = s
    position[env, 0] = p
    heading[env, 0] = yaw
    speed[env] = v
    radius = vehicle.radius * unit
    distance = wp.sqrt(foot.distance_squared)
    off_road = bool(False)
    if distance + radius > clear_share * half_width:
        off_road = disc_contact(view, env, p, radius, foot.segment).clearance < 0.0
    off_road_out[env] = off_road

    direction = cos_sin(yaw)
    tangent = tangent_at(view, env, foot.segment, foot.fraction)
    observation_out[env, 0] = _observed(v / (vehicle.max_speed * unit))
    observation_out[env, 1] = _observed(wp.dot(direction, tangent))
    observation_out[env, 2] = _observed(tangent[0] * direction[1] - tangent[1] * direction[0])
    observation_out[env, 3] = _observed(frenet_n(view, env, p, foot) / half_width)
    observation_out[env, 4] = _observed(unit / half_width)
    column = int(wp.static(VALUES_HERE))
    for k in range(distances_in.shape[0]):
        way = distances_in[k] * half_width
        ahead = find_segment(view, env, wrap_s(s + way, view.length[env]))
        d = planar(point_at(view, env, ahead.segment, ahead.fraction) - p)
        # The way is the scale of its point: near and far points come in numbers of one size.
        observation_out[env, column] = _observed(wp.dot(direction, d) / way)
        side = direction[0] * d[1] - direction[1] * d[0]
        observation_out[env, column + 1] = _observed(side / way)
        curvature = curvature_at(view, env, ahead.segment, ahead.fraction)
        observation_out[env, column + 2] = _observed(curvature * half_width)
        column += wp.static(VALUES_AHEAD)
    reach = ray_range * half_width
    for k in range(rays_in.shape[0]):
        ray = rotate(rays_in[k], direction)
        observation_out[env, column + k] = cast_ray(view, env, planar(p), ray, reach) / reach


@wp.kernel
def judge_kernel(
    first_env: int,
    # In:
    view: TrackView,
    delta_in: wp.array2d[wp.float32],
    total_in: wp.array2d[wp.float32],
    laps_in: wp.array2d[wp.int32],
    lap_steps_in: wp.array2d[wp.int32],
    off_road_in: wp.array[wp.bool],
    observation_in: wp.array2d[wp.float32],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    family_in: wp.array[wp.int32],
    mode: int,
    max_steps: int,
    max_laps: int,
    progress_reward: float,
    reverse_penalty: float,
    off_road_penalty: float,
    # State:
    driving: wp.array[wp.bool],
    steps: wp.array[wp.int32],
    # Out:
    reward_out: wp.array[wp.float32],
    terminated_out: wp.array[wp.bool],
    truncated_out: wp.array[wp.bool],
    reset_out: wp.array[wp.bool],
    progress_out: wp.array[wp.float32],
    final_observation_out: wp.array2d[wp.float32],
    final_progress_out: wp.array[wp.float32],
    final_laps_out: wp.array[wp.int32],
    final_lap_steps_out: wp.array[wp.int32],
    final_steps_out: wp.array[wp.int32],
    final_seed_out: wp.array[wp.int32],
    final_episode_out: wp.array[wp.int32],
    final_family_out: wp.array[wp.int32],
):
    """Reward, ends of episodes and who starts anew; keep the last state. Launch dim (rows,)."""
    env = first_env + wp.tid()
    reset_out[env] = False
    if not driving[env]:
        reward_out[env] = 0.0
        if mode == wp.static(NEXT_STEP):
            terminated_out[env] = False
            truncated_out[env] = False
            reset_out[env] = True
        return
    steps[env] = steps[env] + 1
    terminated = off_road_in[env]
    truncated = not terminated and (
        steps[env] >= max_steps or (max_laps > 0 and laps_in[env, 0] >= max_laps)
    )
    delta = delta_in[env, 0] / view.half_width[env]
    reward = progress_reward * delta + reverse_penalty * wp.min(delta, 0.0)
    if terminated:
        reward -= off_road_penalty
    reward_out[env] = reward
    terminated_out[env] = terminated
    truncated_out[env] = truncated
    progress = total_in[env, 0] / view.length[env]
    progress_out[env] = progress
    if not (terminated or truncated):
        return
    if mode == wp.static(SAME_STEP):
        reset_out[env] = True
    else:
        driving[env] = False
    for k in range(observation_in.shape[1]):
        final_observation_out[env, k] = observation_in[env, k]
    final_progress_out[env] = progress
    final_laps_out[env] = laps_in[env, 0]
    final_lap_steps_out[env] = lap_steps_in[env, 0]
    final_steps_out[env] = steps[env]
    final_seed_out[env] = seeds_in[env]
    final_episode_out[env] = episode_in[env]
    final_family_out[env] = family_in[env]


@wp.kernel
def mark_levels_kernel(
    first_env: int,
    # In:
    mask_in: wp.array[wp.bool],
    # Out:
    missing_out: wp.array[wp.bool],
    fallback_out: wp.array[wp.bool],
):
    """Note which envs need a level. Launch dim (rows,)."""
    env = first_env + wp.tid()
    missing_out[env] = mask_in[env]
    if mask_in[env]:
        fallback_out[env] = False


@wp.kernel
def accept_levels_kernel(
    first_env: int,
    # In:
    valid_in: wp.array[wp.bool],
    count_in: wp.array[wp.int32],
    # In and out:
    missing: wp.array[wp.bool],
    # Out:
    drivable_out: wp.array[wp.bool],
):
    """Take the valid new tracks; the others are still missing. Launch dim (rows,)."""
    env = first_env + wp.tid()
    if missing[env]:
        good = valid_in[env] and count_in[env] >= 3
        drivable_out[env] = good
        missing[env] = not good


@wp.kernel
def give_ring_kernel(
    first_env: int,
    # In:
    missing_in: wp.array[wp.bool],
    half_width: float,
    # Out:
    center_out: wp.array2d[wp.vec3f],
    inner_out: wp.array2d[wp.vec3f],
    outer_out: wp.array2d[wp.vec3f],
    tangent_out: wp.array2d[wp.vec3f],
    normal_out: wp.array2d[wp.vec3f],
    arclen_out: wp.array2d[wp.float32],
    curvature_out: wp.array2d[wp.float32],
    length_out: wp.array[wp.float32],
    half_width_out: wp.array[wp.float32],
    count_out: wp.array[wp.int32],
    winding_out: wp.array[wp.int32],
    drivable_out: wp.array[wp.bool],
    fallback_out: wp.array[wp.bool],
):
    """Write a ring where no track was found: the last resort. Launch dim (rows,)."""
    env = first_env + wp.tid()
    if not missing_in[env]:
        return
    w = half_width_out[env]
    if not (wp.isfinite(w) and w > 0.0):
        w = half_width
    count = wp.min(center_out.shape[1], 64)
    turn = wp.static(6.283185307179586) / float(count)
    radius = wp.static(RING_RADIUS) * w
    edge = 2.0 * radius * cos_sin(0.5 * turn)[1]
    for i in range(center_out.shape[1]):
        point = wp.vec3f(wp.nan, wp.nan, wp.nan)
        inner = point
        outer = point
        tangent = point
        normal = point
        arclen = float(wp.nan)
        curvature = float(wp.nan)
        if i < count:
            d = cos_sin(float(i) * turn)
            point = radius * wp.vec3f(d[0], d[1], 0.0)
            normal = wp.vec3f(-d[0], -d[1], 0.0)
            tangent = wp.vec3f(-d[1], d[0], 0.0)
            inner = point + w * normal
            outer = point - w * normal
            arclen = float(i) * edge
            curvature = turn / edge
        center_out[env, i] = point
        inner_out[env, i] = inner
        outer_out[env, i] = outer
        tangent_out[env, i] = tangent
        normal_out[env, i] = normal
        arclen_out[env, i] = arclen
        curvature_out[env, i] = curvature
    length_out[env] = float(count) * edge
    half_width_out[env] = w
    count_out[env] = count
    winding_out[env] = 1
    drivable_out[env] = True
    fallback_out[env] = True


@wp.kernel
def start_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    random: int,
    lateral: float,
    turn: float,
    radius: float,
    unit: float,
    clears_outcome: int,
    # Out:
    place_s_out: wp.array2d[wp.float32],
    place_n_out: wp.array2d[wp.float32],
    turn_out: wp.array2d[wp.float32],
    speed_out: wp.array[wp.float32],
    segment_out: wp.array2d[wp.int32],
    steps_out: wp.array[wp.int32],
    progress_out: wp.array[wp.float32],
    driving_out: wp.array[wp.bool],
    reward_out: wp.array[wp.float32],
    terminated_out: wp.array[wp.bool],
    truncated_out: wp.array[wp.bool],
):
    """Draw where the masked envs start, a function of (seed, episode). Launch dim (rows,)."""
    env = first_env + wp.tid()
    if not mask_in[env]:
        return
    place_s_out[env, 0] = 0.0
    place_n_out[env, 0] = 0.0
    turn_out[env, 0] = 0.0
    if random != 0:
        u = draw_uniform(seeds_in[env], episode_in[env], wp.static(int(Stream.SPAWN)), 0, 0)
        half_width = view.half_width[env]
        body = radius * wp.where(unit > 0.0, unit, half_width)
        place_s_out[env, 0] = u[0] * view.length[env]
        place_n_out[env, 0] = (2.0 * u[1] - 1.0) * lateral * wp.max(half_width - body, 0.0)
        turn_out[env, 0] = (2.0 * u[2] - 1.0) * turn
    speed_out[env] = 0.0
    segment_out[env, 0] = -1
    steps_out[env] = 0
    progress_out[env] = 0.0
    driving_out[env] = True
    if clears_outcome != 0:
        reward_out[env] = 0.0
        terminated_out[env] = False
        truncated_out[env] = False
