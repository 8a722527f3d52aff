"""The invariants of the growth behind the repulsive and serpentine families."""

from __future__ import annotations

import growth_reference as reference
import numpy as np
import pytest
import shapely
import warp as wp
from curve_job import SEEDS, build_job, curves_of, run_job

from conftest import make, raw_bytes
from track_gen import Repulsive, Serpentine, TrackStatus
from track_gen.block import block_lane, block_sync
from track_gen.generators import growth, repulsion, repulsive, serpentine

ROWS = repulsion.POINTS
R = 4.9029 * 0.35  # mean wall radius at the defaults
DISCS = [(0.5, 0.1, 0.03), (-0.3, 0.45, 0.04), (-0.1, -0.6, 0.02)]


def wavy(n, seed=0):
    """A smooth random curve inside the wall."""
    rng = np.random.default_rng(seed)
    t = 2 * np.pi * (np.arange(n) + 0.2 * rng.random(n)) / n
    r = 0.45 + sum(
        0.06 / k * rng.standard_normal() * np.cos(k * t + 6 * rng.random()) for k in range(1, 6)
    )
    return np.c_[r * np.cos(t), 0.8 * r * np.sin(t)]


@wp.kernel
def gradient_kernel(
    state: wp.array2d[wp.float32],
    state_blocks: wp.array2d[repulsion.vec8],
    count: int,
    discs: int,
    axes: wp.vec2f,
):
    """Forces and gradients of given points. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    row = state[env]
    repulsion.write_tangents(row, count, lane)
    block_sync()
    repulsion.write_forces(row, state_blocks[env], count, discs, axes, lane)
    block_sync()
    repulsion.write_gradients(row, count, lane)


@wp.kernel
def metric_kernel(
    state: wp.array2d[wp.float32],
    tables: wp.array2d[wp.float32],
    kernel: wp.array2d[wp.float32],
    count: int,
    fold: float,
):
    """The circulant inverse of the metric. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    repulsion.write_kernel(state[env], kernel[env], tables, count, fold, block_lane(thread))


def state_with(points, discs=()):
    row = np.zeros((1, growth._STATE_SIZE), np.float32)
    n = len(points)
    row[0, repulsion.X : repulsion.X + n] = points[:, 0]
    row[0, repulsion.Y : repulsion.Y + n] = points[:, 1]
    for k, disc in enumerate(discs):
        row[0, repulsion.DISCS + 3 * k : repulsion.DISCS + 3 * k + 3] = disc
    return wp.array(row, dtype=wp.float32, device="cpu")


def kernel_gradient(points, axes, discs):
    state = state_with(points, discs)
    blocks = growth._view(state, repulsion.vec8, growth._STATE_SIZE // 8)
    wp.launch(
        gradient_kernel,
        dim=(1, 1),
        inputs=[state, blocks, len(points), len(discs), wp.vec2f(*axes)],
        device="cpu",
    )
    row = state.numpy()[0]
    n = len(points)
    return np.c_[row[repulsion.PX : repulsion.PX + n], row[repulsion.PY : repulsion.PY + n]]


@pytest.mark.parametrize("n", [24, 32])
@pytest.mark.parametrize("seed", range(3))
def test_gradient(n, seed):
    """Analytic against central differences in float64, and the kernel against the analytic one."""
    axes = np.array([1.2**0.5, 1.2**-0.5])
    points = wavy(n, seed).astype(np.float32).astype(np.float64)
    analytic = reference.gradient(points, axes, DISCS)
    numeric = np.zeros_like(points)
    step = 1e-5
    for i in range(n):
        for k in range(2):
            moved = [points.copy() for _ in range(4)]
            for p, factor in zip(moved, (1, -1, 2, -2), strict=True):
                p[i, k] += factor * step
            e = [reference.energy(p, axes, DISCS) for p in moved]
            numeric[i, k] = (8 * (e[0] - e[1]) - (e[2] - e[3])) / (12 * step)
    size = np.abs(analytic).max()
    assert np.abs(numeric - analytic).max() < 1e-7 * size
    assert np.abs(kernel_gradient(points, axes, DISCS) - analytic).max() < 1e-5 * size


def test_energy_symmetries():
    x = wavy(32, 5)
    e = reference.energy(x)
    c, s = np.cos(0.7), np.sin(0.7)
    rotated = x @ np.array([[c, s], [-s, c]]) + (0.3, -0.2)
    for same in (rotated, x[::-1], np.roll(x, 5, 0)):
        assert reference.energy(same) == pytest.approx(e, rel=1e-6)
    assert reference.energy(2 * x) == pytest.approx(e / 2, rel=1e-6)
    g = reference.gradient(x)
    size = np.abs(g).sum()
    assert np.abs(g.sum(0)).max() < 1e-5 * size
    assert abs((x[:, 0] * g[:, 1] - x[:, 1] * g[:, 0]).sum()) < 1e-5 * size


@pytest.mark.parametrize("n", [24, 48, 128, 256])
@pytest.mark.parametrize("fold", [0.026, 0.065])
def test_metric(n, fold):
    """The circulant is symmetric, kills constants, agrees with the FFT; eight copies agree."""
    state = state_with(np.zeros((n, 2)))
    tables = wp.array(repulsion.metric_tables(), dtype=wp.float32, device="cpu")
    kernel = wp.zeros((1, 8 * ROWS), dtype=wp.float32, device="cpu")
    wp.launch(metric_kernel, dim=(1, 1), inputs=[state, tables, kernel, n, fold], device="cpu")
    copies = kernel.numpy()[0, : 8 * n].reshape(8, n).astype(np.float64)
    for z in range(8):
        np.testing.assert_array_equal(copies[z], np.roll(copies[0], -z))
    k = copies[0]
    np.testing.assert_allclose(k[1:], k[:0:-1], rtol=1e-6)
    assert abs(k.sum()) < 1e-5 * np.abs(k).sum()
    mode = np.arange(n)
    lam = (n / np.pi) ** 2 * np.sin(np.pi * mode / n) ** 2
    with np.errstate(divide="ignore"):
        symbol = 1.0 / (lam**2 + (fold * n) ** 4)
    symbol[0] = 0.0
    wanted = np.fft.ifft(symbol).real * n
    assert np.abs(k - wanted).max() < 1e-5 * np.abs(wanted).max()
    t = 2 * np.pi * mode / n
    circle = np.c_[np.cos(t), np.sin(t)]
    result = np.array([(np.roll(k[::-1], i + 1)[:, None] * circle).sum(0) for i in range(n)])
    radial = (result * circle).sum(1)
    assert np.abs(result - radial[:, None] * circle).max() < 1e-4 * np.abs(radial).max()


def curvature_roughness(curve, half_width, ratio=0.6):
    """RMS of curvature differences times the half width, at the pipeline's spacing."""
    closed = np.r_[curve, curve[:1]]
    arc = np.r_[0, np.cumsum(np.linalg.norm(np.diff(closed, axis=0), axis=1))]
    n = round(arc[-1] / (ratio * half_width))
    at = np.arange(n) * arc[-1] / n
    p = np.c_[np.interp(at, arc, closed[:, 0]), np.interp(at, arc, closed[:, 1])]
    edge = np.roll(p, -1, 0) - p
    size = np.linalg.norm(edge, axis=1)
    before = np.roll(edge, 1, 0)
    turn = np.arctan2(before[:, 0] * edge[:, 1] - before[:, 1] * edge[:, 0], (before * edge).sum(1))
    kappa = turn / (0.5 * (size + np.roll(size, 1)))
    rms = np.sqrt(((np.roll(kappa, -1) - kappa) ** 2).mean()) * half_width
    return rms, np.abs(turn).sum() / (2 * np.pi), turn.sum() / (2 * np.pi)


def thickness(curve):
    """Least tangent-point radius of a polygon."""
    tangent, _ = reference.frame(curve)
    d = curve[None] - curve[:, None]
    c = np.abs(d[..., 0] * tangent[:, None, 1] - d[..., 1] * tangent[:, None, 0])
    return 0.5 / (c / ((d**2).sum(2) + 1e-12)).max()


def check_growth(seeds):
    """Straight after growth: simple, inside the wall, of full length, smooth, varied."""
    job = run_job_drawn(seeds)
    curves = curves_of(job)
    knobs = job.knobs.numpy().astype(np.float64)
    target = knobs[:, 2] * 2 * np.pi / knobs[:, 6] * R
    lengths = np.array([np.linalg.norm(np.roll(c, -1, 0) - c, axis=1).sum() for c in curves])
    assert all(len(c) == growth.CURVE_POINTS and np.isfinite(c).all() for c in curves)
    assert (job.scratch["iterations"].numpy() <= growth.MAX_ITERATIONS).all()
    assert (job.scratch["growing"].numpy() == 0).all()
    assert shapely.is_simple(shapely.linearrings(curves)).all()
    # Every fourth point is one of the 256 that were grown.
    edges = [np.linalg.norm(np.roll(c, -1, 0) - c, axis=1) for c in (c[::4] for c in curves)]
    np.testing.assert_allclose([e.sum() for e in edges], target, rtol=1e-3)
    edges = edges[:256]
    assert max(np.abs(e / e.mean() - 1).max() for e in edges) < 0.03
    axes = np.stack([knobs[:, 4] ** 0.5, knobs[:, 4] ** -0.5], 1)
    clear = [1 - np.linalg.norm(c / R / a, axis=1).max() for c, a in zip(curves, axes, strict=True)]
    assert min(clear) > 0.1
    rough, wiggle, turning = np.array([curvature_roughness(c, 0.1) for c in curves]).T
    np.testing.assert_allclose(turning, 1.0, atol=1e-6)
    assert rough.mean() <= 0.11 and rough.max() <= 0.2
    assert 4.5 <= wiggle.mean() <= 7.0
    fine = np.array([curvature_roughness(c, 0.05)[0] for c in curves])
    assert fine.max() <= 0.06
    area = np.array([shapely.Polygon(c).area for c in curves])
    compactness = 4 * np.pi * area / lengths**2
    assert 0.13 <= compactness.mean() <= 0.17 and compactness.std() >= 0.012
    assert lengths.mean() == pytest.approx(13.0, rel=0.1)
    thick = np.array([thickness(c[::4]) for c in curves[:256]])
    assert np.median(thick) >= 0.1 and thick.min() >= 0.06
    assert job.scratch["pairs"].numpy().mean() <= 1.1e6
    return {
        "roughness": (rough.mean(), rough.max()),
        "compactness": (compactness.mean(), compactness.std()),
        "length": lengths.mean(),
        "thickness": (np.median(thick), thick.min()),
        "clearance": min(clear),
        "pairs": job.scratch["pairs"].numpy().mean(),
        "iterations": job.scratch["iterations"].numpy().max(),
    }


def run_job_drawn(seeds, settings=None, spec=serpentine.SPEC):
    """Grow with knobs drawn from their ranges as the parameter table draws them."""
    settings = settings or spec.settings()
    generator = make(num_envs=len(seeds), seeds=seeds, generator=settings, max_attempts=1)
    generator._executor.prepare()
    b = generator._buffers
    for target, source in ((b.seeds, generator.rng.seeds_warp),):
        wp.copy(target, source)
    b.active.fill_(True)
    for command in generator._executor._whole.start:
        command.launch()
    knobs = b.knobs.numpy()
    drawn = {knob.name: knobs[:, 2 + k] for k, knob in enumerate(settings.knobs)}
    return run_job(spec, settings, seeds, knobs=drawn)


def test_growth_of_some_seeds():
    check_growth(np.arange(96, dtype=np.int32))


@pytest.mark.slow
def test_growth_of_4096_seeds(capsys):
    figures = check_growth(np.arange(4096, dtype=np.int32))
    with capsys.disabled():
        print(figures)


def test_repulsive_equals_serpentine_bit_for_bit():
    """The windows of the host give what one launch gives, in any batch and with any threads."""
    one = make(num_envs=12, generator="serpentine", num_threads=1).generate()
    for threads in (1, 2, 5):
        other = make(num_envs=12, generator="repulsive", num_threads=threads).generate()
        assert raw_bytes(other) == raw_bytes(one)


@pytest.mark.parametrize("reverse", [False, True])
def test_lanes(reverse, tmp_path):
    """8, 32 and 64 lanes, in either order, give the bits of one lane; windows too."""
    import os
    import subprocess
    import sys
    from pathlib import Path

    script = f"""
import sys, hashlib
sys.path[:0] = [{str(Path(__file__).parent)!r}]
import numpy as np, warp as wp
wp.config.quiet = True
from curve_job import run_job, SEEDS
from track_gen.generators import growth, repulsive, serpentine
lanes = int(sys.argv[1])
wp.config.enable_cpu_blocks = lanes > 1
fixed = dict(growth=5.0, fold=0.04, aspect=1.2, obstacle_radius=0.03)
for module in (serpentine, repulsive):
    settings = module.SPEC.settings(**fixed)
    job = run_job(module.SPEC, settings, SEEDS[:2], lanes=lanes)
    print("#", hashlib.sha256(job.curve.numpy().tobytes()).hexdigest())
"""

    def run(lanes):
        result = subprocess.run(
            [sys.executable, "-c", script, str(lanes)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TRACK_GEN_REVERSE_LANES": str(int(reverse))},
        )
        assert result.returncode == 0, result.stderr
        return [line for line in result.stdout.splitlines() if line.startswith("#")]

    one = run(1)
    assert len(one) == 2 and one[0] == one[1]
    for lanes in (32,) if reverse else (8, 32, 64):
        assert run(lanes) == one


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_domain_scales_the_same_curve(factor):
    """The growth knows nothing of the size: the same bits up to the last multiplication."""
    fixed = {"growth": 5.0, "fold": 0.04, "aspect": 1.2, "obstacle_radius": 0.03}
    base = run_job(serpentine.SPEC, Serpentine(**fixed, domain=0.32), SEEDS[:3])
    scaled = run_job(
        serpentine.SPEC, Serpentine(**fixed), SEEDS[:3], knobs={"domain": 0.32 * factor}
    )
    np.testing.assert_allclose(scaled.curve.numpy(), base.curve.numpy() * factor, rtol=3e-6)
    assert scaled.scratch["pairs"].numpy().tolist() == base.scratch["pairs"].numpy().tolist()


ENDS = [
    {"growth": 2.0},
    {"growth": 9.0},
    {"domain_to_seed": 3.0, "growth": 7.0},
    {"domain_to_seed": 6.0},
    {"fold": 0.02},
    {"fold": 0.15},
    {"aspect": 3.0},
    {"obstacle_radius": 0.12},
    {"obstacles": (3, 3)},
    {"obstacles": (16, 16)},
    {"drop_obstacles": False},
]


@pytest.mark.parametrize("options", ENDS, ids=str)
def test_knob_ends(options):
    """No crossing, nothing non-finite; what cannot reach its length stops at the cap."""
    fixed = {"growth": 5.0, "fold": 0.04, "aspect": 1.2, "obstacle_radius": 0.03}
    job = run_job(serpentine.SPEC, Serpentine(**{**fixed, **options}), SEEDS[:16])
    curves = curves_of(job)
    assert all(np.isfinite(c).all() and len(c) == growth.CURVE_POINTS for c in curves)
    assert (job.scratch["iterations"].numpy() <= growth.MAX_ITERATIONS).all()
    assert shapely.is_simple(shapely.linearrings(curves)).all()


def test_two_seeds_never_give_the_same_curve():
    job = run_job_drawn(np.arange(64, dtype=np.int32))
    assert len({row.tobytes() for row in job.curve.numpy()}) == 64
    knobs = job.knobs.numpy()
    for column in (2, 3, 4, 7):  # growth, fold, aspect, obstacle_radius
        assert len(np.unique(knobs[:, column])) == 64
    assert np.abs(np.corrcoef(knobs[:, [2, 3, 4, 7]].T) - np.eye(4)).max() < 0.4


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"growth": 1.5}, ValueError, r"Repulsive.growth must be in \[2, 9\], got 1.5"),
        ({"growth": (5.5, 4.5)}, ValueError, "ordered"),
        ({"fold": 0.01}, ValueError, "Repulsive.fold"),
        ({"fold": float("nan")}, ValueError, "got nan"),
        ({"aspect": 0.5}, ValueError, "Repulsive.aspect"),
        ({"domain": 0.0}, ValueError, "Repulsive.domain"),
        ({"domain_to_seed": 10}, ValueError, "Repulsive.domain_to_seed"),
        ({"obstacle_radius": 1.0}, ValueError, "Repulsive.obstacle_radius"),
        ({"obstacles": (0, 3)}, ValueError, r"Repulsive.obstacles\[0\]"),
        ({"obstacles": (9, 8)}, ValueError, "ordered"),
        ({"obstacles": 8}, TypeError, "pair"),
        ({"drop_obstacles": 1}, TypeError, "drop_obstacles"),
    ],
)
def test_bad_settings(options, error, text):
    with pytest.raises(error, match=text):
        Repulsive(**options)


def test_progress_is_reported_and_ends_at_zero():
    generator = make(num_envs=8, generator="repulsive", num_threads=2)
    seen = []
    generator.on_progress = lambda iteration, growing: seen.append((iteration, growing))
    generator.generate()
    assert len(seen) >= 6
    assert all(0 <= growing <= 8 and 0 < it <= growth.MAX_ITERATIONS for it, growing in seen)
    assert seen[-1][1] == 0 and seen[-1][0] > repulsive.WINDOW
    seen.clear()
    generator.generate(np.zeros(8, dtype=bool))
    assert all(growing == 0 for _, growing in seen)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_leaves_a_usable_generator(threads):
    generator = make(num_envs=8, generator="repulsive", num_threads=threads)
    expected = raw_bytes(generator.generate())

    def interrupt(iteration, growing):
        if iteration >= 2 * repulsive.WINDOW:
            raise KeyboardInterrupt

    generator.on_progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        generator.generate()
    generator.on_progress = None
    assert raw_bytes(generator.generate()) == expected


def test_masked_out_rows_cost_nothing():
    job = build_job(
        serpentine.SPEC,
        Serpentine(growth=5.0, fold=0.04, aspect=1.2, obstacle_radius=0.03),
        SEEDS[:6],
    )
    job.pending.fill_(False)
    for command in serpentine.SPEC.launches(Serpentine(), job):
        command.launch()
    assert (job.scratch["pairs"].numpy() == 0).all()
    assert np.isnan(job.curve.numpy()).all()


def test_scratch_is_small():
    from memory import scratch_bytes

    for name in ("repulsive", "serpentine"):
        assert scratch_bytes(make(num_envs=4, generator=name)) / 4 < 64 * 1024


def test_long_tracks_overflow_with_a_reason():
    with pytest.warns(UserWarning, match="N_max=.* suffices"):
        generator = make(num_envs=4, generator="serpentine", half_width=0.02)
    arrays = generator.generate().numpy()
    assert (arrays["status"] == int(TrackStatus.OVERFLOW)).all()
    assert (arrays["required_count"] > 512).all()


@pytest.mark.parametrize("half_width", [0.05, 0.1])
@pytest.mark.parametrize("num_envs", [64, pytest.param(4096, marks=pytest.mark.slow, id="4096")])
def test_through_the_pipeline(half_width, num_envs):
    from judge import judge_batch

    for attempts in (1, 4):
        arrays = (
            make(
                num_envs=num_envs,
                generator="serpentine",
                half_width=half_width,
                max_attempts=attempts,
                N_max=640,
            )
            .generate()
            .numpy()
        )
        keys = ("center", "outer", "inner", "count", "half_width")
        good = np.array([not r for r in judge_batch(*(arrays[k] for k in keys))])
        assert arrays["valid"].mean() >= (0.997 if attempts == 1 else 1.0)
        assert good[arrays["valid"]].all()
