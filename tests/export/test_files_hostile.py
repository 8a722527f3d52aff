"""Files with errors, files that are in the way, and roads whose sides differ."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from conftest import make
from track_gen import GateGenConfig, GateGenerator, Library, Noise, PerEnvSeededRNG, Track
from track_gen.files import load_csv


@pytest.fixture(scope="module")
def track():
    return make(num_envs=3).generate().clone()


@pytest.mark.parametrize("direction", ["ccw", "cw"])
def test_widths_of_a_lopsided_road(tmp_path, direction):
    """The road is three times as wide to the right, so that swapped sides show."""
    lopsided = make(num_envs=2, direction=direction, half_width=0.08).generate().clone()
    right = lopsided.outer if direction == "ccw" else lopsided.inner
    right.assign(lopsided.center.numpy() - 0.24 * lopsided.normal.numpy())
    lopsided.save_csv(tmp_path / "road.csv", env=1)
    table = load_csv(tmp_path / "road.csv")
    np.testing.assert_allclose(table[:, 2], 0.24, rtol=1e-4)
    np.testing.assert_allclose(table[:, 3], 0.08, rtol=1e-3)


def test_import_keeps_y_up_and_the_sense(tmp_path):
    """An L whose mirror images all differ, clockwise, with its first point repeated."""
    corner = np.array([[0, 0], [0, 2], [1, 2], [1, 1], [3, 1], [3, 0], [0, 0]], float)
    rows = "\n".join(f"{x},{y},0.2,0.1" for x, y in corner)
    (tmp_path / "l.csv").write_text(rows + "\n")
    (curve,) = Library.from_csv(tmp_path / "l.csv", normalize=False).curves
    assert {tuple(p) for p in curve} == {tuple(p) for p in corner}
    assert len(curve) == 6


def test_a_header_gives_the_order_of_the_columns(tmp_path):
    path = tmp_path / "road.csv"
    points = "0,0,1,2\n4,0,1,2\n4,3,1,2\n"
    for head in ("# x_m, y_m, w_tr_left_m, w_tr_right_m\n", "x_m,y_m,w_tr_left_m,w_tr_right_m\r\n"):
        path.write_bytes(b"\xef\xbb\xbf" + (head + points).encode())
        assert load_csv(path)[0].tolist() == [0, 0, 2, 1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"0,0,1,1\n1,0,-1,1\n1,1,1,1\n", "line 2.*w_tr_right_m"),
        (b"0,0,1,1\n1,0,1,1\n1,1,1,inf\n", "line 3.*w_tr_left_m"),
        (b"0,0,1,1\n1,0,1,1,\n1,1,1\n", "line 3"),
        (b"\xff\xfe0,0,1,1\n", "road.csv"),
        (b"PK\x03\x04\x00\x00", "road.csv"),
    ],
)
def test_malformed_csv(tmp_path, data, message):
    path = tmp_path / "road.csv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        load_csv(path)


def test_another_format_is_not_overwritten(tmp_path, track):
    notes = tmp_path / "notes.csv"
    notes.write_text("date,best lap\n")
    with pytest.raises(FileExistsError, match=r"notes\.csv"):
        track.save_csv(notes)
    assert notes.read_text() == "date,best lap\n"
    other = tmp_path / "weights.npz"
    np.savez(other, layer=np.ones(3))
    before = other.read_bytes()
    with pytest.raises(FileExistsError, match=r"weights\.npz"):
        track.save(other)
    assert other.read_bytes() == before
    for path, save in ((tmp_path / "a.csv", track.save_csv), (tmp_path / "a.npz", track.save)):
        save(path)
        save(path)  # an older file of the same kind is replaced
    assert not list(tmp_path.glob("*.partial"))


def test_an_invalid_env_is_not_exported(tmp_path, track):
    broken = track.clone()
    status = broken.status.numpy().copy()
    status[1] = 16
    broken.status.assign(status)
    broken.valid.assign(status == 0)
    with pytest.raises(ValueError, match="BORDER"):
        broken.save_csv(tmp_path / "b.csv", env=1)
    assert not (tmp_path / "b.csv").exists()


def test_a_batch_of_gates_is_no_track(tmp_path):
    rng = PerEnvSeededRNG(seeds=0, num_envs=2, device="cpu")
    gates = GateGenerator(GateGenConfig(num_envs=2, device="cpu"), rng).generate()
    np.savez(tmp_path / "gates.npz", **gates.numpy())
    with pytest.raises(ValueError, match=r"gates\.npz"):
        Track.load(tmp_path / "gates.npz", "cpu")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("count", 100000),
        ("count", -1),
        ("count", 0),
        ("valid", False),
        ("status", 4),
        ("center", np.nan),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(tmp_path, track, field, value):
    """Kernels trust ``count`` and ``valid``: a file must not lead them out of the arrays."""
    arrays = track.numpy()
    arrays[field][1] = value
    track.save(tmp_path / "t.npz")
    with np.load(tmp_path / "t.npz") as file:
        data = {**file, **arrays}
    np.savez(tmp_path / "t.npz", **data)
    with pytest.raises(ValueError, match=r"t\.npz.*row 1"):
        Track.load(tmp_path / "t.npz", "cpu")


@pytest.mark.parametrize(
    ("field", "index", "value", "text"),
    [
        *(
            (field, (), value, f"{field!r} of a valid row must be finite and > 0")
            for field in ("length", "half_width", "spacing")
            for value in (np.nan, np.inf, 0.0, -1.0)
        ),
        *(
            ("winding", (), value, "'winding' of a valid row must be 1 or -1")
            for value in (0, 2, -2, -(2**31))
        ),
        ("arclen", 0, 0.01, "'arclen' of a valid row must increase from 0 to below 'length'"),
        ("arclen", 5, 0.0, "'arclen' of a valid row must increase"),
        ("arclen", 5, 1.0e9, "'arclen' of a valid row must increase"),
        ("length", (), 0.1, "'arclen' of a valid row must increase"),
        ("length", (), 100.0, "'spacing' of a valid row must be 'length' over 'count'"),
        ("tangent", 3, 0.0, "'tangent' of a valid row must be of unit length"),
        ("normal", 3, 2.0, "'normal' of a valid row must be of unit length"),
        ("up", (0, 2), -1.5, "'up' of a valid row must be of unit length"),
    ],
)
def test_a_valid_row_that_breaks_a_promise_is_refused(tmp_path, track, field, index, value, text):
    index = index if isinstance(index, tuple) else (index,)
    data = {**track.file_notes(), **track.numpy()}
    data[field][(1, *index)] = value
    path = tmp_path / "t.npz"
    np.savez(path, **data)
    with pytest.raises(ValueError, match=rf"t\.npz: {text}.*which row 1 breaks"):
        Track.load(path, "cpu")
    data["status"][1], data["valid"][1] = 2, False  # a row that is not valid promises nothing
    np.savez(path, **data)
    assert Track.load(path, "cpu").valid.numpy().tolist() == [True, False, True]


def test_every_family_keeps_what_files_demand(tmp_path):
    options = ({"direction": "random"}, {"elevation": Noise()}, {"generator": "voronoi"})
    for k, option in enumerate(options):
        batch = make(num_envs=24, **option).generate()
        path = batch.save(tmp_path / f"{k}.npz")
        again = Track.load(path, "cpu").numpy()
        assert {k: v.tobytes() for k, v in again.items()} == {
            k: v.tobytes() for k, v in batch.numpy().items()
        }


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_npz(tmp_path, track, share):
    path = tmp_path / "t.npz"
    track.save(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"t\.npz"):
        Track.load(path, "cpu")


def test_a_damaged_npz(tmp_path, track):
    path = tmp_path / "t.npz"
    track.save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"t\.npz"):
        Track.load(path, "cpu")


def test_a_loaded_track_works_like_another(tmp_path, track):
    from track_gen.runtime import TrackMetrics

    track.save(tmp_path / "t.npz")
    loaded = Track.load(tmp_path / "t.npz", "cpu")
    results = []
    for one in (track, loaded):
        metrics = TrackMetrics(one)
        metrics.update()
        results.append({name: value.tobytes() for name, value in metrics.numpy().items()})
    assert results[0] == results[1]
    assert {f.name for f in dataclasses.fields(loaded)} == set(loaded.arrays())
