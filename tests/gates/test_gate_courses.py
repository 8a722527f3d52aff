"""Courses of every family in every cell, before two judges that share nothing with the package."""

from __future__ import annotations

import judge_a
import judge_b
import numpy as np
import pytest
import warp as wp
from gate_cells import CELLS, FAMILIES, courses, make_gates

from track_gen import GateStatus
from track_gen.stages.gate_validity import judge_gates


def check(gates, limits, indices):
    """Fail if an accepted course does not pass both judges."""
    for index, course in enumerate(courses(gates)):
        if index in indices:
            reasons = judge_a.judge(course, limits)
            assert bool(course["valid"]) == (not reasons), (index, reasons, course["status"])
            if course["valid"]:
                assert judge_b.judge(course, limits) == [], index


@pytest.mark.parametrize("ordering", ["ccw", "cw", "sampled", "random"])
@pytest.mark.parametrize("cell", CELLS)
def test_first_attempt(cell, ordering):
    few = cell == "many" or ordering in ("cw", "sampled")
    for number, family in enumerate(FAMILIES):
        generator = make_gates(
            16 if few else 64,
            seeds=number,
            generator=family,
            ordering=ordering,
            max_attempts=1,
            **CELLS[cell],
        )
        gates = generator.generate()
        assert generator.report().num_valid >= (16 if few else 63), generator.report()
        check(gates, judge_a.Limits.of(generator.config), {number} if few else {number, 9})


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("ordering", ["ccw", "cw", "random"])
def test_yield_of_1024(cell, ordering, family):
    generator = make_gates(
        1024, seeds=90210, generator=family, ordering=ordering, max_attempts=1, **CELLS[cell]
    )
    gates = generator.generate()
    assert generator.report().yield_rate >= (0.99 if ordering == "random" else 0.999)
    judged = 24 if cell == "many" else 100
    check(gates, judge_a.Limits.of(generator.config), set(range(judged)))
    again = make_gates(1024, seeds=90210, generator=family, ordering=ordering, **CELLS[cell])
    again.generate()
    assert again.report().yield_rate == 1.0


@pytest.mark.parametrize("family", FAMILIES)
def test_centripetal_line(family):
    generator = make_gates(32, generator=family, line="centripetal", max_turn=120.0)
    gates = generator.generate()
    assert generator.report().yield_rate == 1.0
    check(gates, judge_a.Limits.of(generator.config), {0, 1})


ODD = {
    "no clearance": {"clearance": 0.0},
    "much clearance": {"clearance": 3.0},
    "low": {"gate_height": 0.4},
    "three": {"num_gates": 3, "min_gates": 3},
    "64 gates": {"num_gates": 64, "max_gates": 64},
    "gentle turns": {"num_gates": 10, "max_turn": 45.0},
    "sharp turns": {"max_turn": 170.0},
    "no radius": {"min_radius": 0.0},
    "large radius": {"min_radius": 3.0},
    "tiny anchors": {"scale": 0.017},
    "huge anchors": {"scale": 1700.0},
    "tight": {"num_gates": 10, "max_extent": 10.0},
    "gap": {"min_gap": 5.0},
    "tall on hills": {**CELLS["hill"], "gate_height": 6.0},
    "upright on hills": {**CELLS["hill"], "align": "yaw"},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_settings(name):
    for family in ("bezier",) if name == "64 gates" else ("bezier", "polar"):
        generator = make_gates(16, generator=family, **ODD[name])
        gates = generator.generate()
        assert generator.report().num_valid == 16, generator.report()
        check(gates, judge_a.Limits.of(generator.config), {0} if name == "64 gates" else {0, 1})


def test_impossible_settings_end_with_a_reason():
    """Room for the packing bound but not for a course: invalid, bounded, and said so."""
    generator = make_gates(8, num_gates=12, max_extent=6.5, max_attempts=2)
    gates = generator.generate()
    arrays = gates.numpy()
    assert not arrays["valid"].any()
    assert (arrays["attempts"] == 2).all()
    assert (arrays["status"] != 0).all()
    assert generator.report().reasons
    assert (arrays["count"] == 12).all()


def shaken(course, rng, size, align):
    """A course with its gates moved, posed again by the rules of a course, in float64."""
    n = int(course["count"])
    p = course["position"][:n].astype(float) + rng.normal(0, size, (n, 3)) * [1, 1, 0.3]
    line = judge_a.Line(p, "arc")
    rise = line.slope if align == "tangent" else 0 * line.slope
    forward = np.c_[line.direction, rise] / np.sqrt(1 + rise**2)[:, None]
    moved = {name: array.copy() for name, array in course.items()}
    moved["position"][:n] = p
    moved["tangent"][:n] = forward
    moved["normal"][:n] = np.c_[-line.direction[:, 1], line.direction[:, 0], np.zeros(n)]
    return moved


def verdicts(generator, cases):
    """Status of the package for courses of one's own."""
    config, device = generator.config, wp.get_device("cpu")
    generator.generate()
    arrays = generator.gates.arrays()
    for name in ("position", "tangent", "normal", "count"):
        arrays[name].assign(np.stack([case[name] for case in cases]))
    pending = wp.full(len(cases), True, dtype=wp.bool, device=device)
    arrays["status"].zero_()
    judge_gates(
        arrays["count"],
        generator._buffers.knobs,
        pending,
        arrays,
        0,
        config.min_gates,
        config.max_gates,
        {"ccw": 1, "cw": -1}.get(config.ordering, 0),
        config.rules(),
        wp.zeros((len(cases), config.max_gates), dtype=wp.vec4f, device=device),
        1,
        device,
    ).launch()
    return [GateStatus(int(s)) for s in arrays["status"].numpy()]


@pytest.mark.parametrize("cell", ["base", "hill"])
def test_the_package_judges_bad_courses_as_the_first_judge_does(cell):
    """Courses shaken until they break: the same reasons, one by one."""
    generator = make_gates(96, generator="bezier", **CELLS[cell])
    limits = judge_a.Limits.of(generator.config)
    rng = np.random.default_rng(3)
    align = generator.config.align
    good = list(courses(generator.generate()))
    cases = [shaken(c, rng, (0.05, 0.4, 3.0)[k % 3], align) for k, c in enumerate(good)]
    found, differ, invalid = set(), 0, 0
    for case, status in zip(cases, verdicts(generator, cases), strict=True):
        reasons = judge_a.judge(case, limits)
        names = {flag.name for flag in GateStatus if status & flag}
        differ += names != reasons
        invalid += bool(reasons)
        assert names or not reasons
        found |= reasons
    assert differ == 0
    assert invalid > 20
    assert {"SPACING", "TURN", "RADIUS", "LINE", "APPROACH"} <= found


def test_every_reason_can_be_found():
    """One course broken in one way each; both the package and the first judge say which."""
    generator = make_gates(8, num_gates=9, generator="polar", max_extent=40.0)
    limits = judge_a.Limits.of(generator.config)
    course = next(iter(courses(generator.generate())))

    def changed(**changes):
        case = {name: np.array(array) for name, array in course.items()}
        for name, (index, value) in changes.items():
            case[name][index] = value
        return case

    p, t, left = course["position"], course["tangent"], course["normal"]
    far = p[0] + np.float32(40.0) * t[0]
    cases = {
        "NONFINITE": changed(position=(2, np.nan)),
        "SPACING": changed(position=(2, p[1] + 0.5 * t[1])),
        "OVERLAP": changed(position=(2, p[1] + 0.01 * t[1])),
        "EXTENT": changed(position=(0, far)),
        "GRADE": changed(position=(3, p[3] + [0, 0, 30.0])),
        "INCIDENCE": changed(tangent=(4, left[4]), normal=(4, -t[4])),
        "LINE": changed(tangent=(4, -t[4]), normal=(4, -left[4])),
        "WINDING": {**course, **{k: np.r_[course[k][8::-1], course[k][9:]] for k in ("position",)}},
    }
    for (name, case), status in zip(
        cases.items(), verdicts(generator, list(cases.values())), strict=True
    ):
        assert status & GateStatus[name], name
        assert name in judge_a.judge(case, limits), name
        assert judge_b.judge(case, limits) or name in ("NONFINITE", "INCIDENCE", "EXTENT"), name
