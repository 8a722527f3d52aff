"""Pictures and the command line of gate courses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gate_cells import CELLS, make_gates

from track_gen import GateSequence, GateStatus
from track_gen.cli import main
from track_gen.viz import plot_course_relief, plot_courses, reason_text


@pytest.fixture(scope="module")
def hills():
    return make_gates(4, **CELLS["hill"]).generate()


def test_courses_from_above_show_openings_order_and_line(hills, tmp_path):
    path = tmp_path / "courses.png"
    figure = plot_courses(hills, envs=[2], clearance=0.6, path=path, title="two")
    assert path.stat().st_size > 5000
    course = hills.env(2)
    texts = {text.get_text() for text in figure.axes[0].texts}
    assert {str(k) for k in range(course.count)} <= texts
    drawn = [line.get_xydata() for line in figure.axes[0].lines]
    assert len(drawn) == 1 + 3 * course.count
    ends = [d for d in drawn if len(d) == 2]
    for gate in range(course.count):
        sides = np.array([course.right[gate, :2], course.left[gate, :2]])
        assert any(np.allclose(np.sort(d, 0), np.sort(sides, 0), atol=1e-5) for d in ends)


def test_courses_in_space(hills, tmp_path):
    path = tmp_path / "relief.svg"
    plot_course_relief(hills, envs=(0, 3), path=path)
    assert path.stat().st_size > 5000


def test_courses_without_a_line_say_why():
    gates = GateSequence.allocate(2, 8, "cpu")
    figure = plot_courses(gates)
    assert "not generated" in figure.axes[0].texts[0].get_text()
    with pytest.raises(ValueError, match="env 0 has no course: not generated"):
        plot_course_relief(gates)
    with pytest.raises(ValueError, match="at least one env"):
        plot_courses(gates, envs=[])
    with pytest.raises(IndexError):
        plot_courses(gates, envs=[2])
    assert reason_text(GateStatus.SPACING | GateStatus.LINE) == "spacing, line"


def test_command_writes_arrays_and_a_picture(capsys, tmp_path):
    out, plot = tmp_path / "gates.npz", tmp_path / "gates.png"
    flags = ["--num-envs", "6", "--num-gates", "8", "11", "--ordering", "cw", "--seed", "5"]
    hills = ["--elevation", "uniform", "--uniform.low", "1", "--uniform.high", "4"]
    assert main(["gates", *flags, *hills, "--out", str(out), "--plot", str(plot)]) == 0
    assert "8 to 11" in capsys.readouterr().out
    assert plot.stat().st_size > 5000
    with np.load(out) as file:
        assert set(GateSequence.__dataclass_fields__) <= set(file.files)
        assert file["valid"].all() and file["position"].shape == (6, 32, 3)
        assert "SPACING" in file["status_names"]
        config = json.loads(str(file["config"]))
        assert config["ordering"] == "cw" and config["elevation"]["profile"] == "uniform"
        assert json.loads(str(file["fields"]))["position"].startswith("Gate centres")


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--max-turn", "20"], "cannot close a loop"),
        (["--generator", "polar", "--bezier.rad", "0.2"], "--bezier.* needs --generator bezier"),
        (["--ordering", "ccv"], "Did you mean: 'ccw'"),
        (["--generator", "library"], "no anchors"),
    ],
)
def test_errors_are_one_line(capsys, args, text):
    assert main(["gates", *args]) == 2
    line = capsys.readouterr().err
    assert text in line and line.count("\n") == 1
