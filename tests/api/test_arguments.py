"""Arguments that are wrong: a clear error with the owner, the field, the bound and the value."""

from __future__ import annotations

import re

import numpy as np
import pytest

from conftest import make, raw_bytes
from track_gen import (
    CourseLine,
    GateGenConfig,
    GateGenerator,
    PerEnvSeededRNG,
    TrackGenConfig,
    grid_origins,
)
from track_gen.checks import check_float, check_floats, check_range

E = 4
HUGE = 10**40


@pytest.fixture(scope="module")
def generator():
    generator = make(num_envs=E)
    generator.generate()
    return generator


@pytest.fixture(scope="module")
def gates():
    rng = PerEnvSeededRNG(seeds=0, num_envs=E, device="cpu")
    return GateGenerator(GateGenConfig(num_envs=E, device="cpu"), rng).generate()


def refuses(error, text, call):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("value", [1e-40, 5e-38, 1e39, 1e300, -1e300, np.nan, np.inf, HUGE])
def test_numbers_must_keep_their_bounds_in_single_precision(generator, value):
    text = r"finite and > 0( in single precision)?, got " + re.escape(str(value))
    refuses(ValueError, text, lambda: check_float("x", value, 0.0, low_open=True))
    refuses(ValueError, text, lambda: check_range("x", (value, value), 0.0, low_open=True))
    refuses(ValueError, text, lambda: generator.parameters.set("half_width", value))
    refuses(ValueError, text, lambda: TrackGenConfig(num_envs=1, half_width=value))
    refuses(ValueError, "finite", lambda: generator.parameters.set("half_width", (0.1, value)))


def test_an_int_that_no_float_holds():
    refuses(ValueError, "finite and >= 0, got 1000", lambda: check_float("x", 10**400, 0.0))
    refuses(ValueError, "finite and >= 0, got -1000", lambda: check_float("x", -(10**400), 0.0))


def test_numbers_that_single_precision_holds():
    for value in (3.4028234e38, 1e-37, np.float32(0.1), np.float64(0.1), np.int32(3), 3):
        assert check_float("x", value, 0.0, low_open=True) == float(value)
    assert check_float("x", 1e-300, 0.0) == 1e-300  # as good as the 0 that it becomes
    assert check_floats("x", np.array([0.5, 1.5]), 0.0) == [0.5, 1.5]
    assert check_floats("x", (), 0.0) == []


def test_arrays_of_values_on_the_host(generator):
    set_rad, set_width = (
        lambda values, name=name: generator.parameters.set(name, values)
        for name in ("rad", "half_width")
    )
    for values in (np.full(E, True), np.full(E, 0.5 + 0j), np.full(E, "x"), np.full(E, None)):
        text = f"must hold numbers, got dtype {values.dtype}".replace("<", ".")
        refuses(TypeError, r"generator\.parameters\.rad " + text, lambda v=values: set_rad(v))
        refuses(
            TypeError,
            r"TrackGenerator\.set_difficulty\(value\) " + text,
            lambda v=values: generator.set_difficulty(v),
        )
    for value in (1e-40, 1e39, 1e300, -1.0, 0.0, np.nan):
        values = np.full(E, 0.1)
        values[2] = value
        refuses(
            ValueError,
            "half_width must be .*, got " + re.escape(str(value)),
            lambda v=values: set_width(v),
        )
    refuses(ValueError, r"must have shape \(4\), got \(0,\)", lambda: set_rad(np.zeros(0)))
    set_rad(np.full(E, 1))  # integers and float64 are numbers
    set_rad(np.full(E, 0.25))
    assert (generator.parameters.get("rad") == 0.25).all()


def test_a_state_that_does_not_fit_changes_nothing(generator):
    parameters, rng = generator.parameters, generator.rng
    kept = parameters.state_dict()

    def changed(value):
        return lambda: parameters.load_state_dict({**kept, "rad": value})

    bad = kept["rad"].copy()
    for row in ((np.nan, np.nan), (0.5, np.nan), (0.5, 0.4), (-0.1, 0.5), (0.5, 1.5)):
        bad[3] = row
        refuses(ValueError, r"load_state_dict\(rad\) must be ordered, finite .*env 3", changed(bad))
    refuses(ValueError, r"\(rad\) must have shape \(4, 2\), got \(4,\)", changed(np.zeros(E)))
    refuses(TypeError, r"\(rad\) must be a NumPy array", changed([[0.1, 0.2], [0.1]]))
    refuses(TypeError, r"\(rad\) must be a NumPy array", changed(np.full((E, 2), True)))
    refuses(KeyError, "expected", lambda: parameters.load_state_dict({}))
    for load in (parameters.load_state_dict, rng.load_state_dict, generator.load_state_dict):
        refuses(TypeError, r"load_state_dict\(state\) must be a dictionary", lambda f=load: f(None))
        refuses(KeyError, "expected", lambda f=load: f({"nothing": 0}))
    for name, values in parameters.state_dict().items():
        assert values.tobytes() == kept[name].tobytes()
    parameters.load_state_dict(kept)
    assert raw_bytes(generator.generate()) == raw_bytes(generator.generate())


def test_rows_are_ints(generator, gates, tmp_path):
    track = generator.track
    for index in (1.5, True, "0", None):
        refuses(TypeError, r"Track\.env\(index\) must be an int", lambda i=index: track.env(i))
        refuses(TypeError, r"GateSequence\.env\(index\) must", lambda i=index: gates.env(i))
        refuses(TypeError, "must be an int", lambda i=index: track.save_csv(tmp_path / "t.csv", i))
    for index in (E, -E - 1, 10**30):
        refuses(IndexError, r"must be in \[-4, 3\]", lambda i=index: track.env(i))
    assert track.env(np.int64(-1)).length == track.env(E - 1).length


def test_grids_are_finite():
    for spacing in (1e300, 1e39, 3.0e38, (1.0, 3.0e38)):
        text = r"grid_origins\(spacing\) must .* in single precision, got "
        refuses(ValueError, text, lambda s=spacing: grid_origins(25, s))
    assert np.isfinite(grid_origins(4, 3.0e38, "cpu").numpy()).all()


THREADS = [(0, ValueError), (-3, ValueError), (1025, ValueError)]
THREADS += [(1.5, TypeError), ("2", TypeError), (True, TypeError)]


@pytest.mark.parametrize(("threads", "error"), THREADS)
def test_numbers_of_threads(generator, gates, threads, error):
    makers = {
        "TrackGenConfig": lambda **o: TrackGenConfig(num_envs=1, half_width=0.1, **o),
        "GateGenConfig": lambda **o: GateGenConfig(num_envs=1, **o),
        "CourseLine.through": lambda **o: CourseLine.through(gates, **o),
    }
    for name, maker in makers.items():
        text = rf"{name}.num_threads\)? must be (in \[1, 1024\]|an int)".replace(
            "through.", r"through\("
        )
        refuses(error, text, lambda m=maker: m(num_threads=threads))
