"""The per-env parameter table: every continuous knob is a range that each env draws from.

``parameters[E, P, 2]`` holds the bounds on the device, ``half_width`` and ``scale`` first; the
kernels read it, so a captured graph follows edits made between replays. One draw per (seed,
episode), not per attempt: attempts do not bend the distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import warp as wp

from track_gen.block import block_launch
from track_gen.checks import (
    LEAST_POSITIVE,
    as_device_mask,
    as_device_values,
    check_entries,
    check_range,
    suggestion,
)
from track_gen.recording import refuse_recording
from track_gen.rng import Stream, draw_uniform
from track_gen.status import TrackStatus

__all__ = [
    "HALF_WIDTH",
    "SCALE",
    "Knob",
    "ParameterTable",
    "Range",
    "blend_bounds_kernel",
    "draw_knobs",
    "draw_parameter",
]

wp.set_module_options({"enable_backward": False})

Range: TypeAlias = "float | tuple[float, float]"
"""A number, or a ``(low, high)`` pair drawn uniformly per env."""


@dataclass(frozen=True)
class Knob:
    """A continuous knob: its name and the legal bounds of its values."""

    name: str
    """Field name of the settings class."""
    low: float
    """Least legal value."""
    high: float
    """Largest legal value."""
    low_open: bool = False
    """Whether ``low`` itself is illegal."""


HALF_WIDTH = Knob("half_width", 0.0, math.inf, low_open=True)
"""Column 0 of every table [length]."""
SCALE = Knob("scale", 0.0, math.inf, low_open=True)
"""Column 1 of every table [length]."""


@wp.func
def draw_parameter(low: float, high: float, seed: int, episode: int, column: int) -> float:
    """Value of one column for an env: uniform in [low, high], the same for every attempt."""
    u = draw_uniform(seed, episode, wp.static(int(Stream.PARAMETER)), 0, column)
    return wp.clamp(low + (high - low) * u[0], low, high)


@wp.func
def choose_family(
    knobs: wp.array2d[wp.float32],
    env: int,
    first: int,
    count: int,
    total: float,
    seed: int,
    episode: int,
) -> int:
    """Draw one of ``count`` families by the weights in the columns from ``first`` on.

    The same for every attempt; -1 if no weight is positive.
    """
    u = draw_uniform(seed, episode, wp.static(int(Stream.FAMILY)), 0, 0)
    mark = u[0] * total
    family = int(-1)
    passed = float(0.0)
    for k in range(count):
        weight = knobs[env, first + k]
        if weight > 0.0 and (family < 0 or mark >= passed):
            family = k
        passed += weight
    return family


@wp.kernel
def draw_knobs_kernel(
    # In:
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    active_in: wp.array[wp.bool],
    parameters_in: wp.array3d[wp.float32],
    legal_in: wp.array2d[wp.float32],
    columns_in: wp.array2d[wp.int32],
    num_weights: int,
    spacing: float,
    # Out:
    knobs_out: wp.array2d[wp.float32],
    family_out: wp.array[wp.int32],
    half_width_out: wp.array[wp.float32],
    pending_out: wp.array[wp.bool],
    status_out: wp.array[wp.int32],
):
    """Start a batch: draw family and knobs of each active env, make it pending. Dim (E, lanes).

    The last ``num_weights`` columns are the weights of the families: one is drawn, and the knobs of
    the others are left alone. Bounds that are not finite, not ordered or not legal give PARAMETER,
    and so do weights without a positive one and a fixed spacing outside [0.3, 1.0] half widths; the
    knobs of such an env are legal values all the same.
    """
    env, thread = wp.tid()
    if thread != 0:
        return
    pending_out[env] = active_in[env]
    if not active_in[env]:
        return
    seed = seeds_in[env]
    episode = episode_in[env]
    status = int(0)
    family = int(0)
    total = float(0.0)
    columns = parameters_in.shape[1]
    # Backward: the weights come last, and the family says which of the other columns matter.
    for step in range(columns):
        column = columns - 1 - step
        draw = column
        owner = int(-1)
        if columns_in.shape[0] > 0:
            draw = columns_in[column, 0]
            owner = columns_in[column, 1]
        if owner < 0 or owner == family:
            low = parameters_in[env, column, 0]
            high = parameters_in[env, column, 1]
            least = legal_in[column, 0]
            most = legal_in[column, 1]
            if not (low >= least and low <= high and high <= most and wp.isfinite(high)):
                status = wp.static(int(TrackStatus.PARAMETER))
                low = least
                high = least
            value = draw_parameter(low, high, seed, episode, draw)
            knobs_out[env, column] = value
            total += value
        if step + 1 == num_weights:
            family = choose_family(knobs_out, env, column, num_weights, total, seed, episode)
            if family < 0:
                status = wp.static(int(TrackStatus.PARAMETER))
                family = 0
    half_width = knobs_out[env, 0]
    if spacing > 0.0 and not (
        spacing >= wp.static(0.3 * (1.0 - 1.0e-5)) * half_width
        and spacing <= wp.static(1.0 + 1.0e-5) * half_width
    ):
        status = wp.static(int(TrackStatus.PARAMETER))
    if family_out.shape[0] > 0:
        family_out[env] = family
    half_width_out[env] = wp.where(status == 0, half_width, wp.nan)
    status_out[env] = status


def draw_knobs(
    seeds: wp.array,
    episode: wp.array,
    active: wp.array,
    parameters: wp.array,
    legal: wp.array,
    knobs: wp.array,
    half_width: wp.array,
    pending: wp.array,
    status: wp.array,
    spacing: float,
    lanes: int,
    device: wp.Device,
    family: wp.array | None = None,
    columns: wp.array | None = None,
    num_weights: int = 0,
) -> wp.Launch:
    """Prepare the launch that starts a batch.

    Args:
        seeds: Seeds, int32, shape [E].
        episode: Episode counters, int32, shape [E].
        active: Envs to regenerate, bool, shape [E]; the others are not touched.
        parameters: Bounds of each knob, float32, shape [E, P, 2].
        legal: Legal bounds, float32, shape [P, 2].
        knobs: Output draws, float32, shape [E, P].
        half_width: Output half widths, float32, shape [E]; NaN with PARAMETER.
        pending: Output envs that need an attempt, bool, shape [E].
        status: Output, int32, shape [E]: 0 or PARAMETER.
        spacing: Fixed spacing [length], or 0 where it follows the half width.
        lanes: Block size.
        device: Device of all arrays.
        family: Output family of each env, int32, shape [E]; None where there is only one.
        columns: Draw counter and family (-1 for all) of each column, int32, shape [P, 2]; None
            draws column p with counter p for all.
        num_weights: Number of families whose weights are the last columns; 0 without a choice.
    """
    return block_launch(
        draw_knobs_kernel,
        active.shape[0],
        lanes,
        inputs=[seeds, episode, active, parameters, legal, columns, num_weights, spacing],
        outputs=[knobs, family, half_width, pending, status],
        device=device,
    )


class ParameterTable:
    """Named view of the device table of knob bounds.

    Args:
        knobs: Knobs in the order of the columns.
        values: Initial number or pair of each knob.
        num_envs: Rows E.
        device: Device of the table.
        owner: Prefix of error messages.
        columns: Draw counter and family (-1 for all) of each column; None is the column itself for
            all families.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        values: Sequence[Any],
        num_envs: int,
        device: wp.Device,
        owner: str = "parameters",
        columns: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self.knobs = tuple(knobs)
        self.num_envs = num_envs
        self.device = device
        self._owner = owner
        row = np.array(
            [value if isinstance(value, (tuple, list)) else (value, value) for value in values],
            dtype=np.float32,
        )
        self.array = wp.array(
            np.broadcast_to(row, (num_envs, len(self.knobs), 2)).copy(),
            dtype=wp.float32,
            device=device,
        )
        """Bounds, float32, shape [E, P, 2]; its address never changes, kernels may write it."""
        legal = np.array([(knob.low, knob.high) for knob in self.knobs], dtype=np.float32)
        for row_index, knob in enumerate(self.knobs):
            if knob.low_open:
                legal[row_index, 0] = max(
                    np.nextafter(legal[row_index, 0], np.float32(np.inf)), LEAST_POSITIVE
                )
        self._legal = legal
        self.legal = wp.array(legal, dtype=wp.float32, device=device)
        """Legal bounds, float32, shape [P, 2]."""
        if columns is None:
            columns = [(column, -1) for column in range(len(self.knobs))]
        self.columns = wp.array(
            np.array(columns, dtype=np.int32).reshape(-1, 2), dtype=wp.int32, device=device
        )
        """Draw counter and family (-1 for all) of each column, int32, shape [P, 2]."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the knobs in the order of the columns."""
        return tuple(knob.name for knob in self.knobs)

    def column(self, name: str) -> int:
        """Column of a knob.

        Raises:
            KeyError: If there is no such knob, with a suggestion.
        """
        if name not in self.names:
            raise KeyError(
                f"{self._owner}: no knob {name!r}; known: {', '.join(self.names)}."
                + suggestion(name, self.names)
            )
        return self.names.index(name)

    def get(self, name: str) -> np.ndarray:
        """Bounds of one knob, float32 copy of shape [E, 2] (an explicit synchronisation)."""
        return self.array.numpy()[:, self.column(name)].copy()

    def set(self, name: str, value: Any, mask: Any = None) -> None:
        """Set the bounds of one knob; takes effect when an env is next generated.

        With a number, a pair or arrays on the device it allocates nothing and can be captured, once
        the kernels are loaded (``TrackGenerator.warmup``).

        Args:
            name: Knob.
            value: A number, a ``(low, high)`` pair, or float32 values of shape [E]. Values on the
                device are not read back: one that is not legal gives PARAMETER.
            mask: Envs to set, bool [E] as Warp array, torch tensor or NumPy array, or None for all.

        Raises:
            KeyError: If there is no such knob.
            ValueError: If a value on the host is not legal, or a shape or device is wrong.
            TypeError: If a type is wrong.
            RuntimeError: In an open capture, with a NumPy array.
        """
        column = self.column(name)
        knob = self.knobs[column]
        text = f"{self._owner}.{name}"
        if isinstance(value, (int, float, tuple, list, np.integer, np.floating)):
            checked = check_range(text, value, knob.low, knob.high, knob.low_open)
            low, high = checked if isinstance(checked, tuple) else (checked, checked)
            values = None
        else:
            low = high = 0.0
            bounds = (knob.low, knob.high, knob.low_open)
            values = as_device_values(text, value, self.num_envs, self.device, *bounds)
        chosen = None
        if mask is not None:
            chosen = as_device_mask(f"{text} mask", mask, self.num_envs, self.device)
        wp.launch(
            set_bounds_kernel,
            dim=self.num_envs,
            inputs=[low, high, values, chosen, column],
            outputs=[self.array],
            device=self.device,
        )

    def state_dict(self) -> dict[str, np.ndarray]:
        """Bounds of all knobs by name, shape [E, 2] each (an explicit synchronisation)."""
        return {name: self.get(name) for name in self.names}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Restore what :meth:`state_dict` returned, bit for bit.

        Raises:
            TypeError: If a type is wrong.
            KeyError: If a knob is missing or unknown.
            ValueError: If a shape is wrong or bounds are not legal.
            RuntimeError: If a capture is open.
        """
        owner = f"{self._owner}.load_state_dict"
        refuse_recording(f"{owner}()", self.device)
        check_entries(f"{owner}(state)", state, self.names)
        table = np.empty(self.array.shape, dtype=np.float32)
        for column, name in enumerate(self.names):
            text = f"{owner}({name})"
            found = state[name]
            if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiu":
                raise TypeError(f"{text} must be a NumPy array of numbers, got {found!r}")
            if found.shape != (self.num_envs, 2):
                raise ValueError(f"{text} must have shape ({self.num_envs}, 2), got {found.shape}")
            with np.errstate(over="ignore", under="ignore"):
                table[:, column] = found
            low, high = table[:, column].T
            least, most = self._legal[column]
            bad = ~((low >= least) & (low <= high) & (high <= most) & np.isfinite(high))
            if bad.any():
                env = int(np.argmax(bad))
                raise ValueError(
                    f"{text} must be ordered, finite and in [{least:g}, {most:g}], "
                    f"got {found[env].tolist()} for env {env}"
                )
        self.array.assign(table)


@wp.kernel
def set_bounds_kernel(
    # In:
    low: float,
    high: float,
    values_in: wp.array[wp.float32],
    mask_in: wp.array[wp.bool],
    column: int,
    # Out:
    parameters_out: wp.array3d[wp.float32],
):
    """Write the bounds of one knob for the masked envs. Launch dim (E,).

    Without ``values_in`` all get ``low`` and ``high``; without ``mask_in`` all envs are written.
    """
    env = wp.tid()
    if mask_in.shape[0] > 0:
        if not mask_in[env]:
            return
    if values_in.shape[0] > 0:
        parameters_out[env, column, 0] = values_in[env]
        parameters_out[env, column, 1] = values_in[env]
    else:
        parameters_out[env, column, 0] = low
        parameters_out[env, column, 1] = high


@wp.kernel
def blend_bounds_kernel(
    # In:
    amount: float,
    amounts_in: wp.array[wp.float32],
    mask_in: wp.array[wp.bool],
    columns_in: wp.array[wp.int32],
    ends_in: wp.array3d[wp.float32],
    # Out:
    parameters_out: wp.array3d[wp.float32],
):
    """Write bounds between two ends, ``ends_in[column, end]``, for the masked envs. Dim (E,).

    Without ``amounts_in`` all get ``amount``; without ``mask_in`` all envs are written. An amount
    outside [0, 1] gives NaN, which the next batch reports as PARAMETER.
    """
    env = wp.tid()
    if mask_in.shape[0] > 0:
        if not mask_in[env]:
            return
    t = amount
    if amounts_in.shape[0] > 0:
        t = amounts_in[env]
    legal = t >= 0.0 and t <= 1.0
    for k in range(columns_in.shape[0]):
        for side in range(2):
            first = ends_in[k, 0, side]
            last = ends_in[k, 1, side]
            value = float(wp.nan)
            if legal:
                # Rounding must not leave the legal bounds, nor put low above high.
                value = wp.clamp(
                    (1.0 - t) * first + t * last, wp.min(first, last), wp.max(first, last)
                )
            parameters_out[env, columns_in[k], side] = value
