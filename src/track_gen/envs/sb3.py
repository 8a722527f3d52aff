"""The race environment as a Stable-Baselines3 ``VecEnv``."""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv

from track_gen.envs.race import RaceVectorEnv

__all__ = ["RaceVecEnv"]


class RaceVecEnv(VecEnv):
    """Hands a :class:`RaceVectorEnv` to the algorithms of Stable-Baselines3.

    The info of a finished env has ``terminal_observation``, ``TimeLimit.truncated``, the level's
    ``level_seed``, ``level_episode`` and ``family``, ``laps``, ``progress``, ``lap_steps``, and
    ``episode`` with return ``r``, length ``l`` and seconds of simulated time ``t``, as ``Monitor``
    writes it. Infos of other envs are empty.

    Args:
        env: Environment with NumPy outputs that resets in the same step.

    Raises:
        ValueError: If it has another autoreset mode or other outputs.
        TypeError: If it is no :class:`RaceVectorEnv`.
    """

    def __init__(self, env: RaceVectorEnv) -> None:
        if not isinstance(env, RaceVectorEnv):
            raise TypeError(f"RaceVecEnv needs a RaceVectorEnv, got {type(env).__name__}")
        if env.autoreset_mode is not AutoresetMode.SAME_STEP:
            raise ValueError(
                f"RaceVecEnv needs autoreset_mode SameStep, got {env.autoreset_mode.value}"
            )
        if env.output != "numpy":
            raise ValueError(f"RaceVecEnv needs output 'numpy', got {env.output!r}")
        self.env = env
        """The environment."""
        self._actions: np.ndarray | None = None
        self._returns = np.zeros(env.num_envs)
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> np.ndarray:
        """Start new episodes in all envs; uses the seeds and options set before, once."""
        seeds: Any = None if all(seed is None for seed in self._seeds) else self._seeds
        # Options of Stable-Baselines3 are one dictionary per env; the levels are rows of one.
        options = self._options[0] if self._options else None
        observations, infos = self.env.reset(seed=seeds, options=options)
        self.reset_infos = [
            {"level_seed": int(seed), "level_episode": int(episode)}
            for seed, episode in zip(infos["seed"], infos["level_episode"], strict=True)
        ]
        self._returns[:] = 0.0
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        """Keep the actions for :meth:`step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Drive one step."""
        observations, rewards, terminated, truncated, infos = self.env.step(self._actions)
        done = terminated | truncated
        self._returns += rewards
        rows: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if done.any():
            last = infos["final_info"]
            for i in np.flatnonzero(done).tolist():
                steps = int(last["steps"][i])
                rows[i] = {
                    "terminal_observation": infos["final_obs"][i],
                    "TimeLimit.truncated": bool(truncated[i]),
                    "level_seed": int(last["seed"][i]),
                    "level_episode": int(last["level_episode"][i]),
                    "family": int(last["family"][i]),
                    "laps": int(last["laps"][i]),
                    "lap_steps": int(last["lap_steps"][i]),
                    "progress": float(last["progress"][i]),
                    "episode": {
                        "r": float(self._returns[i]),
                        "l": steps,
                        "t": steps * self.env.vehicle.dt,
                    },
                }
            self._returns[done] = 0.0
        return observations, rewards, done, rows

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the environment, once per index."""
        return [getattr(self.env, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the environment, which is one for all envs.

        Raises:
            ValueError: If it is meant for some envs only.
        """
        if len(_as_list(self._get_indices(indices))) != self.num_envs:
            raise ValueError("RaceVecEnv.set_attr: an attribute is common to all envs")
        setattr(self.env, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of the environment once; its result is given once per index."""
        result = getattr(self.env, method_name)(*method_args, **method_kwargs)
        return [result for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No env is wrapped."""
        return [False for _ in self._get_indices(indices)]


def _as_list(indices: Iterable[int]) -> Sequence[int]:
    return list(indices)
