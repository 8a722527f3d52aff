"""Corner sampling and ordering, seen through the scratch of the families that use them."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from curve_job import SEEDS, run_job

from track_gen.generators import bezier, hull
from track_gen.generators.bezier import Bezier
from track_gen.generators.hull import Hull
from track_gen.rng import Stream, philox_numpy, seeds_from_int

SPECS = {Bezier: bezier.SPEC, Hull: hull.SPEC}
STREAMS = {Bezier: Stream.BEZIER_CORNERS, Hull: Stream.HULL_CORNERS}
FAMILIES = pytest.mark.parametrize("family", [Bezier, Hull], ids=["bezier", "hull"])


def corners_of(settings, seeds=SEEDS, **options):
    """Unsorted and sorted corners of every row."""
    job = run_job(SPECS[type(settings)], settings, seeds, **options)
    edges = 64 if settings.max_corners <= 16 else 32
    per_corner = edges if isinstance(settings, Bezier) else 64
    counts = job.curve_count.numpy() // per_corner
    placed, corners = job.scratch["placed"].numpy(), job.scratch["corners"].numpy()
    return (
        [row[:n].astype(np.float64) for row, n in zip(placed, counts, strict=True)],
        [row[:n].astype(np.float64) for row, n in zip(corners, counts, strict=True)],
    )


def edges_of(settings, grid):
    """Cell boundaries along one axis."""
    x = 2.0 * np.arange(grid + 1) / grid - 1.0
    return 0.5 * settings.side * x * (settings.focus + (1.0 - settings.focus) * x * x)


def cells_of(settings, seed, episode=0, attempt=0, grid=8):
    """Cells by the host: the same draws, Floyd's sampling with a set."""

    def words(draw):
        key = (np.uint32(np.int64(seed) & 0xFFFFFFFF), episode)
        return [int(w) for w in philox_numpy(key, (draw, int(STREAMS[type(settings)]), attempt, 0))]

    low, high = settings.min_corners, settings.max_corners
    count = low + (words(0)[0] * (high - low + 1) >> 32)
    used: list[int] = []
    for i in range(count):
        last = grid * grid - count + i
        cell = words(1 + i // 4)[i % 4] * (last + 1) >> 32
        used.append(last if cell in used else cell)
    return used


@FAMILIES
def test_each_corner_lies_in_the_cell_that_was_drawn_for_it(family):
    settings = family()
    edges = edges_of(settings, 8)
    placed, _ = corners_of(settings, attempt=2, episode=3)
    for seed, points in zip(SEEDS, placed, strict=True):
        column, row = (np.searchsorted(edges, points[:, axis]) - 1 for axis in (0, 1))
        assert (row * 8 + column).tolist() == cells_of(settings, seed, episode=3, attempt=2)


@pytest.mark.parametrize(
    ("family", "digest"), [(Bezier, "e41180f05d408476"), (Hull, "1c01e56d139bd7e5")]
)
def test_golden_cells(family, digest):
    """A change of these cells changes every track: raise ``seed_version``."""
    settings = family()
    edges = edges_of(settings, 8)
    placed, _ = corners_of(settings, np.arange(-8, 8, dtype=np.int32))
    cells = [np.searchsorted(edges, points) - 1 for points in placed]
    text = repr([cell.tolist() for cell in cells]).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == digest


@FAMILIES
@pytest.mark.parametrize(
    ("counts", "distance"),
    [((9, 13), 0.05), ((9, 13), 0.0), ((3, 3), 0.5), ((16, 16), 0.25), ((64, 64), 0.14)],
)
def test_corners_keep_their_distance(family, counts, distance):
    settings = family(min_corners=counts[0], max_corners=counts[1], min_corner_distance=distance)
    placed, _ = corners_of(settings)
    closest = math.inf
    for points in placed:
        assert counts[0] <= len(points) <= counts[1]
        assert np.abs(points).max() <= settings.side / 2
        gaps = np.linalg.norm(points[:, None] - points[None], axis=-1)
        closest = min(closest, gaps[np.triu_indices(len(points), 1)].min())
    assert closest >= distance * (1.0 - 1e-5)
    # The promise is near its bound, so a weaker placement would break it.
    assert closest < max(3.0 * distance, 0.2)


@FAMILIES
def test_distance_is_drawn_per_env(family):
    far = np.linspace(0.0, 0.3, len(SEEDS)).astype(np.float32)
    placed, _ = corners_of(family(), knobs={"min_corner_distance": far})
    for points, distance in zip(placed, far, strict=True):
        gaps = np.linalg.norm(points[:, None] - points[None], axis=-1)
        assert gaps[np.triu_indices(len(points), 1)].min() >= distance * (1.0 - 1e-5)


@FAMILIES
def test_corners_are_sorted_by_angle_around_their_centroid(family):
    placed, corners = corners_of(family(min_corners=3, max_corners=40))
    for points, ordered in zip(placed, corners, strict=True):
        assert sorted(points.tolist()) == sorted(ordered.tolist())
        away = ordered - ordered.mean(axis=0)
        angle = np.arctan2(away[:, 1], away[:, 0])
        assert (np.diff(angle) >= -1e-6).all()


@FAMILIES
def test_corner_number_is_uniform(family):
    placed, _ = corners_of(family(), seeds_from_int(3, 1000))
    counts = np.bincount([len(points) for points in placed], minlength=14)[9:14]
    assert counts.sum() == 1000
    assert (np.abs(counts - 200) < 60).all()


@FAMILIES
@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"min_corners": 2}, ValueError, r"min_corners must be in \[3, 64\], got 2"),
        ({"max_corners": 65}, ValueError, r"max_corners must be in \[3, 64\], got 65"),
        ({"min_corners": 14}, ValueError, "min_corners must be <= max_corners, got 14 > 13"),
        ({"min_corners": 9.0}, TypeError, "min_corners must be an int"),
        ({"max_corners": True}, TypeError, "max_corners must be an int"),
        ({"min_corner_distance": 0.5}, ValueError, "max_corners = 13 corners fit"),
        ({"min_corner_distance": (0.0, 0.5)}, ValueError, "max_corners = 13 corners fit"),
        ({"min_corner_distance": -0.1}, ValueError, "min_corner_distance must be in"),
        ({"min_corner_distance": math.nan}, ValueError, "min_corner_distance must be in"),
        ({"min_corner_distance": (0.2, 0.1)}, ValueError, "must be ordered"),
    ],
)
def test_bad_settings_are_errors(family, options, error, text):
    with pytest.raises(error, match=f"^{family.__name__}.*{text}"):
        family(**options)
