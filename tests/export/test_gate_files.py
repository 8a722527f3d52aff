"""Files of gate courses: round trip, what they say, files that are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from track_gen import (
    CourseLine,
    GateGenConfig,
    GateGenerator,
    GateSequence,
    Hull,
    Mixture,
    PerEnvSeededRNG,
    Polar,
    Track,
)
from track_gen.cli import main


@pytest.fixture(scope="module")
def gates() -> GateSequence:
    config = GateGenConfig(num_envs=6, device="cpu", generator=Mixture({Hull(): 1, Polar(): 1}))
    return GateGenerator(config, PerEnvSeededRNG(seeds=0, num_envs=6, device="cpu")).generate()


def raw_bytes(batch):
    return {name: array.tobytes() for name, array in batch.numpy().items()}


def test_round_trip(tmp_path, gates):
    path = gates.save(tmp_path / "gates.npz")
    again = GateSequence.load(path, "cpu")
    assert raw_bytes(again) == raw_bytes(gates)
    assert len(set(again.family.numpy())) == 2
    lines = [CourseLine.through(batch).center.numpy() for batch in (gates, again)]
    assert lines[0].tobytes() == lines[1].tobytes()
    again.save(path)  # its own kind is replaced
    with np.load(path) as file:
        assert str(file["format"]) == "track_gen.GateSequence"
        assert "Part of a mixture" in json.loads(str(file["fields"]))["family"]
        assert "gate_width" in str(file["units"])
        assert "MISS" in file["status_names"]


def test_what_the_command_line_wrote(tmp_path):
    path = tmp_path / "gates.npz"
    assert main(["gates", "--num-envs", "4", "--device", "cpu", "--out", str(path)]) == 0
    gates = GateSequence.load(path, "cpu")
    assert gates.valid.numpy().all() and gates.family.numpy().tolist() == [0] * 4


def changed(gates, **changes):
    arrays = gates.numpy()
    for name, (index, value) in changes.items():
        arrays[name][index] = value
    return arrays


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda g: {}, "no array 'position' of shape"),
        (lambda g: {**g.numpy(), "position": np.zeros((6, 0, 3))}, "no array 'position' of shape"),
        (lambda g: {k: v for k, v in g.numpy().items() if k != "family"}, "no array 'family'"),
        (
            lambda g: {**g.numpy(), "family": np.zeros(6)},
            r"'family' must be int32 of shape \(6,\), got float64",
        ),
        (lambda g: changed(g, count=(2, 33)), r"'count' must be in \[0, 32\], which row 2 breaks"),
        (lambda g: changed(g, valid=(1, False)), "'valid' must be true exactly where .* row 1"),
        (lambda g: changed(g, count=(3, 2)), "'count' of a valid row must be at least 3"),
        (
            lambda g: changed(g, orientation=((4, 1, 2), np.nan)),
            "'orientation' of a valid row must be finite, which row 4 breaks",
        ),
        *(
            (
                lambda g, name=name, value=value: changed(g, **{name: ((5, 1), value)}),
                f"{name!r} of a valid row must be {rule}.*which row 5 breaks",
            )
            for name, value, rule in (
                ("half_width", 0.0, "finite and > 0"),
                ("half_width", np.nan, "finite"),
                ("half_height", -1.0, "finite and > 0"),
                ("tangent", 1.0, "of unit length"),
                ("normal", 0.0, "of unit length"),
                ("orientation", 1.0, "of unit length"),
            )
        ),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path, gates, change, text):
    path = tmp_path / "bad.npz"
    np.savez(path, **change(gates))
    with pytest.raises(ValueError, match=text):
        GateSequence.load(path, "cpu")


def test_other_files_are_neither_read_nor_replaced(tmp_path, gates):
    with pytest.raises(ValueError, match=r"must end with \.npz"):
        gates.save(tmp_path / "gates.csv")
    tracks = Track.allocate(2, 16, "cpu").save(tmp_path / "tracks.npz")
    with pytest.raises(FileExistsError, match=r"no file of a track_gen\.GateSequence"):
        gates.save(tracks)
    with pytest.raises(ValueError, match="no array 'position'"):
        GateSequence.load(tracks, "cpu")
    text = tmp_path / "text.npz"
    text.write_text("gates")
    with pytest.raises(ValueError, match="not an npz file"):
        GateSequence.load(text, "cpu")
    with pytest.raises(OSError):
        GateSequence.load(tmp_path / "none.npz", "cpu")


def test_a_flight_line_is_saved_as_a_track(tmp_path, gates):
    line = CourseLine.through(gates)
    path = line.save(tmp_path / "line.npz")
    track = Track.load(path, "cpu")
    assert all(array == raw_bytes(line)[name] for name, array in raw_bytes(track).items())
    with np.load(path) as file:
        assert file["gate_arclen"].tobytes() == line.gate_arclen.numpy().tobytes()
    with pytest.raises(TypeError, match=r"Track\.load"):
        CourseLine.load(path)
