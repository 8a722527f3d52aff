"""What the generators of tracks and of gate courses share: agreement, warm-up, masks, state."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import warp as wp

from track_gen.checks import as_device_mask, check_bool, check_device, check_entries
from track_gen.difficulty import Difficulty
from track_gen.executor import Executor
from track_gen.parameters import ParameterTable
from track_gen.recording import recording_here, refuse_recording
from track_gen.report import GenerationReport
from track_gen.rng import PerEnvSeededRNG

__all__ = ["BatchGenerator"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.kernel
def copy_mask_kernel(
    # In:
    mask_in: wp.array[wp.bool],
    # Out:
    active_out: wp.array[wp.bool],
):
    """Copy a mask, strided or not. Launch dim (E,).

    Warp's own copy of a strided array cannot be captured on the CPU.
    """
    env = wp.tid()
    active_out[env] = mask_in[env]


class BatchGenerator:
    """Base of a generator that publishes into the same arrays at each call.

    A subclass allocates its buffers and sets ``parameters``, ``_buffers`` (with ``seeds``,
    ``episode`` and ``active``), ``_published`` (with ``status`` and ``attempts``) and
    ``_executor``.
    """

    _flags: ClassVar[type[enum.IntFlag]]
    """Names of the status bits."""

    parameters: ParameterTable
    """Bounds of the knobs, on the device."""
    _buffers: Any
    _published: Any
    _executor: Executor

    def __init__(
        self,
        config: Any,
        config_type: type,
        rng: PerEnvSeededRNG,
        capture: bool | None,
        family: str = "",
        capturable: bool = True,
    ) -> None:
        """Check that what was passed in belongs together.

        Raises:
            ValueError: If ``config`` and ``rng`` disagree on the number of envs or the device, or
                capture is asked of a family that cannot be captured.
            TypeError: If an argument has the wrong type.
        """
        name, owner = type(self).__name__, config_type.__name__
        if not isinstance(rng, PerEnvSeededRNG):
            raise TypeError(f"{name} needs a PerEnvSeededRNG, got {type(rng).__name__}")
        device = check_device(f"{owner}.device", config.device)
        if rng.num_envs != config.num_envs:
            raise ValueError(
                f"{owner}.num_envs is {config.num_envs} "
                f"but PerEnvSeededRNG.num_envs is {rng.num_envs}"
            )
        if rng.device != device:
            raise ValueError(
                f"{owner}.device is {device} but PerEnvSeededRNG.device is {rng.device}"
            )
        if capture is not None:
            check_bool(f"{name}(capture)", capture)
            if capture and not capturable:
                raise ValueError(f"generator {family!r} cannot be captured")
        self.config = config
        self.rng = rng
        self.device = device
        self._family = family
        self._capturable = capturable
        self._captures = capturable and (device.is_cuda if capture is None else capture)
        self._difficulty: Difficulty | None = None

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the families by the index in ``family``; more than one in a mixture."""
        return self.config.spec.family_names(self.config.settings)

    @property
    def graph(self) -> wp.Graph | None:
        """The captured graph; None before the first call, and where nothing is captured."""
        return self._executor.graph

    def warmup(self) -> None:
        """Do all loading now: compile and load the kernels, and capture where that is due.

        Raises:
            RuntimeError: If a capture is open on the device.
        """
        refuse_recording(f"{type(self).__name__}.warmup()", self.device)
        if not self._executor.ready:
            self.rng.warmup()
            wp.load_module(__name__, device=self.device)
            self._executor.prepare()
        if self._captures and self._executor.graph is None:
            self._buffers.active.zero_()
            self._executor.launch_all()
            self._executor.capture()

    def _run(self, mask: Any) -> None:
        """Generate all envs or the masked ones; see the subclass's ``generate``."""
        name = type(self).__name__
        E, b = self.config.num_envs, self._buffers
        recording = recording_here(self.device)
        if isinstance(mask, (int, np.integer)) and not isinstance(mask, (bool, np.bool_)):
            if mask != E:
                raise ValueError(
                    f"{name} is fixed-batch: it was made for num_envs={E}, got {mask}; "
                    f"construct a new {name} for another batch size"
                )
            mask = None
        if recording:
            if not self._capturable:
                raise RuntimeError(f"generator {self._family!r} cannot run in an open capture")
            if not self._executor.ready:
                raise RuntimeError(f"call {name}.warmup() before a capture is opened")
        chosen = (
            None if mask is None else as_device_mask(f"{name}.generate(mask)", mask, E, self.device)
        )
        if not recording:
            self.warmup()
        wp.copy(b.seeds, self.rng.seeds_warp)
        wp.copy(b.episode, self.rng.episode_warp)
        if chosen is None:
            b.active.fill_(True)
        else:
            wp.launch(
                copy_mask_kernel, dim=E, inputs=[chosen], outputs=[b.active], device=self.device
            )
        if recording:
            self._executor.launch_all()
        elif self._captures:
            self._executor.replay()
        else:
            self._executor.run()

    def set_difficulty(self, value: Any, mask: Any = None) -> None:
        """Set the difficulty of envs: 0 is wide and round, 1 narrow and twisty.

        Writes the bounds of the parameters that ``config.difficulty_ranges`` names into
        ``parameters``, on the device; all others stay. It takes effect when an env is next
        generated, in captured graphs too. After a first call, a number or an array on the device
        allocates nothing and can be captured.

        Args:
            value: Number in [0, 1], or float32 of shape [E] as Warp array, torch tensor or NumPy
                array. Values on the device are not read back: one outside [0, 1] gives PARAMETER.
            mask: Envs to set, bool [E] as Warp array, torch tensor or NumPy array, or None for all.

        Raises:
            ValueError: If a value on the host is out of bounds, or a shape or device is wrong.
            TypeError: If a type is wrong.
            RuntimeError: In an open capture: at the first call, or with a NumPy array.
        """
        if self._difficulty is None:
            refuse_recording(f"The first {type(self).__name__}.set_difficulty()", self.device)
            easy, hard = (self.config.difficulty_ranges(end) for end in (0.0, 1.0))
            self._difficulty = Difficulty(self.parameters, easy, hard)
        self._difficulty.set(f"{type(self).__name__}.set_difficulty", value, mask)

    def report(self, envs: Sequence[int] | None = None) -> GenerationReport:
        """Yield, attempts and reasons of the last batch (an explicit synchronisation).

        Args:
            envs: Rows to count; None is all.
        """
        rows = slice(None) if envs is None else np.asarray(envs, dtype=np.int64)
        status = self._published.status.numpy()[rows]
        attempts = self._published.attempts.numpy()[rows]
        return GenerationReport.count(status, attempts, self._flags)

    def state_dict(self) -> dict[str, Any]:
        """Seeds, episodes and parameter table as NumPy copies: all that a batch depends on."""
        return {"rng": self.rng.state_dict(), "parameters": self.parameters.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned: the next ``generate()`` repeats bit for bit.

        After an error nothing has changed.

        Raises:
            TypeError: If a type is wrong.
            KeyError: If an entry is missing or unknown.
            ValueError: If it belongs to another batch size or family, or bounds are not legal.
            RuntimeError: If a capture is open.
        """
        name = f"{type(self).__name__}.load_state_dict(state)"
        check_entries(name, state, ("rng", "parameters"))
        before = self.rng.state_dict()
        self.rng.load_state_dict(state["rng"])
        try:
            self.parameters.load_state_dict(state["parameters"])
        except BaseException:
            self.rng.load_state_dict(before)
            raise
