"""Configuration of a track generator: frozen, keyword-only, checked once."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from track_gen.checks import (
    check_bool,
    check_choice,
    check_device,
    check_float,
    check_int,
    check_range,
    check_threads,
)
from track_gen.difficulty import difficulty_ranges, narrowing
from track_gen.elevation import ElevationSettings
from track_gen.generators import get_spec, spec_of
from track_gen.generators.spec import GeneratorSettings, GeneratorSpec
from track_gen.parameters import HALF_WIDTH, SCALE, Knob, Range
from track_gen.stages.elevation import ElevationConfig
from track_gen.stages.relax import RelaxConfig
from track_gen.stages.resample import DIRECTIONS, ResampleConfig
from track_gen.stages.validity import ValidityConfig

__all__ = ["N_MAX_LIMIT", "TrackGenConfig"]

N_MAX_LIMIT = 4095
"""Largest ``N_max``: the relaxation sums turning in integers that hold this many points."""


def _bounds(value: Range) -> tuple[float, float]:
    return value if isinstance(value, tuple) else (float(value), float(value))


@dataclass(frozen=True, kw_only=True)
class TrackGenConfig:
    """Everything a :class:`TrackGenerator` needs to know before it starts.

    Raises:
        ValueError: If a value is out of bounds; the message names field, bound and value.
        TypeError: If a type is wrong.
    """

    num_envs: int
    """Batch size E; fixed for the life of a generator."""
    half_width: Range
    """Half the width of the road [length], > 0; a pair draws it per env."""
    device: Any = None
    """Warp device or its name; None is Warp's current device."""
    generator: str | GeneratorSettings = "bezier"
    """Name of a family (with its defaults) or its settings object."""
    scale: Range = 1.0
    """Size of the track [length], > 0; a pair draws it per env."""
    spacing: float | None = None
    """Distance of neighbouring points [length]; None is 0.6 * half_width of each env."""
    N_max: int = 512
    """Slots per env, in [16, 4095]; a track that needs more is invalid with OVERFLOW."""
    max_attempts: int = 4
    """Attempts per env before it stays invalid, in [1, 64]."""
    direction: str = "ccw"
    """Direction of travel: "ccw", "cw" or "random" per env."""
    augment: bool = True
    """Random rotation, mirror image and start point per env."""
    elevation: ElevationSettings | None = None
    """Heights: Flat, Uniform, RandomWalk or Noise; None is flat at z = 0."""
    metrics: bool = False
    """Measure each track as it is generated, into ``TrackGenerator.metrics``."""
    block_dim: int = 64
    """Threads per env on CUDA: 32, 64, 128 or 256; the CPU uses one lane per env."""
    num_threads: int | None = None
    """CPU worker threads; None is all usable cores. Results do not depend on it."""
    relax_enable: bool = True
    """Whether to relax; off keeps the family's curve as it is."""
    relax_max_sweeps: int = 40
    """Most sweeps per attempt."""
    relax_stop_radius: float = 1.15
    """Border-scale radius in half widths at which it stops: larger is smoother and slower."""
    relax_smoothing_passes: int = 3
    """Taubin passes after the sweeps."""
    relax_sep_every: int | None = None
    """Neighbour search: None adaptive (exact), 1 dense, K > 1 a cache rebuilt every K sweeps."""
    relax_sep_cache_slots: int = 0
    """Slots of the cache; only with ``relax_sep_every`` > 1."""
    relax_sep_cache_skin: float = 0.0
    """Search radius of the cache beyond the separation, as a fraction of it."""
    validity_width_tolerance: float = 0.02
    """Part of the width that may be missing."""
    validity_area_tolerance: float = 0.02
    """Part of the road's area that may be missing."""
    validity_area_tolerance_spacing: float = 0.05
    """The same, times (spacing / half_width) squared."""
    validity_turning_tolerance: float = 0.25
    """Deviation of the turning number from 1."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_int(f"{name}.num_envs", self.num_envs, low=1, high=2**31 - 1)
        check_device(f"{name}.device", self.device)
        if isinstance(self.generator, str):
            settings = get_spec(self.generator).settings
            if any(
                f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
                for f in dataclasses.fields(settings)
            ):
                raise ValueError(
                    f"{name}.generator {self.generator!r} has no defaults: "
                    f"pass {settings.__name__}(...) instead"
                )
        elif not isinstance(self.generator, GeneratorSettings):
            raise TypeError(
                f"{name}.generator must be a name or a settings object, got "
                f"{self.generator!r} ({type(self.generator).__name__})"
            )
        for field, knob in (("half_width", HALF_WIDTH), ("scale", SCALE)):
            checked = check_range(
                f"{name}.{field}", getattr(self, field), knob.low, knob.high, knob.low_open
            )
            object.__setattr__(self, field, checked)
        if self.spacing is not None:
            check_float(f"{name}.spacing", self.spacing, low=0.0, low_open=True)
            low, high = _bounds(self.half_width)
            if not (self.spacing / high >= 0.3 * (1 - 1e-6) and self.spacing / low <= 1 + 1e-6):
                raise ValueError(
                    f"{name}.spacing must be in [0.3, 1.0] half widths ([{0.3 * high:g}, {low:g}] "
                    f"at half_width {self.half_width}), got {self.spacing}"
                )
        check_int(f"{name}.N_max", self.N_max, low=16, high=N_MAX_LIMIT)
        check_int(f"{name}.max_attempts", self.max_attempts, low=1, high=64)
        check_choice(f"{name}.direction", self.direction, DIRECTIONS)
        check_bool(f"{name}.augment", self.augment)
        check_bool(f"{name}.metrics", self.metrics)
        if check_int(f"{name}.block_dim", self.block_dim, low=32, high=256) not in (
            32,
            64,
            128,
            256,
        ):
            raise ValueError(f"{name}.block_dim must be 32, 64, 128 or 256, got {self.block_dim}")
        check_threads(f"{name}.num_threads", self.num_threads)
        if self.elevation is not None and not isinstance(self.elevation, ElevationSettings):
            raise TypeError(
                f"{name}.elevation must be Flat, Uniform, RandomWalk, Noise or None, got "
                f"{self.elevation!r} ({type(self.elevation).__name__})"
            )
        self.relax_config()
        self.validity_config()

    @property
    def settings(self) -> GeneratorSettings:
        """Settings of the family."""
        return (
            get_spec(self.generator).settings()
            if isinstance(self.generator, str)
            else self.generator
        )

    @property
    def spec(self) -> GeneratorSpec:
        """The family."""
        return (
            get_spec(self.generator) if isinstance(self.generator, str) else spec_of(self.generator)
        )

    def knobs(self) -> tuple[Knob, ...]:
        """Knobs in the order of the parameter table."""
        return (HALF_WIDTH, SCALE, *self.spec.knobs_of(self.settings))

    def knob_values(self) -> list[Range]:
        """Configured value or range of each knob."""
        return [self.half_width, self.scale, *self.spec.knob_values(self.settings)]

    def difficulty_ranges(self, difficulty: float) -> dict[str, tuple[float, float]]:
        """Ranges of the parameters that ``TrackGenerator.set_difficulty`` writes, by name.

        Args:
            difficulty: Number in [0, 1].

        Raises:
            ValueError: If it is out of bounds.
        """
        ends = {
            "half_width": narrowing(self.half_width),
            **self.spec.difficulty_of(self.settings),
        }
        return difficulty_ranges(f"{type(self).__name__}.difficulty_ranges", ends, difficulty)

    def at_difficulty(self, difficulty: float) -> TrackGenConfig:
        """This configuration with the ranges of a difficulty.

        Its tracks are those of this configuration after ``set_difficulty``, its
        ``sufficient_n_max`` is what they need.

        Args:
            difficulty: Number in [0, 1].

        Raises:
            ValueError: If it is out of bounds, or ``spacing`` is fixed and does not fit the half
                width at this difficulty.
        """
        ranges = self.difficulty_ranges(difficulty)
        return dataclasses.replace(
            self,
            half_width=ranges.pop("half_width"),
            generator=self.spec.with_ranges(self.settings, ranges),
        )

    def sufficient_n_max(self) -> int:
        """An ``N_max`` that 99.9 % of the tracks of this configuration fit into."""
        low, _ = _bounds(self.half_width)
        spacing = 0.6 * low if self.spacing is None else self.spacing
        _, scale = _bounds(self.scale)
        points = self.spec.typical_length(self.settings) * scale / spacing
        return math.ceil(min(points, 1e9)) + 1

    def relax_config(self) -> RelaxConfig:
        """The relaxation's part."""
        return RelaxConfig(
            **{f.name: getattr(self, f"relax_{f.name}") for f in dataclasses.fields(RelaxConfig)}
        )

    def elevation_config(self) -> ElevationConfig | None:
        """The elevation's part; None where the road stays flat at z = 0."""
        return None if self.elevation is None else ElevationConfig(self.elevation)

    def validity_config(self) -> ValidityConfig:
        """The validity gate's part."""
        return ValidityConfig(
            **{
                f.name: getattr(self, f"validity_{f.name}")
                for f in dataclasses.fields(ValidityConfig)
            }
        )

    def resample_config(self) -> ResampleConfig:
        """The resampling's part."""
        return ResampleConfig(
            spacing=0.0 if self.spacing is None else self.spacing,
            fit_box=self.spec.fit_bits(self.settings),
            direction=self.direction,
            augment=self.augment,
        )
