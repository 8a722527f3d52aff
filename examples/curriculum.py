"""A curriculum per env: tracks get narrower and twistier as their driver succeeds.

python examples/curriculum.py --num-envs 1024 --steps 3000
"""

from __future__ import annotations

import argparse

import torch
import warp as wp

from rl_loop import RaceLoop, policy
from track_gen import Bezier, Checkpoint, Mixture, Polar

UP, DOWN = 0.1, 0.05
"""Change of the difficulty after two laps, and after leaving the road."""


class CurriculumLoop(RaceLoop):
    """The loop of ``rl_loop.py`` over three families, with a difficulty of its own in every env."""

    def __init__(self, num_envs: int, device: str) -> None:
        mixture = Mixture({Bezier(): 2, Polar(): 1, Checkpoint(): 1})
        super().__init__(num_envs, device, generator=mixture)
        self.difficulty = torch.zeros(num_envs, device=device)
        self.family = wp.to_torch(self.track.family)
        self.generator.set_difficulty(self.difficulty)
        self.generator.generate()

    def renew(self, done: torch.Tensor) -> None:
        """Move the difficulty of the finished envs; their next track has it already."""
        succeeded = self.inside[:, 0] & (self.laps[:, 0] >= 2)
        change = torch.where(succeeded, UP, torch.where(self.inside[:, 0], 0.0, -DOWN))
        self.difficulty += torch.where(done, change, 0.0)
        self.difficulty.clamp_(0.0, 1.0)
        # On the device, in place and without a copy: no synchronisation, no new capture.
        self.generator.set_difficulty(self.difficulty, done)
        super().renew(done)


def main(num_envs: int = 256, steps: int = 3000, device: str | None = None) -> dict:
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    loop = CurriculumLoop(num_envs, device)
    loop.reset()
    observation = loop.observe()
    for _ in range(steps):
        observation, _, _ = loop.step(policy(observation))
    result = {
        "difficulty": float(loop.difficulty.mean()),
        "half width": float(wp.to_torch(loop.track.half_width).mean()),
        "valid": float(wp.to_torch(loop.track.valid).float().mean()),
    }
    for k, name in enumerate(loop.generator.families):
        result[f"difficulty of {name}"] = float(loop.difficulty[loop.family == k].mean())
    for name, value in result.items():
        print(f"{name}: {value:.4f}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--device", default=None)
    arguments = parser.parse_args()
    main(arguments.num_envs, arguments.steps, arguments.device)
