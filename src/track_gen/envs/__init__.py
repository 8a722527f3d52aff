"""Gymnasium vector environment on generated tracks: importing this registers ``TrackGen-Race-v0``.

``gymnasium.make_vec("TrackGen-Race-v0", num_envs=...)`` makes a :class:`RaceVectorEnv`; there is no
single environment behind it, so ``gymnasium.make`` does not apply. The adapter for
Stable-Baselines3 is :class:`track_gen.envs.sb3.RaceVecEnv`.
"""

# pyright: basic
from __future__ import annotations

try:
    import gymnasium
except ImportError as error:
    raise ImportError("track_gen.envs needs gymnasium: pip install 'track-gen[envs]'") from error

from track_gen.envs.levels import LevelInfo
from track_gen.envs.race import LOOK_AHEAD, RaceVectorEnv
from track_gen.envs.vehicle import Vehicle, VehicleParameters, drive

__all__ = [
    "LOOK_AHEAD",
    "LevelInfo",
    "RaceVectorEnv",
    "Vehicle",
    "VehicleParameters",
    "drive",
]

if "TrackGen-Race-v0" not in gymnasium.registry:
    gymnasium.register(
        id="TrackGen-Race-v0", vector_entry_point="track_gen.envs.race:RaceVectorEnv"
    )
