"""Order of a gate course: how it is drawn, the room it gets, and the repair of free orders.

Orders that run around the centre ("angular") are sorted; free orders are repaired with 2-opt moves
(Croes: A method for solving traveling-salesman problems, Operations Research 6, 1958). A move is
taken for the sharp turns and blocked chords that it removes and for nothing else, so a random order
stays random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import warp as wp

from track_gen.block import block_argmin, block_lane, block_launch, block_min, block_sync
from track_gen.flight_line import ARC
from track_gen.gate_rules import GateRules, bounding_box, gate_sizes
from track_gen.geometry import cos_sin, turn_angle
from track_gen.polyline import next_index
from track_gen.rng import Stream, draw_words, unit_float

__all__ = [
    "ANGULAR",
    "AS_DRAWN",
    "FREE_GROWTH",
    "SHUFFLE",
    "GateOrderScratch",
    "order_gates",
    "reorder_gates",
]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

SHUFFLE, ANGULAR, AS_DRAWN = range(3)
"""Kinds of order: shuffled, by angle about the mean, as the family drew the anchors."""

FREE_GROWTH = 0.12
"""Room that each further round of a free order adds, as a fraction."""

_MAX_GATES = 64
_DEGREE = math.pi / 180.0


@dataclass
class GateOrderScratch:
    """Working arrays of the order; rows of a batch."""

    keys: wp.array
    """Sort keys, float32, shape [E, G]."""
    chord_cost: wp.array
    """Cost of the chord between two anchors, float32, shape [E, G * G]."""

    @classmethod
    def allocate(cls, num_envs: int, max_gates: int, device: wp.Device) -> GateOrderScratch:
        """Allocate for E rows and G gates."""

        def rows(size: int) -> wp.array:
            return wp.zeros((num_envs, size), dtype=wp.float32, device=device)

        return cls(keys=rows(max_gates), chord_cost=rows(max_gates * max_gates))


@wp.func
def _write_order(
    kind: int,
    sense: int,
    seed: int,
    episode: int,
    attempt: int,
    round: int,
    anchors: wp.array2d[wp.vec2f],
    keys: wp.array2d[wp.float32],
    order: wp.array2d[wp.int32],
    env: int,
    lane: int,
    count: int,
):
    """Write which anchor is flown at which place; ends with a barrier.

    The place is random, by angle about the origin, or that of drawing.
    """
    for i in range(lane, count, wp.block_dim()):
        if kind == wp.static(SHUFFLE):
            word = draw_words(
                seed,
                episode,
                wp.static(int(Stream.GATE_ORDER)),
                attempt,
                round * wp.static(_MAX_GATES) + i,
            )
            keys[env, i] = unit_float(word[0])
        elif kind == wp.static(ANGULAR):
            p = anchors[env, i]
            keys[env, i] = float(sense) * wp.atan2(p[1], p[0])
        else:
            keys[env, i] = float(i)
    block_sync()
    for i in range(lane, count, wp.block_dim()):
        key = keys[env, i]
        rank = int(0)
        for j in range(count):
            other = keys[env, j]
            if other < key or (other == key and j < i):
                rank += 1
        order[env, rank] = i
    block_sync()


@wp.kernel
def order_gates_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    count_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    rules: GateRules,
    attempt: int,
    kind: int,
    box_side: float,
    fit_box: int,
    family_in: wp.array[wp.int32],
    # Scratch:
    keys: wp.array2d[wp.float32],
    # In and out:
    anchors: wp.array2d[wp.vec2f],
    # Out:
    order_out: wp.array2d[wp.int32],
    solved_out: wp.array[wp.int32],
):
    """Centre the anchors, order them, and scale them so that the gates have room. Dim (E, lanes).

    The longer side of the anchors' box becomes ``box_side * scale`` if the bit of the family is set
    in ``fit_box``.
    ``solved_out`` becomes 0: no stage has a course yet.
    """
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    count = count_in[env]
    if lane == 0:
        solved_out[env] = 0
    if count < 3:
        return
    sizes = gate_sizes(rules, knobs_in, env)
    scale = knobs_in[env, 1]
    mean = wp.vec2f(0.0, 0.0)
    for i in range(count):
        mean += anchors[env, i]
    mean = mean / float(count)
    if ((fit_box >> family_in[env]) & 1) != 0:
        raw = bounding_box(anchors, env, count)
        scale = scale * box_side / wp.max(wp.max(raw[2] - raw[0], raw[3] - raw[1]), 1.0e-3)
    block_sync()
    for i in range(lane, count, wp.block_dim()):
        anchors[env, i] = scale * (anchors[env, i] - mean)
    block_sync()
    _write_order(
        kind,
        rules.sense,
        seeds_in[env],
        episode_in[env],
        attempt,
        0,
        anchors,
        keys,
        order_out,
        env,
        lane,
        count,
    )
    perimeter = float(0.0)
    previous = anchors[env, order_out[env, count - 1]]
    for i in range(count):
        here = anchors[env, order_out[env, i]]
        perimeter += wp.length(here - previous)
        previous = here
    wanted = 1.35 * float(count) * sizes.gap
    factor = wp.max(wanted / wp.max(perimeter, 1.0e-6 * wanted), 1.0)
    if rules.max_extent > 0.0:
        box = bounding_box(anchors, env, count)
        side = wp.max(wp.max(box[2] - box[0], box[3] - box[1]), 1.0e-6 * wanted)
        factor = wp.min(factor, 0.99 * rules.max_extent / side)
    block_sync()
    for i in range(lane, count, wp.block_dim()):
        anchors[env, i] = factor * anchors[env, i]


@wp.func
def _vertex_cost(
    before: wp.vec2f, here: wp.vec2f, after: wp.vec2f, radius: float, limit: float, line: int
) -> float:
    """Cost of flying three gates in a row: a turn near its limit, too little room for the bend."""
    e0 = here - before
    e1 = after - here
    shorter = wp.max(wp.min(wp.length(e0), wp.length(e1)), 1.0e-12)
    turn = wp.abs(turn_angle(e0, e1))
    half = cos_sin(0.5 * turn)
    need = float(0.0)
    if line == wp.static(ARC):
        need = half[1] * (1.0 + half[0]) * (1.0 + half[0])
    else:
        need = 4.0 * half[1] / wp.max(half[0] * half[0], 1.0e-6)
    excess = wp.clamp(radius / shorter * need - 1.0, 0.0, 2.0)
    return wp.max(turn - limit, 0.0) / (wp.static(math.pi) - limit) + 0.5 * excess


@wp.func
def _gate_at(
    anchors: wp.array2d[wp.vec2f], order: wp.array2d[wp.int32], env: int, count: int, place: int
) -> wp.vec2f:
    return anchors[env, order[env, (place + count) % count]]


@wp.func
def _reversal_gain(
    anchors: wp.array2d[wp.vec2f],
    order: wp.array2d[wp.int32],
    radius: float,
    limit: float,
    line: int,
    env: int,
    i: int,
    j: int,
    count: int,
) -> float:
    """Change of the turns' cost if the places ``i + 1`` to ``j`` are reversed."""
    before = _gate_at(anchors, order, env, count, i - 1)
    first = _gate_at(anchors, order, env, count, i)
    second = _gate_at(anchors, order, env, count, i + 1)
    third = _gate_at(anchors, order, env, count, i + 2)
    end_before = _gate_at(anchors, order, env, count, j - 1)
    end = _gate_at(anchors, order, env, count, j)
    end_after = _gate_at(anchors, order, env, count, j + 1)
    end_next = _gate_at(anchors, order, env, count, j + 2)
    gain = _vertex_cost(before, first, end, radius, limit, line)
    gain += _vertex_cost(first, end, end_before, radius, limit, line)
    gain += _vertex_cost(third, second, end_after, radius, limit, line)
    gain += _vertex_cost(second, end_after, end_next, radius, limit, line)
    gain -= _vertex_cost(before, first, second, radius, limit, line)
    gain -= _vertex_cost(first, second, third, radius, limit, line)
    gain -= _vertex_cost(end_before, end, end_after, radius, limit, line)
    gain -= _vertex_cost(end, end_after, end_next, radius, limit, line)
    return gain


@wp.kernel
def reorder_gates_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    count_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    solved_in: wp.array[wp.int32],
    anchors_in: wp.array2d[wp.vec2f],
    rules: GateRules,
    attempt: int,
    round: int,
    # Scratch:
    keys: wp.array2d[wp.float32],
    chord_cost: wp.array2d[wp.float32],
    # In and out:
    order: wp.array2d[wp.int32],
):
    """Remove sharp turns and blocked chords from a free order, and nothing else. Dim (E, lanes).

    From round 1 on, a fresh shuffle is repaired. Each of at most 2 n moves is the best improving
    reversal of a stretch; ties go to the lowest index. Round -1 gives up on the free order and
    sorts it by angle. Envs that have a course already are left alone.
    """
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    count = count_in[env]
    if count < 4 or solved_in[env] != 0:
        return
    sizes = gate_sizes(rules, knobs_in, env)
    limit = sizes.max_turn - wp.static(20.0 * _DEGREE)
    if round != 0:
        kind = wp.static(SHUFFLE)
        if round < 0:
            kind = wp.static(ANGULAR)
        _write_order(
            kind,
            rules.sense,
            seeds_in[env],
            episode_in[env],
            attempt,
            round,
            anchors_in,
            keys,
            order,
            env,
            lane,
            count,
        )
    if round < 0:
        return
    grow = 1.0 + wp.static(FREE_GROWTH) * float(round)
    outer = sizes.outer / grow
    radius = sizes.radius / grow
    near = 1.0 / (1.6 * outer)
    for k in range(lane, count * count, wp.block_dim()):
        a = k // count
        b = k - a * count
        if a < b:
            p = anchors_in[env, a]
            chord = anchors_in[env, b] - p
            square = wp.max(wp.dot(chord, chord), 1.0e-24)
            cost = wp.max(0.0, 1.0 - wp.sqrt(square) / (2.2 * outer))
            for j in range(count):
                if j != a and j != b:
                    d = anchors_in[env, j] - p
                    u = wp.clamp(wp.dot(d, chord) / square, 0.0, 1.0)
                    cost += wp.max(0.0, 1.0 - wp.length(d - u * chord) * near)
            chord_cost[env, k] = cost
            chord_cost[env, b * count + a] = cost
    block_sync()

    moves = int(0)
    improving = bool(True)
    while improving and moves < 2 * count:
        best = float(0.0)
        best_move = int(0x7FFFFFFF)
        for k in range(lane, count * count, wp.block_dim()):
            i = k // count
            j = k - i * count
            if j > i + 1 and not (i == 0 and j == count - 1):
                o0 = order[env, i]
                o1 = order[env, i + 1]
                q0 = order[env, j]
                q1 = order[env, next_index(j, count)]
                gain = (
                    chord_cost[env, o0 * count + q0]
                    + chord_cost[env, o1 * count + q1]
                    - chord_cost[env, o0 * count + o1]
                    - chord_cost[env, q0 * count + q1]
                )
                gain += _reversal_gain(
                    anchors_in, order, radius, limit, rules.line, env, i, j, count
                )
                if gain < best:
                    best = gain
                    best_move = k
        best_move = block_argmin(best, best_move)
        improving = block_min(best) < -1.0e-4
        if improving:
            i = best_move // count + 1
            j = best_move - (i - 1) * count
            block_sync()
            for k in range(i + lane, (i + j + 1) // 2, wp.block_dim()):
                first = order[env, k]
                order[env, k] = order[env, i + j - k]
                order[env, i + j - k] = first
            block_sync()
            moves += 1


def order_gates(
    seeds: wp.array,
    episode: wp.array,
    count: wp.array,
    knobs: wp.array,
    pending: wp.array,
    anchors: wp.array,
    order: wp.array,
    solved: wp.array,
    attempt: int,
    kind: int,
    box_side: float,
    fit_box: int,
    family: wp.array,
    rules: GateRules,
    scratch: GateOrderScratch,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that centres, orders and scales the anchors of every pending env.

    Args:
        seeds: Seeds, int32, shape [E].
        episode: Episode counters, int32, shape [E].
        count: Gates of each env, int32, shape [E].
        knobs: Drawn knobs, float32, shape [E, P]: gate width, scale and largest turn first.
        pending: Envs to work on, bool, shape [E].
        anchors: Anchors of the family, vec2f, shape [E, G]; overwritten by placed ones [length].
        order: Output: anchor at each place, int32, shape [E, G].
        solved: Output, int32, shape [E]: 0.
        attempt: Attempt, from 0.
        kind: SHUFFLE, ANGULAR or AS_DRAWN.
        box_side: Longer side of the anchors' box at scale 1, for the families of ``fit_box``.
        fit_box: Bit k is set if the anchors of family k are fitted to the box.
        family: Family of each env, int32, shape [E].
        rules: Sizes and limits.
        scratch: Working arrays.
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        order_gates_kernel,
        pending.shape[0],
        lanes,
        inputs=[
            pending,
            seeds,
            episode,
            count,
            knobs,
            rules,
            attempt,
            kind,
            box_side,
            fit_box,
            family,
            scratch.keys,
            anchors,
        ],
        outputs=[order, solved],
        device=device,
    )


def reorder_gates(
    seeds: wp.array,
    episode: wp.array,
    count: wp.array,
    knobs: wp.array,
    pending: wp.array,
    solved: wp.array,
    anchors: wp.array,
    order: wp.array,
    attempt: int,
    round: int,
    rules: GateRules,
    scratch: GateOrderScratch,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that repairs the free order of every pending env without a course.

    Args:
        seeds: Seeds, int32, shape [E].
        episode: Episode counters, int32, shape [E].
        count: Gates of each env, int32, shape [E].
        knobs: Drawn knobs, float32, shape [E, P].
        pending: Envs to work on, bool, shape [E].
        solved: 0 where no stage has a course yet, int32, shape [E].
        anchors: Placed anchors [length], vec2f, shape [E, G].
        order: In and out: anchor at each place, int32, shape [E, G].
        attempt: Attempt, from 0.
        round: 0 repairs the order as it is, later rounds a fresh shuffle, -1 sorts by angle.
        rules: Sizes and limits.
        scratch: Working arrays.
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        reorder_gates_kernel,
        pending.shape[0],
        lanes,
        inputs=[
            pending,
            seeds,
            episode,
            count,
            knobs,
            solved,
            anchors,
            rules,
            attempt,
            round,
            scratch.keys,
            scratch.chord_cost,
            order,
        ],
        outputs=[],
        device=device,
    )
