"""The facade of gate courses: where families and the stages of a course meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from track_gen.batch import overlay_rows, row_slice
from track_gen.batch_generator import BatchGenerator
from track_gen.elevation import make_profile
from track_gen.executor import Executor, Pipeline, usable_cores
from track_gen.gate_batch import GateSequence
from track_gen.gate_config import FIRST_GATE_KNOB, GateGenConfig
from track_gen.generators.spec import AnchorJob, Command
from track_gen.parameters import ParameterTable, draw_knobs
from track_gen.rng import PerEnvSeededRNG
from track_gen.stages.gate_heights import GateHeightScratch, place_gates
from track_gen.stages.gate_layout import (
    FREE_STAGES,
    RESORT_STAGES,
    RING_STAGES,
    GateLayoutScratch,
    relax_gates,
)
from track_gen.stages.gate_order import (
    ANGULAR,
    AS_DRAWN,
    FREE_GROWTH,
    SHUFFLE,
    GateOrderScratch,
    order_gates,
    reorder_gates,
)
from track_gen.stages.gate_validity import judge_gates
from track_gen.stages.gates import draw_counts, split_orders
from track_gen.stages.resample import BOX_SIDE
from track_gen.status import GateStatus

__all__ = ["GateGenerator"]

_RING_BLEND = 0.35
_RESORT_BLEND = 0.5
_ORDER_KINDS = {"ccw": ANGULAR, "cw": ANGULAR, "sampled": AS_DRAWN, "random": SHUFFLE}
_WINDINGS = {"ccw": 1, "cw": -1, "sampled": 0, "random": 0}


@dataclass
class _Buffers:
    """Everything the launches read and write but the published gates; rows of a batch."""

    seeds: wp.array
    episode: wp.array
    active: wp.array
    pending: wp.array
    parameters: wp.array
    knobs: wp.array
    width: wp.array
    solved: wp.array
    sweeps: wp.array
    anchors: wp.array
    order: wp.array
    points: wp.array
    part_pending: wp.array
    free_pending: wp.array
    angular_pending: wp.array
    family: dict[str, Any]


@dataclass
class _PipelineBuilder:
    """Prepares the launches of a range of rows; knows the buffers, not the generator."""

    config: GateGenConfig
    legal: wp.array
    columns: wp.array
    ranges: wp.array
    buffers: _Buffers
    gates: GateSequence
    order_scratch: GateOrderScratch
    layout_scratch: GateLayoutScratch
    height_scratch: GateHeightScratch
    lanes: int
    device: wp.Device

    def __call__(self, low: int, high: int) -> Pipeline:
        """Prepare all launches for the rows ``low`` to ``high``."""
        b = row_slice(self.buffers, low, high)
        gates = row_slice(self.gates, low, high)
        config = self.config
        start = [
            draw_knobs(
                b.seeds,
                b.episode,
                b.active,
                b.parameters,
                self.legal,
                b.knobs,
                b.width,
                b.pending,
                gates.status,
                0.0,
                self.lanes,
                self.device,
                gates.family,
                self.columns,
                config.spec.num_weights(config.settings),
            ),
            draw_counts(
                b.seeds,
                b.episode,
                b.active,
                gates.status,
                gates.family,
                self.ranges,
                gates.count,
                gates.valid,
                self.lanes,
                self.device,
            ),
        ]
        scratch = (
            row_slice(self.order_scratch, low, high),
            row_slice(self.layout_scratch, low, high),
            row_slice(self.height_scratch, low, high),
        )
        attempts = [
            self._attempt(attempt, b, gates, *scratch) for attempt in range(config.max_attempts)
        ]
        return Pipeline(start=start, attempts=attempts, pending=b.pending)

    def _attempt(
        self,
        attempt: int,
        b: _Buffers,
        gates: GateSequence,
        order_scratch: GateOrderScratch,
        layout_scratch: GateLayoutScratch,
        height_scratch: GateHeightScratch,
    ) -> Sequence[Command]:
        """Anchors, order, layout, heights, verdict."""
        config, lanes, device = self.config, self.lanes, self.device
        spec, settings = config.spec, config.settings
        rules = config.rules()
        arrays = gates.arrays()
        job = AnchorJob(
            seeds=b.seeds,
            episode=b.episode,
            pending=b.pending,
            knobs=b.knobs,
            count=gates.count,
            max_count=config.count_range[1],
            attempt=attempt,
            anchors=b.anchors,
            scratch=b.family,
            first_knob=FIRST_GATE_KNOB,
            lanes=lanes,
            device=device,
            family=gates.family,
            part_pending=b.part_pending,
        )
        launches = list(spec.anchor_launches(settings, job))
        launches.append(
            order_gates(
                b.seeds,
                b.episode,
                gates.count,
                b.knobs,
                b.pending,
                b.anchors,
                b.order,
                b.solved,
                attempt,
                _ORDER_KINDS[config.ordering],
                BOX_SIDE,
                spec.fit_bits(settings),
                gates.family,
                rules,
                order_scratch,
                lanes,
                device,
            )
        )

        free = sum(flag << k for k, flag in enumerate(config.free))
        free_pending = angular_pending = b.pending
        if len(set(config.free)) > 1:
            free_pending, angular_pending = b.free_pending, b.angular_pending
            launches.append(
                split_orders(
                    b.pending, gates.family, free, free_pending, angular_pending, lanes, device
                )
            )

        def reorder(round: int) -> wp.Launch:
            return reorder_gates(
                b.seeds,
                b.episode,
                gates.count,
                b.knobs,
                free_pending,
                b.solved,
                b.anchors,
                b.order,
                attempt,
                round,
                rules,
                order_scratch,
                lanes,
                device,
            )

        def relax(
            pending: wp.array, first: int, last: int, growth: float, blending: float, angular: bool
        ) -> wp.Launch:
            return relax_gates(
                pending,
                gates.count,
                b.knobs,
                b.anchors,
                b.order,
                b.points,
                b.solved,
                b.sweeps,
                first,
                last,
                growth,
                blending,
                angular,
                rules,
                layout_scratch,
                lanes,
                device,
            )

        if any(config.free):
            for round in range(FREE_STAGES):
                launches.append(reorder(round))
                launches.append(relax(free_pending, round, round, FREE_GROWTH, 0.0, False))
            launches.append(reorder(-1))
            launches.append(relax(free_pending, 0, RESORT_STAGES - 1, 0.0, _RESORT_BLEND, True))
        if not all(config.free):
            launches.append(relax(angular_pending, 0, RING_STAGES - 1, 0.0, _RING_BLEND, True))
        launches.append(
            place_gates(
                b.seeds,
                b.episode,
                gates.count,
                b.knobs,
                b.pending,
                b.points,
                arrays,
                attempt,
                rules,
                make_profile(config.heights, config.height_grade),
                config.varies,
                config.height_grade,
                height_scratch,
                lanes,
                device,
            )
        )
        launches.append(
            judge_gates(
                gates.count,
                b.knobs,
                b.pending,
                arrays,
                attempt,
                config.min_gates,
                config.max_gates,
                _WINDINGS[config.ordering],
                rules,
                height_scratch.lines,
                lanes,
                device,
            )
        )
        return launches


class GateGenerator(BatchGenerator):
    """Makes a batch of gate courses per call, always into the same arrays.

    The contract is that of :class:`TrackGenerator`: all buffers are allocated here and keep their
    addresses; on CUDA the first call captures the whole pipeline as one graph and later calls
    replay it; on the CPU it runs eagerly on all cores. A course is a pure function of
    (configuration, parameters, seed, episode).

    Args:
        config: Configuration.
        rng: Seeds of the same number of envs on the same device; kept, and read at each call.
        capture: None captures on CUDA only; True captures on the CPU too; False never captures.

    Raises:
        ValueError: If ``config`` and ``rng`` disagree on the number of envs or the device.
        TypeError: If an argument has the wrong type.
    """

    _flags = GateStatus

    def __init__(
        self, config: GateGenConfig, rng: PerEnvSeededRNG, *, capture: bool | None = None
    ) -> None:
        if not isinstance(config, GateGenConfig):
            raise TypeError(f"GateGenerator needs a GateGenConfig, got {type(config).__name__}")
        super().__init__(config, GateGenConfig, rng, capture)
        device = self.device
        spec, settings = config.spec, config.settings

        E, G = config.num_envs, config.max_gates
        self.parameters = ParameterTable(
            config.knobs(),
            config.knob_values(),
            E,
            device,
            owner="generator.parameters",
            columns=config.knob_columns(),
        )
        self.gates = self._published = GateSequence.allocate(E, G, device)
        templates = spec.anchor_templates(settings, G, device)
        order_scratch, layout_scratch, height_scratch, *families = overlay_rows(
            [
                GateOrderScratch.allocate(1, G, device),
                GateLayoutScratch.allocate(1, G, device),
                GateHeightScratch.allocate(1, G, device),
                *templates,
            ],
            E,
            device,
        )

        def integers() -> wp.array:
            return wp.zeros(E, dtype=wp.int32, device=device)

        def flags() -> wp.array:
            return wp.zeros(E, dtype=wp.bool, device=device)

        def rows(dtype: type) -> wp.array:
            return wp.zeros((E, G), dtype=dtype, device=device)

        self._buffers = _Buffers(
            seeds=integers(),
            episode=integers(),
            active=flags(),
            pending=flags(),
            parameters=self.parameters.array,
            knobs=wp.zeros((E, len(self.parameters.knobs)), dtype=wp.float32, device=device),
            width=wp.zeros(E, dtype=wp.float32, device=device),
            solved=integers(),
            sweeps=integers(),
            anchors=rows(wp.vec2f),
            order=rows(wp.int32),
            points=rows(wp.vec2f),
            part_pending=wp.zeros((E, len(templates)), dtype=wp.bool, device=device),
            free_pending=flags(),
            angular_pending=flags(),
            family=spec.job_scratch(settings, families),
        )
        ranges = np.array(config.count_ranges, dtype=np.int32)
        builder = _PipelineBuilder(
            config=config,
            legal=self.parameters.legal,
            columns=self.parameters.columns,
            ranges=wp.array(ranges, dtype=wp.int32, device=device),
            buffers=self._buffers,
            gates=self.gates,
            order_scratch=order_scratch,
            layout_scratch=layout_scratch,
            height_scratch=height_scratch,
            lanes=config.block_dim if device.is_cuda else 1,
            device=device,
        )
        threads = usable_cores() if config.num_threads is None else config.num_threads
        self._executor = Executor(builder, E, device, threads)

    @property
    def sweeps(self) -> wp.array:
        """Relaxation sweeps of the last stage of the last attempt, int32 [E]."""
        return self._buffers.sweeps

    @property
    def solved(self) -> wp.array:
        """1 + the stage that found the layout in the last attempt, 0 if none did, int32 [E]."""
        return self._buffers.solved

    def generate(self, mask: Any = None) -> GateSequence:
        """Generate courses for all envs, or for the masked ones.

        Args:
            mask: Envs to regenerate, bool [E] as Warp array, torch tensor (on the device) or NumPy
                array; every array of the other rows stays byte-identical. None is all envs, and
                so is an int equal to ``num_envs``.

        Returns:
            The generator's gates: the same object with the same arrays at each call.

        Raises:
            ValueError: If the mask has the wrong shape or device, or an int is another batch size.
            TypeError: If the mask has the wrong type.
            RuntimeError: In a caller's open capture: before :meth:`warmup`, or with a NumPy mask.
        """
        self._run(mask)
        return self.gates
