"""Start of a batch of gate courses: how many gates each env gets, and who flies a free order."""

from __future__ import annotations

import warp as wp

from track_gen.block import block_launch
from track_gen.rng import Stream, draw_int, draw_words

__all__ = ["draw_counts", "split_orders"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.kernel
def draw_counts_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    active_in: wp.array[wp.bool],
    status_in: wp.array[wp.int32],
    family_in: wp.array[wp.int32],
    ranges_in: wp.array2d[wp.int32],
    # Out:
    count_out: wp.array[wp.int32],
    valid_out: wp.array[wp.bool],
):
    """Draw the number of gates of each active env, 0 if its parameters are bad. Dim (E, lanes)."""
    env, thread = wp.tid()
    if thread != 0 or not active_in[env]:
        return
    word = draw_words(seeds_in[env], episode_in[env], wp.static(int(Stream.GATE_COUNT)), 0, 0)
    valid_out[env] = False
    if status_in[env] == 0:
        family = family_in[env]
        count_out[env] = draw_int(word[0], ranges_in[family, 0], ranges_in[family, 1])
    else:
        count_out[env] = 0


def draw_counts(
    seeds: wp.array,
    episode: wp.array,
    active: wp.array,
    status: wp.array,
    family: wp.array,
    ranges: wp.array,
    count: wp.array,
    valid: wp.array,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that draws the number of gates, once per (seed, episode).

    Args:
        seeds: Seeds, int32, shape [E].
        episode: Episode counters, int32, shape [E].
        active: Envs to regenerate, bool, shape [E]; the others are not touched.
        status: 0 or PARAMETER, int32, shape [E].
        family: Family of each env, int32, shape [E].
        ranges: Fewest and most gates of each family, int32, shape [families, 2].
        count: Output, int32, shape [E]; 0 with PARAMETER.
        valid: Output, bool, shape [E]: false.
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        draw_counts_kernel,
        active.shape[0],
        lanes,
        inputs=[seeds, episode, active, status, family, ranges],
        outputs=[count, valid],
        device=device,
    )


@wp.kernel
def split_orders_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    family_in: wp.array[wp.int32],
    free: int,
    # Out:
    free_out: wp.array[wp.bool],
    angular_out: wp.array[wp.bool],
):
    """Tell pending envs with a free order from those that fly around. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    if thread != 0:
        return
    chosen = ((free >> family_in[env]) & 1) != 0
    free_out[env] = pending_in[env] and chosen
    angular_out[env] = pending_in[env] and not chosen


def split_orders(
    pending: wp.array,
    family: wp.array,
    free: int,
    free_pending: wp.array,
    angular_pending: wp.array,
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that splits the pending envs of a mixture by the kind of their order.

    Args:
        pending: Envs to work on, bool, shape [E].
        family: Family of each env, int32, shape [E].
        free: Bit k is set if family k flies a free order.
        free_pending: Output, bool, shape [E].
        angular_pending: Output: the other pending envs, bool, shape [E].
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        split_orders_kernel,
        pending.shape[0],
        lanes,
        inputs=[pending, family, free],
        outputs=[free_pending, angular_pending],
        device=device,
    )
