"""What all runtime tools share on the host: tracks that are checked, poses and masks as arrays."""

from __future__ import annotations

from typing import Any

import warp as wp

from track_gen.checks import as_device_mask, as_origins, check_int

__all__ = [
    "as_headings",
    "as_mask",
    "as_positions",
    "as_values",
    "check_agents",
    "check_track",
    "track_origins",
]

_TRACK_ARRAYS = {
    **dict.fromkeys(("center", "outer", "inner", "tangent", "normal"), (wp.vec3f, 2)),
    "arclen": (wp.float32, 2),
    **dict.fromkeys(("length", "half_width"), (wp.float32, 1)),
    **dict.fromkeys(("count", "winding"), (wp.int32, 1)),
    "valid": (wp.bool, 1),
}
"""Types and dimensions of the arrays that a :class:`track_gen.runtime.TrackView` needs."""


def check_track(name: str, track: Any) -> None:
    """Refuse what has not the arrays of a track; ``curvature`` may be missing.

    Raises:
        TypeError: If an array is missing or of another type.
        ValueError: If arrays differ in shape or device.
    """
    missing = [field for field in _TRACK_ARRAYS if not hasattr(track, field)]
    if missing:
        raise TypeError(
            f"{name} needs a track, a racing line, a course line or anything with their arrays, "
            f"got {type(track).__name__} without {', '.join(missing)}"
        )
    wanted = dict(_TRACK_ARRAYS)
    if getattr(track, "curvature", None) is not None:
        wanted["curvature"] = wanted["arclen"]
    for field, (dtype, ndim) in wanted.items():
        array = getattr(track, field)
        if not isinstance(array, wp.array) or array.dtype is not dtype or array.ndim != ndim:
            found = type(array).__name__
            if isinstance(array, wp.array):
                found = f"{array.dtype.__name__} of {array.ndim}"
            raise TypeError(
                f"{name}: {field} of the track must be a Warp array of {dtype.__name__} of {ndim} "
                f"dimensions, got {found}"
            )
    shape, device = track.center.shape, track.center.device
    for field, (_, ndim) in wanted.items():
        array = getattr(track, field)
        if array.shape != shape[:ndim] or array.device != device:
            raise ValueError(
                f"{name}: {field} of the track must have shape {shape[:ndim]} on device {device}, "
                f"got {array.shape} on {array.device}"
            )


def track_origins(name: str, track: Any, origins: Any) -> wp.array | None:
    """Where each env's track stands in the world as vec3f [E]; None stays None.

    Raises:
        TypeError: If the type or dtype is wrong.
        ValueError: If the shape or device is wrong, or the track is a placed one: its positions
            are those of the world already.
    """
    if origins is None:
        return None
    if getattr(track, "is_placed", False):
        raise ValueError(
            f"{name} must be None for a placed track: its positions are those of the world already"
        )
    return as_origins(name, origins, track.center.shape[0], track.center.device)


def check_agents(name: str, value: Any) -> int:
    """Number of agents per env as an int in [1, 2**20]."""
    return check_int(name, value, low=1, high=2**20)


def _is_torch_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr")


def as_positions(
    name: str, value: Any, num_envs: int, num_agents: int, device: wp.Device
) -> wp.array:
    """Positions as a float32 array [E, A, 2 or 3] that shares the caller's memory.

    Args:
        name: Owner and field for the message.
        value: Warp array of vec2f or vec3f [E, A], or of float32 [E, A, 2 or 3], or a torch tensor
            [E, A, 2 or 3], strided or not. With one agent the dimension A may be missing.
        num_envs: Rows E.
        num_agents: Agents A per env.
        device: Device the array must be on.

    Raises:
        TypeError: If the type or dtype is wrong.
        ValueError: If the shape or the device is wrong.
    """
    if _is_torch_tensor(value):
        value = wp.from_torch(value.detach())
    if not isinstance(value, wp.array):
        raise TypeError(
            f"{name} must be a Warp array or a torch tensor, got {type(value).__name__}"
        )
    if value.device != device:
        raise ValueError(f"{name} must be on device {device}, got {value.device}")
    shape, strides = value.shape, value.strides
    if value.dtype in (wp.vec2f, wp.vec3f):
        shape = (*shape, 2 if value.dtype is wp.vec2f else 3)
        strides = (*strides, 4)
    elif value.dtype is not wp.float32:
        raise TypeError(f"{name} must be of float32, vec2f or vec3f, got {value.dtype.__name__}")
    if num_agents == 1 and len(shape) == 2:
        shape = (shape[0], 1, shape[1])
        strides = (strides[0], strides[0], strides[1])
    if shape not in ((num_envs, num_agents, 2), (num_envs, num_agents, 3)):
        raise ValueError(
            f"{name} must have shape ({num_envs}, {num_agents}, 2 or 3), got {tuple(shape)}"
        )
    view = wp.array(ptr=value.ptr, dtype=wp.float32, shape=shape, strides=strides, device=device)
    view._ref = value  # keeps the memory alive
    return view


def as_values(
    name: str, value: Any, num_envs: int, num_agents: int, device: wp.Device, dtype: Any
) -> wp.array:
    """One value per agent as an array [E, A] that shares the caller's memory.

    With one agent the dimension A may be missing. Warp arrays and torch tensors may be strided.

    Raises:
        TypeError: If the type or dtype is wrong.
        ValueError: If the shape or the device is wrong.
    """
    if _is_torch_tensor(value):
        value = wp.from_torch(value.detach())
    if not isinstance(value, wp.array):
        raise TypeError(
            f"{name} must be a Warp array or a torch tensor, got {type(value).__name__}"
        )
    if value.dtype is not dtype:
        raise TypeError(f"{name} must be of {dtype.__name__}, got {value.dtype.__name__}")
    if value.device != device:
        raise ValueError(f"{name} must be on device {device}, got {value.device}")
    if num_agents == 1 and value.shape == (num_envs,):
        view = wp.array(
            ptr=value.ptr,
            dtype=dtype,
            shape=(num_envs, 1),
            strides=(value.strides[0], value.strides[0]),
            device=device,
        )
        view._ref = value  # keeps the memory alive
        return view
    if value.shape != (num_envs, num_agents):
        raise ValueError(
            f"{name} must have shape ({num_envs}, {num_agents}), got {tuple(value.shape)}"
        )
    return value


def as_headings(
    name: str, value: Any, num_envs: int, num_agents: int, device: wp.Device
) -> wp.array:
    """Headings [rad] as a float32 array [E, A]; see :func:`as_values`."""
    return as_values(name, value, num_envs, num_agents, device, wp.float32)


def as_mask(
    name: str, mask: Any, every_env: wp.array, num_envs: int, device: wp.Device
) -> wp.array:
    """``mask`` as a bool array [E] on the device; None is ``every_env``.

    Raises:
        TypeError: If the type or dtype is wrong.
        ValueError: If the shape or the device is wrong.
        RuntimeError: If a NumPy mask is given while a capture records.
    """
    if mask is None:
        return every_env
    return as_device_mask(name, mask, num_envs, device)
