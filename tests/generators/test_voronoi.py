from __future__ import annotations

import math

import numpy as np
import pytest
from curve_job import SEEDS, area, assert_lanes_agree, boxed, curves_of, length, run_job
from shapely.geometry import LinearRing

from track_gen.generators.voronoi import LAYOUTS, SPEC, Voronoi


def raw(job, rows=slice(None)):
    return job.curve.numpy()[rows].tobytes()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_same_seed_same_curve_in_any_row_and_batch(layout):
    settings = Voronoi(layout=layout)
    one = run_job(SPEC, settings)
    assert raw(run_job(SPEC, settings)) == raw(one)
    order = np.random.default_rng(0).permutation(len(SEEDS))
    assert raw(run_job(SPEC, settings, SEEDS[order])) == raw(one, order)
    assert raw(run_job(SPEC, settings, SEEDS[5:6])) == raw(one, slice(5, 6))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_seed_episode_and_attempt_all_matter(layout):
    curves = {
        raw(run_job(SPEC, Voronoi(layout=layout), [seed], episode=episode, attempt=attempt))
        for seed in (0, 1, -1)
        for episode in (0, 1)
        for attempt in (0, 1)
    }
    assert len(curves) == 12


CASES = [
    *(Voronoi(layout=layout) for layout in LAYOUTS),
    *(Voronoi(layout=layout, radial_variation=1.0, angular_jitter=0.5) for layout in LAYOUTS),
    *(Voronoi(layout=layout, radial_variation=0.0, angular_jitter=0.0) for layout in LAYOUTS),
    Voronoi(layout="box", num_sites=40, num_anchors=40),
    Voronoi(layout="clustered", num_sites=128, num_anchors=64),
    Voronoi(num_sites=4096, num_anchors=128),
]


@pytest.mark.parametrize("settings", CASES)
def test_curves_are_finite_simple_and_counter_clockwise(settings):
    job = run_job(SPEC, settings, SEEDS[:32])
    fallback = job.scratch["fallback"].numpy()
    assert set(fallback) <= {0, 1}
    for curve, polygon in zip(curves_of(job), fallback, strict=True):
        full = SPEC.curve_size(settings)
        assert len(curve) == (settings.num_anchors if polygon else full)
        assert np.isfinite(curve).all()
        assert area(curve) > 0.0
        assert LinearRing(curve).is_simple


def test_default_layouts_need_no_fallback():
    for layout in LAYOUTS:
        assert not run_job(SPEC, Voronoi(layout=layout)).scratch["fallback"].numpy().any()


def test_fallback_is_the_polygon_of_the_anchors():
    job = run_job(SPEC, Voronoi(layout="box", num_sites=64, num_anchors=64))
    rows = np.flatnonzero(job.scratch["fallback"].numpy())
    assert 0 < len(rows) < len(SEEDS)
    for row in rows:
        anchors = job.scratch["anchors"].numpy()[row]
        assert job.curve.numpy()[row, :64].tobytes() == anchors.tobytes()
        angle = np.arctan2(anchors[:, 1], anchors[:, 0])
        assert (np.diff(angle % (2 * np.pi)) >= 0.0).all()


def test_sites_all_on_one_side_still_run_counter_clockwise():
    job = run_job(SPEC, Voronoi(layout="box", num_sites=6, num_anchors=6), np.arange(256))
    anchors = job.scratch["anchors"].numpy().astype(np.float64)
    clockwise = np.array([area(polygon) < 0.0 for polygon in anchors])
    assert clockwise.any()
    for curve in curves_of(job):
        assert np.isfinite(curve).all()
        assert area(curve) > 0.0


def test_every_anchor_has_a_site_of_its_own():
    job = run_job(SPEC, Voronoi(num_sites=20, num_anchors=18))
    for taken in job.scratch["taken"].numpy():
        assert len(np.unique(taken, axis=0)) == 18


def test_anchors_take_the_nearest_unused_sites():
    """The same choice in NumPy: the sites left over plus those taken are all there were."""
    settings = Voronoi(num_sites=64, num_anchors=12)
    job = run_job(SPEC, settings, SEEDS[:16])
    taken = job.scratch["taken"].numpy().astype(np.float64)
    wanted = job.scratch["wanted"].numpy().astype(np.float64)
    left = job.scratch["sites"].numpy().astype(np.float64)
    for env in range(16):
        sites = np.concatenate([left[env][left[env, :, 1] < 10.0], taken[env]])
        assert len(sites) == 64
        for i in range(12):
            turns = np.abs(sites[:, 0] - wanted[env, i, 0])
            turns = np.minimum(turns, 1.0 - turns)
            cost = 12 * turns + np.abs(sites[:, 1] - wanted[env, i, 1]) / 0.26
            best = np.argmin(cost)
            assert cost[best] > cost[np.argmin(np.abs(sites - taken[env, i]).sum(axis=1))] - 1e-5
            sites = sites[np.abs(sites - taken[env, i]).sum(axis=1) > 0.0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sites_fill_the_layout(layout):
    job = run_job(SPEC, Voronoi(layout=layout, num_sites=512, num_anchors=6))
    sites = job.scratch["sites"].numpy()
    sites = sites[sites[..., 1] < 10.0].astype(np.float64)
    angle, radius = 2 * np.pi * sites[:, 0], sites[:, 1]
    assert (sites[:, 0] >= 0.0).all()
    assert (sites[:, 0] <= 1.0).all()
    inside = (radius > 0.28 - 1e-6) & (radius < 1.04 + 1e-6)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    if layout == "void_ring":
        assert inside.all()
        # Area-uniform: the squared radius is uniform.
        share = (radius**2 - 0.28**2) / (1.04**2 - 0.28**2)
        assert abs(share.mean() - 0.5) < 0.01
    if layout == "box":
        assert np.abs(np.r_[x, y]).max() < 1.0 + 1e-5
        assert abs(np.mean(x**2) - 1 / 3) < 0.01
    if layout == "mixed":
        corner = np.mean(radius > 1.04 + 1e-6)
        assert abs(corner - 0.35 * (1 - 0.25 * (np.pi * 1.04**2 - 0.165))) < 0.02
    if layout == "clustered":
        assert radius.max() < 1.05
        assert abs(radius.mean() - 0.57) < 0.08


def test_knobs_are_read_per_env():
    variation = np.linspace(0.0, 0.75, len(SEEDS))
    job = run_job(
        SPEC,
        Voronoi(),
        np.full(len(SEEDS), 3),
        knobs={"radial_variation": variation, "angular_jitter": 0.0},
    )
    spread = job.scratch["wanted"].numpy()[..., 1].std(axis=1)
    assert spread[0] < 1e-6
    assert (np.diff(spread) > 0.0).mean() > 0.95
    jittered = run_job(
        SPEC, Voronoi(), np.full(2, 3), knobs={"angular_jitter": np.array([0.0, 0.5])}
    )
    turns = jittered.scratch["wanted"].numpy()[..., 0]
    shift = (turns[1] - turns[0] + 0.5) % 1.0 - 0.5
    assert 0.3 < 2 * np.pi * np.abs(shift).max() <= 0.5 + 1e-5


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.01, -1, 1e30])
@pytest.mark.parametrize(("field", "high"), [("radial_variation", 1.0), ("angular_jitter", 0.5)])
def test_knobs_out_of_bounds_are_errors(field, high, value):
    for bad in (value, (0.0, value), high + 0.01, (0.3, 0.1)):
        with pytest.raises(ValueError, match=f"Voronoi.{field}"):
            Voronoi(**{field: bad})
    assert getattr(Voronoi(**{field: (0.0, high)}), field) == (0.0, high)


def test_other_settings_out_of_bounds_are_errors():
    for value in (5, 0, -1, 129):
        with pytest.raises(ValueError, match=r"Voronoi.num_anchors must be in \[6, 128\]"):
            Voronoi(num_anchors=value)
    for value in (5, -1, 4097):
        with pytest.raises(ValueError, match=r"Voronoi.num_sites must be in \[6, 4096\]"):
            Voronoi(num_sites=value)
    with pytest.raises(ValueError, match=r"num_anchors must be at most Voronoi.num_sites = 10"):
        Voronoi(num_sites=10, num_anchors=11)
    with pytest.raises(ValueError, match="Did you mean: 'void_ring'"):
        Voronoi(layout="voidring")
    for field, value in (("num_sites", 64.0), ("num_anchors", True), ("layout", 3)):
        with pytest.raises(TypeError, match=f"Voronoi.{field}"):
            Voronoi(**{field: value})


def test_nan_on_the_device_stays_in_its_row():
    variation = np.full(len(SEEDS), 0.62)
    variation[2] = np.nan
    job = run_job(SPEC, Voronoi(), knobs={"radial_variation": variation})
    others = np.arange(len(SEEDS)) != 2
    assert raw(job, others) == raw(run_job(SPEC, Voronoi()), others)


def test_lanes_agree():
    assert_lanes_agree("voronoi")


def test_golden_geometry():
    golden = {
        "void_ring": [[0.65379, 0.07513], [-0.45333, 0.60958], [-0.22644, -0.4814]],
        "box": [[0.57168, 0.09002], [-0.54885, 0.62666], [-0.23828, -0.49396]],
        "clustered": [[0.52987, 0.09957], [-0.45333, 0.60958], [-0.1828, -0.41861]],
        "mixed": [[0.56628, 0.07145], [-0.53209, 0.62944], [-0.23828, -0.49396]],
    }
    for layout in LAYOUTS:
        (curve,) = curves_of(run_job(SPEC, Voronoi(layout=layout), [12345]))
        assert np.abs(curve[::192] - golden[layout]).max() < 1e-3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_character(layout):
    job = run_job(SPEC, Voronoi(layout=layout), np.arange(512) * 31)
    curves = [boxed(c) for c in curves_of(job)]
    lengths = np.array([length(c) for c in curves])
    compactness = np.array([4 * np.pi * area(c) for c in curves]) / lengths**2
    assert abs(lengths.mean() / 4.27 - 1.0) < 0.10
    assert compactness.mean() < 0.78
    assert compactness.std() > 0.028


@pytest.mark.parametrize(
    "settings",
    [
        *(Voronoi(layout=layout) for layout in LAYOUTS),
        Voronoi(radial_variation=1.0, angular_jitter=0.5),
        Voronoi(layout="box", num_sites=6, num_anchors=6),
        Voronoi(layout="box", num_sites=64, num_anchors=32),
        Voronoi(layout="box", num_sites=512, num_anchors=128, angular_jitter=0.5),
        Voronoi(layout="box", num_sites=128, num_anchors=128),
    ],
)
def test_typical_length_is_not_exceeded(settings):
    curves = curves_of(run_job(SPEC, settings, np.arange(512)))
    measured = np.quantile([length(boxed(c)) for c in curves], 0.999)
    assert measured <= SPEC.typical_length(settings) <= 1.5 * measured
