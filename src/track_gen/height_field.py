"""Height maps of tracks: the road's surface on a regular grid, continued smoothly off the road.

On the road the height is that of the ruled surface between the two borders: inside each piece of
road it is interpolated along the cross section through the sample, so it is exact under the
centreline and the borders, banking included. Off the road it is the mean of the borders' heights
weighted by the inverse fourth power of the distance (Shepard: A two-dimensional interpolation
function for irregularly-spaced data, ACM 1968), which tends to the border's height on the way to
it, is continuous everywhere, and stays between the lowest and the highest border.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from track_gen.batch import Track
from track_gen.checks import check_float, check_int
from track_gen.geometry import cross
from track_gen.polyline import next_index, planar

__all__ = ["HeightField"]

wp.set_module_options({"enable_backward": False})

NEAREST = 1.0e-6
"""Square of the distance [half widths] below which a border counts as reached."""


@wp.kernel
def frame_kernel(
    # In:
    outer_in: wp.array2d[wp.vec3f],
    half_width_in: wp.array[wp.float32],
    count_in: wp.array[wp.int32],
    margin: float,
    extent: float,
    resolution: int,
    # Out:
    origin_out: wp.array[wp.vec2f],
    cell_out: wp.array[wp.float32],
):
    """Place the square grid of each env about its road. Launch dim (E,)."""
    env = wp.tid()
    low = wp.vec2f(wp.inf, wp.inf)
    high = wp.vec2f(-wp.inf, -wp.inf)
    for i in range(count_in[env]):
        p = planar(outer_in[env, i])
        low = wp.min(low, p)
        high = wp.max(high, p)
    middle = 0.5 * (low + high)
    side = extent
    if side <= 0.0:
        side = wp.max(high[0] - low[0], high[1] - low[1]) + 2.0 * margin * half_width_in[env]
    if count_in[env] <= 0:
        middle = wp.vec2f(wp.nan, wp.nan)
        side = wp.nan
    cell = side / float(resolution - 1)
    cell_out[env] = cell
    origin_out[env] = middle - wp.vec2f(0.5 * side, 0.5 * side)


@wp.func
def _inside(a: wp.vec2f, b: wp.vec2f, p: wp.vec2f, sense: float, slack: float) -> bool:
    """Whether ``p`` is left of ``a .. b`` (right if ``sense`` is -1), up to rounding."""
    return sense * cross(b - a, p - a) >= -slack


@wp.func
def _along(a0: wp.vec2f, a1: wp.vec2f, b0: wp.vec2f, b1: wp.vec2f, p: wp.vec2f) -> float:
    """``t`` in [0, 1] so that ``p`` lies on the cross section from ``a(t)`` to ``b(t)``.

    The signed area of (a(t), b(t), p) is a quadratic in ``t``, almost linear for a piece of road.
    """
    c0 = cross(b0 - a0, p - a0)
    c2 = cross(b1 - b0 - a1 + a0, a0 - a1)
    c1 = cross(b1 - a1, p - a1) - c0 - c2
    # The root next to 0, in the form that does not cancel.
    root = wp.sqrt(wp.max(c1 * c1 - 4.0 * c0 * c2, 0.0))
    if c1 < 0.0:
        root = -root
    t = float(0.0)
    if c1 + root != 0.0:
        t = wp.clamp(-2.0 * c0 / (c1 + root), 0.0, 1.0)
    return t


@wp.func
def _border(p: wp.vec2f, a: wp.vec3f, b: wp.vec3f, tiny: float) -> wp.vec2f:
    """Weight and height of the point of border edge ``a .. b`` nearest to ``p``."""
    edge = planar(b) - planar(a)
    offset = p - planar(a)
    squared = wp.max(wp.dot(edge, edge), 1.0e-30)
    t = wp.clamp(wp.dot(offset, edge) / squared, 0.0, 1.0)
    gap = offset - t * edge
    near = wp.dot(gap, gap) / tiny + 1.0
    return wp.vec2f(wp.sqrt(squared) / (near * near), a[2] + t * (b[2] - a[2]))


@wp.kernel
def height_kernel(
    # In:
    outer_in: wp.array2d[wp.vec3f],
    inner_in: wp.array2d[wp.vec3f],
    half_width_in: wp.array[wp.float32],
    winding_in: wp.array[wp.int32],
    count_in: wp.array[wp.int32],
    origin_in: wp.array[wp.vec2f],
    cell_in: wp.array[wp.float32],
    # Out:
    heights_out: wp.array3d[wp.float32],
):
    """Height at each sample of each env. Launch dim (E, resolution, resolution), y before x."""
    env, row, column = wp.tid()
    n = count_in[env]
    if n <= 0:
        heights_out[env, row, column] = wp.nan
        return
    half_width = half_width_in[env]
    p = origin_in[env] + cell_in[env] * wp.vec2f(float(column), float(row))
    sense = float(winding_in[env])
    tiny = wp.static(NEAREST) * half_width * half_width
    slack = 1.0e-6 * half_width * half_width
    base = outer_in[env, 0][2]
    weight = float(0.0)
    total = float(0.0)
    height = float(0.0)
    found = bool(False)
    for i in range(n):
        j = next_index(i, n)
        o0 = outer_in[env, i]
        o1 = outer_in[env, j]
        n0 = inner_in[env, i]
        n1 = inner_in[env, j]
        if not found:
            a0 = planar(o0)
            a1 = planar(o1)
            b0 = planar(n0)
            b1 = planar(n1)
            if (
                _inside(a0, a1, p, sense, slack)
                and _inside(a1, b1, p, sense, slack)
                and _inside(b1, b0, p, sense, slack)
                and _inside(b0, a0, p, sense, slack)
            ):
                found = True
                t = _along(a0, a1, b0, b1, p)
                a = a0 + t * (a1 - a0)
                b = b0 + t * (b1 - b0)
                s = wp.clamp(wp.dot(p - a, b - a) / wp.dot(b - a, b - a), 0.0, 1.0)
                z_a = o0[2] + t * (o1[2] - o0[2])
                z_b = n0[2] + t * (n1[2] - n0[2])
                height = z_a + s * (z_b - z_a)
            else:
                outer = _border(p, o0, o1, tiny)
                inner = _border(p, n0, n1, tiny)
                weight += outer[0] + inner[0]
                total += outer[0] * (outer[1] - base) + inner[0] * (inner[1] - base)
    if not found:
        height = base + total / weight
    heights_out[env, row, column] = height


class HeightField:
    """Heights over the plan view of each env on a square grid, on the device of the track.

    A sample is exact: on the road it is the height of the road's surface there, under the
    centreline that of the centreline. Bilinear interpolation between samples stays between its four
    corners, so within a level road it is off by at most ``sqrt(2) * max_grade * cell``.

    Args:
        track: Batch of tracks; kept, and read at each :meth:`update`.
        resolution: Samples per side of the grid, in [2, 4096].
        margin: Free space round the road's bounding box [half widths], >= 0.
        extent: Side of the grid of every env [length], > 0; None fits each env with its margin.

    Raises:
        ValueError: If a number is out of bounds.
        TypeError: If a type is wrong.
    """

    def __init__(
        self,
        track: Track,
        resolution: int = 128,
        margin: float = 2.0,
        extent: float | None = None,
    ) -> None:
        if not isinstance(track, Track):
            raise TypeError(f"HeightField needs a Track, got {type(track).__name__}")
        self.resolution = check_int("HeightField.resolution", resolution, low=2, high=4096)
        self.margin = check_float("HeightField.margin", margin, 0.0)
        self.extent = (
            None
            if extent is None
            else check_float("HeightField.extent", extent, 0.0, low_open=True)
        )
        self.track = track
        E, device = track.num_envs, track.device
        self.heights: wp.array = wp.full(
            (E, self.resolution, self.resolution), np.nan, dtype=wp.float32, device=device
        )
        """Heights [length], float32, shape [E, resolution, resolution]: y first, then x.

        NaN for an env without a road.
        """
        self.origin: wp.array = wp.zeros(E, dtype=wp.vec2f, device=device)
        """x and y of sample [0, 0] [length], vec2f, shape [E]."""
        self.cell: wp.array = wp.zeros(E, dtype=wp.float32, device=device)
        """Distance of neighbouring samples [length], float32, shape [E]."""
        self._commands: list[Any] = [
            wp.launch(
                frame_kernel,
                dim=E,
                inputs=[
                    track.outer,
                    track.half_width,
                    track.count,
                    self.margin,
                    0.0 if self.extent is None else self.extent,
                    self.resolution,
                ],
                outputs=[self.origin, self.cell],
                device=device,
                record_cmd=True,
            ),
            wp.launch(
                height_kernel,
                dim=(E, self.resolution, self.resolution),
                inputs=[
                    track.outer,
                    track.inner,
                    track.half_width,
                    track.winding,
                    track.count,
                    self.origin,
                    self.cell,
                ],
                outputs=[self.heights],
                device=device,
                record_cmd=True,
            ),
        ]
        self.update()

    def update(self) -> wp.array:
        """Follow the track after its generator ran; two launches, no allocation, can be captured.

        Returns:
            ``heights``.
        """
        for command in self._commands:
            command.launch()
        return self.heights
