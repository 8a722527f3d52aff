"""The published batch of gate courses: arrays of fixed shape and address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from track_gen.checks import check_device, check_int
from track_gen.published import PublishedArrays
from track_gen.status import GateStatus

__all__ = ["EnvGates", "GateSequence"]

_PER_GATE = (
    "position",
    "tangent",
    "normal",
    "left",
    "right",
    "orientation",
    "half_width",
    "half_height",
)


@dataclass(frozen=True)
class EnvGates:
    """One env of a batch as NumPy copies without padding; ``n`` is its count."""

    position: np.ndarray
    """Gate centres [length], float32, shape [n, 3]."""
    tangent: np.ndarray
    """Unit forward directions, float32, shape [n, 3]."""
    normal: np.ndarray
    """Unit left directions, level, float32, shape [n, 3]."""
    left: np.ndarray
    """Middles of the left posts [length], float32, shape [n, 3]."""
    right: np.ndarray
    """Middles of the right posts [length], float32, shape [n, 3]."""
    orientation: np.ndarray
    """Unit quaternions (x, y, z, w), float32, shape [n, 4]."""
    half_width: np.ndarray
    """Half the opening's width [length], float32, shape [n]."""
    half_height: np.ndarray
    """Half the opening's height [length], float32, shape [n]."""
    count: int
    """Number of gates n."""
    valid: bool
    """Whether the course passed every test."""
    status: GateStatus
    """Reasons why not."""
    attempts: int
    """Attempts used."""
    family: int
    """Part of a mixture, 0 where there is one family."""


@dataclass
class GateSequence(PublishedArrays):
    """A batch of gate courses, one per env: E rows, ``max_gates`` slots, in flying order.

    A gate is a rectangular opening with a pose. Slots past ``count[env]`` are NaN in every
    component; the course is closed, the first gate follows the last. The arrays keep their
    addresses for the life of the generator and are overwritten by the next ``generate()``:
    :meth:`clone` keeps a batch.
    """

    _positions = ("position", "left", "right")
    _per_slot = _PER_GATE
    _positive = ("half_width", "half_height")
    _unit = ("tangent", "normal", "orientation")
    _flags = GateStatus
    _units = (
        "Lengths are in the units of scale and gate_width; z is up; angles are counter-clockwise."
    )

    position: wp.array
    """Gate centres [length], vec3f, shape [E, max_gates]."""
    tangent: wp.array
    """Unit direction in which a gate is flown, vec3f, shape [E, max_gates]."""
    normal: wp.array
    """Unit direction to the left of travel, always level, vec3f, shape [E, max_gates]."""
    left: wp.array
    """Middle of the left side of the opening [length], vec3f, shape [E, max_gates]."""
    right: wp.array
    """Middle of the right side of the opening [length], vec3f, shape [E, max_gates]."""
    orientation: wp.array
    """Local x = forward, y = left, z = up, without roll: quatf (x, y, z, w), [E, max_gates]."""
    half_width: wp.array
    """Half the width of the opening [length], float32, shape [E, max_gates]."""
    half_height: wp.array
    """Half the height of the opening [length], float32, shape [E, max_gates]."""
    count: wp.array
    """Number of gates, int32, shape [E]."""
    valid: wp.array
    """Whether ``status`` is 0, bool, shape [E]."""
    status: wp.array
    """Bit set of :class:`GateStatus`, int32, shape [E]."""
    attempts: wp.array
    """Attempts used, int32, shape [E]."""
    family: wp.array
    """Part of a mixture, 0 where there is one family, -1 if never generated, int32, shape [E]."""

    @classmethod
    def allocate(cls, num_envs: int, max_gates: int, device: Any = None) -> GateSequence:
        """Allocate a batch in which no env has been generated.

        Args:
            num_envs: Rows E, at least 1.
            max_gates: Slots per row, at least 1.
            device: Warp device, or None for the current one.

        Raises:
            ValueError: If a size is out of range or the device does not exist.
        """
        num_envs = check_int("GateSequence.allocate(num_envs)", num_envs, low=1, high=2**31 - 1)
        max_gates = check_int("GateSequence.allocate(max_gates)", max_gates, low=1, high=2**31 - 1)
        device = check_device("GateSequence.allocate(device)", device)
        shape = (num_envs, max_gates)

        def vectors() -> wp.array:
            return wp.full(shape, wp.vec3f(np.nan, np.nan, np.nan), dtype=wp.vec3f, device=device)

        def values() -> wp.array:
            return wp.full(shape, np.nan, dtype=wp.float32, device=device)

        def integers(value: int = 0) -> wp.array:
            return wp.full(num_envs, value, dtype=wp.int32, device=device)

        return cls(
            position=vectors(),
            tangent=vectors(),
            normal=vectors(),
            left=vectors(),
            right=vectors(),
            orientation=wp.full(
                shape, wp.quatf(np.nan, np.nan, np.nan, np.nan), dtype=wp.quatf, device=device
            ),
            half_width=values(),
            half_height=values(),
            count=integers(),
            valid=wp.zeros(num_envs, dtype=wp.bool, device=device),
            status=integers(int(GateStatus.NOT_GENERATED)),
            attempts=integers(),
            family=integers(-1),
        )

    @property
    def max_gates(self) -> int:
        """Slots per row."""
        return self.position.shape[1]

    def env(self, index: int) -> EnvGates:
        """One env as NumPy copies without padding (an explicit synchronisation).

        Args:
            index: Row in [-E, E - 1].

        Raises:
            TypeError: If it is not an int.
            IndexError: If there is no such row.
        """
        row = self._env_row(index)
        count = int(row["count"])
        return EnvGates(
            **{name: row[name][:count].copy() for name in _PER_GATE},
            count=count,
            valid=bool(row["valid"]),
            status=GateStatus(int(row["status"])),
            attempts=int(row["attempts"]),
            family=int(row["family"]),
        )
