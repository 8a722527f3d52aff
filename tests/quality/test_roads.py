"""Roads through the whole pipeline, judged by shapely in float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from conftest import make
from judge import judge_batch
from track_gen import Hull, Library, Polar, TrackStatus, Voronoi

GENERATED = ("bezier", "hull", "polar", "voronoi", "checkpoint")

FIRST_YIELD = {
    "bezier": 0.998,
    "hull": 0.992,
    "polar": 1.0,
    "voronoi": 1.0,
    "checkpoint": 0.995,
}
"""First-attempt yield that each family has at least."""

CHARACTER = {
    # mean length, mean compactness, least sd of compactness; half width 0.1 at scale 1
    "bezier": (5.06, 0.44, 0.115),
    "hull": (4.96, 0.43, 0.10),
    "polar": (4.74, 0.56, 0.095),
    "voronoi": (4.27, 0.73, 0.028),
    "checkpoint": (4.22, 0.61, 0.065),
}


def verdicts(arrays) -> np.ndarray:
    reasons = judge_batch(*(arrays[k] for k in ("center", "outer", "inner", "count", "half_width")))
    return np.array([not r for r in reasons])


def compactness(arrays) -> np.ndarray:
    out = []
    for env, n in enumerate(arrays["count"]):
        x, y = arrays["center"][env, :n, :2].astype(np.float64).T
        area = abs(0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum())
        out.append(4 * np.pi * area / arrays["length"][env] ** 2)
    return np.array(out)


def check_first_and_final(seeds, least_first, **config):
    first = make(num_envs=seeds, max_attempts=1, **config).generate().numpy()
    final = make(num_envs=seeds, **config).generate().numpy()
    overflow = (first["status"] & int(TrackStatus.OVERFLOW)) != 0
    assert overflow.mean() <= 0.001
    assert first["valid"][~overflow].mean() >= least_first
    assert final["valid"].all()
    for arrays in (first, final):
        good = verdicts(arrays)
        assert good[arrays["valid"]].all(), "false accept"
        assert (good & ~arrays["valid"]).mean() < 0.002, "false rejects"
    lengths = first["length"][first["valid"]]
    assert stats.ks_2samp(lengths, final["length"]).pvalue > 0.01
    return final


SIZES = [(0.03, 1.0), (0.06, 1.0), (0.1, 1.0), (0.5, 10.0)]


@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize(("half_width", "scale"), SIZES)
def test_some_seeds(name, half_width, scale):
    check_first_and_final(96, 0.97, generator=name, half_width=half_width, scale=scale)


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize(("half_width", "scale"), SIZES)
def test_4096_seeds(name, half_width, scale):
    check_first_and_final(
        4096, FIRST_YIELD[name], generator=name, half_width=half_width, scale=scale
    )


HARD = {
    "bezier 0.2": {"generator": "bezier", "half_width": 0.2},
    "hull displacement 0.6": {"generator": Hull(displacement=0.6)},
    "polar jitter 0.85 with 24 knots": {"generator": Polar(radial_jitter=0.85, num_knots=24)},
    "voronoi 32 anchors": {"generator": Voronoi(num_anchors=32), "half_width": 0.15},
    "checkpoint 0.15": {"generator": "checkpoint", "half_width": 0.15},
    **{f"{n} spacing 0.4": {"generator": n, "spacing": 0.04} for n in GENERATED},
    **{f"{n} spacing 0.8": {"generator": n, "spacing": 0.08} for n in GENERATED},
    **{f"{n} 0.01": {"generator": n, "half_width": 0.01, "N_max": 1536} for n in GENERATED},
}


@pytest.mark.parametrize("case", HARD)
def test_hard_settings_some_seeds(case):
    check_first_and_final(24, 0.9, **HARD[case])


@pytest.mark.slow
@pytest.mark.parametrize("case", HARD)
def test_hard_settings_1024_seeds(case):
    check_first_and_final(1024, 0.995, **HARD[case])


@pytest.mark.parametrize("name", GENERATED)
def test_character(name):
    """Length within 10 %, at most 0.05 rounder, varied enough; few sweeps and fallbacks."""
    length, mean, least_sd = CHARACTER[name]
    generator = make(num_envs=1024, generator=name, half_width=0.1)
    arrays = generator.generate().numpy()
    measured = compactness(arrays)
    assert arrays["length"].mean() == pytest.approx(length, rel=0.1)
    assert measured.mean() <= mean + 0.05
    assert measured.std() >= least_sd
    assert generator.sweeps.numpy().mean() <= (14 if name in ("bezier", "hull") else 12)
    fallback = generator._buffers.family.get("fallback")
    if fallback is not None:
        assert fallback.numpy().mean() <= 0.05


def stadium(radius: float, straight: float, n: int = 4000) -> np.ndarray:
    """Two straights joined by half circles, densely sampled from a seed-dependent phase."""
    half = np.linspace(-np.pi / 2, np.pi / 2, n)
    right = np.c_[straight / 2 + radius * np.cos(half), radius * np.sin(half)]
    return np.r_[right, -right]


@pytest.mark.parametrize("ratio", [0.4, 0.5, 0.6, 0.7, 0.8])
@pytest.mark.parametrize(
    ("radius", "passes"), [(0.9, False), (0.98, False), (1.02, True), (1.05, True), (1.5, True)]
)
def test_stadiums(ratio, radius, passes):
    """End radius from 1.02 half widths on passes, up to 0.98 fails, at every spacing and phase."""
    curves = [stadium(radius, straight) for straight in (2.0, 3.7, 6.1, 9.3, 20.0)]
    generator = make(
        num_envs=60,
        generator=Library(curves=curves, normalize=False),
        half_width=1.0,
        spacing=ratio,
        relax_enable=False,
        max_attempts=1,
    )
    arrays = generator.generate().numpy()
    assert (arrays["valid"] == passes).all(), arrays["status"]
    good = verdicts(arrays)
    assert good[arrays["valid"]].all()


@pytest.mark.parametrize("radius", [0.5, 0.95, 1.5])
def test_hairpins_relax_into_roads(radius):
    """The same shapes with relaxation on end valid: the solver rounds what is too tight."""
    curves = [stadium(radius, straight) for straight in (6.0, 9.0, 14.0)]
    generator = make(num_envs=30, generator=Library(curves=curves, normalize=False), half_width=1.0)
    arrays = generator.generate().numpy()
    assert arrays["valid"].mean() >= 0.9
    assert verdicts(arrays)[arrays["valid"]].all()


def test_figure_eights_and_degenerate_curves_are_invalid_or_roads():
    t = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    eight = np.c_[np.sin(t), np.sin(2 * t)]
    knot = np.c_[np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t)]
    flat = np.c_[np.cos(t), 1e-3 * np.sin(t)]
    spike = np.array([[0, 0], [4, 0], [4, 1e-4], [2, 1.0]], dtype=float)
    library = Library(curves=[eight, knot, flat, spike])
    for relax in (True, False):
        generator = make(num_envs=64, generator=library, half_width=0.05, relax_enable=relax)
        arrays = generator.generate().numpy()
        choice = generator._buffers.family["choice"].numpy()
        assert not arrays["valid"][choice <= 1].any()
        assert (arrays["status"][choice <= 1] != 0).all()
        good = verdicts(arrays)
        assert good[arrays["valid"]].all()


def test_start_and_heading_are_uniform():
    """A policy must not learn where the generator likes to start."""
    for name in GENERATED:
        arrays = make(num_envs=2048, generator=name, half_width=0.06).generate().numpy()
        first = arrays["center"][:, 0]
        heading = arrays["tangent"][:, 0]
        for vector in (first, heading):
            angle = np.arctan2(vector[:, 1], vector[:, 0]) / (2 * np.pi) + 0.5
            assert stats.kstest(angle, "uniform").pvalue > 0.001, name


def test_augment_off_keeps_the_familys_own_pose():
    plain = make(num_envs=32, augment=False, generator="polar").generate().numpy()
    bearing = np.arctan2(plain["center"][:, 0, 1], plain["center"][:, 0, 0])
    assert np.abs(bearing).max() < 1.0  # knot 0 lies at angle 0 and starts the loop
    assert plain["valid"].all()
