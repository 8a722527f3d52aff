"""Spawn poses: where they should be, never outside, a function of seed and episode."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
import torch
import warp as wp
from road_reference import circle, floats, mixed_tracks, road, to_track

from track_gen import CourseLine, GateGenConfig, GateGenerator, PerEnvSeededRNG
from track_gen.runtime import Localizer, RacingLine, Spawner


def rng(num_envs: int, seeds: int = 0) -> PerEnvSeededRNG:
    return PerEnvSeededRNG(seeds=seeds, num_envs=num_envs, device="cpu")


def check_inside(arrays: dict, spawner: Spawner, radius: float) -> None:
    """All bodies are on the road, and ``s`` and ``n`` tell where they are."""
    assert spawner.fits.numpy().all()
    p = spawner.position.numpy()
    for env in range(len(p)):
        clearance = road(arrays, env).clearance(p[env, :, :2].astype(np.float64))
        assert clearance.min() > radius - 1e-5
    localizer = Localizer(to_track(arrays), spawner.num_agents)
    localizer.update(spawner.position, spawner.heading)
    length = arrays["length"][:, None]
    off = np.mod(localizer.s.numpy() - spawner.s.numpy() + length / 2, length) - length / 2
    assert np.abs(off).max() < 0.6 * arrays["half_width"].max()
    assert np.abs(localizer.n.numpy() - spawner.n.numpy()).max() < 0.1 * arrays["half_width"].max()


@pytest.mark.parametrize(("agents", "radius"), [(1, 0.0), (1, 0.045), (5, 0.02)])
def test_random_poses_are_on_the_road_of_1000_tracks(agents, radius):
    arrays = mixed_tracks(1000)
    spawner = Spawner(to_track(arrays), agents, radius=radius, rng=rng(1000))
    spawner.random(lateral=1.0, heading_noise=0.3)
    check_inside(arrays, spawner, radius)
    share = np.sort(spawner.s.numpy() / arrays["length"][:, None], axis=1)
    assert np.abs(np.histogram(share, 10, (0, 1))[0] / (100.0 * agents) - 1.0).max() < 0.35
    if agents > 1:
        gaps = np.diff(np.c_[share, share[:, :1] + 1.0], axis=1)
        assert gaps.min() > 0.49 / agents
    room = np.maximum(arrays["half_width"][:, None] - radius, 0.0)
    assert np.abs(spawner.n.numpy() / np.maximum(room, 1e-9)).max() <= 1.0 + 1e-5
    localizer = Localizer(to_track(arrays), agents)
    localizer.update(spawner.position, spawner.heading)
    error = localizer.heading_error.numpy()
    assert np.abs(error).max() < 0.45 and np.abs(error).mean() == pytest.approx(0.15, abs=0.02)


def test_the_grid_is_behind_the_line():
    arrays = mixed_tracks(100)
    spawner = Spawner(to_track(arrays), 6, radius=0.01)
    spawner.grid(columns=2, gap=3.0, width=0.4)
    check_inside(arrays, spawner, 0.01)
    behind = (arrays["length"][:, None] - spawner.s.numpy()) / arrays["half_width"][:, None]
    assert behind == pytest.approx(np.tile([3.0, 4.5, 6.0, 7.5, 9.0, 10.5], (100, 1)), abs=1e-3)
    side = spawner.n.numpy() / arrays["half_width"][:, None]
    assert side == pytest.approx(np.tile([0.4, -0.4], (100, 3)), abs=1e-5)
    spawner.grid(columns=2, gap=1000.0)
    rows = spawner.s.numpy()[:, ::2] / arrays["length"][:, None]
    assert rows == pytest.approx(np.tile([0.7, 0.4, 0.1], (100, 1)), abs=1e-4)


def test_one_agent_starts_on_the_centreline():
    spawner = Spawner(to_track(circle()))
    spawner.grid()
    assert spawner.n.numpy()[0, 0] == 0.0


def test_at_given_places():
    arrays = mixed_tracks(100)
    track = to_track(arrays)
    spawner = Spawner(track, 2, radius=0.01)
    s = np.random.default_rng(0).uniform(-20.0, 20.0, (100, 2))
    spawner.at(floats(s), 0.02, turn=0.25)
    check_inside(arrays, spawner, 0.01)
    wrapped = np.mod(s, arrays["length"][:, None])
    assert spawner.s.numpy() == pytest.approx(wrapped, abs=2e-5)
    localizer = Localizer(track, 2)
    localizer.update(spawner.position, spawner.heading)
    error = localizer.heading_error.numpy()
    assert np.abs(error - 0.25).max() < 0.2 and error.mean() == pytest.approx(0.25, abs=0.01)
    # What would be outside comes inside, at pinches too.
    tightest = np.nanargmax(np.abs(arrays["curvature"]), axis=1)
    spawner.at(
        floats(np.repeat(arrays["arclen"][np.arange(100), tightest, None], 2, axis=1)),
        floats(np.tile([-9.0, 9.0], (100, 1))),
    )
    check_inside(arrays, spawner, 0.01)
    # A body wider than the road is put in the middle of it.
    wide = Spawner(track, radius=5.0)
    assert not wide.fits.numpy().any()
    wide.at(1.0, 0.05)
    assert not wide.fits.numpy().any()
    assert np.abs(wide.n.numpy()).max() < 0.1 * arrays["half_width"].min()


@pytest.mark.parametrize("radius", [0.03, 0.045, 0.055, 0.08, 0.0999, 0.12])
@pytest.mark.parametrize("racing", [False, True])
def test_a_body_fits_or_it_says_so(radius, racing):
    """Half widths are 0.1, 0.06 and 0.05; a racing line is up to 0.8 of them off the middle."""
    arrays = mixed_tracks(200)
    track = to_track(arrays)
    if racing:
        track = RacingLine(track, margin=0.2)
        track.update()
    spawner = Spawner(track, 4, radius=radius, rng=rng(200))
    for spawn in (
        lambda: spawner.random(lateral=1.0),
        lambda: spawner.grid(columns=4, gap=1.0, width=1.0),
        lambda: spawner.at(1.0, floats(np.tile([-9.0, -0.01, 0.0, 0.02], (200, 1)))),
    ):
        spawn()
        p, fits = spawner.position.numpy(), spawner.fits.numpy()
        for env in range(200):
            truth = road(arrays, env)
            clearance = truth.clearance(p[env, :, :2].astype(np.float64))
            assert (fits[env] == (clearance >= radius))[np.abs(clearance - radius) > 1e-6].all()
            # Where it does not fit it stands in the middle.
            left, right = truth.borders(p[env, ~fits[env], :2].astype(np.float64))
            assert (np.abs(left - right) < 0.1 * truth.half_width).all()
        assert fits[arrays["half_width"] > 1.15 * radius].all()
        assert not fits[arrays["half_width"] <= radius].any()


def test_bodies_fit_on_flight_lines_that_cross_themselves():
    config = GateGenConfig(num_envs=24, ordering="random", device="cpu")
    gates = GateGenerator(config, rng(24)).generate()
    line = CourseLine.through(gates)
    valid = line.valid.numpy()
    crossing = [
        not shapely.LinearRing(c[:, :2]).is_simple for c in line.center.numpy()[valid].astype(float)
    ]
    assert sum(crossing) > 12
    spawner = Spawner(line, 3, radius=0.1, rng=rng(24))
    for k in range(20):
        spawner.at(line.length.numpy().mean() * k / 20.0)
        assert (spawner.fits.numpy() == valid[:, None]).all()
        assert (spawner.n.numpy()[valid] == 0.0).all()


def test_going_back_to_a_seed_starts_its_poses_afresh():
    track = to_track(circle())
    generator = rng(1)
    spawner = Spawner(track, rng=generator)
    found = []
    for seed in (5, 5, 7, 5, 5):
        seeds = wp.array([seed], dtype=wp.int32, device="cpu")
        generator.set_seeds_warp(seeds, None)
        spawner.random()
        found.append(float(spawner.s.numpy()[0, 0]))
    first, second, other, again, twice = found
    assert (again, twice) == (first, second)
    assert len({first, second, other}) == 3


def test_poses_are_a_function_of_seed_episode_and_number():
    arrays = mixed_tracks(20)
    track = to_track(arrays)
    first, again = rng(20), rng(20)
    a, b = Spawner(track, 2, rng=first), Spawner(track, 2, rng=again)

    def pose(spawner):
        return np.c_[spawner.s.numpy(), spawner.n.numpy(), spawner.heading.numpy()]

    a.random()
    one = pose(a)
    a.random()
    two = pose(a)
    assert (one != two).all()
    b.random()
    b.random()
    assert (pose(b) == two).all()
    first.advance()
    a.random()
    three = pose(a)
    assert (three != one).all() and (three != two).all()
    again.advance()
    Spawner(track, 2, rng=again).random()
    c = Spawner(track, 2, rng=again)
    c.random()
    assert (pose(c) == three).all()


def test_masked_rows_stay_and_bad_envs_are_nan():
    arrays = mixed_tracks(10)
    arrays = {name: array.copy() for name, array in arrays.items()}
    arrays["valid"][4] = False
    spawner = Spawner(to_track(arrays), 2, rng=rng(10))
    spawner.grid()
    before = spawner.position.numpy().copy()
    mask = np.arange(10) < 5
    for call in (spawner.random, spawner.grid, lambda mask: spawner.at(1.0, mask=mask)):
        call(mask=mask)
        after = spawner.position.numpy()
        assert (after[5:] == before[5:]).all()
        assert (after[:4] != before[:4]).any(axis=-1).all() or call == spawner.grid
        assert np.isnan(after[4]).all() and np.isnan(spawner.s.numpy()[4]).all()
        assert not spawner.fits.numpy()[4].any() and spawner.fits.numpy()[:4].all()
    spawner.at(floats(np.full((10, 2), np.nan)))
    assert np.isnan(spawner.position.numpy()).all() and not spawner.fits.numpy().any()


def test_poses_go_into_the_users_state():
    arrays = mixed_tracks(10)
    state = torch.full((10, 3, 6), -1.0)
    heading = torch.zeros(10, 3)
    spawner = Spawner(to_track(arrays), 3, position=state[:, :, :2], heading=heading)
    spawner.at(0.5)
    assert torch.isfinite(state).all() and (state[:, :, 2:] == -1.0).all()
    assert (state[:, :, :2] != -1.0).all() and (heading != 0.0).any()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: s.random(lateral=1.5), ValueError, r"Spawner.random\(lateral\) must be in"),
        (lambda s: s.random(s_range=(0.5, 0.2)), ValueError, r"s_range\[1\]\) must be in"),
        (lambda s: s.random(heading_noise=9.0), ValueError, r"heading_noise\) must be in"),
        (lambda s: s.grid(columns=0), ValueError, r"Spawner.grid\(columns\) must be in"),
        (lambda s: s.grid(gap=0.0), ValueError, r"Spawner.grid\(gap\) must be finite and > 0"),
        (lambda s: s.at(float("nan")), ValueError, r"Spawner.at\(s\) must be finite"),
        (lambda s: s.at("0"), TypeError, r"Spawner.at\(s\) must be a Warp array"),
    ],
)
def test_bad_calls(call, error, text):
    with pytest.raises(error, match=text):
        call(Spawner(to_track(circle()), rng=rng(1)))


def test_bad_arguments():
    track = to_track(circle(2))
    with pytest.raises(RuntimeError, match="needs a Spawner with an rng"):
        Spawner(track).random()
    with pytest.raises(ValueError, match=r"Spawner.rng must have num_envs=2, got 3"):
        Spawner(track, rng=rng(3))
    with pytest.raises(TypeError, match=r"Spawner.rng must be a PerEnvSeededRNG, got int"):
        Spawner(track, rng=0)
    with pytest.raises(ValueError, match=r"Spawner.radius must be finite and >= 0"):
        Spawner(track, radius=-1.0)
    with pytest.raises(ValueError, match=r"Spawner.position must have shape \(2, 1, 2 or 3\)"):
        Spawner(track, position=wp.zeros((3, 1), dtype=wp.vec3f, device="cpu"))
