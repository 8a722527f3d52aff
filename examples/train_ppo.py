"""Train PPO on generated tracks, on the CPU, and lap tracks it has never seen.

    pip install 'track-gen[train,viz]'
    python examples/train_ppo.py --minutes 10 --difficulty 0.2 --out out/ppo

Writes the policy, its learning curve and a picture of the driven lines, and prints wall time, steps
per second and the share of held-out tracks that the policy laps. Without ``--difficulty`` the
tracks are those of the family's default settings. With ``--curriculum 0.5`` the difficulty rises
from ``--difficulty`` to that value while the policy laps most of its tracks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections import deque
from pathlib import Path

import matplotlib
import numpy as np
import torch
import warp as wp
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from track_gen.envs import RaceVectorEnv
from track_gen.envs.sb3 import RaceVecEnv

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection

EPISODE_STEPS = 600
OTHER_FAMILIES = ("bezier", "hull", "polar", "voronoi", "checkpoint")
"""Families on which the policy is evaluated too, with their default settings."""
HELD_OUT = 1_000_000_000
"""First of the seeds that are never trained on: training has those from ``--seed`` on."""


class Course(BaseCallback):
    """Stops after the given minutes, raises the difficulty, shows and keeps progress."""

    def __init__(self, minutes: float, difficulty: float | None, goal: float | None) -> None:
        super().__init__()
        self.seconds = 60.0 * minutes
        self.level, self.goal = difficulty, goal
        self.curve: list[tuple[float, int, float, float, float | None]] = []
        self.progress = deque(maxlen=512)
        self.returns = deque(maxlen=512)
        self.bar = Progress(
            TextColumn("PPO"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )

    def _on_training_start(self) -> None:
        self.started = time.perf_counter()
        self.task = self.bar.add_task("PPO", total=self.seconds, text="")
        self.bar.start()

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if info:
                self.progress.append(not info["TimeLimit.truncated"])
                self.returns.append(info["episode"]["r"])
        return time.perf_counter() - self.started < self.seconds

    def _on_rollout_end(self) -> None:
        spent = time.perf_counter() - self.started
        crashed = float(np.mean(self.progress)) if self.progress else 1.0
        reward = float(np.mean(self.returns)) if self.returns else 0.0
        self.curve.append((spent, self.num_timesteps, reward, 1.0 - crashed, self.level))
        harder = self.level is not None and self.goal is not None and self.level < self.goal
        if harder and len(self.progress) == 512 and crashed < 0.1:
            self.level = min(self.level + 0.05, self.goal)
            self.training_env.env_method("set_difficulty", self.level)
            self.progress.clear()
        # The step size falls with the time that is left.
        rest = max(1.0 - spent / self.seconds, 0.0)
        self.model.lr_schedule = lambda _: 3e-4 * rest + 2e-5
        rate = self.num_timesteps / spent
        text = (
            f"{self.num_timesteps:,} steps  {rate:,.0f}/s  return {reward:.1f}  off {crashed:.0%}"
        )
        self.bar.update(self.task, completed=spent, text=text)

    def _on_training_end(self) -> None:
        self.bar.stop()


def evaluate(policy: PPO, difficulty: float | None, generator: str, tracks: int = 100) -> dict:
    """Drive each held-out track once from its start line, without noise, until the first lap."""
    env = RaceVectorEnv(
        tracks,
        generator=generator,
        difficulty=difficulty,
        spawn="start",
        max_laps=1,
        max_episode_steps=2 * EPISODE_STEPS,
        autoreset_mode="NextStep",
        device="cpu",
    )
    observations, _ = env.reset(options={"level_seeds": HELD_OUT + np.arange(tracks)})
    track = env.track.clone()
    laps = np.zeros(tracks, dtype=int)
    lap_steps = np.zeros(tracks, dtype=int)
    running = np.ones(tracks, dtype=bool)
    lines = [(env.position.numpy()[:, 0, :2].copy(), env.speed.numpy().copy(), running.copy())]
    while running.any():
        actions, _ = policy.predict(observations, deterministic=True)
        observations, _, terminated, truncated, infos = env.step(actions)
        done = running & (terminated | truncated)
        laps[done] = infos["laps"][done]
        lap_steps[done] = infos["lap_steps"][done]
        lines.append((env.position.numpy()[:, 0, :2].copy(), env.speed.numpy().copy(), running))
        running = running & ~done
    return {"track": track, "laps": laps, "lap_steps": lap_steps, "lines": lines}


def draw_lines(result: dict, path: Path, columns: int = 4, rows: int = 2) -> None:
    """The lines driven on the first held-out tracks, coloured by speed."""
    track = result["track"]
    places = np.stack([place for place, _, _ in result["lines"]])
    speeds = np.stack([speed for _, speed, _ in result["lines"]])
    alive = np.stack([flag for _, _, flag in result["lines"]])
    figure, axes = plt.subplots(
        rows, columns, figsize=(3.2 * columns, 3.2 * rows), constrained_layout=True
    )
    lines = None
    for i, axis in enumerate(axes.flat):
        env = track.env(i)
        ring = np.r_[env.outer[:, :2], env.outer[:1, :2], env.inner[::-1, :2], env.inner[-1:, :2]]
        axis.fill(*ring.T, color="#e4e4e4", lw=0)
        for border in (env.outer, env.inner):
            closed = np.r_[border, border[:1]]
            axis.plot(closed[:, 0], closed[:, 1], color="#888888", lw=0.7)
        way = places[alive[:, i], i]
        lines = LineCollection(
            np.stack([way[:-1], way[1:]], axis=1), cmap="plasma", lw=1.8, capstyle="round"
        )
        lines.set_array(speeds[alive[:, i], i][1:] / env.half_width)
        lines.set_clim(0.0, 10.0)
        axis.add_collection(lines)
        axis.set_aspect("equal")
        axis.axis("off")
        steps = result["lap_steps"][i]
        axis.set_title(f"{0.05 * steps:.1f} s" if steps else "off the road", fontsize=9)
    figure.colorbar(lines, ax=axes, label="speed [half widths / s]", shrink=0.7)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_curve(curve: list, path: Path) -> None:
    """Return and share of episodes that stay on the road, over wall time."""
    data = np.array([row[:4] for row in curve])
    levels = [row[4] for row in curve]
    figure, axis = plt.subplots(figsize=(6.4, 3.4), constrained_layout=True)
    axis.plot(data[:, 0] / 60.0, data[:, 2], color="tab:blue")
    axis.set_xlabel("wall time [min]")
    axis.set_ylabel("return per episode [half widths]", color="tab:blue")
    share = axis.twinx()
    share.plot(data[:, 0] / 60.0, data[:, 3], color="tab:orange")
    share.set_ylabel("episodes that stay on the road", color="tab:orange")
    if len(set(levels)) > 1:
        share.plot(data[:, 0] / 60.0, levels, color="tab:green", ls="--", label="difficulty")
        share.legend(loc="lower right")
    share.set_ylim(0.0, 1.02)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="wall time of the training")
    parser.add_argument("--difficulty", type=float, help="in [0, 1]; default settings without it")
    parser.add_argument("--curriculum", type=float, help="difficulty to rise to")
    parser.add_argument("--generator", default="bezier")
    parser.add_argument("--envs", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torch-threads", type=int, default=1, help="threads of the networks")
    parser.add_argument("--out", type=Path, default=Path("out/ppo"))
    options = parser.parse_args()
    if options.curriculum is not None and options.difficulty is None:
        parser.error("--curriculum needs --difficulty to start from")
    options.out.mkdir(parents=True, exist_ok=True)
    wp.config.quiet = True
    torch.set_num_threads(options.torch_threads)
    goal = options.difficulty if options.curriculum is None else options.curriculum

    env = RaceVecEnv(
        RaceVectorEnv(
            options.envs,
            generator=options.generator,
            difficulty=options.difficulty,
            max_episode_steps=EPISODE_STEPS,
            autoreset_mode="SameStep",
            device="cpu",
        )
    )
    env.seed(options.seed)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=64,
        batch_size=8192,
        n_epochs=4,
        learning_rate=3e-4,
        gamma=0.98,
        gae_lambda=0.95,
        ent_coef=0.0,
        policy_kwargs={"net_arch": [64, 64], "log_std_init": -0.5, "activation_fn": torch.nn.Tanh},
        seed=options.seed,
        device="cpu",
    )
    course = Course(options.minutes, options.difficulty, goal)
    start = time.perf_counter()
    model.learn(total_timesteps=10**12, callback=course)
    seconds = time.perf_counter() - start
    model.save(options.out / "policy")

    print(f"wall time {seconds:.0f} s, {model.num_timesteps:,} steps, ", end="")
    print(f"{model.num_timesteps / seconds:,.0f} steps per second")
    report = {
        "settings": {name: v for name, v in vars(options).items() if name != "out"},
        "machine": {
            "device": f"CPU {platform.machine()}",
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "warp": wp.__version__,
            "torch": torch.__version__,
            "date": time.strftime("%Y-%m-%d"),
        },
        "seconds": seconds,
        "steps": model.num_timesteps,
        "steps_per_second": model.num_timesteps / seconds,
        "final_difficulty": course.level,
        "held_out": {},
    }
    for difficulty in dict.fromkeys((options.difficulty, course.level)):
        result = evaluate(model, difficulty, options.generator)
        lapped = float(np.mean(result["laps"] >= 1))
        times = env.env.vehicle.dt * result["lap_steps"][result["laps"] >= 1]
        lap = float(np.median(times)) if len(times) else None
        name = "default" if difficulty is None else f"{difficulty:.2f}"
        report["held_out"][name] = {"lapped": lapped, "median_lap_seconds": lap}
        print(f"difficulty {name}: laps {lapped:.0%} of 100 held-out tracks, ", end="")
        print(f"median lap {lap} s")
        draw_lines(result, options.out / f"ppo_lines_{name}.png")
    for generator in OTHER_FAMILIES:
        if generator != options.generator:
            lapped = float(np.mean(evaluate(model, None, generator)["laps"] >= 1))
            report["held_out"][generator] = {"lapped": lapped}
            print(f"{generator}, never trained on: laps {lapped:.0%} of 100 tracks")
    draw_curve(course.curve, options.out / "ppo_curve.png")
    (options.out / "report.json").write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
