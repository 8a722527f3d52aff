"""The race environment over a mixture of families."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from drivers import follow, wander
from gymnasium.vector import AutoresetMode

from track_gen import Bezier, Checkpoint, Mixture, PerEnvSeededRNG, Polar, TrackGenerator
from track_gen.envs import RaceVectorEnv

MIXTURE = Mixture({Bezier(): 2, Polar(): 1, Checkpoint(): 1})


def race(num_envs=12, **options) -> RaceVectorEnv:
    options = {"autoreset_mode": "SameStep", "max_episode_steps": 15, **options}
    return RaceVectorEnv(
        num_envs, device="cpu", generator=MIXTURE, track_options={"N_max": 1024}, **options
    )


def test_families_vary_over_episodes_and_the_info_names_them():
    env = race()
    observations, infos = env.reset(seed=1)
    assert env.generator.families == ("bezier", "polar", "checkpoint")
    played = [set() for _ in range(12)]
    ended = 0
    for _ in range(80):
        before = infos["family"]
        assert before.tolist() == env.track.family.numpy().tolist()
        assert infos["_family"].all()
        for k in range(12):
            played[k].add(int(before[k]))
        observations, _, terminated, truncated, infos = env.step(wander(observations))
        done = terminated | truncated
        if done.any():
            ended += done.sum()
            last = infos["final_info"]
            np.testing.assert_array_equal(last["family"], np.where(done, before, 0))
            np.testing.assert_array_equal(last["_family"], done)
    assert ended > 48
    assert all(len(families) > 1 for families in played)
    assert set.union(*played) == {0, 1, 2}


def test_level_seeds_replay_the_level_and_its_family():
    env = race(difficulty=0.4)
    observations, infos = env.reset(seed=3)
    seen = {}
    for _ in range(60):
        for k in range(12):
            name = int(infos["seed"][k]), int(infos["episode"][k])
            center = env.track.center.numpy()[k]
            seen.setdefault(name, (int(infos["family"][k]), center.tobytes(), observations[k]))
        observations, *_, infos = env.step(follow(observations))
    names = sorted(seen, key=lambda name: (name[1], name[0]))[::-3][:9]
    assert len({name[1] for name in names}) > 1
    for capture in (False, True):
        other = race(9, difficulty=0.4, capture=capture)
        _, infos = other.reset(
            options={"level_seeds": [n[0] for n in names], "level_episodes": [n[1] for n in names]}
        )
        assert infos["family"].tolist() == [seen[name][0] for name in names]
        assert len(set(infos["family"].tolist())) > 1
        for k, name in enumerate(names):
            assert other.track.center.numpy()[k].tobytes() == seen[name][1]


def test_a_level_is_the_track_that_its_family_alone_makes():
    env = race(16)
    env.reset(seed=2)
    families = env.track.family.numpy()
    for k, settings in enumerate(MIXTURE.settings):
        rng = PerEnvSeededRNG(seeds=0, num_envs=16, device="cpu")
        rng.load_state_dict(env.rng.state_dict())
        config = env.generator.config
        alone = TrackGenerator(type(config)(**{**vars(config), "generator": settings}), rng)
        center = alone.generate().center.numpy()
        rows = families == k
        assert rows.any()
        assert env.track.center.numpy()[rows].tobytes() == center[rows].tobytes()


@pytest.mark.parametrize("mode", list(AutoresetMode)[:2])
def test_captured_step_equals_eager_over_edits(mode):
    eager, captured = race(autoreset_mode=mode), race(autoreset_mode=mode, capture=True)
    (a, _), (b, _) = (env.reset(seed=5) for env in (eager, captured))
    late = []
    for step in range(90):
        if step == 30:
            mask = np.arange(12) < 6
            for env in (eager, captured):
                env.generator.parameters.set("bezier.weight", 0.0)
                env.set_difficulty(np.linspace(0.0, 1.0, 12))
                env.set_difficulty(0.9, mask=mask)
        actions = wander(a)
        a, *x, i = eager.step(actions)
        b, *y, j = captured.step(actions)
        assert a.tobytes() == b.tobytes()
        for p, q in zip(x, y, strict=True):
            assert p.tobytes() == q.tobytes()
        assert i["family"].tobytes() == j["family"].tobytes()
        if step > 60:
            late.append(i["family"])
            widths = eager.track.half_width.numpy()
            values = np.where(mask, 0.9, np.linspace(0.0, 1.0, 12))
            np.testing.assert_allclose(widths, 0.1 * (1.0 - 0.5 * values), rtol=1e-5)
    assert captured.graph is not None
    assert set(np.concatenate(late)) == {1, 2}


def test_torch_and_sb3_name_the_family():
    torch = pytest.importorskip("torch")
    env = race(output="torch")
    _, infos = env.reset(seed=1)
    assert infos["family"].dtype == torch.int32
    assert infos["family"].tolist() == env.track.family.numpy().tolist()
    pytest.importorskip("stable_baselines3")
    from track_gen.envs.sb3 import RaceVecEnv

    vec = RaceVecEnv(race(max_episode_steps=3))
    vec.reset()
    families = vec.env.track.family.numpy().copy()
    for _ in range(3):
        *_, rows = vec.step(np.zeros((12, 2), dtype=np.float32))
    assert [row["family"] for row in rows] == families.tolist()


def test_env_without_a_positive_weight_gets_the_ring():
    env = race(4)
    for name in ("bezier", "polar", "checkpoint"):
        weights = wp.array([1.0, 0.0, 1.0, 1.0], dtype=wp.float32, device="cpu")
        env.generator.parameters.set(f"{name}.weight", weights)
    observations, infos = env.reset(seed=0)
    assert infos["fallback"].tolist() == [False, True, False, False]
    for _ in range(30):
        observations, rewards, *_, infos = env.step(follow(observations))
        assert np.isfinite(observations).all() and np.isfinite(rewards).all()
