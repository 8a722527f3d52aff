from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import shapely
import warp as wp
from drivers import SingleRace, follow, wander
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from track_gen import Noise
from track_gen.envs import RaceVectorEnv, Vehicle


def race(num_envs=8, **options) -> RaceVectorEnv:
    options.setdefault("autoreset_mode", "SameStep")
    return RaceVectorEnv(num_envs, device="cpu", **options)


def state_bytes(env: RaceVectorEnv, rows) -> dict[str, bytes]:
    """Bytes of everything an env's future depends on."""
    arrays = {
        **env._results,
        **env.track.arrays(),
        "position": env.position,
        "heading": env.heading,
    }
    arrays |= {"speed": env.speed, "driving": env._driving, "drivable": env._drivable}
    for owner, tool in (("places", env._places), ("progress", env._progress)):
        arrays |= {
            f"{owner}.{name}": value
            for name, value in vars(tool).items()
            if isinstance(value, wp.array) and value.shape[:1] == (env.num_envs,)
        }
    return {name: array.numpy()[rows].tobytes() for name, array in arrays.items()}


def rollout(env, steps, driver=wander, seed=0):
    """Everything that a caller sees in some steps, as one list of arrays."""
    observations, infos = env.reset(seed=seed)
    seen = [observations, infos["seed"], infos["episode"]]
    for _ in range(steps):
        observations, *results, infos = env.step(driver(observations))
        seen += [observations, *results, infos["seed"], infos["episode"], infos["progress"]]
        if "final_obs" in infos:
            seen += [row for row in infos["final_obs"] if row is not None]
            seen.append(infos["final_info"]["progress"])
    return seen


def same(a, b) -> bool:
    return len(a) == len(b) and all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


def test_make_vec():
    env = gymnasium.make_vec("TrackGen-Race-v0", num_envs=5, device="cpu", max_episode_steps=7)
    assert isinstance(env, RaceVectorEnv)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observations, infos = env.reset(seed=1)
    assert env.observation_space.contains(observations)
    assert infos["seed"].dtype == np.int32 and infos["_seed"].all()
    for _ in range(7):
        observations, rewards, terminated, truncated, infos = env.step(env.action_space.sample())
        assert env.observation_space.contains(observations)
        assert rewards.shape == terminated.shape == truncated.shape == (5,)
        assert terminated.dtype == truncated.dtype == np.bool_
    assert (terminated | truncated | (infos["steps"] < 7)).all()
    env.close()
    with pytest.raises(gymnasium.error.Error):
        gymnasium.make("TrackGen-Race-v0")


def test_gymnasiums_check():
    check_env(SingleRace(max_episode_steps=20), skip_render_check=True)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_autoreset_is_that_of_gymnasium(mode):
    """Gymnasium's own vector environment around single envs gives the same, bit for bit."""
    seeds = [3, 1, 4, 1, 5]
    options = {"max_episode_steps": 25}
    ours = race(5, autoreset_mode=mode, **options)
    theirs = SyncVectorEnv([lambda: SingleRace(**options)] * 5, autoreset_mode=mode)
    a, _ = ours.reset(seed=seeds)
    b, _ = theirs.reset(seed=seeds)
    assert a.tobytes() == b.tobytes()
    ended = 0
    for step in range(90):
        actions = wander(a)
        actions[0, 0] = 0.0 if step % 2 else actions[0, 0]
        a, *results, infos = ours.step(actions)
        b, *expected, other = theirs.step(actions)
        assert a.tobytes() == b.tobytes()
        for x, y in zip(results, expected, strict=True):
            np.testing.assert_array_equal(x, y)
        done = results[1] | results[2]
        ended += done.sum()
        np.testing.assert_array_equal(infos["seed"], other["level"])
        assert ("final_obs" in infos) == ("final_obs" in other)
        if "final_obs" in infos:
            np.testing.assert_array_equal(infos["_final_obs"], other["_final_obs"])
            np.testing.assert_array_equal(infos["_final_info"], other["_final_info"])
            for x, y in zip(infos["final_obs"], other["final_obs"], strict=True):
                assert (x is None) == (y is None)
                assert x is None or x.tobytes() == y.tobytes()
            np.testing.assert_array_equal(infos["final_info"]["seed"], other["final_info"]["level"])
        if mode is AutoresetMode.DISABLED and done.any():
            with pytest.raises(ResetNeeded, match="have finished"):
                ours.step(actions)
            a, _ = ours.reset(options={"reset_mask": done})
            b, _ = theirs.reset(options={"reset_mask": done})
            assert a.tobytes() == b.tobytes()
    assert ended > 10


def test_wrappers_of_gymnasium():
    env = gymnasium.make_vec("TrackGen-Race-v0", num_envs=6, device="cpu", max_episode_steps=15)
    env = wrappers.RecordEpisodeStatistics(env)
    env = wrappers.ClipAction(env)
    env = wrappers.NormalizeObservation(env)
    env = wrappers.NormalizeReward(env)
    env = wrappers.ClipReward(env, -5.0, 5.0)
    env = wrappers.DictInfoToList(env)
    observations, _ = env.reset(seed=0)
    finished = 0
    for _ in range(40):
        observations, *_, infos = env.step(env.action_space.sample())
        assert np.isfinite(observations).all()
        for info in infos:
            if "episode" in info:
                finished += 1
                assert info["episode"]["l"] == info["steps"]
    assert finished >= 12


def test_wrapper_to_torch():
    torch = pytest.importorskip("torch")
    pytest.importorskip("array_api_compat", reason="comes with gymnasium[array-api]")
    env = wrappers.NumpyToTorch(race(3))
    observations, _ = env.reset(seed=0)
    assert isinstance(observations, torch.Tensor)
    assert isinstance(env.step(torch.zeros(3, 2))[1], torch.Tensor)


def test_statistics_of_the_wrapper_and_the_level_share_the_key():
    env = race(2, max_episode_steps=3)
    _, infos = env.reset(seed=0)
    assert infos["episode"].tolist() == [0, 0]
    env = wrappers.RecordEpisodeStatistics(env)
    for _ in range(3):
        infos = env.step(np.zeros((2, 2)))[-1]
    assert infos["episode"]["l"].tolist() == [3, 3]
    assert infos["level_episode"].tolist() == [1, 1]
    with pytest.raises(KeyError):
        infos["episodes"]


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_same_seed_same_stream_for_any_number_of_threads(mode):
    options = {"max_episode_steps": 30, "autoreset_mode": mode, "rays": (0.0, 0.7)}
    first = rollout(race(800, num_threads=1, **options), 45)
    for threads in (2, 3):
        assert same(first, rollout(race(800, num_threads=threads, **options), 45))
    env = race(800, num_threads=2, **options)
    rollout(env, 5, seed=9)
    assert same(first, rollout(env, 45))
    assert not same(first, rollout(env, 45, seed=1))


def test_an_env_depends_on_its_seed_only():
    a = race(3, max_episode_steps=20)
    b = race(5, max_episode_steps=20)
    x, _ = a.reset(seed=[7, -1, 8])
    y, _ = b.reset(seed=[1, 2, 8, 3, 7])
    for _ in range(50):
        assert x[[0, 2]].tobytes() == y[[4, 2]].tobytes()
        x = a.step(wander(x))[0]
        y = b.step(wander(y))[0]


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_captured_step_equals_eager(mode):
    options = {"max_episode_steps": 12, "autoreset_mode": mode, "rays": (0.5,), "spawn": "random"}
    eager, captured = race(7, **options), race(7, capture=True, **options)
    a, _ = eager.reset(seed=5)
    b, _ = captured.reset(seed=5)
    assert a.tobytes() == b.tobytes()
    for _ in range(40):
        actions = wander(a)
        for name in ("observation", "reward", "progress"):
            captured._results[name].fill_(np.nan)  # a replay that did nothing would show
        a, *x, i = eager.step(actions)
        b, *y, j = captured.step(actions)
        assert a.tobytes() == b.tobytes()
        for p, q in zip(x, y, strict=True):
            assert p.tobytes() == q.tobytes()
        assert i["episode"].tobytes() == j["episode"].tobytes()
        assert eager.track.center.numpy().tobytes() == captured.track.center.numpy().tobytes()
    assert captured.graph is not None and eager.graph is None
    assert i["episode"].min() >= 2


def test_reset_of_some_leaves_the_others_alone():
    env = race(6, autoreset_mode="Disabled")
    observations, _ = env.reset(seed=2)
    for _ in range(10):
        observations = env.step(follow(observations))[0]
    mask = np.array([False, True, False, False, True, True])
    options = {"reset_mask": mask}
    before, other = state_bytes(env, ~mask), state_bytes(env, mask)
    again, infos = env.reset(options=options)
    assert state_bytes(env, ~mask) == before
    assert options == {"reset_mask": mask}
    changed = {name for name, data in state_bytes(env, mask).items() if data != other[name]}
    assert {"center", "position", "heading", "speed", "observation", "steps"} <= changed
    assert again[~mask].tobytes() == observations[~mask].tobytes()
    assert infos["episode"].tolist() == mask.astype(int).tolist()


def test_level_seeds_replay_levels():
    env = race(4, max_episode_steps=6)
    env.reset(seed=11)
    seen = {}
    for _ in range(30):
        observations, *_, infos = env.step(np.zeros((4, 2)))
        for i in np.flatnonzero(infos["steps"] == 0):
            name = int(infos["seed"][i]), int(infos["episode"][i])
            seen[name] = observations[i], env.track.center.numpy()[i].copy()
    assert len(seen) == 20
    names = [name for name in seen if name[1] == 4][:3] + [name for name in seen if name[1] == 2][
        :1
    ]
    other = race(4)
    observations, infos = other.reset(
        options={"level_seeds": [n[0] for n in names], "level_episodes": [n[1] for n in names]}
    )
    for i, name in enumerate(names):
        assert (infos["seed"][i], infos["episode"][i]) == name
        assert observations[i].tobytes() == seen[name][0].tobytes()
        assert other.track.center.numpy()[i].tobytes() == seen[name][1].tobytes()
    # Levels of some envs; the others go on.
    mask = np.array([True, False, False, True])
    again, infos = other.reset(
        options={"level_seeds": np.array([2**31 - 1, 0, 0, -5]), "reset_mask": mask}
    )
    assert infos["seed"].tolist() == [2**31 - 1, names[1][0], names[2][0], -5]
    assert infos["episode"].tolist() == [0, names[1][1], names[2][1], 0]
    assert again[~mask].tobytes() == observations[~mask].tobytes()


def test_seeds():
    env = race(4)
    a, _ = env.reset(seed=3)
    b, infos = env.reset()
    assert infos["episode"].tolist() == [1] * 4
    assert not np.array_equal(a, b)
    c, _ = env.reset(seed=3)
    assert a.tobytes() == c.tobytes()
    _, infos = env.reset(seed=[1, None, 3, None])
    assert infos["episode"].tolist() == [0, 1, 0, 1]
    assert infos["seed"][[0, 2]].tolist() == [1, 3]
    # Without a seed two environments differ.
    assert not np.array_equal(race(4).reset()[0], race(4).reset()[0])


def test_invalid_tracks_never_reach_an_observation():
    env = race(6, max_episode_steps=40)
    widths = np.full(6, 0.1, dtype=np.float32)
    widths[[1, 4]] = np.nan
    env.generator.parameters.set("half_width", wp.array(widths, dtype=wp.float32, device="cpu"))
    observations, infos = env.reset(seed=0)
    for _ in range(100):
        assert np.isfinite(observations).all()
        assert infos["fallback"].tolist() == [False, True, False, False, True, False]
        assert env.track.valid.numpy().all()
        observations, rewards, terminated, *_, infos = env.step(follow(observations))
        assert np.isfinite(rewards).all() and not terminated.any()
        assert np.isfinite(infos["progress"]).all()
        if "final_obs" in infos:
            assert all(np.isfinite(row).all() for row in infos["final_obs"] if row is not None)
    assert env.generator.track.valid.numpy().tolist() == [True, False, True, True, False, True]
    # The parameters recover, and so do the envs; an episode was spent on each redraw.
    env.generator.parameters.set("half_width", 0.1)
    _, infos = env.reset()
    assert not infos["fallback"].any()
    assert infos["episode"][1] > infos["episode"][0]


def test_an_env_whose_track_fails_gets_another_one():
    """One attempt without relaxation fails often; the next episode of the env mostly does not."""
    options = {"relax_enable": False, "max_attempts": 1}
    env = race(64, half_width=0.06, track_options=options, redraws=64, generator="polar")
    _, infos = env.reset(seed=0)
    assert (infos["episode"] > 0).any()
    assert not infos["fallback"].any()
    assert env.generator.track.valid.numpy().all()


def test_bad_actions_do_no_harm():
    env = race(4, max_episode_steps=10)
    observations, _ = env.reset(seed=0)
    still = race(4, max_episode_steps=10)
    still.reset(seed=0)
    bad = np.array([[np.nan, np.nan], [np.inf, np.nan], [np.nan, -np.inf], [0.0, 0.0]])
    for _ in range(30):
        observations, rewards, *_ = env.step(bad)
        expected = still.step(np.zeros((4, 2)))[0]
        assert np.isfinite(observations).all() and np.isfinite(rewards).all()
        assert observations.tobytes() == expected.tobytes()
    clipped = race(4)
    clipped.reset(seed=0)
    hard = race(4)
    hard.reset(seed=0)
    a = clipped.step(np.full((4, 2), 1e30))[0]
    assert a.tobytes() == hard.step(np.ones((4, 2)))[0].tobytes()


def test_results_never_change_afterwards():
    env = race(4, max_episode_steps=5)
    kept = []
    observations, infos = env.reset(seed=0)
    actions = np.zeros((4, 2), dtype=np.float32)
    for _ in range(12):
        kept.append((observations, infos, observations.copy(), infos["progress"].copy()))
        actions[:] = wander(observations)
        sent = actions.copy()
        observations, *_, infos = env.step(actions)
        np.testing.assert_array_equal(actions, sent)
        if "final_obs" in infos:
            rows = [row for row in infos["final_obs"] if row is not None]
            kept += [(row, infos, row.copy(), infos["progress"].copy()) for row in rows]
    for observation, info, copy, progress in kept:
        assert observation.tobytes() == copy.tobytes()
        assert info["progress"].tobytes() == progress.tobytes()
    views = race(4, copy=False)
    first, _ = views.reset(seed=0)
    copy = first.copy()
    second = views.step(np.ones((4, 2)))[0]
    assert np.shares_memory(first, second)
    assert not np.array_equal(first, copy)


def test_torch_outputs_equal_numpy():
    torch = pytest.importorskip("torch")
    a, b = race(5, max_episode_steps=9), race(5, max_episode_steps=9, output="torch")
    x, _ = a.reset(seed=4)
    y, infos = b.reset(seed=4)
    assert infos["seed"].dtype == torch.int32
    kept = [(y, y.clone())]
    for _ in range(25):
        actions = wander(x)
        x, r, terminated, truncated, i = a.step(actions)
        y, q, ended, cut, j = b.step(torch.from_numpy(actions))
        kept.append((y, y.clone()))
        np.testing.assert_array_equal(x, y.numpy())
        np.testing.assert_array_equal(r, q.numpy())
        np.testing.assert_array_equal(terminated, ended.numpy())
        np.testing.assert_array_equal(truncated, cut.numpy())
        np.testing.assert_array_equal(i["episode"], j["episode"].numpy())
        for env in np.flatnonzero(terminated | truncated):
            assert j["_final_obs"][env]
            np.testing.assert_array_equal(i["final_obs"][env], j["final_obs"][env].numpy())
    for tensor, copy in kept:
        assert torch.equal(tensor, copy)


@pytest.mark.parametrize("elevation", [None, Noise()])
def test_the_road_ends_where_a_polygon_says(elevation):
    """Terminated exactly when the disc of the car touches the border, judged by shapely."""
    env = race(24, autoreset_mode="NextStep", track_options={"elevation": elevation})
    observations, _ = env.reset(seed=6)
    roads = [None] * 24
    ended = kept = 0
    for _ in range(150):
        fresh = [road is None for road in roads]
        for i in np.flatnonzero(fresh).tolist():
            one = env.track.env(i)
            roads[i] = shapely.Polygon(one.outer[:, :2], [one.inner[:, :2]])
        observations, _, terminated, *_ = env.step(wander(observations))
        position, steps = env.position.numpy()[:, 0], env._results["steps"].numpy()
        for i in range(24):
            if steps[i] == 0:
                roads[i] = None
                continue
            point = shapely.Point(position[i, :2])
            clear = roads[i].boundary.distance(point) - 0.02
            if not roads[i].contains(point):
                clear = -1.0
            if abs(clear) > 1e-6:
                assert terminated[i] == (clear < 0.0)
                ended += terminated[i]
                kept += not terminated[i]
    assert ended > 10 and kept > 1000


def test_reward_is_progress_in_half_widths():
    env = race(16, spawn="start", max_laps=1, max_episode_steps=2000)
    observations, _ = env.reset(seed=8)
    length = env.track.length.numpy() / env.track.half_width.numpy()
    returns = np.zeros(16)
    laps = np.zeros(16, dtype=int)
    waiting = np.ones(16, dtype=bool)
    while waiting.any():
        observations, rewards, terminated, truncated, infos = env.step(follow(observations))
        assert not terminated[waiting].any()
        returns[waiting] += rewards[waiting]
        laps[truncated & waiting] = (
            infos["final_info"]["laps"][truncated & waiting] if (truncated & waiting).any() else 0
        )
        waiting &= ~truncated
    assert (laps == 1).all()
    assert (returns >= length - 1e-3).all() and (returns <= length + 0.6).all()


def test_penalties():
    options = {"spawn": "start", "spawn_heading": 0.0}
    env = race(1, off_road_penalty=7.0, autoreset_mode="NextStep", **options)
    env.reset(seed=0)
    for _ in range(200):
        _, rewards, terminated, *_ = env.step(np.array([[1.0, 0.4]]))
        if terminated[0]:
            break
    assert terminated[0] and rewards[0] < -6.0
    back = race(1, reverse_penalty=2.0, **options)
    back.reset(seed=0)
    rewards = [back.step(np.array([[0.0, -1.0]]))[1][0] for _ in range(10)]
    assert rewards[-1] < 0.0
    # 1 half width per second backward: 0.05 half widths per step, three times.
    assert rewards[-1] == pytest.approx(-3.0 * 0.05, rel=0.02)


def test_difficulty_takes_effect_at_the_next_level():
    env = race(64, difficulty=0.0)
    env.reset(seed=0)
    easy = env.track.half_width.numpy().mean()
    env.set_difficulty(1.0)
    assert env.track.half_width.numpy().mean() == easy
    env.reset(seed=0)
    assert env.track.half_width.numpy().mean() < easy


def test_a_policy_transfers_over_scales():
    a = race(4, half_width=0.1)
    b = race(4, half_width=8.0, track_options={"scale": 80.0})
    x, _ = a.reset(seed=1)
    y, _ = b.reset(seed=1)
    for _ in range(30):
        np.testing.assert_allclose(x, y, atol=2e-3)
        actions = follow(x)
        x, r, *_ = a.step(actions)
        y, q, *_ = b.step(actions)
        np.testing.assert_allclose(r, q, atol=2e-3)


def test_a_vehicle_of_fixed_size():
    """In units of length a road of twice the width makes the same car half as wide on it."""
    env = race(2, half_width=0.2, vehicle=Vehicle(unit=0.1), spawn="start")
    observations, _ = env.reset(seed=0)
    assert observations[:, 4].tolist() == [0.5, 0.5]
    for _ in range(100):
        observations = env.step(np.array([[0.0, 1.0]] * 2) * (observations[:, :1] < 0.1))[0]
    assert env.speed.numpy().max() < 0.1 * 10.0 * 0.2


def test_rays_see_the_borders():
    env = race(3, rays=(np.pi / 2, -np.pi / 2), ray_range=4.0, spawn="start")
    observations, _ = env.reset(seed=0)
    np.testing.assert_allclose(observations[:, -2:], 1.0 / 4.0, atol=0.02)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: race(0), ValueError, "RaceVectorEnv.num_envs must be"),
        (lambda: race(autoreset_mode="same_step"), ValueError, "autoreset_mode must be one of"),
        (lambda: race(output="jax"), ValueError, "output must be one of"),
        (lambda: race(look_ahead=(0.0,)), ValueError, r"look_ahead\[0\] must be"),
        (lambda: race(max_laps=0), ValueError, "max_laps"),
        (lambda: race(vehicle={}), TypeError, "must be a Vehicle"),
        (lambda: race(vehicle=Vehicle(max_speed=50.0)), ValueError, "1 half width per step"),
        (lambda: race(render_mode="human"), ValueError, "render_mode must be None"),
        (lambda: race(generator="repulsive", capture=True), ValueError, "cannot be captured"),
        (lambda: Vehicle(dt=float("nan")), ValueError, "Vehicle.dt must be"),
        (lambda: race().step(np.zeros((8, 2))), ResetNeeded, "needs a reset"),
        (lambda: started().step(np.zeros((8, 3))), ValueError, r"shape \(8, 2\)"),
        (lambda: started().reset(seed=[1, 2]), ValueError, "must have 8 entries"),
        (lambda: started().reset(options={"levels": 1}), ValueError, "knows reset_mask"),
        (lambda: started().reset(options={"reset_mask": [True] * 8}), TypeError, "NumPy array"),
        (
            lambda: started().reset(options={"reset_mask": np.ones(7, dtype=bool)}),
            ValueError,
            "must have shape",
        ),
        (
            lambda: started().reset(options={"reset_mask": np.ones(8, dtype=int)}),
            TypeError,
            "dtype bool",
        ),
        (
            lambda: started().reset(options={"reset_mask": np.zeros(8, dtype=bool)}),
            ValueError,
            "at least one True",
        ),
        (
            lambda: race().reset(options={"reset_mask": np.ones(8, dtype=bool)}),
            ResetNeeded,
            "first reset",
        ),
        (
            lambda: started().reset(seed=1, options={"level_seeds": np.arange(8)}),
            ValueError,
            "not both",
        ),
        (
            lambda: started().reset(options={"level_seeds": np.arange(8.0)}),
            TypeError,
            "must be ints",
        ),
        (
            lambda: started().reset(options={"level_episodes": np.arange(8)}),
            ValueError,
            "need level_seeds",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def started() -> RaceVectorEnv:
    env = race()
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("generator", ["hull", "polar", "voronoi", "checkpoint", "serpentine"])
def test_every_family_is_driven(generator):
    env = race(32, generator=generator, max_episode_steps=60, track_options={"N_max": 1024})
    observations, infos = env.reset(seed=0)
    for _ in range(130):
        observations, _, terminated, *_, infos = env.step(follow(observations, 0.2))
        assert np.isfinite(observations).all()
        assert not terminated.any()
    assert (infos["episode"] >= 2).all()


def test_random_driving_stays_in_the_space():
    env = race(200, rays=(-2.0, 0.0, 1.0), max_episode_steps=150)
    env.action_space.seed(0)
    observations, _ = env.reset(seed=0)
    push = env.action_space.sample()
    for _ in range(400):
        push = 0.9 * push + 0.3 * env.action_space.sample()
        observations, rewards, *_, infos = env.step(push)
        assert env.observation_space.contains(observations)
        assert np.isfinite(rewards).all() and np.abs(rewards).max() < 12.0
        if "final_obs" in infos:
            rows = [row for row in infos["final_obs"] if row is not None]
            assert all(env.single_observation_space.contains(row) for row in rows)


@pytest.mark.cuda
@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_cuda_step_is_one_graph_and_equals_eager(mode):
    torch = pytest.importorskip("torch")
    options = {"autoreset_mode": mode, "max_episode_steps": 20, "device": "cuda"}
    graph = RaceVectorEnv(300, output="torch", **options)
    eager = RaceVectorEnv(300, capture=False, **options)
    a, _ = graph.reset(seed=1)
    b, _ = eager.reset(seed=1)
    for _ in range(60):
        actions = wander(b)
        a, r, *_ = graph.step(torch.from_numpy(actions).cuda())
        b, q, *_ = eager.step(actions)
        np.testing.assert_array_equal(a.cpu().numpy(), b)
        np.testing.assert_array_equal(r.cpu().numpy(), q)
    assert graph.graph is not None and eager.graph is None
