"""What an open capture may record: kernels that are told apart, and arrays that outlive it."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
import warp as wp

from conftest import make, raw_bytes
from cubins import kernel_modules
from track_gen import CourseLine, GateGenConfig, GateGenerator, PerEnvSeededRNG
from track_gen.envs import RaceVectorEnv
from track_gen.recording import exclusive_cpu_capture
from track_gen.row_launch import RowLaunch
from track_gen.runtime import (
    CollisionChecker,
    GateCrossing,
    Localizer,
    ProgressTracker,
    RacingLine,
    Sensors,
    Spawner,
    SpeedProfile,
    TrackMetrics,
)

E = 8


def test_a_capture_can_tell_all_kernels_apart():
    """The CPU finds the kernels of a graph by name and module: overloads have the same of both."""
    seen = set()
    for module in kernel_modules().values():
        assert not [name for name, kernel in module.kernels.items() if kernel.is_generic]
        content = module.get_module_hash(1)
        for kernel in module.kernels.values():
            assert (kernel.key, content) not in seen, kernel.key
            seen.add((kernel.key, content))


def test_kernels_of_one_name_in_one_capture():
    """The solvers of two ways to find neighbours share a name, not a module."""
    options = ({}, {"relax_sep_every": 1, "relax_sep_cache_slots": 0}, {"half_width": 0.15})
    generators = [make(num_envs=6, **option) for option in options]
    for generator in generators:
        generator.warmup()
    with wp.ScopedCapture(device="cpu") as capture:
        for generator in generators:
            generator.rng.advance()
            generator.generate()
    for episode in (1, 2, 3):
        wp.capture_launch(capture.graph)
        for generator, option in zip(generators, options, strict=True):
            eager = make(num_envs=6, **option)
            for _ in range(episode):
                eager.rng.advance()
            assert raw_bytes(generator.track) == raw_bytes(eager.generate())
            assert np.array_equal(generator.sweeps.numpy(), eager.sweeps.numpy())


class Everything:
    """A generator of each kind, the tools that take masks, and what they need in a capture."""

    def __init__(self):
        self.generator = make(num_envs=E)
        self.track = self.generator.generate()
        self.rng = self.generator.rng
        rng = PerEnvSeededRNG(seeds=0, num_envs=E, device="cpu")
        self.courses = GateGenerator(GateGenConfig(num_envs=E, device="cpu"), rng)
        self.gates = self.courses.generate()
        self.line = CourseLine.through(self.gates)
        self.parameters = self.generator.parameters
        self.origins = wp.zeros(E, dtype=wp.vec3f, device="cpu")
        self.world = self.track.placed(self.origins)
        self.localizer = Localizer(self.track)
        self.spawner = Spawner(self.track, rng=self.rng)
        self.spawner.random()
        self.pose = (self.spawner.position, self.spawner.heading)
        self.progress = ProgressTracker(self.track)
        self.disc = CollisionChecker(self.track, radius=0.01, swept=True)
        self.sensors = Sensors(self.track, rays=[0.0])
        self.crossing = GateCrossing(self.gates)
        self.metrics = TrackMetrics(self.track)
        self.racing_line = RacingLine(self.track)
        self.profile = SpeedProfile(self.track, lateral=1.0, acceleration=1.0, braking=1.0)
        for generator in (self.generator, self.courses):
            generator.set_difficulty(0.0)
        for call in MASKED.values():
            call(self, None)
        self.watched = watched(self)

    def contents(self) -> dict[str, np.ndarray]:
        """Copies of all arrays that the calls below write."""
        return {name: array.numpy().copy() for name, array in self.watched.items()}

    def restore(self, contents: dict[str, np.ndarray]) -> None:
        for name, array in self.watched.items():
            array.assign(contents[name])


def watched(everything) -> dict[str, wp.array]:
    """All arrays of generators and tools, and the state between the steps of a tool."""
    found = {"episode": everything.rng.episode_warp, "seeds": everything.rng.seeds_warp}
    for name, owner in vars(everything).items():
        for field, value in vars(owner).items() if hasattr(owner, "__dict__") else ():
            arrays = value._values if isinstance(value, RowLaunch) else [value]
            for k, array in enumerate(arrays):
                if isinstance(array, wp.array) and array.size:
                    found[f"{name}.{field}.{k}"] = array
    return found


MASKED = {
    "generate": lambda e, m: e.generator.generate(m),
    "generate gates": lambda e, m: e.courses.generate(m),
    "advance": lambda e, m: e.rng.advance(m),
    "parameters.set": lambda e, m: e.parameters.set("rad", 0.3, m),
    "set_difficulty": lambda e, m: e.generator.set_difficulty(0.3, m),
    "set_difficulty of gates": lambda e, m: e.courses.set_difficulty(0.3, m),
    "CourseLine.update": lambda e, m: e.line.update(m),
    "placed": lambda e, m: e.track.placed(e.origins, out=e.world, mask=m),
    "Localizer.update": lambda e, m: e.localizer.update(*e.pose, m),
    "Localizer.reset": lambda e, m: e.localizer.reset(m),
    "ProgressTracker.update": lambda e, m: e.progress.update(e.pose[0], mask=m),
    "ProgressTracker.reset": lambda e, m: e.progress.reset(m),
    "CollisionChecker.update": lambda e, m: e.disc.update(e.pose[0], mask=m),
    "CollisionChecker.reset": lambda e, m: e.disc.reset(m),
    "Sensors.update": lambda e, m: e.sensors.update(*e.pose, m),
    "GateCrossing.update": lambda e, m: e.crossing.update(e.pose[0], m),
    "GateCrossing.reset": lambda e, m: e.crossing.reset(m),
    "Spawner.at": lambda e, m: e.spawner.at(0.1, mask=m),
    "Spawner.grid": lambda e, m: e.spawner.grid(m),
    "Spawner.random": lambda e, m: e.spawner.random(m),
    "TrackMetrics.update": lambda e, m: e.metrics.update(m),
    "RacingLine.update": lambda e, m: e.racing_line.update(m),
    "SpeedProfile.update": lambda e, m: e.profile.update(m),
}
SEEDS = np.arange(E, dtype=np.int32)
VALUES = np.full(E, 0.3, dtype=np.float32)
HOST = {
    **{
        f"{name}(mask)": lambda e, call=call: call(e, np.ones(E, bool))
        for name, call in MASKED.items()
    },
    "parameters.set(values)": lambda e: e.parameters.set("rad", VALUES),
    "set_difficulty(values)": lambda e: e.generator.set_difficulty(VALUES),
    "set_seeds_warp(seeds)": lambda e: e.rng.set_seeds_warp(SEEDS),
    "set_seeds_warp(ids)": lambda e: e.rng.set_seeds_warp(e.rng.seeds_warp[:2], [0, 1]),
    "placed(origins)": lambda e: e.track.placed(np.zeros((E, 3)), out=e.world),
    "rng.load_state_dict": lambda e: e.rng.load_state_dict(e.rng.state_dict()),
    "parameters.load_state_dict": lambda e: e.parameters.load_state_dict(e.parameters.state_dict()),
    "generator.load_state_dict": lambda e: e.generator.load_state_dict(e.generator.state_dict()),
}


@pytest.fixture(scope="module")
def everything():
    return Everything()


@pytest.mark.parametrize("name", list(HOST))
def test_what_is_on_the_host_is_refused_before_anything_is_recorded(everything, name):
    text = "cannot (be captured: pass an array on the device|run while a capture is open)"
    with wp.ScopedCapture(device="cpu") as capture, pytest.raises(RuntimeError, match=text):
        HOST[name](everything)
    before = everything.contents()
    wp.capture_launch(capture.graph)
    after = everything.contents()
    assert [k for k in before if before[k].tobytes() != after[k].tobytes()] == []
    HOST[name](everything)  # and is taken outside of one


def test_a_first_difficulty_is_refused():
    generator = make(num_envs=E)
    generator.warmup()
    with (
        wp.ScopedCapture(device="cpu"),
        pytest.raises(RuntimeError, match=r"first TrackGenerator.set_difficulty\(\) cannot run"),
    ):
        generator.set_difficulty(0.5)
    generator.set_difficulty(0.5)


def test_a_capture_in_another_thread_refuses_nothing(everything):
    inside, leave = threading.Event(), threading.Event()

    def hold():
        with exclusive_cpu_capture(), wp.ScopedCapture(device="cpu"):
            inside.set()
            leave.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert inside.wait(20)
        everything.rng.advance(np.zeros(E, bool))
        everything.parameters.set("rad", VALUES)
        everything.track.placed(everything.origins, out=everything.world, mask=np.ones(E, bool))
    finally:
        leave.set()
        holder.join()
    assert (everything.parameters.get("rad") == VALUES[:, None]).all()


@pytest.mark.parametrize("name", list(MASKED))
def test_a_strided_mask_is_read_in_place(everything, name):
    """A column of a table of flags, as simulators keep them."""
    table = torch.zeros(E, 3, dtype=torch.bool)
    flags = table[:, 1]
    call = MASKED[name]
    with wp.ScopedCapture(device="cpu") as capture:
        call(everything, flags)
    everything.rng.advance()
    changed = 0
    for k in range(3):
        start = everything.contents()
        table[:] = torch.arange(E)[:, None] % 3 == k
        wp.capture_launch(capture.graph)
        replayed = everything.contents()
        everything.restore(start)
        call(everything, wp.from_torch(flags.clone()))
        eager = everything.contents()
        everything.restore(start)
        call(everything, flags)
        strided = everything.contents()
        for field in start:
            assert replayed[field].tobytes() == eager[field].tobytes(), field
            assert strided[field].tobytes() == eager[field].tobytes(), field
            changed += replayed[field].tobytes() != start[field].tobytes()
        everything.rng.advance()
    assert changed or name not in ("generate", "advance", "Spawner.random", "placed")


def test_strided_seeds_and_values_are_read_in_place(everything):
    words = torch.zeros(E, 2, dtype=torch.int32)
    numbers = torch.zeros(E, 2)
    seeds, values = words[:, 1], numbers[:, 1]
    with wp.ScopedCapture(device="cpu") as capture:
        everything.rng.set_seeds_warp(seeds)
        everything.parameters.set("rad", values)
    for k in (1, 2):
        everything.rng.advance()
        seeds[:] = 100 * k + torch.arange(E)
        values[:] = 0.1 * k
        wp.capture_launch(capture.graph)
        assert everything.rng.seeds_warp.numpy().tolist() == seeds.tolist()
        assert not everything.rng.episode_warp.numpy().any()
        assert (everything.parameters.get("rad")[:, 0] == values.numpy()).all()


@pytest.mark.parametrize("form", ["torch", "warp"])
def test_a_captured_step_of_the_environment_reads_its_actions(form):
    options = {"device": "cpu", "output": "torch", "capture": False}
    eager, captured = RaceVectorEnv(E, **options), RaceVectorEnv(E, **options)
    for env in (eager, captured):
        env.reset(seed=1)
        env.step(torch.zeros(E, 2))
    captured.generator.warmup()
    actions = torch.zeros(E, 2)
    given = actions if form == "torch" else wp.from_torch(actions)
    with wp.ScopedCapture(device="cpu") as capture:
        with pytest.raises(
            RuntimeError, match=r"step\(actions\): a NumPy array cannot be captured"
        ):
            captured.step(np.zeros((E, 2), np.float32))
        with pytest.raises(ValueError, match="must be contiguous while a capture is open"):
            captured.step(torch.zeros(2, E).T)
        captured.step(given)
    for k in range(1, 4):
        actions.copy_(torch.linspace(-1.0, 1.0, 2 * E).reshape(E, 2) * k / 3.0)
        expected = eager.step(actions)[0]
        wp.capture_launch(capture.graph)
        assert torch.equal(wp.to_torch(captured._results["observation"]), expected)
