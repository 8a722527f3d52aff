"""Racing on generated tracks as a Gymnasium vector environment; see ``docs/environment.md``."""

# pyright: basic
from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import warp as wp
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv

from track_gen.batch import Track
from track_gen.checks import (
    check_bool,
    check_choice,
    check_device,
    check_float,
    check_floats,
    check_int,
)
from track_gen.config import TrackGenConfig
from track_gen.envs.kernels import (
    DISABLED,
    NEXT_STEP,
    OBSERVATION_LIMIT,
    SAME_STEP,
    VALUES_AHEAD,
    VALUES_HERE,
    accept_levels_kernel,
    drive_kernel,
    give_ring_kernel,
    judge_kernel,
    mark_levels_kernel,
    start_kernel,
)
from track_gen.envs.levels import LevelInfo, as_reset_mask, as_words, record_actions
from track_gen.envs.vehicle import Vehicle
from track_gen.executor import Executor, Pipeline
from track_gen.recording import recording_here
from track_gen.rng import PerEnvSeededRNG, seeds_from_int
from track_gen.row_launch import RowLaunch
from track_gen.runtime.localize import Localizer
from track_gen.runtime.progress import ProgressTracker
from track_gen.runtime.spawn import Spawner
from track_gen.track_generator import TrackGenerator

__all__ = ["LOOK_AHEAD", "RaceVectorEnv"]

LOOK_AHEAD = (1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0, 13.0)
"""Default look-ahead distances [half widths]."""

_LEVEL_KEYS = ("seed", "level_episode", "family", "laps", "lap_steps", "progress", "steps")
"""What the infos say about the running level, and about the one that has just ended."""

_MODES = {
    AutoresetMode.SAME_STEP: SAME_STEP,
    AutoresetMode.NEXT_STEP: NEXT_STEP,
    AutoresetMode.DISABLED: DISABLED,
}


class _DevicePass:
    """All launches of one step, as one command of an executor."""

    def __init__(self, env: RaceVectorEnv) -> None:
        self._env = env

    def launch(self) -> None:
        self._env._launch_step()


class RaceVectorEnv(VectorEnv):
    """Many cars, each alone on its own track; a finished env gets a new track at once.

    A level is named by (seed, episode). Observations, rewards and ends are described in
    ``docs/environment.md``. All results that a call returns are copies, so they never change
    afterwards, unless ``copy`` is False.

    Args:
        num_envs: Envs E.
        generator: Name of a track family, its settings object, or a Mixture.
        half_width: Half width of the road [length], or a pair drawn per level.
        track_options: Other fields of :class:`track_gen.TrackGenConfig`.
        difficulty: Scalar in [0, 1] for all envs; None keeps the settings of ``generator``.
        vehicle: Parameters of the car; None takes the defaults.
        look_ahead: Distances along the centreline at which it is observed [half widths], > 0.
        rays: Angles of lidar rays from the heading [rad], left positive; none by default.
        ray_range: Range of the rays [half widths].
        max_episode_steps: Steps after which an episode is truncated.
        max_laps: Laps after which an episode is truncated; None never ends one.
        spawn: "random" starts at a random place of the loop with some offset and heading error,
            "start" at the start line on the centreline.
        spawn_lateral: Largest offset of a random start, as a share of the free half width.
        spawn_heading: Largest heading error of a random start [rad].
        progress_reward: Reward per half width of progress.
        reverse_penalty: Further cost per half width driven backward.
        off_road_penalty: Cost of leaving the road.
        redraws: How often an env whose track stayed invalid advances to its next episode before
            the ring of last resort is used.
        autoreset_mode: One of Gymnasium's three modes, or its value; next-step is Gymnasium's
            default too, and what its observation wrappers need.
        output: "numpy", or "torch" for tensors on the device.
        copy: False returns views of the device's arrays, which the next call overwrites; NumPy
            results of a CUDA device are copies all the same.
        device: Warp device; None is Warp's current device.
        num_threads: CPU threads; None is one per core. Results do not depend on it.
        capture: None captures a step as one graph on CUDA only; True on the CPU too; False never.
        render_mode: None; there is no rendering.

    Raises:
        ValueError: If an argument is out of range.
        TypeError: If an argument has the wrong type.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        generator: Any = "bezier",
        half_width: Any = 0.1,
        track_options: dict[str, Any] | None = None,
        difficulty: float | None = None,
        vehicle: Vehicle | None = None,
        look_ahead: Sequence[float] = LOOK_AHEAD,
        rays: Sequence[float] = (),
        ray_range: float = 20.0,
        max_episode_steps: int = 500,
        max_laps: int | None = None,
        spawn: str = "random",
        spawn_lateral: float = 0.5,
        spawn_heading: float = 0.2,
        progress_reward: float = 1.0,
        reverse_penalty: float = 1.0,
        off_road_penalty: float = 10.0,
        redraws: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        output: str = "numpy",
        copy: bool = True,
        device: Any = None,
        num_threads: int | None = None,
        capture: bool | None = None,
        render_mode: None = None,
    ) -> None:
        name = type(self).__name__
        E = self.num_envs = check_int(f"{name}.num_envs", num_envs, low=1, high=2**31 - 1)
        device = self.device = check_device(f"{name}.device", device)
        if not isinstance(autoreset_mode, AutoresetMode):
            check_choice(f"{name}.autoreset_mode", autoreset_mode, [m.value for m in AutoresetMode])
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.output = check_choice(f"{name}.output", output, ("numpy", "torch"))
        self.copy = check_bool(f"{name}.copy", copy)
        if render_mode is not None:
            raise ValueError(f"{name}.render_mode must be None, got {render_mode!r}")
        self.render_mode = None
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        vehicle = Vehicle() if vehicle is None else vehicle
        if not isinstance(vehicle, Vehicle):
            raise TypeError(f"{name}.vehicle must be a Vehicle, got {type(vehicle).__name__}")
        self.vehicle = vehicle
        distances = check_floats(f"{name}.look_ahead", look_ahead, low=0.0, low_open=True)
        angles = check_floats(f"{name}.rays", rays, low=-math.inf)
        ray_range = check_float(f"{name}.ray_range", ray_range, low=0.0, low_open=True)
        steps = check_int(f"{name}.max_episode_steps", max_episode_steps, low=1, high=2**31 - 1)
        laps = 0
        if max_laps is not None:
            laps = check_int(f"{name}.max_laps", max_laps, low=1, high=2**31 - 1)
        check_choice(f"{name}.spawn", spawn, ("random", "start"))
        lateral = check_float(f"{name}.spawn_lateral", spawn_lateral, 0.0, 1.0)
        turn = check_float(f"{name}.spawn_heading", spawn_heading, 0.0, math.pi)
        progress_reward = check_float(f"{name}.progress_reward", progress_reward, -math.inf)
        reverse_penalty = check_float(f"{name}.reverse_penalty", reverse_penalty, 0.0)
        off_road_penalty = check_float(f"{name}.off_road_penalty", off_road_penalty, 0.0)
        self._redraws = check_int(f"{name}.redraws", redraws, low=0, high=64)
        if capture is not None:
            check_bool(f"{name}.capture", capture)

        config = TrackGenConfig(
            num_envs=E,
            device=device,
            generator=generator,
            half_width=half_width,
            num_threads=num_threads,
            **(track_options or {}),
        )
        widths = config.half_width if isinstance(config.half_width, tuple) else (config.half_width,)
        step_length = vehicle.max_speed * vehicle.dt
        if vehicle.unit is not None:
            step_length *= vehicle.unit / min(widths)
        if step_length > 1.0:
            raise ValueError(
                f"{name}.vehicle must not drive farther than 1 half width per step, "
                f"got {step_length:g} at full speed"
            )
        self.rng = PerEnvSeededRNG(seeds=0, num_envs=E, device=device)
        """Seeds and episodes of the levels."""
        self.generator = TrackGenerator(config, self.rng, capture=False)
        """Makes the tracks; ``generator.parameters`` may be set at any time."""
        if difficulty is not None:
            self.set_difficulty(difficulty)

        size = VALUES_HERE + VALUES_AHEAD * len(distances) + len(angles)
        limit = OBSERVATION_LIMIT
        self.single_observation_space = gymnasium.spaces.Box(-limit, limit, (size,), np.float32)
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.observation_space = gymnasium.spaces.Box(-limit, limit, (E, size), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (E, 2), np.float32)

        def zeros(dtype: Any, *inner: int) -> wp.array:
            return wp.zeros((E, *inner), dtype=dtype, device=device)

        # Tools see the tracks through a mask of its own, which the ring of last resort passes.
        self._drivable = zeros(wp.bool)
        self.track: Track = dataclasses.replace(self.generator.track, valid=self._drivable)
        """The tracks that are driven; ``valid`` is True in every env after a reset."""
        self._places = Localizer(self.track, borders=False, num_threads=num_threads)
        # An episode ends where the car leaves the road, so no place beside it has to be told apart.
        self._progress = ProgressTracker(
            self.track, localizer=self._places, max_offset=math.inf, num_threads=num_threads
        )
        unit = 0.0 if vehicle.unit is None else vehicle.unit
        body = vehicle.radius * (unit or max(widths))
        self._spawner = Spawner(self.track, radius=body, num_threads=1)
        self.position = self._spawner.position
        """Positions of the cars [length], vec3f [E, 1]."""
        self.heading = self._spawner.heading
        """Headings [rad], float32 [E, 1]."""
        self.speed = zeros(wp.float32)
        """Speeds [length/s], float32 [E]."""
        self.fallback = zeros(wp.bool)
        """Envs on the ring of last resort, bool [E]."""
        self._actions = zeros(wp.float32, 2)
        self._driving = zeros(wp.bool)
        self._reset_mask = zeros(wp.bool)
        self._missing = zeros(wp.bool)
        off_road = zeros(wp.bool)
        self._place_s, self._place_n, self._turn = (zeros(wp.float32, 1) for _ in range(3))
        self._results = {
            "observation": zeros(wp.float32, size),
            "reward": zeros(wp.float32),
            "terminated": zeros(wp.bool),
            "truncated": zeros(wp.bool),
            "seed": self.rng.seeds_warp,
            "level_episode": self.rng.episode_warp,
            "family": self.track.family,
            "laps": self._progress.laps.flatten(),
            "lap_steps": self._progress.last_lap_steps.flatten(),
            "progress": zeros(wp.float32),
            "steps": zeros(wp.int32),
            "fallback": self.fallback,
            "final_observation": zeros(wp.float32, size),
            "final_progress": zeros(wp.float32),
            "final_laps": zeros(wp.int32),
            "final_lap_steps": zeros(wp.int32),
            "final_steps": zeros(wp.int32),
            "final_seed": zeros(wp.int32),
            "final_level_episode": zeros(wp.int32),
            "final_family": zeros(wp.int32),
        }
        r = self._results

        view = self._places.view
        mask = self._reset_mask

        def launch(kernel: Any, inputs: list[Any], outputs: list[Any], threads: int | None):
            return RowLaunch(kernel, E, (), inputs, outputs, device, threads)

        directions = np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)
        clear_share = max(1.0 - 2.0 * config.validity_width_tolerance - 0.05, 0.0)

        def drive(mask: wp.array, moves: int, threads: int | None) -> RowLaunch:
            return launch(
                drive_kernel,
                [
                    view, mask, vehicle.parameters(), self._actions, moves, clear_share,
                    wp.array(distances, dtype=wp.float32, device=device),
                    wp.array(directions, dtype=wp.vec2f, device=device), ray_range,
                    self.position, self.heading, self.speed, self._places.segment,
                ],
                [self._places.s, off_road, r["observation"]],
                threads,
            )  # fmt: skip

        self._drive = drive(self._driving, 1, num_threads)
        self._observe = drive(mask, 0, 1)
        self._judge = launch(
            judge_kernel,
            [
                view, self._progress.delta, self._progress.total, self._progress.laps,
                self._progress.last_lap_steps, off_road, r["observation"], r["seed"],
                r["level_episode"], r["family"], _MODES[self.autoreset_mode], steps, laps,
                progress_reward, reverse_penalty, off_road_penalty, self._driving, r["steps"],
            ],
            [
                r["reward"], r["terminated"], r["truncated"], mask, r["progress"],
                r["final_observation"], r["final_progress"], r["final_laps"],
                r["final_lap_steps"], r["final_steps"], r["final_seed"], r["final_level_episode"],
                r["final_family"],
            ],
            1,
        )  # fmt: skip
        self._mark = launch(mark_levels_kernel, [mask], [self._missing, self.fallback], 1)
        track = self.generator.track
        self._accept = launch(
            accept_levels_kernel,
            [track.valid, track.count],
            [self._missing, self._drivable],
            1,
        )
        self._give_ring = launch(
            give_ring_kernel,
            [self._missing, min(widths)],
            [
                track.center, track.inner, track.outer, track.tangent, track.normal, track.arclen,
                track.curvature, track.length, track.half_width, track.count, track.winding,
                self._drivable, self.fallback,
            ],
            1,
        )  # fmt: skip
        self._start = launch(
            start_kernel,
            [
                view, mask, r["seed"], r["level_episode"], int(spawn == "random"), lateral, turn,
                vehicle.radius, unit, 0,
            ],
            [
                self._place_s, self._place_n, self._turn, self.speed, self._places.segment,
                r["steps"], r["progress"], self._driving, r["reward"], r["terminated"],
                r["truncated"],
            ],
            1,
        )  # fmt: skip

        self._captures = device.is_cuda if capture is None else capture
        if self._captures and not config.spec.capturable:
            raise ValueError(f"generator {config.spec.name!r} cannot be captured")
        step = _DevicePass(self)
        self._executor = Executor(
            lambda low, high: Pipeline([step], [], self._missing), E, device, num_threads=1
        )
        self._was_reset = False
        self._views: dict[str, Any] = {}
        if self.output == "torch":
            self._views = {key: wp.to_torch(array) for key, array in r.items()}
            self._action_view: Any = wp.to_torch(self._actions)
        elif device.is_cpu:
            self._views = {key: array.numpy() for key, array in r.items()}
            self._action_view = self._actions.numpy()

    @property
    def graph(self) -> wp.Graph | None:
        """The captured step; None before the first step and where nothing is captured."""
        return self._executor.graph

    def set_difficulty(self, difficulty: Any, mask: Any = None) -> None:
        """Set the difficulty of the levels to come; running episodes keep their track.

        Args:
            difficulty: In [0, 1], as :meth:`track_gen.TrackGenerator.set_difficulty` takes it.
            mask: Envs, bool [E], or None for all.
        """
        self.generator.set_difficulty(difficulty, mask=mask)

    def reset(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes in all envs, or in those of ``options["reset_mask"]``.

        Args:
            seed: An int gives every env a seed of its own; a sequence of E ints is used as it is,
                None in it keeps an env's seed. Episodes then count from 0. None goes on to the
                next episode of each env; at the first reset it draws an int.
            options: ``reset_mask``: bool NumPy array [E], the envs to reset. ``level_seeds``: ints
                [E], the seeds of the levels to play. ``level_episodes``: ints [E], their
                episodes, 0 by default.

        Returns:
            Observations of all envs, and infos.

        Raises:
            ResetNeeded: If the first reset is not of all envs.
            ValueError: If a length is wrong, an option is unknown, or the mask is empty.
            TypeError: If a type is wrong.
        """
        E = self.num_envs
        options = dict(options or {})
        reset_mask = options.pop("reset_mask", None)
        level_seeds = options.pop("level_seeds", None)
        level_episodes = options.pop("level_episodes", None)
        if options:
            raise ValueError(
                f"RaceVectorEnv.reset(options) knows reset_mask, level_seeds and level_episodes, "
                f"got {', '.join(repr(key) for key in options)}"
            )
        rows = np.ones(E, dtype=bool)
        if reset_mask is not None:
            rows = as_reset_mask(reset_mask, E)
            if not self._was_reset:
                raise ResetNeeded("RaceVectorEnv.reset(): the first reset must be of all envs")
        if level_seeds is not None and seed is not None:
            raise ValueError("RaceVectorEnv.reset() takes a seed or level_seeds, not both")
        if level_episodes is not None and level_seeds is None:
            raise ValueError("RaceVectorEnv.reset(): level_episodes need level_seeds")

        state = self.rng.state_dict()
        seeds, episode = state["seeds"], state["episode"]
        if level_seeds is not None:
            seeds[rows] = as_words("level_seeds", level_seeds, E)[rows]
            episode[rows] = 0
            if level_episodes is not None:
                episode[rows] = as_words("level_episodes", level_episodes, E)[rows]
        elif seed is None and self._was_reset:
            episode[rows] += 1
        elif seed is None or isinstance(seed, (int, np.integer)):
            if seed is None:
                base = int(self.np_random.integers(2**63))
            else:
                base = int(seed)
                super().reset(seed=base)
            seeds[rows] = seeds_from_int(base, E)[rows]
            episode[rows] = 0
        else:
            given = list(seed)
            if len(given) != E:
                raise ValueError(
                    f"RaceVectorEnv.reset(seed) must have {E} entries, got {len(given)}"
                )
            named = np.array([value is not None for value in given])
            values = as_words("seed", [0 if value is None else value for value in given], E)
            episode[rows & ~named] += int(self._was_reset)
            seeds[rows & named] = values[rows & named]
            episode[rows & named] = 0
        self.rng.load_state_dict(state)

        self._order_streams(caller_first=True)
        self._reset_mask.assign(rows)
        self._make_levels(advance=False)
        self._start_episodes(clears_outcome=1)
        self._order_streams(caller_first=False)
        self._was_reset = True
        return self._read("observation"), self._infos()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Drive all cars one step.

        Args:
            actions: Steering and throttle in [-1, 1], float [E, 2], NumPy array or torch tensor.
                They are clipped; values that are not finite count as 0. In an open capture:
                float32 on the device, as torch tensor or Warp array, read at each replay.

        Returns:
            Observations, rewards, terminated, truncated, infos.

        Raises:
            ResetNeeded: Before the first reset; and without autoreset, with NumPy results, if an
                env has finished and was not reset.
            ValueError: If the shape is wrong.
            RuntimeError: In an open capture, with a NumPy array.
        """
        if not self._was_reset:
            raise ResetNeeded("RaceVectorEnv.step() needs a reset() first")
        if self.autoreset_mode is AutoresetMode.DISABLED and self.output == "numpy":
            stopped = np.flatnonzero(~self._driving.numpy())
            if len(stopped):
                raise ResetNeeded(
                    f"RaceVectorEnv.step(): envs {stopped[:8].tolist()} have finished: reset them "
                    "with options={'reset_mask': mask} or use an autoreset mode"
                )
        self._order_streams(caller_first=True)
        self._take(actions)
        if not self._captures or recording_here(self.device):
            self._launch_step()
        else:
            if self._executor.graph is None:
                self.generator.warmup()
                self._executor.prepare()
                self._executor.capture()
            self._executor.replay()
        self._order_streams(caller_first=False)
        infos = self._infos()
        terminated, truncated = self._read("terminated"), self._read("truncated")
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._add_final(infos, terminated | truncated)
        return self._read("observation"), self._read("reward"), terminated, truncated, infos

    def _take(self, actions: Any) -> None:
        """Copy the actions to the device."""
        name, shape = "RaceVectorEnv.step(actions)", (self.num_envs, 2)
        if recording_here(self.device):
            record_actions(name, actions, self._actions, self.device)
            return
        if tuple(np.shape(actions)) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(np.shape(actions))}")
        if self.output == "torch":
            import torch

            self._action_view.copy_(torch.as_tensor(actions))
        elif self.device.is_cpu:
            self._action_view[...] = actions
        else:
            self._actions.assign(np.asarray(actions, dtype=np.float32))

    def _order_streams(self, caller_first: bool) -> None:
        """Order torch's current stream and Warp's on the device, without a host wait.

        torch's default stream cannot be captured, so the launches stay on Warp's.
        """
        if self.output == "torch" and self.device.is_cuda:
            import torch

            stream = torch.cuda.current_stream(wp.device_to_torch(self.device))
            theirs, ours = wp.stream_from_torch(stream), wp.get_stream(self.device)
            if caller_first:
                ours.wait_stream(theirs)
            else:
                theirs.wait_stream(ours)

    def _launch_step(self) -> None:
        """Everything of a step that runs on the device; may be captured."""
        self._drive()
        self._progress.update(mask=self._driving)
        self._judge()
        if self._any(self._reset_mask):
            self._make_levels(advance=True)
            self._start_episodes(clears_outcome=0)

    def _any(self, mask: wp.array) -> bool:
        """Whether a mask has a true row, where that is known for free."""
        if recording_here(self.device) or not self.device.is_cpu:
            return True
        return bool(mask.numpy().any())

    def _make_levels(self, advance: bool) -> None:
        """Give the envs of the reset mask a track."""
        self._mark()
        for k in range(1 + self._redraws):
            if advance or k > 0:
                self.rng.advance(self._missing)
            self.generator.generate(self._missing)
            self._accept()
            if not self._any(self._missing):
                return
        self._give_ring()

    def _start_episodes(self, clears_outcome: int) -> None:
        """Put the cars of the reset mask on their tracks."""
        mask = self._reset_mask
        self._start(clears_outcome=clears_outcome)
        self._spawner.at(self._place_s, self._place_n, self._turn, mask=mask)
        self._observe()
        self._progress.reset(mask)
        self._progress.update(mask=mask)

    def _read(self, key: str) -> Any:
        """A result as the caller gets it."""
        if self.output == "torch":
            return self._views[key].clone() if self.copy else self._views[key]
        if self.device.is_cpu:
            return self._views[key].copy() if self.copy else self._views[key]
        return self._results[key].numpy()

    def _infos(self) -> dict[str, Any]:
        infos = LevelInfo()
        everyone = np.ones(self.num_envs, dtype=bool)
        for key in (*_LEVEL_KEYS, "fallback"):
            infos[key] = self._read(key)
            if self.output == "numpy":
                infos[f"_{key}"] = everyone
        return infos

    def _add_final(self, infos: dict[str, Any], done: Any) -> None:
        """Add ``final_obs`` and ``final_info`` of the envs that finished in this step."""
        if self.output == "numpy":
            if not done.any():
                return
            rows = self._read("final_observation")
            final = np.full(self.num_envs, None, dtype=object)
            for env in np.flatnonzero(done):
                final[env] = rows[env].copy()
        else:
            final = self._read("final_observation")
        infos["final_obs"] = final
        infos["_final_obs"] = done
        last = LevelInfo()
        for key in _LEVEL_KEYS:
            values = self._read(f"final_{key}")
            last[key] = np.where(done, values, 0) if self.output == "numpy" else values
            last[f"_{key}"] = done
        infos["final_info"] = last
        infos["_final_info"] = done

    def close_extras(self, **kwargs: Any) -> None:
        """Nothing to close: memory goes with the object."""
