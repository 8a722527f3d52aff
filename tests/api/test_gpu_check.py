"""The script for GPU machines runs on the CPU, and tells when a contract breaks."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gpu_check


@pytest.fixture
def few(monkeypatch):
    names = ("polar", "gates polar", "gates random", "gates mixture")
    kinds = [kind for kind in gpu_check.KINDS if kind.name in names]
    assert len(kinds) == len(names)
    monkeypatch.setattr(gpu_check, "KINDS", kinds)


def run(*arguments: object) -> int:
    options = ["--device", "cpu", "--quick", "--envs", "24", "--sizes", "8", *map(str, arguments)]
    return gpu_check.main(options)


def test_contracts_and_timings_on_the_cpu(few, tmp_path, capsys):
    tracks, gates = tmp_path / "tracks.json", tmp_path / "gates.json"
    assert run("--json", tracks, "--json-gates", gates) == 0
    assert "32 passed, 0 failed" in capsys.readouterr().out
    assert {row["E"] for row in json.loads(tracks.read_text())["rows"]} == {8}
    rows = json.loads(gates.read_text())["rows"]
    assert [row["what"] for row in rows] == list(gpu_check.TIMED_COURSES)
    assert all(row["replay ms"] > 0.0 for row in rows)


def test_a_broken_contract_is_named(few, monkeypatch, capsys):
    lengths = gpu_check.course_length
    calls = []

    def longer(arrays):
        calls.append(1)
        return lengths(arrays) * (1.0 + 0.02 * (len(calls) % 2))

    kinds = [
        gpu_check.Kind(k.name, k.make, k.settings, k.points, longer)
        for k in gpu_check.KINDS
        if k.name == "gates polar"
    ]
    monkeypatch.setattr(gpu_check, "KINDS", kinds)
    assert run() == 1
    assert "FAILED: gates polar: CPU and device agree" in capsys.readouterr().out


def test_course_length():
    position = np.full((2, 4, 3), np.nan, dtype=np.float32)
    position[0, :3] = [[0, 0, 0], [3, 0, 0], [3, 4, 0]]
    arrays = {"position": position, "count": np.array([3, 0]), "valid": np.array([True, False])}
    np.testing.assert_allclose(gpu_check.course_length(arrays), [12.0, np.nan])
