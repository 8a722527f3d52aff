"""Closed-polyline functions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

from track_gen.block import block_lane, scan_offsets_size
from track_gen.polyline import (
    arc_edge_near,
    arc_segment,
    measure_arc,
    next_index,
    previous_index,
    to_turn_units,
    turn_from_units,
    walk_step,
)

wp.set_module_options({"enable_backward": False})


@wp.kernel
def measure_kernel(
    points: wp.array2d[wp.vec2f],
    count: wp.array[wp.int32],
    arc: wp.array2d[wp.float32],
    offsets: wp.array2d[wp.float32],
    perimeter: wp.array[wp.float32],
):
    env, thread = wp.tid()
    lane = block_lane(thread)
    total = measure_arc(points, arc, offsets, env, lane, count[env])
    if lane == 0:
        perimeter[env] = total


@wp.kernel
def lookup_kernel(
    arc: wp.array2d[wp.float32],
    targets: wp.array[wp.float32],
    guesses: wp.array[wp.int32],
    count: int,
    near: wp.array[wp.int32],
    segment: wp.array[wp.int32],
):
    k = wp.tid()
    near[k] = arc_edge_near(arc[0], count, targets[k], guesses[k])
    segment[k] = arc_segment(arc, 0, count, targets[k])


@wp.kernel
def small_kernel(
    count: int,
    angles: wp.array[wp.float32],
    distances: wp.array[wp.float32],
    after: wp.array[wp.int32],
    before: wp.array[wp.int32],
    turns: wp.array[wp.float32],
    steps: wp.array[wp.int32],
):
    k = wp.tid()
    after[k] = next_index(k % count, count)
    before[k] = previous_index(k % count, count)
    turns[k] = turn_from_units(to_turn_units(angles[k]))
    steps[k] = walk_step(distances[k], 2.0, 0.5)


def test_measure_arc_is_the_arc_length_at_the_points():
    rng = np.random.default_rng(1)
    counts = np.array([1, 2, 3, 16, 17, 100], np.int32)
    points = rng.normal(size=(counts.size, 128, 2)).astype(np.float32)
    arc = wp.zeros((counts.size, 128), dtype=wp.float32, device="cpu")
    offsets = wp.zeros((counts.size, scan_offsets_size(128)), dtype=wp.float32, device="cpu")
    total = wp.zeros(counts.size, dtype=wp.float32, device="cpu")
    wp.launch(
        measure_kernel,
        dim=(counts.size, 1),
        inputs=[
            wp.array(points, dtype=wp.vec2f, device="cpu"),
            wp.array(counts, device="cpu"),
            arc,
            offsets,
            total,
        ],
        device="cpu",
        block_dim=1,
    )
    for e, n in enumerate(counts):
        p = points[e, :n].astype(float)
        edges = np.linalg.norm(np.roll(p, -1, axis=0) - p, axis=1)
        expected = np.concatenate([[0.0], edges[:-1].cumsum()])
        np.testing.assert_allclose(arc.numpy()[e, :n], expected, rtol=1e-6)
        assert total.numpy()[e] == pytest.approx(edges.sum(), rel=1e-6)


def test_lookups_agree_with_searchsorted_for_any_guess():
    rng = np.random.default_rng(2)
    n = 37
    arc = np.concatenate([[0.0], rng.uniform(0.0, 1.0, n - 1).cumsum()]).astype(np.float32)
    arc[10] = arc[11] = arc[9]  # edges without length
    targets = np.concatenate([arc, rng.uniform(-1, arc[-1] + 2, 500)]).astype(np.float32)
    guesses = rng.integers(-5, n + 5, targets.size).astype(np.int32)
    out = [wp.zeros(targets.size, dtype=wp.int32, device="cpu") for _ in range(2)]
    wp.launch(
        lookup_kernel,
        dim=targets.size,
        inputs=[
            wp.array(arc[None], device="cpu"),
            wp.array(targets, device="cpu"),
            wp.array(guesses, device="cpu"),
            n,
            *out,
        ],
        device="cpu",
    )
    expected = np.searchsorted(arc, targets, side="right")
    np.testing.assert_array_equal(out[0].numpy(), np.maximum(expected - 1, 0))
    np.testing.assert_array_equal(out[1].numpy(), np.minimum(expected, n - 1))


def test_lookup_ends_on_nan():
    out = [wp.zeros(1, dtype=wp.int32, device="cpu") for _ in range(2)]
    wp.launch(
        lookup_kernel,
        dim=1,
        inputs=[
            wp.full((1, 8), wp.nan, dtype=wp.float32, device="cpu"),
            wp.full(1, 1.0, dtype=wp.float32, device="cpu"),
            wp.full(1, 3, dtype=wp.int32, device="cpu"),
            8,
            *out,
        ],
        device="cpu",
    )
    assert all(0 <= a.numpy()[0] < 8 for a in out)


def test_indices_turns_and_walk_steps():
    angles = np.linspace(-np.pi, np.pi, 50).astype(np.float32)
    distances = np.linspace(0.0, 1e9, 50).astype(np.float32)
    distances[:20] = np.linspace(0.0, 6.0, 20)
    after, before, steps = (wp.zeros(50, dtype=wp.int32, device="cpu") for _ in range(3))
    turns = wp.zeros(50, dtype=wp.float32, device="cpu")
    wp.launch(
        small_kernel,
        dim=50,
        inputs=[
            7,
            wp.array(angles, device="cpu"),
            wp.array(distances, device="cpu"),
            after,
            before,
            turns,
            steps,
        ],
        device="cpu",
    )
    k = np.arange(50) % 7
    np.testing.assert_array_equal(after.numpy(), (k + 1) % 7)
    np.testing.assert_array_equal(before.numpy(), (k - 1) % 7)
    np.testing.assert_allclose(turns.numpy(), angles, atol=1e-5)
    found = steps.numpy()
    assert (found >= 1).all()
    # The indices that a step skips are at least `distance - 0.5 * index` away: still out of reach.
    far = found > 1
    assert far.any()
    assert (distances[far] - 0.5 * (found[far] - 1) >= 2.0 - 1e-6).all()
