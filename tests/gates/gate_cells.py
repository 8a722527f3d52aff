"""The settings that every family must do well at, and small generators."""

from __future__ import annotations

from track_gen import GateGenConfig, GateGenerator, PerEnvSeededRNG, Uniform

FAMILIES = ("bezier", "hull", "polar", "voronoi", "checkpoint")

BASE = {"num_gates": (8, 13)}
CELLS = {
    "base": BASE,
    "unit": {**BASE, "gate_width": 1.2 / 17, "clearance": 0.6 / 17, "scale": 1.0},
    "wide": {**BASE, "gate_width": 4.0, "gate_height": 2.0, "clearance": 1.0, "min_radius": 3.0},
    "climb": {
        **BASE,
        "elevation": Uniform(low=1.5, high=6.0),
        "max_grade": 0.15,
        "align": "tangent",
    },
    "hill": {
        **BASE,
        "elevation": Uniform(low=1.5, high=9.0),
        "max_grade": 0.6,
        "align": "tangent",
    },
    "small": {**BASE, "gate_width": 0.4, "clearance": 0.1, "scale": 1.0},
    "arena": {**BASE, "max_extent": 22.0},
    "few": {"num_gates": (4, 7)},
    "many": {"num_gates": 32},
}


def make_gates(num_envs=8, seeds=0, device="cpu", capture=None, **settings) -> GateGenerator:
    """A gate generator with its RNG; 8 to 13 gates by default."""
    settings.setdefault("num_gates", (8, 13))
    config = GateGenConfig(num_envs=num_envs, device=device, **settings)
    rng = PerEnvSeededRNG(seeds=seeds, num_envs=num_envs, device=device)
    return GateGenerator(config, rng, capture=capture)


def courses(gates):
    """One dictionary of arrays per env."""
    arrays = gates.numpy()
    for env in range(gates.num_envs):
        yield {name: array[env] for name, array in arrays.items()}
