"""Voronoi family: a wanted ring snapped to a field of random sites.

The name is tradition: circuits "from Voronoi diagrams" walk along the cells of a site field. No
diagram is built here. A field of sites is drawn (ring, box, clusters or a mixture); anchors wanted
at even angles and a radius that varies smoothly along the loop each take the unused site nearest in
angle and radius. The sites taken, ordered by their own angle, are a star-shaped polygon; one corner
cut (Chaikin: An algorithm for high-speed curve generation, 1974) and a closed centripetal Catmull-
Rom spline make it a curve. If the curve crosses itself, the polygon is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import warp as wp

from track_gen.block import block_argmin, block_lane, block_launch, block_sum_int, block_sync
from track_gen.checks import check_choice, check_int
from track_gen.generators.crossings import (
    allocate_boxes,
    box_arrays,
    build_boxes,
    mark_crossings,
)
from track_gen.generators.spec import (
    AnchorJob,
    AnchorSource,
    CurveJob,
    GeneratorSettings,
    GeneratorSpec,
)
from track_gen.geometry import catmull_rom_tangents, cos_sin, cross, hermite, segments_meet
from track_gen.parameters import Knob, Range
from track_gen.rng import Stream, draw_int, draw_uniform, draw_words, unit_float

__all__ = ["LAYOUTS", "SPEC", "Voronoi"]

wp.set_module_options({"enable_backward": False})

LAYOUTS = ("void_ring", "box", "clustered", "mixed")
"""Site fields: an annulus, a square, six clusters, and an annulus over a square."""

_VOID_RING, _BOX, _CLUSTERED, _MIXED = range(4)
_VARIATION_GAIN = (1.10, 1.0, 1.16, 1.06)
_SIDE = 2.0
_INNER, _OUTER = 0.14 * _SIDE, 0.52 * _SIDE
_CLUSTERS = 6
_SAMPLES = 16
_USED = 1.0e9
_FIRST_CLUSTER_DRAW = 2
_FIRST_ANCHOR_DRAW = _FIRST_CLUSTER_DRAW + _CLUSTERS


@dataclass(frozen=True, kw_only=True)
class Voronoi(GeneratorSettings):
    """A wanted ring snapped to a field of random sites."""

    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("radial_variation", 0.0, 1.0),
        Knob("angular_jitter", 0.0, 0.5),
    )
    difficulty: ClassVar[Mapping[str, tuple[Range, Range]]] = {
        "radial_variation": ((0.0, 0.2), (0.7, 0.8)),
    }

    num_sites: int = 256
    """Sites of the field, in [6, 4096]."""
    layout: str = "void_ring"
    """Where the sites lie: "void_ring", "box", "clustered" or "mixed"."""
    num_anchors: int = 18
    """Sites that the loop visits, in [6, 128] and at most ``num_sites``."""
    radial_variation: Range = 0.62
    """Strength of the smooth change of the wanted radius around the loop, in [0, 1]; the amplitude
    levels off at 0.85. A pair draws it per env."""
    angular_jitter: Range = 0.08
    """Largest shift of an anchor's wanted angle [rad], in [0, 0.5]; a pair draws it per env."""

    def check(self) -> None:
        """Check the fields that are fixed for the batch.

        Raises:
            ValueError: If a value is out of bounds.
            TypeError: If a type is wrong.
        """
        check_int("Voronoi.num_sites", self.num_sites, 6, 4096)
        check_choice("Voronoi.layout", self.layout, LAYOUTS)
        check_int("Voronoi.num_anchors", self.num_anchors, 6, 128)
        if self.num_anchors > self.num_sites:
            raise ValueError(
                f"Voronoi.num_anchors must be at most Voronoi.num_sites = {self.num_sites}, "
                f"got {self.num_anchors}"
            )


@wp.func
def _turns(p: wp.vec2f) -> float:
    """Angle of ``p`` as a fraction of a turn in [0, 1)."""
    turns = wp.atan2(p[1], p[0]) * wp.static(0.5 / math.pi)
    if turns < 0.0:
        turns += 1.0
    return turns


@wp.func
def _annulus_radius(u: float) -> float:
    """Radius of a point spread evenly over the annulus's area."""
    inner = wp.static(_INNER * _INNER)
    return wp.sqrt(inner + u * wp.static(_OUTER * _OUTER - _INNER * _INNER))


@wp.func
def _draw_site(
    seed: int, episode: int, attempt: int, s: int, layout: int, clusters: wp.array[wp.vec2f]
):
    """Site ``s`` of the field as (fraction of a turn, radius)."""
    w = draw_words(seed, episode, wp.static(int(Stream.VORONOI_SITES)), attempt, s)
    u0 = unit_float(w[0])
    u2 = unit_float(w[2])
    u3 = unit_float(w[3])
    if layout == wp.static(_BOX) or (layout == wp.static(_MIXED) and u0 >= 0.65):
        p = wp.static(_SIDE) * wp.vec2f(u2 - 0.5, u3 - 0.5)
        return wp.vec2f(_turns(p), wp.length(p))
    if layout == wp.static(_CLUSTERED) and u0 >= 0.22:
        c = clusters[draw_int(w[1], 0, wp.static(_CLUSTERS - 1))]
        offset = (0.025 + 0.080 * u2) * wp.static(_SIDE)
        p = c + offset * cos_sin(wp.static(2.0 * math.pi) * u3)
        return wp.vec2f(_turns(p), wp.length(p))
    return wp.vec2f(u2, _annulus_radius(u3))


@wp.func
def _take_sites(
    seed: int,
    episode: int,
    attempt: int,
    layout: int,
    gain: float,
    variation: float,
    jitter: float,
    num_anchors: int,
    env: int,
    lane: int,
    clusters: wp.array2d[wp.vec2f],
    sites: wp.array2d[wp.vec2f],
    wanted_sites: wp.array2d[wp.vec2f],
    taken: wp.array2d[wp.vec2f],
    anchors: wp.array2d[wp.vec2f],
):
    """Draw sites, let each anchor take its own, and order these by angle; ends with a barrier."""
    stream = wp.static(int(Stream.VORONOI_ANCHORS))
    two_pi = wp.static(2.0 * math.pi)
    num_sites = sites.shape[1]
    first = draw_uniform(seed, episode, stream, attempt, 0)
    second = draw_uniform(seed, episode, stream, attempt, 1)

    if layout == wp.static(_CLUSTERED):
        for c in range(lane, wp.static(_CLUSTERS), wp.block_dim()):
            u = draw_uniform(seed, episode, stream, attempt, wp.static(_FIRST_CLUSTER_DRAW) + c)
            ring = (0.24 + 0.10 * second[2]) * wp.static(_SIDE) * (0.82 + 0.30 * u[0])
            angle = two_pi * (second[1] + float(c) * wp.static(1.0 / _CLUSTERS))
            clusters[env, c] = ring * cos_sin(angle)
        block_sync()

    for s in range(lane, num_sites, wp.block_dim()):
        sites[env, s] = _draw_site(seed, episode, attempt, s, layout, clusters[env])

    amplitude = wp.clamp(variation * gain, 0.0, 0.85)
    for i in range(lane, num_anchors, wp.block_dim()):
        u = draw_uniform(seed, episode, stream, attempt, wp.static(_FIRST_ANCHOR_DRAW) + i)
        turns = first[0] + float(i) / float(num_anchors) + jitter * (2.0 * u[0] - 1.0) / two_pi
        turns = turns - wp.floor(turns)
        t = two_pi * turns
        wave = (
            0.62 * cos_sin(2.0 * t + two_pi * first[1])[1]
            + 0.44 * cos_sin(3.0 * t + two_pi * first[2])[0]
            + 0.26 * cos_sin(5.0 * t + two_pi * first[3])[1]
            + 0.18 * cos_sin(7.0 * t + two_pi * second[0])[0]
        ) / 1.5
        radius = wp.clamp(
            wp.static(0.34 * _SIDE) * (1.0 + amplitude * wave),
            wp.static(0.16 * _SIDE),
            wp.static(_OUTER),
        )
        wanted_sites[env, i] = wp.vec2f(turns, radius)
    block_sync()

    # A lane reads and marks its own sites only, so the choice needs no barrier of its own.
    per_turn = float(num_anchors)
    per_radius = wp.static(1.0 / (0.13 * _SIDE))
    for i in range(num_anchors):
        wanted = wanted_sites[env, i]
        best = float(4.0e9)
        best_site = int(0x7FFFFFFF)
        for s in range(lane, num_sites, wp.block_dim()):
            site = sites[env, s]
            turns = wp.abs(site[0] - wanted[0])
            turns = wp.min(turns, 1.0 - turns)
            cost = turns * per_turn + wp.abs(site[1] - wanted[1]) * per_radius
            if cost < best:
                best = cost
                best_site = s
        best_site = block_argmin(best, best_site)
        if best_site < num_sites and best_site % wp.block_dim() == lane:
            taken[env, i] = sites[env, best_site]
            sites[env, best_site] = wp.vec2f(0.0, wp.static(_USED))
    block_sync()

    for i in range(lane, num_anchors, wp.block_dim()):
        site = taken[env, i]
        rank = int(0)
        for k in range(num_anchors):
            other = taken[env, k]
            if other[0] < site[0] or (other[0] == site[0] and k < i):
                rank += 1
        anchors[env, rank] = site[1] * cos_sin(two_pi * site[0])
    block_sync()


@wp.kernel
def write_voronoi_anchors_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    count_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    layout: int,
    gain: float,
    # Scratch:
    clusters: wp.array2d[wp.vec2f],
    sites: wp.array2d[wp.vec2f],
    wanted: wp.array2d[wp.vec2f],
    taken: wp.array2d[wp.vec2f],
    # Out:
    anchors_out: wp.array2d[wp.vec2f],
):
    """Write the sites that the loop visits, as many as asked for. Launch dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    if count_in[env] < 3:
        return
    _take_sites(
        seeds_in[env],
        episode_in[env],
        attempt,
        layout,
        gain,
        knobs_in[env, first_knob],
        knobs_in[env, first_knob + 1],
        count_in[env],
        env,
        lane,
        clusters,
        sites,
        wanted,
        taken,
        anchors_out,
    )


@wp.kernel
def write_voronoi_curve_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    knobs_in: wp.array2d[wp.float32],
    first_knob: int,
    attempt: int,
    layout: int,
    gain: float,
    # Out:
    clusters_out: wp.array2d[wp.vec2f],
    sites_out: wp.array2d[wp.vec2f],
    wanted_out: wp.array2d[wp.vec2f],
    taken_out: wp.array2d[wp.vec2f],
    anchors_out: wp.array2d[wp.vec2f],
    knots_out: wp.array2d[wp.vec2f],
    tangents_out: wp.array2d[wp.vec4f],
    chunk_box_out: wp.array2d[wp.vec4f],
    group_box_out: wp.array2d[wp.vec4f],
    monotone_out: wp.array2d[wp.int32],
    marks_out: wp.array2d[wp.int32],
    fallback_out: wp.array[wp.int32],
    curve_out: wp.array2d[wp.vec2f],
    curve_count_out: wp.array[wp.int32],
):
    """Draw the sites, let the anchors take theirs, and write the curve. Dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    num_anchors = anchors_out.shape[1]
    num_knots = 2 * num_anchors
    _take_sites(
        seeds_in[env],
        episode_in[env],
        attempt,
        layout,
        gain,
        knobs_in[env, first_knob],
        knobs_in[env, first_knob + 1],
        num_anchors,
        env,
        lane,
        clusters_out,
        sites_out,
        wanted_out,
        taken_out,
        anchors_out,
    )

    # All sites may lie on one side of the centre: the order by angle can then run clockwise.
    area = float(0.0)
    for i in range(num_anchors):
        area += cross(anchors_out[env, i], anchors_out[env, (i + 1) % num_anchors])
    step = int(1)
    if area < 0.0:
        step = -1
    for k in range(lane, num_knots, wp.block_dim()):
        i = k // 2
        if step < 0:
            i = num_anchors - 1 - i
        a = anchors_out[env, i]
        b = anchors_out[env, (i + step + num_anchors) % num_anchors]
        knots_out[env, k] = a + (0.25 + 0.5 * float(k & 1)) * (b - a)
    block_sync()
    for k in range(lane, num_knots, wp.block_dim()):
        tangents_out[env, k] = catmull_rom_tangents(
            knots_out[env, (k + num_knots - 1) % num_knots],
            knots_out[env, k],
            knots_out[env, (k + 1) % num_knots],
            knots_out[env, (k + 2) % num_knots],
        )
    block_sync()
    count = num_knots * wp.static(_SAMPLES)
    for j in range(lane, count, wp.block_dim()):
        k = j // wp.static(_SAMPLES)
        t = float(j - k * wp.static(_SAMPLES)) * wp.static(1.0 / _SAMPLES)
        curve_out[env, j] = hermite(
            knots_out[env, k], knots_out[env, (k + 1) % num_knots], tangents_out[env, k], t
        )
    block_sync()

    # A curve whose angle only grows is star-shaped, so simple; only the others are tested.
    backward = int(0)
    for j in range(lane, count, wp.block_dim()):
        if cross(curve_out[env, j], curve_out[env, (j + 1) % count]) <= 0.0:
            backward += 1
    crossings = int(0)
    if block_sum_int(backward) > 0:
        build_boxes(curve_out, env, lane, count, chunk_box_out, group_box_out, monotone_out)
        crossings = mark_crossings(
            curve_out,
            env,
            lane,
            count,
            chunk_box_out,
            group_box_out,
            monotone_out,
            wp.static(_SAMPLES),
            marks_out,
        )
        crossings = block_sum_int(crossings)
    fallback = int(0)
    if crossings > 0:
        folds = int(0)
        for i in range(lane, num_anchors, wp.block_dim()):
            a = anchors_out[env, i]
            edge = anchors_out[env, (i + 1) % num_anchors] - a
            for k in range(i + 2, num_anchors):
                if i == 0 and k == num_anchors - 1:
                    continue
                b = anchors_out[env, k]
                other_edge = anchors_out[env, (k + 1) % num_anchors] - b
                if segments_meet(a, edge, b, other_edge, 0.0):
                    folds += 1
        if block_sum_int(folds) == 0:
            fallback = 1
            count = num_anchors
            for i in range(lane, num_anchors, wp.block_dim()):
                if step > 0:
                    curve_out[env, i] = anchors_out[env, i]
                else:
                    curve_out[env, i] = anchors_out[env, num_anchors - 1 - i]
    if lane == 0:
        fallback_out[env] = fallback
        curve_count_out[env] = count


def _curve_size(settings: Voronoi) -> int:
    return 2 * settings.num_anchors * _SAMPLES


def _allocate(settings: Voronoi, num_envs: int, device: wp.Device) -> dict[str, wp.array]:
    def rows(size: int, dtype: type) -> wp.array:
        return wp.zeros((num_envs, size), dtype=dtype, device=device)

    return {
        "clusters": rows(_CLUSTERS, wp.vec2f),
        "sites": rows(settings.num_sites, wp.vec2f),
        "wanted": rows(settings.num_anchors, wp.vec2f),
        "taken": rows(settings.num_anchors, wp.vec2f),
        "anchors": rows(settings.num_anchors, wp.vec2f),
        "knots": rows(2 * settings.num_anchors, wp.vec2f),
        "tangents": rows(2 * settings.num_anchors, wp.vec4f),
        "marks": rows(2 * settings.num_anchors, wp.int32),
        **allocate_boxes(num_envs, _curve_size(settings), device),
        "fallback": wp.zeros(num_envs, dtype=wp.int32, device=device),
    }


def _launches(settings: Voronoi, job: CurveJob) -> list[wp.Launch]:
    layout = LAYOUTS.index(settings.layout)
    scratch = job.scratch
    return [
        block_launch(
            write_voronoi_curve_kernel,
            job.num_envs,
            job.lanes,
            inputs=[
                job.pending,
                job.seeds,
                job.episode,
                job.knobs,
                job.first_knob,
                job.attempt,
                layout,
                _VARIATION_GAIN[layout],
            ],
            outputs=[
                scratch["clusters"],
                scratch["sites"],
                scratch["wanted"],
                scratch["taken"],
                scratch["anchors"],
                scratch["knots"],
                scratch["tangents"],
                *box_arrays(scratch),
                scratch["marks"],
                scratch["fallback"],
                job.curve,
                job.curve_count,
            ],
            device=job.device,
        )
    ]


def _allocate_anchors(
    settings: Voronoi, max_count: int, num_envs: int, device: wp.Device
) -> dict[str, wp.array]:
    sizes = {
        "clusters": _CLUSTERS,
        "sites": settings.num_sites,
        "wanted": max_count,
        "taken": max_count,
    }
    return {
        name: wp.zeros((num_envs, size), dtype=wp.vec2f, device=device)
        for name, size in sizes.items()
    }


def _anchor_launches(settings: Voronoi, job: AnchorJob) -> list[wp.Launch]:
    layout = LAYOUTS.index(settings.layout)
    return [
        block_launch(
            write_voronoi_anchors_kernel,
            job.num_envs,
            job.lanes,
            inputs=[
                job.pending,
                job.seeds,
                job.episode,
                job.count,
                job.knobs,
                job.first_knob,
                job.attempt,
                layout,
                _VARIATION_GAIN[layout],
                *(job.scratch[name] for name in ("clusters", "sites", "wanted", "taken")),
            ],
            outputs=[job.anchors],
            device=job.device,
        )
    ]


def _typical_length(settings: Voronoi) -> float:
    """Upper fit to the 99.9 % lengths of all layouts; loops zigzag if they visit most sites."""
    share = min(1.0, 1.8 * settings.num_anchors / settings.num_sites)
    return 5.2 + 0.26 * settings.num_anchors * share


SPEC = GeneratorSpec(
    name="voronoi",
    settings=Voronoi,
    launches=_launches,
    curve_size=_curve_size,
    allocate=_allocate,
    typical_length=_typical_length,
    anchors=AnchorSource(
        launches=_anchor_launches,
        count_range=lambda settings: (settings.num_anchors, settings.num_anchors),
        allocate=_allocate_anchors,
        angular=True,
        difficulty=Voronoi.difficulty,
    ),
)
