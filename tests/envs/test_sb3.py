from __future__ import annotations

import numpy as np
import pytest
from drivers import follow, wander

from track_gen.envs import RaceVectorEnv

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from stable_baselines3 import PPO  # noqa: E402
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize  # noqa: E402

from track_gen.envs.sb3 import RaceVecEnv  # noqa: E402


def adapter(num_envs=4, **options) -> RaceVecEnv:
    return RaceVecEnv(plain(num_envs, **options))


def plain(num_envs=4, **options) -> RaceVectorEnv:
    return RaceVectorEnv(num_envs, autoreset_mode="SameStep", device="cpu", **options)


def test_steps_are_those_of_the_environment():
    env, other = adapter(max_episode_steps=12), plain(max_episode_steps=12)
    env.seed(3)
    a = env.reset()
    b, _ = other.reset(seed=[3, 4, 5, 6])
    returns = np.zeros(4)
    ended = 0
    for _ in range(40):
        a, r, done, rows = env.step(wander(a))
        b, q, terminated, truncated, infos = other.step(wander(b))
        returns += q
        assert a.tobytes() == b.tobytes() and r.tobytes() == q.tobytes()
        np.testing.assert_array_equal(done, terminated | truncated)
        for i in range(4):
            if not done[i]:
                assert rows[i] == {}
                continue
            ended += 1
            np.testing.assert_array_equal(rows[i]["terminal_observation"], infos["final_obs"][i])
            assert rows[i]["TimeLimit.truncated"] == truncated[i]
            assert rows[i]["episode"]["r"] == pytest.approx(returns[i], abs=1e-5)
            assert rows[i]["episode"]["l"] == infos["final_info"]["steps"][i]
            assert rows[i]["level_seed"] == 3 + i
            returns[i] = 0.0
    assert ended > 10


def test_seeds_and_options_are_used_once():
    env = adapter()
    env.set_options({"level_seeds": [5, 6, 7, 8]})
    first = env.reset()
    assert [info["level_seed"] for info in env.reset_infos] == [5, 6, 7, 8]
    env.reset()
    assert [info["level_episode"] for info in env.reset_infos] == [1] * 4
    env.seed(5)
    assert env.reset().tobytes() == first.tobytes()


def test_wrappers_and_attributes():
    env = adapter(max_episode_steps=10)
    assert env.get_attr("num_envs") == [4] * 4
    env.env_method("set_difficulty", 0.5)
    assert env.env_is_wrapped(VecMonitor) == [False] * 4
    wrapped = VecNormalize(VecMonitor(env))
    observations = wrapped.reset()
    for _ in range(25):
        observations, *_ = wrapped.step(wander(np.asarray(observations)))
    assert np.isfinite(observations).all()
    with pytest.raises(ValueError, match="common to all envs"):
        env.set_attr("copy", True, indices=0)
    with pytest.raises(ValueError, match="SameStep"):
        RaceVecEnv(RaceVectorEnv(2, autoreset_mode="NextStep", device="cpu"))
    with pytest.raises(ValueError, match="numpy"):
        RaceVecEnv(plain(2, output="torch"))
    with pytest.raises(TypeError, match="RaceVectorEnv"):
        RaceVecEnv("env")


def mean_progress(model, steps=300) -> float:
    env = adapter(64)
    env.seed(10**6)
    observations = env.reset()
    rewards = 0.0
    for _ in range(steps):
        observations, r, *_ = env.step(model.predict(observations, deterministic=True)[0])
        rewards += r.mean()
    return rewards / steps


@pytest.fixture
def one_torch_thread():
    """Networks this small gain nothing from more, and threads that wait for each other lose."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def test_ppo_learns(one_torch_thread):
    """Within seconds a policy drives forward: what this shows is that the signals are right."""
    env = adapter(256, max_episode_steps=300)
    env.seed(0)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=32,
        batch_size=4096,
        n_epochs=4,
        gamma=0.97,
        seed=0,
        device="cpu",
        policy_kwargs={"net_arch": [64, 64], "log_std_init": -0.5},
    )
    before = mean_progress(model)
    model.learn(25 * 32 * 256)
    after = mean_progress(model)
    assert after > before + 0.05
    assert after > 0.05


def test_the_scripted_driver_keeps_to_the_road():
    env = adapter(64)
    env.seed(0)
    observations = env.reset()
    for _ in range(400):
        observations, _, done, _ = env.step(follow(observations))
        assert not done.any()
