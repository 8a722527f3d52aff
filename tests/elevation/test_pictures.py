"""The elevation strip and the relief."""

from __future__ import annotations

import numpy as np
import pytest
from hills import make

from track_gen import Noise, viz
from track_gen.batch import Track


@pytest.fixture(scope="module")
def track():
    return make(2, Noise(banking=10.0)).generate()


def test_strip_shows_heights_and_grades(track, tmp_path):
    path = tmp_path / "strip.png"
    figure = viz.plot_elevation(track, 1, max_grade=0.15, path=path, title="hills")
    heights, grades = figure.axes
    one = track.env(1)
    center = next(line for line in heights.lines if line.get_label() == "center")
    np.testing.assert_array_equal(center.get_ydata()[:-1], one.center[:, 2])
    np.testing.assert_array_equal(center.get_xdata()[:-1], one.arclen)
    steepest = max(np.abs(steps.get_data().values).max() for steps in grades.patches)
    assert 0.0 < steepest <= 15.0
    assert path.stat().st_size > 5000


def test_relief_is_drawn_once_per_env(track, tmp_path):
    path = tmp_path / "relief.png"
    figure = viz.plot_relief(track, (0, 1), path=path)
    assert len(figure.axes) == 2
    assert all(len(axes.collections) == 1 for axes in figure.axes)
    assert path.stat().st_size > 5000


def test_flat_roads_can_be_drawn():
    flat = make(1, None).generate()
    assert viz.plot_elevation(flat) and viz.plot_relief(flat)


def test_errors(track):
    empty = Track.allocate(1, 16, "cpu")
    with pytest.raises(
        ValueError, match=r"plot_elevation\(env\): env 0 has no road: not generated"
    ):
        viz.plot_elevation(empty)
    with pytest.raises(ValueError, match=r"plot_relief\(envs\) must name at least one env"):
        viz.plot_relief(track, ())
    with pytest.raises(ValueError, match=r"plot_relief\(exaggeration\) must be finite and > 0"):
        viz.plot_relief(track, exaggeration=0.0)
    with pytest.raises(IndexError):
        viz.plot_elevation(track, 2)
