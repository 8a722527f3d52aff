"""Random corners in angular order, and a curve through them that does not cross itself.

Shared by the bezier and the hull family; :func:`place_corners` and :func:`sort_by_angle` give the
anchors alone, without a curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import warp as wp

from track_gen.block import block_sum_int, block_sync
from track_gen.checks import check_int
from track_gen.generators.crossings import allocate_boxes, build_boxes, mark_crossings
from track_gen.generators.spec import GeneratorSettings
from track_gen.geometry import cubic_bezier
from track_gen.parameters import Knob, Range
from track_gen.rng import draw_int, draw_uniform, draw_words

__all__ = [
    "MAX_CORNERS",
    "CornerSettings",
    "allocate_corners",
    "allocate_curve",
    "draw_simple_curve",
    "place_corners",
    "sort_by_angle",
]

wp.set_module_options({"enable_backward": False})

MAX_CORNERS = 64
"""Largest number of corners: the cells in use are the bits of one 64-bit word."""

_GRID = 8
_FIRST_CELL_DRAW = 1
_FIRST_JITTER_DRAW = 32
_REPAIR_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class CornerSettings(GeneratorSettings):
    """Settings of the families that start from random corners."""

    side: ClassVar[float] = 1.9
    """Side of the square that the corners are spread over [length at scale 1]."""
    focus: ClassVar[float] = 0.5
    """Cell width at the centre of the square over the mean cell width, in (0, 1]."""

    min_corners: int = 9
    """Fewest corners, in [3, 64]; the number is drawn uniformly in [min_corners, max_corners]."""
    max_corners: int = 13
    """Most corners, in [min_corners, 64]."""
    min_corner_distance: Range = 0.05
    """Least distance of two corners at scale 1, at least 0; ``max_corners`` limits how large: 0.9
    of the narrowest cell of a square grid with a cell for each of them."""

    def check(self) -> None:
        """Check the corner counts, and that the corners fit with their distance."""
        owner = type(self).__name__
        check_int(f"{owner}.min_corners", self.min_corners, 3, MAX_CORNERS)
        check_int(f"{owner}.max_corners", self.max_corners, 3, MAX_CORNERS)
        if self.min_corners > self.max_corners:
            raise ValueError(
                f"{owner}.min_corners must be <= max_corners, "
                f"got {self.min_corners} > {self.max_corners}"
            )
        value = self.min_corner_distance
        largest = max(value) if isinstance(value, (tuple, list)) else value
        limit = distance_limit(self.focus * self.side, self.max_corners)
        if not largest <= limit:
            raise ValueError(
                f"{owner}.min_corner_distance must be <= {limit:.4g} so that max_corners = "
                f"{self.max_corners} corners fit at this distance, got {largest}"
            )


DISTANCE = Knob("min_corner_distance", 0.0, 0.8)
"""The knob of :attr:`CornerSettings.min_corner_distance`."""


def distance_limit(narrowest_side: float, max_corners: int) -> float:
    """Largest ``min_corner_distance`` for so many corners: 0.9 of a cell of the coarsest grid."""
    return 0.9 * narrowest_side / math.ceil(math.sqrt(max_corners))


def allocate_corners(num_envs: int, max_corners: int, device: wp.Device) -> dict[str, wp.array]:
    """Scratch of :func:`place_corners` and :func:`sort_by_angle`."""
    shape = (num_envs, max_corners)
    return {
        "placed": wp.empty(shape, dtype=wp.vec2f, device=device),
        "bearing": wp.empty(shape, dtype=wp.float32, device=device),
        "corners": wp.empty(shape, dtype=wp.vec2f, device=device),
    }


def allocate_curve(
    num_envs: int, max_vertices: int, size: int, device: wp.Device
) -> dict[str, wp.array]:
    """Scratch of :func:`draw_simple_curve`, with ``fallback`` [E]: 1 where the polygon was used."""
    shape = (num_envs, max_vertices)
    return {
        "ahead": wp.empty(shape, dtype=wp.vec2f, device=device),
        "behind": wp.empty(shape, dtype=wp.vec2f, device=device),
        "shrink": wp.empty(shape, dtype=wp.float32, device=device),
        "marks": wp.empty(shape, dtype=wp.int32, device=device),
        "fallback": wp.zeros(num_envs, dtype=wp.int32, device=device),
        **allocate_boxes(num_envs, size, device),
    }


@wp.func
def grid_size(side: float, distance: float, max_corners: int) -> int:
    """Cells per side: up to 8, fewer for a large distance, enough for all corners."""
    needed = int(2)
    while needed * needed < max_corners:
        needed += 1
    wanted = wp.static(_GRID)
    if distance * wp.static(2.0 * _GRID) > side:
        wanted = int(0.5 * side / distance)
    return wp.clamp(wanted, needed, wp.static(_GRID))


@wp.func
def _in_cell(k: int, grid: int, side: float, focus: float, distance: float, u: float) -> float:
    """Coordinate in cell ``k`` of a row of cells, at least ``distance / 2`` from its ends."""
    a = 2.0 * float(k) / float(grid) - 1.0
    b = 2.0 * float(k + 1) / float(grid) - 1.0
    low = 0.5 * side * a * (focus + (1.0 - focus) * a * a)
    high = 0.5 * side * b * (focus + (1.0 - focus) * b * b)
    return low + 0.5 * distance + u * wp.max(high - low - distance, 0.0)


@wp.func
def place_corners(
    seed: int,
    episode: int,
    stream: int,
    attempt: int,
    min_corners: int,
    max_corners: int,
    distance: float,
    side: float,
    focus: float,
    env: int,
    lane: int,
    placed: wp.array2d[wp.vec2f],
) -> int:
    """Write random corners, pairwise at least ``distance`` apart, and return their number.

    Each corner has a grid cell of its own (Floyd's sampling without replacement, the same on every
    lane) and lies in it at least ``distance / 2`` from its sides. The caller needs a barrier
    before it reads ``placed``.

    Args:
        seed: Seed of the env.
        episode: Episode of the env.
        stream: Random stream of the corners.
        attempt: Attempt.
        min_corners: Fewest corners.
        max_corners: Most corners, at most 64.
        distance: Least distance at scale 1.
        side: Side of the square, centred on the origin.
        focus: Cell width at the centre over the mean cell width; below 1, corners gather there.
        env: Row.
        lane: Lane of the caller.
        placed: Output, shape [E, >= max_corners].
    """
    count = draw_int(draw_words(seed, episode, stream, attempt, 0)[0], min_corners, max_corners)
    grid = grid_size(focus * side, distance, max_corners)
    cells = grid * grid
    used = wp.uint64(0)
    for four in range((count + 3) // 4):
        words = draw_words(seed, episode, stream, attempt, wp.static(_FIRST_CELL_DRAW) + four)
        for k in range(wp.static(4)):
            i = four * 4 + k
            if i < count:
                last = cells - count + i
                cell = draw_int(words[k], 0, last)
                if ((used >> wp.uint64(cell)) & wp.uint64(1)) != wp.uint64(0):
                    cell = last
                used = used | (wp.uint64(1) << wp.uint64(cell))
                if i % wp.block_dim() == lane:
                    u = draw_uniform(
                        seed, episode, stream, attempt, wp.static(_FIRST_JITTER_DRAW) + i
                    )
                    row = cell // grid
                    placed[env, i] = wp.vec2f(
                        _in_cell(cell - row * grid, grid, side, focus, distance, u[0]),
                        _in_cell(row, grid, side, focus, distance, u[1]),
                    )
    return count


@wp.func
def sort_by_angle(
    placed: wp.array2d[wp.vec2f],
    bearing: wp.array2d[wp.float32],
    corners: wp.array2d[wp.vec2f],
    env: int,
    lane: int,
    count: int,
) -> wp.vec2f:
    """Write the corners in counter-clockwise order around their centroid, which is returned.

    Equal angles are ordered by radius, then by index, so the polygon is star-shaped and simple.
    Ends with a barrier.
    """
    centroid = wp.vec2f(0.0, 0.0)
    for i in range(count):
        centroid += placed[env, i]
    centroid = centroid / float(count)
    for i in range(lane, count, wp.block_dim()):
        d = placed[env, i] - centroid
        bearing[env, i] = wp.atan2(d[1], d[0])
    block_sync()
    for i in range(lane, count, wp.block_dim()):
        angle = bearing[env, i]
        rank = int(0)
        for j in range(count):
            other = bearing[env, j]
            if other < angle:
                rank += 1
            elif other == angle and j != i:
                radius = wp.length_sq(placed[env, i] - centroid)
                other_radius = wp.length_sq(placed[env, j] - centroid)
                if other_radius < radius or (other_radius == radius and j < i):
                    rank += 1
        corners[env, rank] = placed[env, i]
    block_sync()
    return centroid


@wp.func
def _draw_edges(
    vertices: wp.array2d[wp.vec2f],
    ahead: wp.array2d[wp.vec2f],
    behind: wp.array2d[wp.vec2f],
    shrink: wp.array2d[wp.float32],
    env: int,
    lane: int,
    count: int,
    samples: int,
    curve: wp.array2d[wp.vec2f],
):
    for k in range(lane, count * samples, wp.block_dim()):
        i = k // samples
        j = i + 1
        if j == count:
            j = 0
        t = float(k - i * samples) / float(samples)
        p0 = vertices[env, i]
        p3 = vertices[env, j]
        p1 = p0 + shrink[env, i] * ahead[env, i]
        p2 = p3 + shrink[env, j] * behind[env, j]
        curve[env, k] = cubic_bezier(p0, p1, p2, p3, t)


@wp.func
def draw_simple_curve(
    vertices: wp.array2d[wp.vec2f],
    ahead: wp.array2d[wp.vec2f],
    behind: wp.array2d[wp.vec2f],
    shrink: wp.array2d[wp.float32],
    marks: wp.array2d[wp.int32],
    chunk_box: wp.array2d[wp.vec4f],
    group_box: wp.array2d[wp.vec4f],
    monotone: wp.array2d[wp.int32],
    env: int,
    lane: int,
    count: int,
    samples: int,
    curve: wp.array2d[wp.vec2f],
) -> int:
    """Sample cubic edges through vertices so that the closed curve does not cross itself.

    While it does, the handles at both ends of the edges at fault are halved, a bounded number of
    times; then all handles become zero, which leaves the polygon of the vertices.

    Args:
        vertices: Vertices, shape [E, V].
        ahead: Handle offset of the edge that leaves a vertex, shape [E, V].
        behind: Handle offset of the edge that enters a vertex, shape [E, V].
        shrink: Scratch, factor of both handles of a vertex, shape [E, V].
        marks: Scratch, edges at fault, shape [E, V].
        chunk_box: Scratch of :func:`build_boxes`.
        group_box: Scratch of :func:`build_boxes`.
        monotone: Scratch of :func:`build_boxes`.
        env: Row.
        lane: Lane of the caller.
        count: Number of vertices.
        samples: Points per edge, at least 8.
        curve: Output, ``count * samples`` points, shape [E, C].

    Returns:
        1 where the polygon was used, else 0; the same on every lane.
    """
    for i in range(lane, count, wp.block_dim()):
        shrink[env, i] = 1.0
        marks[env, i] = 0
    crossings = int(1)
    tries = int(0)
    while crossings > 0 and tries < wp.static(_REPAIR_ROUNDS):
        block_sync()
        _draw_edges(vertices, ahead, behind, shrink, env, lane, count, samples, curve)
        block_sync()
        build_boxes(curve, env, lane, count * samples, chunk_box, group_box, monotone)
        crossings = block_sum_int(
            mark_crossings(
                curve, env, lane, count * samples, chunk_box, group_box, monotone, samples, marks
            )
        )
        tries += 1
        if crossings > 0:
            # Order the marks of all lanes before they are read.
            block_sync()
            for i in range(lane, count, wp.block_dim()):
                previous = i - 1
                if i == 0:
                    previous = count - 1
                if marks[env, i] != 0 or marks[env, previous] != 0:
                    shrink[env, i] = 0.5 * shrink[env, i]
            block_sync()
            for i in range(lane, count, wp.block_dim()):
                marks[env, i] = 0
    if crossings == 0:
        return 0
    for i in range(lane, count, wp.block_dim()):
        shrink[env, i] = 0.0
    block_sync()
    _draw_edges(vertices, ahead, behind, shrink, env, lane, count, samples, curve)
    return 1
