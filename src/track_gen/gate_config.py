"""Configuration of a gate generator: frozen, keyword-only, checked once."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from track_gen.checks import (
    check_choice,
    check_device,
    check_float,
    check_int,
    check_range,
    check_threads,
)
from track_gen.difficulty import difficulty_ranges, narrowing
from track_gen.elevation import ElevationSettings, Flat
from track_gen.flight_line import LINES
from track_gen.gate_rules import LINE_SAMPLES, GateRules
from track_gen.generators import Mixture, available_generators, get_spec, spec_of
from track_gen.generators.spec import FIRST_KNOB, GeneratorSettings, GeneratorSpec
from track_gen.parameters import SCALE, Knob, Range

__all__ = [
    "ALIGNMENTS",
    "EASY_TURN",
    "FIRST_GATE_KNOB",
    "GATE_LIMIT",
    "GATE_WIDTH",
    "MAX_TURN",
    "ORDERINGS",
    "GateGenConfig",
]

GATE_LIMIT = 64
"""Largest ``max_gates``."""

ORDERINGS = ("ccw", "cw", "sampled", "random")
"""Flying orders: around the centre, as the family draws its anchors, or shuffled."""

ALIGNMENTS = ("yaw", "tangent")
"""How gates stand: upright, or square to the flight line in space."""

GATE_WIDTH = Knob("gate_width", 0.0, math.inf, low_open=True)
"""Column 0 of every table [length]."""
MAX_TURN = Knob("max_turn", 0.0, 175.0, low_open=True)
"""Column 2 of every table [deg]; ``scale`` is column 1."""
FIRST_GATE_KNOB = FIRST_KNOB + 1
"""Column of a family's first knob."""

EASY_TURN = 75.0
"""Largest turn at difficulty 0 [deg], more where so few gates cannot close a loop with it."""

_EASY_TURNING = 450.0
"""Least sum of the largest turns at difficulty 0 [deg]; a closed course turns by at least 360."""
_TURN_DRAW = 1 << 21
"""Draw counter of ``max_turn``: beyond those of all knobs and weights."""


def _bounds(value: Range) -> tuple[float, float]:
    return value if isinstance(value, tuple) else (float(value), float(value))


@dataclass(frozen=True, kw_only=True)
class GateGenConfig:
    """Everything a :class:`GateGenerator` needs to know before it starts.

    Impossible wishes that can be proven are refused here, with the numbers in the text. Without
    ``max_extent`` no number of gates is impossible: the course grows until they fit, so its size is
    a result.

    Raises:
        ValueError: If a value is out of bounds; the message names field, bound and value.
        TypeError: If a type is wrong.
    """

    num_envs: int
    """Batch size E; fixed for the life of a generator."""
    device: Any = None
    """Warp device or its name; None is Warp's current device."""
    generator: str | GeneratorSettings = "bezier"
    """Name of a family with anchors (with its defaults), its settings object, or a Mixture."""
    num_gates: int | tuple[int, int] | None = None
    """Gates per course, or the (fewest, most) of a uniform draw; None is the family's own number
    of anchors."""
    min_gates: int = 4
    """Fewest gates allowed, in [3, 64]."""
    max_gates: int = 32
    """Slots per env and most gates allowed, in [min_gates, 64]."""
    gate_width: Range = 1.2
    """Full width of the openings [length], > 0; a pair draws it per env."""
    gate_height: float | None = None
    """Full height of the openings [length], > 0; None is the width."""
    clearance: float | None = None
    """Free space on every side of an opening [length], >= 0; None is half the width."""
    scale: Range = 17.0
    """Size of the anchors [length], > 0, as for tracks; a pair draws it per env. The longer side of
    their box is about 1.44 times this; courses grow if they must."""
    min_gap: float = 0.0
    """Least distance of two gates [length]; never below the width plus both clearances."""
    approach: float | None = None
    """Length before and behind an opening that other gates keep free, >= 0; None is the width."""
    max_turn: Range = 135.0
    """Largest turn in plan at a gate [deg], in (0, 175]; a pair draws it per env."""
    max_grade: float = 0.5
    """Largest rise over plan distance, of neighbours and of the flight line, in (0, 10]."""
    max_incidence: float = 35.0
    """Largest angle between the flight line and a gate's axis [deg], in [0, 90)."""
    min_radius: float | None = None
    """Least radius of the flight line, in plan and up and down [length]; None is 0.75 of the width,
    0 is no limit."""
    max_extent: float | None = None
    """Longest side of the box around the gate centres in plan [length]; None is no limit."""
    line: str = "arc"
    """Handles of the flight line: "arc" (wide bends) or "centripetal" (Catmull-Rom)."""
    ordering: str = "ccw"
    """Flying order: "ccw", "cw", "sampled" (as the family draws) or "random"."""
    align: str = "yaw"
    """How gates stand: "yaw" (upright) or "tangent" (square to a climbing or diving line)."""
    elevation: ElevationSettings | None = None
    """Heights: Flat, Uniform, RandomWalk or Noise; None is flat at z = 0."""
    max_attempts: int = 4
    """Attempts per env before it stays invalid, in [1, 64]."""
    block_dim: int = 64
    """Threads per env on CUDA: 32, 64, 128 or 256; the CPU uses one lane per env."""
    num_threads: int | None = None
    """CPU worker threads; None is all usable cores. Results do not depend on it."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_int(f"{name}.num_envs", self.num_envs, low=1, high=2**31 - 1)
        check_device(f"{name}.device", self.device)
        self._check_family(name)
        check_int(f"{name}.max_gates", self.max_gates, low=3, high=GATE_LIMIT)
        check_int(f"{name}.min_gates", self.min_gates, low=3, high=self.max_gates)
        knobs = (("gate_width", GATE_WIDTH), ("scale", SCALE), ("max_turn", MAX_TURN))
        for field, knob in knobs:
            checked = check_range(
                f"{name}.{field}", getattr(self, field), knob.low, knob.high, knob.low_open
            )
            object.__setattr__(self, field, checked)
        if self.gate_height is not None:
            check_float(f"{name}.gate_height", self.gate_height, 0.0, low_open=True)
        for field in ("clearance", "approach", "min_radius"):
            if getattr(self, field) is not None:
                check_float(f"{name}.{field}", getattr(self, field), 0.0)
        check_float(f"{name}.min_gap", self.min_gap, 0.0)
        if self.max_extent is not None:
            check_float(f"{name}.max_extent", self.max_extent, 0.0, low_open=True)
        check_float(f"{name}.max_grade", self.max_grade, 0.0, 10.0, low_open=True)
        check_float(f"{name}.max_incidence", self.max_incidence, 0.0, 89.9)
        check_choice(f"{name}.line", self.line, LINES)
        check_choice(f"{name}.ordering", self.ordering, ORDERINGS)
        check_choice(f"{name}.align", self.align, ALIGNMENTS)
        check_int(f"{name}.max_attempts", self.max_attempts, low=1, high=64)
        if check_int(f"{name}.block_dim", self.block_dim, low=32, high=256) not in (
            32,
            64,
            128,
            256,
        ):
            raise ValueError(f"{name}.block_dim must be 32, 64, 128 or 256, got {self.block_dim}")
        check_threads(f"{name}.num_threads", self.num_threads)
        self._check_elevation(name)
        self._check_count(name)
        self._check_possible(name)

    def _check_family(self, name: str) -> None:
        if isinstance(self.generator, str):
            families = [get_spec(self.generator)]
        elif isinstance(self.generator, GeneratorSettings):
            families = [part for part, _ in spec_of(self.generator).parts_of(self.generator)]
        else:
            raise TypeError(
                f"{name}.generator must be a name or a settings object, got "
                f"{self.generator!r} ({type(self.generator).__name__})"
            )
        for k, family in enumerate(families):
            if family.anchors is None:
                where = (
                    f" in part {k} of the mixture" if isinstance(self.generator, Mixture) else ""
                )
                known = [n for n in available_generators() if get_spec(n).anchors is not None]
                raise ValueError(
                    f"{name}.generator {family.name!r}{where} has no anchors for gates; "
                    f"families that do: {', '.join(known)}"
                )

    def _check_elevation(self, name: str) -> None:
        elevation = self.elevation
        if elevation is None:
            return
        if not isinstance(elevation, ElevationSettings):
            raise TypeError(
                f"{name}.elevation must be Flat, Uniform, RandomWalk or Noise, got "
                f"{elevation!r} ({type(elevation).__name__})"
            )
        if elevation.max_grade is not None and elevation.max_grade > self.max_grade:
            raise ValueError(
                f"{name}.elevation.max_grade must be <= {name}.max_grade = {self.max_grade:g}, "
                f"got {elevation.max_grade:g}"
            )
        if elevation.banking != 0.0:
            raise ValueError(f"{name}.elevation.banking must be 0: gates have no road to bank")

    def _check_count(self, name: str) -> None:
        wanted = self.num_gates
        source = "num_gates"
        if wanted is None:
            source = "the {!r} settings"
        elif isinstance(wanted, (tuple, list)):
            if len(wanted) != 2:
                raise ValueError(f"{name}.num_gates must be an int or a (low, high) pair")
            low = check_int(f"{name}.num_gates[0]", wanted[0], low=3, high=GATE_LIMIT)
            high = check_int(f"{name}.num_gates[1]", wanted[1], low=3, high=GATE_LIMIT)
            if low > high:
                raise ValueError(f"{name}.num_gates must be ordered, got ({low}, {high})")
            object.__setattr__(self, "num_gates", (low, high))
        else:
            check_int(f"{name}.num_gates", wanted, low=3, high=GATE_LIMIT)
        names = self.spec.family_names(self.settings)
        parts = self.spec.parts_of(self.settings)
        for part, (_, own), (low, high) in zip(names, parts, self.count_ranges, strict=True):
            if low < self.min_gates or high > self.max_gates:
                raise ValueError(
                    f"{name}: {source.format(part)} ask for {low} to {high} gates, outside "
                    f"[min_gates, max_gates] = [{self.min_gates}, {self.max_gates}]"
                )
            sites = getattr(own, "num_sites", None)
            if sites is not None and high > sites:
                raise ValueError(
                    f"{name}: {high} gates need as many sites, but the {part!r} settings "
                    f"have num_sites = {sites}"
                )

    def _check_possible(self, name: str) -> None:
        """Refuse what cannot be: limits that contradict each other, or no room."""
        fewest, most = self.count_range
        sharpest = _bounds(self.max_turn)[0]
        if fewest * (sharpest - 0.5) < 360.0:
            raise ValueError(
                f"{name}.max_turn: {fewest} gates turning at most {sharpest:g} degrees cannot "
                f"close a loop: need max_turn >= {360.0 / fewest + 0.5:.6g}"
            )
        steepest = math.degrees(math.atan(self.max_grade))
        if self.align == "yaw" and self.varies and self.max_incidence < steepest:
            raise ValueError(
                f"{name}.max_incidence = {self.max_incidence:g} degrees contradicts max_grade = "
                f"{self.max_grade:g}: upright gates are flown at up to {steepest:.4g} degrees; "
                "raise it, lower max_grade, or use align='tangent'"
            )
        if self.max_extent is not None:
            width = _bounds(self.gate_width)[0]
            clearance = 0.5 * width if self.clearance is None else self.clearance
            gap = max(width + 2.0 * clearance, self.min_gap)
            ratio = self.max_extent / gap
            limit = 2.0 / math.sqrt(3.0) * ratio**2 + 2.0 * ratio + 1.0
            if most > limit:
                raise ValueError(
                    f"{name}.max_extent: {most} gates at least {gap:g} apart cannot fit in a "
                    f"square of {self.max_extent:g} (at most {math.floor(limit)}; gates are "
                    "placed in plan, so heights do not help)"
                )

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

    @property
    def count_ranges(self) -> list[tuple[int, int]]:
        """Fewest and most gates of a course, by family."""
        ranges = []
        for part, own in self.spec.parts_of(self.settings):
            assert part.anchors is not None
            if self.num_gates is None:
                ranges.append(part.anchors.count_range(own))
            elif isinstance(self.num_gates, tuple):
                ranges.append(self.num_gates)
            else:
                ranges.append((self.num_gates, self.num_gates))
        return ranges

    @property
    def count_range(self) -> tuple[int, int]:
        """Fewest and most gates of a course."""
        fewest, most = zip(*self.count_ranges, strict=True)
        return min(fewest), max(most)

    @property
    def heights(self) -> ElevationSettings:
        """Profile of the heights."""
        return Flat() if self.elevation is None else self.elevation

    @property
    def varies(self) -> bool:
        """Whether heights vary along a course."""
        return not isinstance(self.heights, Flat)

    @property
    def height_grade(self) -> float:
        """Grade that the heights keep."""
        grade = self.heights.max_grade
        return self.max_grade if grade is None else grade

    @property
    def free(self) -> list[bool]:
        """Whether gates may be flown in any order, not only around the centre, by family."""
        sources = [part.anchors for part, _ in self.spec.parts_of(self.settings)]
        return [
            self.ordering == "random"
            or (self.ordering == "sampled" and source is not None and not source.angular)
            for source in sources
        ]

    def knobs(self) -> tuple[Knob, ...]:
        """Knobs in the order of the parameter table."""
        return (GATE_WIDTH, SCALE, MAX_TURN, *self.spec.knobs_of(self.settings))

    def knob_values(self) -> list[Range]:
        """Configured value or range of each knob."""
        own = self.spec.knob_values(self.settings)
        return [self.gate_width, self.scale, self.max_turn, *own]

    def knob_columns(self) -> list[tuple[int, int]]:
        """Draw counter and family (-1 for all) of each knob."""
        return [(0, -1), (1, -1), (_TURN_DRAW, -1), *self.spec.knob_columns(self.settings)]

    def difficulty_ranges(self, difficulty: float) -> dict[str, tuple[float, float]]:
        """Ranges of the parameters that ``GateGenerator.set_difficulty`` writes, by name.

        Args:
            difficulty: Number in [0, 1].

        Raises:
            ValueError: If it is out of bounds.
        """
        turn = _bounds(self.max_turn)
        roomy = max(EASY_TURN, _EASY_TURNING / self.count_range[0])
        ends = {
            "gate_width": narrowing(self.gate_width),
            "max_turn": ((min(turn[0], roomy), min(turn[1], roomy)), turn),
            **self.spec.anchor_difficulty_of(self.settings),
        }
        return difficulty_ranges(f"{type(self).__name__}.difficulty_ranges", ends, difficulty)

    def at_difficulty(self, difficulty: float) -> GateGenConfig:
        """This configuration with the ranges of a difficulty.

        Its courses are those of this configuration after ``set_difficulty``.

        Args:
            difficulty: Number in [0, 1].

        Raises:
            ValueError: If it is out of bounds.
        """
        ranges = self.difficulty_ranges(difficulty)
        return dataclasses.replace(
            self,
            gate_width=ranges.pop("gate_width"),
            max_turn=ranges.pop("max_turn"),
            generator=self.spec.with_ranges(self.settings, ranges),
        )

    def rules(self) -> GateRules:
        """Sizes and limits as a kernel argument."""

        def or_derived(value: float | None) -> float:
            return -1.0 if value is None else value

        rules = GateRules()
        rules.gate_height = or_derived(self.gate_height)
        rules.clearance = or_derived(self.clearance)
        rules.min_gap = self.min_gap
        rules.approach = or_derived(self.approach)
        rules.min_radius = or_derived(self.min_radius)
        rules.max_extent = 0.0 if self.max_extent is None else self.max_extent
        rules.max_grade = self.max_grade
        rules.max_incidence = math.radians(self.max_incidence)
        leans = self.align == "tangent" and self.varies
        rules.lean = math.sin(math.atan(self.height_grade)) if leans else 0.0
        rules.line = LINES.index(self.line)
        rules.samples = LINE_SAMPLES
        rules.sense = -1 if self.ordering == "cw" else 1
        rules.tangent = int(self.align == "tangent")
        return rules
