"""Heights of tracks: real limits, an untouched plan view, no accidental flatness."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import warp as wp
from hills import (
    HARD,
    HILLS,
    LINES,
    complaints,
    grades,
    lane_outputs,
    lane_outputs_elsewhere,
    lift,
    make,
    max_grade,
    tracks,
    wiggly,
)

from track_gen import TrackStatus
from track_gen.block import block_lane, block_launch
from track_gen.elevation import (
    PROFILE_SIZE,
    ElevationSettings,
    Flat,
    Noise,
    Profile,
    RandomWalk,
    Uniform,
    draw_profile,
    make_profile,
    profile_bounds,
    sample_profile,
)

ALL = {**HILLS, **HARD}
PLAN = ("curvature", "normal", "count", "status", "valid", "winding", "attempts")


@wp.kernel
def sample_kernel(
    profile: Profile,
    length: float,
    coefficients: wp.array2d[wp.float32],
    out: wp.array2d[wp.float32],
    range_out: wp.array[wp.vec2f],
):
    env, thread = wp.tid()
    lane = block_lane(thread)
    draw_profile(profile, 7 * env + 3, 0, 0, length, coefficients, env, lane)
    range_out[env] = profile_bounds(profile, length)
    for i in range(lane, out.shape[1], wp.block_dim()):
        u = float(i) / float(out.shape[1])
        out[env, i] = sample_profile(profile, coefficients, env, u)


def shapes(settings, num_envs=64, samples=512, length=4.5):
    coefficients = wp.zeros((num_envs, PROFILE_SIZE), dtype=wp.float32, device="cpu")
    out = wp.zeros((num_envs, samples), dtype=wp.float32, device="cpu")
    bounds = wp.zeros(num_envs, dtype=wp.vec2f, device="cpu")
    profile = make_profile(settings, max_grade(settings))
    inputs = [profile, length, coefficients]
    block_launch(sample_kernel, num_envs, 1, inputs, [out, bounds], wp.get_device("cpu")).launch()
    return out.numpy(), bounds.numpy()


@pytest.mark.parametrize("name", ALL)
def test_profile_is_periodic_continuous_and_in_range(name):
    shape, bounds = shapes(ALL[name])
    assert np.abs(shape).max() <= 1.0 + 1e-6
    step = np.abs(np.roll(shape, -1, axis=1) - shape)
    assert step[:, -1].max() <= step.max() + 1e-6
    assert step.max() < (0.6 if getattr(ALL[name], "knots", 0) >= 40 else 0.15)
    assert (bounds[:, 0] < bounds[:, 1]).all() or isinstance(ALL[name], Flat)
    if not isinstance(ALL[name], Flat):
        assert (np.ptp(shape, axis=1) > 0.1).all()
        assert len({row.tobytes() for row in shape}) == len(shape)


@pytest.mark.parametrize("name", ALL)
def test_grade_range_and_banking_are_limits(name):
    settings = ALL[name]
    for half_width in (0.1, 0.03):
        batch = tracks(48, settings, half_width=half_width)
        assert batch["valid"].all()
        assert complaints(batch, settings) == []
    z = batch["center"][..., 2]
    if isinstance(settings, Uniform) and settings.high is not None:
        assert np.nanmin(z) >= settings.low and np.nanmax(z) <= settings.high


def test_the_judge_finds_a_breach():
    settings = Noise()
    batch = tracks(4, settings)
    batch["inner"][1, 5, 2] += 0.02
    assert any("env 1: inner" in text for text in complaints(batch, settings))
    batch["center"][2, :, 2] = 0.0
    assert any("env 2: flat" in text for text in complaints(batch, settings))
    assert any("banked" in text for text in complaints(batch, settings))


@pytest.mark.parametrize("name", ALL)
def test_plan_view_is_that_of_the_flat_run(name):
    # Without relaxation many rows fail and are attempted again.
    config = {"half_width": 0.05, "max_attempts": 2, "direction": "random", "relax_enable": False}
    flat, hills = tracks(64, None, **config), tracks(64, ALL[name], **config)
    for line in LINES:
        assert hills[line][..., :2].tobytes() == flat[line][..., :2].tobytes()
    for key in PLAN:
        assert hills[key].tobytes() == flat[key].tobytes(), key
    assert 0 < flat["valid"].sum() < 64


def test_flat_at_zero_is_the_same_as_none():
    none, zero = tracks(16, None), tracks(16, Flat())
    for key, value in none.items():
        assert value.tobytes() == zero[key].tobytes(), key
    assert (tracks(4, Flat(z=-2.5))["center"][0, :50, 2] == -2.5).all()


def test_none_adds_no_launch_and_elevation_one():
    counts = []
    for elevation in (None, Noise()):
        generator = make(4, elevation)
        generator.warmup()
        counts.append(len(generator._executor._whole.attempts[0]))
    assert counts[1] == counts[0] + 1


@pytest.mark.parametrize("settings", [Uniform(), RandomWalk(), Noise()])
def test_defaults_are_not_flat(settings):
    """A range of at least 0.5 % of the length, at any scale."""
    for scale, half_width in ((1.0, 0.1), (100.0, 5.0)):
        batch = tracks(128, settings, scale=scale, half_width=half_width)
        z = batch["center"][..., 2]
        share = (np.nanmax(z, axis=1) - np.nanmin(z, axis=1)) / batch["length"]
        assert share.min() > 0.003 and np.median(share) > 0.015


def test_heights_scale_with_the_track():
    small = tracks(16, Noise())
    large = tracks(16, Noise(), scale=1024.0, half_width=102.4)
    np.testing.assert_array_equal(small["count"], large["count"])
    np.testing.assert_allclose(large["center"], 1024 * small["center"], rtol=1e-4, atol=0.05)


def test_frames_and_lengths_are_those_of_space():
    batch = tracks(16, RandomWalk(banking=15.0, max_grade=0.4), direction="random")
    for env, n in enumerate(batch["count"]):
        center, left, up = (batch[key][env, :n].astype(float) for key in ("center", "normal", "up"))
        edges = np.roll(center, -1, axis=0) - center
        lengths = np.linalg.norm(edges, axis=1)
        assert batch["length"][env] == pytest.approx(lengths.sum(), rel=1e-5)
        assert batch["spacing"][env] == pytest.approx(lengths.sum() / n, rel=1e-5)
        arclen = np.concatenate([[0.0], lengths[:-1].cumsum()])
        np.testing.assert_allclose(batch["arclen"][env, :n], arclen, atol=2e-5)
        tangent = batch["tangent"][env, :n].astype(float)
        np.testing.assert_allclose(np.linalg.norm(tangent, axis=1), 1.0, atol=1e-5)
        ahead = np.roll(center, -1, axis=0) - np.roll(center, 1, axis=0)
        rise = ahead[:, 2] / np.hypot(ahead[:, 0], ahead[:, 1])
        found = tangent[:, 2] / np.hypot(tangent[:, 0], tangent[:, 1])
        np.testing.assert_allclose(found, rise, atol=1e-5)
        right = batch["outer" if batch["winding"][env] > 0 else "inner"][env, :n] - center
        for line in (tangent, right):
            assert np.abs((up * line).sum(axis=1)).max() < 2e-5
        np.testing.assert_allclose(np.linalg.norm(up, axis=1), 1.0, atol=1e-5)
        assert (up[:, 2] > 0.8).all()
        np.testing.assert_allclose(left[:, 2], 0.0)
        # Corners lean inwards: the side away from the turn is the higher one.
        lean = right[:, 2] * batch["curvature"][env, :n]
        assert (lean >= 0.0).all() and (lean > 0.0).any()


def test_padding_of_up_is_nan():
    for elevation in (None, Noise()):
        batch = tracks(4, elevation)
        for env, n in enumerate(batch["count"]):
            assert np.isfinite(batch["up"][env, :n]).all()
            assert np.isnan(batch["up"][env, n:]).all()
    assert (tracks(4, None)["up"][0, :30] == [0.0, 0.0, 1.0]).all()


def stadium(radius, straight, samples):
    half = np.linspace(-np.pi / 2, np.pi / 2, samples)
    cap = radius * np.stack([np.cos(half), np.sin(half)], axis=1)
    side = np.linspace(straight / 2, -straight / 2, samples)[1:-1]
    top = np.stack([side, np.full_like(side, radius)], axis=1)
    shift = np.array([straight / 2, 0.0])
    return np.vstack([cap + shift, top, -cap - shift, -top])


@pytest.mark.parametrize("settings", [Flat(banking=20.0), Noise(banking=20.0, amplitude=0.1)])
def test_banking_is_zero_on_straights_and_full_in_bends(settings):
    lifted, _ = lift([stadium(1.0, 8.0, 60)], 0.3, settings)
    n = lifted["count"][0]
    center, outer, inner, curvature = (lifted[k][0, :n] for k in (*LINES, "curvature"))
    straight = np.abs(curvature) < 1e-9
    assert straight.sum() > 20
    lean = np.degrees(np.arctan2(outer[:, 2] - inner[:, 2], 0.6))
    assert np.abs(lean[straight]).max() <= 1e-6 * 180
    if isinstance(settings, Flat):
        assert (outer[straight, 2] == center[straight, 2]).all()
        bend = np.abs(center[:, 0]) > 4.0 + 0.95
        assert lean[bend].min() > 12.0
    assert lean.max() <= 20.0
    assert complaints(lifted, settings) == []


def test_inner_border_of_a_tight_bend_limits_the_slope_only_there():
    """A hairpin is climbed slowly, the straight beside it at the full grade."""
    settings = Uniform(low=0.0, high=20.0, knots=40)
    lifted, _ = lift([stadium(0.36, 6.0, 40)] * 24, 0.3, settings)
    assert complaints(lifted, settings) == []
    n = lifted["count"][0]
    hairpin = np.abs(lifted["center"][0, :n, 0]) > 3.1
    steepest = np.array([grades(center[:n]) for center in lifted["center"]])
    assert steepest[:, ~hairpin].max() > 0.149
    assert steepest[:, hairpin].max() < 0.05


def test_grade_bit():
    """The gate sees a road steeper than allowed, on each line; the stage never makes one."""
    from track_gen.stages.validity import ValidityConfig, check_validity

    device = wp.get_device("cpu")
    batch = tracks(5, Noise(max_grade=0.1))
    for line, env in (("center", 1), ("outer", 2), ("inner", 3)):
        batch[line][env, 4, 2] += 0.05
    arrays = [wp.array(batch[line], dtype=wp.vec3f, device=device) for line in LINES]
    count = wp.array(batch["count"], dtype=wp.int32, device=device)
    width = wp.array(batch["half_width"], dtype=wp.float32, device=device)
    for limit, expected in ((0.1, [0, 1, 1, 1, 0]), (5.0, [0] * 5), (np.inf, [0] * 5)):
        pending = wp.full(5, True, dtype=wp.bool, device=device)
        status, attempts = (wp.zeros(5, dtype=wp.int32, device=device) for _ in range(2))
        valid = wp.zeros(5, dtype=wp.bool, device=device)
        check_validity(
            *arrays, count, width, pending, status, valid, attempts, 0, ValidityConfig(), 1, device,
            max_grade=limit,
        ).launch()  # fmt: skip
        assert status.numpy().tolist() == [int(TrackStatus.GRADE) * flag for flag in expected]


@pytest.mark.parametrize("name", HILLS)
def test_captured_equals_eager(name):
    eager, captured = make(12, HILLS[name]), make(12, HILLS[name], capture=True)
    for _ in range(3):
        expected = eager.generate().numpy()
        for array in captured.track.arrays().values():
            array.zero_()
        found = captured.generate().numpy()
        for key, value in expected.items():
            assert found[key].tobytes() == value.tobytes(), key
        eager.rng.advance()
        captured.rng.advance()
    assert captured.graph is not None


def test_threads_rows_and_masks():
    seeds = np.random.default_rng(3).integers(-(2**31), 2**31, 24).astype(np.int32)
    order = np.random.default_rng(4).permutation(24)
    settings = RandomWalk(banking=10.0)
    expected = tracks(24, settings, seeds=seeds, num_threads=1)
    found = tracks(24, settings, seeds=seeds[order], num_threads=3)
    for key, value in expected.items():
        assert found[key].tobytes() == value[order].tobytes(), key
    generator = make(24, settings, seeds=seeds)
    generator.generate()
    generator.rng.advance()
    mask = np.arange(24) % 3 == 0
    after = generator.generate(mask).numpy()
    for key, value in expected.items():
        assert after[key][~mask].tobytes() == value[~mask].tobytes(), key
    assert (after["center"][mask] != expected["center"][mask]).any()


def test_any_lanes_give_the_same_bits(tmp_path):
    one = lane_outputs(1)
    for reverse in (False, True):
        other = lane_outputs_elsewhere(32, reverse, tmp_path / f"{reverse}.npz")
        for key, value in one.items():
            assert other[key].tobytes() == value.tobytes(), (key, reverse)


def test_rows_without_a_road_stay_nan():
    curves = wiggly(2, 40)
    curves[1] = np.full((40, 2), np.nan)
    lifted, flat = lift(curves, 0.1, Noise(banking=5.0))
    for key in (*LINES, "tangent", "up", "arclen", "length"):
        assert np.isnan(lifted[key][1]).all()
    assert np.isfinite(lifted["center"][0, :40]).all()
    assert flat["length"][0] < lifted["length"][0]


BAD = [
    (lambda: Uniform(low=1.0, high=1.0), "Uniform.high must be > Uniform.low in float32, got 1.0"),
    (lambda: Uniform(low=2.0, high=1.0), "would be flat; use Flat"),
    (lambda: Uniform(low=1e6, high=1e6 + 1e-3), "would be flat"),
    (lambda: Uniform(low=np.nan), "Uniform.low must be"),
    (lambda: Uniform(knots=1), "Uniform.knots must be in [2, 64], got 1"),
    (lambda: RandomWalk(span=0.0), "RandomWalk.span must be in (0"),
    (lambda: RandomWalk(knots=65), "RandomWalk.knots must be in [3, 64], got 65"),
    (lambda: RandomWalk(max_grade=0.0), "RandomWalk.max_grade must be in (0, 10], got 0.0"),
    (lambda: Noise(amplitude=0.0), "Noise.amplitude must be in (0"),
    (lambda: Noise(z=1e9, amplitude=1.0), "would be flat"),
    (lambda: Noise(harmonics=0), "Noise.harmonics must be in [1, 32], got 0"),
    (lambda: Noise(max_grade=np.nan), "Noise.max_grade must be in (0, 10], got nan"),
    (lambda: Flat(z=np.inf), "Flat.z must be"),
    (lambda: Flat(banking=-1.0), "Flat.banking must be in [0, 45], got -1.0"),
    (lambda: Flat(banking_radius=0.5), "Flat.banking_radius must be in [1, 1000], got 0.5"),
]


@pytest.mark.parametrize(("build", "text"), BAD)
def test_bad_settings(build, text):
    with pytest.raises(ValueError) as caught:
        build()
    assert text in str(caught.value)


def test_types_are_checked():
    with pytest.raises(TypeError, match="base class"):
        ElevationSettings()
    with pytest.raises(TypeError):
        Flat(z="up")
    with pytest.raises(TypeError):
        Noise(harmonics=2.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Flat().z = 1.0


@pytest.mark.slow
@pytest.mark.parametrize("half_width", [0.1, 0.03])
@pytest.mark.parametrize("name", ALL)
def test_limits_hold_for_4096_seeds(name, half_width):
    settings = ALL[name]
    batch = tracks(4096, settings, half_width=half_width, seeds=11)
    assert batch["valid"].mean() > 0.99
    assert complaints(batch, settings) == []
    assert not (batch["status"] & int(TrackStatus.GRADE)).any()
