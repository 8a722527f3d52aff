"""Thousands of closed race tracks per call, one per RL environment, on NVIDIA Warp."""

from __future__ import annotations

from track_gen.batch import EnvTrack, Track
from track_gen.config import TrackGenConfig
from track_gen.course_line import CourseLine
from track_gen.elevation import Flat, Noise, RandomWalk, Uniform
from track_gen.gate_batch import EnvGates, GateSequence
from track_gen.gate_config import GateGenConfig
from track_gen.gate_generator import GateGenerator
from track_gen.generators import (
    Bezier,
    Checkpoint,
    GeneratorSettings,
    GeneratorSpec,
    Hull,
    Library,
    Mixture,
    Polar,
    Repulsive,
    Serpentine,
    Voronoi,
    available_generators,
    get_spec,
    register_generator,
)
from track_gen.height_field import HeightField
from track_gen.kernel_cache import ensure_writable_kernel_cache
from track_gen.placement import grid_origins
from track_gen.report import GenerationReport
from track_gen.rng import PerEnvSeededRNG
from track_gen.status import GateStatus, TrackStatus
from track_gen.track_generator import TrackGenerator

__version__ = "0.1.0"

ensure_writable_kernel_cache()

__all__ = [
    "Bezier",
    "Checkpoint",
    "CourseLine",
    "EnvGates",
    "EnvTrack",
    "Flat",
    "GateGenConfig",
    "GateGenerator",
    "GateSequence",
    "GateStatus",
    "GenerationReport",
    "GeneratorSettings",
    "GeneratorSpec",
    "HeightField",
    "Hull",
    "Library",
    "Mixture",
    "Noise",
    "PerEnvSeededRNG",
    "Polar",
    "RandomWalk",
    "Repulsive",
    "Serpentine",
    "Track",
    "TrackGenConfig",
    "TrackGenerator",
    "TrackStatus",
    "Uniform",
    "Voronoi",
    "__version__",
    "available_generators",
    "get_spec",
    "grid_origins",
    "register_generator",
]
