"""Bodies against the borders, as ``@wp.func``: contacts of points, discs and boxes, swept tests.

A contact is the same for every body: the signed ``clearance``, the nearest ``point`` of the
borders, the ``normal`` there towards the road, and which ``border`` it is. A positive clearance is
the distance between the body and the borders. A negative one is how far the body is outside: for a
disc its radius less the signed distance of its center; for a box the lowest signed distance of its
corners, or, if a border pokes into it between the corners, the depth of the deepest border point.
"""

from __future__ import annotations

import warp as wp

from track_gen.geometry import cos_sin, cross, left_of, point_segment_distance_squared, rotate
from track_gen.polyline import next_index, planar, previous_index
from track_gen.runtime.view import (
    LEFT,
    MARGIN,
    RIGHT,
    Foot,
    TrackView,
    border_distance,
    border_vertex,
    nearest_borders,
)

__all__ = [
    "Contact",
    "box_contact",
    "disc_contact",
    "path_hit",
    "paths_hit_border",
    "point_contact",
]

wp.set_module_options({"enable_backward": False})


@wp.struct
class Contact:
    """The nearest place of the borders to a body."""

    clearance: wp.float32
    """Distance to the borders [length], negative if the body is not on the road."""
    border: wp.int32
    """LEFT or RIGHT."""
    point: wp.vec2f
    """The place on the border."""
    normal: wp.vec2f
    """Unit normal there, towards the road."""


@wp.func
def _contact(view: TrackView, env: int, side: int, p: wp.vec2f, distance: float, foot: Foot):
    """Contact of a point with the place ``foot`` of a border."""
    i = foot.segment
    j = next_index(i, view.count[env])
    a = planar(border_vertex(view, env, side, i))
    edge = planar(border_vertex(view, env, side, j)) - a
    point = a + foot.fraction * edge
    normal = p - point
    if wp.abs(distance) <= 1.0e-5 * view.half_width[env]:
        normal = left_of(edge)
        if side == wp.static(LEFT):
            normal = -normal
    elif distance < 0.0:
        normal = -normal
    contact = Contact()
    contact.clearance = distance
    contact.border = side
    contact.point = point
    contact.normal = wp.normalize(normal)
    return contact


@wp.func
def point_contact(view: TrackView, env: int, p: wp.vec3f, start: int) -> Contact:
    """Contact of a point.

    Args:
        view: Track.
        env: Row, with ``is_drivable``.
        p: Position, finite.
        start: Segment of the centreline nearest to ``p``, or -1 if that is not known.
    """
    places = nearest_borders(view, env, p, start)
    side = wp.static(LEFT)
    distance = places.to_left
    foot = places.left
    if places.to_right < places.to_left:
        side = wp.static(RIGHT)
        distance = places.to_right
        foot = places.right
    return _contact(view, env, side, planar(p), distance, foot)


@wp.func
def disc_contact(view: TrackView, env: int, p: wp.vec3f, radius: float, start: int) -> Contact:
    """Contact of a disc; arguments as :func:`point_contact`."""
    contact = point_contact(view, env, p, start)
    contact.clearance = contact.clearance - radius
    return contact


@wp.struct
class BoxScan:
    """State of a scan of border segments against a box."""

    distance_squared: wp.float32
    """Least squared distance of a segment to the box, 0 if one touches it."""
    side: wp.int32
    """Border of the nearest segment."""
    segment: wp.int32
    """The nearest segment."""
    fraction: wp.float32
    """Place on it in [0, 1]."""
    point: wp.vec2f
    """Nearest place of the borders, in the frame of the box."""
    toward: wp.vec2f
    """From there to the nearest place of the box, in the frame of the box."""
    depth: wp.float32
    """Depth of the deepest border point in the box, 0 if there is none."""
    deep_side: wp.int32
    deep_point: wp.vec2f


@wp.func
def _corner(h: wp.vec2f, k: int) -> wp.vec2f:
    """Corner ``k`` of a box of half extents ``h``, counter-clockwise from the front left one."""
    x = h[0]
    y = h[1]
    if k == 1 or k == 2:
        x = -x
    if k >= 2:
        y = -y
    return wp.vec2f(x, y)


@wp.func
def _depth_at(a: wp.vec2f, v: wp.vec2f, h: wp.vec2f, along: float, rate: float) -> wp.vec2f:
    """Depth in a box of half extents ``h`` of a place of the segment ``a .. a + v``, and its share.

    The place is where ``along + share * rate`` is 0, kept within the segment.
    """
    t = float(0.0)
    if rate != 0.0:
        t = wp.clamp(-along / rate, 0.0, 1.0)
    q = a + t * v
    return wp.vec2f(wp.min(h[0] - wp.abs(q[0]), h[1] - wp.abs(q[1])), t)


@wp.func
def _deepest(a: wp.vec2f, v: wp.vec2f, h: wp.vec2f) -> wp.vec2f:
    """Depth in a box of the deepest place of the segment ``a .. a + v``, and its share.

    The depth is the least of four linear functions along the segment, so its maximum is at an end
    or where two of them agree.
    """
    best = _depth_at(a, v, h, 0.0, 0.0)
    for k in range(7):
        along = float(-1.0)
        rate = float(1.0)
        if k == 1:
            along = a[0]
            rate = v[0]
        elif k == 2:
            along = a[1]
            rate = v[1]
        elif k == 3:
            along = a[0] - a[1] - h[0] + h[1]
            rate = v[0] - v[1]
        elif k == 4:
            along = a[0] - a[1] + h[0] - h[1]
            rate = v[0] - v[1]
        elif k == 5:
            along = a[0] + a[1] - h[0] + h[1]
            rate = v[0] + v[1]
        elif k == 6:
            along = a[0] + a[1] + h[0] - h[1]
            rate = v[0] + v[1]
        at = _depth_at(a, v, h, along, rate)
        if at[0] > best[0]:
            best = at
    return best


@wp.func
def _scan_segment(
    scan: BoxScan, a: wp.vec2f, b: wp.vec2f, h: wp.vec2f, side: int, i: int
) -> BoxScan:
    """Take segment ``i`` of a border, ``a .. b`` in the frame of a box, into a scan."""
    v = b - a
    apart = (
        wp.min(a[0], b[0]) > h[0]
        or wp.max(a[0], b[0]) < -h[0]
        or wp.min(a[1], b[1]) > h[1]
        or wp.max(a[1], b[1]) < -h[1]
        or wp.abs(cross(v, a)) > h[0] * wp.abs(v[1]) + h[1] * wp.abs(v[0])
    )
    out = scan
    if not apart:
        out.distance_squared = 0.0
        deepest = _deepest(a, v, h)
        if deepest[0] > out.depth:
            out.depth = deepest[0]
            out.deep_side = side
            out.deep_point = a + deepest[1] * v
        return out
    gap = wp.vec2f(
        wp.max(wp.abs(a[0]) - h[0], 0.0) * wp.sign(a[0]),
        wp.max(wp.abs(a[1]) - h[1], 0.0) * wp.sign(a[1]),
    )
    d2 = wp.dot(gap, gap)
    if d2 < out.distance_squared:
        out.distance_squared = d2
        out.side = side
        out.segment = i
        out.fraction = 0.0
        out.point = a
        out.toward = -gap
    # Only the corner that faces the segment can be its nearest, and the two beside it.
    inverse = 1.0 / wp.max(wp.dot(v, v), 1.0e-30)
    for k in range(4):
        corner = _corner(h, k)
        t = wp.clamp(wp.dot(corner - a, v) * inverse, 0.0, 1.0)
        r = corner - a - t * v
        d2 = wp.dot(r, r)
        if d2 < out.distance_squared:
            out.distance_squared = d2
            out.side = side
            out.segment = i
            out.fraction = t
            out.point = a + t * v
            out.toward = r
    return out


@wp.func
def _to_box(p: wp.vec2f, center: wp.vec2f, direction: wp.vec2f) -> wp.vec2f:
    """A point in the frame of a box."""
    d = p - center
    return wp.vec2f(wp.dot(direction, d), cross(direction, d))


@wp.func
def _scan_border(
    scan: BoxScan,
    view: TrackView,
    env: int,
    side: int,
    center: wp.vec2f,
    direction: wp.vec2f,
    h: wp.vec2f,
    start: int,
    offset: float,
) -> BoxScan:
    """Take a border into a scan: all of it (``start`` -1) or what is near a box on the road.

    The walk from ``start`` covers at least what is abreast of the box, and then goes on until a
    point is too far from the box to matter.
    """
    count = view.count[env]
    half_width = view.half_width[env]
    radius = wp.length(h)
    out = scan
    i = start
    least = count
    margin = radius + wp.static(MARGIN) * half_width
    if start < 0:
        i = 0
    else:
        least = int((1.6 * (radius + offset) + half_width) * float(count) / view.length[env]) + 1
    first = i
    a0 = _to_box(planar(border_vertex(view, env, side, i)), center, direction)
    a = a0
    steps = int(0)
    walking = bool(True)
    while walking:
        j = next_index(i, count)
        b = _to_box(planar(border_vertex(view, env, side, j)), center, direction)
        out = _scan_segment(out, a, b, h, side, i)
        steps += 1
        reach = wp.sqrt(out.distance_squared) + margin
        walking = steps < count and (steps < least or wp.dot(b, b) <= reach * reach)
        a = b
        i = j
    if start >= 0:
        b = a0
        i = first
        back = int(0)
        walking = steps < count
        while walking:
            i = previous_index(i, count)
            a = _to_box(planar(border_vertex(view, env, side, i)), center, direction)
            out = _scan_segment(out, a, b, h, side, i)
            steps += 1
            back += 1
            reach = wp.sqrt(out.distance_squared) + margin
            walking = steps < count and (back < least or wp.dot(a, a) <= reach * reach)
            b = a
    return out


@wp.func
def _scan_borders(
    view: TrackView,
    env: int,
    center: wp.vec2f,
    direction: wp.vec2f,
    h: wp.vec2f,
    start: int,
    offset: float,
) -> BoxScan:
    """Scan both borders; see :func:`_scan_border`."""
    scan = BoxScan()
    scan.distance_squared = float(wp.inf)
    scan.side = int(-1)
    scan.segment = int(0)
    scan.fraction = float(0.0)
    scan.point = wp.vec2f(0.0, 0.0)
    scan.toward = wp.vec2f(0.0, 0.0)
    scan.depth = float(-1.0)
    scan.deep_side = int(-1)
    scan.deep_point = wp.vec2f(0.0, 0.0)
    scan = _scan_border(scan, view, env, wp.static(LEFT), center, direction, h, start, offset)
    return _scan_border(scan, view, env, wp.static(RIGHT), center, direction, h, start, offset)


@wp.func
def _box_clearance(
    view: TrackView, env: int, scan: BoxScan, center: wp.vec2f, direction: wp.vec2f
) -> float:
    """Distance of a box to the borders, negative beside the road, 0 if they touch."""
    if scan.distance_squared <= 0.0:
        return 0.0
    if scan.distance_squared > view.length[env] * view.length[env]:
        return -wp.sqrt(scan.distance_squared)
    nearest = center + rotate(scan.point + scan.toward, direction)
    foot = Foot()
    foot.segment = scan.segment
    foot.fraction = scan.fraction
    foot.distance_squared = scan.distance_squared
    return border_distance(view, env, scan.side, wp.vec3f(nearest[0], nearest[1], 0.0), foot)


@wp.func
def _worst_corner(
    view: TrackView, env: int, center: wp.vec2f, direction: wp.vec2f, h: wp.vec2f, start: int
) -> Contact:
    """Contact of the corner of a box that is farthest outside."""
    worst = Contact()
    worst.clearance = float(wp.inf)
    for k in range(4):
        corner = _corner(h, k)
        q = center + rotate(corner, direction)
        at = point_contact(view, env, wp.vec3f(q[0], q[1], 0.0), start)
        if at.clearance < worst.clearance:
            worst = at
    return worst


@wp.func
def box_contact(
    view: TrackView,
    env: int,
    p: wp.vec3f,
    direction: wp.vec2f,
    half_extents: wp.vec2f,
    start: int,
    offset: float,
) -> Contact:
    """Contact of an oriented box.

    Args:
        view: Track.
        env: Row, with ``is_drivable``.
        p: Center of the box, finite.
        direction: Unit vector along the length of the box.
        half_extents: Half length and half width.
        start: The segment of the centreline abreast of a place of the box on the road; or -1.
        offset: Distance of that place from the center of the box.
    """
    center = planar(p)
    abreast = start
    scan = _scan_borders(view, env, center, direction, half_extents, abreast, offset)
    clearance = _box_clearance(view, env, scan, center, direction)
    if clearance <= 0.0 and abreast >= 0 and view.vertical == 0.0:
        abreast = -1
        scan = _scan_borders(view, env, center, direction, half_extents, abreast, 0.0)
        clearance = _box_clearance(view, env, scan, center, direction)
    contact = Contact()
    if clearance > 0.0:
        contact.clearance = clearance
        contact.border = scan.side
        contact.point = center + rotate(scan.point, direction)
        contact.normal = wp.normalize(rotate(scan.toward, direction))
        return contact
    # Outside, or partly so: the deepest corner tells how far.
    contact = _worst_corner(view, env, center, direction, half_extents, abreast)
    if contact.clearance >= 0.0:
        # All corners are on the road: a border pokes into the box between them.
        q = center + rotate(scan.deep_point, direction)
        contact.clearance = -wp.max(scan.depth, 0.0)
        contact.border = scan.deep_side
        contact.point = q
        contact.normal = wp.normalize(center - q)
    return contact


@wp.func
def path_hit(p: wp.vec2f, u: wp.vec2f, a: wp.vec2f, v: wp.vec2f, radius: float) -> float:
    """Fraction of the path ``p .. p + u`` at which a disc first touches the segment ``a .. a + v``.

    Infinite if it does not. With radius 0 the disc is a point that crosses the segment.
    """
    hit = float(wp.inf)
    vv = wp.dot(v, v)
    d = p - a
    if radius > 0.0:
        t = wp.clamp(wp.dot(d, v) / wp.max(vv, 1.0e-30), 0.0, 1.0)
        r = d - t * v
        if wp.dot(r, r) <= radius * radius:
            return 0.0
        # The disc touches an end where its center is that far from it.
        uu = wp.dot(u, u)
        for k in range(2):
            e = d
            if k == 1:
                e = d - v
            b = wp.dot(e, u)
            discriminant = b * b - uu * (wp.dot(e, e) - radius * radius)
            if discriminant >= 0.0 and b < 0.0:
                x = (-b - wp.sqrt(discriminant)) / uu
                if x <= 1.0:
                    hit = wp.min(hit, x)
    # It touches the side where its center crosses the parallel on its own side.
    side = cross(v, d)
    speed = cross(v, u)
    gap = wp.abs(side) - radius * wp.sqrt(vv)
    if gap >= 0.0 and side * speed < 0.0:
        x = gap / wp.abs(speed)
        along = wp.dot(d + x * u, v)
        if x <= 1.0 and along >= 0.0 and along <= vv:
            hit = wp.min(hit, x)
    return hit


@wp.func
def paths_hit_border(
    view: TrackView,
    env: int,
    side: int,
    last: wp.vec3f,
    now: wp.vec3f,
    h: wp.vec2f,
    offset: float,
    is_box: int,
) -> float:
    """First fraction of the way between two poses (x, y, heading) at which a border is touched."""
    count = view.count[env]
    p = wp.vec2f(last[0], last[1])
    u = wp.vec2f(now[0], now[1]) - p
    reach = wp.length(u) + wp.length(h) + wp.abs(offset)
    before = wp.vec2f(1.0, 0.0)
    after = wp.vec2f(1.0, 0.0)
    radius = h[0]
    if is_box != 0:
        before = cos_sin(last[2])
        after = cos_sin(now[2])
        radius = 0.0
    hit = float(wp.inf)
    a = planar(border_vertex(view, env, side, count - 1))
    for i in range(count):
        b = planar(border_vertex(view, env, side, i))
        v = b - a
        if point_segment_distance_squared(p, a, v) <= reach * reach:
            if is_box == 0:
                hit = wp.min(hit, path_hit(p, u, a, v, radius))
            else:
                for k in range(5):
                    corner = wp.vec2f(offset, 0.0)
                    if k < 4:
                        corner += _corner(h, k)
                    start = p + rotate(corner, before)
                    end = p + u + rotate(corner, after)
                    hit = wp.min(hit, path_hit(start, end - start, a, v, 0.0))
        a = b
    return hit
