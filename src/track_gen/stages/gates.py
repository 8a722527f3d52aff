"""Start of a batch of gate courses: how many gates each env gets."""

from __future__ import annotations

import warp as wp

from track_gen.block import block_launch
from track_gen.rng import Stream, draw_int, draw_words

__all__ = ["draw_counts"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.kernel
def draw_counts_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    active_in: wp.array[wp.bool],
    status_in: wp.array[wp.int32],
    fewest: int,
    most: int,
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
        count_out[env] = draw_int(word[0], fewest, most)
    else:
        count_out[env] = 0


def draw_counts(
    seeds: wp.array,
    episode: wp.array,
    active: wp.array,
    status: wp.array,
    count: wp.array,
    valid: wp.array,
    count_range: tuple[int, int],
    lanes: int,
    device: wp.Device,
) -> wp.Launch:
    """Prepare the launch that draws the number of gates, once per (seed, episode).

    Args:
        seeds: Seeds, int32, shape [E].
        episode: Episode counters, int32, shape [E].
        active: Envs to regenerate, bool, shape [E]; the others are not touched.
        status: 0 or PARAMETER, int32, shape [E].
        count: Output, int32, shape [E]; 0 with PARAMETER.
        valid: Output, bool, shape [E]: false.
        count_range: Fewest and most gates.
        lanes: Block size.
        device: Device of all arrays.
    """
    return block_launch(
        draw_counts_kernel,
        active.shape[0],
        lanes,
        inputs=[seeds, episode, active, status, *count_range],
        outputs=[count, valid],
        device=device,
    )
