"""Checkpoint family: the path of a simple car steered through checkpoints around the origin.

The car walks in equal steps with a bounded turn per step. One lap is cut out of the walk, from
taking the first checkpoint to taking it again, and closed by spreading the missing turn and the
missing distance evenly over all steps. A car that takes the next checkpoint from a distance cuts
the corner, so it is aimed past each checkpoint by as much; that keeps the path near the checkpoints
and the bays between them open. Of a few independent candidates the one with the fewest
self-crossings is kept; the next one is only built while the kept one still crosses.

Lineage: the track routine of CarRacing in Gymnasium (Klimov 2016), with its endless retry replaced
by a bounded choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import warp as wp

from track_gen.block import block_lane, block_launch, block_min, block_sum_int, block_sync
from track_gen.checks import check_bool, check_int
from track_gen.generators.crossings import (
    allocate_boxes,
    box_arrays,
    build_boxes,
    mark_crossings,
)
from track_gen.generators.spec import (
    AnchorJob,
    AnchorSource,
    CurveJob,
    GeneratorSettings,
    GeneratorSpec,
)
from track_gen.geometry import catmull_rom, cos_sin, cross, segments_meet
from track_gen.parameters import Knob, Range
from track_gen.rng import Stream, draw_uniform

__all__ = ["SPEC", "Checkpoint"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

_STEPS = 256
_FEWEST_STEPS = 128
_AIM = 0.47
_SUM_CHUNK = 16
_REFINE = 4
_MAX_CHECKPOINTS = 64
_TWO_PI = 2.0 * math.pi


@dataclass(frozen=True, kw_only=True)
class Checkpoint(GeneratorSettings):
    """The path of a car steered through checkpoints around the origin."""

    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("radius_min", 0.0, 0.99),
        Knob("angle_jitter", 0.0, 1.0),
        Knob("turn_rate", 0.0, math.pi, low_open=True),
        Knob("steer_gain", 0.0, 1.0, low_open=True),
        Knob("lookahead", 0.0, 1.0, low_open=True),
    )
    difficulty: ClassVar[Mapping[str, tuple[Range, Range]]] = {
        "radius_min": ((0.75, 0.85), (0.0, 0.2)),
        "angle_jitter": ((0.0, 0.2), (0.6, 0.9)),
        "lookahead": ((0.25, 0.3), (0.1, 0.16)),
    }

    num_checkpoints: int = 12
    """Checkpoints per loop, in [3, 64]."""
    radius_min: Range = 0.33
    """Least checkpoint radius, in [0, 0.99]; the largest is 1."""
    angle_jitter: Range = 0.55
    """Largest shift of a checkpoint's angle, in slots of 2 pi / num_checkpoints, in [0, 1]."""
    turn_rate: Range = 0.42
    """Largest turn per step [rad], in (0, pi]; 256 steps make the perimeter of the checkpoints."""
    steer_gain: Range = 0.65
    """Turn per step as a fraction of the bearing error, in (0, 1]."""
    lookahead: Range = 0.16
    """Distance at which the car takes the next checkpoint, in (0, 1]; the largest radius is 1."""
    best_of: int = 4
    """Most candidates per attempt, in [1, 64]."""
    clip_loop: bool = False
    """Cut the shorter loop at the first crossing of a path that still crosses itself."""

    def check(self) -> None:
        """Check the counts and the switch."""
        check_int("Checkpoint.num_checkpoints", self.num_checkpoints, 3, _MAX_CHECKPOINTS)
        check_int("Checkpoint.best_of", self.best_of, 1, 64)
        check_bool("Checkpoint.clip_loop", self.clip_loop)


@wp.func
def _place_checkpoints(
    seed: int,
    episode: int,
    attempt: int,
    candidate: int,
    count: int,
    radius_min: float,
    angle_jitter: float,
    env: int,
    lane: int,
    polar: wp.array2d[wp.vec2f],
    checkpoints: wp.array2d[wp.vec2f],
):
    """Write the checkpoints of a candidate in angular order; ends with a barrier."""
    slot = wp.static(_TWO_PI) / float(count)
    for i in range(lane, count, wp.block_dim()):
        draw = candidate * wp.static(_MAX_CHECKPOINTS) + i
        u = draw_uniform(seed, episode, wp.static(int(Stream.CHECKPOINT)), attempt, draw)
        angle = (float(i) + (2.0 * u[0] - 1.0) * angle_jitter) * slot
        polar[env, i] = wp.vec2f(angle, radius_min + u[1] * (1.0 - radius_min))
    block_sync()
    for i in range(lane, count, wp.block_dim()):
        here = polar[env, i]
        rank = int(0)
        for j in range(count):
            other = polar[env, j][0]
            if other < here[0] or (other == here[0] and j < i):
                rank += 1
        checkpoints[env, rank] = here[1] * cos_sin(here[0])
    block_sync()


@wp.func
def _aim(
    checkpoints: wp.array2d[wp.vec2f],
    targets: wp.array2d[wp.vec2f],
    env: int,
    lane: int,
    count: int,
    lookahead: float,
):
    """Write the points the car is aimed at, past each checkpoint; ends with a barrier.

    The shift grows with ``lookahead`` and with the turn at the checkpoint, as the cut corner does.
    It fades out where checkpoints are so many that a shift would make neighbouring legs cross.
    """
    slot = wp.static(_TWO_PI) / float(count)
    weight = wp.static(_AIM) * wp.clamp(slot / lookahead - 1.0, 0.0, 1.0)
    for i in range(lane, count, wp.block_dim()):
        here = checkpoints[env, i]
        enter = here - checkpoints[env, (i + count - 1) % count]
        leave = checkpoints[env, (i + 1) % count] - here
        cut = wp.min(lookahead, wp.length(here) * slot)
        targets[env, i] = here + weight * cut * (wp.normalize(enter) - wp.normalize(leave))
    block_sync()


@wp.func
def _walk(
    targets: wp.array2d[wp.vec2f],
    heading: wp.array2d[wp.float32],
    lap: wp.array2d[wp.int32],
    env: int,
    count: int,
    turn_rate: float,
    gain: float,
    lookahead: float,
):
    """Steer from target 0 for a lap and write the heading before and after every step.

    Runs on one lane. ``lap[env]`` becomes (first step, number of steps) of the lap: at least 128
    and at most 256 steps, even if the car is done sooner or never.
    """
    perimeter = float(0.0)
    for i in range(count):
        j = i + 1
        if j == count:
            j = 0
        perimeter += wp.length(targets[env, j] - targets[env, i])
    step = perimeter * wp.static(1.0 / _STEPS)
    reach = lookahead * lookahead
    position = targets[env, 0]
    goal = targets[env, 1]
    next_goal = int(2)
    taken = int(0)
    away = goal - position
    angle = wp.atan2(away[1], away[0])
    direction = cos_sin(angle)
    heading[env, 0] = angle
    first = int(0)
    k = int(0)
    driving = bool(True)
    while driving:
        away = goal - position
        if wp.dot(away, away) < reach:
            if next_goal >= count:
                next_goal = 0
            goal = targets[env, next_goal]
            next_goal += 1
            away = goal - position
            taken += 1
            if taken == 1:
                first = k
        if taken > count and k - first >= wp.static(_FEWEST_STEPS):
            driving = False
        elif k - first >= wp.static(_STEPS):
            driving = False
        else:
            error = wp.atan2(cross(direction, away), wp.dot(direction, away))
            angle += wp.clamp(gain * error, -turn_rate, turn_rate)
            direction = cos_sin(angle)
            position += step * direction
            k += 1
            heading[env, k] = angle
    lap[env, 0] = first
    lap[env, 1] = k - first


@wp.func
def _close(
    heading: wp.array2d[wp.float32],
    chunk_sum: wp.array2d[wp.vec2f],
    path: wp.array2d[wp.vec2f],
    env: int,
    lane: int,
    first: int,
    steps: int,
):
    """Turn the headings of a lap into a closed path of turning number 1; ends with a barrier.

    Every step gets an equal share of the missing turn, then the mean step is removed from all
    steps. Sums run in fixed chunks, so they do not depend on the number of lanes.
    """
    missing = wp.static(_TWO_PI) - (heading[env, first + steps] - heading[env, first])
    share = missing / float(steps)
    chunks = (steps + wp.static(_SUM_CHUNK - 1)) // wp.static(_SUM_CHUNK)
    for chunk in range(lane, chunks, wp.block_dim()):
        total = wp.vec2f(0.0, 0.0)
        start = chunk * wp.static(_SUM_CHUNK)
        for k in range(start, wp.min(start + wp.static(_SUM_CHUNK), steps)):
            total += cos_sin(heading[env, first + k + 1] + share * float(k + 1))
            path[env, k] = total
        chunk_sum[env, chunk] = total
    block_sync()
    # Path units make the perimeter about that of the unit circle.
    unit = wp.static(_TWO_PI) / float(steps)
    for chunk in range(lane, chunks, wp.block_dim()):
        before = wp.vec2f(0.0, 0.0)
        total = wp.vec2f(0.0, 0.0)
        for c in range(chunks):
            if c == chunk:
                before = total
            total += chunk_sum[env, c]
        mean = total / float(steps)
        start = chunk * wp.static(_SUM_CHUNK)
        for k in range(start, wp.min(start + wp.static(_SUM_CHUNK), steps)):
            path[env, k] = unit * (before + path[env, k] - float(k + 1) * mean)
    block_sync()


@wp.func
def _first_loop(
    path: wp.array2d[wp.vec2f], marks: wp.array2d[wp.int32], env: int, lane: int, steps: int
) -> wp.vec2i:
    """(start, count) of the path that remains after the shorter loop is cut, on every lane.

    The first crossing is the one of the first marked segment with the first segment it meets.
    """
    first = float(steps)
    for k in range(lane, steps, wp.block_dim()):
        if marks[env, k] != 0:
            first = wp.min(first, float(k))
    i = int(block_min(first))
    if i >= steps - 2:
        return wp.vec2i(0, steps)
    p = path[env, i]
    u = path[env, i + 1] - p
    second = float(steps)
    end = steps
    if i == 0:
        end = steps - 1
    for k in range(i + 2 + lane, end, wp.block_dim()):
        q = path[env, k]
        v = path[env, (k + 1) % steps] - q
        if segments_meet(p, u, q, v, 0.0):
            second = wp.min(second, float(k))
    j = int(block_min(second))
    if j >= steps:
        return wp.vec2i(0, steps)
    if 2 * (j - i) <= steps:
        return wp.vec2i(j + 1, steps - (j - i))
    return wp.vec2i(i + 1, j - i)


@wp.func
def _point(
    path: wp.array2d[wp.vec2f], env: int, steps: int, start: int, count: int, k: int
) -> wp.vec2f:
    return path[env, (start + (k + count) % count) % steps]


@wp.kernel
def checkpoint_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    pending_in: wp.array[wp.bool],
    knobs_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    count: int,
    best_of: int,
    clip_loop: bool,
    # Scratch:
    polar: wp.array2d[wp.vec2f],
    checkpoints: wp.array2d[wp.vec2f],
    targets: wp.array2d[wp.vec2f],
    heading: wp.array2d[wp.float32],
    lap: wp.array2d[wp.int32],
    chunk_sum: wp.array2d[wp.vec2f],
    path: wp.array2d[wp.vec2f],
    kept: wp.array2d[wp.vec2f],
    marks: wp.array2d[wp.int32],
    chunk_box: wp.array2d[wp.vec4f],
    group_box: wp.array2d[wp.vec4f],
    monotone: wp.array2d[wp.int32],
    # Out:
    curve_out: wp.array2d[wp.vec2f],
    curve_count_out: wp.array[wp.int32],
    crossings_out: wp.array[wp.int32],
):
    """Draw one closed curve per pending env. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    radius_min = knobs_in[env, first_knob]
    angle_jitter = knobs_in[env, first_knob + 1]
    turn_rate = knobs_in[env, first_knob + 2]
    gain = knobs_in[env, first_knob + 3]
    lookahead = knobs_in[env, first_knob + 4]

    fewest = int(2147483647)
    candidate = int(0)
    steps = int(0)
    while fewest > 0 and candidate < best_of:
        _place_checkpoints(
            seeds_in[env],
            episode_in[env],
            attempt,
            candidate,
            count,
            radius_min,
            angle_jitter,
            env,
            lane,
            polar,
            checkpoints,
        )
        _aim(checkpoints, targets, env, lane, count, lookahead)
        if lane == 0:
            _walk(targets, heading, lap, env, count, turn_rate, gain, lookahead)
        block_sync()
        lap_steps = lap[env, 1]
        _close(heading, chunk_sum, path, env, lane, lap[env, 0], lap_steps)
        build_boxes(path, env, lane, lap_steps, chunk_box, group_box, monotone)
        found = block_sum_int(
            mark_crossings(path, env, lane, lap_steps, chunk_box, group_box, monotone, 1, marks)
        )
        if found < fewest:
            fewest = found
            steps = lap_steps
            for k in range(lane, steps, wp.block_dim()):
                kept[env, k] = path[env, k]
        candidate += 1
        block_sync()

    start = int(0)
    points = steps
    reverse = bool(False)
    if fewest > 0:
        if clip_loop:
            for k in range(lane, steps, wp.block_dim()):
                marks[env, k] = 0
            build_boxes(kept, env, lane, steps, chunk_box, group_box, monotone)
            mark_crossings(kept, env, lane, steps, chunk_box, group_box, monotone, 1, marks)
            block_sync()
            part = _first_loop(kept, marks, env, lane, steps)
            start = part[0]
            points = part[1]
        # Only a path that crosses itself can run clockwise.
        area = float(0.0)
        here = _point(kept, env, steps, start, points, points - 1)
        for k in range(points):
            following = _point(kept, env, steps, start, points, k)
            area += cross(here, following)
            here = following
        reverse = area < 0.0

    for k in range(lane, points * wp.static(_REFINE), wp.block_dim()):
        i = k // wp.static(_REFINE)
        t = float(k - i * wp.static(_REFINE)) * wp.static(1.0 / _REFINE)
        position = catmull_rom(
            _point(kept, env, steps, start, points, i - 1),
            _point(kept, env, steps, start, points, i),
            _point(kept, env, steps, start, points, i + 1),
            _point(kept, env, steps, start, points, i + 2),
            1.0,
            1.0,
            1.0,
            t,
        )
        if reverse:
            curve_out[env, points * wp.static(_REFINE) - 1 - k] = position
        else:
            curve_out[env, k] = position
    if lane == 0:
        curve_count_out[env] = points * wp.static(_REFINE)
        crossings_out[env] = fewest


@wp.kernel
def checkpoint_anchors_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    pending_in: wp.array[wp.bool],
    count_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    # Scratch:
    polar: wp.array2d[wp.vec2f],
    # Out:
    anchors_out: wp.array2d[wp.vec2f],
):
    """Place the checkpoints of an env, as many as asked for. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    if count_in[env] < 3:
        return
    _place_checkpoints(
        seeds_in[env],
        episode_in[env],
        attempt,
        0,
        count_in[env],
        knobs_in[env, first_knob],
        knobs_in[env, first_knob + 1],
        env,
        lane,
        polar,
        anchors_out,
    )


def _allocate(settings: Checkpoint, num_envs: int, device: wp.Device) -> dict[str, wp.array]:
    count = settings.num_checkpoints
    return {
        "polar": wp.empty((num_envs, count), dtype=wp.vec2f, device=device),
        "checkpoints": wp.empty((num_envs, count), dtype=wp.vec2f, device=device),
        "targets": wp.empty((num_envs, count), dtype=wp.vec2f, device=device),
        "heading": wp.empty((num_envs, 2 * _STEPS + 1), dtype=wp.float32, device=device),
        "lap": wp.empty((num_envs, 2), dtype=wp.int32, device=device),
        "chunk_sum": wp.empty((num_envs, _STEPS // _SUM_CHUNK), dtype=wp.vec2f, device=device),
        "path": wp.empty((num_envs, _STEPS), dtype=wp.vec2f, device=device),
        "kept": wp.empty((num_envs, _STEPS), dtype=wp.vec2f, device=device),
        "marks": wp.empty((num_envs, _STEPS), dtype=wp.int32, device=device),
        "crossings": wp.zeros(num_envs, dtype=wp.int32, device=device),
        **allocate_boxes(num_envs, _STEPS, device),
    }


def _launches(settings: Checkpoint, job: CurveJob) -> list[wp.Launch]:
    scratch = job.scratch
    return [
        block_launch(
            checkpoint_kernel,
            job.num_envs,
            job.lanes,
            inputs=[
                job.seeds,
                job.episode,
                job.pending,
                job.knobs,
                job.first_knob,
                job.attempt,
                settings.num_checkpoints,
                settings.best_of,
                settings.clip_loop,
                *(
                    scratch[name]
                    for name in ("polar", "checkpoints", "targets", "heading", "lap", "chunk_sum")
                ),
                *(scratch[name] for name in ("path", "kept", "marks")),
                *box_arrays(scratch),
            ],
            outputs=[job.curve, job.curve_count, scratch["crossings"]],
            device=job.device,
        )
    ]


def _allocate_anchors(
    settings: Checkpoint, max_count: int, num_envs: int, device: wp.Device
) -> dict[str, wp.array]:
    return {"polar": wp.empty((num_envs, max_count), dtype=wp.vec2f, device=device)}


def _anchor_launches(settings: Checkpoint, job: AnchorJob) -> list[wp.Launch]:
    return [
        block_launch(
            checkpoint_anchors_kernel,
            job.num_envs,
            job.lanes,
            inputs=[
                job.seeds,
                job.episode,
                job.pending,
                job.count,
                job.knobs,
                job.first_knob,
                job.attempt,
                job.scratch["polar"],
            ],
            outputs=[job.anchors],
            device=job.device,
        )
    ]


def _typical_length(settings: Checkpoint) -> float:
    """Fit to 1024 seeds of 3 to 64 checkpoints and of every knob's extremes."""
    size = max(2.7 + 0.31 * settings.num_checkpoints, 5.0)
    bays = 1.0 + 1.2 * max(0.33 - float(np.min(settings.radius_min)), 0.0)
    # A car that steers late, or must pass checkpoints closely or hardly at all, swings wide.
    swings = (
        np.min(settings.turn_rate) < 0.2
        or np.min(settings.steer_gain) < 0.3
        or np.min(settings.lookahead) < 0.05
        or np.max(settings.lookahead) > 0.5
    )
    return size * bays * (1.7 if swings else 1.0)


SPEC = GeneratorSpec(
    name="checkpoint",
    settings=Checkpoint,
    launches=_launches,
    curve_size=lambda settings: _STEPS * _REFINE,
    allocate=_allocate,
    typical_length=_typical_length,
    anchors=AnchorSource(
        launches=_anchor_launches,
        count_range=lambda settings: (settings.num_checkpoints, settings.num_checkpoints),
        allocate=_allocate_anchors,
        angular=True,
        difficulty={name: Checkpoint.difficulty[name] for name in ("radius_min", "angle_jitter")},
    ),
)
