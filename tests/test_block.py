"""Canary of block.py: the native primitives on every target, against NumPy.

Run as a script (``python tests/test_block.py LANES FILE``) it writes what one lane setting gives.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import warp as wp

from track_gen.block import (
    SCAN_CHUNK,
    block_argmin,
    block_lane,
    block_launch,
    block_max,
    block_min,
    block_prefix_sum,
    block_sum_int,
    block_sync,
    block_vote,
    prefetch_point,
    prefetch_value,
    scan_offsets_size,
)

wp.set_module_options({"enable_backward": False})

COUNTS = np.array([1, 2, 15, 16, 17, 31, 32, 33, 64, 100, 255, 256, 257, 1000], np.int32)
E, N, ROUNDS = len(COUNTS), 1000, 6
MASKED = 4
"""A row that every kernel leaves at once."""


@wp.kernel
def reduce_kernel(
    # In:
    active_in: wp.array[wp.bool],
    count_in: wp.array[wp.int32],
    values_in: wp.array2d[wp.float32],
    rounds: int,
    # Out:
    floats_out: wp.array3d[wp.float32],
    ints_out: wp.array3d[wp.int32],
):
    """All reductions, several times in a row on changing values. Dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not active_in[env]:
        return
    count = count_in[env]
    for r in range(rounds):
        high = float(-1.0e30)
        low = float(1.0e30)
        low_index = int(0x7FFFFFFF)
        total = int(0)
        flags = int(0)
        for i in range(lane, count, wp.block_dim()):
            value = values_in[env, (i * (r + 1)) % count]
            high = wp.max(high, value)
            if value < low:
                low = value
                low_index = i
            total += int(value)
            flags = flags | (1 << (i % (r + 3)))
        high = block_max(high)
        least = block_min(low)
        arg = block_argmin(low, low_index)
        total_sum = block_sum_int(total)
        vote = block_vote(flags, total, r % 2)
        # Every lane must see the same: disagreement raises the spread above zero.
        spread = block_max(float(total_sum)) - block_min(float(total_sum))
        spread += block_max(high) - block_min(high) + block_max(least) - block_min(least)
        spread += block_max(float(arg)) - block_min(float(arg))
        spread += block_max(float(vote[0] + vote[1])) - block_min(float(vote[0] + vote[1]))
        if lane == 0:
            floats_out[env, r, 0] = high
            floats_out[env, r, 1] = least
            floats_out[env, r, 2] = spread
            ints_out[env, r, 0] = arg
            ints_out[env, r, 1] = total_sum
            ints_out[env, r, 2] = vote[0]
            ints_out[env, r, 3] = vote[1]


@wp.kernel
def scan_kernel(
    # In:
    active_in: wp.array[wp.bool],
    count_in: wp.array[wp.int32],
    # Out:
    values_out: wp.array2d[wp.float32],
    offsets_out: wp.array2d[wp.float32],
):
    """Prefix sum of every row in place. Dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not active_in[env]:
        return
    block_prefix_sum(values_out, offsets_out, env, lane, count_in[env])


@wp.kernel
def smooth_kernel(
    # In:
    count_in: wp.array[wp.int32],
    rounds: int,
    barriers: int,
    # Out:
    values_out: wp.array2d[wp.float32],
    other_out: wp.array2d[wp.float32],
):
    """Smooth every row with its neighbours; ``barriers`` 0 leaves them out. Dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    count = count_in[env]
    for _ in range(rounds):
        for i in range(lane, count, wp.block_dim()):
            left = values_out[env, (i + count - 1) % count]
            right = values_out[env, (i + 1) % count]
            other_out[env, i] = 0.5 * values_out[env, i] + 0.25 * (left + right)
        if barriers != 0:
            block_sync()
        for i in range(lane, count, wp.block_dim()):
            values_out[env, i] = other_out[env, i]
        if barriers != 0:
            block_sync()


@wp.kernel
def lane_kernel(lanes_out: wp.array2d[wp.int32]):
    """Record the block size that each lane sees. Dim (E, lanes)."""
    env, thread = wp.tid()
    lanes_out[env, block_lane(thread)] = wp.block_dim()


@wp.kernel
def hinted_copy_kernel(
    # In:
    values_in: wp.array2d[wp.float32],
    points_in: wp.array2d[wp.vec3f],
    # Out:
    values_out: wp.array2d[wp.float32],
    points_out: wp.array2d[wp.vec3f],
):
    """Copy with hints for the next row, the row after the last and a negative slot. Dim (E, N)."""
    row, i = wp.tid()
    prefetch_value(values_in, row + 1, i)
    prefetch_point(points_in, row + 1, i)
    prefetch_value(values_in, row, -1)
    prefetch_point(points_in, row, -1)
    values_out[row, i] = values_in[row, i]
    points_out[row, i] = points_in[row, i]


def inputs():
    """Values with ties, one row masked."""
    rng = np.random.default_rng(3)
    values = rng.integers(-50, 50, (E, N)).astype(np.float32)
    lengths = rng.uniform(0.0, 1.0, (E, N)).astype(np.float32)
    active = np.ones(E, bool)
    active[MASKED] = False
    return values, lengths, active


def run(lanes, device="cpu"):
    """Everything that one lane setting gives."""
    device = wp.get_device(device)
    values, lengths, active = inputs()

    def put(array, dtype):
        return wp.array(array, dtype=dtype, device=device)

    counts, mask = put(COUNTS, wp.int32), put(active, wp.bool)
    floats = wp.full((E, ROUNDS, 3), -7.0, dtype=wp.float32, device=device)
    ints = wp.full((E, ROUNDS, 4), -7, dtype=wp.int32, device=device)
    scan = put(lengths, wp.float32)
    offsets = wp.zeros((E, scan_offsets_size(N)), dtype=wp.float32, device=device)
    smooth, unguarded = put(lengths, wp.float32), put(lengths, wp.float32)
    other = wp.zeros((E, N), dtype=wp.float32, device=device)
    seen = wp.zeros((E, lanes), dtype=wp.int32, device=device)
    given = put(values, wp.float32)
    for launch in (
        block_launch(
            reduce_kernel, E, lanes, [mask, counts, given, ROUNDS], [floats, ints], device
        ),
        block_launch(scan_kernel, E, lanes, [mask, counts], [scan, offsets], device),
        block_launch(smooth_kernel, E, lanes, [counts, 5, 1], [smooth, other], device),
        block_launch(smooth_kernel, E, lanes, [counts, 5, 0], [unguarded, other], device),
        block_launch(lane_kernel, E, lanes, [], [seen], device),
    ):
        launch.launch()
    return {
        "floats": floats.numpy().copy(),
        "ints": ints.numpy().copy(),
        "scan": scan.numpy().copy(),
        "smooth": smooth.numpy().copy(),
        "unguarded": unguarded.numpy().copy(),
        "seen": seen.numpy().copy(),
    }


@functools.cache
def run_elsewhere(lanes, reverse):
    """:func:`run` on CPU fibers, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.npz"
        subprocess.run(
            [sys.executable, __file__, str(lanes), str(path)],
            env={**os.environ, "TRACK_GEN_REVERSE_LANES": "1" if reverse else "0"},
            check=True,
            capture_output=True,
            timeout=300,
        )
        with np.load(path) as loaded:
            return dict(loaded)


SETTINGS = [(1, False), (8, False), (32, False), (64, False), (32, True), (64, True)]


@pytest.fixture(scope="module", params=SETTINGS, ids=lambda s: f"{s[0]}{'r' if s[1] else ''}")
def found(request):
    """Outputs of a lane setting; one lane runs here, the others as fibers elsewhere."""
    lanes, reverse = request.param
    return run(1) if request.param == (1, False) else run_elsewhere(lanes, reverse)


def check(found):
    """Compare with NumPy."""
    values, lengths, active = inputs()
    for env in range(E):
        count = COUNTS[env]
        if not active[env]:
            assert (found["floats"][env] == -7.0).all()
            assert (found["ints"][env] == -7).all()
            assert (found["scan"][env] == lengths[env]).all()
            continue
        for r in range(ROUNDS):
            row = values[env, (np.arange(count) * (r + 1)) % count]
            high, least, spread = found["floats"][env, r]
            assert (high, least, spread) == (row.max(), row.min(), 0.0)
            flags = np.bitwise_or.reduce(1 << (np.arange(count) % (r + 3)))
            # argmin takes the first of equal values.
            assert found["ints"][env, r].tolist() == [row.argmin(), row.sum(), flags, row.sum()]
        chunked = np.concatenate([c.cumsum(dtype=np.float32) for c in chunks(lengths[env, :count])])
        totals = [c.cumsum(dtype=np.float32)[-1] for c in chunks(lengths[env, :count])]
        offsets = np.concatenate([[0.0], np.cumsum(totals, dtype=np.float32)]).astype(np.float32)
        wanted = chunked + offsets[np.arange(count) // SCAN_CHUNK]
        assert (found["scan"][env, :count] == wanted).all()
        assert (found["scan"][env, count:] == lengths[env, count:]).all()
        exact = lengths[env, :count].astype(np.float64).cumsum()
        np.testing.assert_allclose(found["scan"][env, :count], exact, rtol=1e-6)
    for env in range(E):
        row = lengths[env, : COUNTS[env]].astype(np.float64)
        for _ in range(5):
            row = 0.5 * row + 0.25 * (np.roll(row, 1) + np.roll(row, -1))
        np.testing.assert_allclose(found["smooth"][env, : COUNTS[env]], row, atol=1e-6)


def chunks(row):
    """Consecutive runs of SCAN_CHUNK values."""
    return [row[i : i + SCAN_CHUNK] for i in range(0, len(row), SCAN_CHUNK)]


def test_primitives_agree_with_numpy(found):
    check(found)


def test_lane_counts_agree_bit_for_bit(found):
    one = run(1)
    for key in ("floats", "ints", "scan", "smooth"):
        assert found[key].tobytes() == one[key].tobytes(), key


def test_blocks_have_the_lanes_asked_for(found):
    lanes = found["seen"].shape[1]
    assert (found["seen"] == lanes).all()


def test_a_missing_barrier_shows_in_reversed_order():
    """The race detector detects: without barriers the two lane orders disagree."""
    forward, reverse = run_elsewhere(32, False), run_elsewhere(32, True)
    assert forward["unguarded"].tobytes() != reverse["unguarded"].tobytes()
    assert forward["smooth"].tobytes() == reverse["smooth"].tobytes()


def test_block_launch_runs_nothing_before_launch():
    seen = wp.zeros((3, 1), dtype=wp.int32, device="cpu")
    launch = block_launch(lane_kernel, 3, 1, [], [seen], wp.get_device("cpu"))
    assert not seen.numpy().any()
    launch.launch()
    assert (seen.numpy() == 1).all()


def test_hints_change_nothing(device):
    values = np.random.default_rng(0).random((5, 7), dtype=np.float32)
    points = np.random.default_rng(1).random((5, 7, 3), dtype=np.float32)
    given = [
        wp.array(values, dtype=wp.float32, device=device),
        wp.array(points, dtype=wp.vec3f, device=device),
    ]
    copies = [wp.zeros_like(array) for array in given]
    wp.launch(hinted_copy_kernel, dim=(5, 7), inputs=given, outputs=copies, device=device)
    assert (copies[0].numpy() == values).all()
    assert (copies[1].numpy() == points).all()


@pytest.mark.parametrize(("size", "wanted"), [(1, 1), (16, 1), (17, 2), (512, 32), (4095, 256)])
def test_scan_offsets_size(size, wanted):
    assert scan_offsets_size(size) == wanted


@pytest.mark.cuda
@pytest.mark.parametrize("lanes", [32, 64, 128])
def test_primitives_on_cuda(lanes):
    check(run(lanes, "cuda"))


if __name__ == "__main__":
    wp.config.quiet = True
    wp.config.enable_cpu_blocks = True
    np.savez(sys.argv[2], **run(int(sys.argv[1])))
