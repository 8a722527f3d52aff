"""What a track is like, in numbers that do not depend on how densely it is sampled.

Curvature here is the turning within 1.25 half widths to either side of a point, divided by that arc
of 2.5 half widths: the curvature that a road of this width has, whatever the spacing of its points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from track_gen.geometry import cross
from track_gen.polyline import planar, walk_step
from track_gen.runtime.racing_line import SpeedProfile
from track_gen.runtime.rows import RowLaunch, as_mask
from track_gen.runtime.view import TrackView, is_drivable, track_view, vertex_curvature

__all__ = ["TrackMetrics"]

wp.set_module_options({"enable_backward": False})

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


@wp.kernel
def metrics_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    # Scratch:
    smooth: wp.array2d[wp.float32],
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
    """Measure each masked env. Launch dim (rows,)."""
    env = first_env + wp.tid()
    if not mask_in[env]:
        return
    if not is_drivable(view, env):
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

    # Plan-view perimeter, area, longest edge.
    perimeter = float(0.0)
    area = float(0.0)
    longest_edge = float(0.0)
    before = planar(view.center[env, n - 1]) - origin
    for i in range(n):
        here = planar(view.center[env, i]) - origin
        edge = wp.length(here - before)
        perimeter += edge
        longest_edge = wp.max(longest_edge, edge)
        area += 0.5 * cross(before, here)
        before = here
    area = wp.abs(area)
    h = perimeter / float(n)

    # Curvature over a fixed arc; the turning of a vertex fills the cell around it.
    reach = wp.static(WINDOW) * half_width / h - 0.5
    whole = wp.clamp(int(wp.floor(reach)), 0, (n - 1) // 2 - 1)
    part = wp.clamp(reach - float(whole), 0.0, 1.0)
    arc = h * (2.0 * (float(whole) + part) + 1.0)
    largest = float(0.0)
    total = float(0.0)
    straight = int(0)
    first_curved = int(-1)
    for i in range(n):
        turning = float(0.0)
        for k in range(-whole - 1, whole + 2):
            j = i + k
            if j < 0:
                j += n
            if j >= n:
                j -= n
            weight = float(1.0)
            if k == -whole - 1 or k == whole + 1:
                weight = part
            turning += weight * vertex_curvature(view, env, j) * h
        value = turning / arc
        smooth[env, i] = value
        size = wp.abs(value)
        largest = wp.max(largest, size)
        total += size * h
        if size * half_width < wp.static(STRAIGHT):
            straight += 1
        elif first_curved < 0:
            first_curved = i

    entropy = float(0.0)
    for b in range(wp.static(ENTROPY_BINS)):
        inside = int(0)
        for i in range(n):
            scaled = (smooth[env, i] * half_width + 1.0) * wp.static(0.5 * ENTROPY_BINS)
            bin = wp.clamp(int(wp.floor(scaled)), 0, wp.static(ENTROPY_BINS - 1))
            if bin == b:
                inside += 1
        if inside > 0:
            share = float(inside) / float(n)
            entropy -= share * wp.log2(share)

    # Stretches, from the first place that is not straight once round the loop.
    left = int(0)
    right = int(0)
    longest = int(0)
    run = int(0)
    turned = float(0.0)
    sign = float(0.0)
    if first_curved < 0:
        longest = n
    else:
        for step in range(n + 1):
            i = first_curved + step
            if i >= n:
                i -= n
            value = smooth[env, i]
            now = float(0.0)
            if wp.abs(value) * half_width >= wp.static(STRAIGHT):
                now = wp.sign(value)
            if now == 0.0:
                run += 1
                longest = wp.max(longest, run)
            else:
                run = 0
            if now != sign or step == n:
                if turned >= wp.static(TURN):
                    left += 1
                if turned <= wp.static(-TURN):
                    right += 1
                turned = 0.0
                sign = now
            turned += value * h

    # Least distance of two stretches that lead away from each other and come back.
    closest = float(wp.inf)
    for i in range(n):
        here = planar(view.center[env, i])
        s = int(2)
        while s <= n // 2:
            j = i + s
            if j >= n:
                j -= n
            distance = wp.length(planar(view.center[env, j]) - here)
            if float(s) * h >= wp.static(APPROACH) * distance:
                closest = wp.min(closest, distance)
            if distance > closest:
                s += walk_step(distance, closest, longest_edge)
            else:
                s += 1

    length_out[env] = view.length[env]
    area_out[env] = area
    compactness_out[env] = wp.static(4.0 * np.pi) * area / (perimeter * perimeter)
    max_curvature_out[env] = largest
    min_radius_out[env] = 1.0 / largest
    mean_abs_curvature_out[env] = total / perimeter
    curvature_entropy_out[env] = entropy
    turns_left_out[env] = float(left)
    turns_right_out[env] = float(right)
    straight_fraction_out[env] = float(straight) / float(n)
    longest_straight_out[env] = float(longest) * h
    min_clearance_out[env] = closest - 2.0 * half_width


class TrackMetrics:
    """Metrics of every env of a track, on the device.

    Call :meth:`update` after ``generate`` with the same mask; it allocates nothing, synchronises
    nothing and can be captured, so it may be part of the same graph. Envs without a valid track get
    NaN in every metric.

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
    """Flying lap along the centerline within the limits [time], float32 [E]; see SpeedProfile."""

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
        self.track = track
        E, N = track.center.shape
        device = self.device = track.center.device
        self.num_envs = E
        self.names = tuple(name for name in TrackMetrics.__annotations__)
        """Names of the metrics."""
        self._profile = SpeedProfile(
            track,
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
        self._launch = RowLaunch(
            metrics_kernel,
            E,
            (),
            inputs=[
                track_view(track),
                self.every_env,
                wp.empty((E, N), dtype=wp.float32, device=device),
            ],
            outputs=[getattr(self, name) for name in self.names[:-1]],
            device=device,
            num_threads=num_threads,
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

    def numpy(self) -> dict[str, np.ndarray]:
        """All metrics as NumPy copies by name (an explicit synchronisation)."""
        return {name: getattr(self, name).numpy().copy() for name in self.names}
