"""Many envs in one world: where each stands, and batches shifted there.

Generators publish each env about the origin. A view of all of them, or a physics scene that holds
them all, needs them side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from track_gen.block import block_lane, block_launch
from track_gen.checks import check_device, check_float, check_int
from track_gen.status import TrackStatus

__all__ = ["Placement", "grid_origins"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.kernel
def shift_points_kernel(
    # In:
    mask_in: wp.array[wp.bool],
    origin_in: wp.array[wp.vec3f],
    points_in: wp.array2d[wp.vec3f],
    # Out:
    points_out: wp.array2d[wp.vec3f],
):
    """Shift the points of the masked envs by their origins. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    if not mask_in[env]:
        return
    origin = origin_in[env]
    for i in range(block_lane(thread), points_in.shape[1], wp.block_dim()):
        points_out[env, i] = points_in[env, i] + origin


@wp.func
def _copy_row(
    mask: wp.array[wp.bool],
    rows: wp.array2d[Any],
    target: wp.array2d[Any],
    env: int,
    thread: int,
):
    """Copy a row of a masked env."""
    if not mask[env]:
        return
    for i in range(block_lane(thread), rows.shape[1], wp.block_dim()):
        target[env, i] = rows[env, i]


# One kernel per type with a name of its own: a capture on the CPU finds kernels by their names, so
# the overloads of a generic one all replay as the last of them.


@wp.kernel
def copy_vectors_kernel(
    # In:
    mask_in: wp.array[wp.bool],
    rows_in: wp.array2d[wp.vec3f],
    # Out:
    rows_out: wp.array2d[wp.vec3f],
):
    """Copy rows of vectors. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    _copy_row(mask_in, rows_in, rows_out, env, thread)


@wp.kernel
def copy_rotations_kernel(
    # In:
    mask_in: wp.array[wp.bool],
    rows_in: wp.array2d[wp.quatf],
    # Out:
    rows_out: wp.array2d[wp.quatf],
):
    """Copy rows of rotations. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    _copy_row(mask_in, rows_in, rows_out, env, thread)


@wp.kernel
def copy_numbers_kernel(
    # In:
    mask_in: wp.array[wp.bool],
    rows_in: wp.array2d[wp.float32],
    # Out:
    rows_out: wp.array2d[wp.float32],
):
    """Copy rows of numbers. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    _copy_row(mask_in, rows_in, rows_out, env, thread)


@wp.kernel
def copy_integers_kernel(
    # In:
    mask_in: wp.array[wp.bool],
    rows_in: wp.array2d[wp.int32],
    # Out:
    rows_out: wp.array2d[wp.int32],
):
    """Copy rows of integers. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    _copy_row(mask_in, rows_in, rows_out, env, thread)


_COPY_KERNELS = {
    wp.vec3f: copy_vectors_kernel,
    wp.quatf: copy_rotations_kernel,
    wp.float32: copy_numbers_kernel,
    wp.int32: copy_integers_kernel,
}


@wp.kernel
def judge_places_kernel(
    # In:
    mask_in: wp.array[wp.bool],
    origin_in: wp.array[wp.vec3f],
    status_in: wp.array[wp.int32],
    # Out:
    status_out: wp.array[wp.int32],
    valid_out: wp.array[wp.bool],
):
    """Carry the verdict over; an env whose origin is not finite is invalid. Launch dim (E, 1)."""
    env, _ = wp.tid()
    if not mask_in[env]:
        return
    status = status_in[env]
    if not wp.isfinite(origin_in[env]):
        status |= wp.static(int(TrackStatus.NONFINITE))  # the same bit in GateStatus
    status_out[env] = status
    valid_out[env] = status == 0


def _columns(array: wp.array) -> wp.array:
    """A view of an array [E] as [E, 1]; an array with columns as it is."""
    if array.ndim > 1:
        return array
    view = wp.array(
        ptr=array.ptr,
        dtype=array.dtype,
        shape=(array.shape[0], 1),
        strides=(array.strides[0], array.strides[0]),
        device=array.device,
    )
    view._ref = array  # keeps the memory alive
    return view


class Placement:
    """Prepared launches that write one published batch into another, shifted by origins.

    Args:
        source: Arrays of the batch to read, by field name, among them ``status`` and ``valid``.
        target: Arrays of the same shapes to write.
        positions: Names of those that hold positions, vec3f [E, slots].
        every_env: A mask of all envs, bool [E].
        device: Device of all of them.
    """

    def __init__(
        self,
        source: dict[str, wp.array],
        target: dict[str, wp.array],
        positions: Sequence[str],
        every_env: wp.array,
        device: wp.Device,
    ) -> None:
        self.every_env = every_env
        """A mask of all envs, bool [E]."""
        self._arrays = (*source.values(), *target.values())
        self._mask = every_env
        status = source["status"]
        E = status.shape[0]
        lanes = 64 if device.is_cuda else 1
        self._origins = wp.empty(0, dtype=wp.vec3f, device=device)  # a placeholder

        def prepare(kernel: wp.Kernel, lanes: int, *arrays: wp.array, outputs: int = 1) -> Any:
            inputs = [every_env, *arrays[:-outputs]]
            return block_launch(kernel, E, lanes, inputs, [*arrays[-outputs:]], device)

        self._shifts = [
            prepare(shift_points_kernel, lanes, self._origins, source[name], target[name])
            for name in positions
        ]
        self._shifts.append(
            prepare(
                judge_places_kernel,
                1,
                self._origins,
                status,
                target["status"],
                target["valid"],
                outputs=2,
            )
        )
        self._copies = [
            prepare(_COPY_KERNELS[array.dtype], lanes, _columns(array), _columns(target[name]))
            for name, array in source.items()
            if name not in (*positions, "status", "valid")
        ]

    def connects(self, source: dict[str, wp.array], target: dict[str, wp.array]) -> bool:
        """Whether it was prepared for exactly these arrays."""
        arrays = (*source.values(), *target.values())
        return len(arrays) == len(self._arrays) and all(
            a is b for a, b in zip(arrays, self._arrays, strict=True)
        )

    def __call__(self, origins: wp.array, mask: wp.array | None) -> None:
        """Write the masked rows, or all of them; allocates nothing and can be captured."""
        mask = self.every_env if mask is None else mask
        if mask is not self._mask:
            self._mask = mask
            for command in (*self._shifts, *self._copies):
                command.set_param_at_index(0, mask)
        if origins is not self._origins:
            self._origins = origins
            for command in self._shifts:
                command.set_param_at_index(1, origins)
        for command in (*self._shifts, *self._copies):
            command.launch()


def grid_origins(
    num_envs: int, spacing: float | tuple[float, float], device: Any = None
) -> wp.array:
    """Places of envs on a square grid in the plane z = 0, its middle at 0.

    Row by row: env 0 stands at the smallest x and y, the next one beside it in x. There are
    ``ceil(sqrt(num_envs))`` columns, and the last row may be short.

    Args:
        num_envs: Envs E, at least 1.
        spacing: Distance of neighbours [length], > 0, or a pair of them along x and along y.
        device: Warp device, or None for the current one.

    Returns:
        Origins [length], vec3f, shape [E], for ``placed`` and the ``origins`` of the runtime tools.

    Raises:
        TypeError: If a type is wrong.
        ValueError: If a value is out of range or the device does not exist.
    """
    num_envs = check_int("grid_origins(num_envs)", num_envs, low=1, high=2**31 - 1)
    device = check_device("grid_origins(device)", device)
    pair = spacing if isinstance(spacing, (tuple, list)) else (spacing, spacing)
    if len(pair) != 2:
        raise ValueError(f"grid_origins(spacing) must be a number or a pair, got {spacing!r}")
    along_x, along_y = (
        check_float("grid_origins(spacing)", value, 0.0, low_open=True) for value in pair
    )
    columns = math.isqrt(num_envs - 1) + 1
    rows = -(-num_envs // columns)
    row, column = np.divmod(np.arange(num_envs), columns)
    origins = np.zeros((num_envs, 3), dtype=np.float32)
    with np.errstate(over="ignore"):
        origins[:, 0] = (column - 0.5 * (columns - 1)) * along_x
        origins[:, 1] = (row - 0.5 * (rows - 1)) * along_y
    if not np.isfinite(origins).all():
        raise ValueError(
            f"grid_origins(spacing) must give places that are finite in single precision, "
            f"got {spacing} for {num_envs} envs"
        )
    return wp.array(origins, dtype=wp.vec3f, device=device)
