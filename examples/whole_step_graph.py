"""A whole environment step as one graph: policy, dynamics, tools, new tracks, spawn.

python examples/whole_step_graph.py --num-envs 4096 --steps 1000
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import warp as wp

from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator
from track_gen.geometry import cos_sin
from track_gen.runtime import CollisionChecker, Localizer, ProgressTracker, Sensors, Spawner

DT = 0.05
MAX_STEPS = 600
LAPS = 2


@wp.kernel
def drive_kernel(
    # In:
    ahead_in: wp.array3d[wp.vec3f],
    curvature_in: wp.array3d[wp.float32],
    # In and out:
    position: wp.array2d[wp.vec3f],
    heading: wp.array2d[wp.float32],
    speed: wp.array2d[wp.float32],
):
    """Drive an arc to the first point ahead, slow down for corners. Launch dim (E, A)."""
    env, agent = wp.tid()
    aim = ahead_in[env, agent, 0]
    bend = float(0.0)
    for k in range(curvature_in.shape[2]):
        bend = wp.max(bend, wp.abs(curvature_in[env, agent, k]))
    wanted = 6.0 / (5.0 + bend)
    v = speed[env, agent]
    v = wp.clamp(v + DT * wp.clamp(8.0 * (wanted - v), -3.0, 2.0), 0.0, 1.0)
    turn = wp.clamp(2.0 * v * aim[1] / (aim[0] * aim[0] + aim[1] * aim[1]), -4.0, 4.0)
    yaw = heading[env, agent] + DT * turn
    direction = cos_sin(yaw)
    speed[env, agent] = v
    heading[env, agent] = yaw
    position[env, agent] = position[env, agent] + DT * v * wp.vec3f(direction[0], direction[1], 0.0)


@wp.kernel
def judge_kernel(
    # In:
    delta_in: wp.array2d[wp.float32],
    laps_in: wp.array2d[wp.int32],
    steps_in: wp.array2d[wp.int32],
    inside_in: wp.array2d[wp.bool],
    # Out:
    reward_out: wp.array2d[wp.float32],
    done_out: wp.array[wp.bool],
    counts_out: wp.array2d[wp.int32],
):
    """Reward of each agent; an env is done when one of its agents is. Launch dim (E,)."""
    env = wp.tid()
    done = bool(False)
    for agent in range(laps_in.shape[1]):
        reward = delta_in[env, agent]
        if not inside_in[env, agent]:
            reward -= 1.0
            done = True
            counts_out[env, 0] = counts_out[env, 0] + 1
        if laps_in[env, agent] >= LAPS:
            done = True
            counts_out[env, 1] = counts_out[env, 1] + 1
        if steps_in[env, agent] >= MAX_STEPS:
            done = True
        reward_out[env, agent] = reward
    done_out[env] = done


@wp.kernel
def stop_kernel(
    # In:
    done_in: wp.array[wp.bool],
    # Out:
    speed_out: wp.array2d[wp.float32],
):
    """Agents of finished envs start at rest. Launch dim (E, A)."""
    env, agent = wp.tid()
    if done_in[env]:
        speed_out[env, agent] = 0.0


class Race:
    """A batch of races whose step can be captured: nothing in it looks at the device's data."""

    def __init__(self, num_envs: int, num_agents: int = 1, device: str | None = None) -> None:
        E, A = self.shape = num_envs, num_agents
        self.device = wp.get_device(device)
        config = TrackGenConfig(num_envs=E, half_width=0.1, device=self.device)
        self.rng = PerEnvSeededRNG(seeds=0, num_envs=E, device=self.device)
        self.generator = TrackGenerator(config, self.rng)
        self.track = self.generator.generate()

        self.speed = wp.zeros((E, A), dtype=wp.float32, device=self.device)
        self.reward = wp.zeros((E, A), dtype=wp.float32, device=self.device)
        self.done = wp.full(E, True, dtype=wp.bool, device=self.device)
        self.counts = wp.zeros((E, 2), dtype=wp.int32, device=self.device)
        """Crashes and finished races so far."""

        self.localizer = Localizer(self.track, A, borders=False)
        shared = {"num_agents": A, "localizer": self.localizer}
        self.progress = ProgressTracker(self.track, **shared)
        self.collision = CollisionChecker(self.track, radius=0.02, **shared)
        self.sensors = Sensors(self.track, look_ahead=(0.12, 0.24, 0.4), **shared)
        self.spawner = Spawner(self.track, A, radius=0.03, rng=self.rng)
        self.position, self.heading = self.spawner.position, self.spawner.heading
        self.restart()

    def restart(self) -> None:
        """Put the agents of the finished envs on their track and observe."""
        self.spawner.random(self.done, lateral=0.3)
        self.launch(stop_kernel, self.shape, [self.done], [self.speed])
        self.localizer.reset(self.done)
        self.progress.reset(self.done)
        self.localizer.update(self.position, self.heading, self.done)
        self.progress.update(mask=self.done)
        self.sensors.update(self.position, self.heading)

    def step(self) -> None:
        """One environment step, for every env."""
        state = [self.position, self.heading, self.speed]
        self.launch(drive_kernel, self.shape, [self.sensors.points, self.sensors.curvatures], state)
        self.localizer.update(self.position, self.heading)
        self.progress.update()
        self.collision.update(self.position)
        self.launch(
            judge_kernel,
            self.shape[0],
            [self.progress.delta, self.progress.laps, self.progress.steps, self.collision.inside],
            [self.reward, self.done, self.counts],
        )
        self.rng.advance(self.done)
        self.generator.generate(self.done)
        self.restart()

    def launch(self, kernel: wp.Kernel, dim, inputs: list, outputs: list) -> None:
        """Launch a kernel on the race's device."""
        wp.launch(kernel, dim=dim, inputs=inputs, outputs=outputs, device=self.device)

    def capture(self) -> wp.Graph:
        """The step as one graph; an eager step first loads every kernel."""
        self.generator.warmup()
        self.step()
        with wp.ScopedCapture(device=self.device) as capture:
            self.step()
        return capture.graph


def main(
    num_envs: int = 256, steps: int = 500, device: str | None = None, num_agents: int = 1
) -> dict:
    race = Race(num_envs, num_agents, device)
    graph = race.capture()
    start = time.perf_counter()
    for _ in range(steps):
        wp.capture_launch(graph)
    wp.synchronize_device(race.device)
    took = time.perf_counter() - start
    crashes, finished = race.counts.numpy().sum(axis=0)
    result = {
        "ms per step": 1e3 * took / steps,
        "crashes": int(crashes),
        "races finished": int(finished),
        "episodes": int(race.rng.episode_warp.numpy().sum()),
        "speed": float(np.mean(race.speed.numpy())),
    }
    for name, value in result.items():
        print(f"{name}: {value:.4g}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--num-agents", type=int, default=1)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--device", default=None)
    arguments = parser.parse_args()
    main(arguments.num_envs, arguments.steps, arguments.device, arguments.num_agents)
