"""Pictures: what is drawn, how invalid tracks show, and the errors."""

import builtins

import numpy as np
import pytest
import warp as wp

from track_gen import GateGenConfig, GateGenerator, PerEnvSeededRNG, grid_origins, viz
from track_gen.batch import Track
from track_gen.status import TrackStatus

N = 60
HALF_WIDTH = 0.1


@pytest.fixture
def circles() -> Track:
    """Four unit circles: two valid, a border fault, and an overflow without points."""
    track = Track.allocate(4, 64, "cpu")
    arrays = {name: array.numpy() for name, array in track.arrays().items()}
    angle = 2.0 * np.pi * np.arange(N) / N
    radial = np.stack([np.cos(angle), np.sin(angle), np.zeros(N)], axis=1)
    for env in range(3):
        arrays["center"][env, :N] = radial
        arrays["outer"][env, :N] = (1.0 + HALF_WIDTH) * radial
        arrays["inner"][env, :N] = (1.0 - HALF_WIDTH) * radial
        arrays["tangent"][env, :N] = np.stack([-radial[:, 1], radial[:, 0], 0 * angle], axis=1)
        arrays["normal"][env, :N] = -radial
        arrays["length"][env] = 2.0 * np.pi
        arrays["winding"][env] = 1
        arrays["count"][env] = N
    arrays["half_width"][:] = HALF_WIDTH
    arrays["status"][:] = [0, 0, TrackStatus.BORDER | TrackStatus.TURNING, TrackStatus.OVERFLOW]
    arrays["valid"][:] = arrays["status"] == 0
    return track


def pixels(figure) -> np.ndarray:
    """RGB image of a figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].astype(int)


def texts(figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_road_is_filled_and_its_inside_is_not(circles):
    figure = viz.plot_tracks(circles, envs=[0])
    image = pixels(figure)
    (axes,) = figure.axes

    def color_at(x, y):
        column, row = axes.transData.transform((x, y))
        return image[image.shape[0] - 1 - round(row), round(column)]

    asphalt = np.array([0x33, 0x37, 0x3D])
    paper = np.array([0xF7, 0xF6, 0xF2])
    for angle in np.linspace(1.0, 6.0, 9):
        road = 1.05 * np.array([np.cos(angle), np.sin(angle)])
        np.testing.assert_allclose(color_at(*road), asphalt, atol=2)
    np.testing.assert_allclose(color_at(0.0, 0.0), paper, atol=2)
    np.testing.assert_allclose(color_at(1.12, 0.3), paper, atol=2)


def test_start_line_and_arrow_point_along_travel(circles):
    from matplotlib.patches import Polygon

    figure = viz.plot_tracks(circles, envs=[0])
    bar, arrow = (patch.get_xy() for patch in figure.axes[0].patches if isinstance(patch, Polygon))
    np.testing.assert_allclose(
        bar[[0, 1]], [[1.0 - HALF_WIDTH, 0.0], [1.0 + HALF_WIDTH, 0.0]], atol=1e-6
    )
    assert arrow[0, 1] > arrow[1, 1] > 0.0  # travel is +y at the start of the circle
    np.testing.assert_allclose(arrow[0, 0], 1.0, atol=1e-6)


def test_invalid_tracks_carry_their_reasons_and_another_color(circles):
    figure = viz.plot_tracks(circles)
    assert texts(figure) == ["env 2: turning, border", "env 3: overflow"]
    roads = [axes.patches[0].get_facecolor() for axes in figure.axes if axes.patches]
    assert len(roads) == 3
    assert roads[0] == roads[1] != roads[2]


def test_grid_shape_order_and_title(circles):
    figure = viz.plot_tracks(circles, envs=[3, 0, 1], columns=2, title="three")
    assert len(figure.axes) == 4
    assert texts(figure) == ["env 3: overflow"]
    assert not figure.axes[0].patches and figure.axes[1].patches and not figure.axes[3].patches
    assert [text.get_text() for text in figure.texts] == ["three"]


def test_shared_scale_shows_sizes(circles):
    for name in ("center", "outer", "inner"):
        array = getattr(circles, name).numpy()
        array[1] *= 0.5
    widths = [np.ptp(a.get_xlim()) for a in viz.plot_tracks(circles, envs=[0, 1]).axes]
    assert widths[1] == pytest.approx(0.5 * widths[0])
    widths = [
        np.ptp(a.get_xlim()) for a in viz.plot_tracks(circles, envs=[0, 1], shared_scale=True).axes
    ]
    assert widths[1] == pytest.approx(widths[0])


def test_a_world_shows_each_track_at_its_origin(circles):
    places = np.array([[0.0, 0.0, 0.0], [5.0, 1.0, 9.0], [0.0, 5.0, 0.0], [5.0, 5.0, 0.0]])
    figure = viz.plot_world(circles, places, labels=True, title="world")
    (axes,) = figure.axes
    roads, centerlines, starts, arrows = axes.collections
    boxes = [path.get_extents() for path in roads.get_paths()]
    middles = [(0.5 * (b.x0 + b.x1), 0.5 * (b.y0 + b.y1)) for b in boxes]
    np.testing.assert_allclose(middles, places[:3, :2], atol=0.01)  # the overflow has no road
    np.testing.assert_allclose(boxes[1].width, 2.0 * (1.0 + HALF_WIDTH), atol=0.01)
    edges, faces = roads.get_edgecolor(), roads.get_facecolor()
    assert (edges[0] == edges[1]).all() and (edges[0] != edges[2]).any()
    assert (faces[0] == faces[1]).all() and (faces[0] != faces[2]).any()
    assert (
        len(centerlines.get_segments()) == len(starts.get_paths()) == len(arrows.get_paths()) == 3
    )
    assert texts(figure) == ["0", "1", "2", "3"]
    assert figure.get_suptitle() == "world"
    x, y = axes.get_xlim(), axes.get_ylim()
    assert x[0] < -1.1 and x[1] > 6.1 and y[0] < -1.1 and y[1] > 6.1
    image = pixels(figure)
    column, row = axes.transData.transform((5.0, 2.0))
    dark = image[image.shape[0] - 1 - round(row), round(column)]
    assert dark.max() < 0xE0 and (np.ptp(dark) < 20)  # asphalt or its dashes, at env 1's top


def test_a_world_of_some_envs_in_given_axes(circles, tmp_path):
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.add_subplot()
    places = grid_origins(4, 3.0, "cpu")
    path = tmp_path / "world.png"
    assert viz.plot_world(circles, places, envs=[1], axes=axes, path=path, title="one") is figure
    assert len(axes.collections[0].get_paths()) == 1 and axes.get_title() == "one"
    assert path.stat().st_size > 2000
    # Envs without a road, and origins that are not finite, leave a world without them.
    assert viz.plot_world(circles, places, envs=[3]).axes[0].collections[0].get_paths() == []
    nowhere = wp.full(4, wp.vec3f(np.nan, np.nan, np.nan), dtype=wp.vec3f, device="cpu")
    empty = viz.plot_world(circles, nowhere, labels=True)
    assert empty.axes[0].collections[0].get_paths() == [] and texts(empty) == []


def test_a_world_of_gate_courses():
    config = GateGenConfig(num_envs=4, device="cpu", num_gates=6)
    gates = GateGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=4, device="cpu")).generate()
    gates.valid.assign(np.array([True, True, True, False]))
    places = grid_origins(4, (100.0, 80.0), "cpu")
    figure = viz.plot_world(gates, places, line="centripetal")
    lines, openings, arrows = figure.axes[0].collections
    assert len(lines.get_segments()) == 3  # none through an invalid course
    assert len(openings.get_segments()) == 24 and len(arrows.get_paths()) == 4
    shifted = gates.placed(places)
    np.testing.assert_allclose(
        openings.get_segments(),
        np.stack([shifted.left.numpy(), shifted.right.numpy()], axis=2)[:, :6, :, :2].reshape(
            24, 2, 2
        ),
        atol=1e-4,
    )
    x, y = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    for segment in lines.get_segments():
        low, high = segment.min(axis=0), segment.max(axis=0)
        assert x[0] <= low[0] and y[0] <= low[1] and high[0] <= x[1] and high[1] <= y[1]
    # Placed courses stay in their cells of a grid.
    for axes in viz.plot_courses(shifted).axes:
        gate = axes.texts[0].get_position()
        assert axes.get_xlim()[0] < gate[0] < axes.get_xlim()[1]


def test_errors_of_a_world(circles, tmp_path):
    places = grid_origins(4, 3.0, "cpu")
    with pytest.raises(TypeError, match="must be a Track or a GateSequence, got list"):
        viz.plot_world([], places)
    with pytest.raises(ValueError, match=r"plot_world\(envs\) must name at least one env"):
        viz.plot_world(circles, places, envs=[])
    with pytest.raises(IndexError, match="4"):
        viz.plot_world(circles, places, envs=[4])
    with pytest.raises(ValueError, match=r"plot_world\(origins\) must have shape \(4,\)"):
        viz.plot_world(circles, grid_origins(3, 3.0, "cpu"))
    with pytest.raises(ValueError, match=r"plot_world\(origins\) must be finite"):
        viz.plot_world(circles, np.full((4, 3), np.inf))
    with pytest.raises(ValueError, match=r"plot_world\(path\): no such folder"):
        viz.plot_world(circles, places, path=tmp_path / "none" / "a.png")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_files_are_written(circles, tmp_path, suffix):
    path = tmp_path / f"tracks.{suffix}"
    viz.plot_tracks(circles, path=path)
    assert path.stat().st_size > 2000


def test_families_have_a_row_each(circles):
    figure = viz.plot_families({"one": circles, "two": circles}, columns=5)
    assert len(figure.axes) == 10
    assert [text for text in texts(figure) if not text.startswith("env")] == ["one", "two"]


def test_never_generated_tracks_say_so():
    figure = viz.plot_tracks(Track.allocate(2, 16, "cpu"))
    assert texts(figure) == ["env 0: not generated", "env 1: not generated"]


def test_pyplot_stays_out_of_it(circles):
    import sys

    loaded = "matplotlib.pyplot" in sys.modules
    viz.plot_tracks(circles)
    assert ("matplotlib.pyplot" in sys.modules) == loaded


def test_errors(circles, tmp_path):
    with pytest.raises(
        ValueError, match=r"plot_tracks\(envs\) must name at least one env, got none"
    ):
        viz.plot_tracks(circles, envs=[])
    with pytest.raises(ValueError, match=r"plot_tracks\(columns\) must be in \[1, 1000\], got 0"):
        viz.plot_tracks(circles, columns=0)
    with pytest.raises(IndexError, match="4"):
        viz.plot_tracks(circles, envs=[4])
    with pytest.raises(
        ValueError, match=r"plot_tracks\(path\) must end in one of .*png.*got 'a.tif2'"
    ):
        viz.plot_tracks(circles, path="a.tif2")
    with pytest.raises(ValueError, match="no such folder"):
        viz.plot_tracks(circles, path=tmp_path / "none" / "a.png")
    with pytest.raises(ValueError, match="at least one batch"):
        viz.plot_families({})


def test_missing_matplotlib_names_the_extra(circles, monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'track-gen\[viz\]'"):
        viz.plot_tracks(circles)
