"""A batched step loop in torch: tools as tensors, new tracks for the finished envs only.

python examples/rl_loop.py --num-envs 4096 --steps 1000
"""

from __future__ import annotations

import argparse

import torch
import warp as wp

from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator
from track_gen.runtime import CollisionChecker, Localizer, ProgressTracker, Sensors, Spawner

DT = 0.05
LOOK_AHEAD = (0.12, 0.24, 0.4)
MAX_STEPS = 600


class RaceLoop:
    """Point cars with a speed and a turn rate; actions are both, in [-1, 1]."""

    def __init__(self, num_envs: int, device: str, generator="bezier") -> None:
        wp_device = wp.get_device(device)
        config = TrackGenConfig(
            num_envs=num_envs, half_width=0.1, generator=generator, device=wp_device
        )
        self.rng = PerEnvSeededRNG(seeds=0, num_envs=num_envs, device=wp_device)
        self.generator = TrackGenerator(config, self.rng)
        self.track = self.generator.generate()

        # The state is torch's; the tools read and write it in place.
        self.position = torch.zeros(num_envs, 1, 2, device=device)
        self.heading = torch.zeros(num_envs, 1, device=device)
        self.speed = torch.zeros(num_envs, 1, device=device)

        self.localizer = Localizer(self.track)
        self.progress = ProgressTracker(self.track, localizer=self.localizer)
        self.collision = CollisionChecker(self.track, box=(0.06, 0.03), localizer=self.localizer)
        self.sensors = Sensors(self.track, look_ahead=LOOK_AHEAD, localizer=self.localizer)
        self.spawner = Spawner(
            self.track, radius=0.04, rng=self.rng, position=self.position, heading=self.heading
        )

        # Views made once follow every update, and every regeneration.
        self.offset = wp.to_torch(self.localizer.n)
        self.heading_error = wp.to_torch(self.localizer.heading_error)
        self.ahead = wp.to_torch(self.sensors.points)
        self.curvature = wp.to_torch(self.sensors.curvatures)
        self.delta = wp.to_torch(self.progress.delta)
        self.laps = wp.to_torch(self.progress.laps)
        self.steps = wp.to_torch(self.progress.steps)
        self.inside = wp.to_torch(self.collision.inside)

    def reset(self, mask: torch.Tensor | None = None) -> None:
        """Put the cars of the masked envs on their track, at rest."""
        self.spawner.random(mask, lateral=0.3)
        if mask is None:
            self.speed.zero_()
        else:
            self.speed.masked_fill_(mask[:, None], 0.0)
        self.localizer.reset(mask)
        self.progress.reset(mask)
        self.localizer.update(self.position, self.heading, mask)
        self.progress.update(mask=mask)

    def observe(self) -> torch.Tensor:
        """Speed, lateral offset, heading error, points and curvatures ahead, [E, 12]."""
        self.sensors.update(self.position, self.heading)
        return torch.cat(
            [
                self.speed,
                self.offset,
                self.heading_error,
                self.ahead[..., :2].flatten(1),
                self.curvature.flatten(1),
            ],
            dim=1,
        )

    def step(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Move, judge, give new tracks to the finished envs; observation, reward, done."""
        throttle, turn = action.clamp(-1.0, 1.0).unbind(1)
        self.speed += DT * 3.0 * throttle[:, None]
        self.speed.clamp_(0.0, 1.0)
        self.heading += DT * 4.0 * turn[:, None]
        along = torch.cat([self.heading.cos(), self.heading.sin()], dim=1)
        self.position += DT * (self.speed * along)[:, None]

        self.localizer.update(self.position, self.heading)
        self.progress.update()
        self.collision.update(self.position, self.heading)
        crashed = ~self.inside[:, 0]
        done = crashed | (self.laps[:, 0] >= 2) | (self.steps[:, 0] >= MAX_STEPS)
        reward = self.delta[:, 0] - crashed.float()

        self.renew(done)
        self.reset(done)
        return self.observe(), reward, done

    def renew(self, done: torch.Tensor) -> None:
        """New seeds for the finished envs only; the others keep their tracks byte for byte."""
        self.rng.advance(done)
        self.generator.generate(done)


def policy(observation: torch.Tensor) -> torch.Tensor:
    """Steer at the point ahead, slow down for corners: a stand-in for a learned policy."""
    speed, x, y = observation[:, 0], observation[:, 3], observation[:, 4]
    wanted = 6.0 / (5.0 + observation[:, 9:].abs().amax(1))
    turn = 2.0 * speed * y / (x * x + y * y).clamp_min(1e-6)
    return torch.stack([4.0 * (wanted - speed), turn / 4.0], dim=1)


def main(num_envs: int = 256, steps: int = 500, device: str | None = None) -> dict:
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    loop = RaceLoop(num_envs, device)
    loop.reset()
    observation = loop.observe()
    total, finished = torch.zeros((), device=device), torch.zeros((), device=device)
    for _ in range(steps):
        observation, reward, done = loop.step(policy(observation))
        total += reward.mean()
        finished += done.float().mean()
    result = {
        "reward per env and step": float(total) / steps,
        "episodes per env": float(finished),
        "laps of running episodes": float(loop.laps.float().mean()),
        "valid": float(wp.to_torch(loop.track.valid).float().mean()),
    }
    for name, value in result.items():
        print(f"{name}: {value:.4f}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--device", default=None)
    arguments = parser.parse_args()
    main(arguments.num_envs, arguments.steps, arguments.device)
