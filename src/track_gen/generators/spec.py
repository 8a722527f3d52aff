"""What a track family is: its settings class, its launches, its place in the registry."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import warp as wp

from track_gen.checks import check_range
from track_gen.parameters import Knob, Range

__all__ = [
    "Command",
    "Progress",
    "AnchorJob",
    "AnchorSource",
    "CurveJob",
    "FIRST_KNOB",
    "Fit",
    "GeneratorSettings",
    "GeneratorSpec",
]

FIRST_KNOB = 2
"""Column of a family's first knob: ``half_width`` and ``scale`` come first."""

Fit: TypeAlias = Literal["box", "natural"]
"""How a curve gets its size; see ``GeneratorSpec.fit``."""


@dataclass(frozen=True, kw_only=True)
class GeneratorSettings:
    """Base class of a family's settings: frozen, keyword-only, checked once.

    A subclass lists its continuous knobs in ``knobs``; the fields of these names hold a number or a
    ``(low, high)`` pair drawn per env. Other fields are fixed for the batch.
    """

    knobs: ClassVar[tuple[Knob, ...]] = ()
    """Continuous knobs in the order of the parameter table, after ``half_width`` and ``scale``."""
    difficulty: ClassVar[Mapping[str, tuple[Range, Range]]] = {}
    """Knobs that the difficulty moves: their ranges at 0 (round) and at 1 (twisty)."""

    def __post_init__(self) -> None:
        for knob in self.knobs:
            name = f"{type(self).__name__}.{knob.name}"
            check_range(name, getattr(self, knob.name), knob.low, knob.high, knob.low_open)
        self.check()

    def check(self) -> None:
        """Check the fields that are not knobs; overridden by a family.

        Raises:
            ValueError: If a value is out of bounds.
            TypeError: If a type is wrong.
        """


class Command(Protocol):
    """A step of a pipeline: a prepared ``wp.Launch``, or host code around some of them."""

    def launch(self) -> None:
        """Run the step."""


class Progress:
    """Collects how far host-driven families are, over row ranges that run in several threads."""

    def __init__(self) -> None:
        self.callback: Callable[[int, int], None] | None = None
        """Called with (iterations done, envs still growing), or None."""
        self._lock = threading.Lock()
        self._state: dict[int, tuple[int, int]] = {}

    def restart(self) -> None:
        """Forget the last batch."""
        with self._lock:
            self._state.clear()

    def report(self, part: int, iteration: int, growing: int) -> None:
        """Take note of one row range and tell the callback about all of them."""
        with self._lock:
            self._state[part] = (iteration, growing)
            if self.callback is not None:
                iterations, counts = zip(*self._state.values(), strict=True)
                self.callback(max(iterations), sum(counts))


@dataclass
class CurveJob:
    """Everything the launch of a family reads and writes, for a range of rows and one attempt.

    A family writes, for every env with ``pending`` true, a closed curve without a repeated end
    point, counter-clockwise, in units of scale 1 and at any position: ``curve[env, :curve_count]``.
    Placing it (centre, scale, augmentation) is done by the resampling stage.
    """

    seeds: wp.array
    """Seeds, int32, shape [E]."""
    episode: wp.array
    """Episode counters, int32, shape [E]."""
    pending: wp.array
    """Envs to work on, bool, shape [E]."""
    knobs: wp.array
    """Drawn knobs, float32, shape [E, P]: half_width, scale, then the family's, in table order."""
    attempt: int
    """Attempt, from 0; part of the counter of every draw."""
    curve: wp.array
    """Output: dense closed curve, vec2f, shape [E, C]."""
    curve_count: wp.array
    """Output: points of the curve, int32, shape [E]; 0 makes the env invalid (NONFINITE)."""
    scratch: dict[str, Any]
    """The family's own arrays, first dimension E, as ``GeneratorSpec.allocate`` made them."""
    first_knob: int
    """Column of the family's first knob in ``knobs``."""
    lanes: int
    """Block size."""
    device: wp.Device
    """Device of all arrays."""
    family: wp.array | None = None
    """Family of each env, int32, shape [E]; of interest to a mixture only."""
    part_pending: wp.array | None = None
    """Scratch of a mixture: ``pending`` of each family's envs, bool, shape [E, families]."""
    progress: Progress | None = None
    """Where a host-driven family reports; None if nobody listens."""

    @property
    def num_envs(self) -> int:
        """Rows of this job."""
        return self.pending.shape[0]


@dataclass
class AnchorJob:
    """What the launch of a family's anchors reads and writes, for a range of rows and one attempt.

    For every env with ``pending`` true a family writes ``count`` points, at any position and in
    units of scale 1: the points that its curve would be drawn through.
    """

    seeds: wp.array
    """Seeds, int32, shape [E]."""
    episode: wp.array
    """Episode counters, int32, shape [E]."""
    pending: wp.array
    """Envs to work on, bool, shape [E]."""
    knobs: wp.array
    """Drawn knobs, float32, shape [E, P]; the family's start at ``first_knob``."""
    count: wp.array
    """Anchors of each env, int32, shape [E], 0 or in [3, max_count]."""
    max_count: int
    """Largest count of the batch."""
    attempt: int
    """Attempt, from 0; part of the counter of every draw."""
    anchors: wp.array
    """Output: anchors in the order of drawing, vec2f, shape [E, >= max_count]."""
    scratch: dict[str, Any]
    """Arrays as ``AnchorSource.allocate`` made them, first dimension E."""
    first_knob: int
    """Column of the family's first knob in ``knobs``."""
    lanes: int
    """Block size."""
    device: wp.Device
    """Device of all arrays."""
    family: wp.array | None = None
    """Family of each env, int32, shape [E]; of interest to a mixture only."""
    part_pending: wp.array | None = None
    """Scratch of a mixture: ``pending`` of each family's envs, bool, shape [E, families]."""

    @property
    def num_envs(self) -> int:
        """Rows of this job."""
        return self.pending.shape[0]


@dataclass(frozen=True, kw_only=True)
class AnchorSource:
    """The anchors of a family without its curve."""

    launches: Callable[[Any, AnchorJob], list[wp.Launch]]
    """Prepare the launches that write ``job.anchors`` for the settings; runs nothing."""
    count_range: Callable[[Any], tuple[int, int]]
    """Fewest and most anchors of the settings, drawn uniformly."""
    allocate: Callable[[Any, int, int, wp.Device], dict[str, wp.array]]
    """Allocate the scratch: (settings, max_count, num_envs, device) to arrays with E rows."""
    angular: bool
    """Whether anchors are drawn in angular order around the origin."""
    difficulty: Mapping[str, tuple[Range, Range]] = dataclasses.field(default_factory=dict)
    """Knobs of the anchors that the difficulty moves: their ranges at 0 (round) and at 1 (twisty),
    legal with any number of anchors."""


def _no_scratch(settings: Any, num_envs: int, device: wp.Device) -> dict[str, wp.array]:
    return {}


@dataclass(frozen=True, kw_only=True)
class GeneratorSpec:
    """A track family, as the registry holds it."""

    name: str
    """Name in ``TrackGenConfig.generator`` and on the command line."""
    settings: type[GeneratorSettings]
    """Settings class; its type selects the family."""
    launches: Callable[[Any, CurveJob], Sequence[Command]]
    """Prepare the launches that write ``job.curve`` for the settings; runs nothing."""
    curve_size: Callable[[Any], int]
    """Points C that the dense curve of the settings may need."""
    capturable: bool = True
    """Whether the launches can be part of a CUDA graph."""
    fit: Fit | Callable[[Any], Fit] = "box"
    """"box": the longer side of the bounding box becomes 1.44 * scale; "natural": times scale. A
    callable answers for the settings."""
    allocate: Callable[[Any, int, wp.Device], dict[str, wp.array]] = _no_scratch
    """Allocate the family's scratch: (settings, num_envs, device) to arrays with E rows."""
    typical_length: Callable[[Any], float] = lambda settings: 8.0
    """Length at scale 1 that 99.9 % of the tracks do not exceed; sizes ``N_max`` warnings."""
    anchors: AnchorSource | None = None
    """The anchors alone, for gate courses; None if the family has none."""
    seed_version: int = 1
    """Raised when the track of a seed changes on purpose; guarded by golden hashes in the tests."""

    def __post_init__(self) -> None:
        fields = {field.name for field in dataclasses.fields(self.settings)}
        missing = [knob.name for knob in self.settings.knobs if knob.name not in fields]
        if missing:
            raise ValueError(
                f"GeneratorSpec {self.name!r}: knobs without a settings field: {missing}"
            )

    def fit_of(self, settings: Any) -> Fit:
        """How the curves of these settings get their size: "box" or "natural"."""
        return self.fit(settings) if callable(self.fit) else self.fit

    # A mixture answers these for its parts.

    def parts_of(self, settings: Any) -> list[tuple[GeneratorSpec, Any]]:
        """Families and their settings by the index in ``Track.family``."""
        return [(self, settings)]

    def family_names(self, settings: Any) -> tuple[str, ...]:
        """Names by the index in ``Track.family``."""
        return (self.name,)

    def fit_bits(self, settings: Any) -> int:
        """Bit k is set if the curves of family k are fitted to the box."""
        parts = self.parts_of(settings)
        return sum((spec.fit_of(own) == "box") << k for k, (spec, own) in enumerate(parts))

    def knobs_of(self, settings: Any) -> tuple[Knob, ...]:
        """Columns of the parameter table after ``half_width`` and ``scale``."""
        return settings.knobs

    def knob_values(self, settings: Any) -> list[Range]:
        """Configured value or range of each of them."""
        return [getattr(settings, knob.name) for knob in settings.knobs]

    def knob_columns(self, settings: Any) -> list[tuple[int, int]]:
        """Draw counter and family (-1 for all) of each of them."""
        return [(FIRST_KNOB + i, -1) for i in range(len(settings.knobs))]

    def difficulty_of(self, settings: Any) -> dict[str, tuple[Range, Range]]:
        """Ranges at difficulty 0 and 1 of the knobs that it moves, by name in the table."""
        return dict(settings.difficulty)

    def anchor_difficulty_of(self, settings: Any) -> dict[str, tuple[Range, Range]]:
        """The same for gate courses."""
        return {} if self.anchors is None else dict(self.anchors.difficulty)

    def with_ranges(self, settings: Any, ranges: Mapping[str, Range]) -> Any:
        """Settings with other values of some knobs, by name in the table."""
        return dataclasses.replace(settings, **ranges) if ranges else settings

    def num_weights(self, settings: Any) -> int:
        """How many of them, at the end, are weights of families."""
        return 0

    def scratch_templates(self, settings: Any, device: wp.Device) -> list[dict[str, wp.array]]:
        """Scratch of one row for each family: a row belongs to one, so they may share memory."""
        return [spec.allocate(own, 1, device) for spec, own in self.parts_of(settings)]

    def anchor_templates(
        self, settings: Any, max_count: int, device: wp.Device
    ) -> list[dict[str, wp.array]]:
        """The same for the anchors of families that have some."""
        return [
            spec.anchors.allocate(own, max_count, 1, device)
            for spec, own in self.parts_of(settings)
            if spec.anchors is not None
        ]

    def job_scratch(self, settings: Any, arrays: list[dict[str, wp.array]]) -> dict[str, Any]:
        """Scratch of a job from the arrays that its templates described."""
        return arrays[0]

    def anchor_launches(self, settings: Any, job: AnchorJob) -> list[wp.Launch]:
        """Prepare the launches that write ``job.anchors``; runs nothing.

        Raises:
            ValueError: If the family has no anchors.
        """
        if self.anchors is None:
            raise ValueError(f"generator {self.name!r} has no anchors for gates")
        return self.anchors.launches(settings, job)
