"""Checks of everything a user passes in; all error texts of configuration live here.

A message names the owner and the field, the bound and the value:
``TrackGenConfig.half_width must be finite and > 0, got nan``. Comparisons are written so that NaN
fails them.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import warp as wp

from track_gen.recording import recording_here

__all__ = [
    "LEAST_POSITIVE",
    "as_device_mask",
    "as_device_values",
    "as_origins",
    "check_array",
    "check_bool",
    "check_choice",
    "check_device",
    "check_entries",
    "check_float",
    "check_floats",
    "check_index",
    "check_int",
    "check_range",
    "check_threads",
    "suggestion",
]


LEAST_POSITIVE = 1.0e-37
"""Least number that counts as > 0: kernels work in single precision."""

_LARGEST = float(np.finfo(np.float32).max)


def suggestion(name: object, choices: Iterable[str]) -> str:
    """`` Did you mean: 'x'?`` for a near miss, else an empty string."""
    near = difflib.get_close_matches(str(name), list(choices), n=1)
    return f" Did you mean: {near[0]!r}?" if near else ""


def check_bool(name: str, value: Any) -> bool:
    """``value`` as a bool.

    Raises:
        TypeError: If it is not one.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, got {value!r} ({type(value).__name__})")
    return bool(value)


def check_int(name: str, value: Any, low: int, high: int) -> int:
    """``value`` as an int in [low, high]; a bool or a float is not an int.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is out of bounds.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an int, got {value!r} ({type(value).__name__})")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in [{low}, {high}], got {value}")
    return int(value)


def check_index(name: str, value: Any, size: int) -> int:
    """Row ``value`` of ``size`` rows, negative from the end, as an int in [0, size - 1].

    Raises:
        TypeError: If it is not an integer.
        IndexError: If there is no such row.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an int, got {value!r} ({type(value).__name__})")
    if not -size <= value < size:
        raise IndexError(f"{name} must be in [{-size}, {size - 1}], got {value}")
    return int(value) % size


def check_threads(name: str, value: Any) -> int | None:
    """``value`` as a number of CPU threads in [1, 1024], or None for one per core.

    Raises:
        TypeError: If it is neither an integer nor None.
        ValueError: If it is out of bounds.
    """
    return None if value is None else check_int(name, value, low=1, high=1024)


def _bound_text(low: float, high: float, low_open: bool) -> str:
    if math.isinf(high):
        return f"finite and {'>' if low_open else '>='} {low:g}"
    return f"in {'(' if low_open else '['}{low:g}, {high:g}]"


def check_float(
    name: str, value: Any, low: float, high: float = math.inf, low_open: bool = False
) -> float:
    """``value`` as a finite float in [low, high], or (low, high] if ``low_open``.

    It must keep that in single precision: finite, and > 0 where it has to be.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is not finite or out of bounds.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"{name} must be a number, got {value!r} ({type(value).__name__})")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    above = number > low if low_open else number >= low
    if not (math.isfinite(number) and above and number <= high):
        raise ValueError(f"{name} must be {_bound_text(low, high, low_open)}, got {value}")
    if abs(number) > _LARGEST or (low_open and low == 0.0 and number < LEAST_POSITIVE):
        bounds = _bound_text(low, high, low_open)
        raise ValueError(f"{name} must be {bounds} in single precision, got {value}")
    return number


def check_floats(
    name: str, values: Any, low: float, high: float = math.inf, low_open: bool = False
) -> list[float]:
    """``values`` as a list of floats within the bounds; see :func:`check_float`.

    Raises:
        TypeError: If it is not a sequence of numbers.
        ValueError: If a number is out of bounds.
    """
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__") or np.ndim(values) == 0:
        raise TypeError(
            f"{name} must be a sequence of numbers, got {values!r} ({type(values).__name__})"
        )
    return [check_float(f"{name}[{k}]", v, low, high, low_open) for k, v in enumerate(values)]


def check_entries(name: str, value: Any, names: Iterable[str]) -> Mapping[str, Any]:
    """``value`` if it is a dictionary with exactly these entries.

    Raises:
        TypeError: If it is not a dictionary.
        KeyError: If an entry is missing or unknown.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dictionary, got {value!r} ({type(value).__name__})")
    known = list(names)
    if set(value) != set(known):
        raise KeyError(f"{name} has {sorted(map(str, value))}, expected {sorted(known)}")
    return value


def check_range(
    name: str, value: Any, low: float, high: float = math.inf, low_open: bool = False
) -> float | tuple[float, float]:
    """``value`` as a number or as an ordered ``(low, high)`` pair of numbers within the bounds.

    Raises:
        TypeError: If it is neither.
        ValueError: If a number is out of bounds or the pair is not ordered.
    """
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ValueError(f"{name} must be a number or a (low, high) pair, got {value!r}")
        first = check_float(f"{name}[0]", value[0], low, high, low_open)
        second = check_float(f"{name}[1]", value[1], low, high, low_open)
        if not first <= second:
            raise ValueError(f"{name} must be ordered, low <= high, got ({value[0]}, {value[1]})")
        return first, second
    return check_float(name, value, low, high, low_open)


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """``value`` if it is one of ``choices``.

    Raises:
        TypeError: If it is not a string.
        ValueError: If it is none of them, with a suggestion for a near miss.
    """
    known = list(choices)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r} ({type(value).__name__})")
    if value not in known:
        raise ValueError(
            f"{name} must be one of {', '.join(repr(c) for c in known)}, "
            f"got {value!r}.{suggestion(value, known)}"
        )
    return value


def check_device(name: str, value: Any) -> wp.Device:
    """``value`` as a Warp device; None is Warp's current device.

    Raises:
        ValueError: If Warp has no such device.
        TypeError: If it is not a device or a name.
    """
    if (
        value is not None
        and not isinstance(value, (str, wp.Device))
        and type(value).__name__ != "device"
    ):
        raise TypeError(
            f"{name} must be a device, a name or None, got {value!r} ({type(value).__name__})"
        )
    try:
        if type(value).__name__ == "device":
            return wp.device_from_torch(value)
        return wp.get_device(value)
    except (ValueError, RuntimeError) as error:
        known = [str(d) for d in wp.get_devices()]
        raise ValueError(
            f"{name}: no Warp device {str(value)!r}; available: {', '.join(known)}"
        ) from error


def _is_torch_tensor(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "data_ptr")


def check_array(
    name: str, value: Any, dtype: Any, shape: tuple[int | None, ...], device: wp.Device
) -> wp.array:
    """``value`` as a Warp array of this dtype, shape and device, strided or not.

    A Warp array or a torch tensor on the device is taken without a copy; a NumPy array is copied.

    Args:
        name: Owner and field for the message.
        value: Warp array, torch tensor or NumPy array.
        dtype: Warp scalar type.
        shape: Expected shape, None for a free dimension.
        device: Device the array must be on.

    Raises:
        TypeError: If the type or dtype is wrong.
        ValueError: If the shape or the device is wrong.
        RuntimeError: If a NumPy array is given while a capture records: the copy would be gone
            before the graph is replayed.
    """
    numpy_dtype = np.dtype(wp.dtype_to_numpy(dtype))
    if isinstance(value, np.ndarray):
        if value.dtype != numpy_dtype:
            raise TypeError(f"{name} must have dtype {numpy_dtype}, got {value.dtype}")
        found, location = value.shape, device
    elif isinstance(value, wp.array):
        if value.dtype is not dtype:
            raise TypeError(f"{name} must have dtype {numpy_dtype}, got {value.dtype.__name__}")
        found, location = value.shape, value.device
    elif _is_torch_tensor(value):
        if wp.dtype_from_torch(value.dtype) is not dtype:
            raise TypeError(f"{name} must have dtype {numpy_dtype}, got {value.dtype}")
        found, location = tuple(value.shape), wp.device_from_torch(value.device)
    else:
        raise TypeError(
            f"{name} must be a Warp array, torch tensor or NumPy array of {numpy_dtype}, "
            f"got {type(value).__name__}"
        )
    if len(found) != len(shape) or any(
        want not in (None, got) for want, got in zip(shape, found, strict=True)
    ):
        wanted = ", ".join("*" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape ({wanted}), got {tuple(found)}")
    if location != device:
        raise ValueError(f"{name} must be on device {device}, got {location}")
    if isinstance(value, np.ndarray):
        if recording_here(device):
            raise RuntimeError(
                f"{name}: a NumPy array cannot be captured: pass an array on the device"
            )
        return wp.array(value, dtype=dtype, device=device)
    return value if isinstance(value, wp.array) else wp.from_torch(value.detach(), dtype=dtype)


def as_device_mask(name: str, mask: Any, num_envs: int, device: wp.Device) -> wp.array:
    """``mask`` as a bool Warp array [E] on the device; device arrays are not copied.

    Raises:
        TypeError: If the type or dtype is wrong.
        ValueError: If the shape or the device is wrong.
        RuntimeError: If a NumPy mask is given while a capture records.
    """
    return check_array(name, mask, dtype=wp.bool, shape=(num_envs,), device=device)


def as_device_values(
    name: str,
    values: Any,
    num_envs: int,
    device: wp.Device,
    low: float,
    high: float = math.inf,
    low_open: bool = False,
) -> wp.array:
    """Numbers as a float32 Warp array [E]; on the host they are checked, on the device not read.

    Raises:
        TypeError: If the type or dtype is wrong.
        ValueError: If the shape or the device is wrong, or a number on the host is out of bounds.
        RuntimeError: If a NumPy array is given while a capture records.
    """
    if not isinstance(values, np.ndarray):
        return check_array(name, values, dtype=wp.float32, shape=(num_envs,), device=device)
    if values.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold numbers, got dtype {values.dtype}")
    with np.errstate(over="ignore", under="ignore"):
        single = values.astype(np.float32)
    array = check_array(name, single, dtype=wp.float32, shape=(num_envs,), device=device)
    for extreme in (values.min(), values.max()):
        check_float(name, extreme, low, high, low_open)
    return array


def as_origins(name: str, value: Any, num_envs: int, device: wp.Device) -> wp.array:
    """World positions of the envs as a vec3f array [E].

    Args:
        name: Owner and field for the message.
        value: Warp array of vec3f [E] or float32 [E, 3], or torch tensor of float32 [E, 3], on the
            device: used in place, strided or not. Or a NumPy array [E, 3], copied.
        num_envs: Rows E.
        device: Device the array must be on.

    Raises:
        TypeError: If the type or dtype is wrong.
        ValueError: If the shape or the device is wrong, or a number on the host is not finite.
        RuntimeError: If a NumPy array is given while a capture records.
    """
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiu":
            raise TypeError(f"{name} must hold numbers, got dtype {value.dtype}")
        with np.errstate(over="ignore"):
            value = value.astype(np.float32)
        array = check_array(name, value, dtype=wp.float32, shape=(num_envs, 3), device=device)
        bad = ~np.isfinite(value).all(axis=1)
        if bad.any():
            env = int(np.argmax(bad))
            raise ValueError(f"{name} must be finite, got {value[env].tolist()} for env {env}")
    else:
        array = wp.from_torch(value.detach()) if _is_torch_tensor(value) else value
        if not isinstance(array, wp.array):
            raise TypeError(
                f"{name} must be a Warp array, torch tensor or NumPy array, "
                f"got {type(value).__name__}"
            )
        if array.dtype not in (wp.vec3f, wp.float32):
            raise TypeError(f"{name} must be of vec3f or float32, got {array.dtype.__name__}")
        shape = (num_envs,) if array.dtype is wp.vec3f else (num_envs, 3)
        if array.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(array.shape)}")
        if array.device != device:
            raise ValueError(f"{name} must be on device {device}, got {array.device}")
        if array.dtype is wp.vec3f:
            return array
        if array.strides[1] != 4:
            raise ValueError(f"{name} must hold x, y and z of an env side by side in memory")
    view = wp.array(
        ptr=array.ptr,
        dtype=wp.vec3f,
        shape=(num_envs,),
        strides=(array.strides[0],),
        device=device,
    )
    view._ref = array  # keeps the memory alive
    return view
