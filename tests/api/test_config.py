"""Every configuration field rejects its bad values with the documented text."""

from __future__ import annotations

import dataclasses
import math

import pytest

from track_gen import Bezier, PerEnvSeededRNG, Polar, TrackGenConfig, TrackGenerator

NAN, INF = math.nan, math.inf

BAD = [
    ("num_envs", 0, ValueError, "TrackGenConfig.num_envs must be in [1, 2147483647], got 0"),
    ("num_envs", -3, ValueError, "got -3"),
    ("num_envs", 2.0, TypeError, "must be an int, got 2.0 (float)"),
    ("num_envs", True, TypeError, "must be an int, got True (bool)"),
    ("half_width", NAN, ValueError, "TrackGenConfig.half_width must be finite and > 0, got nan"),
    ("half_width", 0, ValueError, "TrackGenConfig.half_width must be finite and > 0, got 0"),
    ("half_width", -1, ValueError, "got -1"),
    ("half_width", INF, ValueError, "got inf"),
    ("half_width", "wide", TypeError, "must be a number, got 'wide' (str)"),
    ("half_width", (0.2, 0.1), ValueError, "must be ordered, low <= high, got (0.2, 0.1)"),
    ("half_width", (0.1, NAN), ValueError, "half_width[1] must be finite"),
    ("half_width", (0.1,), ValueError, "(low, high) pair"),
    ("half_width", True, TypeError, "must be a number, got True (bool)"),
    ("scale", NAN, ValueError, "TrackGenConfig.scale must be finite and > 0, got nan"),
    ("scale", 0.0, ValueError, "got 0.0"),
    ("scale", (1, INF), ValueError, "got inf"),
    ("device", "gpu0", ValueError, "no Warp device 'gpu0'; available: "),
    ("device", 3, TypeError, "TrackGenConfig.device must be a device"),
    ("generator", "beziers", ValueError, "Did you mean: 'bezier'?"),
    ("generator", "library", ValueError, "has no defaults: pass Library(...)"),
    ("generator", 5, TypeError, "must be a name or a settings object, got 5 (int)"),
    ("spacing", 0.0, ValueError, "TrackGenConfig.spacing must be finite and > 0, got 0.0"),
    ("spacing", NAN, ValueError, "got nan"),
    ("spacing", 0.2, ValueError, "in [0.3, 1.0] half widths ([0.03, 0.1] at half_width 0.1)"),
    ("spacing", 0.02, ValueError, "got 0.02"),
    ("N_max", 15, ValueError, "TrackGenConfig.N_max must be in [16, 4095], got 15"),
    ("N_max", 4096, ValueError, "got 4096"),
    ("N_max", "512", TypeError, "must be an int"),
    ("max_attempts", 0, ValueError, "TrackGenConfig.max_attempts must be in [1, 64], got 0"),
    ("max_attempts", 65, ValueError, "got 65"),
    ("direction", "left", ValueError, "must be one of 'ccw', 'cw', 'random', got 'left'."),
    ("direction", "CCW", ValueError, "got 'CCW'"),
    ("direction", 1, TypeError, "must be a string"),
    ("augment", 1, TypeError, "TrackGenConfig.augment must be a bool, got 1 (int)"),
    ("metrics", "all", TypeError, "TrackGenConfig.metrics must be a bool, got 'all' (str)"),
    ("elevation", 1.0, TypeError, "must be Flat, Uniform, RandomWalk, Noise or None, got 1.0"),
    ("block_dim", 48, ValueError, "TrackGenConfig.block_dim must be 32, 64, 128 or 256, got 48"),
    ("block_dim", 16, ValueError, "got 16"),
    ("num_threads", 0, ValueError, "TrackGenConfig.num_threads must be in [1, 1024], got 0"),
    ("num_threads", 1.5, TypeError, "must be an int"),
    ("relax_enable", "yes", TypeError, "TrackGenConfig.relax_enable must be a bool"),
    ("relax_max_sweeps", -1, ValueError, "TrackGenConfig.relax_max_sweeps"),
    ("relax_stop_radius", NAN, ValueError, "TrackGenConfig.relax_stop_radius"),
    ("relax_stop_radius", 0.5, ValueError, "TrackGenConfig.relax_stop_radius"),
    ("relax_smoothing_passes", -1, ValueError, "TrackGenConfig.relax_smoothing_passes"),
    ("relax_sep_every", 0, ValueError, "TrackGenConfig.relax_sep_every"),
    ("relax_sep_every", 1.0, TypeError, "TrackGenConfig.relax_sep_every"),
    ("relax_sep_cache_slots", -1, ValueError, "TrackGenConfig.relax_sep_cache_slots"),
    ("relax_sep_cache_skin", -0.1, ValueError, "TrackGenConfig.relax_sep_cache_skin"),
    ("relax_sep_cache_skin", NAN, ValueError, "TrackGenConfig.relax_sep_cache_skin"),
    ("validity_width_tolerance", -0.1, ValueError, "TrackGenConfig.validity_width_tolerance"),
    ("validity_width_tolerance", NAN, ValueError, "TrackGenConfig.validity_width_tolerance"),
    ("validity_area_tolerance", INF, ValueError, "TrackGenConfig.validity_area_tolerance"),
    (
        "validity_area_tolerance_spacing",
        -1,
        ValueError,
        "TrackGenConfig.validity_area_tolerance_spacing",
    ),
    ("validity_turning_tolerance", 1.0, ValueError, "TrackGenConfig.validity_turning_tolerance"),
]


def valid(**changes):
    return TrackGenConfig(**{"num_envs": 4, "half_width": 0.1, "device": "cpu", **changes})


@pytest.mark.parametrize(("field", "value", "error", "text"), BAD)
def test_bad_value(field, value, error, text):
    with pytest.raises(error) as caught:
        valid(**{field: value})
    assert text in str(caught.value)
    assert f"TrackGenConfig.{field}" in str(caught.value) or field == "generator"


def test_every_field_is_covered():
    fields = {field.name for field in dataclasses.fields(TrackGenConfig)}
    assert fields == {field for field, *_ in BAD}


@pytest.mark.parametrize(
    "options",
    [
        {"relax_sep_every": 1, "relax_sep_cache_slots": 8},
        {"relax_sep_every": 4, "relax_sep_cache_slots": 0},
        {"relax_sep_cache_slots": 8},
    ],
)
def test_separation_modes_that_contradict_themselves(options):
    with pytest.raises(ValueError, match=r"TrackGenConfig\.relax_sep"):
        valid(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"relax_sep_every": 1, "relax_sep_cache_slots": 0},
        {"relax_sep_every": 40, "relax_sep_cache_slots": 16, "relax_sep_cache_skin": 0.0},
        {"relax_enable": False},
        {"spacing": 0.04},
        {"spacing": 0.1},
        {"half_width": (0.05, 0.05)},
        {"half_width": 1, "scale": 10},
        {"generator": Polar(radial_jitter=(0.1, 0.2))},
        {"device": None},
    ],
)
def test_good_values(options):
    valid(**options)


def test_positional_arguments_and_unknown_fields_are_refused():
    with pytest.raises(TypeError):
        TrackGenConfig(4, 0.1)  # type: ignore
    with pytest.raises(TypeError):
        valid(half_widht=0.1)


def test_frozen_and_replaceable():
    config = valid()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.num_envs = 5  # type: ignore
    wider = dataclasses.replace(config, half_width=0.2)
    assert wider.spacing is None and wider.half_width == 0.2
    assert config.N_max == 512


def test_a_settings_object_selects_its_family():
    config = valid(generator=Bezier(rad=0.5))
    assert config.spec.name == "bezier"
    assert config.settings.rad == 0.5
    assert valid(generator="polar").settings == Polar()


@pytest.mark.parametrize("options", [{"half_width": 0.01}, {"scale": 20.0}])
def test_small_n_max_warns_with_a_sufficient_one(options):
    config = valid(**options)
    rng = PerEnvSeededRNG(seeds=0, num_envs=4, device="cpu")
    with pytest.warns(UserWarning, match=rf"N_max={config.sufficient_n_max()} suffices"):
        TrackGenerator(config, rng)


def test_extreme_widths_end_with_a_reason(recwarn):
    """Very thin, very wide, absurd: invalid with a status, never a crash or a silent nothing."""
    for half_width, scale in ((1e-30, 1.0), (1e30, 1.0), (1e-30, 1e-30), (1e30, 1e30), (0.1, 1e30)):
        generator = TrackGenerator(
            valid(half_width=half_width, scale=scale, max_attempts=2),
            PerEnvSeededRNG(seeds=0, num_envs=4, device="cpu"),
        )
        arrays = generator.generate().numpy()
        assert not arrays["valid"].any(), (half_width, scale)
        assert (arrays["status"] != 0).all()
