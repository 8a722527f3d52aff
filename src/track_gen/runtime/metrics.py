"""What a track is like, in numbers that do not depend on how densely it is sampled.

Curvature here is the turning within 1.25 half widths to either side of a point, divided by that arc
of 2.5 half widths: the curvature that a road of this width has, whatever the spacing of its points.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import warp as wp

from track_gen.block import block_lane, block_max, block_min, block_sum_int, block_sync
from track_gen.checks import check_threads
from track_gen.geometry import cross, point_segment_distance_squared
from track_gen.polyline import next_index, planar, previous_index, walk_step
from track_gen.row_launch import RowLaunch
from track_gen.runtime.racing_line import SpeedProfile
from track_gen.runtime.rows import as_mask, check_track
from track_gen.runtime.view import TrackView, is_drivable, track_view, vertex_curvature

__all__ = ["TrackMetrics"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

WINDOW = 1.25
"""Half of the arc over which curvature is averaged [half widths]."""
STRAIGHT = 0.1
"""Curvature times half width below which a place is straight."""
TURN = 0.35
"""Turning [rad] from which a stretch of one sign that is not straight counts as a turn."""
ENTROPY_BINS = 16
"""Equal bins of curvature times half width from -1 to 1."""
APPROACH = 1.5
"""Two places approach each other if the arc between them is at least this many chords."""

_CHUNK = 16
_SHARE = 4096
_LANES = 64


@wp.func
def _straight_part(a: float, b: float, limit: float) -> float:
    """Share of an edge whose curvature, ``a`` to ``b`` along it, lies within +-``limit``."""
    low = wp.min(a, b)
    high = wp.max(a, b)
    if high - low < 1.0e-6 * limit:
        return wp.where(wp.abs(low) < limit, 1.0, 0.0)
    return wp.max(wp.min(high, limit) - wp.max(low, -limit), 0.0) / (high - low)


@wp.func
def _bend(value: float, limit: float) -> int:
    """0 for a straight place, 1 for a left bend, -1 for a right one."""
    if wp.abs(value) < limit:
        return 0
    if value > 0.0:
        return 1
    return -1


@wp.func
def _count_bins(env: int, a: float, b: float, histogram: wp.array2d[wp.int32]):
    """Spread one edge, curvature ``a`` to ``b`` in bins, over the bins that it passes."""
    low = wp.clamp(wp.min(a, b), 0.0, wp.static(ENTROPY_BINS - 1.0e-3))
    high = wp.clamp(wp.max(a, b), 0.0, wp.static(ENTROPY_BINS - 1.0e-3))
    first = int(low)
    last = int(high)
    if first == last:
        wp.atomic_add(histogram, env, first, wp.static(_SHARE))
    else:
        scale = wp.static(float(_SHARE)) / (high - low)
        for k in range(first, last + 1):
            inside = wp.min(high, float(k + 1)) - wp.max(low, float(k))
            wp.atomic_add(histogram, env, k, int(wp.round(scale * inside)))


@wp.func
def _turned_away(view: TrackView, env: int, i: int, longest_edge: float) -> float:
    """At least the absolute turn at a point."""
    return wp.abs(vertex_curvature(view, env, i)) * longest_edge


@wp.func
def _approach_of_edge(
    view: TrackView, env: int, n: int, h: float, i: int, j: int, s: int, closest: float
) -> float:
    """``closest``, or the least distance of point ``i`` to the edge that ends at ``j``, ``s`` on.

    Of the edge only the part counts that is far enough along the line.
    """
    here = planar(view.center[env, i])
    there = planar(view.center[env, j])
    distance = wp.length(there - here)
    lack = wp.static(APPROACH) * distance - float(s) * h
    if lack > 0.0:
        return closest
    last = planar(view.center[env, previous_index(j, n)])
    gap = wp.length(last - here)
    lacked = wp.static(APPROACH) * gap - float(s - 1) * h
    if lacked > 0.0:
        t = lacked / (lacked - lack)
        return wp.min(wp.min(closest, gap + t * (distance - gap)), distance)
    return wp.min(closest, wp.sqrt(point_segment_distance_squared(here, last, there - last)))


@wp.func
def _closest_approach(
    view: TrackView,
    env: int,
    lane: int,
    n: int,
    h: float,
    shortest_edge: float,
    longest_edge: float,
) -> float:
    """Least distance of two stretches that lead away from each other and come back.

    An arc that turns by less than an angle ``2 a`` in all is shorter than its chord over ``cos a``
    (Schur's comparison theorem), so each point looks at what lies beyond as much turning as an
    approach takes. Four neighbours look together, through the eyes of the second of them. What is
    skipped is farther than what was found, so the result does not depend on the order.
    """
    closest = float(wp.inf)
    opposite = n // 2
    for i in range(lane, n, wp.block_dim()):
        j = i + opposite
        if j >= n:
            j -= n
        distance = wp.length(planar(view.center[env, j]) - planar(view.center[env, i]))
        if float(opposite) * h >= wp.static(APPROACH) * distance:
            closest = wp.min(closest, distance)
    closest = block_min(wp.min(closest, 1.0e30))

    needed = 1.98 * wp.acos(wp.min(h / (wp.static(APPROACH) * shortest_edge), 1.0))
    slack = 2.0 * longest_edge  # of the neighbours around the second of them
    groups = (n + 3) // 4
    share = 4 * ((groups + wp.block_dim() - 1) // wp.block_dim())
    first = lane * share
    turned = float(0.0)  # within the points first + 1 to first + begin - 1
    begin = int(1)
    while first < wp.min(lane * share + share, n):
        while begin <= opposite and turned < needed:
            turned += _turned_away(view, env, (first + begin) % n, longest_edge)
            begin += 1
        second = (first + 1) % n
        here = planar(view.center[env, second])
        s = wp.max(begin - 1, 1)
        while s <= opposite + 2:
            j = (second + s) % n
            distance = wp.length(planar(view.center[env, j]) - here) - slack
            # Arc and distance change by at most an edge per index each.
            lack = wp.static(APPROACH) * distance - float(s + 1) * h
            step = int(1)
            if lack > 0.0:
                step = int(lack / (h + wp.static(APPROACH) * longest_edge))
            elif distance < closest + longest_edge:
                for k in range(4):
                    arc = s + 1 - k
                    if arc >= 2 and arc <= opposite:
                        i = (first + k) % n
                        closest = _approach_of_edge(view, env, n, h, i, j, arc, closest)
            if distance > closest + longest_edge:
                step = wp.max(step, walk_step(distance, closest + longest_edge, longest_edge))
            s += wp.max(step, 1)
        for k in range(4):
            if begin > 1:
                turned -= _turned_away(view, env, (first + 1 + k) % n, longest_edge)
                begin -= 1
        first += 4
    return block_min(closest)


@wp.kernel
def metrics_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    # Scratch:
    smooth: wp.array2d[wp.float32],
    partial: wp.array2d[wp.float32],
    histogram: wp.array2d[wp.int32],
    # Out:
    length_out: wp.array[wp.float32],
    area_out: wp.array[wp.float32],
    compactness_out: wp.array[wp.float32],
    max_curvature_out: wp.array[wp.float32],
    min_radius_out: wp.array[wp.float32],
    mean_abs_curvature_out: wp.array[wp.float32],
    curvature_entropy_out: wp.array[wp.float32],
    turns_left_out: wp.array[wp.float32],
    turns_right_out: wp.array[wp.float32],
    straight_fraction_out: wp.array[wp.float32],
    longest_straight_out: wp.array[wp.float32],
    min_clearance_out: wp.array[wp.float32],
):
    """Measure each masked env. Launch dim (rows, lanes).

    Sums go over fixed chunks, so the results do not depend on the number of lanes.
    """
    row, thread = wp.tid()
    lane = block_lane(thread)
    env = first_env + row
    if not mask_in[env]:
        return
    if not is_drivable(view, env):
        if lane == 0:
            length_out[env] = wp.nan
            area_out[env] = wp.nan
            compactness_out[env] = wp.nan
            max_curvature_out[env] = wp.nan
            min_radius_out[env] = wp.nan
            mean_abs_curvature_out[env] = wp.nan
            curvature_entropy_out[env] = wp.nan
            turns_left_out[env] = wp.nan
            turns_right_out[env] = wp.nan
            straight_fraction_out[env] = wp.nan
            longest_straight_out[env] = wp.nan
            min_clearance_out[env] = wp.nan
        return
    n = view.count[env]
    half_width = view.half_width[env]
    origin = planar(view.center[env, 0])
    chunks = (n + wp.static(_CHUNK - 1)) // wp.static(_CHUNK)
    second = partial.shape[1] // 2

    # Plan-view perimeter, area, longest edge.
    longest_edge = float(0.0)
    shortest_edge = float(1.0e30)
    for chunk in range(lane, chunks, wp.block_dim()):
        some_length = float(0.0)
        some_area = float(0.0)
        for i in range(
            chunk * wp.static(_CHUNK), wp.min(chunk * wp.static(_CHUNK) + wp.static(_CHUNK), n)
        ):
            here = planar(view.center[env, i]) - origin
            there = planar(view.center[env, next_index(i, n)]) - origin
            edge = wp.length(there - here)
            longest_edge = wp.max(longest_edge, edge)
            shortest_edge = wp.min(shortest_edge, edge)
            some_length += edge
            some_area += 0.5 * cross(here, there)
        partial[env, chunk] = some_length
        partial[env, second + chunk] = some_area
    for k in range(lane, wp.static(ENTROPY_BINS), wp.block_dim()):
        histogram[env, k] = 0
    longest_edge = block_max(longest_edge)
    shortest_edge = block_min(shortest_edge)
    block_sync()
    perimeter = float(0.0)
    area = float(0.0)
    for chunk in range(chunks):
        perimeter += partial[env, chunk]
        area += partial[env, second + chunk]
    area = wp.abs(area)
    h = perimeter / float(n)

    # Curvature over a fixed arc; the turning of a vertex fills the cell around it.
    reach = wp.static(WINDOW) * half_width / h - 0.5
    whole = wp.clamp(int(wp.floor(reach)), 0, (n - 1) // 2 - 1)
    part = wp.clamp(reach - float(whole), 0.0, 1.0)
    width = 1.0 / (2.0 * (float(whole) + part) + 1.0)
    largest = float(0.0)
    for i in range(lane, n, wp.block_dim()):
        before = i - whole - 1
        if before < 0:
            before += n
        after = i + whole + 1
        if after >= n:
            after -= n
        turning = part * (vertex_curvature(view, env, before) + vertex_curvature(view, env, after))
        j = before
        for _ in range(2 * whole + 1):
            j = next_index(j, n)
            turning += vertex_curvature(view, env, j)
        value = turning * width
        smooth[env, i] = value
        largest = wp.max(largest, wp.abs(value))
    largest = block_max(largest)
    block_sync()

    limit = wp.static(STRAIGHT) / half_width
    longest = float(0.0)
    left = int(0)
    right = int(0)
    changes = int(0)
    for chunk in range(lane, chunks, wp.block_dim()):
        some_total = float(0.0)
        some_straight = float(0.0)
        for i in range(
            chunk * wp.static(_CHUNK), wp.min(chunk * wp.static(_CHUNK) + wp.static(_CHUNK), n)
        ):
            a = smooth[env, i]
            b = smooth[env, next_index(i, n)]
            some_total += wp.abs(a)
            straight = _straight_part(a, b, limit)
            some_straight += straight
            bins = wp.static(0.5 * ENTROPY_BINS)
            _count_bins(
                env, (a * half_width + 1.0) * bins, (b * half_width + 1.0) * bins, histogram
            )

            # A stretch belongs to its first point, or to the edge that only crosses straight.
            behind = smooth[env, previous_index(i, n)]
            now = _bend(a, limit)
            if now != 0:
                longest = wp.max(longest, straight)
            if _bend(behind, limit) != now:
                changes += 1
                run = float(0.0)
                if now == 0:
                    run = _straight_part(behind, a, limit)
                turned = float(0.0)
                j = i
                value = a
                same = bool(True)
                while same:
                    turned += value * h
                    j = next_index(j, n)
                    following = smooth[env, j]
                    if now == 0:
                        run += _straight_part(value, following, limit)
                    value = following
                    same = _bend(value, limit) == now
                if now == 0:
                    longest = wp.max(longest, run)
                elif turned >= wp.static(TURN):
                    left += 1
                elif turned <= wp.static(-TURN):
                    right += 1
        partial[env, chunk] = some_total
        partial[env, second + chunk] = some_straight
    longest = block_max(longest)
    left = block_sum_int(left)
    right = block_sum_int(right)
    changes = block_sum_int(changes)
    closest = _closest_approach(view, env, lane, n, h, shortest_edge, longest_edge)
    block_sync()
    if lane != 0:
        return

    total = float(0.0)
    straight = float(0.0)
    for chunk in range(chunks):
        total += partial[env, chunk]
        straight += partial[env, second + chunk]
    if changes == 0:  # one stretch without an end
        only = _bend(smooth[env, 0], limit)
        if only == 0:
            longest = float(n)
        elif only > 0:
            left = 1
        else:
            right = 1
    points = int(0)
    for k in range(wp.static(ENTROPY_BINS)):
        points += histogram[env, k]
    entropy = float(0.0)
    for k in range(wp.static(ENTROPY_BINS)):
        if histogram[env, k] > 0:
            share = float(histogram[env, k]) / float(points)
            entropy -= share * wp.log2(share)

    length_out[env] = view.length[env]
    area_out[env] = area
    compactness_out[env] = wp.static(4.0 * np.pi) * area / (perimeter * perimeter)
    max_curvature_out[env] = largest
    min_radius_out[env] = 1.0 / largest
    mean_abs_curvature_out[env] = total / float(n)
    curvature_entropy_out[env] = entropy
    turns_left_out[env] = float(left)
    turns_right_out[env] = float(right)
    straight_fraction_out[env] = straight / float(n)
    longest_straight_out[env] = longest * h
    min_clearance_out[env] = closest - 2.0 * half_width


class TrackMetrics:
    """Metrics of every env of a track, on the device.

    ``TrackGenConfig(metrics=True)`` measures each track as it is generated, in the same graph: see
    ``TrackGenerator.metrics``. For other limits, or for tracks from elsewhere, make one and call
    :meth:`update` after ``generate`` with the same mask; it allocates nothing, synchronises nothing
    and can be captured. Envs without a valid track get NaN in every metric.

    Args:
        track: A track or anything with its arrays; read at each update.
        lateral: Largest speed squared times curvature, for ``ideal_lap_time`` [length/time^2].
        acceleration: Largest acceleration [length/time^2].
        braking: Largest deceleration [length/time^2].
        max_speed: Speed cap [length/time]; None is none.
        num_threads: CPU threads; None is one per core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range.
    """

    length: wp.array
    """Closed perimeter [length], float32 [E]."""
    area: wp.array
    """Area inside the centerline in plan view [length^2], float32 [E]."""
    compactness: wp.array
    """4 pi area / perimeter^2, 1 for a circle, float32 [E]."""
    max_curvature: wp.array
    """Largest absolute curvature [1/length], float32 [E]."""
    min_radius: wp.array
    """Its inverse [length], float32 [E]."""
    mean_abs_curvature: wp.array
    """Mean absolute curvature over the length [1/length], float32 [E]."""
    curvature_entropy: wp.array
    """Entropy of curvature * half_width in 16 bins over [-1, 1] [bits], float32 [E]."""
    turns_left: wp.array
    """Left turns of at least 20 degrees, float32 [E]."""
    turns_right: wp.array
    """Right turns of at least 20 degrees, float32 [E]."""
    straight_fraction: wp.array
    """Share of the length where curvature * half_width is below 0.1, float32 [E]."""
    longest_straight: wp.array
    """Longest stretch of that kind, over the seam too [length], float32 [E]."""
    min_clearance: wp.array
    """Least free space between two stretches of road that come back to each other (the arc between
    them is at least 1.5 times their distance): distance minus the width [length], float32 [E]."""
    ideal_lap_time: wp.array
    """Flying lap along the centerline within the limits [time], float32 [E]: that of SpeedProfile,
    with the curvature of this module."""

    def __init__(
        self,
        track: Any,
        *,
        lateral: float = 4.0,
        acceleration: float = 2.0,
        braking: float = 4.0,
        max_speed: float | None = None,
        num_threads: int | None = None,
    ) -> None:
        check_track("TrackMetrics", track)
        num_threads = check_threads("TrackMetrics.num_threads", num_threads)
        self.track = track
        E, N = track.center.shape
        device = self.device = track.center.device
        self.num_envs = E
        self.names = tuple(name for name in TrackMetrics.__annotations__)
        """Names of the metrics."""
        smooth = wp.empty((E, N), dtype=wp.float32, device=device)
        names = ("center", "outer", "inner", "tangent", "normal", "arclen", "length", "half_width")
        names += ("count", "winding", "valid")
        line = SimpleNamespace(curvature=smooth, **{name: getattr(track, name) for name in names})
        self._profile = SpeedProfile(
            line,
            lateral=lateral,
            acceleration=acceleration,
            braking=braking,
            max_speed=max_speed,
            num_threads=num_threads,
        )
        self.ideal_lap_time = self._profile.lap_time
        for name in self.names[:-1]:
            setattr(self, name, wp.full(E, np.nan, dtype=wp.float32, device=device))
        self.every_env = self._profile.every_env
        """A mask of all envs, bool [E]."""
        lanes = _LANES if device.is_cuda else 1
        self._launch = RowLaunch(
            metrics_kernel,
            E,
            (lanes,),
            inputs=[
                track_view(track),
                self.every_env,
                smooth,
                wp.empty((E, 2 * (-(-N // _CHUNK))), dtype=wp.float32, device=device),
                wp.empty((E, ENTROPY_BINS), dtype=wp.int32, device=device),
            ],
            outputs=[getattr(self, name) for name in self.names[:-1]],
            device=device,
            num_threads=num_threads,
            block_dim=lanes,
            rows_per_chunk=64,
        )

    def update(self, mask: Any = None) -> None:
        """Measure all envs, or the masked ones; the others keep their metrics.

        Args:
            mask: Envs, bool [E] as Warp array or torch tensor, or None for all.

        Raises:
            TypeError: If the dtype is wrong.
            ValueError: If the shape or device is wrong.
        """
        name = "TrackMetrics.update(mask)"
        chosen = as_mask(name, mask, self.every_env, self.num_envs, self.device)
        self._launch(mask_in=chosen)
        self._profile.update(chosen)

    def commands(self, low: int, high: int, mask: wp.array) -> list[wp.Launch]:
        """The launches of :meth:`update` over a range of rows, for a pipeline to launch.

        Args:
            low: First row.
            high: Row after the last.
            mask: Envs to work on, bool [E] on the device; read at each launch.
        """
        measure = self._launch.command(low, high, mask_in=mask)
        return [measure, *self._profile.commands(low, high, mask)]

    def numpy(self) -> dict[str, np.ndarray]:
        """All metrics as NumPy copies by name (an explicit synchronisation)."""
        return {name: getattr(self, name).numpy().copy() for name in self.names}
