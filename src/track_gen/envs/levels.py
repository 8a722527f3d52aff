"""What callers hand over, seeds, episodes, masks, actions, and the infos that name levels."""

# pyright: basic
from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from track_gen.checks import check_array

__all__ = ["LevelInfo", "as_reset_mask", "as_words", "record_actions"]


class LevelInfo(dict):
    """An info dictionary whose ``"episode"`` is the level's episode until a wrapper takes the key.

    Gymnasium's ``RecordEpisodeStatistics`` refuses a dictionary that contains ``"episode"`` and
    stores its statistics there. So the level's episode is kept as ``"level_episode"``, and
    ``info["episode"]`` reads it where no statistics have been stored.
    """

    def __missing__(self, key: str) -> Any:
        if key == "episode" and "level_episode" in self:
            return self["level_episode"]
        raise KeyError(key)


def as_reset_mask(mask: Any, num_envs: int) -> np.ndarray:
    """The reset mask, checked as Gymnasium's own vector environments do."""
    name = "RaceVectorEnv.reset(options['reset_mask'])"
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, got {type(mask).__name__}")
    check_array(name, mask, dtype=wp.bool, shape=(num_envs,), device=wp.get_device("cpu"))
    if not mask.any():
        raise ValueError(f"{name} must have at least one True row")
    return mask.copy()


def as_words(name: str, values: Any, num_envs: int) -> np.ndarray:
    """Ints of any sign as the 32-bit words that name levels."""
    array = np.asarray(values)
    if array.dtype != object and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"RaceVectorEnv.reset({name}) must be ints, got {array.dtype}")
    if array.shape != (num_envs,):
        raise ValueError(
            f"RaceVectorEnv.reset({name}) must have shape ({num_envs},), got {array.shape}"
        )
    words = np.array([int(value) & 0xFFFFFFFF for value in array.tolist()], dtype=np.uint32)
    return words.view(np.int32)


def record_actions(name: str, actions: Any, target: wp.array, device: wp.Device) -> None:
    """Record a copy of actions on the device into ``target``: they are read at each replay.

    Raises:
        TypeError: If the type or dtype is wrong.
        ValueError: If the shape or the device is wrong, or they are strided.
        RuntimeError: If they are a NumPy array.
    """
    given = check_array(name, actions, wp.float32, target.shape, device)
    if not given.is_contiguous:
        raise ValueError(f"{name} must be contiguous while a capture is open")
    wp.copy(target, given)
