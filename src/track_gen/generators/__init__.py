"""The registry of track families: a dict, filled here and by :func:`register_generator`."""

from __future__ import annotations

from track_gen.checks import suggestion
from track_gen.generators import (
    bezier,
    checkpoint,
    hull,
    library,
    polar,
    repulsive,
    serpentine,
    voronoi,
)
from track_gen.generators.bezier import Bezier
from track_gen.generators.checkpoint import Checkpoint
from track_gen.generators.hull import Hull
from track_gen.generators.library import Library
from track_gen.generators.mixture import Mixture, mixture_spec
from track_gen.generators.polar import Polar
from track_gen.generators.repulsive import Repulsive
from track_gen.generators.serpentine import Serpentine
from track_gen.generators.spec import CurveJob, GeneratorSettings, GeneratorSpec
from track_gen.generators.voronoi import Voronoi

__all__ = [
    "Bezier",
    "Checkpoint",
    "CurveJob",
    "GeneratorSettings",
    "GeneratorSpec",
    "Hull",
    "Library",
    "Mixture",
    "Polar",
    "Repulsive",
    "Serpentine",
    "Voronoi",
    "available_generators",
    "get_spec",
    "register_generator",
    "spec_of",
]

_REGISTRY: dict[str, GeneratorSpec] = {
    module.SPEC.name: module.SPEC
    for module in (bezier, checkpoint, hull, library, polar, repulsive, serpentine, voronoi)
}


def available_generators() -> tuple[str, ...]:
    """Names of all families, sorted."""
    return tuple(sorted(_REGISTRY))


def get_spec(name: str) -> GeneratorSpec:
    """The family of this name.

    Raises:
        ValueError: If there is none, with a suggestion for a near miss.
    """
    if name not in _REGISTRY:
        known = available_generators()
        raise ValueError(
            f"unknown generator {name!r}; available: {', '.join(known)}.{suggestion(name, known)}"
        )
    return _REGISTRY[name]


def spec_of(settings: GeneratorSettings) -> GeneratorSpec:
    """The family that a settings object belongs to; a mixture's is made of its parts'.

    Raises:
        ValueError: If its class is not registered.
    """
    if isinstance(settings, Mixture):
        return mixture_spec(settings, [spec_of(part) for part in settings.settings])
    for spec in _REGISTRY.values():
        if type(settings) is spec.settings:
            return spec
    raise ValueError(
        f"no generator is registered for {type(settings).__name__} settings; see register_generator"
    )


def register_generator(spec: GeneratorSpec, replace: bool = False) -> None:
    """Add a family of your own; it then works by name and by settings object like the others.

    ``spec.launches(settings, job)`` prepares the launches that write ``job.curve`` and
    ``job.curve_count`` (see :class:`CurveJob`), each of ``dim=(E, lanes)`` with one block per env,
    made by ``track_gen.block.block_launch``. A kernel leaves rows alone whose ``pending`` is false,
    draws through ``track_gen.rng`` with a stream number of its own (1000 and above are free), and
    reaches every barrier with all lanes.

    Args:
        spec: The family.
        replace: Whether a family of the same name may be replaced.

    Raises:
        ValueError: If the name or the settings class is taken.
        TypeError: If ``spec`` is not a GeneratorSpec.
    """
    if not isinstance(spec, GeneratorSpec):
        raise TypeError(f"register_generator needs a GeneratorSpec, got {type(spec).__name__}")
    if spec.name in _REGISTRY and not replace:
        raise ValueError(f"generator {spec.name!r} is registered already; pass replace=True")
    for other in _REGISTRY.values():
        if other.settings is spec.settings and other.name != spec.name:
            raise ValueError(
                f"settings {spec.settings.__name__} belong to generator {other.name!r}"
            )
    _REGISTRY[spec.name] = spec
