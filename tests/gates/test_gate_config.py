"""What a gate configuration refuses, and what it says."""

from __future__ import annotations

import math

import pytest

from track_gen import Flat, GateGenConfig, Hull, Uniform, Voronoi


def config(**changes):
    return GateGenConfig(num_envs=2, device="cpu", **changes)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "wide", None, True])
@pytest.mark.parametrize(
    "field", ["gate_width", "scale", "max_turn", "max_grade", "max_extent", "gate_height"]
)
def test_positive_numbers(field, value):
    if value is None and field in ("max_extent", "gate_height"):
        assert getattr(config(**{field: None}), field) is None
        return
    with pytest.raises((ValueError, TypeError), match=rf"GateGenConfig\.{field} must be"):
        config(**{field: value})


@pytest.mark.parametrize("field", ["clearance", "min_gap", "approach", "min_radius"])
def test_numbers_that_may_be_zero(field):
    assert getattr(config(**{field: 0.0}), field) == 0.0
    for value in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"GateGenConfig\.{field} must be finite and >= 0"):
            config(**{field: value})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"num_gates": 4, "max_turn": 80.0},
            "4 gates turning at most 80 degrees cannot close a loop: need max_turn >= 90.5",
        ),
        ({"num_gates": (3, 8), "min_gates": 3, "max_turn": 120.0}, "need max_turn >= 120.5"),
        (
            {"num_gates": 32, "max_extent": 9.0},
            "32 gates at least 2.4 apart cannot fit in a square of 9",
        ),
        ({"num_gates": 40}, r"outside \[min_gates, max_gates\] = \[4, 32\]"),
        ({"num_gates": 3}, r"outside \[min_gates, max_gates\] = \[4, 32\]"),
        ({"num_gates": 2}, r"num_gates must be in \[3, 64\], got 2"),
        ({"num_gates": (9, 5)}, r"num_gates must be ordered, got \(9, 5\)"),
        ({"num_gates": (9, 5, 4)}, "num_gates must be an int or"),
        ({"generator": Hull(min_corners=12, max_corners=20)}, "'hull' settings ask for 24 to 40"),
        ({"max_gates": 65}, r"max_gates must be in \[3, 64\], got 65"),
        ({"min_gates": 33}, r"min_gates must be in \[3, 32\], got 33"),
        (
            {"elevation": Uniform(low=0.0, high=3.0), "max_grade": 1.0},
            "max_incidence = 35 degrees contradicts max_grade = 1: .* up to 45 degrees",
        ),
        ({"elevation": Uniform(low=0.0, high=3.0, max_grade=0.7)}, "max_grade must be <= "),
        ({"elevation": Flat(banking=10.0)}, "banking must be 0"),
        ({"elevation": 3.0}, "elevation must be Flat, Uniform, RandomWalk or Noise"),
        ({"generator": "library"}, "'library' has no anchors for gates; families that do: bezier"),
        ({"generator": "polra"}, "Did you mean: 'polar'"),
        ({"generator": 3}, "generator must be a name or a settings object"),
        ({"generator": Voronoi(num_sites=18), "num_gates": 20}, "have num_sites = 18"),
        ({"ordering": "cwc"}, "Did you mean"),
        ({"line": "arcs"}, "Did you mean: 'arc'"),
        ({"align": "pitch"}, "align must be one of 'yaw', 'tangent'"),
        ({"max_attempts": 0}, r"max_attempts must be in \[1, 64\], got 0"),
        ({"block_dim": 48}, "block_dim must be 32, 64, 128 or 256, got 48"),
        ({"num_envs": 0}, r"num_envs must be in"),
    ],
)
def test_what_cannot_be_is_refused_with_its_numbers(changes, text):
    with pytest.raises((ValueError, TypeError), match=text):
        GateGenConfig(**{"num_envs": 2, "device": "cpu", **changes})


def test_an_empty_range_is_an_error_and_flat_has_none():
    for low, high in ((2.0, 2.0), (3.0, 2.0)):
        with pytest.raises(ValueError, match="use Flat"):
            config(elevation=Uniform(low=low, high=high))
    assert not config(elevation=Flat(z=2.0)).varies


def test_limits_that_just_hold():
    config(num_gates=4, max_turn=90.5)
    config(num_gates=3, min_gates=3, max_turn=121.0)
    config(elevation=Uniform(low=0.0, high=3.0), max_grade=1.0, align="tangent")
    config(max_grade=1.0)


def test_defaults():
    c = config()
    assert (c.gate_width, c.scale, c.max_turn, c.max_grade) == (1.2, 17.0, 135.0, 0.5)
    assert (c.min_gates, c.max_gates, c.max_incidence, c.line) == (4, 32, 35.0, "arc")
    assert c.count_range == (9, 13)
    assert config(generator="hull").count_range == (18, 26)
    assert config(generator=Hull(min_corners=4, max_corners=5)).count_range == (8, 10)
    assert config(num_gates=7).count_range == (7, 7)
