"""Steps per second of the race environment, and where the time goes.

python benchmarks/environment.py --json out/environment.json

A scripted driver follows the centreline for episodes of 500 steps; finished envs get a new track
in the same step. Episodes start one after another, so that every step has its share of them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import warp as wp

from common import machine, parser, show
from track_gen.envs import RaceVectorEnv

EPISODE_STEPS = 500


def follow(observations: np.ndarray) -> np.ndarray:
    """Stay on the centreline: the curvature ahead, less what the offset and heading ask for."""
    curvature = observations[:, 7] - observations[:, 3] - 2.0 * observations[:, 2]
    actions = np.empty((len(observations), 2), dtype=np.float32)
    actions[:, 0] = np.arctan(0.5 * curvature) / 0.6
    actions[:, 1] = np.clip(8.0 * (0.3 - observations[:, 0]), -1.0, 1.0)
    return actions


def measure_shares(env: RaceVectorEnv, observations: np.ndarray, steps: int) -> dict[str, float]:
    """Shares of the parts in the time of some steps.

    The kernel that drives also localises, tests for the borders and looks ahead; what a second
    launch without motion takes is the share of these tools.
    """
    spent = dict.fromkeys(("drive", "observe", "progress", "outcome", "levels", "start"), 0.0)

    def watch(name: str, call: Any) -> Any:
        def timed(*args: Any, **kwargs: Any) -> None:
            start = time.perf_counter()
            call(*args, **kwargs)
            spent[name] += time.perf_counter() - start

        return timed

    drive, update = env._drive, env._progress.update
    still, moving = watch("observe", drive), watch("drive", drive)

    def drive_twice() -> None:
        still(moves=0)
        moving(moves=1)

    env._drive = drive_twice
    env._judge = watch("outcome", env._judge)
    env._make_levels = watch("levels", env._make_levels)
    env._start_episodes = watch("start", env._start_episodes)
    env._progress.update = lambda position=None, mask=None: (
        watch("progress", update)(position, mask) if mask is env._driving else update(mask=mask)
    )
    seconds, _, _ = run(env, observations, steps)
    total = seconds - spent["observe"]
    tools = min(spent["observe"], spent["drive"])
    parts = {
        "dynamics": spent["drive"] - tools,
        "tools": tools + spent["progress"],
        "outcome": spent["outcome"],
        "regeneration": spent["levels"] + spent["start"],
    }
    parts["Python, copies, driver"] = total - sum(parts.values())
    return {name: part / total for name, part in parts.items()}


def run(env: RaceVectorEnv, observations: np.ndarray, steps: int) -> tuple[float, np.ndarray, int]:
    """Seconds of some steps, the driver included; the last observations; ended episodes."""
    ended = 0
    start = time.perf_counter()
    for _ in range(steps):
        observations, _, terminated, truncated, _ = env.step(follow(observations))
        ended += int((terminated | truncated).sum())
    return time.perf_counter() - start, observations, ended


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--envs", type=int, nargs="+", default=[64, 1024, 4096])
    arguments.add_argument("--steps", type=int, default=500)
    arguments.add_argument("--repeats", type=int, default=3)
    args = arguments.parse_args()
    wp.config.quiet = True
    rows = []
    for num_envs in args.envs:
        env = RaceVectorEnv(
            num_envs,
            generator="bezier",
            half_width=0.1,
            max_episode_steps=EPISODE_STEPS,
            autoreset_mode="SameStep",
            device=args.device,
        )
        observations, _ = env.reset(seed=0)
        # Episodes at every stage, as they are in a long run.
        stages = np.arange(num_envs, dtype=np.int32) % EPISODE_STEPS
        env._results["steps"].assign(stages)
        _, observations, _ = run(env, observations, 50)
        plain, ended = [], 0
        for _ in range(args.repeats):
            seconds, observations, count = run(env, observations, args.steps)
            plain.append(1e3 * seconds / args.steps)
            ended += count
        step = float(np.median(plain))

        shares = measure_shares(env, observations, args.steps)
        rows.append(
            {
                "E": num_envs,
                "steps/s": 1e3 * num_envs / step,
                "ms/step": step,
                "best ms": min(plain),
                "resets/step": ended / (args.steps * args.repeats),
                **{f"{name} %": 100.0 * share for name, share in shares.items()},
            }
        )
        env.close()
    show(
        "Race environment: bezier, half width 0.1, 500-step episodes, NumPy results, seeds 0",
        rows,
        machine(args.device),
        args.json,
    )


if __name__ == "__main__":
    main()
