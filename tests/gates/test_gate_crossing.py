"""Swept gate crossings: perfect laps, and every edge case of one step."""

from __future__ import annotations

import numpy as np
import pytest
import warp as wp
from gate_cells import CELLS, make_gates

from track_gen import CourseLine, GateSequence
from track_gen.runtime import Crossing, GateCrossing

FORWARD, BACKWARD, MISS, FRAME, NONE = (
    int(Crossing[name]) for name in ("FORWARD", "BACKWARD", "MISS", "FRAME", "NONE")
)


def row_of_gates(count=4, spacing=5.0, num_envs=1, offset=(0.0, 0.0, 0.0)) -> GateSequence:
    """Gates on the x axis, flown towards +x, with openings of 2 x 1."""
    gates = GateSequence.allocate(num_envs, count, "cpu")
    shape = (num_envs, count)
    x = np.zeros((*shape, 3), np.float32) + np.float32(offset)
    x[..., 0] += spacing * np.arange(count, dtype=np.float32)
    gates.position.assign(x)
    gates.tangent.assign(np.broadcast_to(np.float32([1, 0, 0]), (*shape, 3)).copy())
    gates.normal.assign(np.broadcast_to(np.float32([0, 1, 0]), (*shape, 3)).copy())
    gates.half_width.fill_(1.0)
    gates.half_height.fill_(0.5)
    gates.count.fill_(count)
    gates.valid.fill_(True)
    return gates


def fly(points, gates=None, **settings):
    """Events (kind, gate) of each step along points."""
    tool = GateCrossing(row_of_gates() if gates is None else gates, clearance=0.5, **settings)
    steps = []
    for p in points:
        tool.update(wp.array(np.float32([p]), dtype=wp.vec3f, device="cpu"))
        n = tool.event_count.numpy()[0, 0]
        kinds, gate = tool.event.numpy()[0, 0], tool.event_gate.numpy()[0, 0]
        assert (kinds[n:] == NONE).all() and (gate[n:] == -1).all()
        alpha = tool.event_alpha.numpy()[0, 0]
        assert np.isnan(alpha[n:]).all() and (np.diff(alpha[:n]) >= 0).all()
        steps.append([(int(k), int(g)) for k, g in zip(kinds[:n], gate[:n], strict=True)])
    return steps, tool


CASES = {
    "through": ([(-1, 0, 0), (1, 0, 0)], [[], [(FORWARD, 0)]]),
    "back": ([(1, 0, 0), (-1, 0, 0)], [[], [(BACKWARD, 0)]]),
    "touch counts once": (
        [(-1, 0, 0), (0, 0, 0), (1, 0, 0)],
        [[], [(FORWARD, 0)], []],
    ),
    "retreat takes it back": (
        [(-1, 0, 0), (0, 0, 0), (-1, 0, 0)],
        [[], [(FORWARD, 0)], [(BACKWARD, 0)]],
    ),
    "start on the plane": ([(0, 0, 0), (1, 0, 0)], [[], []]),
    "start on the plane, back": ([(0, 0, 0), (-1, 0, 0)], [[], [(BACKWARD, 0)]]),
    "along the plane": ([(0, -1, 0), (0, 1, 0)], [[], []]),
    "no move": ([(-1, 0, 0), (-1, 0, 0)], [[], []]),
    "miss": ([(-1, 1.5, 0), (1, 1.5, 0)], [[], [(MISS, 0)]]),
    "miss above": ([(-1, 0, 1.2), (1, 0, 1.2)], [[], [(MISS, 0)]]),
    "no miss backward": ([(1, 1.5, 0), (-1, 1.5, 0)], [[], []]),
    "far beside": ([(-1, 3.1, 0), (1, 3.1, 0)], [[], []]),
    "no miss of another gate": ([(4, 1.5, 0), (6, 1.5, 0)], [[], []]),
    "edge of the opening": ([(-1, 1, 0.5), (1, 1, 0.5)], [[], [(FORWARD, 0)]]),
    "two gates": ([(-1, 0, 0), (6, 0, 0)], [[], [(FORWARD, 0), (FORWARD, 1)]]),
    "two gates back": ([(6, 0, 0), (-1, 0, 0)], [[], [(BACKWARD, 1), (BACKWARD, 0)]]),
    "pass one, miss the next": (
        [(-1, 0, 0), (1, 0, 0), (4, 1.5, 0), (6, 1.5, 0)],
        [[], [(FORWARD, 0)], [], [(MISS, 1)]],
    ),
    "pass and miss in one step": (
        [(-1, 0.5, 0), (6, 1.5, 0)],
        [[], [(FORWARD, 0), (MISS, 1)]],
    ),
    "not finite": (
        [(-1, 0, 0), (np.nan, 0, 0), (1, 0, 0), (-1, 0, 0)],
        [[], [], [], [(BACKWARD, 0)]],
    ),
    "infinite": ([(-1, 0, 0), (np.inf, 0, 0), (1, 0, 0)], [[], [], []]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("offset", [(0, 0, 0), (4096.0, -2048.0, 512.0)])
def test_steps_without_a_frame(name, offset):
    points, expected = CASES[name]
    moved = np.asarray(points, float) + offset
    steps, _ = fly(moved, row_of_gates(offset=offset))
    assert steps == expected


FRAMES = {
    "through": ([(-1, 0, 0), (1, 0, 0)], [[], [(FORWARD, 0)]]),
    "post": ([(-1, 1.1, 0), (1, 1.1, 0)], [[], [(FRAME, 0)]]),
    "beam": ([(-1, 0, 0.6), (1, 0, 0.6)], [[], [(FRAME, 0)]]),
    "corner": ([(-1, 1.15, 0.65), (1, 1.15, 0.65)], [[], [(FRAME, 0)]]),
    "body beside the post": ([(-1, 0.95, 0), (1, 0.95, 0)], [[], [(FRAME, 0)]]),
    "beside the frame": ([(-1, 1.5, 0), (1, 1.5, 0)], [[], [(MISS, 0)]]),
    "sideways through a post": ([(0.05, 0.5, 0), (0.05, 1.8, 0)], [[], [(FRAME, 0)]]),
    "frame before pass": ([(-0.15, -1.5, 0), (0.15, 0.8, 0)], [[], [(FRAME, 0)]]),
    "through one, into the next": ([(-1, 0, 0), (6, 1.2, 0)], [[], [(FORWARD, 0), (FRAME, 1)]]),
    "not finite": ([(-1, np.nan, 0), (1, 1.1, 0)], [[], []]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_steps_with_a_frame(name):
    points, expected = FRAMES[name]
    steps, _ = fly(points, frame_thickness=0.2, body_radius=0.1)
    assert steps == expected


def test_target_net_and_laps():
    steps, tool = fly([(-1, 0, 0), (16, 0, 0)])
    assert steps[1] == [(FORWARD, k) for k in range(4)]
    assert tool.target.numpy()[0, 0] == 0
    assert tool.net.numpy()[0, 0] == 4 and tool.laps.numpy()[0, 0] == 1
    tool.update(wp.array(np.float32([[4, 0, 0]]), dtype=wp.vec3f, device="cpu"))
    assert tool.net.numpy()[0, 0] == 1 and tool.laps.numpy()[0, 0] == 0
    assert tool.target.numpy()[0, 0] == 1


def test_more_events_than_slots_keeps_the_first():
    steps, _ = fly([(-1, 0, 0), (16, 0, 0)], max_events=2)
    assert steps[1] == [(FORWARD, 0), (FORWARD, 1)]
    steps, _ = fly([(16, 0, 0), (-1, 0, 0)], max_events=2)
    assert steps[1] == [(BACKWARD, 3), (BACKWARD, 2)]
    steps, _ = fly([(16, 0, 0), (-1, 0, 0)], max_events=1)
    assert steps[1] == [(BACKWARD, 3)]


def test_masked_reset_and_update_with_several_agents():
    """A reset agent is put elsewhere without an event; the others keep flying."""
    gates = row_of_gates(num_envs=3)
    tool = GateCrossing(gates, num_agents=2)

    def step(x, mask=None):
        position = np.zeros((3, 2, 3), np.float32)
        position[..., 0] = x
        tool.update(wp.array(position, dtype=wp.vec3f, device="cpu"), mask)
        return tool.event.numpy()[..., 0]

    step(-1.0)
    assert (step([[1.0, -0.5]] * 3) == [[FORWARD, NONE]] * 3).all()
    tool.reset(np.array([False, True, False]))
    assert tool.net.numpy().tolist() == [[1, 0], [0, 0], [1, 0]]
    events = step([[6.0, 1.0]] * 3)
    assert events.tolist() == [[FORWARD, FORWARD], [NONE, NONE], [FORWARD, FORWARD]]
    before = tool.net.numpy().copy()
    step([[-1.0, -1.0]] * 3, np.array([True, False, False]))
    after = tool.net.numpy()
    assert (after[1:] == before[1:]).all() and (after[0] != before[0]).all()
    gates.valid.assign(np.array([True, False, True]))
    assert (step(20.0)[1] == NONE).all()


def test_capture():
    gates = row_of_gates()
    tool = GateCrossing(gates)
    position = wp.array(np.float32([[-1, 0, 0]]), dtype=wp.vec3f, device="cpu")
    tool.update(position)
    tool.reset()
    with wp.ScopedCapture(device="cpu") as capture:
        tool.update(position)
    for x in (-1.0, 1.0):
        position.assign(np.float32([[x, 0, 0]]))
        wp.capture_launch(capture.graph)
    assert tool.net.numpy()[0, 0] == 1


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"body_radius": -1.0}, ValueError, "body_radius"),
        ({"frame_thickness": np.nan}, ValueError, "frame_thickness"),
        ({"clearance": "x"}, TypeError, "clearance"),
        ({"max_events": 0}, ValueError, "max_events"),
        ({"num_agents": 0}, ValueError, "GateCrossing"),
        ({"first_target": 4}, ValueError, "first_target"),
    ],
)
def test_errors(settings, error, text):
    with pytest.raises(error, match=text):
        GateCrossing(row_of_gates(), **settings)


def test_needs_gates_and_positions():
    with pytest.raises(TypeError, match="GateSequence"):
        GateCrossing("gates")
    with pytest.raises(ValueError, match="shape"):
        GateCrossing(row_of_gates()).update(wp.zeros((3, 3), dtype=wp.float32, device="cpu"))


def lap_events(gates, step, reverse, laps, **settings):
    """Counts of each kind over laps of the course line, every env flown at once."""
    points = 2048
    line = CourseLine.through(gates, num_points=points)
    center, length = line.center.numpy().astype(float), line.length.numpy()
    rows = np.arange(gates.num_envs)
    tool = GateCrossing(gates, clearance=0.6, **settings)
    # Start between the last gate and gate 0, the first target; in reverse behind gate 0.
    at, last = line.gate_arclen.numpy().astype(float), gates.count.numpy() - 1
    share = np.random.default_rng(5).uniform(0.05, 0.95, gates.num_envs)
    start = at[:, 1] * share if reverse else length - share * (length - at[rows, last])
    totals = dict.fromkeys((FORWARD, BACKWARD, MISS, FRAME), 0)
    position = wp.zeros(gates.num_envs, dtype=wp.vec3f, device="cpu")
    for k in range(int(laps * length.max() / step) + 2):
        way = np.minimum(k * step, laps * length)
        f = (start - way if reverse else start + way) / length * points
        i = np.floor(f).astype(int)
        w = (f - i)[:, None]
        p = center[rows, i % points] * (1 - w) + center[rows, (i + 1) % points] * w
        position.assign(p.astype(np.float32))
        tool.update(position)
        kinds = tool.event.numpy()
        for kind in totals:
            totals[kind] += int((kinds == kind).sum())
    return totals, tool


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("step", [0.05, 0.2, 0.6])
@pytest.mark.parametrize(
    ("family", "ordering", "cell"),
    [
        ("bezier", "ccw", "base"),
        ("voronoi", "random", "base"),
        ("bezier", "random", "hill"),
        ("voronoi", "ccw", "hill"),
    ],
)
def test_perfect_flight(family, ordering, cell, step, reverse):
    """201 laps: one event per gate and lap, and nothing else."""
    laps = 1 if step < 0.1 else 3
    generator = make_gates(201 // laps, seeds=3, generator=family, ordering=ordering, **CELLS[cell])
    gates = generator.generate()
    totals, tool = lap_events(gates, step, reverse, laps, body_radius=0.2, frame_thickness=0.3)
    expected = laps * int(gates.count.numpy().sum())
    way = BACKWARD if reverse else FORWARD
    assert totals == {**dict.fromkeys(totals, 0), way: expected}
    assert (np.abs(tool.net.numpy()[:, 0]) == laps * gates.count.numpy()).all()
    if not reverse:
        assert (tool.laps.numpy() == laps).all()
