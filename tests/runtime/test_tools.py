"""What all tools promise: captures, masks, threads, torch, no allocation, no synchronisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp
from road_reference import circle, floats, mixed_tracks, place, points, to_track

from track_gen import PerEnvSeededRNG
from track_gen.row_launch import RowLaunch
from track_gen.runtime import (
    CollisionChecker,
    Localizer,
    ProgressTracker,
    RacingLine,
    Sensors,
    Spawner,
    SpeedProfile,
    TrackView,
    track_view,
)
from track_gen.runtime.view import frenet_s, is_drivable, locate

E, A = 600, 2


class Step:
    """All tools of one environment step on one set of poses."""

    def __init__(self, arrays: dict, num_threads: int | None = None):
        self.track = to_track(arrays)
        E = self.track.num_envs
        self.position = wp.zeros((E, A), dtype=wp.vec3f, device="cpu")
        self.heading = wp.zeros((E, A), dtype=wp.float32, device="cpu")
        self.mask = wp.full(E, True, dtype=wp.bool, device="cpu")
        options = {"num_threads": num_threads}
        localizer = Localizer(self.track, A, **options)
        shared = {"localizer": localizer, **options}
        line = RacingLine(self.track, **options)
        rng = PerEnvSeededRNG(seeds=0, num_envs=E, device="cpu")
        self.spawner = Spawner(
            self.track, A, rng=rng, position=self.position, heading=self.heading, **options
        )
        self.tools = {
            "localizer": localizer,
            "progress": ProgressTracker(self.track, A, **shared),
            "disc": CollisionChecker(self.track, A, radius=0.02, swept=True, **shared),
            "box": CollisionChecker(self.track, A, box=(0.06, 0.03), **shared),
            "sensors": Sensors(self.track, A, look_ahead=[0.2, 0.6], rays=[-0.5, 0.5], **shared),
            "spawner": self.spawner,
            "line": line,
            "profile": SpeedProfile(line, lateral=1.0, acceleration=1.0, braking=1.0, **options),
        }

    def run(self, mask=None):
        t, pose = self.tools, (self.position, self.heading)
        t["localizer"].update(*pose, mask)
        t["progress"].update(mask=mask)
        t["disc"].update(*pose, mask)
        t["box"].update(*pose, mask)
        t["sensors"].update(*pose, mask)
        t["line"].update(mask)
        t["profile"].update(mask)

    def set(self, s, n=0.0):
        shape = (self.track.num_envs, A)
        p, yaw = place(self.track.numpy(), np.broadcast_to(s, shape), np.broadcast_to(n, shape))
        self.position.assign(p.astype(np.float32))
        self.heading.assign(yaw.astype(np.float32))

    def outputs(self) -> dict[str, np.ndarray]:
        found = {}
        for name, tool in self.tools.items():
            for field, value in vars(tool).items():
                if isinstance(value, wp.array) and not field.startswith("_"):
                    found[f"{name}.{field}"] = value.numpy().copy()
        return found


def same(a: dict, b: dict, rows=slice(None)) -> list[str]:
    return [k for k in a if not np.array_equal(a[k][rows], b[k][rows], equal_nan=True)]


def test_threads_change_nothing():
    one, many = Step(mixed_tracks(E), 1), Step(mixed_tracks(E), 3)
    assert many.tools["localizer"]._localize._chunks
    for k in range(4):
        for step in (one, many):
            step.set(0.1 * k)
            step.run()
    assert same(one.outputs(), many.outputs()) == []


def test_masks():
    step = Step(mixed_tracks(20))
    step.set(0.1)
    step.run()
    before = step.outputs()
    step.set(0.2, 0.01)
    mask = np.zeros(20, bool)
    mask[-1] = True
    for given in (
        wp.array(mask, dtype=wp.bool, device="cpu"),
        torch.from_numpy(mask),
        mask,
    ):
        step.run(given)
    after = step.outputs()
    inputs = {"spawner.position", "spawner.heading"}
    rows = slice(0, 19)
    assert set(same(before, after, rows)) <= inputs
    changed = same(before, after, slice(19, 20))
    for name in ("localizer.s", "progress.total", "disc.clearance", "box.point", "sensors.points"):
        assert name in changed
    step.set(0.4)
    none = wp.zeros(20, dtype=wp.bool, device="cpu")
    before = step.outputs()
    step.run(none)
    assert same(before, step.outputs()) == []


@pytest.mark.parametrize("agents", ["torch", "warp"])
def test_a_captured_step_gives_what_an_eager_one_gives(agents):
    eager, captured = Step(mixed_tracks(E)), Step(mixed_tracks(E))
    for step in (eager, captured):
        step.set(0.05)
        step.run()  # loads everything
    mask = captured.mask if agents == "warp" else wp.to_torch(captured.mask)
    with wp.ScopedCapture(device="cpu") as capture:
        captured.run(mask)
        captured.tools["localizer"].reset(mask)
        captured.tools["progress"].reset(mask)
        captured.tools["disc"].reset(mask)
        captured.spawner.random(mask)
    rng = np.random.default_rng(0)
    for k in range(3):
        chosen = rng.random(E) < 0.5
        captured.mask.assign(chosen)
        if k == 1:
            # Calls with other arrays in between must not change what the graph reads.
            other = points(np.zeros((E, A, 3)))
            Localizer(captured.track, A).update(other)
            none = wp.zeros(E, dtype=wp.bool, device="cpu")
            captured.tools["localizer"].update(other, mask=none)
        for name, value in captured.outputs().items():
            if name in ("sensors.points", "disc.clearance", "localizer.n"):
                tool, field = name.split(".")
                poisoned = np.where(chosen.reshape(-1, *[1] * (value.ndim - 1)), np.nan, value)
                getattr(captured.tools[tool], field).assign(poisoned.astype(np.float32))
        wp.capture_launch(capture.graph)
        eager.run(chosen)
        eager.tools["localizer"].reset(chosen)
        eager.tools["progress"].reset(chosen)
        eager.tools["disc"].reset(chosen)
        eager.spawner.random(chosen)
        assert same(eager.outputs(), captured.outputs()) == []


def test_a_numpy_mask_cannot_be_captured():
    step = Step(circle(2))
    step.set(0.0)
    step.run()
    with pytest.raises(RuntimeError, match="a NumPy array cannot be captured"):  # noqa: SIM117
        with wp.ScopedCapture(device="cpu"):
            step.run(np.ones(2, bool))
    step.run(np.ones(2, bool))


def test_the_hot_path_allocates_and_synchronises_nothing(monkeypatch):
    step = Step(mixed_tracks(20))
    step.set(0.0)
    step.run(step.mask)
    step.spawner.random(step.mask)

    def forbidden(*args, **kwargs):
        raise AssertionError("allocation or synchronisation in the hot path")

    for name in ("empty", "zeros", "full", "ones", "clone", "copy", "synchronize",
                 "synchronize_device", "synchronize_stream"):  # fmt: skip
        monkeypatch.setattr(wp, name, forbidden)
    monkeypatch.setattr(wp.array, "numpy", forbidden)
    monkeypatch.setattr(wp.array, "_alloc", forbidden, raising=False)
    monkeypatch.setattr(wp.get_device("cpu").default_allocator, "alloc", forbidden, raising=False)
    for _ in range(3):
        step.run(step.mask)
        step.tools["localizer"].reset(step.mask)
        step.tools["progress"].reset(step.mask)
        step.tools["disc"].reset(step.mask)
        step.spawner.random(step.mask)
        step.spawner.grid(step.mask)
        step.spawner.at(0.5, 0.01, mask=step.mask)


def test_poses_of_every_kind_give_the_same():
    arrays = mixed_tracks(20)
    track = to_track(arrays)
    p, yaw = place(arrays, np.full((20, 1), 0.7), np.full((20, 1), 0.01))
    p, yaw = p.astype(np.float32), yaw.astype(np.float32)
    state = torch.zeros(20, 1, 9)
    state[..., 2:5] = torch.from_numpy(p)
    state[..., 7] = torch.from_numpy(yaw)
    wide = wp.zeros((20, 2), dtype=wp.vec3f, device="cpu")
    wide.assign(np.repeat(p, 2, axis=1))
    kinds = {
        "vec3f": (points(p), floats(yaw)),
        "vec2f": (wp.array(p[..., :2].copy(), dtype=wp.vec2f, device="cpu"), floats(yaw)),
        "vec3f [E]": (points(p[:, 0]), floats(yaw[:, 0])),
        "float32": (floats(p), floats(yaw)),
        "torch": (torch.from_numpy(p), torch.from_numpy(yaw)),
        "torch slice": (state[..., 2:5], state[..., 7]),
        "torch slice [E]": (state[:, 0, 2:4], state[:, 0, 7]),
        "torch with gradient": (torch.from_numpy(p).requires_grad_(), torch.from_numpy(yaw)),
        "strided": (wide[:, :1], floats(yaw)),
    }
    expected = None
    for name, pose in kinds.items():
        localizer = Localizer(track)
        box = CollisionChecker(track, box=(0.06, 0.03), localizer=localizer)
        sensors = Sensors(track, look_ahead=[0.1], rays=[0.0], localizer=localizer)
        localizer.update(*pose)
        box.update(*pose)
        sensors.update(*pose)
        found = [
            localizer.s, localizer.n, localizer.heading_error, box.clearance, sensors.points,
            sensors.ranges,
        ]  # fmt: skip
        found = [value.numpy().copy() for value in found]
        expected = expected or found
        for a, b in zip(expected, found, strict=True):
            assert np.array_equal(a, b), name


def test_results_are_torch_tensors_of_the_same_memory():
    arrays = circle(3)
    localizer = Localizer(to_track(arrays))
    s = wp.to_torch(localizer.s)
    localizer.update(points(arrays["center"][:, 5:6]))
    assert s.shape == (3, 1)
    assert s[:, 0].tolist() == pytest.approx(arrays["arclen"][:, 5].tolist(), abs=1e-5)


def test_row_launch_keeps_arguments_apart():
    arrays = circle(2)
    localizer = Localizer(to_track(arrays))
    launch = localizer._localize
    assert isinstance(launch, RowLaunch)
    a, b = points(arrays["center"][:, :1]), points(arrays["center"][:, 9:10])
    for given, index in ((a, 0), (b, 9), (a, 0)):
        localizer.update(given)
        assert localizer.s.numpy()[0, 0] == pytest.approx(arrays["arclen"][0, index], abs=1e-5)


@wp.kernel
def own_kernel(
    # In:
    view: TrackView,
    position_in: wp.array[wp.vec3f],
    # Out:
    s_out: wp.array[wp.float32],
):
    """The arc length of each agent. Launch dim (E,)."""
    env = wp.tid()
    s_out[env] = wp.nan
    if is_drivable(view, env):
        s_out[env] = frenet_s(view, env, locate(view, env, position_in[env], -1, 1.0))


def test_the_functions_work_in_a_kernel_of_ones_own():
    arrays = mixed_tracks(20)
    track = to_track(arrays)
    s = wp.zeros(20, dtype=wp.float32, device="cpu")
    p = points(arrays["center"][:, 7])
    wp.launch(own_kernel, dim=20, inputs=[track_view(track), p], outputs=[s], device="cpu")
    assert s.numpy() == pytest.approx(arrays["arclen"][:, 7], abs=1e-5)


def test_tools_follow_a_regenerated_track():
    arrays = mixed_tracks(10)
    track = to_track(arrays)
    localizer = Localizer(track)
    localizer.update(points(arrays["center"][:, 4:5]))
    changed = {name: np.roll(array, 1, axis=0) for name, array in arrays.items()}
    for name, array in changed.items():
        getattr(track, name).assign(array)
    localizer.reset()
    localizer.update(points(changed["center"][:, 4:5]))
    assert localizer.s.numpy()[:, 0] == pytest.approx(changed["arclen"][:, 4], abs=1e-5)


def test_origins_place_the_envs_in_one_world():
    arrays = mixed_tracks(12)
    home, away = Step(arrays), Step(arrays)
    shift = np.stack([10.0 * np.arange(12), -5.0 * np.arange(12), np.arange(12)], -1)
    origins = {
        "warp": wp.array(shift.astype(np.float32), dtype=wp.vec3f, device="cpu"),
        "torch": torch.from_numpy(shift.astype(np.float32)),
        "numpy": shift,
    }
    home.set(0.4, 0.01)
    moved = points(home.position.numpy() + shift[:, None])
    home.run()
    rng = PerEnvSeededRNG(seeds=0, num_envs=12, device="cpu")
    for given in origins.values():
        localizer = Localizer(away.track, A, origins=given)
        own = ProgressTracker(away.track, A, origins=given)
        box = CollisionChecker(away.track, A, box=(0.06, 0.03), localizer=localizer)
        sensors = Sensors(away.track, A, look_ahead=[0.2, 0.6], rays=[-0.5, 0.5], origins=given)
        spawner = Spawner(away.track, A, rng=rng, origins=given)
        localizer.update(moved, home.heading)
        own.update(moved)
        box.update(moved, home.heading)
        sensors.update(moved, home.heading)
        there = home.tools
        near = {"atol": 2e-5, "rtol": 0.0}
        np.testing.assert_allclose(localizer.s.numpy(), there["localizer"].s.numpy(), **near)
        np.testing.assert_allclose(localizer.left.numpy(), there["localizer"].left.numpy(), **near)
        np.testing.assert_allclose(box.clearance.numpy(), there["box"].clearance.numpy(), **near)
        point = there["box"].point.numpy() + shift[:, None, :2]
        np.testing.assert_allclose(box.point.numpy(), point, **near)
        seen = there["sensors"]
        np.testing.assert_allclose(sensors.points.numpy(), seen.points.numpy(), **near)
        np.testing.assert_allclose(sensors.ranges.numpy(), seen.ranges.numpy(), atol=2e-4)
        spawner.at(0.7)
        home.spawner.at(0.7)
        expected = home.spawner.position.numpy() + shift[:, None]
        np.testing.assert_allclose(spawner.position.numpy(), expected, **near)
        home.set(0.4, 0.01)
    with pytest.raises(ValueError, match=r"Localizer.origins must have shape \(12, 3\)"):
        Localizer(away.track, origins=np.zeros((12, 2)))
    with pytest.raises(ValueError, match=r"Spawner.origins must have shape \(12,\)"):
        Spawner(away.track, origins=wp.zeros(3, dtype=wp.vec3f, device="cpu"))
