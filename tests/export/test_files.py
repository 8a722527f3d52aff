"""npz and CSV: round trips, self-explanation, errors; left stays left."""

from __future__ import annotations

import json

import numpy as np
import pytest

from conftest import make, raw_bytes
from track_gen import Library, Track
from track_gen.files import load_csv


def test_npz_round_trip(tmp_path):
    track = make(num_envs=5, half_width=(0.05, 0.1), direction="random").generate()
    path = track.save(tmp_path / "tracks.npz")
    assert raw_bytes(Track.load(path, "cpu")) == raw_bytes(track)
    assert not list(tmp_path.glob("*.partial"))


def test_npz_explains_itself(tmp_path):
    path = make(num_envs=2).generate().save(tmp_path / "t.npz")
    with np.load(path, allow_pickle=False) as file:
        texts = json.loads(str(file["fields"]))
        assert set(texts) <= set(file.files)
        assert "left" in texts["normal"]
        bits = dict(zip(file["status_names"].tolist(), file["status_bits"].tolist(), strict=True))
        assert bits["OVERFLOW"] == 64
        assert "half_width" in str(file["units"])


def test_npz_errors(tmp_path):
    track = make(num_envs=2).generate()
    with pytest.raises(ValueError, match=r"must end with \.npz"):
        track.save(tmp_path / "tracks.csv")
    with pytest.raises(FileNotFoundError):
        Track.load(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match="no array 'center'"):
        Track.load(tmp_path / "other.npz")
    arrays = track.numpy()
    del arrays["outer"]
    np.savez(tmp_path / "partial.npz", **arrays)
    with pytest.raises(ValueError, match="no array 'outer'"):
        Track.load(tmp_path / "partial.npz")
    np.savez(tmp_path / "dtype.npz", **{**track.numpy(), "count": np.zeros(2)})
    with pytest.raises(ValueError, match="'count' must be int32"):
        Track.load(tmp_path / "dtype.npz")
    (tmp_path / "text.npz").write_text("not a file of arrays")
    with pytest.raises(ValueError, match="not an npz"):
        Track.load(tmp_path / "text.npz")


@pytest.mark.parametrize(
    ("name", "index", "value", "text"),
    [
        ("count", 2, 513, r"'count' must be in \[0, 512\], which row 2 breaks"),
        ("status", 1, 4, "'valid' must be true exactly where 'status' is 0, which row 1 breaks"),
        ("count", 0, 2, "'count' of a valid row must be at least 3, which row 0 breaks"),
        ("center", (2, 5, 1), np.nan, "'center' of a valid row must be finite, which row 2 breaks"),
        ("arclen", (1, 0), np.inf, "'arclen' of a valid row must be finite, which row 1 breaks"),
    ],
)
def test_npz_rows_that_contradict_themselves(tmp_path, name, index, value, text):
    arrays = make(num_envs=3).generate().numpy()
    arrays[name][index] = value
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(ValueError, match=text):
        Track.load(tmp_path / "wrong.npz")


def test_npz_without_slots(tmp_path):
    np.savez(tmp_path / "empty.npz", center=np.zeros((3, 0, 3), np.float32))
    with pytest.raises(ValueError, match="no array 'center' of shape"):
        Track.load(tmp_path / "empty.npz")


@pytest.mark.parametrize("direction", ["ccw", "cw"])
def test_csv_round_trip_keeps_sides_and_orientation(tmp_path, direction):
    track = make(num_envs=3, direction=direction, half_width=0.08).generate()
    for env in range(3):
        path = track.save_csv(tmp_path / f"{env}.csv", env=env)
        text = path.read_text().splitlines()
        assert text[0] == "# x_m,y_m,w_tr_right_m,w_tr_left_m"
        table = load_csv(path)
        one = track.env(env)
        assert len(table) == one.count  # unclosed
        np.testing.assert_allclose(table[:, :2], one.center[:, :2], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(table[:, 2:], 0.08, rtol=1e-3)
        # The right border lies to the right of travel, at the written width.
        ahead = np.roll(table[:, :2], -1, 0) - np.roll(table[:, :2], 1, 0)
        right = np.c_[ahead[:, 1], -ahead[:, 0]] / np.linalg.norm(ahead, axis=1, keepdims=True)
        border = (one.outer if one.winding == 1 else one.inner)[:, :2]
        np.testing.assert_allclose(table[:, :2] + table[:, 2:3] * right, border, atol=1e-4)


def test_csv_into_the_library_and_back(tmp_path):
    track = make(num_envs=4, half_width=0.06).generate()
    paths = [track.save_csv(tmp_path / f"circuit{env}.csv", env=env) for env in range(4)]
    library = Library.from_csv(paths, normalize=False)
    assert library.names == ("circuit0", "circuit1", "circuit2", "circuit3")
    generator = make(
        num_envs=16, generator=library, half_width=0.06, relax_enable=False, augment=False
    )
    again = generator.generate()
    choice = generator._buffers.family["choice"].numpy()
    assert again.valid.numpy().all()
    np.testing.assert_allclose(again.length.numpy(), track.length.numpy()[choice], rtol=5e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,3,4\n1,x,3,4\n", "line 2: not a number"),
        ("1,2,3\n", "line 1: expected x, y and two widths, got 3 values"),
        ("# only a header\n", "at least 3 points, got 0"),
        ("0,0,1,1\n1,0,1,1\n0,0,1,1\n", "at least 3 points, got 2"),
        ("0,0,1,1\nnan,0,1,1\n1,1,1,1\n", "line 2: x_m must be finite"),
    ],
)
def test_malformed_csv(tmp_path, text, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        load_csv(path)
    assert "bad.csv" in str(caught.value)


def test_csv_dialects(tmp_path):
    path = tmp_path / "track.csv"
    path.write_text("# x; y\n0;0\n2;0\n\n2;1 # corner\n0;0\n")
    table = load_csv(path)
    assert table[:, :2].tolist() == [[0, 0], [2, 0], [2, 1]]
    assert np.isnan(table[:, 2:]).all()


def test_csv_of_an_env_without_a_track(tmp_path):
    track = Track.allocate(2, 20, "cpu")
    with pytest.raises(ValueError, match="NOT_GENERATED"):
        track.save_csv(tmp_path / "none.csv")
    with pytest.raises(ValueError, match=r"must end with \.csv"):
        make(num_envs=1).generate().save_csv(tmp_path / "track.npz")
    with pytest.raises(IndexError):
        track.save_csv(tmp_path / "none.csv", env=2)
