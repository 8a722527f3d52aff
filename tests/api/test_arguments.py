"""Arguments that are wrong: a clear error with the owner, the field, the bound and the value."""

from __future__ import annotations

import re
from types import SimpleNamespace

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
from track_gen.envs import RaceVectorEnv
from track_gen.runtime import (
    CollisionChecker,
    GateCrossing,
    Localizer,
    ProgressTracker,
    RacingLine,
    Sensors,
    Spawner,
    SpeedProfile,
    TrackMetrics,
    track_view,
)

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
    track = generator.track
    limits = {"lateral": 1.0, "acceleration": 1.0, "braking": 1.0}
    makers = {
        "Localizer": lambda **o: Localizer(track, **o),
        "ProgressTracker": lambda **o: ProgressTracker(track, **o),
        "CollisionChecker": lambda **o: CollisionChecker(track, radius=0.1, **o),
        "Sensors": lambda **o: Sensors(track, rays=[0.0], **o),
        "Spawner": lambda **o: Spawner(track, **o),
        "RacingLine": lambda **o: RacingLine(track, **o),
        "SpeedProfile": lambda **o: SpeedProfile(track, **limits, **o),
        "TrackMetrics": lambda **o: TrackMetrics(track, **o),
        "GateCrossing": lambda **o: GateCrossing(gates, **o),
        "TrackGenConfig": lambda **o: TrackGenConfig(num_envs=1, half_width=0.1, **o),
        "GateGenConfig": lambda **o: GateGenConfig(num_envs=1, **o),
        "CourseLine.through": lambda **o: CourseLine.through(gates, **o),
    }
    for name, maker in makers.items():
        text = rf"{name}.num_threads\)? must be (in \[1, 1024\]|an int)".replace(
            "through.", r"through\("
        )
        refuses(error, text, lambda m=maker: m(num_threads=threads))


TOOLS = {
    "Localizer": Localizer,
    "ProgressTracker": ProgressTracker,
    "CollisionChecker": lambda track: CollisionChecker(track, radius=0.1),
    "Sensors": lambda track: Sensors(track, rays=[0.0]),
    "Spawner": Spawner,
    "RacingLine": RacingLine,
    "SpeedProfile": lambda line: SpeedProfile(line, lateral=1.0, acceleration=1.0, braking=1.0),
    "TrackMetrics": TrackMetrics,
    "track_view": track_view,
}


@pytest.mark.parametrize("name", list(TOOLS))
def test_what_is_no_track(generator, gates, name):
    tool, track = TOOLS[name], generator.track
    text = f"^{name} needs a track, .* got "
    refuses(TypeError, text + "NoneType without center, outer", lambda: tool(None))
    refuses(TypeError, text + "GateSequence without center", lambda: tool(gates))
    refuses(TypeError, text + "array without", lambda: tool(track.center))
    one = track.env(0)
    refuses(TypeError, f"^{name}: center .* must be a Warp array of vec3f", lambda: tool(one))

    def with_(**changes):
        return lambda: tool(SimpleNamespace(**{**track.arrays(), **changes}))

    text = f"^{name}: count of the track must be a Warp array of int32 of 1 dimensions, got float32"
    refuses(TypeError, text, with_(count=track.length))
    text = rf"^{name}: valid of the track must have shape \(4,\) on device cpu, got \(3,\)"
    refuses(ValueError, text, with_(valid=track.valid[:3]))
    with_(curvature=None)()  # it may be missing
    refuses(TypeError, f"^{name}: curvature of the track", with_(curvature=track.length))


def test_sequences_of_numbers(generator):
    track = generator.track
    for name in ("look_ahead", "rays"):
        for value in (0.5, "0.5", None, {0.5}, np.array(0.5)):
            text = rf"Sensors\.{name} must be a sequence of numbers"
            refuses(TypeError, text, lambda n=name, v=value: Sensors(track, **{n: v}))
        for value, error in (([0.0, np.nan], ValueError), ((0.0, "x"), TypeError)):
            text = rf"Sensors\.{name}\[1\] must be"
            refuses(error, text, lambda n=name, v=value: Sensors(track, **{n: v}))
    assert Sensors(track, rays=np.array([0.1, 0.2])).ranges.shape == (E, 1, 2)
    refuses(
        TypeError,
        r"RaceVectorEnv\.rays must be a sequence of numbers, got 0.5",
        lambda: RaceVectorEnv(2, rays=0.5, device="cpu"),
    )


def test_places_to_spawn_at(generator):
    spawner = Spawner(generator.track, rng=generator.rng)
    for pair in (0.5, (), (0.0, 0.5, 1.0), "01", None):
        text = r"Spawner\.random\(s_range\) must be a \(first, last\) pair, got "
        refuses(TypeError, text, lambda p=pair: spawner.random(s_range=p))
    text = r"Spawner\.random\(s_range\[1\]\) must be in \[0.5, 1.5\], got 0.2"
    refuses(ValueError, text, lambda: spawner.random(s_range=(0.5, 0.2)))
    for value in (1e300, 1e39, np.inf):
        text = r"Spawner\.at\(s\) must be finite"
        refuses(ValueError, text, lambda v=value: spawner.at(v))
    for value in (True, np.True_, "0"):
        refuses(TypeError, r"Spawner\.at\(s\) must be", lambda v=value: spawner.at(v))
    spawner.at(0.25)
    expected = spawner.position.numpy().copy()
    for value in (np.float32(0.25), np.float64(0.25)):
        spawner.at(0.0)
        spawner.at(value)
        np.testing.assert_array_equal(spawner.position.numpy(), expected)


def test_a_shared_localizer_comes_alone(generator):
    track, origins = generator.track, np.zeros((E, 3))
    shared = {"localizer": Localizer(track), "origins": origins}
    for name, tool in (
        ("ProgressTracker", lambda **o: ProgressTracker(track, **o)),
        ("CollisionChecker", lambda **o: CollisionChecker(track, radius=0.1, **o)),
        ("Sensors", lambda **o: Sensors(track, rays=[0.0], **o)),
    ):
        refuses(ValueError, f"{name}.origins must be None", lambda t=tool: t(**shared))
        assert tool(origins=origins).localizer.origins is not None
    progress = ProgressTracker(track, localizer=shared["localizer"])
    text = r"ProgressTracker\.update\(position\) must be None with a shared localizer"
    for position in ("nonsense", track.center[:, :1]):
        refuses(ValueError, text, lambda p=position: progress.update(p))
    progress.update()


def test_numbers_of_agents(generator, gates):
    for name, tool in (
        ("Localizer", lambda a: Localizer(generator.track, a)),
        ("Sensors", lambda a: Sensors(generator.track, a, rays=[0.0])),
        ("Spawner", lambda a: Spawner(generator.track, a)),
        ("GateCrossing", lambda a: GateCrossing(gates, a)),
    ):
        refuses(ValueError, rf"{name}\.num_agents must be in \[1, ", lambda t=tool: t(0))
        refuses(TypeError, rf"{name}\.num_agents must be an int", lambda t=tool: t(1.5))


def test_a_state_that_is_refused_changes_nothing():
    generator = make(num_envs=4)
    before = generator.state_dict()
    state = {"rng": {**before["rng"], "seeds": before["rng"]["seeds"] + 1}}
    state["parameters"] = {**before["parameters"], "rad": np.full((4, 2), np.nan)}
    with pytest.raises(ValueError, match="must be ordered, finite"):
        generator.load_state_dict(state)
    after = generator.state_dict()
    for part in before:
        for name, value in before[part].items():
            assert after[part][name].tobytes() == value.tobytes()
