"""The facade: where families and stages meet."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import warp as wp

from track_gen.batch import Track, overlay_rows, row_slice
from track_gen.batch_generator import BatchGenerator
from track_gen.config import N_MAX_LIMIT, TrackGenConfig
from track_gen.executor import Executor, Pipeline, usable_cores
from track_gen.generators.spec import (
    FIRST_KNOB,
    Command,
    CurveJob,
    GeneratorSettings,
    GeneratorSpec,
    Progress,
)
from track_gen.parameters import ParameterTable, draw_knobs
from track_gen.report import GenerationReport
from track_gen.rng import PerEnvSeededRNG
from track_gen.stages.elevation import ElevationConfig, ElevationScratch, elevate
from track_gen.stages.inflate import InflateScratch, inflate
from track_gen.stages.relax import RelaxConfig, RelaxScratch, relax
from track_gen.stages.resample import ResampleConfig, ResampleScratch, resample
from track_gen.stages.validity import ValidityConfig, check_validity
from track_gen.status import TrackStatus

if TYPE_CHECKING:
    from track_gen.runtime.metrics import TrackMetrics

__all__ = ["GenerationReport", "TrackGenerator"]


@dataclass
class _Buffers:
    """Everything the launches read and write but the published track; rows of a batch."""

    seeds: wp.array
    episode: wp.array
    active: wp.array
    pending: wp.array
    parameters: wp.array
    knobs: wp.array
    curve: wp.array
    curve_count: wp.array
    points: wp.array
    perimeter: wp.array
    sweeps: wp.array
    cache_overflow: wp.array
    part_pending: wp.array
    family: dict[str, Any]


@dataclass
class _PipelineBuilder:
    """Prepares the launches of a range of rows; knows the buffers, not the generator."""

    spec: GeneratorSpec
    settings: GeneratorSettings
    max_attempts: int
    resample_config: ResampleConfig
    relax_config: RelaxConfig
    validity_config: ValidityConfig
    legal: wp.array
    columns: wp.array
    buffers: _Buffers
    track: Track
    resample_scratch: ResampleScratch
    relax_scratch: RelaxScratch
    inflate_scratch: InflateScratch
    elevation_config: ElevationConfig | None
    elevation_scratch: ElevationScratch | None
    lanes: int
    device: wp.Device
    metrics: TrackMetrics | None = None
    progress: Progress = dataclasses.field(default_factory=Progress)

    def __call__(self, low: int, high: int) -> Pipeline:
        """Prepare all launches for the rows ``low`` to ``high``."""
        lanes, device = self.lanes, self.device
        b = row_slice(self.buffers, low, high)
        t = row_slice(self.track, low, high)
        resample_scratch = row_slice(self.resample_scratch, low, high)
        relax_scratch = row_slice(self.relax_scratch, low, high)
        inflate_scratch = row_slice(self.inflate_scratch, low, high)
        elevation_scratch = (
            None if self.elevation_scratch is None else row_slice(self.elevation_scratch, low, high)
        )
        start = draw_knobs(
            b.seeds,
            b.episode,
            b.active,
            b.parameters,
            self.legal,
            b.knobs,
            t.half_width,
            b.pending,
            t.status,
            self.resample_config.spacing,
            lanes,
            device,
            t.family,
            self.columns,
            self.spec.num_weights(self.settings),
        )
        attempts = []
        for attempt in range(self.max_attempts):
            job = CurveJob(
                seeds=b.seeds,
                episode=b.episode,
                pending=b.pending,
                knobs=b.knobs,
                attempt=attempt,
                curve=b.curve,
                curve_count=b.curve_count,
                scratch=b.family,
                first_knob=FIRST_KNOB,
                lanes=lanes,
                device=device,
                family=t.family,
                part_pending=b.part_pending,
                progress=self.progress,
            )
            launches: list[Command] = list(self.spec.launches(self.settings, job))
            launches.append(
                resample(
                    b.seeds,
                    b.episode,
                    b.pending,
                    t.family,
                    b.knobs,
                    b.curve,
                    b.curve_count,
                    b.points,
                    t.count,
                    b.perimeter,
                    t.required_count,
                    t.status,
                    attempt,
                    self.resample_config,
                    resample_scratch,
                    lanes,
                    device,
                )
            )
            if self.relax_config.enable:
                launches.append(
                    relax(
                        b.points,
                        t.count,
                        b.perimeter,
                        t.half_width,
                        b.pending,
                        b.sweeps,
                        b.cache_overflow,
                        self.relax_config,
                        relax_scratch,
                        lanes,
                        device,
                    )
                )
            launches.append(
                inflate(
                    b.points,
                    t.count,
                    t.half_width,
                    b.pending,
                    t.center,
                    t.outer,
                    t.inner,
                    t.tangent,
                    t.normal,
                    t.up,
                    t.arclen,
                    t.curvature,
                    t.length,
                    t.spacing,
                    t.winding,
                    inflate_scratch,
                    lanes,
                    device,
                )
            )
            if self.elevation_config is not None and elevation_scratch is not None:
                launches.append(
                    elevate(
                        b.seeds,
                        b.episode,
                        b.pending,
                        t.count,
                        t.half_width,
                        t.winding,
                        t.curvature,
                        t.center,
                        t.outer,
                        t.inner,
                        t.tangent,
                        t.up,
                        t.arclen,
                        t.length,
                        t.spacing,
                        attempt,
                        self.elevation_config,
                        elevation_scratch,
                        lanes,
                        device,
                    )
                )
            launches.append(
                check_validity(
                    t.center,
                    t.outer,
                    t.inner,
                    t.count,
                    t.half_width,
                    b.pending,
                    t.status,
                    t.valid,
                    t.attempts,
                    attempt,
                    self.validity_config,
                    lanes,
                    device,
                    math.inf if self.elevation_config is None else self.elevation_config.max_grade,
                )
            )
            attempts.append(launches)
        finish: list[Command] = []
        if self.metrics is not None:
            finish += self.metrics.commands(low, high, self.buffers.active)
        return Pipeline(start=[start], attempts=attempts, pending=b.pending, finish=finish)


def _warn_of_overflow(config: TrackGenConfig, longest: TrackGenConfig, where: str) -> None:
    """Warn the caller's caller if the tracks of ``longest`` need more slots than there are."""
    sufficient = longest.sufficient_n_max()
    if sufficient <= config.N_max:
        return
    advice = f"N_max={sufficient} suffices for 99.9 % of them."
    if sufficient > N_MAX_LIMIT:
        advice = (
            f"They need {sufficient} and the limit is {N_MAX_LIMIT}: the road is too narrow for "
            "the scale."
        )
    warnings.warn(
        f"TrackGenConfig.N_max={config.N_max} is too small for the longest tracks of "
        f"{config.spec.name!r} {where}; they will be invalid with OVERFLOW. {advice}",
        stacklevel=3,
    )


class TrackGenerator(BatchGenerator):
    """Makes a batch of tracks per call, always into the same arrays.

    All buffers are allocated here and keep their addresses. On CUDA the first call captures the
    whole pipeline as one graph and later calls replay it; on the CPU it runs eagerly on all cores.
    A track is a pure function of (configuration, parameters, seed, episode).

    Args:
        config: Configuration.
        rng: Seeds of the same number of envs on the same device; kept, and read at each call.
        capture: None captures on CUDA only; True captures on the CPU too; False never captures.

    Raises:
        ValueError: If ``config`` and ``rng`` disagree on the number of envs or the device, or
            capture is asked of a family that cannot be captured.
        TypeError: If an argument has the wrong type.

    Warns:
        UserWarning: If ``config.N_max`` is too small for the family's longest tracks.
    """

    _flags = TrackStatus

    def __init__(
        self, config: TrackGenConfig, rng: PerEnvSeededRNG, *, capture: bool | None = None
    ) -> None:
        if not isinstance(config, TrackGenConfig):
            raise TypeError(f"TrackGenerator needs a TrackGenConfig, got {type(config).__name__}")
        spec = config.spec
        super().__init__(config, TrackGenConfig, rng, capture, spec.name, spec.capturable)
        device = self.device
        _warn_of_overflow(config, config, "at this half_width and scale")
        self._spec = spec
        self._settings = config.settings

        E, N = config.num_envs, config.N_max
        curve_size = spec.curve_size(self._settings)
        self.parameters = ParameterTable(
            config.knobs(),
            config.knob_values(),
            E,
            device,
            owner="generator.parameters",
            columns=[(0, -1), (1, -1), *spec.knob_columns(self._settings)],
        )
        self.track = self._published = Track.allocate(E, N, device)

        relax_config = config.relax_config()
        elevation_config = config.elevation_config()
        templates: list[Any] = []
        if elevation_config is not None:
            templates.append(ElevationScratch.allocate(1, N, device))
        families = spec.scratch_templates(self._settings, device)
        resample_scratch, relax_scratch, inflate_scratch, *rest = overlay_rows(
            [
                ResampleScratch.allocate(1, curve_size, device),
                RelaxScratch.allocate(1, N, relax_config, device),
                InflateScratch.allocate(1, N, device),
                *templates,
                *families,
            ],
            E,
            device,
        )
        elevation_scratch = None if elevation_config is None else rest.pop(0)

        def integers() -> wp.array:
            return wp.zeros(E, dtype=wp.int32, device=device)

        self._buffers = _Buffers(
            seeds=integers(),
            episode=integers(),
            active=wp.zeros(E, dtype=wp.bool, device=device),
            pending=wp.zeros(E, dtype=wp.bool, device=device),
            parameters=self.parameters.array,
            knobs=wp.zeros((E, len(self.parameters.knobs)), dtype=wp.float32, device=device),
            curve=wp.empty((E, curve_size), dtype=wp.vec2f, device=device),
            curve_count=integers(),
            points=wp.empty((E, N), dtype=wp.vec2f, device=device),
            perimeter=wp.zeros(E, dtype=wp.float32, device=device),
            sweeps=integers(),
            cache_overflow=integers(),
            part_pending=wp.zeros((E, len(families)), dtype=wp.bool, device=device),
            family=spec.job_scratch(self._settings, rest),
        )
        threads = usable_cores() if config.num_threads is None else config.num_threads
        self.metrics: TrackMetrics | None = None
        """Metrics of the tracks, rewritten with them; None without ``TrackGenConfig.metrics``."""
        if config.metrics:
            from track_gen.runtime.metrics import TrackMetrics

            self.metrics = TrackMetrics(self.track, num_threads=threads)
        builder = _PipelineBuilder(
            spec=spec,
            settings=self._settings,
            max_attempts=config.max_attempts,
            resample_config=config.resample_config(),
            relax_config=relax_config,
            validity_config=config.validity_config(),
            legal=self.parameters.legal,
            columns=self.parameters.columns,
            buffers=self._buffers,
            track=self.track,
            resample_scratch=resample_scratch,
            relax_scratch=relax_scratch,
            inflate_scratch=inflate_scratch,
            elevation_config=elevation_config,
            elevation_scratch=elevation_scratch,
            lanes=config.block_dim if device.is_cuda else 1,
            device=device,
            metrics=self.metrics,
        )
        self._progress = builder.progress
        self._executor = Executor(builder, E, device, threads)

    @property
    def on_progress(self) -> Callable[[int, int], None] | None:
        """Called with (iterations done, envs still growing) by host-driven families.

        It may run in a worker thread. An exception in it, KeyboardInterrupt too, ends the call and
        leaves the generator usable: rows that were not finished are regenerated by the next call.
        """
        return self._progress.callback

    @on_progress.setter
    def on_progress(self, callback: Callable[[int, int], None] | None) -> None:
        self._progress.callback = callback

    @property
    def cache_overflow(self) -> wp.array:
        """Neighbours that did not fit the separation cache in the last attempt, int32 [E]."""
        return self._buffers.cache_overflow

    @property
    def sweeps(self) -> wp.array:
        """Relaxation sweeps of the last attempt, int32 [E]."""
        return self._buffers.sweeps

    def generate(self, mask: Any = None) -> Track:
        """Generate tracks for all envs, or for the masked ones.

        Args:
            mask: Envs to regenerate, bool [E] as Warp array, torch tensor (on the device) or NumPy
                array; every array of the other rows stays byte-identical. None is all envs, and
                so is an int equal to ``num_envs``.

        Returns:
            The generator's track: the same object with the same arrays at each call.

        Raises:
            ValueError: If the mask has the wrong shape or device, or an int is another batch size.
            TypeError: If the mask has the wrong type.
            RuntimeError: In a caller's open capture: before :meth:`warmup`, with a NumPy mask, or
                for a family that cannot be captured.
        """
        self._progress.restart()
        self._run(mask)
        return self.track

    def set_difficulty(self, value: Any, mask: Any = None) -> None:
        """Set the difficulty of envs: 0 is wide and round, 1 narrow and twisty.

        See :meth:`BatchGenerator.set_difficulty`.

        Raises:
            ValueError: As there, or if a fixed ``spacing`` does not fit the half width at
                difficulty 1.
            TypeError: If a type is wrong.
            RuntimeError: As there.

        Warns:
            UserWarning: If ``config.N_max`` is too small for the family's longest tracks at
                difficulty 1; once.
        """
        if self._difficulty is None:
            _warn_of_overflow(self.config, self.config.at_difficulty(1.0), "at difficulty 1")
        super().set_difficulty(value, mask)
