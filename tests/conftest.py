"""Shared fixtures: devices, families, small generators."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import own_family
from track_gen import (
    GeneratorSpec,
    Hull,
    Library,
    Mixture,
    PerEnvSeededRNG,
    Polar,
    TrackGenConfig,
    TrackGenerator,
    available_generators,
    get_spec,
    register_generator,
)
from track_gen.generators import spec_of

wp.config.quiet = True


def pytest_collection_modifyitems(config, items):
    if wp.is_cuda_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device")
    for item in items:
        if "cuda" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request):
    """Each device in turn; CUDA is skipped where there is none."""
    return request.param


def library_curves() -> list[np.ndarray]:
    """A rounded rectangle, a kidney and an L, at different scales and in both directions."""
    t = np.linspace(0.0, 2.0 * np.pi, 120, endpoint=False)
    kidney = np.c_[np.cos(t) * (1 + 0.3 * np.cos(2 * t)), np.sin(t) * (1 + 0.2 * np.sin(t))]
    rectangle = np.c_[
        3 * np.sign(np.cos(t)) * np.abs(np.cos(t)) ** 0.5,
        np.sign(np.sin(t)) * np.abs(np.sin(t)) ** 0.5,
    ]
    corner = np.array([[0, 0], [2, 0], [2, 1], [1, 1], [1, 2], [0, 2], [0, 0]], dtype=float)
    return [kidney, 100 * rectangle[::-1], corner]


_LIBRARY = Library(curves=library_curves())
_MIXTURE = Mixture([(Hull(), 2), (_LIBRARY, 1), (Polar(), 1), (Hull(displacement=0.3), 1)])


def family(name: str):
    """What to pass as ``TrackGenConfig.generator`` for a family of this name."""
    return {"library": _LIBRARY, "mixture": _MIXTURE}.get(name, name)


def spec(name: str) -> GeneratorSpec:
    """The family of this name."""
    return spec_of(_MIXTURE) if name == "mixture" else get_spec(name)


# The example of a user's own family goes through the contract suite like the built-in ones.
register_generator(own_family.SPEC, replace=True)
FAMILIES = (*available_generators(), "mixture")


def make(num_envs=8, seeds=0, device="cpu", capture=None, **config) -> TrackGenerator:
    """A generator with its RNG; the half width defaults to 0.1."""
    config.setdefault("half_width", 0.1)
    if isinstance(config.get("generator"), str):
        config["generator"] = family(config["generator"])
    cfg = TrackGenConfig(num_envs=num_envs, device=device, **config)
    return TrackGenerator(
        cfg, PerEnvSeededRNG(seeds=seeds, num_envs=num_envs, device=device), capture=capture
    )


def raw_bytes(track, rows=None) -> dict[str, bytes]:
    """Bytes of every array of a track, of some rows."""
    return {
        name: (array if rows is None else array[rows]).tobytes()
        for name, array in track.numpy().items()
    }
