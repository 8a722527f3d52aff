"""Mixture: each env draws its family by weight, anew for each (seed, episode).

Every part runs its own launches over all rows, with a mask of the envs that drew it; everything
after the curve is shared. The knobs of all parts lie side by side in one parameter table, named
"bezier.rad", and so do the weights, named "bezier.weight". A knob draws with the counter that it
has in its own family, so an env gets the very track that its family alone would make of the seed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import warp as wp

from track_gen.block import block_launch
from track_gen.checks import check_range
from track_gen.generators.spec import (
    AnchorJob,
    Command,
    CurveJob,
    GeneratorSettings,
    GeneratorSpec,
)
from track_gen.parameters import Knob, Range

__all__ = ["MAX_PARTS", "Mixture", "mixture_spec"]

wp.set_module_options({"enable_backward": False})

Job = TypeVar("Job", CurveJob, AnchorJob)

MAX_PARTS = 16
"""Largest number of parts: a bit each says how a part gets its size."""

_FIRST_WEIGHT_DRAW = 1 << 20
"""Draw counters of weights start far beyond those of any knob."""


@dataclass(frozen=True)
class Mixture(GeneratorSettings):
    """Several families in one batch, drawn per env by weight.

    ``Mixture({Bezier(): 3, Polar(): 1})`` gives three beziers for one polar on average. One family
    may appear several times with different settings: ``Mixture([(Bezier(rad=0.2), 1), (Bezier(rad=
    0.8), 1)])`` calls them "bezier" and "bezier_2".
    """

    parts: Any
    """A dictionary from settings to weights, or (settings, weight) pairs. A weight is a number >= 0
    or a ``(low, high)`` pair drawn per env. Held as a tuple of pairs."""

    def __post_init__(self) -> None:
        given = self.parts.items() if isinstance(self.parts, Mapping) else self.parts
        if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
            raise TypeError(
                "Mixture.parts must be a dictionary from settings to weights or (settings, weight) "
                f"pairs, got {type(self.parts).__name__}"
            )
        parts: list[tuple[GeneratorSettings, Range]] = []
        for i, item in enumerate(given):
            if not isinstance(item, (tuple, list)) or len(item) != 2:
                raise TypeError(
                    f"Mixture.parts[{i}] must be a (settings, weight) pair, got {item!r}"
                )
            settings, weight = item
            if isinstance(settings, Mixture) or not isinstance(settings, GeneratorSettings):
                raise TypeError(
                    f"Mixture.parts[{i}] must start with the settings of a family, such as "
                    f"Bezier(), got {settings!r} ({type(settings).__name__})"
                )
            owner = f"Mixture.parts[{i}] weight of {type(settings).__name__}"
            parts.append((settings, check_range(owner, weight, 0.0)))
        if not 1 <= len(parts) <= MAX_PARTS:
            raise ValueError(f"Mixture.parts must have 1 to {MAX_PARTS} parts, got {len(parts)}")
        if not any((w[1] if isinstance(w, tuple) else w) > 0.0 for _, w in parts):
            raise ValueError("Mixture.parts must have a weight > 0, got none")
        object.__setattr__(self, "parts", tuple(parts))

    @property
    def settings(self) -> tuple[GeneratorSettings, ...]:
        """Settings of the parts, by the index in ``Track.family``."""
        return tuple(settings for settings, _ in self.parts)


@wp.kernel
def split_pending_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    family_in: wp.array[wp.int32],
    # Out:
    part_pending_out: wp.array2d[wp.bool],
):
    """Hand each pending env to its family. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    if thread != 0:
        return
    for part in range(part_pending_out.shape[1]):
        part_pending_out[env, part] = pending_in[env] and family_in[env] == part


@dataclass(frozen=True, kw_only=True)
class MixtureSpec(GeneratorSpec):
    """The family of one mixture: what its parts are, seen as one."""

    parts: tuple[GeneratorSpec, ...]
    """The families of the parts."""

    def parts_of(self, settings: Mixture) -> list[tuple[GeneratorSpec, GeneratorSettings]]:
        """Families of the parts and their settings."""
        return list(zip(self.parts, settings.settings, strict=True))

    def family_names(self, settings: Mixture) -> tuple[str, ...]:
        """Names of the parts; a repeated family gets a number."""
        names: list[str] = []
        for spec in self.parts:
            name, number = spec.name, 2
            while name in names:
                name, number = f"{spec.name}_{number}", number + 1
            names.append(name)
        return tuple(names)

    def knobs_of(self, settings: Mixture) -> tuple[Knob, ...]:
        """Knobs of all parts with their names in front, then the weights."""
        names = self.family_names(settings)
        knobs = [
            dataclasses.replace(knob, name=f"{name}.{knob.name}")
            for name, (spec, own) in zip(names, self.parts_of(settings), strict=True)
            for knob in spec.knobs_of(own)
        ]
        return (*knobs, *(Knob(f"{name}.weight", 0.0, math.inf) for name in names))

    def knob_values(self, settings: Mixture) -> list[Range]:
        """Configured values of all parts, then the weights."""
        values = [v for spec, own in self.parts_of(settings) for v in spec.knob_values(own)]
        return [*values, *(weight for _, weight in settings.parts)]

    def knob_columns(self, settings: Mixture) -> list[tuple[int, int]]:
        """Draw counters as in each family alone, and the part that a column belongs to."""
        columns = [
            (draw, part)
            for part, (spec, own) in enumerate(self.parts_of(settings))
            for draw, _ in spec.knob_columns(own)
        ]
        return [*columns, *((_FIRST_WEIGHT_DRAW + k, -1) for k in range(len(self.parts)))]

    def difficulty_of(self, settings: Mixture) -> dict[str, tuple[Range, Range]]:
        """Ranges of all parts with their names in front."""
        return self._named(settings, [s.difficulty_of(own) for s, own in self.parts_of(settings)])

    def anchor_difficulty_of(self, settings: Mixture) -> dict[str, tuple[Range, Range]]:
        """The same for gate courses."""
        ranges = [s.anchor_difficulty_of(own) for s, own in self.parts_of(settings)]
        return self._named(settings, ranges)

    def _named(
        self, settings: Mixture, ranges: list[dict[str, tuple[Range, Range]]]
    ) -> dict[str, tuple[Range, Range]]:
        return {
            f"{name}.{knob}": ends
            for name, own in zip(self.family_names(settings), ranges, strict=True)
            for knob, ends in own.items()
        }

    def with_ranges(self, settings: Mixture, ranges: Mapping[str, Range]) -> Mixture:
        """Mixture whose parts have other values of some knobs, by name in the table."""
        parts = []
        names = self.family_names(settings)
        for name, spec, (own, weight) in zip(names, self.parts, settings.parts, strict=True):
            inner = {
                key.removeprefix(f"{name}."): value
                for key, value in ranges.items()
                if key.startswith(f"{name}.")
            }
            parts.append((spec.with_ranges(own, inner), weight))
        return Mixture(parts)

    def num_weights(self, settings: Mixture) -> int:
        """One per part."""
        return len(self.parts)

    def job_scratch(self, settings: Mixture, arrays: list[dict[str, wp.array]]) -> dict[str, Any]:
        """Scratch of the parts by name."""
        return dict(zip(self.family_names(settings), arrays, strict=True))

    def part_jobs(self, settings: Mixture, job: Job) -> list[Job]:
        """The job of each part: its envs, its scratch, its knobs."""
        assert job.part_pending is not None
        jobs = []
        first_knob = job.first_knob
        names = self.family_names(settings)
        for k, (part, own) in enumerate(self.parts_of(settings)):
            changes: dict[str, Any] = {
                "pending": job.part_pending[:, k],
                "scratch": job.scratch[names[k]],
                "first_knob": first_knob,
                "family": None,
                "part_pending": None,
            }
            jobs.append(dataclasses.replace(job, **changes))
            first_knob += len(part.knobs_of(own))
        return jobs

    def anchor_launches(self, settings: Mixture, job: AnchorJob) -> list[wp.Launch]:
        """Prepare the launches of all parts' anchors; runs nothing.

        Raises:
            ValueError: If a part has no anchors.
        """
        launches = [_split_pending(job)]
        parts = zip(self.parts_of(settings), self.part_jobs(settings, job), strict=True)
        for (part, own), part_job in parts:
            launches.extend(part.anchor_launches(own, part_job))
        return launches


def _split_pending(job: CurveJob | AnchorJob) -> wp.Launch:
    assert job.family is not None and job.part_pending is not None
    return block_launch(
        split_pending_kernel,
        job.num_envs,
        job.lanes,
        inputs=[job.pending, job.family],
        outputs=[job.part_pending],
        device=job.device,
    )


def _launches(settings: Mixture, job: CurveJob, spec: MixtureSpec) -> list[Command]:
    launches: list[Command] = [_split_pending(job)]
    parts = zip(spec.parts_of(settings), spec.part_jobs(settings, job), strict=True)
    for (part, own), part_job in parts:
        launches.extend(part.launches(own, part_job))
    return launches


def mixture_spec(settings: Mixture, parts: Sequence[GeneratorSpec]) -> MixtureSpec:
    """The family of a mixture.

    Args:
        settings: The mixture.
        parts: Family of each part.
    """
    specs = tuple(parts)
    spec = MixtureSpec(
        name="mixture of " + ", ".join(dict.fromkeys(part.name for part in specs)),
        settings=Mixture,
        launches=lambda settings, job: _launches(settings, job, spec),
        curve_size=lambda settings: max(
            part.curve_size(own) for part, own in zip(specs, settings.settings, strict=True)
        ),
        capturable=all(part.capturable for part in specs),
        typical_length=lambda settings: max(
            part.typical_length(own) for part, own in zip(specs, settings.settings, strict=True)
        ),
        seed_version=sum(part.seed_version for part in specs),
        parts=specs,
    )
    return spec
