"""Height maps: the road's own surface on the road, continuous everywhere."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from hills import LINES, make

from track_gen import HeightField, Noise


@pytest.fixture(scope="module")
def track():
    return make(2, Noise(banking=12.0), half_width=0.08).generate()


def bilinear(heights, origin, cell, points):
    """Bilinear interpolation of one grid at plan points, in float64."""
    q = (points - origin) / cell
    i = np.clip(np.floor(q).astype(int), 0, len(heights) - 2)
    fx, fy = (q - i).T
    x, y = i.T
    h = heights.astype(np.float64)
    low = h[y, x] * (1 - fx) + h[y, x + 1] * fx
    high = h[y + 1, x] * (1 - fx) + h[y + 1, x + 1] * fx
    return low * (1 - fy) + high * fy


def at_points(track, env, points):
    """The surface itself: a fine grid of one sample spacing about each point's place."""
    return np.array([sample(track, env, p) for p in points])


def sample(track, env, point):
    """Height exactly at a plan point: a 2 x 2 grid with that corner."""
    from track_gen.height_field import height_kernel

    origin = np.zeros((track.num_envs, 2), np.float32)
    origin[env] = point
    out = wp.zeros((track.num_envs, 1, 1), dtype=wp.float32, device="cpu")
    wp.launch(
        height_kernel,
        dim=out.shape,
        inputs=[
            track.outer, track.inner, track.half_width, track.winding, track.count,
            wp.array(origin, dtype=wp.vec2f, device="cpu"),
            wp.zeros(track.num_envs, dtype=wp.float32, device="cpu"),
        ],
        outputs=[out],
        device="cpu",
    )  # fmt: skip
    return float(out.numpy()[env, 0, 0])


def test_equals_the_road_on_all_three_lines(track):
    for env in range(track.num_envs):
        one = track.env(env)
        for line in LINES:
            points = getattr(one, line).astype(np.float64)
            middles = 0.5 * (points + np.roll(points, -1, axis=0))
            for part in (points[::3], middles[::3]):
                found = at_points(track, env, part[:, :2])
                np.testing.assert_allclose(found, part[:, 2], atol=2e-6)


def test_grid_under_the_centreline_is_within_a_cell_of_slope(track):
    field = HeightField(track, 257)
    for env in range(track.num_envs):
        center = track.env(env).center.astype(np.float64)
        heights, cell = field.heights.numpy()[env], field.cell.numpy()[env]
        found = bilinear(heights, field.origin.numpy()[env], cell, center[:, :2])
        steepest = 0.15 + np.tan(np.radians(12.0))
        assert np.abs(found - center[:, 2]).max() <= np.sqrt(2) * steepest * cell
        assert np.abs(found - center[:, 2]).max() <= 0.05 * cell


def test_continuous_on_and_off_the_road(track):
    """The largest step between neighbours halves with the cell: there is no cliff."""
    steps = []
    for resolution in (257, 513, 1025):
        heights = HeightField(track, resolution).heights.numpy()
        assert np.isfinite(heights).all()
        steps.append([max(np.abs(np.diff(h, axis=k)).max() for k in (0, 1)) for h in heights])
    coarse, middle, fine = np.array(steps)
    assert (middle < 0.8 * coarse).all() and (fine < 0.6 * middle).all()
    for env in range(track.num_envs):
        borders = np.concatenate([track.env(env).outer[:, 2], track.env(env).inner[:, 2]])
        assert borders.min() - 1e-6 <= heights[env].min()
        assert heights[env].max() <= borders.max() + 1e-6


def test_update_follows_the_generator_and_can_be_captured():
    generator = make(3, Noise())
    generator.generate()
    field = HeightField(generator.track, 33, extent=2.5)
    address, before = field.heights.ptr, field.heights.numpy().copy()
    np.testing.assert_allclose(field.cell.numpy(), 2.5 / 32)
    with wp.ScopedCapture(device="cpu") as capture:
        field.update()
    generator.rng.advance()
    generator.generate()
    wp.capture_launch(capture.graph)
    after = field.heights.numpy().copy()
    assert field.heights.ptr == address and (after != before).any()
    np.testing.assert_array_equal(HeightField(generator.track, 33, extent=2.5).heights, after)


def test_rows_without_a_road_are_nan():
    generator = make(2, Noise())
    field = HeightField(generator.track, 9)
    assert np.isnan(field.heights.numpy()).all() and np.isnan(field.cell.numpy()).all()


def test_arguments_are_checked(track):
    with pytest.raises(TypeError, match="HeightField needs a Track, got list"):
        HeightField([])
    with pytest.raises(ValueError, match=r"HeightField.resolution must be in \[2, 4096\], got 1"):
        HeightField(track, 1)
    with pytest.raises(ValueError, match=r"HeightField.extent must be finite and > 0, got 0"):
        HeightField(track, extent=0.0)
