"""Many envs in one world: grids of origins, and batches shifted by theirs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp

from conftest import make, raw_bytes
from track_gen import (
    CourseLine,
    GateGenConfig,
    GateGenerator,
    GateSequence,
    GateStatus,
    PerEnvSeededRNG,
    Track,
    TrackStatus,
    grid_origins,
)
from track_gen.batch import row_slice
from track_gen.runtime import GateCrossing, Localizer, RacingLine, Spawner

E = 6
POSITIONS = {
    "Track": ("center", "outer", "inner"),
    "GateSequence": ("position", "left", "right"),
    "CourseLine": ("center", "outer", "inner"),
}
SHIFT = np.stack([10.0 * np.arange(E), 3.0 - np.arange(E), 0.5 * np.arange(E)], -1)


def make_gates(num_envs=E, device="cpu", capture=None) -> GateGenerator:
    config = GateGenConfig(num_envs=num_envs, device=device, num_gates=(5, 9))
    rng = PerEnvSeededRNG(seeds=0, num_envs=num_envs, device=device)
    return GateGenerator(config, rng, capture=capture)


def origins(device="cpu") -> wp.array:
    return wp.array(SHIFT.astype(np.float32), dtype=wp.vec3f, device=device)


def a_batch(kind: str, device="cpu"):
    """A generator and a batch that follows it."""
    if kind == "Track":
        generator = make(num_envs=E, device=device)
        return generator, generator.generate()
    generator = make_gates(device=device)
    gates = generator.generate()
    return generator, gates if kind == "GateSequence" else CourseLine.through(gates)


def check_placed(batch, placed, shift=SHIFT):
    """Positions are shifted, all else is the same to the bit."""
    assert type(placed) is type(batch)
    before, after = batch.numpy(), placed.numpy()
    positions = POSITIONS[type(batch).__name__]
    for name in before:
        if name in positions:
            expected = before[name] + shift.astype(np.float32)[:, None]
            np.testing.assert_array_equal(after[name], expected, err_msg=name)
            assert placed.arrays()[name].ptr != batch.arrays()[name].ptr
        else:
            assert after[name].tobytes() == before[name].tobytes(), name


@pytest.mark.parametrize("kind", list(POSITIONS))
def test_positions_are_shifted_and_all_else_is_copied(device, kind):
    _, batch = a_batch(kind, device)
    kept = raw_bytes(batch)
    placed = batch.placed(origins(device))
    check_placed(batch, placed)
    assert raw_bytes(batch) == kept
    counts, points = placed.count.numpy(), placed.numpy()[POSITIONS[kind][0]]
    for count, row in zip(counts, points, strict=True):
        assert np.isfinite(row[:count]).all() and np.isnan(row[count:]).all()


def test_every_vector_field_is_a_position_or_a_direction():
    """A new field of positions must be named as one."""
    directions = {"tangent", "normal", "up"}
    for batch in (Track.allocate(1, 16, "cpu"), GateSequence.allocate(1, 4, "cpu")):
        vectors = {n for n, array in batch.arrays().items() if array.dtype is wp.vec3f}
        assert vectors - directions == set(POSITIONS[type(batch).__name__])


@pytest.mark.parametrize("kind", list(POSITIONS))
def test_out_keeps_its_addresses_and_follows(kind):
    generator, batch = a_batch(kind)
    out = batch.placed(origins())
    addresses = [array.ptr for array in out.arrays().values()]
    generator.rng.advance()
    generator.generate()
    if isinstance(batch, CourseLine):
        batch.update()
    for array in out.arrays().values():
        array.fill_(1)  # padding is written too
    assert batch.placed(origins(), out=out) is out
    check_placed(batch, out)
    assert [array.ptr for array in out.arrays().values()] == addresses
    moved = -2.0 * SHIFT
    batch.placed(moved, out=out)
    check_placed(batch, out, moved)


@pytest.mark.parametrize("kind", ["Track", "GateSequence"])
@pytest.mark.parametrize("form", ["warp", "torch", "numpy"])
def test_a_mask_restricts_to_its_rows(kind, form):
    generator, batch = a_batch(kind)
    out = batch.placed(origins())
    mask = np.arange(E) % 3 == 1
    given = {
        "warp": wp.array(mask, dtype=wp.bool, device="cpu"),
        "torch": torch.from_numpy(mask),
        "numpy": mask,
    }[form]
    before = raw_bytes(out, ~mask)
    generator.rng.advance()
    generator.generate()
    batch.placed(2.0 * SHIFT, out=out, mask=given)
    assert raw_bytes(out, ~mask) == before
    first = POSITIONS[kind][0]
    expected = batch.numpy()[first] + (2.0 * SHIFT).astype(np.float32)[:, None]
    np.testing.assert_array_equal(out.numpy()[first][mask], expected[mask])
    assert raw_bytes(out, mask)["count"] == raw_bytes(batch, mask)["count"]
    everything = raw_bytes(out)
    batch.placed(SHIFT, out=out, mask=np.zeros(E, bool))
    assert raw_bytes(out) == everything
    batch.placed(SHIFT, out=out)  # and all rows again after a masked call
    check_placed(batch, out)


def test_origins_of_every_kind():
    batch = make(num_envs=E).generate()
    single = SHIFT.astype(np.float32)
    state = torch.zeros(E, 13)
    state[:, 2:5] = torch.from_numpy(single)
    kinds = {
        "vec3f": origins(),
        "float32": wp.array(single, dtype=wp.float32, device="cpu"),
        "torch": torch.from_numpy(single),
        "torch slice": state[:, 2:5],
        "torch with gradient": torch.from_numpy(single).requires_grad_(),
        "numpy": SHIFT,
        "integers": SHIFT.astype(np.int64),
    }
    for name, given in kinds.items():
        shift = np.trunc(SHIFT) if name == "integers" else SHIFT
        check_placed(batch, batch.placed(given), shift)
    out = batch.placed(kinds["torch slice"])
    state[:, 2:5] *= -1.0  # read in place
    check_placed(batch, batch.placed(kinds["torch slice"], out=out), -SHIFT)


def test_rows_not_generated_stay_as_they_are():
    mask = np.arange(E) < 2
    batch = make(num_envs=E).generate(mask)
    placed = batch.placed(origins())
    assert np.isnan(placed.center.numpy()[~mask]).all()
    assert (placed.status.numpy()[~mask] == int(TrackStatus.NOT_GENERATED)).all()
    assert placed.valid.numpy().tolist() == mask.tolist()


@pytest.mark.parametrize("kind", ["Track", "GateSequence"])
def test_an_origin_on_the_device_that_is_not_finite_makes_the_env_invalid(kind):
    _, batch = a_batch(kind)
    where = SHIFT.astype(np.float32)
    where[2, 1] = np.nan
    where[4, 0] = np.inf
    placed = batch.placed(torch.from_numpy(where))
    good = batch.valid.numpy() & ~np.isin(np.arange(E), [2, 4])
    assert placed.valid.numpy().tolist() == good.tolist()
    flags = TrackStatus if kind == "Track" else GateStatus
    assert flags.NONFINITE in flags(int(placed.status.numpy()[2]))
    assert batch.valid.numpy().all()


@pytest.mark.parametrize("kind", ["Track", "GateSequence"])
def test_the_hot_path_allocates_and_synchronises_nothing(monkeypatch, kind):
    _, batch = a_batch(kind)
    where, other = origins(), wp.clone(origins())
    mask = wp.full(E, True, dtype=wp.bool, device="cpu")
    as_torch = torch.from_numpy(SHIFT.astype(np.float32))
    out = batch.placed(where)

    def forbidden(*args, **kwargs):
        raise AssertionError("allocation or synchronisation in the hot path")

    for name in ("empty", "empty_like", "zeros", "full", "ones", "clone", "copy", "synchronize",
                 "synchronize_device", "synchronize_stream", "load_module"):  # fmt: skip
        monkeypatch.setattr(wp, name, forbidden)
    monkeypatch.setattr(wp.array, "numpy", forbidden)
    monkeypatch.setattr(wp.array, "_alloc", forbidden, raising=False)
    monkeypatch.setattr(wp.get_device("cpu").default_allocator, "alloc", forbidden, raising=False)
    for _ in range(3):
        batch.placed(where, out=out)
        batch.placed(other, out=out, mask=mask)
        batch.placed(as_torch, out=out, mask=wp.to_torch(mask))
    monkeypatch.setattr(wp.array, "__init__", forbidden)
    for _ in range(3):
        batch.placed(where, out=out)
        batch.placed(other, out=out, mask=mask)


@pytest.mark.parametrize("kind", list(POSITIONS))
def test_a_captured_call_follows_the_generator(kind):
    generator, batch = a_batch(kind)
    where, mask = origins(), wp.full(E, True, dtype=wp.bool, device="cpu")
    out = batch.placed(where)
    with wp.ScopedCapture(device="cpu") as capture:
        generator.rng.advance(mask)
        generator.generate(mask)
        if isinstance(batch, CourseLine):
            batch.update(mask)
        batch.placed(where, out=out, mask=mask)
    for k in range(3):
        chosen = np.arange(E) % 3 != k
        before = raw_bytes(out, ~chosen)
        mask.assign(chosen)
        shift = SHIFT * (k + 2)
        where.assign(shift.astype(np.float32))
        # Calls between the replays do not change what the graph reads.
        other = batch.clone()
        other.placed(SHIFT, out=out, mask=np.zeros(E, bool))
        batch.placed(where, out=out, mask=np.zeros(E, bool))
        for array in out.arrays().values():  # nothing may be left of the last replay
            poison = array.numpy()
            poison[chosen] = 77
            array.assign(poison)
        wp.capture_launch(capture.graph)
        assert raw_bytes(out, chosen) == raw_bytes(batch.placed(where), chosen)
        assert raw_bytes(out, ~chosen) == before
    assert (generator.rng.episode_warp.numpy() == 2).all()


def test_what_a_capture_cannot_hold_is_refused():
    batch = make(num_envs=E).generate()
    where = origins()
    out, fresh = batch.placed(where), Track.allocate(E, batch.N_max, "cpu")
    for error, call in (
        ("call it once before the capture is opened", lambda: batch.placed(where)),
        ("call it once before the capture is opened", lambda: batch.placed(where, out=fresh)),
        (r"placed\(origins\): a NumPy array cannot", lambda: batch.placed(SHIFT, out=out)),
        (
            r"placed\(mask\): a NumPy array cannot",
            lambda: batch.placed(where, out=out, mask=np.ones(E, bool)),
        ),
    ):
        with pytest.raises(RuntimeError, match=error), wp.ScopedCapture(device="cpu"):
            call()
    batch.placed(where, out=fresh)
    check_placed(batch, fresh)


def test_one_out_may_serve_several_batches():
    first, second = make(num_envs=E).generate(), make(num_envs=E, seeds=1).generate()
    out = first.placed(origins())
    every_env = out._placement.every_env
    for batch in (second, first, second):
        batch.placed(origins(), out=out)
        check_placed(batch, out)
        assert out._placement.every_env is every_env  # a graph may hold its address
    out.center = wp.zeros_like(out.center)  # a replaced array is noticed
    second.placed(origins(), out=out)
    check_placed(second, out)
    part, places = row_slice(second, 2, 5), SHIFT[2:5]
    check_placed(part, part.placed(places), places)


def test_the_tools_agree():
    """Tools with origins find the points of the placed batch where they are on the track."""
    generator = make(num_envs=E)
    track = generator.generate()
    localizer = Localizer(track, origins=origins())
    placed = track.placed(origins())
    at_home = Localizer(placed)  # and the placed batch is a track for tools without origins
    for k in (0, 7, 20):
        p = placed.center[:, k : k + 1]
        localizer.update(p)
        at_home.update(p)
        for tool in (localizer, at_home):
            s, length = tool.s.numpy()[:, 0], track.length.numpy()
            gap = np.abs(s - track.arclen.numpy()[:, k])
            np.testing.assert_allclose(np.minimum(gap, length - gap), 0.0, atol=2e-5)
            np.testing.assert_allclose(tool.n.numpy(), 0.0, atol=1e-5)
        np.testing.assert_allclose(localizer.left.numpy(), at_home.left.numpy(), atol=1e-4)


def test_gate_crossings_in_one_world():
    gates = make_gates().generate()
    placed = gates.placed(origins())
    home, away = GateCrossing(gates), GateCrossing(placed)
    for step in (-0.3, 0.3):
        for tool, batch in ((home, gates), (away, placed)):
            p = batch.position.numpy()[:, :1] + step * batch.tangent.numpy()[:, :1]
            tool.update(wp.array(p, dtype=wp.vec3f, device="cpu"))
    assert (home.event.numpy()[..., 0] == 1).all()
    np.testing.assert_array_equal(away.event.numpy(), home.event.numpy())


def test_errors():
    batch = make(num_envs=E).generate()
    gates = make_gates().generate()
    where = origins()
    out = batch.placed(where)
    bad = SHIFT.copy()
    bad[3, 0] = np.nan
    cases = [
        (ValueError, r"Track.placed\(origins\) must be finite, got \[nan, .* for env 3",
         lambda: batch.placed(bad)),
        (ValueError, r"must have shape \(6, 3\), got \(6, 2\)", lambda: batch.placed(SHIFT[:, :2])),
        (ValueError, r"must have shape \(6, 3\), got \(3,\)", lambda: batch.placed(np.zeros(3))),
        (ValueError, r"must have shape \(6,\), got \(2,\)",
         lambda: batch.placed(wp.zeros(2, dtype=wp.vec3f, device="cpu"))),
        (ValueError, r"must have shape \(6, 3\), got \(5, 3\)",
         lambda: batch.placed(torch.zeros(5, 3))),
        (ValueError, "side by side", lambda: batch.placed(torch.zeros(3, E).T)),
        (TypeError, "vec3f or float32, got float64",
         lambda: batch.placed(torch.zeros(E, 3, dtype=torch.float64))),
        (TypeError, "must hold numbers", lambda: batch.placed(np.full((E, 3), "x"))),
        (TypeError, "got NoneType", lambda: batch.placed(None)),
        (TypeError, "got list", lambda: batch.placed([[0.0, 0.0, 0.0]] * E)),
        (TypeError, r"Track.placed\(out\) must be a Track, got GateSequence",
         lambda: batch.placed(where, out=gates)),
        (TypeError, r"GateSequence.placed\(out\) must be a GateSequence, got Track",
         lambda: gates.placed(where, out=batch)),
        (ValueError, r"placed\(out\).center must not share memory with the batch",
         lambda: batch.placed(where, out=batch)),
        (ValueError, r"placed\(out\).tangent must not share memory with the batch",
         lambda: batch.placed(
             where,
             out=Track(**{**Track.allocate(E, batch.N_max, "cpu").arrays(),
                          "tangent": batch.tangent}))),
        (ValueError, r"placed\(out\).center must be vec3f of shape \(6, 512\), got .*\(6, 64\)",
         lambda: batch.placed(where, out=Track.allocate(E, 64, "cpu"))),
        (ValueError, r"got vec3f of shape \(5, 512\)",
         lambda: batch.placed(where, out=Track.allocate(5, batch.N_max, "cpu"))),
        (ValueError, r"placed\(mask\) must have shape \(6\), got \(5,\)",
         lambda: batch.placed(where, out=out, mask=np.ones(5, bool))),
        (TypeError, r"placed\(mask\) must have dtype bool",
         lambda: batch.placed(where, out=out, mask=np.ones(E, np.int32))),
        (ValueError, r"placed\(mask\) needs out",
         lambda: batch.placed(where, mask=np.ones(E, bool))),
    ]  # fmt: skip
    for error, text, call in cases:
        with pytest.raises(error, match=text):
            call()
    check_placed(batch, out)


@pytest.mark.cuda
def test_devices_do_not_mix():
    batch = make(num_envs=E, device="cuda").generate()
    with pytest.raises(ValueError, match="must be on device cuda:0, got cpu"):
        batch.placed(origins("cpu"))
    with pytest.raises(ValueError, match="must be on device cuda:0, got cpu"):
        batch.placed(origins("cuda"), out=Track.allocate(E, batch.N_max, "cpu"))


@pytest.mark.cuda
def test_a_cuda_graph_places_what_it_generates():
    generator = make(num_envs=E, device="cuda")
    batch, where = generator.generate(), origins("cuda")
    out = batch.placed(where)
    with wp.ScopedCapture(device="cuda") as capture:
        generator.rng.advance()
        generator.generate()
        batch.placed(where, out=out)
    for _ in range(3):
        wp.capture_launch(capture.graph)
        check_placed(batch, out)


@pytest.mark.parametrize(("num_envs", "columns"), [(1, 1), (2, 2), (4, 2), (5, 3), (48, 7)])
def test_grids_are_centred_and_row_major(device, num_envs, columns):
    grid = grid_origins(num_envs, 2.5, device)
    assert grid.dtype is wp.vec3f and grid.shape == (num_envs,) and grid.device == device
    p = grid.numpy()
    np.testing.assert_allclose(p.min(axis=0) + p.max(axis=0), 0.0, atol=1e-6)
    assert len(np.unique(p[:, 0])) == columns
    for env in range(1, num_envs):
        step = p[env] - p[env - 1]
        expected = (-2.5 * (columns - 1), 2.5, 0.0) if env % columns == 0 else (2.5, 0.0, 0.0)
        np.testing.assert_allclose(step, expected, atol=1e-5)


def test_grids_with_two_spacings_and_errors():
    p = grid_origins(6, (3.0, 1.0), "cpu").numpy()
    np.testing.assert_allclose(p[:, 0], [-3, 0, 3] * 2)
    np.testing.assert_allclose(p[:, 1], [-0.5] * 3 + [0.5] * 3)
    for error, text, args in (
        (ValueError, r"grid_origins\(num_envs\) must be in \[1, ", (0, 1.0)),
        (TypeError, r"grid_origins\(num_envs\) must be an int", (2.0, 1.0)),
        (ValueError, r"grid_origins\(spacing\) must be finite and > 0, got nan", (4, np.nan)),
        (ValueError, r"grid_origins\(spacing\) must be finite and > 0, got 0", (4, (1.0, 0))),
        (ValueError, r"grid_origins\(spacing\) must be a number or a pair", (4, (1.0, 2.0, 3.0))),
        (TypeError, r"grid_origins\(spacing\) must be a number", (4, "wide")),
        (ValueError, "no Warp device", (4, 1.0, "cuda:77")),
    ):
        with pytest.raises(error, match=text):
            grid_origins(*args)


def test_envs_of_a_grid_do_not_meet():
    track = make(num_envs=9, half_width=0.05).generate()
    extent = np.nanmax(np.ptp(np.nan_to_num(track.outer.numpy()), axis=1))
    boxes = []
    placed = track.placed(grid_origins(9, 1.01 * float(extent), "cpu"))
    for env in range(9):
        outer = placed.env(env).outer[:, :2]
        boxes.append((outer.min(axis=0), outer.max(axis=0)))
    for a in range(9):
        for b in range(a):
            (low, high), (other_low, other_high) = boxes[a], boxes[b]
            assert (high < other_low).any() or (other_high < low).any()


@pytest.mark.parametrize("tool", [Localizer, Spawner])
def test_tools_refuse_to_place_a_batch_twice(tool):
    track = make(num_envs=4).generate()
    origins = grid_origins(4, 3.0, "cpu")
    world = track.placed(origins)
    line = RacingLine(world)
    assert not track.is_placed and world.is_placed and line.is_placed
    for placed in (world, world.clone(), line):
        with pytest.raises(
            ValueError, match=rf"{tool.__name__}\.origins must be None for a placed"
        ):
            tool(placed, origins=origins)
        tool(placed)
    tool(track, origins=origins)
