"""Self-crossings of a dense closed curve, found exactly by the lanes of one block.

Segments are grouped in chunks of eight and chunks in groups of eight, each with a bounding box, so
only segments whose chunks overlap are tested. Neighbouring chunks always overlap where they join;
they are skipped if every segment advances along their common chord, because such a run cannot
cross itself.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from track_gen.block import block_sync
from track_gen.geometry import segments_meet

__all__ = ["CHUNK", "GROUP", "allocate_boxes", "box_arrays", "build_boxes", "mark_crossings"]

wp.set_module_options({"enable_backward": False})

CHUNK = 8
"""Segments that share a bounding box."""

GROUP = 8
"""Chunks that share a bounding box."""


def allocate_boxes(num_envs: int, size: int, device: wp.Device) -> dict[str, wp.array]:
    """Scratch of :func:`build_boxes` for curves of up to ``size`` points."""
    chunks = -(-size // CHUNK)
    return {
        "chunk_box": wp.empty((num_envs, chunks), dtype=wp.vec4f, device=device),
        "group_box": wp.empty((num_envs, -(-chunks // GROUP)), dtype=wp.vec4f, device=device),
        "monotone": wp.empty((num_envs, chunks), dtype=wp.int32, device=device),
    }


@wp.func
def _wrapped(i: int, count: int) -> int:
    if i >= count:
        return i - count
    return i


@wp.func
def _join(a: wp.vec4f, b: wp.vec4f) -> wp.vec4f:
    return wp.vec4f(wp.min(a[0], b[0]), wp.min(a[1], b[1]), wp.max(a[2], b[2]), wp.max(a[3], b[3]))


@wp.func
def _overlap(a: wp.vec4f, b: wp.vec4f) -> bool:
    return a[0] <= b[2] and b[0] <= a[2] and a[1] <= b[3] and b[1] <= a[3]


@wp.func
def build_boxes(
    points: wp.array2d[wp.vec2f],
    env: int,
    lane: int,
    count: int,
    chunk_box: wp.array2d[wp.vec4f],
    group_box: wp.array2d[wp.vec4f],
    monotone: wp.array2d[wp.int32],
):
    """Boxes of all chunks and groups of a closed curve; ends with a barrier.

    ``count`` must exceed three chunks. ``monotone`` tells of every chunk whether it and the next
    one together advance along their common chord. (low x, low y, high x, high y) per box.
    """
    chunks = (count + wp.static(CHUNK - 1)) // wp.static(CHUNK)
    for chunk in range(lane, chunks, wp.block_dim()):
        start = chunk * wp.static(CHUNK)
        middle = wp.min(start + wp.static(CHUNK), count)
        end = middle + wp.static(CHUNK)
        if chunk == chunks - 1:
            end = count + wp.static(CHUNK)
        elif end > count:
            end = count
        first = points[env, start]
        chord = points[env, _wrapped(end, count)] - first
        box = wp.vec4f(first[0], first[1], first[0], first[1])
        here = first
        advances = int(1)
        for i in range(start + 1, end + 1):
            following = points[env, _wrapped(i, count)]
            if not (wp.dot(following - here, chord) > 0.0):
                advances = int(0)
            if i <= middle:
                box = _join(box, wp.vec4f(following[0], following[1], following[0], following[1]))
            here = following
        chunk_box[env, chunk] = box
        monotone[env, chunk] = advances
    block_sync()
    groups = (chunks + wp.static(GROUP - 1)) // wp.static(GROUP)
    for group in range(lane, groups, wp.block_dim()):
        start = group * wp.static(GROUP)
        whole = chunk_box[env, start]
        for chunk in range(start + 1, wp.min(start + wp.static(GROUP), chunks)):
            whole = _join(whole, chunk_box[env, chunk])
        group_box[env, group] = whole
    block_sync()


@wp.func
def _mark_pair(
    points: wp.array2d[wp.vec2f],
    env: int,
    count: int,
    chunk_a: int,
    chunk_b: int,
    span: int,
    marks: wp.array2d[wp.int32],
) -> int:
    """Crossings between the segments of two chunks, ``chunk_a <= chunk_b``."""
    found = int(0)
    start_a = chunk_a * wp.static(CHUNK)
    start_b = chunk_b * wp.static(CHUNK)
    end_a = wp.min(start_a + wp.static(CHUNK), count)
    end_b = wp.min(start_b + wp.static(CHUNK), count)
    p = points[env, start_a]
    for a in range(start_a, end_a):
        p_next = points[env, _wrapped(a + 1, count)]
        u = p_next - p
        # Segments that share a point are not a crossing.
        first_b = wp.max(start_b, a + 2)
        last_b = end_b
        if a == 0:
            last_b = wp.min(end_b, count - 1)
        if first_b < last_b:
            q = points[env, first_b]
            for b in range(first_b, last_b):
                q_next = points[env, _wrapped(b + 1, count)]
                if segments_meet(p, u, q, q_next - q, 0.0):
                    found += 1
                    marks[env, a // span] = 1
                    marks[env, b // span] = 1
                q = q_next
        p = p_next
    return found


@wp.func
def mark_crossings(
    points: wp.array2d[wp.vec2f],
    env: int,
    lane: int,
    count: int,
    chunk_box: wp.array2d[wp.vec4f],
    group_box: wp.array2d[wp.vec4f],
    monotone: wp.array2d[wp.int32],
    span: int,
    marks: wp.array2d[wp.int32],
) -> int:
    """Crossing segment pairs that this lane found; sum them over the block.

    Both segments ``i`` of a pair set ``marks[env, i // span]`` to 1 (all lanes write the same
    value). :func:`build_boxes` must have run for the same points.
    """
    chunks = (count + wp.static(CHUNK - 1)) // wp.static(CHUNK)
    groups = (chunks + wp.static(GROUP - 1)) // wp.static(GROUP)
    found = int(0)
    for pair in range(lane, groups * groups, wp.block_dim()):
        group_a = pair // groups
        group_b = pair - group_a * groups
        if group_a <= group_b:
            box_b = group_box[env, group_b]
            if _overlap(group_box[env, group_a], box_b):
                start_a = group_a * wp.static(GROUP)
                start_b = group_b * wp.static(GROUP)
                for a in range(start_a, wp.min(start_a + wp.static(GROUP), chunks)):
                    box_a = chunk_box[env, a]
                    if _overlap(box_a, box_b):
                        for b in range(
                            wp.max(start_b, a), wp.min(start_b + wp.static(GROUP), chunks)
                        ):
                            if _overlap(box_a, chunk_box[env, b]):
                                skip = bool(False)
                                if b == a or b == a + 1:
                                    skip = monotone[env, a] != 0
                                elif a == 0 and b == chunks - 1:
                                    skip = monotone[env, b] != 0
                                if not skip:
                                    found += _mark_pair(points, env, count, a, b, span, marks)
    return found


def box_arrays(scratch: dict[str, Any]) -> list[wp.array]:
    """The arrays of :func:`allocate_boxes` in the order of the device functions."""
    return [scratch["chunk_box"], scratch["group_box"], scratch["monotone"]]
