"""Block primitives: one block owns one env, its lanes stride over the points.

This is the only file with native code. Every primitive works on three targets with the same result:

* CUDA: a block of ``WP_TILE_BLOCK_DIM`` threads (a multiple of 32), shuffles and shared memory;
* CPU with one lane (the normal CPU mode): plain values, nothing static, safe from many threads;
* CPU fibers (``wp.config.enable_cpu_blocks``, for tests): static storage and fiber yields.

All reductions offered here do not depend on the order of the lanes (maximum, minimum, integer sum,
bitwise or), and :func:`block_prefix_sum` adds in fixed chunks, so a kernel gives the same bits for
any number of lanes. There are no float atomics and no lane-ordered float sums.

``WP_TILE_*`` macros are internal to Warp; ``tests/test_block.py`` is the canary, proven on
warp-lang 1.19.0.
"""

from __future__ import annotations

import os

import warp as wp

__all__ = [
    "SCAN_CHUNK",
    "block_argmin",
    "block_launch",
    "block_lane",
    "block_max",
    "block_min",
    "block_prefix_sum",
    "block_sum_int",
    "block_sync",
    "block_vote",
    "float_row",
    "prefetch_point",
    "prefetch_value",
    "scan_offsets_size",
]

wp.set_module_options({"enable_backward": False})

REVERSE_LANES = os.environ.get("TRACK_GEN_REVERSE_LANES", "0") == "1"
"""Test switch: lanes run in reversed order, so that a missing barrier on CPU fibers shows."""

SCAN_CHUNK = 16
"""Points that one lane adds in order in :func:`block_prefix_sum`; fixed, so results are too."""


@wp.func_native("WP_TILE_SYNC();")
def block_sync():
    """Barrier for all lanes of the block; must be reached by all of them."""
    ...


_PREFETCH = """
#if !defined(__CUDA_ARCH__)
    if (i >= 0 && row < values.shape[0]) __builtin_prefetch(wp::address(values, row, i));
#endif
"""


@wp.func_native(_PREFETCH)
def prefetch_point(values: wp.array2d[wp.vec3f], row: int, i: int):
    """Hint that ``values[row, i]`` is read soon, where one thread does all rows in order (the CPU).

    The rows of a batch lie pages apart, so each first touch of one waits. Does nothing on CUDA,
    where other warps fill the wait, for a negative ``i``, or past the last row.
    """
    ...


@wp.func_native(_PREFETCH)
def prefetch_value(values: wp.array2d[wp.float32], row: int, i: int):
    """:func:`prefetch_point` for an array of numbers."""
    ...


@wp.func
def block_lane(thread: int) -> int:
    """Lane of a thread: the identity, or reversed in the race test."""
    if wp.static(REVERSE_LANES):
        return wp.block_dim() - 1 - thread
    return thread


def _reduction(ctype: str, combine: str) -> str:
    """Native body of an order-independent block reduction of ``value``.

    ``combine`` is a C++ expression of ``a`` and ``b``. Two barriers: the first protects the slots
    from readers of an earlier call.
    """
    return f"""
#if defined(__CUDA_ARCH__)
    __shared__ {ctype} slots[32];
    const int warp_count = (WP_TILE_BLOCK_DIM + 31) / 32;
    {ctype} a = value;
    for (int offset = 16; offset > 0; offset >>= 1) {{
        const {ctype} b = __shfl_xor_sync(0xffffffffu, a, offset);
        a = {combine};
    }}
    if (warp_count == 1) return a;
    __syncthreads();
    if ((threadIdx.x & 31) == 0) slots[threadIdx.x >> 5] = a;
    __syncthreads();
    a = slots[0];
    for (int w = 1; w < warp_count; ++w) {{
        const {ctype} b = slots[w];
        a = {combine};
    }}
    return a;
#elif WP_TILE_BLOCK_DIM == 1
    return value;
#else
    static {ctype} slots[WP_TILE_BLOCK_DIM];
    WP_TILE_SYNC();
    slots[WP_TILE_THREAD_IDX] = value;
    WP_TILE_SYNC();
    {ctype} a = slots[0];
    for (int w = 1; w < WP_TILE_BLOCK_DIM; ++w) {{
        const {ctype} b = slots[w];
        a = {combine};
    }}
    return a;
#endif
"""


@wp.func_native(_reduction("float", "(b > a) ? b : a"))
def block_max(value: wp.float32) -> wp.float32:
    """Largest ``value`` of the block, on every lane (a NaN must not be passed in)."""
    ...


@wp.func_native(_reduction("float", "(b < a) ? b : a"))
def block_min(value: wp.float32) -> wp.float32:
    """Least ``value`` of the block, on every lane (a NaN must not be passed in)."""
    ...


@wp.func_native(_reduction("int", "a + b"))
def block_sum_int(value: wp.int32) -> wp.int32:
    """Sum of ``value`` over the block, on every lane."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    __shared__ float values[32];
    __shared__ int indices[32];
    const int warp_count = (WP_TILE_BLOCK_DIM + 31) / 32;
    float v = value;
    int k = index;
    for (int offset = 16; offset > 0; offset >>= 1) {
        const float w = __shfl_xor_sync(0xffffffffu, v, offset);
        const int m = __shfl_xor_sync(0xffffffffu, k, offset);
        if (w < v || (w == v && m < k)) { v = w; k = m; }
    }
    if (warp_count == 1) return k;
    __syncthreads();
    if ((threadIdx.x & 31) == 0) { values[threadIdx.x >> 5] = v; indices[threadIdx.x >> 5] = k; }
    __syncthreads();
    v = values[0];
    k = indices[0];
    for (int j = 1; j < warp_count; ++j) {
        if (values[j] < v || (values[j] == v && indices[j] < k)) { v = values[j]; k = indices[j]; }
    }
    return k;
#elif WP_TILE_BLOCK_DIM == 1
    return index;
#else
    static float values[WP_TILE_BLOCK_DIM];
    static int indices[WP_TILE_BLOCK_DIM];
    WP_TILE_SYNC();
    values[WP_TILE_THREAD_IDX] = value;
    indices[WP_TILE_THREAD_IDX] = index;
    WP_TILE_SYNC();
    float v = values[0];
    int k = indices[0];
    for (int j = 1; j < WP_TILE_BLOCK_DIM; ++j) {
        if (values[j] < v || (values[j] == v && indices[j] < k)) { v = values[j]; k = indices[j]; }
    }
    return k;
#endif
""")
def block_argmin(value: wp.float32, index: wp.int32) -> wp.int32:
    """Index that belongs to the least ``value`` of the block; ties go to the lowest index."""
    ...


@wp.func_native("""
#if defined(__CUDA_ARCH__)
    __shared__ int flag_slots[2][32];
    __shared__ int sum_slots[2][32];
    const int warp_count = (WP_TILE_BLOCK_DIM + 31) / 32;
    int f = flags;
    int s = value;
    for (int offset = 16; offset > 0; offset >>= 1) {
        f |= __shfl_xor_sync(0xffffffffu, f, offset);
        s += __shfl_xor_sync(0xffffffffu, s, offset);
    }
    if ((threadIdx.x & 31) == 0) {
        flag_slots[parity][threadIdx.x >> 5] = f;
        sum_slots[parity][threadIdx.x >> 5] = s;
    }
    __syncthreads();
    f = 0;
    s = 0;
    for (int w = 0; w < warp_count; ++w) {
        f |= flag_slots[parity][w];
        s += sum_slots[parity][w];
    }
    return wp::vec_t<2, int>(f, s);
#elif WP_TILE_BLOCK_DIM == 1
    return wp::vec_t<2, int>(flags, value);
#else
    static int flag_slots[2][WP_TILE_BLOCK_DIM];
    static int sum_slots[2][WP_TILE_BLOCK_DIM];
    flag_slots[parity][WP_TILE_THREAD_IDX] = flags;
    sum_slots[parity][WP_TILE_THREAD_IDX] = value;
    WP_TILE_SYNC();
    int f = 0;
    int s = 0;
    for (int w = 0; w < WP_TILE_BLOCK_DIM; ++w) {
        f |= flag_slots[parity][w];
        s += sum_slots[parity][w];
    }
    return wp::vec_t<2, int>(f, s);
#endif
""")
def block_vote(flags: wp.int32, value: wp.int32, parity: wp.int32) -> wp.vec2i:
    """Bitwise or of ``flags`` and sum of ``value`` with a single barrier.

    The barrier also orders the memory of the block, as :func:`block_sync` does. Consecutive calls
    must alternate ``parity`` between 0 and 1: a lane may then enter the next vote while another
    still reads this one.
    """
    ...


@wp.func
def float_row(base: wp.uint64, offset: int, size: int) -> wp.array[wp.float32]:
    """View of ``size`` floats from element ``offset`` after ``base`` on.

    The compiler knows its stride, so that it vectorises loops over it on the CPU. It does for
    ``while`` loops with indices that it knows not to be negative.
    """
    return wp.array(ptr=base + wp.uint64(4 * offset), shape=(size,), dtype=wp.float32)


def scan_offsets_size(size: int) -> int:
    """Number of chunk offsets that :func:`block_prefix_sum` needs for ``size`` values."""
    return (size + SCAN_CHUNK - 1) // SCAN_CHUNK


@wp.func
def block_prefix_sum(
    values: wp.array2d[wp.float32],
    offsets: wp.array2d[wp.float32],
    env: int,
    lane: int,
    count: int,
):
    """Replace ``values[env, :count]`` by its inclusive prefix sum; same bits for any lane count.

    Args:
        values: Addends, overwritten by the sums, shape [E, >= count], rows without gaps.
        offsets: Scratch, shape [E, >= scan_offsets_size(count)], rows without gaps.
        env: Row.
        lane: Lane of the caller.
        count: Number of values, the same for the whole block.

    The caller must have a barrier between writing ``values`` and this call; the call ends with a
    barrier.
    """
    sums = float_row(values[env].ptr, 0, values.shape[1])
    totals = float_row(offsets[env].ptr, 0, offsets.shape[1])
    chunks = (count + SCAN_CHUNK - 1) // SCAN_CHUNK
    chunk = int(lane)
    while chunk < chunks:
        total = float(0.0)
        i = chunk * SCAN_CHUNK
        end = wp.min(i + SCAN_CHUNK, count)
        while i < end:
            total += sums[i]
            sums[i] = total
            i += 1
        totals[chunk] = total
        chunk += wp.block_dim()
    block_sync()
    offset = float(0.0)
    seen = int(0)
    chunk = int(lane)
    while chunk < chunks:
        while seen < chunk:
            offset += totals[seen]
            seen += 1
        i = chunk * SCAN_CHUNK
        end = wp.min(i + SCAN_CHUNK, count)
        while i < end:
            sums[i] = sums[i] + offset
            i += 1
        chunk += wp.block_dim()
    block_sync()


def block_launch(
    kernel: wp.Kernel,
    num_envs: int,
    lanes: int,
    inputs: list,
    outputs: list,
    device: wp.Device,
) -> wp.Launch:
    """Prepare one launch of a block kernel: ``dim=(num_envs, lanes)``, one block per env.

    Nothing runs yet: the returned command does on ``.launch()``, in a capture or not, without
    packing its arguments again. It does not keep the arrays alive; their owner must.

    Args:
        kernel: Kernel with ``env, thread = wp.tid()``.
        num_envs: Rows of the arrays.
        lanes: Block size: 1 on the CPU, a multiple of 32 on CUDA.
        inputs: Input arguments in the order of the kernel.
        outputs: Output arguments in the order of the kernel.
        device: Device of all arrays.
    """
    return wp.launch(
        kernel,
        dim=(num_envs, lanes),
        inputs=inputs,
        outputs=outputs,
        device=device,
        block_dim=lanes,
        record_cmd=True,
    )
