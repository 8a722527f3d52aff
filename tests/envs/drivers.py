"""A scripted driver, and the environment as Gymnasium's single envs see it."""

from __future__ import annotations

import gymnasium
import numpy as np

from track_gen.envs import LOOK_AHEAD, RaceVectorEnv

CURVATURE_AHEAD = 5 + 2
"""Column of the curvature at the first look-ahead distance."""


def follow(observations, top_speed=0.3):
    """Stay on the centreline: the curvature ahead, less what the offset and heading ask for."""
    assert LOOK_AHEAD[0] == 1.0
    speed, sine, offset = observations[:, 0], observations[:, 2], observations[:, 3]
    curvature = observations[:, CURVATURE_AHEAD] - offset - 2.0 * sine
    steer = np.arctan(0.5 * curvature) / 0.6
    throttle = np.clip(8.0 * (top_speed - speed), -1.0, 1.0)
    return np.stack([steer, throttle], axis=-1).astype(np.float32)


def wander(observations):
    """Drive off the road soon, in a way that depends on the observation only."""
    actions = follow(observations, 0.8)
    actions[:, 0] = 0.6 * actions[:, 0] + 0.5 * np.sin(7.0 * observations[:, 5])
    return actions


class SingleRace(gymnasium.Env):
    """One env of a :class:`RaceVectorEnv` as a single environment."""

    def __init__(self, **options):
        self.env = RaceVectorEnv(1, autoreset_mode="Disabled", device="cpu", **options)
        self.observation_space = self.env.single_observation_space
        self.action_space = self.env.single_action_space
        self.metadata = {"render_modes": []}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        observations, infos = self.env.reset(seed=None if seed is None else [seed])
        return observations[0], {"level": int(infos["seed"][0])}

    def step(self, action):
        o, r, terminated, truncated, infos = self.env.step(np.asarray(action)[None])
        info = {"level": int(infos["seed"][0])}
        return o[0], float(r[0]), bool(terminated[0]), bool(truncated[0]), info
