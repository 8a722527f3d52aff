"""Grown curves: a closed curve lengthens among obstacles while it repels itself.

Shared by the repulsive and the serpentine family, which run the same kernel. A small circle grows
in an elliptic wall, around discs that make it fold; each step descends the tangent-point energy of
the curve in a metric that moves long waves first, and the constraint on the length is met in the
same metric. Three measures keep the curve simple: no point moves farther than half the least
tangent-point radius (the *thickness*), growth slows down where the curve is thin in terms of its
own edges, and it slows down near the wall.

The unit of the growth is the mean radius of the wall: the curve is multiplied by its size at the
very end. Points are added in stages as the curve lengthens; the last stage relaxes 256 points for a
few steps, and the interpolating subdivision of Deslauriers and Dubuc makes 1024 of them.

Lineage: Yu, Schumacher, Crane: Repulsive curves (ACM TOG 2021), for energy and metric; Henrich and
Koetter: Generating race tracks with repulsive curves (IEEE 10645670; IEEE Trans. Games 2025), for
the growth among obstacles; Gonzalez and Maddocks: Global curvature, thickness, and the ideal shapes
of knots (PNAS 1999), for the thickness; Deslauriers, Dubuc: Symmetric iterative interpolation
processes (Constr. Approx. 1989).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import warp as wp

from track_gen.block import block_lane, block_launch, block_max, block_sync, scan_offsets_size
from track_gen.checks import check_bool, check_int
from track_gen.generators.repulsion import (
    DISCS,
    GX,
    POINTS,
    PX,
    SUMS,
    TABLE,
    UX,
    YX,
    W,
    X,
    convolve_row,
    measure,
    metric_tables,
    point_of,
    respace,
    subdivided,
    vec8,
    write_forces,
    write_gradients,
    write_kernel,
    write_point,
    write_tangents,
)
from track_gen.generators.spec import CurveJob, GeneratorSettings
from track_gen.geometry import cos_sin
from track_gen.parameters import Knob, Range
from track_gen.rng import Stream, draw_int, draw_uniform, draw_words

__all__ = [
    "CURVE_POINTS",
    "MAX_ITERATIONS",
    "GrowthSettings",
    "allocate_growth",
    "growth_launch",
    "growth_length",
]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

CURVE_POINTS = 1024
"""Points of the finished curve."""
MAX_ITERATIONS = 200
"""Iterations after which an env stops wherever it is."""
MAX_OBSTACLES = 16
"""Largest number of discs."""

_STAGES = (24, 32, 48, 64, 96, 128, 192, 256, 256)
_FINAL = len(_STAGES) - 1
_WALL_RADIUS = 4.9029
_MAX_ASPECT = 3.0

_RATCHET = 0.03
_STEP = 0.4
_EDGE_GATE = (0.45, 0.9)
_WALL_GATE = (0.15, 0.3)
_CAP = 0.5
_STAGE_EDGE = 0.068
_REFERENCE_LENGTH = 8.7
_RESAMPLE_EVERY = 4
_SETTLE_LEAST = 12
_SETTLE_MOST = 40
_SETTLED_THICKNESS = 0.060
_DECAY = 0.95
_POLISH = 3
_POLISH_STEP = 0.15
_DROP_ITERATION = 120
_HUGE = 1.0e30

_SCALARS = DISCS + 3 * MAX_OBSTACLES
_STATE_SIZE = _SCALARS + 8


@dataclass(frozen=True, kw_only=True)
class GrowthSettings(GeneratorSettings):
    """Settings of the families that grow a curve."""

    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("growth", 2.0, 9.0),
        Knob("fold", 0.02, 0.15),
        Knob("aspect", 1.0, _MAX_ASPECT),
        Knob("domain", 0.0, 10.0, low_open=True),
        Knob("domain_to_seed", 3.0, 6.0),
        Knob("obstacle_radius", 0.01, 0.12),
    )
    difficulty: ClassVar[Mapping[str, tuple[Range, Range]]] = {
        "growth": ((2.0, 2.6), (5.5, 6.5)),
        "fold": ((0.02, 0.026), (0.045, 0.065)),
    }

    growth: Range = (4.5, 5.5)
    """Final length in lengths of the first circle, in [2, 9]; a pair draws it per env."""
    fold: Range = (0.026, 0.065)
    """Wave number of the folds per point, in [0.02, 0.15]: 0.02 gives long sweeping hairpins, 0.03
    circuits, 0.065 and more many small lobes; a pair draws it per env."""
    aspect: Range = (1.0, 1.5)
    """Ratio of the wall's axes, in [1, 3]; a pair draws it per env."""
    domain: Range = 0.35
    """Size of the wall, in (0, 10]: its mean radius is 4.9029 * domain at scale 1."""
    domain_to_seed: Range = 4.0
    """Mean radius of the wall in radii of the first circle, in [3, 6]."""
    obstacle_radius: Range = (0.02, 0.045)
    """Radius of the discs in mean radii of the wall, in [0.01, 0.12]; a pair draws it per env."""
    obstacles: tuple[int, int] = (8, 12)
    """Fewest and most discs around the first circle, in [3, 16]; without some a circle only gets
    larger. The number is drawn per env."""
    drop_obstacles: bool = True
    """Whether the discs vanish once the curve has its length (or after 120 iterations); kept, they
    leave narrower and rougher roads."""

    def check(self) -> None:
        """Check the number of discs and the switch."""
        owner = type(self).__name__
        value = self.obstacles
        if not isinstance(value, (tuple, list)) or len(value) != 2:
            raise TypeError(f"{owner}.obstacles must be a (low, high) pair of ints, got {value!r}")
        low = check_int(f"{owner}.obstacles[0]", value[0], 3, MAX_OBSTACLES)
        high = check_int(f"{owner}.obstacles[1]", value[1], 3, MAX_OBSTACLES)
        if low > high:
            raise ValueError(f"{owner}.obstacles must be ordered, low <= high, got {value!r}")
        object.__setattr__(self, "obstacles", (low, high))
        check_bool(f"{owner}.drop_obstacles", self.drop_obstacles)


@wp.func
def stage_points(stage: int) -> int:
    """Points of a stage: 24 32 48 64 96 128 192 256, then the final 256."""
    count = 16 << (stage >> 1)
    count = count + wp.where((stage & 1) == 0, count >> 1, count)
    return wp.min(count, wp.static(POINTS))


@wp.func
def place_discs(
    row: wp.array[wp.float32],
    seed: int,
    episode: int,
    attempt: int,
    count: int,
    size: float,
    seed_radius: float,
    lane: int,
):
    """One disc per wedge of equal angle, between the first circle and the wall."""
    words = draw_uniform(seed, episode, wp.static(int(Stream.GROWTH_OBSTACLES)), attempt, 1)
    for i in range(lane, count, wp.block_dim()):
        u = draw_uniform(seed, episode, wp.static(int(Stream.GROWTH_DISTANCES)), attempt, i)
        near = seed_radius + size + 0.05
        middle = near + (0.90 - near) * u[0]
        turns = (words[0] + float(i)) / float(count)
        center = middle * cos_sin(wp.static(2.0 * math.pi) * turns)
        k = wp.static(DISCS) + 3 * i
        row[k] = center[0]
        row[k + 1] = center[1]
        row[k + 2] = size


@wp.kernel
def grow_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    pending_in: wp.array[wp.bool],
    knobs_in: wp.array2d[wp.float32],
    tables_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    min_obstacles: int,
    max_obstacles: int,
    drop_obstacles: int,
    begin: int,
    budget: int,
    # Scratch:
    state: wp.array2d[wp.float32],
    state_blocks: wp.array2d[vec8],
    kernel: wp.array2d[wp.float32],
    kernel_blocks: wp.array2d[vec8],
    offsets: wp.array2d[wp.float32],
    counters: wp.array2d[wp.int32],
    # Out:
    curve_out: wp.array2d[wp.vec2f],
    curve_count_out: wp.array[wp.int32],
    growing_out: wp.array[wp.int32],
    iterations_out: wp.array[wp.int32],
    pairs_out: wp.array[wp.int32],
):
    """Grow the curve of each pending env by at most ``budget`` iterations. Launch dim (E, lanes).

    With ``begin`` it starts from the circle, else it goes on where the last launch stopped; either
    way the same numbers come out. ``kernel`` is the memory of ``curve_out``.
    """
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        if lane == 0:
            growing_out[env] = 0
        return
    if begin == 0:
        if growing_out[env] == 0:
            return
    row = state[env]
    blocks = state_blocks[env]
    shifted = kernel_blocks[env]
    domain_to_seed = knobs_in[env, first_knob + 4]
    goal_length = knobs_in[env, first_knob] * wp.static(2.0 * math.pi) / domain_to_seed
    fold = knobs_in[env, first_knob + 1]
    long_axis = wp.sqrt(knobs_in[env, first_knob + 2])
    axes = wp.vec2f(long_axis, 1.0 / long_axis)
    fine = wp.min(1.0, wp.static(_REFERENCE_LENGTH) / goal_length)
    seed = seeds_in[env]
    episode = episode_in[env]
    discs = draw_int(
        draw_words(seed, episode, wp.static(int(Stream.GROWTH_OBSTACLES)), attempt, 0)[0],
        min_obstacles,
        max_obstacles,
    )

    stage = int(0)
    iteration = int(0)
    settle = int(0)
    polish = int(0)
    pairs = int(0)
    step = float(_STEP)
    target = float(0.0)
    length = float(0.0)
    count = int(24)
    if begin != 0:
        seed_radius = 1.0 / domain_to_seed
        place_discs(
            row,
            seed,
            episode,
            attempt,
            discs,
            knobs_in[env, first_knob + 5],
            seed_radius,
            lane,
        )
        for i in range(lane, count, wp.block_dim()):
            k = i * 32
            back = k - 192
            if back < 0:
                back += wp.static(TABLE)
            write_point(row, X, i, seed_radius * wp.vec2f(tables_in[0, k], tables_in[0, back]))
        block_sync()
        length = measure(row, count, lane)[2]
        target = length
        write_kernel(row, kernel[env], tables_in, count, fold, lane)
    else:
        stage = counters[env, 0]
        iteration = counters[env, 1]
        settle = counters[env, 2]
        polish = counters[env, 3]
        pairs = counters[env, 4]
        step = row[_SCALARS]
        target = row[wp.static(_SCALARS + 1)]
        length = row[wp.static(_SCALARS + 2)]
        count = stage_points(stage)
    stop = bool(False)
    end = iteration + budget
    # The scalars above are read by all lanes before any of them leaves this loop and writes them.
    while not stop and iteration < end:
        done = target >= goal_length
        active_discs = discs
        if drop_obstacles != 0:
            if done or iteration >= wp.static(_DROP_ITERATION):
                active_discs = 0
        write_tangents(row, count, lane)
        block_sync()
        extremes = write_forces(row, blocks, count, active_discs, axes, lane)
        # A value that is not a number becomes a large one: all lanes must take the same branches.
        inverse = block_max(wp.where(extremes[0] < _HUGE, extremes[0], _HUGE))
        reach = block_max(wp.where(extremes[1] < _HUGE, extremes[1], _HUGE))
        thick = 0.5 / wp.max(inverse, 1.0e-30)
        clear = 1.0 - reach
        block_sync()
        write_gradients(row, count, lane)
        gate = wp.min(
            wp.clamp(
                (thick * float(count) / length - wp.static(_EDGE_GATE[0]))
                / wp.static(_EDGE_GATE[1] - _EDGE_GATE[0]),
                0.0,
                1.0,
            ),
            wp.clamp(
                (clear - wp.static(_WALL_GATE[0])) / wp.static(_WALL_GATE[1] - _WALL_GATE[0]),
                0.0,
                1.0,
            ),
        )
        target = wp.min(target * (1.0 + wp.static(_RATCHET) * gate), goal_length)
        cap = wp.static(_CAP) * wp.min(thick, wp.max(clear, 0.02))
        block_sync()
        for i in range(lane, count, wp.block_dim()):
            c = convolve_row(blocks, shifted, i, count)
            write_point(row, GX, i, wp.vec2f(c[0], c[1]))
            write_point(row, UX, i, wp.vec2f(c[2], c[3]))
        block_sync()
        for chunk in range(lane, count // 8, wp.block_dim()):
            along = float(0.0)
            size = float(0.0)
            for i in range(8 * chunk, 8 * chunk + 8):
                y = point_of(row, YX, i)
                along += wp.dot(y, point_of(row, GX, i))
                size += wp.dot(y, point_of(row, UX, i))
            row[W + chunk] = along
            row[wp.static(W + SUMS) + chunk] = size
        block_sync()
        along = float(0.0)
        size = float(0.0)
        for chunk in range(count // 8):
            along += row[W + chunk]
            size += row[wp.static(W + SUMS) + chunk]
        ratio = along / size
        steepest = float(0.0)
        for i in range(lane, count, wp.block_dim()):
            g = point_of(row, GX, i) - ratio * point_of(row, UX, i)
            write_point(row, GX, i, g)
            steepest = wp.max(steepest, wp.length(g))
        steepest = block_max(wp.where(steepest < _HUGE, steepest, _HUGE))
        tau = wp.min(step * length / float(count), cap) / wp.max(steepest, 1.0e-30)
        mu = (target - length) / size
        fastest = float(0.0)
        for i in range(lane, count, wp.block_dim()):
            v = mu * point_of(row, UX, i) - tau * point_of(row, GX, i)
            write_point(row, GX, i, v)
            fastest = wp.max(fastest, wp.length(v))
        fastest = block_max(wp.where(fastest < _HUGE, fastest, _HUGE))
        part = wp.min(1.0, cap / wp.max(fastest, 1.0e-30))
        if length < target:
            target = length + part * (target - length)
        for i in range(lane, count, wp.block_dim()):
            write_point(row, X, i, point_of(row, X, i) + part * point_of(row, GX, i))
        block_sync()
        now = measure(row, count, lane)
        middle = wp.vec2f(now[0], now[1])
        factor = target / now[2]
        block_sync()
        for i in range(lane, count, wp.block_dim()):
            write_point(row, X, i, middle + factor * (point_of(row, X, i) - middle))
        length = target
        iteration += 1
        pairs += count * count

        new_stage = stage
        if done:
            step *= wp.static(_DECAY)
            if stage < wp.static(_FINAL):
                settle += 1
                if settle >= wp.static(_SETTLE_MOST) or (
                    settle >= wp.static(_SETTLE_LEAST)
                    and thick > wp.static(_SETTLED_THICKNESS) * fine
                ):
                    new_stage = wp.static(_FINAL)
                    step = wp.static(_POLISH_STEP)
            else:
                polish += 1
                stop = polish >= wp.static(_POLISH)
        elif stage < wp.static(_FINAL - 1):
            if length > wp.static(_STAGE_EDGE) * fine * float(count):
                new_stage = stage + 1
        if iteration >= wp.static(MAX_ITERATIONS):
            stop = True
        if stop:
            new_stage = wp.static(_FINAL)
        if new_stage != stage or stop or iteration % wp.static(_RESAMPLE_EVERY) == 0:
            wanted = stage_points(new_stage)
            respace(state, offsets, env, lane, count, wanted, new_stage == wp.static(_FINAL))
            if wanted != count and not stop:
                write_kernel(row, kernel[env], tables_in, wanted, fold, lane)
            count = wanted
        stage = new_stage
        block_sync()

    if lane == 0:
        growing_out[env] = wp.where(stop, 0, 1)
        iterations_out[env] = iteration
        pairs_out[env] = pairs
        counters[env, 0] = stage
        counters[env, 1] = iteration
        counters[env, 2] = settle
        counters[env, 3] = polish
        counters[env, 4] = pairs
        row[_SCALARS] = step
        row[wp.static(_SCALARS + 1)] = target
        row[wp.static(_SCALARS + 2)] = length
    if not stop:
        return
    for j in range(lane, wp.static(2 * POINTS), wp.block_dim()):
        p = subdivided(row, X, POINTS, j, POINTS)
        row[PX + j] = p[0]
        row[wp.static(PX + 2 * POINTS) + j] = p[1]
    block_sync()
    scale = knobs_in[env, first_knob + 3] * wp.static(_WALL_RADIUS)
    for j in range(lane, wp.static(CURVE_POINTS), wp.block_dim()):
        curve_out[env, j] = scale * subdivided(
            row, PX, wp.static(2 * POINTS), j, wp.static(2 * POINTS)
        )
    if lane == 0:
        curve_count_out[env] = wp.static(CURVE_POINTS)


def allocate_growth(settings: Any, num_envs: int, device: wp.Device) -> dict[str, wp.array]:
    """Scratch of :func:`growth_launch`, 14.2 KiB per env; the metric's rows lie in the curve."""
    integers = {
        name: wp.zeros(num_envs, dtype=wp.int32, device=device)
        for name in ("growing", "iterations", "pairs")
    }
    return {
        "shared_tables": wp.array(metric_tables(), dtype=wp.float32, device=device),
        "state": wp.zeros((num_envs, _STATE_SIZE), dtype=wp.float32, device=device),
        "offsets": wp.zeros((num_envs, scan_offsets_size(POINTS)), dtype=wp.float32, device=device),
        "counters": wp.zeros((num_envs, 5), dtype=wp.int32, device=device),
        **integers,
    }


def _view(array: wp.array, dtype: Any, items: int) -> wp.array:
    """The memory of the rows of ``array`` as ``items`` elements of another type."""
    return wp.array(
        ptr=array.ptr,
        dtype=dtype,
        shape=(array.shape[0], items),
        strides=(array.strides[0], wp.types.type_size_in_bytes(dtype)),
        device=array.device,
    )


def growth_launch(settings: GrowthSettings, job: CurveJob, begin: bool, budget: int) -> wp.Launch:
    """Prepare one launch of at most ``budget`` iterations.

    Args:
        settings: Settings of the family.
        job: Arrays of the rows; ``job.scratch`` comes from :func:`allocate_growth`.
        begin: Whether to start anew or to go on.
        budget: Most iterations of this launch.
    """
    scratch = job.scratch
    state, curve = scratch["state"], job.curve
    return block_launch(
        grow_kernel,
        job.num_envs,
        job.lanes,
        inputs=[
            job.seeds,
            job.episode,
            job.pending,
            job.knobs,
            scratch["shared_tables"],
            job.first_knob,
            job.attempt,
            *settings.obstacles,
            int(settings.drop_obstacles),
            int(begin),
            budget,
            state,
            _view(state, vec8, _STATE_SIZE // 8),
            _view(curve, wp.float32, 8 * POINTS),
            _view(curve, vec8, POINTS),
            scratch["offsets"],
            scratch["counters"],
        ],
        outputs=[
            curve,
            job.curve_count,
            scratch["growing"],
            scratch["iterations"],
            scratch["pairs"],
        ],
        device=job.device,
    )


def _largest(value: Range) -> float:
    return value[1] if isinstance(value, (tuple, list)) else value


def _least(value: Range) -> float:
    return value[0] if isinstance(value, (tuple, list)) else value


def growth_length(settings: GrowthSettings) -> float:
    """Largest length at scale 1: the growth stops at its target."""
    circle = 2.0 * math.pi * _WALL_RADIUS * _largest(settings.domain)
    return _largest(settings.growth) * circle / _least(settings.domain_to_seed)
