"""The ``@wp.func`` layer: a track as one kernel argument, and what one agent asks of it.

Pass ``track_view(track)`` to a kernel as a :class:`TrackView` and call these functions there; the
tools of this package are thin kernels around them. Everything is measured in plan view; with
``vertical`` 1 the nearest place of a line is looked for in 3-D, which gate courses that cross over
themselves need.

Signs: ``n`` is positive left of travel; a distance to a border is positive on the side of the
road; angles are counter-clockwise. Segment ``i`` joins point ``i`` and its successor.
"""

from __future__ import annotations

from typing import Any

import warp as wp

from track_gen.block import prefetch_point, prefetch_value
from track_gen.geometry import angle_of, cross, turn_angle, wrap_angle
from track_gen.polyline import next_index, planar, previous_index
from track_gen.runtime.rows import check_track

__all__ = [
    "BorderPlaces",
    "Foot",
    "LEFT",
    "RIGHT",
    "TrackView",
    "border_distance",
    "border_vertex",
    "curvature_at",
    "find_segment",
    "frenet_heading_error",
    "frenet_n",
    "frenet_s",
    "is_abreast",
    "is_drivable",
    "local_position",
    "locate",
    "nearest_borders",
    "nearest_on_border",
    "nearest_on_line",
    "origin_of",
    "point_at",
    "prefetch_borders",
    "prefetch_centerline",
    "read_position",
    "side_of_foot",
    "tangent_at",
    "track_view",
    "vertex_curvature",
    "walk_line",
    "wrap_s",
]

wp.set_module_options({"enable_backward": False})

LEFT = 0
"""The border left of travel."""
RIGHT = 1
"""The border right of travel."""

MARGIN = 0.25
"""How much farther than the nearest place a walk along a line goes on, in half widths."""


@wp.struct
class TrackView:
    """A track as one kernel argument: the arrays of :class:`track_gen.Track` that tools read."""

    center: wp.array2d[wp.vec3f]
    inner: wp.array2d[wp.vec3f]
    """Left of travel where ``winding`` is +1, else right."""
    outer: wp.array2d[wp.vec3f]
    """Right of travel where ``winding`` is +1, else left."""
    tangent: wp.array2d[wp.vec3f]
    normal: wp.array2d[wp.vec3f]
    arclen: wp.array2d[wp.float32]
    curvature: wp.array2d[wp.float32]
    length: wp.array[wp.float32]
    half_width: wp.array[wp.float32]
    count: wp.array[wp.int32]
    winding: wp.array[wp.int32]
    valid: wp.array[wp.bool]
    origin: wp.array[wp.vec3f]
    """Where each env's track stands in the world; empty for all at the origin."""
    vertical: wp.float32
    """0 looks for the nearest place in plan view, 1 in 3-D."""
    has_curvature: wp.int32
    """0 if the line has no curvature array: then it is computed from three points."""


@wp.struct
class Foot:
    """The nearest place of a polyline."""

    segment: wp.int32
    """Segment, -1 if there is none."""
    fraction: wp.float32
    """Place on the segment in [0, 1]."""
    distance_squared: wp.float32
    """Squared distance [length squared]."""


def track_view(track: Any, vertical: float = 0.0, origins: wp.array | None = None) -> TrackView:
    """A :class:`TrackView` of a track, a racing line or a course line; shares their arrays.

    Args:
        track: Anything with the arrays ``center, outer, inner, tangent, normal, arclen, length,
            half_width, count, winding, valid``; ``curvature`` may be missing.
        vertical: 0 to look for the nearest place in plan view, 1 in 3-D.
        origins: Where each env's track stands in the world, vec3f [E], for :func:`local_position`
            and :func:`origin_of`; None is the origin for all.

    Returns:
        A struct for kernel arguments. It must not outlive the arrays.

    Raises:
        TypeError: If an array is missing or of another type.
        ValueError: If arrays differ in shape or device.
    """
    check_track("track_view", track)
    view = TrackView()
    view.center = track.center
    view.inner = track.inner
    view.outer = track.outer
    view.tangent = track.tangent
    view.normal = track.normal
    view.arclen = track.arclen
    curvature = getattr(track, "curvature", None)
    view.curvature = track.arclen if curvature is None else curvature
    view.has_curvature = 0 if curvature is None else 1
    view.length = track.length
    view.half_width = track.half_width
    view.count = track.count
    view.winding = track.winding
    view.valid = track.valid
    view.origin = wp.empty(0, dtype=wp.vec3f, device=track.center.device)
    if origins is not None:
        view.origin = origins
    view.vertical = float(vertical)
    return view


@wp.struct
class BorderPlaces:
    """The nearest places of both borders."""

    left: Foot
    right: Foot
    to_left: wp.float32
    """Distance to the left border [length], positive on the side of the road."""
    to_right: wp.float32
    """The same to the right border."""


@wp.func
def is_drivable(view: TrackView, env: int) -> bool:
    """Whether the env has a valid track."""
    return view.valid[env] and view.count[env] >= 3


@wp.func
def read_position(position: wp.array3d[wp.float32], env: int, agent: int) -> wp.vec3f:
    """Position of an agent from an array [E, A, 2 or 3]; z is 0 if there is none."""
    z = float(0.0)
    if position.shape[2] > 2:
        z = position[env, agent, 2]
    return wp.vec3f(position[env, agent, 0], position[env, agent, 1], z)


@wp.func
def origin_of(view: TrackView, env: int) -> wp.vec3f:
    """Where the env's track stands in the world."""
    if view.origin.shape[0] > 0:
        return view.origin[env]
    return wp.vec3f(0.0, 0.0, 0.0)


@wp.func
def local_position(
    view: TrackView, position: wp.array3d[wp.float32], env: int, agent: int
) -> wp.vec3f:
    """Position of an agent relative to its track, from world positions [E, A, 2 or 3].

    NaN if it is farther than 1e15, where squares of distances are no longer finite.
    """
    p = read_position(position, env, agent) - origin_of(view, env)
    if wp.max(wp.max(wp.abs(p[0]), wp.abs(p[1])), wp.abs(p[2])) > 1.0e15:
        p = wp.vec3f(wp.nan, wp.nan, wp.nan)
    return p


@wp.func
def wrap_s(s: float, length: float) -> float:
    """``s`` shifted by whole lengths into [0, length)."""
    wrapped = s - wp.floor(s / length) * length
    if wrapped >= length or wrapped < 0.0:
        wrapped = 0.0
    return wrapped


@wp.func
def _seen_from(p: wp.vec2f, q: wp.vec3f) -> wp.vec2f:  # pyright: ignore[reportRedeclaration]
    """``q`` relative to ``p``: in plan view for a ``p`` in the plane, else in 3-D."""
    return wp.vec2f(q[0] - p[0], q[1] - p[1])


@wp.func
def _seen_from(p: wp.vec3f, q: wp.vec3f) -> wp.vec3f:
    return q - p


@wp.func
def _place_between(a: Any, b: Any) -> wp.vec2f:
    """Place on the segment from ``a`` to ``b`` that is nearest to 0, and its squared distance."""
    v = b - a
    t = wp.clamp(-wp.dot(a, v) / wp.max(wp.dot(v, v), 1.0e-30), 0.0, 1.0)
    r = a + t * v
    return wp.vec2f(t, wp.dot(r, r))


@wp.func
def nearest_on_line(
    line: wp.array2d[wp.vec3f],
    env: int,
    count: int,
    p: Any,
    first: int,
    steps: int,
) -> Foot:
    """The nearest place of ``steps`` segments of a closed polyline from segment ``first`` on.

    In plan view for a ``p`` of two components, in 3-D for one of three. Of equally near segments
    the lowest is taken, so that a window and the whole line agree.
    """
    best = float(wp.inf)
    segment = int(-1)
    fraction = float(0.0)
    i = first
    a = _seen_from(p, line[env, i])
    for _ in range(steps):
        j = next_index(i, count)
        b = _seen_from(p, line[env, j])
        place = _place_between(a, b)
        if place[1] < best or (place[1] == best and i < segment):
            best = place[1]
            segment = i
            fraction = place[0]
        a = b
        i = j
    foot = Foot()
    foot.segment = segment
    foot.fraction = fraction
    foot.distance_squared = best
    return foot


@wp.func
def walk_line(
    line: wp.array2d[wp.vec3f],
    env: int,
    count: int,
    p: Any,
    start: int,
    margin: float,
) -> Foot:
    """The nearest place of a closed polyline around segment ``start``, as :func:`nearest_on_line`.

    Walks both ways until a point is farther than the nearest place by more than ``margin``. Of the
    places nearer than its reach (Federer, Curvature measures, 1959) a curve has one basin only, so
    a result nearer than that is the nearest of the whole line; ``margin`` crosses the ripples of a
    polyline and the circle around the center of a tight corner.
    """
    best = float(wp.inf)
    limit = float(wp.inf)
    segment = int(-1)
    fraction = float(0.0)
    begin = _seen_from(p, line[env, start])
    a = begin
    i = start
    steps = int(0)
    while steps < count and wp.dot(a, a) <= limit:
        j = next_index(i, count)
        b = _seen_from(p, line[env, j])
        place = _place_between(a, b)
        if place[1] < best or (place[1] == best and i < segment):
            best = place[1]
            segment = i
            fraction = place[0]
            reach = wp.sqrt(best) + margin
            limit = reach * reach
        steps += 1
        a = b
        i = j
    b = begin
    i = start
    while steps < count and wp.dot(b, b) <= limit:
        i = previous_index(i, count)
        a = _seen_from(p, line[env, i])
        place = _place_between(a, b)
        if place[1] < best or (place[1] == best and i < segment):
            best = place[1]
            segment = i
            fraction = place[0]
            reach = wp.sqrt(best) + margin
            limit = reach * reach
        steps += 1
        b = a
    foot = Foot()
    foot.segment = segment
    foot.fraction = fraction
    foot.distance_squared = best
    return foot


@wp.func
def locate(view: TrackView, env: int, p: wp.vec3f, last: int, reach: float) -> Foot:
    """The nearest place of the centreline.

    Args:
        view: Track.
        env: Row, with :func:`is_drivable`.
        p: Position, finite.
        last: Segment of the last query, or -1 to look at the whole line.
        reach: A place found by walking from ``last`` is kept if it is nearer than this many half
            widths; else the whole line is looked at. Below 1 the result is the same.
    """
    count = view.count[env]
    warm = last >= 0 and last < count
    foot = Foot()
    if warm:
        half_width = view.half_width[env]
        margin = wp.static(MARGIN) * half_width
        if view.vertical > 0.0:
            foot = walk_line(view.center, env, count, p, last, margin)
        else:
            foot = walk_line(view.center, env, count, planar(p), last, margin)
        limit = reach * half_width
        warm = foot.distance_squared <= limit * limit
    if not warm:
        if view.vertical > 0.0:
            foot = nearest_on_line(view.center, env, count, p, 0, count)
        else:
            foot = nearest_on_line(view.center, env, count, planar(p), 0, count)
    return foot


@wp.func
def _agent_after(env: int, agent: int, num_agents: int) -> wp.vec2i:
    """Row and agent that one thread takes next where it takes all in order."""
    if agent + 1 < num_agents:
        return wp.vec2i(env, agent + 1)
    return wp.vec2i(env + 1, 0)


@wp.func
def prefetch_centerline(view: TrackView, env: int, agent: int, segment: wp.array2d[wp.int32]):
    """Hint that the centreline is read around ``segment`` of the agent after this one.

    For the CPU: see :func:`track_gen.block.prefetch_point`.
    """
    after = _agent_after(env, agent, segment.shape[1])
    if after[0] < segment.shape[0]:
        i = segment[after[0], after[1]]
        prefetch_point(view.center, after[0], i)
        prefetch_point(view.tangent, after[0], i)
        prefetch_value(view.arclen, after[0], i)


@wp.func
def prefetch_borders(view: TrackView, env: int, agent: int, segment: wp.array2d[wp.int32]):
    """:func:`prefetch_centerline` for the borders."""
    after = _agent_after(env, agent, segment.shape[1])
    if after[0] < segment.shape[0]:
        i = segment[after[0], after[1]]
        prefetch_point(view.inner, after[0], i)
        prefetch_point(view.outer, after[0], i)


@wp.func
def frenet_s(view: TrackView, env: int, foot: Foot) -> float:
    """Arc length of a place of the centreline, in [0, length)."""
    i = foot.segment
    length = view.length[env]
    start = view.arclen[env, i]
    end = length
    if i + 1 < view.count[env]:
        end = view.arclen[env, i + 1]
    s = start + foot.fraction * (end - start)
    if s >= length:
        s = 0.0
    return s


@wp.func
def side_of_foot(
    line: wp.array2d[wp.vec3f], env: int, count: int, p: wp.vec3f, foot: Foot
) -> float:
    """+1 if ``p`` is left of the polyline at its nearest place, else -1.

    Beside an edge the edge decides. The points nearest to a vertex all lie on the outside of its
    turn, whatever the two edges say each for itself, so there the turn decides.
    """
    i = foot.segment
    j = next_index(i, count)
    a = planar(line[env, i])
    b = planar(line[env, j])
    edge = b - a
    side = cross(edge, planar(p) - a)
    turn = float(0.0)
    if foot.fraction <= 0.0:
        turn = cross(a - planar(line[env, previous_index(i, count)]), edge)
    elif foot.fraction >= 1.0:
        turn = cross(edge, planar(line[env, next_index(j, count)]) - b)
    if turn > 0.0:
        side = -1.0
    elif turn < 0.0:
        side = 1.0
    if side < 0.0:
        return -1.0
    return 1.0


@wp.func
def frenet_n(view: TrackView, env: int, p: wp.vec3f, foot: Foot) -> float:
    """Lateral offset from the centreline in plan view, left positive."""
    i = foot.segment
    count = view.count[env]
    a = planar(view.center[env, i])
    edge = planar(view.center[env, next_index(i, count)]) - a
    r = planar(p) - a - foot.fraction * edge
    return side_of_foot(view.center, env, count, p, foot) * wp.length(r)


@wp.func
def tangent_at(view: TrackView, env: int, segment: int, fraction: float) -> wp.vec2f:
    """Unit direction of travel in plan view, interpolated along the segment."""
    a = planar(view.tangent[env, segment])
    b = planar(view.tangent[env, next_index(segment, view.count[env])])
    return wp.normalize(a + fraction * (b - a))


@wp.func
def frenet_heading_error(view: TrackView, env: int, heading: float, foot: Foot) -> float:
    """Heading minus direction of travel in [-pi, pi]; positive if turned to the left."""
    i = foot.segment
    a = planar(view.tangent[env, i])
    b = planar(view.tangent[env, next_index(i, view.count[env])])
    return wrap_angle(heading - angle_of(a + foot.fraction * (b - a)))


@wp.func
def point_at(view: TrackView, env: int, segment: int, fraction: float) -> wp.vec3f:
    """Point of the centreline."""
    a = view.center[env, segment]
    return a + fraction * (view.center[env, next_index(segment, view.count[env])] - a)


@wp.func
def find_segment(view: TrackView, env: int, s: float) -> Foot:
    """The place at arc length ``s`` in [0, length); ``distance_squared`` is 0."""
    count = view.count[env]
    length = view.length[env]
    i = wp.clamp(int(s * float(count) / length), 0, count - 1)
    while i > 0 and view.arclen[env, i] > s:
        i -= 1
    while i + 1 < count and view.arclen[env, i + 1] <= s:
        i += 1
    start = view.arclen[env, i]
    end = length
    if i + 1 < count:
        end = view.arclen[env, i + 1]
    foot = Foot()
    foot.segment = i
    foot.fraction = float(0.0)
    if end > start:
        foot.fraction = wp.clamp((s - start) / (end - start), 0.0, 1.0)
    foot.distance_squared = float(0.0)
    return foot


@wp.func
def vertex_curvature(view: TrackView, env: int, i: int) -> float:
    """Signed curvature at a point: the line's own, or its turn over the mean adjacent edge."""
    if view.has_curvature != 0:
        return view.curvature[env, i]
    count = view.count[env]
    p = planar(view.center[env, i])
    incoming = p - planar(view.center[env, previous_index(i, count)])
    outgoing = planar(view.center[env, next_index(i, count)]) - p
    edges = wp.length(incoming) + wp.length(outgoing)
    if edges > 0.0:
        return 2.0 * turn_angle(incoming, outgoing) / edges
    return 0.0


@wp.func
def curvature_at(view: TrackView, env: int, segment: int, fraction: float) -> float:
    """Signed curvature, interpolated along the segment, left turn positive."""
    a = vertex_curvature(view, env, segment)
    b = vertex_curvature(view, env, next_index(segment, view.count[env]))
    return a + fraction * (b - a)


@wp.func
def nearest_on_border(view: TrackView, env: int, side: int, p: wp.vec3f, start: int) -> Foot:
    """The nearest place of the border at a ``side`` (LEFT or RIGHT) in plan view.

    Args:
        view: Track.
        env: Row, with :func:`is_drivable`.
        side: LEFT or RIGHT.
        p: Position, finite.
        start: For a position on the road the segment of the centreline abreast of it: the nearest
            place of a border is close by. -1 looks at the whole border.
    """
    count = view.count[env]
    # The ripples of a border around the tightest corner, of a radius of two half widths, are a
    # quarter of spacing^2 / half_width.
    half_width = view.half_width[env]
    spacing = view.length[env] / float(count)
    margin = 0.05 * half_width + 0.25 * spacing * spacing / half_width
    if (side == wp.static(LEFT)) == (view.winding[env] >= 0):
        if start >= 0:
            return walk_line(view.inner, env, count, planar(p), start, margin)
        return nearest_on_line(view.inner, env, count, planar(p), 0, count)
    if start >= 0:
        return walk_line(view.outer, env, count, planar(p), start, margin)
    return nearest_on_line(view.outer, env, count, planar(p), 0, count)


@wp.func
def border_vertex(view: TrackView, env: int, side: int, i: int) -> wp.vec3f:
    """Point ``i`` of the border at a ``side``."""
    if (side == wp.static(LEFT)) == (view.winding[env] >= 0):
        return view.inner[env, i]
    return view.outer[env, i]


@wp.func
def is_abreast(view: TrackView, env: int, segment: int, n: float) -> bool:
    """Whether a lateral offset is well within the road that is abreast of a segment."""
    side = wp.where(n > 0.0, wp.static(LEFT), wp.static(RIGHT))
    j = next_index(segment, view.count[env])
    first = planar(border_vertex(view, env, side, segment) - view.center[env, segment])
    second = planar(border_vertex(view, env, side, j) - view.center[env, j])
    width = wp.abs(n) / 0.95
    return wp.min(wp.dot(first, first), wp.dot(second, second)) >= width * width


@wp.func
def border_distance(view: TrackView, env: int, side: int, p: wp.vec3f, foot: Foot) -> float:
    """Signed distance to a border from its nearest place; positive on the side of the road."""
    distance = wp.sqrt(foot.distance_squared)
    count = view.count[env]
    left = float(0.0)
    is_inner = (side == wp.static(LEFT)) == (view.winding[env] >= 0)
    if distance > view.length[env]:
        # Farther than any place within the loop, where single precision may not tell the nearest.
        return wp.where(is_inner, distance, -distance)
    if is_inner:
        left = side_of_foot(view.inner, env, count, p, foot)
    else:
        left = side_of_foot(view.outer, env, count, p, foot)
    if side == wp.static(LEFT):
        return -left * distance
    return left * distance


@wp.func
def _border_places(view: TrackView, env: int, p: wp.vec3f, start: int) -> BorderPlaces:
    places = BorderPlaces()
    places.left = nearest_on_border(view, env, wp.static(LEFT), p, start)
    places.to_left = border_distance(view, env, wp.static(LEFT), p, places.left)
    places.right = nearest_on_border(view, env, wp.static(RIGHT), p, start)
    places.to_right = border_distance(view, env, wp.static(RIGHT), p, places.right)
    return places


@wp.func
def nearest_borders(view: TrackView, env: int, p: wp.vec3f, start: int) -> BorderPlaces:
    """The nearest places of both borders in plan view.

    For a position between the borders abreast of ``start`` the nearest places are close by, so a
    walk finds them. One that turns out to lie beyond one of them looks at both whole borders; along
    a line in 3-D, which may cross over itself, the places abreast count.

    Args:
        view: Track.
        env: Row, with :func:`is_drivable`.
        p: Position, finite.
        start: Segment of the centreline nearest to ``p``, or -1 to look at the whole borders.
    """
    places = _border_places(view, env, p, start)
    if start >= 0 and view.vertical == 0.0 and wp.min(places.to_left, places.to_right) < 0.0:
        places = _border_places(view, env, p, -1)
    return places
