"""Mixtures of gate courses: weights, equality with the single families, masks, edits, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import warp as wp
from gate_cells import CELLS, make_gates
from scipy import stats

from track_gen import (
    Bezier,
    Checkpoint,
    CourseLine,
    GateGenConfig,
    GateSequence,
    GateStatus,
    Hull,
    Library,
    Mixture,
    Polar,
    Repulsive,
    Voronoi,
)

FOUR = ((Bezier(), 3.0), (Polar(), 1.0), (Hull(), 0.0), (Voronoi(), 2.0))
SIX = (
    Bezier(min_corner_distance=(0.02, 0.1)),
    Hull(displacement=(0.0, 0.6), min_corners=4, max_corners=6),
    Polar(radial_jitter=(0.3, 0.7)),
    Voronoi(num_anchors=9),
    Checkpoint(radius_min=(0.1, 0.5)),
    Bezier(min_corners=5, max_corners=7),
)


def raw_bytes(gates, rows=slice(None)):
    return {name: array[rows].tobytes() for name, array in gates.numpy().items()}


def drawn(generator):
    """Families of all envs, by the launches that start a batch alone."""
    generator.warmup()
    b = generator._buffers
    wp.copy(b.seeds, generator.rng.seeds_warp)
    wp.copy(b.episode, generator.rng.episode_warp)
    b.active.fill_(True)
    for command in generator._executor._whole.start:
        command.launch()
    return generator.gates.family.numpy().copy()


def test_frequencies_match_the_weights():
    E = 20000
    generator = make_gates(E, generator=Mixture(dict(FOUR)), max_gates=13)
    assert generator.families == ("bezier", "polar", "hull", "voronoi")
    weights = np.array([w for _, w in FOUR])
    for _ in range(3):
        counts = np.bincount(drawn(generator), minlength=4)
        assert counts[2] == 0
        kept = weights > 0
        expected = weights[kept] / weights.sum() * E
        assert stats.chisquare(counts[kept], expected).pvalue > 1e-4
        generator.rng.advance()
    half = np.arange(E) < E // 2
    generator.parameters.set("bezier.weight", 0.0, mask=half)
    generator.parameters.set("hull.weight", torch.full((E,), 7.0))
    families = drawn(generator)
    for rows, own in ((half, (0, 1, 7, 2)), (~half, (3, 1, 7, 2))):
        counts = np.bincount(families[rows], minlength=4)
        kept = np.array(own) > 0
        assert (counts[~kept] == 0).all()
        expected = np.array(own)[kept] / sum(own) * rows.sum()
        assert stats.chisquare(counts[kept], expected).pvalue > 1e-4


CASES = {
    "ccw": {"elevation": CELLS["hill"]["elevation"], "max_turn": (100.0, 140.0)},
    "sampled": {},
    "random": {"num_gates": (6, 11)},
    "tight": {"ordering": "random", "num_gates": 13, "max_extent": 9.0, "max_attempts": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_a_part_is_what_its_family_alone_makes_of_the_seed(case):
    """Whatever the parts share: pipelines, retries, ways of ordering, ranges of the number."""
    options = {"ordering": case, "num_gates": None, "gate_width": (0.9, 1.3), **CASES[case]}
    options["scale"] = (15.0, 18.0)
    mixed = make_gates(90, generator=Mixture([(part, 1.0) for part in SIX]), **options)
    assert mixed.families == ("bezier", "hull", "polar", "voronoi", "checkpoint", "bezier_2")
    assert "bezier_2.min_corner_distance" in mixed.parameters.names
    for _ in range(2):
        arrays = mixed.generate().numpy()
        assert set(arrays["family"]) == set(range(6))
        for k, part in enumerate(SIX):
            alone = make_gates(90, generator=part, **options)
            alone.rng.load_state_dict(mixed.rng.state_dict())
            expected = alone.generate().numpy()
            assert (expected["family"] == 0).all()
            rows = arrays["family"] == k
            for key, value in arrays.items():
                if key != "family":
                    assert value[rows].tobytes() == expected[key][rows].tobytes(), (k, key)
        mixed.rng.advance()
    if case == "tight":
        assert (arrays["attempts"] > 1).any()
    else:
        assert arrays["valid"].all()


def test_difficulty_of_a_mixture_is_that_of_its_parts():
    parts = [(Bezier(), 1), (Polar(num_knots=9), 1), (Checkpoint(num_checkpoints=9), 1)]
    mixed = make_gates(24, generator=Mixture(parts), num_gates=None)
    values = np.linspace(0.0, 1.0, 24).astype(np.float32)
    mixed.set_difficulty(values)
    arrays = mixed.generate().numpy()
    assert len(set(arrays["family"])) == 3 and arrays["valid"].all()
    for k, (part, _) in enumerate(parts):
        alone = make_gates(24, generator=part, num_gates=None)
        alone.set_difficulty(values)
        expected = alone.generate().numpy()
        rows = arrays["family"] == k
        assert arrays["position"][rows].tobytes() == expected["position"][rows].tobytes()


@pytest.mark.parametrize("ordering", ["ccw", "sampled", "random"])
def test_captured_equals_eager_over_edits_and_masks(ordering):
    mixture = Mixture({Hull(): 1, Polar(): 1, Voronoi(): 1})
    options = {"generator": mixture, "ordering": ordering}
    captured = make_gates(16, capture=True, **options)
    eager = make_gates(16, capture=False, **options)
    for k, mask in enumerate((None, np.arange(16) % 2 == 0, np.arange(16) % 5 == 0)):
        before = captured.gates.numpy()
        for generator in (captured, eager):
            generator.parameters.set("hull.weight", float(k == 0), mask=mask)
            generator.rng.advance(mask)
            generator.generate(mask)
        assert raw_bytes(captured.gates) == raw_bytes(eager.gates)
        after = captured.gates.numpy()
        if mask is not None:
            assert (after["family"][mask] > 0).all()
            for key in before:
                assert after[key][~mask].tobytes() == before[key][~mask].tobytes(), key
    assert captured.graph is not None and eager.graph is None
    assert captured.gates.valid.numpy().all()


def test_bad_weights_and_knobs_are_reported():
    generator = make_gates(16, generator=Mixture({Hull(): 1, Polar(): 1}))
    family_of = generator.generate().family.numpy().copy()
    assert len(set(family_of)) == 2
    generator.parameters.set("polar.radial_jitter", wp.full(16, np.nan, dtype=wp.float32))
    status = generator.generate().status.numpy()
    assert ((status != 0) == (family_of == 1)).all()
    assert ((status[family_of == 1] & int(GateStatus.PARAMETER)) != 0).all()
    generator.parameters.set("polar.weight", 0.0)
    assert generator.generate().valid.numpy().all()
    generator.parameters.set("hull.weight", 0.0)
    arrays = generator.generate().numpy()
    assert ((arrays["status"] & int(GateStatus.PARAMETER)) != 0).all()
    assert (arrays["count"] == 0).all() and (arrays["family"] == 0).all()


def test_hot_path_allocates_nothing_and_launches_stay_few(monkeypatch):
    """One launch per attempt more to split the envs, and one per further part.

    ``ordering="sampled"`` of parts that disagree on what that is takes both layouts and a split.
    """
    mixture = Mixture({Hull(): 1, Polar(): 1, Voronoi(): 1})
    for ordering, most in (("ccw", 8), ("random", 17), ("sampled", 19)):
        generator = make_gates(8, generator=mixture, ordering=ordering)
        generator.generate()
        pipeline = generator._executor._whole
        assert len(pipeline.start) == 2
        assert all(len(attempt) == most for attempt in pipeline.attempts)
        mask = wp.array(np.arange(8) % 2 == 0, dtype=wp.bool, device="cpu")
        values = wp.full(8, 0.5, dtype=wp.float32, device="cpu")
        generator.set_difficulty(values, mask)
        generator.generate(mask)

        def forbidden(*args, **kwargs):
            raise AssertionError("allocates or synchronises")

        with monkeypatch.context() as patch:
            for name in ("empty", "zeros", "full", "clone", "synchronize"):
                patch.setattr(wp, name, forbidden)
            patch.setattr(wp.array, "numpy", forbidden)
            patch.setattr(wp.array, "__init__", forbidden)
            generator.set_difficulty(values, mask)
            generator.parameters.set("hull.weight", 2.0, mask)
            generator.rng.advance(mask)
            generator.generate(mask)


def test_parts_share_scratch():
    generator = make_gates(
        2, generator=Mixture([(Hull(displacement=0.1 * k), 1) for k in range(4)])
    )
    scratch = generator._buffers.family
    assert len(scratch) == 4
    assert len({arrays["placed"].ptr for arrays in scratch.values()}) == 1


def test_family_is_published_everywhere():
    generator = make_gates(8, generator=Mixture({Hull(): 1, Polar(): 1}))
    gates = generator.generate()
    families = gates.family.numpy()
    assert [gates.env(k).family for k in range(8)] == families.tolist()
    assert gates.torch()["family"].tolist() == families.tolist()
    assert CourseLine.through(gates).family.numpy().tolist() == families.tolist()
    assert gates.clone().family.numpy().tolist() == families.tolist()
    lone = make_gates(3).generate(np.array([False, True, False]))
    assert lone.family.numpy().tolist() == [-1, 0, -1]
    assert GateSequence.allocate(2, 4, "cpu").family.numpy().tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("parts", "changes", "text"),
    [
        (
            {Hull(): 1, Repulsive(): 1},
            {},
            "'repulsive' in part 1 of the mixture has no anchors for gates; families that do: bez",
        ),
        (
            {Library(curves=[np.array([[0, 0], [1, 0], [1, 1]])]): 0, Hull(): 1},
            {},
            "'library' in part 0 of the mixture has no anchors",
        ),
        (
            [(Bezier(), 1), (Bezier(min_corners=20, max_corners=40), 1)],
            {},
            r"the 'bezier_2' settings ask for 20 to 40 gates, outside \[min_gates, max_gates\]",
        ),
        (
            {Hull(): 1, Voronoi(num_sites=18): 1},
            {"num_gates": 20},
            "20 gates need as many sites, but the 'voronoi' settings have num_sites = 18",
        ),
        (
            {Hull(): 1, Polar(num_knots=5): 1},
            {"max_turn": (70.0, 90.0)},
            "5 gates turning at most 70 degrees cannot close a loop: need max_turn >= 72.5",
        ),
    ],
)
def test_errors_name_the_part(parts, changes, text):
    with pytest.raises(ValueError, match=text):
        GateGenConfig(num_envs=1, device="cpu", generator=Mixture(parts), **changes)


def test_each_part_has_its_own_number_of_gates():
    mixture = Mixture({Hull(): 1, Polar(num_knots=7): 1, Voronoi(): 1})
    config = GateGenConfig(num_envs=1, device="cpu", generator=mixture)
    assert config.count_ranges == [(18, 26), (7, 7), (18, 18)]
    assert config.count_range == (7, 26)
    gates = make_gates(32, generator=mixture, num_gates=None).generate().numpy()
    for family, (low, high) in enumerate(config.count_ranges):
        counts = gates["count"][gates["family"] == family]
        assert len(counts) and low <= counts.min() <= counts.max() <= high


@pytest.mark.cuda
@pytest.mark.parametrize("ordering", ["ccw", "sampled", "random"])
def test_cuda_mixture_is_one_graph_and_agrees_with_the_cpu(ordering):
    options = {"generator": Mixture([(part, 1) for part in SIX]), "ordering": ordering}
    options["num_gates"] = None
    graph, eager = (make_gates(256, device="cuda", capture=c, **options) for c in (None, False))
    cpu = make_gates(256, **options)
    for value in (0.0, 0.6):
        for generator in (graph, eager, cpu):
            generator.set_difficulty(value)
            generator.rng.advance()
            generator.generate()
        assert graph.graph is not None and eager.graph is None
        assert raw_bytes(graph.gates) == raw_bytes(eager.gates)
        here, there = cpu.gates.numpy(), graph.gates.numpy()
        for name in ("family", "count"):
            np.testing.assert_array_equal(here[name], there[name])
        assert here["valid"].all() and there["valid"].all()
