"""Racing line, speed profile and ideal lap time.

The line minimises the integral of its squared curvature over lateral offsets within the road
(Heilmeier, Wischnewski, Hermansdorfer, Betz, Lienkamp, Lohmann: Minimum curvature trajectory
planning and control for an autonomous race car, Vehicle System Dynamics 58, 2020). With directions
and edge lengths held that is a convex quadratic; a fixed number of accelerated projected gradient
steps (Beck, Teboulle: A fast iterative shrinkage-thresholding algorithm, SIAM J. Imaging Sci. 2,
2009) is taken before both are measured again. The speed profile is the fastest one that keeps three
limits, found by one pass forward and one backward around the loop from its slowest point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from track_gen.block import block_lane, block_sync, scan_offsets_size
from track_gen.checks import check_float, check_int, check_threads
from track_gen.geometry import left_of, turn_angle
from track_gen.polyline import measure_arc, next_index, planar, previous_index
from track_gen.row_launch import RowLaunch
from track_gen.runtime.rows import as_mask, check_track
from track_gen.runtime.view import TrackView, is_drivable, track_view, vertex_curvature

__all__ = ["RacingLine", "SpeedProfile", "ideal_lap_time", "speed_profile"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

_LANES = 64

_STEPS = 50
"""Gradient steps between two adjustments of the weights; even."""

_LEAST_EDGE = 0.4
"""Edges count as at least this long, in spacings: tight corners must not outweigh the rest."""


@wp.func
def _weigh(
    lane: int,
    env: int,
    n: int,
    spacing: float,
    points: wp.array2d[wp.vec2f],
    weights: wp.array2d[wp.vec2f],
):
    """Find the vectors whose products with the second differences are curvatures; has a barrier.

    Along the normal of the line a second difference is the curvature times the edge squared, and
    it stands for one edge: the integral of the squared curvature is the sum of its square over the
    cubed edge. Along the line it only tells how even the points are, which does not matter.
    """
    for i in range(lane, n, wp.block_dim()):
        incoming = points[env, i] - points[env, previous_index(i, n)]
        outgoing = points[env, next_index(i, n)] - points[env, i]
        edges = wp.length(incoming) + wp.length(outgoing)
        ratio = 2.0 * spacing / wp.max(edges, wp.static(2.0 * _LEAST_EDGE) * spacing)
        weights[env, i] = ratio * wp.sqrt(ratio) * left_of(wp.normalize(incoming + outgoing))
    block_sync()


@wp.func
def _descend(
    view: TrackView,
    env: int,
    lane: int,
    n: int,
    width: float,
    beta: float,
    points: wp.array2d[wp.vec2f],
    weights: wp.array2d[wp.vec2f],
    lead: wp.array2d[wp.float32],
    offset: wp.array2d[wp.float32],
    next_points: wp.array2d[wp.vec2f],
):
    """One accelerated projected gradient step from ``points`` to ``next_points``; has a barrier."""
    for i in range(lane, n, wp.block_dim()):
        before = previous_index(i, n)
        after = next_index(i, n)
        p = points[env, i]
        p_before = points[env, before]
        p_after = points[env, after]
        w = weights[env, i]
        w_before = weights[env, before]
        w_after = weights[env, after]
        bend_before = wp.dot(points[env, previous_index(before, n)] - 2.0 * p_before + p, w_before)
        bend = wp.dot(p_before - 2.0 * p + p_after, w)
        bend_after = wp.dot(p - 2.0 * p_after + points[env, next_index(after, n)], w_after)
        normal = planar(view.normal[env, i])
        force = wp.dot(bend_before * w_before - 2.0 * bend * w + bend_after * w_after, normal)
        # No row of the second derivative sums up to more, so this step cannot overshoot.
        stiffness = 4.0 * (
            wp.dot(w_before, w_before) + 2.0 * wp.dot(w, w) + wp.dot(w_after, w_after)
        )
        moved = wp.clamp(lead[env, i] - force / stiffness, -width, width)
        led = moved + beta * (moved - offset[env, i])
        offset[env, i] = moved
        lead[env, i] = led
        next_points[env, i] = planar(view.center[env, i]) + led * normal
    block_sync()


@wp.kernel
def racing_line_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    rounds: int,
    margin: float,
    N_max: int,
    # Scratch:
    points: wp.array2d[wp.vec2f],
    next_points: wp.array2d[wp.vec2f],
    weights: wp.array2d[wp.vec2f],
    lead: wp.array2d[wp.float32],
    offsets: wp.array2d[wp.float32],
    # Out:
    offset_out: wp.array2d[wp.float32],
    center_out: wp.array2d[wp.vec3f],
    tangent_out: wp.array2d[wp.vec3f],
    normal_out: wp.array2d[wp.vec3f],
    arclen_out: wp.array2d[wp.float32],
    curvature_out: wp.array2d[wp.float32],
    length_out: wp.array[wp.float32],
):
    """Find the racing line of each masked env. Launch dim (rows, lanes).

    ``lead`` holds the extrapolated offsets, ``points`` their places.
    """
    row, thread = wp.tid()
    lane = block_lane(thread)
    env = first_env + row
    if not mask_in[env]:
        return
    n = int(0)
    if is_drivable(view, env) and view.count[env] >= 5:
        n = view.count[env]
    width = view.half_width[env] * (1.0 - margin)
    for i in range(lane, n, wp.block_dim()):
        lead[env, i] = 0.0
        offset_out[env, i] = 0.0
        points[env, i] = planar(view.center[env, i])
    block_sync()
    spacing = float(1.0)
    if n > 0:
        spacing = view.length[env] / float(n)
    for _ in range(rounds):
        _weigh(lane, env, n, spacing, points, weights)
        momentum = float(1.0)
        for _ in range(wp.static(_STEPS // 2)):
            following = 0.5 * (1.0 + wp.sqrt(1.0 + 4.0 * momentum * momentum))
            beta = (momentum - 1.0) / following
            _descend(
                view, env, lane, n, width, beta, points, weights, lead, offset_out, next_points
            )
            momentum = 0.5 * (1.0 + wp.sqrt(1.0 + 4.0 * following * following))
            beta = (following - 1.0) / momentum
            _descend(
                view, env, lane, n, width, beta, next_points, weights, lead, offset_out, points
            )
        for i in range(lane, n, wp.block_dim()):
            lead[env, i] = offset_out[env, i]
            normal = planar(view.normal[env, i])
            points[env, i] = planar(view.center[env, i]) + offset_out[env, i] * normal
        block_sync()
    perimeter = float(wp.nan)
    if n > 0:
        perimeter = measure_arc(points, arclen_out, offsets, env, lane, n)
    for i in range(lane, n, wp.block_dim()):
        p = points[env, i]
        incoming = p - points[env, previous_index(i, n)]
        outgoing = points[env, next_index(i, n)] - p
        edges = wp.length(incoming) + wp.length(outgoing)
        curvature = float(0.0)
        if edges > 0.0:
            curvature = 2.0 * turn_angle(incoming, outgoing) / edges
        tangent = wp.normalize(incoming + outgoing)
        normal = left_of(tangent)
        center_out[env, i] = wp.vec3f(p[0], p[1], view.center[env, i][2])
        tangent_out[env, i] = wp.vec3f(tangent[0], tangent[1], 0.0)
        normal_out[env, i] = wp.vec3f(normal[0], normal[1], 0.0)
        curvature_out[env, i] = curvature
    blank = wp.vec3f(wp.nan, wp.nan, wp.nan)
    for i in range(n + lane, N_max, wp.block_dim()):
        offset_out[env, i] = wp.nan
        center_out[env, i] = blank
        tangent_out[env, i] = blank
        normal_out[env, i] = blank
        arclen_out[env, i] = wp.nan
        curvature_out[env, i] = wp.nan
    if lane == 0:
        length_out[env] = perimeter


class RacingLine:
    """The line of least curvature within the road of each env.

    It has the arrays of a track (its own line as ``center`` with ``tangent``, ``normal``,
    ``arclen``, ``curvature`` and ``length``; the borders and the rest are the track's), so every
    tool of this package takes it as its track. Index ``i`` is abreast of point ``i`` of the track.
    Slots past ``count`` and envs without a valid track are NaN.

    Args:
        track: :class:`track_gen.Track`, or anything with its arrays, of at least 5 points.
        margin: Free space to keep at each border [half widths], in [0, 1].
        rounds: Rounds of 50 gradient steps; fixed, so that the cost is.
        num_threads: CPU threads; None is one per core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        track: Any,
        *,
        margin: float = 0.2,
        rounds: int = 6,
        num_threads: int | None = None,
    ) -> None:
        check_track("RacingLine", track)
        num_threads = check_threads("RacingLine.num_threads", num_threads)
        margin = check_float("RacingLine.margin", margin, low=0.0, high=1.0)
        rounds = check_int("RacingLine.rounds", rounds, low=1, high=10000)
        E, N = track.center.shape
        device = self.device = track.center.device
        self.track = track
        self.is_placed = getattr(track, "is_placed", False)
        """Whether the track is a placed one, and so the line."""
        self.num_envs = E

        def values() -> wp.array:
            return wp.full((E, N), np.nan, dtype=wp.float32, device=device)

        def vectors() -> wp.array:
            blank = wp.vec3f(np.nan, np.nan, np.nan)
            return wp.full((E, N), blank, dtype=wp.vec3f, device=device)

        self.offset = values()
        """Lateral offset from the centreline [length], left positive, float32 [E, N_max]."""
        self.center = vectors()
        """Points of the line [length], vec3f [E, N_max]."""
        self.tangent = vectors()
        """Unit direction of travel, vec3f [E, N_max]."""
        self.normal = vectors()
        """Unit left normal, vec3f [E, N_max]."""
        self.arclen = values()
        """Arc length along the line in plan view [length], float32 [E, N_max]."""
        self.curvature = values()
        """Signed curvature [1/length], left turn positive, float32 [E, N_max]."""
        self.length = wp.full(E, np.nan, dtype=wp.float32, device=device)
        """Closed perimeter [length], float32 [E]."""
        self.outer = track.outer
        self.inner = track.inner
        self.half_width = track.half_width
        self.count = track.count
        self.winding = track.winding
        self.valid = track.valid
        self.every_env = wp.full(E, True, dtype=wp.bool, device=device)
        """A mask of all envs, bool [E]."""

        lanes = _LANES if device.is_cuda else 1
        self._launch = RowLaunch(
            racing_line_kernel,
            E,
            (lanes,),
            inputs=[
                track_view(track), self.every_env, rounds, margin, N,
                wp.zeros((E, N), dtype=wp.vec2f, device=device),
                wp.zeros((E, N), dtype=wp.vec2f, device=device),
                wp.zeros((E, N), dtype=wp.vec2f, device=device),
                wp.zeros((E, N), dtype=wp.float32, device=device),
                wp.zeros((E, scan_offsets_size(N)), dtype=wp.float32, device=device),
            ],
            outputs=[
                self.offset, self.center, self.tangent, self.normal, self.arclen, self.curvature,
                self.length,
            ],
            device=device,
            num_threads=num_threads,
            block_dim=lanes,
            rows_per_chunk=8,
        )  # fmt: skip

    def update(self, mask: Any = None) -> None:
        """Find the line of all envs, or of the masked ones: after their track was regenerated.

        Args:
            mask: Envs, bool [E], or None for all.

        Raises:
            TypeError: If the dtype is wrong.
            ValueError: If the shape or device is wrong.
        """
        name = "RacingLine.update(mask)"
        self._launch(mask_in=as_mask(name, mask, self.every_env, self.num_envs, self.device))


@wp.func
def _edge(view: TrackView, env: int, i: int) -> float:
    """Length of segment ``i``."""
    end = view.length[env]
    if i + 1 < view.count[env]:
        end = view.arclen[env, i + 1]
    return wp.max(end - view.arclen[env, i], 0.0)


@wp.func
def _bound_beside(square: float, curvature: float, other: float, lateral: float) -> float:
    """``square``, or as much of it as keeps the lateral limit on the edge to a tighter point.

    Squared speed and curvature are linear along an edge. The limit, ``lateral`` over the size of
    the curvature, is convex from the tighter end on, so it is kept by all that is below its tangent
    there, even if the speed at that end is the limit itself. Beyond an inflection both sizes grow
    to the other end, whose own limit is kept.
    """
    out = square
    if wp.abs(other) > wp.abs(curvature):
        rise = lateral * (2.0 - curvature / other)
        if wp.abs(other) * square > rise:
            out = rise / wp.abs(other)
    return out


@wp.kernel
def speed_profile_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    lateral: float,
    acceleration: float,
    braking: float,
    max_speed: float,
    N_max: int,
    # Out:
    speed_out: wp.array2d[wp.float32],
    lap_time_out: wp.array[wp.float32],
):
    """Find the fastest profile of each masked env. Launch dim (rows,).

    ``speed_out`` holds squared speeds until the last pass.
    """
    env = first_env + wp.tid()
    if not mask_in[env]:
        return
    n = int(0)
    if is_drivable(view, env):
        n = view.count[env]
    slowest = int(0)
    least = float(wp.inf)
    before = float(0.0)
    curvature = float(0.0)
    if n > 0:
        before = vertex_curvature(view, env, n - 1)
        curvature = vertex_curvature(view, env, 0)
    for i in range(n):
        after = vertex_curvature(view, env, next_index(i, n))
        square = max_speed * max_speed
        if wp.abs(curvature) * square > lateral:
            square = lateral / wp.abs(curvature)
        square = _bound_beside(square, curvature, before, lateral)
        square = _bound_beside(square, curvature, after, lateral)
        speed_out[env, i] = square
        if square < least:
            least = square
            slowest = i
        before = curvature
        curvature = after
    # Nothing lowers the slowest point, so a pass that starts there is right at the seam too.
    i = slowest
    for _ in range(n):
        j = next_index(i, n)
        reached = speed_out[env, i] + 2.0 * acceleration * _edge(view, env, i)
        speed_out[env, j] = wp.min(speed_out[env, j], reached)
        i = j
    for _ in range(n):
        j = previous_index(i, n)
        allowed = speed_out[env, i] + 2.0 * braking * _edge(view, env, j)
        speed_out[env, j] = wp.min(speed_out[env, j], allowed)
        i = j
    for k in range(n):
        speed_out[env, k] = wp.sqrt(speed_out[env, k])
    time = float(0.0)
    for k in range(n):
        time += 2.0 * _edge(view, env, k) / (speed_out[env, k] + speed_out[env, next_index(k, n)])
    if n == 0:
        time = wp.nan
    lap_time_out[env] = time
    for k in range(n, N_max):
        speed_out[env, k] = wp.nan


class SpeedProfile:
    """The fastest speeds along a closed line that keep three limits everywhere.

    Between two points the acceleration is constant and the curvature linear. The tighter end of
    each edge may use the whole lateral limit; towards the other end the squared speed stays below
    the tangent to the limit there, which keeps it in between. The limits hold each for itself:
    there is no friction ellipse. Slots past ``count`` and envs without a valid track are NaN.

    Args:
        line: A track, a :class:`RacingLine` or anything with their arrays; read at each update.
        lateral: Largest speed squared times curvature [length/time^2].
        acceleration: Largest acceleration [length/time^2].
        braking: Largest deceleration [length/time^2].
        max_speed: Speed cap [length/time]; None is none.
        num_threads: CPU threads; None is one per core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        line: Any,
        *,
        lateral: float,
        acceleration: float,
        braking: float,
        max_speed: float | None = None,
        num_threads: int | None = None,
    ) -> None:
        check_track("SpeedProfile", line)
        num_threads = check_threads("SpeedProfile.num_threads", num_threads)
        limits = [
            check_float(f"SpeedProfile.{name}", value, low=0.0, high=1.0e12, low_open=True)
            for name, value in (
                ("lateral", lateral),
                ("acceleration", acceleration),
                ("braking", braking),
                ("max_speed", 1.0e12 if max_speed is None else max_speed),
            )
        ]
        E, N = line.center.shape
        device = self.device = line.center.device
        self.line = line
        self.num_envs = E
        self.speed = wp.full((E, N), np.nan, dtype=wp.float32, device=device)
        """Speed at each point [length/time], float32 [E, N_max]."""
        self.lap_time = wp.full(E, np.nan, dtype=wp.float32, device=device)
        """Time of a flying lap [time], float32 [E]."""
        self.every_env = wp.full(E, True, dtype=wp.bool, device=device)
        """A mask of all envs, bool [E]."""
        self._launch = RowLaunch(
            speed_profile_kernel,
            E,
            (),
            inputs=[track_view(line), self.every_env, *limits, N],
            outputs=[self.speed, self.lap_time],
            device=device,
            num_threads=num_threads,
            rows_per_chunk=64,
        )

    def update(self, mask: Any = None) -> None:
        """Find the speeds of all envs, or of the masked ones.

        Args:
            mask: Envs, bool [E], or None for all.

        Raises:
            TypeError: If the dtype is wrong.
            ValueError: If the shape or device is wrong.
        """
        name = "SpeedProfile.update(mask)"
        self._launch(mask_in=as_mask(name, mask, self.every_env, self.num_envs, self.device))

    def commands(self, low: int, high: int, mask: wp.array) -> list[wp.Launch]:
        """The launches of :meth:`update` over a range of rows, for a pipeline to launch.

        Args:
            low: First row.
            high: Row after the last.
            mask: Envs to work on, bool [E] on the device; read at each launch.
        """
        return [self._launch.command(low, high, mask_in=mask)]


def speed_profile(
    line: Any,
    *,
    lateral: float,
    acceleration: float,
    braking: float,
    max_speed: float | None = None,
) -> SpeedProfile:
    """A :class:`SpeedProfile` of a line, computed once; its ``update`` computes it again.

    Args:
        line: A track, a :class:`RacingLine` or anything with their arrays.
        lateral: Largest speed squared times curvature [length/time^2].
        acceleration: Largest acceleration [length/time^2].
        braking: Largest deceleration [length/time^2].
        max_speed: Speed cap [length/time]; None is none.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range.
    """
    profile = SpeedProfile(
        line,
        lateral=lateral,
        acceleration=acceleration,
        braking=braking,
        max_speed=max_speed,
    )
    profile.update()
    return profile


def ideal_lap_time(
    line: Any,
    *,
    lateral: float,
    acceleration: float,
    braking: float,
    max_speed: float | None = None,
) -> wp.array:
    """Time of a flying lap [time] of the :func:`speed_profile` of a line, float32 [E].

    Args:
        line: A track, a :class:`RacingLine` or anything with their arrays.
        lateral: Largest speed squared times curvature [length/time^2].
        acceleration: Largest acceleration [length/time^2].
        braking: Largest deceleration [length/time^2].
        max_speed: Speed cap [length/time]; None is none.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range.
    """
    return speed_profile(
        line,
        lateral=lateral,
        acceleration=acceleration,
        braking=braking,
        max_speed=max_speed,
    ).lap_time
