"""Mixtures: weights, equality with the single families, masks, edits between replays, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp
from scipy import stats

from conftest import family, make, raw_bytes
from track_gen import (
    Bezier,
    Checkpoint,
    Hull,
    Mixture,
    Polar,
    Repulsive,
    Serpentine,
    TrackGenConfig,
    TrackStatus,
    Voronoi,
)

FOUR = ((Bezier(), 3.0), (Polar(), 1.0), (Hull(), 0.0), (Voronoi(), 2.0))


def curveless(generator):
    """Draw only: the launch that chooses family and knobs, without making tracks."""
    generator.warmup()
    b = generator._buffers
    wp.copy(b.seeds, generator.rng.seeds_warp)
    wp.copy(b.episode, generator.rng.episode_warp)
    b.active.fill_(True)
    for command in generator._executor._whole.start:
        command.launch()
    return generator.track.family.numpy().copy()


@pytest.mark.filterwarnings("ignore:TrackGenConfig.N_max")
def test_frequencies_match_the_weights():
    E = 20000
    generator = make(generator=Mixture(dict(FOUR)), num_envs=E, N_max=16)
    assert generator.families == ("bezier", "polar", "hull", "voronoi")
    weights = np.array([w for _, w in FOUR])
    for _ in range(3):
        counts = np.bincount(curveless(generator), minlength=4)
        assert counts[2] == 0
        kept = weights > 0
        expected = weights[kept] / weights.sum() * E
        assert stats.chisquare(counts[kept], expected).pvalue > 1e-4
        generator.rng.advance()


@pytest.mark.filterwarnings("ignore:TrackGenConfig.N_max")
def test_frequencies_follow_weights_per_env():
    E = 20000
    generator = make(generator=Mixture(dict(FOUR)), num_envs=E, N_max=16)
    half = np.arange(E) < E // 2
    generator.parameters.set("bezier.weight", 0.0, mask=half)
    generator.parameters.set("hull.weight", torch.full((E,), 7.0))
    drawn = curveless(generator)
    for rows, weights in ((half, (0, 1, 7, 2)), (~half, (3, 1, 7, 2))):
        counts = np.bincount(drawn[rows], minlength=4)
        kept = np.array(weights) > 0
        assert (counts[~kept] == 0).all()
        expected = np.array(weights)[kept] / sum(weights) * rows.sum()
        assert stats.chisquare(counts[kept], expected).pvalue > 1e-4
    # The family is drawn independently of where the knobs of a seed fall.
    again = curveless(generator)
    assert (again == drawn).all()
    generator.rng.advance()
    assert 0.4 < (curveless(generator) == drawn).mean() < 0.6


@pytest.mark.parametrize("direction", ["ccw", "random"])
def test_a_part_is_what_its_family_alone_makes_of_the_seed(direction):
    parts = (
        Bezier(rad=(0.2, 0.7), edgy=(0.0, 1.0)),
        Polar(radial_jitter=(0.3, 0.7)),
        family("library"),
        Checkpoint(),
        Bezier(rad=(0.1, 0.2), max_corners=20),
    )
    options = {"num_envs": 60, "half_width": (0.06, 0.1), "scale": (0.9, 1.2)}
    options["direction"] = direction
    mixed = make(generator=Mixture([(part, 1.0) for part in parts]), **options)
    assert mixed.families == ("bezier", "polar", "library", "checkpoint", "bezier_2")
    assert "bezier_2.rad" in mixed.parameters.names
    for _ in range(2):
        arrays = mixed.generate().numpy()
        assert set(arrays["family"]) == set(range(5))
        for k, part in enumerate(parts):
            alone = make(generator=part, **options)
            alone.rng.load_state_dict(mixed.rng.state_dict())
            expected = alone.generate().numpy()
            rows = arrays["family"] == k
            for key, value in arrays.items():
                if key != "family":
                    assert value[rows].tobytes() == expected[key][rows].tobytes(), (k, key)
        mixed.rng.advance()


def test_retries_stay_within_the_family():
    """First attempts fail; the family is drawn per (seed, episode), not per attempt."""
    generator = make(
        generator=Mixture({Hull(displacement=0.9): 1, Polar(): 1}),
        num_envs=256,
        half_width=0.2,
        relax_max_sweeps=4,
    )
    chosen = curveless(generator)
    track = generator.generate()
    assert (track.attempts.numpy() > 1).sum() > 10
    assert (track.family.numpy() == chosen).all()


def test_weights_follow_edits_between_replays():
    generator = make(generator=Mixture({Hull(): 1, Polar(): 1}), num_envs=16, capture=True)
    track = generator.generate()
    before = track.numpy()
    mask = np.arange(16) % 2 == 0
    generator.parameters.set("hull.weight", 0.0, mask=mask)
    generator.rng.advance(mask)
    generator.generate(mask)
    after = track.numpy()
    assert (after["family"][mask] == 1).all()
    for key in before:
        assert after[key][~mask].tobytes() == before[key][~mask].tobytes()
    generator.parameters.set("polar.weight", 0.0, mask=mask)
    generator.generate()
    status = track.status.numpy()
    assert (status[mask] == int(TrackStatus.PARAMETER)).all()
    assert (status[~mask] == 0).all()
    for weight in (np.nan, -1.0, np.inf):
        generator.parameters.set("polar.weight", wp.full(16, weight, dtype=wp.float32))
        generator.generate()
        assert (track.status.numpy() == int(TrackStatus.PARAMETER)).all()


def test_only_the_knobs_of_the_drawn_family_matter():
    generator = make(generator=Mixture({Hull(): 1, Polar(): 1}), num_envs=32)
    family_of = generator.generate().family.numpy().copy()
    generator.parameters.set("polar.radial_jitter", wp.full(32, np.nan, dtype=wp.float32))
    status = generator.generate().status.numpy()
    assert ((status == int(TrackStatus.PARAMETER)) == (family_of == 1)).all()


def test_capturable_if_all_parts_are():
    grown = make(
        generator=Mixture({Serpentine(): 1, Polar(): 3}), num_envs=8, N_max=512, capture=True
    )
    assert grown.generate().valid.numpy().all() and grown.graph is not None
    mixture = Mixture({Repulsive(): 1, Polar(): 3})
    with pytest.raises(ValueError, match=r"'mixture of repulsive, polar' cannot be captured"):
        make(generator=mixture, capture=True)
    track = make(generator=mixture, num_envs=8, N_max=512).generate()
    assert track.valid.numpy().all()
    assert (track.family.numpy() == grown.track.family.numpy()).all()
    rows = track.family.numpy() == 0
    assert rows.any()
    # Both grow the same curves.
    assert raw_bytes(track, rows)["center"] == raw_bytes(grown.track, rows)["center"]


def test_parts_share_scratch_and_launches_stay_few():
    parts = [(Hull(displacement=0.05 * k), 1) for k in range(5)]
    generator = make(generator=Mixture(parts), num_envs=4)
    generator.warmup()
    assert all(len(attempt) <= 12 for attempt in generator._executor._whole.attempts)
    scratch = generator._buffers.family
    assert len(scratch) == 5
    assert len({arrays["placed"].ptr for arrays in scratch.values()}) == 1


def test_env_says_its_family():
    track = make(generator=Mixture({Hull(): 1, Polar(): 1}), num_envs=8).generate()
    assert [track.env(k).family for k in range(8)] == track.family.numpy().tolist()
    assert make(num_envs=2).generate().family.numpy().tolist() == [0, 0]
    lone = make(num_envs=3).generate(np.array([False, True, False]))
    assert lone.family.numpy().tolist() == [-1, 0, -1]


def test_errors():
    for parts, error, text in (
        ({}, ValueError, "1 to 16 parts, got 0"),
        ([(Hull(), 1)] * 17, ValueError, "1 to 16 parts, got 17"),
        ({Hull(): 0}, ValueError, "a weight > 0"),
        ({Hull(): -1}, ValueError, r"weight of Hull must be finite and >= 0, got -1"),
        ({Hull(): float("nan")}, ValueError, "got nan"),
        ({"hull": 1}, TypeError, r"such as Bezier\(\), got 'hull'"),
        ([Hull()], TypeError, r"\(settings, weight\) pair"),
        ("hull", TypeError, "got str"),
        (3, TypeError, "got int"),
        ({Mixture({Hull(): 1}): 1}, TypeError, "settings of a family"),
    ):
        with pytest.raises(error, match=text):
            Mixture(parts)
    assert Mixture({Hull(): 2}) == Mixture([(Hull(), 2)])
    assert hash(Mixture({Hull(): 2})) == hash(Mixture([(Hull(), 2)]))
    config = TrackGenConfig(num_envs=1, half_width=0.1, generator=Mixture({Hull(): (0, 2)}))
    assert [knob.name for knob in config.knobs()][-2:] == ["hull.displacement", "hull.weight"]
    assert config.knob_values()[-1] == (0, 2)
