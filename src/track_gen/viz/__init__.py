"""Pictures of tracks, for a README, a notebook or a look at a batch.

Needs matplotlib, the ``viz`` extra. Figures are built without pyplot: no window, no global state,
so it works without a display and beside the plots of the caller.
"""

from __future__ import annotations

from track_gen.viz.canvas import check_picture_path, reason_text
from track_gen.viz.courses import draw_course, plot_courses
from track_gen.viz.relief import plot_course_relief, plot_elevation, plot_relief
from track_gen.viz.tracks import draw_track, plot_families, plot_tracks
from track_gen.viz.world import plot_world

__all__ = [
    "check_picture_path",
    "draw_course",
    "draw_track",
    "plot_course_relief",
    "plot_courses",
    "plot_elevation",
    "plot_families",
    "plot_relief",
    "plot_tracks",
    "plot_world",
    "reason_text",
]
