"""Tools for the training loop that read a track; see ``docs/runtime``.

The ``@wp.func`` layer for kernels of one's own is :mod:`track_gen.runtime.view` and the functions
exported by the modules of the tools.
"""

from __future__ import annotations

from track_gen.runtime.collision import CollisionChecker
from track_gen.runtime.crossing import GateCrossing
from track_gen.runtime.events import Crossing
from track_gen.runtime.localize import Localizer
from track_gen.runtime.metrics import TrackMetrics
from track_gen.runtime.progress import ProgressTracker
from track_gen.runtime.racing_line import (
    RacingLine,
    SpeedProfile,
    ideal_lap_time,
    speed_profile,
)
from track_gen.runtime.sensors import Sensors
from track_gen.runtime.spawn import Spawner
from track_gen.runtime.view import TrackView, track_view

__all__ = [
    "CollisionChecker",
    "Crossing",
    "GateCrossing",
    "Localizer",
    "ProgressTracker",
    "RacingLine",
    "Sensors",
    "Spawner",
    "SpeedProfile",
    "TrackMetrics",
    "TrackView",
    "ideal_lap_time",
    "speed_profile",
    "track_view",
]
