"""Counter-based random numbers: one track depends on its own seed and on nothing else.

Draws are Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3,
SC 2011), keyed by (seed, episode) with the counter (draw, stream, attempt, 0). They use integer
arithmetic only, so the CPU and CUDA draw the same numbers; there is no state to advance and no row
index anywhere.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import warp as wp

from track_gen.checks import as_device_mask, check_array, check_device, check_entries, check_int
from track_gen.recording import refuse_recording

__all__ = [
    "PerEnvSeededRNG",
    "Stream",
    "draw_int",
    "draw_uniform",
    "draw_words",
    "philox",
    "philox_numpy",
    "seeds_from_int",
]

wp.set_module_options({"enable_backward": False})


class Stream(enum.IntEnum):
    """One named stream per purpose; the values are part of what a seed means, never reuse them."""

    PARAMETER = 1
    AUGMENT = 2
    DIRECTION = 3
    FAMILY = 4
    BEZIER_CORNERS = 10
    HULL_CORNERS = 11
    HULL_DISPLACEMENT = 12
    POLAR_KNOTS = 13
    VORONOI_SITES = 14
    VORONOI_ANCHORS = 15
    CHECKPOINT = 16
    LIBRARY_CHOICE = 17
    GROWTH_OBSTACLES = 18
    GROWTH_DISTANCES = 19
    ELEVATION = 40
    GATE_COUNT = 41
    GATE_ORDER = 42
    SPAWN = 60


_M0 = 0xD2511F53
_M1 = 0xCD9E8D57
_W0 = 0x9E3779B9
_W1 = 0xBB67AE85


@wp.func
def _mul_high(a: wp.uint32, b: wp.uint32) -> wp.uint32:
    return wp.uint32((wp.uint64(a) * wp.uint64(b)) >> wp.uint64(32))


@wp.func
def philox(
    key0: wp.uint32, key1: wp.uint32, c0: wp.uint32, c1: wp.uint32, c2: wp.uint32, c3: wp.uint32
) -> wp.vec4ui:
    """Philox4x32-10: four random words for a 64-bit key and a 128-bit counter."""
    k0 = key0
    k1 = key1
    x0 = c0
    x1 = c1
    x2 = c2
    x3 = c3
    for _ in range(wp.static(10)):
        high0 = _mul_high(wp.static(wp.uint32(_M0)), x0)
        low0 = wp.static(wp.uint32(_M0)) * x0
        high1 = _mul_high(wp.static(wp.uint32(_M1)), x2)
        low1 = wp.static(wp.uint32(_M1)) * x2
        x0 = high1 ^ x1 ^ k0
        x1 = low1
        x2 = high0 ^ x3 ^ k1
        x3 = low0
        k0 += wp.static(wp.uint32(_W0))
        k1 += wp.static(wp.uint32(_W1))
    return wp.vec4ui(x0, x1, x2, x3)


@wp.func
def draw_words(seed: int, episode: int, stream: int, attempt: int, draw: int) -> wp.vec4ui:
    """Four random words of one draw index of a stream."""
    return philox(
        wp.uint32(seed),
        wp.uint32(episode),
        wp.uint32(draw),
        wp.uint32(stream),
        wp.uint32(attempt),
        wp.uint32(0),
    )


@wp.func
def unit_float(word: wp.uint32) -> float:
    """A word as a float in [0, 1): its upper 24 bits, exact."""
    return float(word >> wp.uint32(8)) * wp.static(1.0 / 16777216.0)


@wp.func
def draw_uniform(seed: int, episode: int, stream: int, attempt: int, draw: int) -> wp.vec4f:
    """Four uniform floats in [0, 1) of one draw index of a stream."""
    w = draw_words(seed, episode, stream, attempt, draw)
    return wp.vec4f(unit_float(w[0]), unit_float(w[1]), unit_float(w[2]), unit_float(w[3]))


@wp.func
def draw_int(word: wp.uint32, low: int, high: int) -> int:
    """Integer in [low, high] from a random word; ``high`` < ``low`` counts as ``low``.

    Multiply-shift: the bias is below (high - low + 1) / 2**32.
    """
    span = wp.uint32(wp.max(high - low, 0) + 1)
    return low + int(_mul_high(word, span))


def philox_numpy(
    key: tuple[Any, Any], counter: tuple[Any, Any, Any, Any]
) -> tuple[np.ndarray, ...]:
    """Philox4x32-10 on the host, vectorised: the same words as :func:`philox`."""
    mask = np.uint64(0xFFFFFFFF)
    k0, k1 = (np.asarray(k, np.uint64) for k in key)
    x0, x1, x2, x3 = np.broadcast_arrays(*(np.asarray(c, np.uint64) for c in counter))
    for _ in range(10):
        p0 = np.uint64(_M0) * x0
        p1 = np.uint64(_M1) * x2
        x0, x1, x2, x3 = (
            (p1 >> np.uint64(32)) ^ x1 ^ k0,
            p1 & mask,
            (p0 >> np.uint64(32)) ^ x3 ^ k1,
            p0 & mask,
        )
        k0 = (k0 + np.uint64(_W0)) & mask
        k1 = (k1 + np.uint64(_W1)) & mask
    return tuple(x.astype(np.uint32) for x in (x0, x1, x2, x3))


def seeds_from_int(base: int, num_envs: int) -> np.ndarray:
    """Seeds of a batch from one int: a keyed bijection of the row index, so without duplicates.

    Eight Feistel rounds on 32 bits with Philox as the round function; the key is ``base`` mod
    2**64. The result for a row does not depend on ``num_envs``.

    Args:
        base: Any int.
        num_envs: Number of rows E.

    Returns:
        Seeds, int32, shape [E].
    """
    key = base % 2**64
    rows = np.arange(num_envs, dtype=np.uint64)
    left, right = rows >> np.uint64(16), rows & np.uint64(0xFFFF)
    for round_index in range(8):
        word = philox_numpy((key & 0xFFFFFFFF, key >> 32), (right, round_index, 0, 0x5EED))[0]
        left, right = right, left ^ (word.astype(np.uint64) & np.uint64(0xFFFF))
    return ((left << np.uint64(16)) | right).astype(np.uint32).view(np.int32)


@wp.kernel
def _set_seeds_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    ids_in: wp.array[wp.int32],
    num_envs: int,
    # Out:
    seeds_out: wp.array[wp.int32],
    episode_out: wp.array[wp.int32],
):
    """Write seeds to rows ``ids_in``, restart their episodes; other ids are ignored. Dim (ids,).

    Without ``ids_in`` the seeds are those of all rows.
    """
    k = wp.tid()
    env = k
    if ids_in.shape[0] > 0:
        env = ids_in[k]
    if env >= 0 and env < num_envs:
        seeds_out[env] = seeds_in[k]
        episode_out[env] = 0


@wp.kernel
def _advance_kernel(
    # In:
    mask_in: wp.array[wp.bool],
    # Out:
    episode_out: wp.array[wp.int32],
):
    """Add one to the episode of the masked rows. Dim (E,)."""
    env = wp.tid()
    if mask_in[env]:
        episode_out[env] = episode_out[env] + 1


class PerEnvSeededRNG:
    """Seeds and episode counters of a batch, on the device.

    Args:
        seeds: An int (any int; expanded by :func:`seeds_from_int`), or int32 seeds of shape [E] as
            Warp array, torch tensor or NumPy array, used verbatim and copied.
        num_envs: Number of rows E, at least 1.
        device: Warp device, or None for the current one.

    Raises:
        ValueError: If a value or shape is out of range.
        TypeError: If a type or dtype is wrong.
    """

    def __init__(self, seeds: Any, num_envs: int, device: Any = None) -> None:
        self.num_envs = check_int("PerEnvSeededRNG.num_envs", num_envs, low=1, high=2**31 - 1)
        self.device = check_device("PerEnvSeededRNG.device", device)
        if isinstance(seeds, (int, np.integer)) and not isinstance(seeds, (bool, np.bool_)):
            host = seeds_from_int(int(seeds), self.num_envs)
            self._seeds = wp.array(host, dtype=wp.int32, device=self.device)
        else:
            given = check_array(
                "PerEnvSeededRNG.seeds",
                seeds,
                dtype=wp.int32,
                shape=(self.num_envs,),
                device=self.device,
            )
            self._seeds = wp.clone(given)
        self._episode = wp.zeros(self.num_envs, dtype=wp.int32, device=self.device)
        self._every_env = wp.full(self.num_envs, True, dtype=wp.bool, device=self.device)

    @property
    def seeds_warp(self) -> wp.array:
        """Current seeds, int32 [E]; the RNG's own buffer, with a stable address."""
        return self._seeds

    @property
    def episode_warp(self) -> wp.array:
        """Episode counters, int32 [E]; the RNG's own buffer, with a stable address."""
        return self._episode

    def warmup(self) -> None:
        """Load the kernels now, so that :meth:`advance` and seeds can be captured."""
        wp.load_module(__name__, device=self.device)

    def set_seeds_warp(self, seeds: Any, ids: Any = None) -> None:
        """Set the seeds of some envs and restart their episodes at 0.

        With arrays on the device it allocates nothing and can be captured.

        Args:
            seeds: New seeds, int32, shape [E] or [len(ids)]; copied.
            ids: Rows to set, int32, or None for all. On the host (a list or NumPy array) ids out of
                range or repeated are an error; ids in a Warp or torch array are not read back, and
                those out of range are ignored.

        Raises:
            ValueError: If shapes or devices disagree, or host ids are out of range or repeated.
            TypeError: If a type or dtype is wrong.
            RuntimeError: In an open capture, with seeds or ids on the host.
        """
        name = "PerEnvSeededRNG.set_seeds_warp"
        target = None
        if isinstance(ids, (list, tuple, np.ndarray)):
            host = np.asarray(ids)
            if host.ndim != 1 or (host.size and not np.issubdtype(host.dtype, np.integer)):
                raise TypeError(
                    f"{name}(ids) must be one-dimensional integers, got {host.dtype} {host.shape}"
                )
            if host.size and (host.min() < 0 or host.max() >= self.num_envs):
                raise ValueError(
                    f"{name}(ids) must be in [0, {self.num_envs - 1}], "
                    f"got {host.min()} to {host.max()}"
                )
            if len(np.unique(host)) != host.size:
                raise ValueError(f"{name}(ids) must not repeat a row")
            ids = host.astype(np.int32)
        if ids is not None:
            target = check_array(
                f"{name}(ids)", ids, dtype=wp.int32, shape=(None,), device=self.device
            )
        rows = self.num_envs if target is None else target.shape[0]
        source = check_array(
            f"{name}(seeds)", seeds, dtype=wp.int32, shape=(rows,), device=self.device
        )
        if rows:
            wp.launch(
                _set_seeds_kernel,
                dim=rows,
                inputs=[source, target, self.num_envs],
                outputs=[self._seeds, self._episode],
                device=self.device,
            )

    def advance(self, mask: Any = None) -> None:
        """Add one to the episode of the masked envs (default all): the way to fresh tracks.

        Runs on the device and can be captured.

        Args:
            mask: bool [E] as Warp array, torch tensor or NumPy array, or None for all.

        Raises:
            ValueError: If the shape or device is wrong.
            TypeError: If the dtype is not bool.
            RuntimeError: In an open capture, with a NumPy mask.
        """
        every = self._every_env
        chosen = (
            every
            if mask is None
            else as_device_mask("PerEnvSeededRNG.advance(mask)", mask, self.num_envs, self.device)
        )
        wp.launch(
            _advance_kernel,
            dim=self.num_envs,
            inputs=[chosen],
            outputs=[self._episode],
            device=self.device,
        )

    def state_dict(self) -> dict[str, np.ndarray]:
        """Seeds and episodes as NumPy copies (an explicit synchronisation)."""
        return {"seeds": self._seeds.numpy().copy(), "episode": self._episode.numpy().copy()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`state_dict` returned, bit for bit.

        Raises:
            ValueError: If the state is not of this number of envs.
            TypeError: If a type is wrong.
            KeyError: If an entry is missing or unknown.
            RuntimeError: If a capture is open.
        """
        name = "PerEnvSeededRNG.load_state_dict"
        refuse_recording(f"{name}()", self.device)
        check_entries(f"{name}(state)", state, ("seeds", "episode"))
        seeds = check_array(
            f"{name}(seeds)",
            state["seeds"],
            dtype=wp.int32,
            shape=(self.num_envs,),
            device=self.device,
        )
        episode = check_array(
            f"{name}(episode)",
            state["episode"],
            dtype=wp.int32,
            shape=(self.num_envs,),
            device=self.device,
        )
        wp.copy(self._seeds, seeds)
        wp.copy(self._episode, episode)
