"""The flight line of a gate course as a line of evenly spaced points, with the fields of a track.

The line through the gates (:mod:`track_gen.flight_line`) is measured by chords of 64 pieces per
interval in space and sampled at equal arc lengths, so every tool that reads a track works on a gate
course: localising, progress, look-ahead, spawning. Its borders are the edges of a level strip as
wide as the openings.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import warp as wp

from track_gen.batch import Track
from track_gen.block import (
    block_lane,
    block_prefix_sum,
    block_sync,
    scan_offsets_size,
)
from track_gen.checks import as_device_mask, check_choice, check_int, check_threads
from track_gen.flight_line import (
    LINES,
    LineInterval,
    gate_heights,
    gate_interval,
    height_slope,
    interval_acceleration,
    interval_height,
    interval_point,
    interval_velocity,
    write_gate_lines,
)
from track_gen.gate_batch import GateSequence
from track_gen.geometry import cross
from track_gen.polyline import next_index, planar
from track_gen.row_launch import RowLaunch
from track_gen.status import TrackStatus

__all__ = ["CourseLine"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

_PIECES = 64
"""Chords per interval that measure the arc length."""
_ROWS_PER_CHUNK = 16
"""Rows that are worth a worker thread."""


@wp.func
def _place(interval: LineInterval, height: wp.vec4f, u: float) -> wp.vec3f:
    p = interval_point(interval, u)
    return wp.vec3f(p[0], p[1], interval_height(height, u))


@wp.func
def _speed(interval: LineInterval, height: wp.vec4f, u: float) -> float:
    slope = height_slope(interval, height, u)[0]
    return wp.length(interval_velocity(interval, u)) * wp.sqrt(1.0 + slope * slope)


@wp.kernel
def draw_course_line_kernel(
    first_env: int,
    # In:
    mask_in: wp.array[wp.bool],
    count_in: wp.array[wp.int32],
    gates_valid_in: wp.array[wp.bool],
    attempts_in: wp.array[wp.int32],
    family_in: wp.array[wp.int32],
    position_in: wp.array2d[wp.vec3f],
    half_width_in: wp.array2d[wp.float32],
    line: int,
    # Scratch:
    lines: wp.array2d[wp.vec4f],
    lengths: wp.array2d[wp.float32],
    offsets: wp.array2d[wp.float32],
    # Out:
    center_out: wp.array2d[wp.vec3f],
    outer_out: wp.array2d[wp.vec3f],
    inner_out: wp.array2d[wp.vec3f],
    tangent_out: wp.array2d[wp.vec3f],
    normal_out: wp.array2d[wp.vec3f],
    up_out: wp.array2d[wp.vec3f],
    arclen_out: wp.array2d[wp.float32],
    curvature_out: wp.array2d[wp.float32],
    gate_arclen_out: wp.array2d[wp.float32],
    length_out: wp.array[wp.float32],
    half_width_out: wp.array[wp.float32],
    spacing_out: wp.array[wp.float32],
    valid_out: wp.array[wp.bool],
    status_out: wp.array[wp.int32],
    count_out: wp.array[wp.int32],
    winding_out: wp.array[wp.int32],
    attempts_out: wp.array[wp.int32],
    required_count_out: wp.array[wp.int32],
    family_out: wp.array[wp.int32],
):
    """Write the line of each masked env, NaN without a valid course. Launch dim (rows, lanes)."""
    row, thread = wp.tid()
    env = first_env + row
    lane = block_lane(thread)
    if not mask_in[env]:
        return
    gates = count_in[env]
    points = center_out.shape[1]
    drawn = gates_valid_in[env] and gates >= 3
    if lane == 0:
        family_out[env] = family_in[env]
    for i in range(lane, gate_arclen_out.shape[1], wp.block_dim()):
        gate_arclen_out[env, i] = wp.nan
    if not drawn:
        nothing = wp.vec3f(wp.nan, wp.nan, wp.nan)
        for i in range(lane, points, wp.block_dim()):
            center_out[env, i] = nothing
            outer_out[env, i] = nothing
            inner_out[env, i] = nothing
            tangent_out[env, i] = nothing
            normal_out[env, i] = nothing
            up_out[env, i] = nothing
            arclen_out[env, i] = wp.nan
            curvature_out[env, i] = wp.nan
        if lane == 0:
            length_out[env] = wp.nan
            half_width_out[env] = wp.nan
            spacing_out[env] = wp.nan
            valid_out[env] = False
            status_out[env] = wp.static(int(TrackStatus.NOT_GENERATED))
            count_out[env] = 0
            winding_out[env] = 0
            attempts_out[env] = attempts_in[env]
            required_count_out[env] = points
        return

    block_sync()
    write_gate_lines(position_in, lines, env, lane, gates)
    pieces = gates * wp.static(_PIECES)
    for k in range(lane, pieces, wp.block_dim()):
        i = k // wp.static(_PIECES)
        interval = gate_interval(position_in, lines, env, i, gates, line)
        height = gate_heights(interval, position_in, lines, env, i, gates)
        u = float(k - i * wp.static(_PIECES)) * wp.static(1.0 / _PIECES)
        lengths[env, k] = wp.length(
            _place(interval, height, u + wp.static(1.0 / _PIECES)) - _place(interval, height, u)
        )
    block_sync()
    block_prefix_sum(lengths, offsets, env, lane, pieces)
    length = lengths[env, pieces - 1]
    area = float(0.0)
    for i in range(gates):
        area += cross(planar(position_in[env, i]), planar(position_in[env, next_index(i, gates)]))
    winding = int(1)
    if area < 0.0:
        winding = -1
    for i in range(lane, gates, wp.block_dim()):
        start = float(0.0)
        if i > 0:
            start = lengths[env, i * wp.static(_PIECES) - 1]
        gate_arclen_out[env, i] = start
    half_width = half_width_in[env, 0]
    for k in range(lane, points, wp.block_dim()):
        target = length * (float(k) / float(points))
        low = int(0)
        high = pieces - 1
        while low < high:
            middle = (low + high) // 2
            if lengths[env, middle] > target:
                high = middle
            else:
                low = middle + 1
        before = float(0.0)
        if low > 0:
            before = lengths[env, low - 1]
        part = wp.clamp((target - before) / wp.max(lengths[env, low] - before, 1.0e-30), 0.0, 1.0)
        i = low // wp.static(_PIECES)
        interval = gate_interval(position_in, lines, env, i, gates, line)
        height = gate_heights(interval, position_in, lines, env, i, gates)
        # The speed changes linearly over a piece: the parameter solves a quadratic.
        u = float(low - i * wp.static(_PIECES)) * wp.static(1.0 / _PIECES)
        first = _speed(interval, height, u)
        last = _speed(interval, height, u + wp.static(1.0 / _PIECES))
        r = 2.0 * first / wp.max(first + last, 1.0e-30)
        root = wp.sqrt(wp.max(r * r + 4.0 * (1.0 - r) * part, 0.0))
        u += 2.0 * part / wp.max(r + root, 1.0e-6) * wp.static(1.0 / _PIECES)
        velocity = interval_velocity(interval, u)
        speed = wp.max(wp.length(velocity), 1.0e-30)
        slope = height_slope(interval, height, u)[0]
        run = 1.0 / wp.sqrt(1.0 + slope * slope)
        c = velocity[0] / speed
        s = velocity[1] / speed
        center = _place(interval, height, u)
        normal = wp.vec3f(-s, c, 0.0)
        edge = half_width * float(winding) * normal
        center_out[env, k] = center
        inner_out[env, k] = center + edge
        outer_out[env, k] = center - edge
        tangent_out[env, k] = run * wp.vec3f(c, s, slope)
        normal_out[env, k] = normal
        up_out[env, k] = run * wp.vec3f(-slope * c, -slope * s, 1.0)
        arclen_out[env, k] = target
        curvature_out[env, k] = cross(velocity, interval_acceleration(interval, u)) / (
            speed * speed * speed
        )
    if lane == 0:
        length_out[env] = length
        half_width_out[env] = half_width
        spacing_out[env] = length / float(points)
        valid_out[env] = True
        status_out[env] = 0
        count_out[env] = points
        winding_out[env] = winding
        attempts_out[env] = attempts_in[env]
        required_count_out[env] = points


@dataclass
class CourseLine(Track):
    """The closed flight line through the gates of each env, with the fields of a :class:`Track`.

    Made by :meth:`through`; :meth:`update` follows the gates. Points are evenly spaced in space,
    index 0 is gate 0. An env without a valid course has no line: count 0, NaN, not valid.
    """

    gate_arclen: wp.array = None  # type: ignore[assignment]
    """Arc length at each gate [length], NaN past the gates, float32, shape [E, max_gates]."""

    @classmethod
    def through(
        cls,
        gates: GateSequence,
        line: str = "arc",
        num_points: int = 256,
        *,
        num_threads: int | None = None,
    ) -> CourseLine:
        """Make the line of a batch of courses and draw it.

        Args:
            gates: Courses; kept, and read by :meth:`update`.
            line: Handles of the line, as ``GateGenConfig.line``.
            num_points: Points per env, in [16, 4095].
            num_threads: CPU threads; None is one per core.

        Raises:
            TypeError: If an argument has the wrong type.
            ValueError: If a value is out of range.
        """
        if not isinstance(gates, GateSequence):
            raise TypeError(f"CourseLine needs a GateSequence, got {type(gates).__name__}")
        number = LINES.index(check_choice("CourseLine.through(line)", line, LINES))
        points = check_int("CourseLine.through(num_points)", num_points, low=16, high=4095)
        num_threads = check_threads("CourseLine.through(num_threads)", num_threads)
        E, G, device = gates.num_envs, gates.max_gates, gates.device

        def scratch(size: int, dtype: Any) -> wp.array:
            return wp.zeros((E, size), dtype=dtype, device=device)

        track = Track.allocate(E, points, device)
        course = cls(
            **track.arrays(),
            gate_arclen=wp.full((E, G), wp.nan, dtype=wp.float32, device=device),
        )
        every = wp.full(E, True, dtype=wp.bool, device=device)
        working = [
            scratch(G, wp.vec4f),
            scratch(G * _PIECES, wp.float32),
            scratch(scan_offsets_size(G * _PIECES), wp.float32),
        ]
        names = ("center", "outer", "inner", "tangent", "normal", "up", "arclen", "curvature")
        scalars = ("length", "half_width", "spacing", "valid", "status", "count", "winding")
        arrays = course.arrays()
        lanes = 64 if device.is_cuda else 1
        launch = RowLaunch(
            draw_course_line_kernel,
            E,
            (lanes,),
            inputs=[
                every,
                gates.count,
                gates.valid,
                gates.attempts,
                gates.family,
                gates.position,
                gates.half_width,
                number,
                *working,
            ],
            outputs=[
                *(arrays[name] for name in names),
                course.gate_arclen,
                *(arrays[name] for name in scalars),
                course.attempts,
                course.required_count,
                course.family,
            ],
            device=device,
            num_threads=num_threads,
            block_dim=lanes,
            rows_per_chunk=_ROWS_PER_CHUNK,
        )
        course._source = (gates, every, launch)
        course.update()
        return course

    def update(self, mask: Any = None) -> None:
        """Draw the lines of all envs again, or of the masked ones; can be captured.

        Args:
            mask: Envs, bool [E] as Warp array, torch tensor or NumPy array, or None for all.

        Raises:
            TypeError: If the dtype is wrong, or the line is a copy without gates.
            ValueError: If the shape or device is wrong.
            RuntimeError: In an open capture, with a NumPy mask.
        """
        source = getattr(self, "_source", None)
        if source is None:
            raise TypeError("this CourseLine is a copy: it has no gates to follow")
        _, every, launch = source
        chosen = (
            every
            if mask is None
            else as_device_mask("CourseLine.update(mask)", mask, self.num_envs, self.device)
        )
        launch(mask_in=chosen)

    @classmethod
    def load(cls, path: str | Path, device: Any = None) -> CourseLine:
        """Not there: what :meth:`save` writes is a track, and ``Track.load`` reads it.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "a CourseLine follows the gates it was made for: read the line with Track.load, or the "
            "gates with GateSequence.load and draw it with CourseLine.through"
        )

    def arrays(self) -> dict[str, wp.array]:
        """All arrays by field name, not copied."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
