"""What agents see of their track: points and curvatures ahead, and ray casts to the borders.

The body frame has x forward, y left and z up, and follows the heading only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from track_gen.checks import check_float, check_floats
from track_gen.geometry import cos_sin, cross, rotate
from track_gen.polyline import next_index, planar
from track_gen.row_launch import RowLaunch
from track_gen.runtime.localize import Localizer, own_or_shared, update_own
from track_gen.runtime.rows import as_headings, as_mask, as_positions
from track_gen.runtime.view import (
    TrackView,
    curvature_at,
    find_segment,
    is_drivable,
    local_position,
    point_at,
    wrap_s,
)

__all__ = ["Sensors", "cast_ray", "cast_ray_to_line"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


_CHUNK = 8
"""Segments of a border in one bounding circle."""


@wp.func
def _cast_ray_to_segments(
    line: wp.array2d[wp.vec3f],
    env: int,
    count: int,
    p: wp.vec2f,
    direction: wp.vec2f,
    limit: float,
    first: int,
    last: int,
) -> float:
    """Distance along a ray to the segments ``first`` to ``last`` - 1, ``limit`` if farther."""
    nearest = limit
    a = planar(line[env, first]) - p
    side_a = cross(direction, a)
    for i in range(first, last):
        b = planar(line[env, next_index(i, count)]) - p
        side_b = cross(direction, b)
        if (side_a < 0.0) != (side_b < 0.0):
            v = b - a
            distance = cross(a, v) / cross(direction, v)
            if distance >= 0.0 and distance < nearest:
                nearest = distance
        a = b
        side_a = side_b
    return nearest


@wp.func
def cast_ray_to_line(
    line: wp.array2d[wp.vec3f], env: int, count: int, p: wp.vec2f, direction: wp.vec2f, limit: float
) -> float:
    """Distance along a ray to a closed polyline in plan view, ``limit`` if it is farther.

    A segment is hit if its ends lie on different sides of the ray, one of them counted with the
    left side, so that no ray slips through a vertex.
    """
    return _cast_ray_to_segments(line, env, count, p, direction, limit, 0, count)


@wp.func
def cast_ray(view: TrackView, env: int, p: wp.vec2f, direction: wp.vec2f, limit: float) -> float:
    """Distance along a ray to the nearer border in plan view, ``limit`` if it is farther.

    Args:
        view: Track.
        env: Row, with ``is_drivable``.
        p: Origin, finite.
        direction: Unit vector.
        limit: Range of the ray [length].
    """
    count = view.count[env]
    nearest = cast_ray_to_line(view.inner, env, count, p, direction, limit)
    return cast_ray_to_line(view.outer, env, count, p, direction, nearest)


@wp.kernel
def look_ahead_kernel(
    first_env: int,
    # In:
    view: TrackView,
    position_in: wp.array3d[wp.float32],
    heading_in: wp.array2d[wp.float32],
    mask_in: wp.array[wp.bool],
    s_in: wp.array2d[wp.float32],
    distances_in: wp.array[wp.float32],
    # Out:
    points_out: wp.array3d[wp.vec3f],
    curvatures_out: wp.array3d[wp.float32],
):
    """Points and curvatures of the centreline ahead, in the body frame. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    p = local_position(view, position_in, env, agent)
    heading = heading_in[env, agent]
    s = s_in[env, agent]
    if not (is_drivable(view, env) and wp.isfinite(p) and wp.isfinite(heading) and wp.isfinite(s)):
        for k in range(distances_in.shape[0]):
            points_out[env, agent, k] = wp.vec3f(wp.nan, wp.nan, wp.nan)
            curvatures_out[env, agent, k] = wp.nan
        return
    direction = cos_sin(heading)
    for k in range(distances_in.shape[0]):
        ahead = find_segment(view, env, wrap_s(s + distances_in[k], view.length[env]))
        d = point_at(view, env, ahead.segment, ahead.fraction) - p
        points_out[env, agent, k] = wp.vec3f(
            direction[0] * d[0] + direction[1] * d[1],
            direction[0] * d[1] - direction[1] * d[0],
            d[2],
        )
        curvatures_out[env, agent, k] = curvature_at(view, env, ahead.segment, ahead.fraction)


@wp.func
def _bounding_circle(line: wp.array2d[wp.vec3f], env: int, count: int, first: int) -> wp.vec3f:
    """Center and radius of a circle around the chunk of segments from ``first`` on."""
    last = wp.min(first + wp.static(_CHUNK), count)
    low = planar(line[env, first])
    high = low
    for i in range(first, last):
        q = planar(line[env, next_index(i, count)])
        low = wp.min(low, q)
        high = wp.max(high, q)
    middle = 0.5 * (low + high)
    # A little larger, as rays are tested against it in single precision.
    return wp.vec3f(middle[0], middle[1], 0.5001 * wp.length(high - low))


@wp.kernel
def bound_borders_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    lanes: int,
    # Out:
    inner_out: wp.array2d[wp.vec3f],
    outer_out: wp.array2d[wp.vec3f],
):
    """Put circles around the chunks of the borders of the masked envs. Launch dim (rows, lanes)."""
    row, lane = wp.tid()
    env = first_env + row
    if not (mask_in[env] and is_drivable(view, env)):
        return
    count = view.count[env]
    chunks = (count + wp.static(_CHUNK) - 1) // wp.static(_CHUNK)
    for chunk in range(lane, chunks, lanes):
        first = chunk * wp.static(_CHUNK)
        inner_out[env, chunk] = _bounding_circle(view.inner, env, count, first)
        outer_out[env, chunk] = _bounding_circle(view.outer, env, count, first)


@wp.func
def _cast_ray_to_chunks(
    line: wp.array2d[wp.vec3f],
    circles: wp.array2d[wp.vec3f],
    env: int,
    count: int,
    p: wp.vec2f,
    direction: wp.vec2f,
    limit: float,
) -> float:
    """:func:`cast_ray_to_line`, looking only at the chunks whose circle the ray meets."""
    nearest = limit
    chunks = (count + wp.static(_CHUNK) - 1) // wp.static(_CHUNK)
    for chunk in range(chunks):
        circle = circles[env, chunk]
        d = wp.vec2f(circle[0], circle[1]) - p
        along = wp.dot(direction, d)
        across = wp.abs(cross(direction, d))
        radius = circle[2] + 1.0e-6 * (wp.abs(along) + across)
        if across <= radius and along >= -radius and along - radius <= nearest:
            first = chunk * wp.static(_CHUNK)
            last = wp.min(first + wp.static(_CHUNK), count)
            nearest = _cast_ray_to_segments(line, env, count, p, direction, nearest, first, last)
    return nearest


@wp.kernel
def cast_rays_kernel(
    first_env: int,
    # In:
    view: TrackView,
    position_in: wp.array3d[wp.float32],
    heading_in: wp.array2d[wp.float32],
    mask_in: wp.array[wp.bool],
    inner_circles_in: wp.array2d[wp.vec3f],
    outer_circles_in: wp.array2d[wp.vec3f],
    directions_in: wp.array[wp.vec2f],
    max_range: float,
    # Out:
    ranges_out: wp.array3d[wp.float32],
):
    """Cast each ray of the masked envs to both borders. Launch dim (rows, A, rays)."""
    row, agent, ray = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    p = planar(local_position(view, position_in, env, agent))
    heading = heading_in[env, agent]
    if not (is_drivable(view, env) and wp.isfinite(p) and wp.isfinite(heading)):
        ranges_out[env, agent, ray] = wp.nan
        return
    count = view.count[env]
    direction = rotate(directions_in[ray], cos_sin(heading))
    nearest = _cast_ray_to_chunks(view.inner, inner_circles_in, env, count, p, direction, max_range)
    ranges_out[env, agent, ray] = _cast_ray_to_chunks(
        view.outer, outer_circles_in, env, count, p, direction, nearest
    )


class Sensors:
    """Observes the track around each agent.

    All results are arrays of this object with stable addresses. In an env without a valid track,
    and for a pose that is not finite, they are NaN.

    Args:
        track: :class:`track_gen.Track`, or anything with its arrays.
        num_agents: Agents A per env.
        look_ahead: Distances ahead of the agent's place along the centreline [length], K of them;
            negative ones look back.
        rays: Angles of the rays from the heading [rad], left positive, R of them.
        max_range: Range of the rays [length]; what is farther reads as this.
        localizer: A localizer of the same track to read from, updated by the user; None makes one.
        origins: World positions of the tracks for a localizer of its own, as :class:`Localizer`
            takes them; a shared one brings its own.
        num_threads: CPU threads; None is one per core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, there is nothing to sense, or ``localizer`` is
            of another track or size.
    """

    def __init__(
        self,
        track: Any,
        num_agents: int = 1,
        *,
        look_ahead: Sequence[float] = (),
        rays: Sequence[float] = (),
        max_range: float = 10.0,
        localizer: Localizer | None = None,
        origins: Any = None,
        num_threads: int | None = None,
    ) -> None:
        distances = check_floats("Sensors.look_ahead", look_ahead, low=-math.inf)
        angles = check_floats("Sensors.rays", rays, low=-math.inf)
        max_range = check_float("Sensors.max_range", max_range, low=0.0, low_open=True)
        if not distances and not angles:
            raise ValueError("Sensors needs look_ahead distances or rays")
        self._owns_localizer = localizer is None
        localizer = self.localizer = own_or_shared(
            "Sensors", localizer, track, num_agents, origins, num_threads
        )
        """Where the places are read from."""
        E, A = self.num_envs, self.num_agents = localizer.num_envs, localizer.num_agents
        device = self.device = localizer.device
        K, R = len(distances), len(angles)

        self.points = wp.full(
            (E, A, K), wp.vec3f(np.nan, np.nan, np.nan), dtype=wp.vec3f, device=device
        )
        """Points ahead in the body frame [length], vec3f [E, A, K]."""
        self.curvatures = wp.full((E, A, K), np.nan, dtype=wp.float32, device=device)
        """Signed curvatures there [1/length], left turn positive, float32 [E, A, K]."""
        self.ranges = wp.full((E, A, R), np.nan, dtype=wp.float32, device=device)
        """Distances to the borders along the rays [length], float32 [E, A, R]."""

        no_position = wp.zeros((E, A, 3), dtype=wp.float32, device=device)
        no_heading = wp.zeros((E, A), dtype=wp.float32, device=device)
        pose = [localizer.view, no_position, no_heading, localizer.every_env]
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)
        self._launches: list[RowLaunch] = []
        if K:
            self._launches.append(
                RowLaunch(
                    look_ahead_kernel,
                    E,
                    (A,),
                    inputs=[
                        *pose, localizer.s, wp.array(distances, dtype=wp.float32, device=device),
                    ],
                    outputs=[self.points, self.curvatures],
                    device=device,
                    num_threads=num_threads,
                )
            )  # fmt: skip
        self._bound: RowLaunch | None = None
        if R:
            chunks = -(-track.center.shape[1] // _CHUNK)
            lanes = 32 if device.is_cuda else 1
            circles = [wp.zeros((E, chunks), dtype=wp.vec3f, device=device) for _ in range(2)]
            self._bound = RowLaunch(
                bound_borders_kernel,
                E,
                (lanes,),
                inputs=[localizer.view, localizer.every_env, lanes],
                outputs=circles,
                device=device,
                num_threads=num_threads,
            )
            self._launches.append(
                RowLaunch(
                    cast_rays_kernel,
                    E,
                    (A, R),
                    inputs=[
                        *pose, *circles, wp.array(directions, dtype=wp.vec2f, device=device),
                        max_range,
                    ],
                    outputs=[self.ranges],
                    device=device,
                    num_threads=num_threads,
                )
            )  # fmt: skip

    def update(self, position: Any, heading: Any, mask: Any = None) -> None:
        """Observe for all agents, or for those of the masked envs.

        Args:
            position: Positions as :meth:`Localizer.update` takes them; with a shared localizer the
                ones it was updated with.
            heading: Yaw angles [rad], float32 [E, A].
            mask: Envs to work on, bool [E], or None for all.

        Raises:
            TypeError: If a type or dtype is wrong.
            ValueError: If a shape or device is wrong.
        """
        E, A, device = self.num_envs, self.num_agents, self.device
        position = as_positions("Sensors.update(position)", position, E, A, device)
        heading = as_headings("Sensors.update(heading)", heading, E, A, device)
        mask = as_mask("Sensors.update(mask)", mask, self.localizer.every_env, E, device)
        update_own("Sensors", self.localizer, self._owns_localizer, position, mask)
        if self._bound is not None:
            self._bound(mask_in=mask)
        for launch in self._launches:
            launch(position_in=position, heading_in=heading, mask_in=mask)

    def reset(self, mask: Any = None) -> None:
        """Forget where the agents of the masked envs were; only an own localizer needs it.

        Args:
            mask: Envs, bool [E], or None for all.

        Raises:
            TypeError: If the dtype is wrong.
            ValueError: If the shape or device is wrong.
        """
        if self._owns_localizer:
            self.localizer.reset(mask)
