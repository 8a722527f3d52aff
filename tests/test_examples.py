"""Every example runs, shortened, and does what it says."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp

import curriculum
import own_kernel
import rl_loop
import whole_step_graph


def test_the_rl_loop_drives_and_gets_new_tracks():
    result = rl_loop.main(num_envs=32, steps=400, device="cpu")
    assert result["episodes per env"] > 0.5
    assert result["reward per env and step"] > 0.01
    assert result["valid"] == 1.0


def test_the_rl_loop_regenerates_only_finished_envs():
    loop = rl_loop.RaceLoop(8, "cpu")
    loop.reset()
    for _ in range(5):
        loop.step(rl_loop.policy(loop.observe()))
    before = {name: array.copy() for name, array in loop.track.numpy().items()}
    episode = loop.rng.episode_warp.numpy().copy()
    loop.position[3] = 50.0  # this one leaves the road
    _, reward, done = loop.step(rl_loop.policy(loop.observe()))
    assert done.tolist() == [k == 3 for k in range(8)]
    assert reward[3] <= -1.0
    assert (loop.rng.episode_warp.numpy() - episode).tolist() == [int(k == 3) for k in range(8)]
    others = np.arange(8) != 3
    for name, array in loop.track.numpy().items():
        assert np.array_equal(array[others], before[name][others], equal_nan=True), name
    assert not np.array_equal(loop.track.center.numpy()[3], before["center"][3], equal_nan=True)
    assert loop.inside[3].item() is False and loop.steps[3].item() == 0
    loop.step(rl_loop.policy(loop.observe()))
    assert loop.inside.all() and (loop.delta.abs() < 0.2).all()


def test_the_curriculum_rises_where_agents_succeed():
    loop = curriculum.CurriculumLoop(24, "cpu")
    loop.reset()
    loop.difficulty.fill_(0.3)
    loop.laps[:8] = 2  # these succeed, the last ones leave the road
    loop.inside.fill_(True)
    loop.inside[16:] = False
    done = loop.inside.new_tensor([k % 2 == 0 for k in range(24)])
    before = loop.track.half_width.numpy().copy()
    loop.renew(done)
    expected = np.full(24, 0.3)
    expected[0:8:2], expected[16::2] = 0.4, 0.25
    np.testing.assert_allclose(loop.difficulty.numpy(), expected, atol=1e-6)
    after = loop.track.half_width.numpy()
    np.testing.assert_allclose(after[::2], 0.1 - 0.05 * expected[::2], rtol=1e-5)
    assert (after[1::2] == before[1::2]).all()

    result = curriculum.main(num_envs=24, steps=600, device="cpu")
    assert result["difficulty"] > 0.08 and result["half width"] < 0.097
    assert result["valid"] == 1.0


def test_own_kernel():
    result = own_kernel.main(num_envs=64, num_agents=2, device="cpu")
    assert result["off the road"] == 0.0
    assert result["offset"] <= 0.51 and result["heading error"] < 0.3
    assert result["free way"] > 0.1


@pytest.mark.parametrize("agents", [1, 2])
def test_a_whole_step_graph_gives_what_eager_steps_give(agents):
    eager = whole_step_graph.Race(12, agents, "cpu")
    race = whole_step_graph.Race(12, agents, "cpu")
    graph = race.capture()
    eager.step()
    for k in range(150):
        if k % 25 == 5:
            for one in (eager, race):  # someone leaves the road
                position = one.position.numpy().copy()
                position[k // 25, 0, 0] = 30.0
                one.position.assign(position)
        wp.capture_launch(graph)
        eager.step()
        for name in ("position", "heading", "speed", "reward", "done"):
            a, b = getattr(eager, name).numpy(), getattr(race, name).numpy()
            assert np.array_equal(a, b), (name, k)
    for name, array in eager.track.numpy().items():
        assert np.array_equal(array, race.track.numpy()[name], equal_nan=True), name
    assert race.rng.episode_warp.numpy().sum() >= 6
    assert race.counts.numpy()[:, 0].sum() >= 6


def test_a_whole_step_graph_finishes_races():
    result = whole_step_graph.main(num_envs=16, steps=500, device="cpu")
    assert result["races finished"] > 8
    assert result["crashes"] == 0
