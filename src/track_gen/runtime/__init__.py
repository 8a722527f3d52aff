"""Tools for the training loop that read a track; see ``docs/runtime``."""

from __future__ import annotations

from track_gen.runtime.localize import Localizer
from track_gen.runtime.progress import ProgressTracker
from track_gen.runtime.view import TrackView, track_view

__all__ = ["Localizer", "ProgressTracker", "TrackView", "track_view"]
