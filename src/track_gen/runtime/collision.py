"""Bodies against the borders: exact clearance of discs and oriented boxes, contacts, swept tests.

A contact is the same for every body: the signed ``clearance``, the nearest ``point`` of the
borders, the ``normal`` there towards the road, and which ``border`` it is. A positive clearance is
the distance between the body and the borders. A negative one is how far the body is outside: for a
disc its radius less the signed distance of its center; for a box the lowest signed distance of its
corners, or, if a border pokes into it between the corners, the depth of the deepest border point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from track_gen.checks import check_bool, check_float
from track_gen.geometry import cos_sin, cross, left_of, point_segment_distance_squared, rotate
from track_gen.polyline import next_index, planar, previous_index
from track_gen.runtime.localize import Localizer, shared_localizer, update_own
from track_gen.runtime.rows import RowLaunch, as_headings, as_mask, as_positions
from track_gen.runtime.view import (
    LEFT,
    MARGIN,
    RIGHT,
    Foot,
    TrackView,
    border_distance,
    border_vertex,
    is_drivable,
    local_position,
    nearest_on_border,
    origin_of,
    prefetch_borders,
)

__all__ = [
    "CollisionChecker",
    "Contact",
    "box_contact",
    "disc_contact",
    "path_hit",
    "point_contact",
]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


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
        start: For a position on the road the segment of the centreline abreast of it; else -1.
    """
    left = nearest_on_border(view, env, wp.static(LEFT), p, start)
    to_left = border_distance(view, env, wp.static(LEFT), p, left)
    right = nearest_on_border(view, env, wp.static(RIGHT), p, start)
    to_right = border_distance(view, env, wp.static(RIGHT), p, right)
    side = wp.static(LEFT)
    distance = to_left
    foot = left
    if to_right < to_left:
        side = wp.static(RIGHT)
        distance = to_right
        foot = right
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
    point: wp.vec2f
    """Nearest place of the borders, in the frame of the box."""
    toward: wp.vec2f
    """From there to the nearest place of the box, in the frame of the box."""
    depth: wp.float32
    """Depth of the deepest border point in the box, 0 if there is none."""
    deep_side: wp.int32
    deep_point: wp.vec2f


@wp.func
def _corner_gap(corner: wp.vec2f, a: wp.vec2f, v: wp.vec2f, inverse: float) -> wp.vec3f:
    """Squared distance of a corner to the segment ``a .. a + v``, and the place on it."""
    t = wp.clamp(wp.dot(corner - a, v) * inverse, 0.0, 1.0)
    q = a + t * v
    r = corner - q
    return wp.vec3f(wp.dot(r, r), q[0], q[1])


@wp.func
def _scan_segment(scan: BoxScan, a: wp.vec2f, b: wp.vec2f, h: wp.vec2f, side: int) -> BoxScan:
    """Take the segment ``a .. b``, in the frame of a box of half extents ``h``, into a scan."""
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
        depth = wp.min(h[0] - wp.abs(a[0]), h[1] - wp.abs(a[1]))
        if depth > out.depth:
            out.depth = depth
            out.deep_side = side
            out.deep_point = a
        return out
    gap = wp.vec2f(
        wp.max(wp.abs(a[0]) - h[0], 0.0) * wp.sign(a[0]),
        wp.max(wp.abs(a[1]) - h[1], 0.0) * wp.sign(a[1]),
    )
    d2 = wp.dot(gap, gap)
    if d2 < out.distance_squared:
        out.distance_squared = d2
        out.side = side
        out.point = a
        out.toward = -gap
    # Only the corner that faces the segment can be its nearest, and the two beside it.
    inverse = 1.0 / wp.max(wp.dot(v, v), 1.0e-30)
    for k in range(4):
        corner = wp.vec2f(h[0], h[1])
        if k == 1:
            corner = wp.vec2f(-h[0], h[1])
        elif k == 2:
            corner = wp.vec2f(-h[0], -h[1])
        elif k == 3:
            corner = wp.vec2f(h[0], -h[1])
        found = _corner_gap(corner, a, v, inverse)
        if found[0] < out.distance_squared:
            q = wp.vec2f(found[1], found[2])
            out.distance_squared = found[0]
            out.side = side
            out.point = q
            out.toward = corner - q
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
        out = _scan_segment(out, a, b, h, side)
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
            out = _scan_segment(out, a, b, h, side)
            steps += 1
            back += 1
            reach = wp.sqrt(out.distance_squared) + margin
            walking = steps < count and (back < least or wp.dot(a, a) <= reach * reach)
            b = a
    return out


@wp.func
def _start_scan() -> BoxScan:
    scan = BoxScan()
    scan.distance_squared = float(wp.inf)
    scan.side = int(-1)
    scan.point = wp.vec2f(0.0, 0.0)
    scan.toward = wp.vec2f(0.0, 0.0)
    scan.depth = float(-1.0)
    scan.deep_side = int(-1)
    scan.deep_point = wp.vec2f(0.0, 0.0)
    return scan


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
    scan = _start_scan()
    if start >= 0:
        scan = _scan_border(
            scan, view, env, wp.static(LEFT), center, direction, half_extents, start, offset
        )
        scan = _scan_border(
            scan, view, env, wp.static(RIGHT), center, direction, half_extents, start, offset
        )
    if start < 0 or scan.distance_squared <= 0.0:
        scan = _start_scan()
        scan = _scan_border(
            scan, view, env, wp.static(LEFT), center, direction, half_extents, -1, 0.0
        )
        scan = _scan_border(
            scan, view, env, wp.static(RIGHT), center, direction, half_extents, -1, 0.0
        )
        # Outside, or partly so: the deepest corner tells how far.
        worst = point_contact(view, env, p, -1)
        if scan.distance_squared <= 0.0 or worst.clearance < 0.0:
            worst.clearance = float(wp.inf)
            for k in range(4):
                corner = wp.vec2f(half_extents[0], half_extents[1])
                if k == 1:
                    corner = wp.vec2f(-half_extents[0], half_extents[1])
                elif k == 2:
                    corner = wp.vec2f(-half_extents[0], -half_extents[1])
                elif k == 3:
                    corner = wp.vec2f(half_extents[0], -half_extents[1])
                q = center + rotate(corner, direction)
                at = point_contact(view, env, wp.vec3f(q[0], q[1], 0.0), -1)
                if at.clearance < worst.clearance:
                    worst = at
            if worst.clearance >= 0.0:
                # All corners are on the road: a border pokes into the box between them.
                if scan.depth >= 0.0:
                    q = center + rotate(scan.deep_point, direction)
                    worst.point = q
                    worst.border = scan.deep_side
                    worst.normal = wp.normalize(center - q)
                worst.clearance = -wp.max(scan.depth, 0.0)
            return worst
    contact = Contact()
    contact.clearance = wp.sqrt(scan.distance_squared)
    contact.border = scan.side
    contact.point = center + rotate(scan.point, direction)
    contact.normal = wp.normalize(rotate(scan.toward, direction))
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
def _paths_hit_border(
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
                    if k == 1:
                        corner = wp.vec2f(offset + h[0], h[1])
                    elif k == 2:
                        corner = wp.vec2f(offset - h[0], h[1])
                    elif k == 3:
                        corner = wp.vec2f(offset - h[0], -h[1])
                    elif k == 4:
                        corner = wp.vec2f(offset + h[0], -h[1])
                    start = p + rotate(corner, before)
                    end = p + u + rotate(corner, after)
                    hit = wp.min(hit, path_hit(start, end - start, a, v, 0.0))
        a = b
    return hit


@wp.kernel
def swept_kernel(
    first_env: int,
    # In:
    view: TrackView,
    position_in: wp.array3d[wp.float32],
    heading_in: wp.array2d[wp.float32],
    mask_in: wp.array[wp.bool],
    size_in: wp.array2d[wp.vec2f],
    offset: float,
    is_box: int,
    # State:
    last_pose: wp.array2d[wp.vec3f],
    # Out:
    hit_out: wp.array2d[wp.bool],
    fraction_out: wp.array2d[wp.float32],
):
    """Test the way from the last pose (x, y, heading) to this one. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    p = local_position(view, position_in, env, agent)
    now = wp.vec3f(p[0], p[1], 0.0)
    if is_box != 0:
        now = wp.vec3f(p[0], p[1], heading_in[env, agent])
    last = last_pose[env, agent]
    last_pose[env, agent] = now
    fraction = float(wp.nan)
    if is_drivable(view, env) and wp.isfinite(now) and wp.isfinite(last):
        h = size_in[env, agent]
        left = _paths_hit_border(view, env, wp.static(LEFT), last, now, h, offset, is_box)
        right = _paths_hit_border(view, env, wp.static(RIGHT), last, now, h, offset, is_box)
        fraction = wp.min(wp.min(left, right), 2.0)
    hit_out[env, agent] = fraction <= 1.0
    if fraction > 1.0:
        fraction = 1.0
    fraction_out[env, agent] = fraction


@wp.kernel
def forget_pose_kernel(
    first_env: int,
    # In:
    mask_in: wp.array[wp.bool],
    # Out:
    last_pose_out: wp.array2d[wp.vec3f],
    hit_out: wp.array2d[wp.bool],
):
    """Forget the last poses of the masked envs. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if mask_in[env]:
        last_pose_out[env, agent] = wp.vec3f(wp.nan, wp.nan, wp.nan)
        hit_out[env, agent] = False


@wp.func
def _place_of(view: TrackView, env: int, segment: int, n: float) -> int:
    """Where to start looking for borders: abreast of an agent on the road, else nowhere."""
    if segment >= 0 and (wp.abs(n) <= 0.95 * view.half_width[env] or view.vertical > 0.0):
        return segment
    return -1


@wp.func
def _write(
    contact: Contact,
    view: TrackView,
    env: int,
    agent: int,
    inside_out: wp.array2d[wp.bool],
    clearance_out: wp.array2d[wp.float32],
    point_out: wp.array2d[wp.vec2f],
    normal_out: wp.array2d[wp.vec2f],
    border_out: wp.array2d[wp.int32],
):
    inside_out[env, agent] = contact.clearance >= 0.0 and contact.border >= 0
    clearance_out[env, agent] = contact.clearance
    point_out[env, agent] = contact.point + planar(origin_of(view, env))
    normal_out[env, agent] = contact.normal
    border_out[env, agent] = contact.border


@wp.func
def _no_contact() -> Contact:
    contact = Contact()
    contact.clearance = wp.nan
    contact.border = int(-1)
    contact.point = wp.vec2f(wp.nan, wp.nan)
    contact.normal = wp.vec2f(wp.nan, wp.nan)
    return contact


@wp.kernel
def disc_contact_kernel(
    first_env: int,
    # In:
    view: TrackView,
    position_in: wp.array3d[wp.float32],
    mask_in: wp.array[wp.bool],
    segment_in: wp.array2d[wp.int32],
    n_in: wp.array2d[wp.float32],
    size_in: wp.array2d[wp.vec2f],
    # Out:
    inside_out: wp.array2d[wp.bool],
    clearance_out: wp.array2d[wp.float32],
    point_out: wp.array2d[wp.vec2f],
    normal_out: wp.array2d[wp.vec2f],
    border_out: wp.array2d[wp.int32],
):
    """Contacts of discs of radius ``size[0]``. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    p = local_position(view, position_in, env, agent)
    prefetch_borders(view, env, agent, segment_in)
    contact = _no_contact()
    if is_drivable(view, env) and wp.isfinite(p):
        start = _place_of(view, env, segment_in[env, agent], n_in[env, agent])
        contact = disc_contact(view, env, p, size_in[env, agent][0], start)
    _write(contact, view, env, agent, inside_out, clearance_out, point_out, normal_out, border_out)


@wp.kernel
def box_contact_kernel(
    first_env: int,
    # In:
    view: TrackView,
    position_in: wp.array3d[wp.float32],
    heading_in: wp.array2d[wp.float32],
    mask_in: wp.array[wp.bool],
    segment_in: wp.array2d[wp.int32],
    n_in: wp.array2d[wp.float32],
    size_in: wp.array2d[wp.vec2f],
    offset: float,
    # Out:
    inside_out: wp.array2d[wp.bool],
    clearance_out: wp.array2d[wp.float32],
    point_out: wp.array2d[wp.vec2f],
    normal_out: wp.array2d[wp.vec2f],
    border_out: wp.array2d[wp.int32],
):
    """Contacts of boxes of half extents ``size``. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    p = local_position(view, position_in, env, agent)
    prefetch_borders(view, env, agent, segment_in)
    heading = heading_in[env, agent]
    contact = _no_contact()
    if is_drivable(view, env) and wp.isfinite(p) and wp.isfinite(heading):
        direction = cos_sin(heading)
        start = _place_of(view, env, segment_in[env, agent], n_in[env, agent])
        middle = p + offset * wp.vec3f(direction[0], direction[1], 0.0)
        contact = box_contact(
            view, env, middle, direction, size_in[env, agent], start, wp.abs(offset)
        )
    _write(contact, view, env, agent, inside_out, clearance_out, point_out, normal_out, border_out)


class CollisionChecker:
    """Tests discs or boxes against the borders, exactly.

    All results are arrays [E, A] of this object with stable addresses. In an env without a valid
    track, and for a pose that is not finite, ``inside`` is False, ``border`` is -1 and the others
    are NaN.

    Args:
        track: :class:`track_gen.Track`, or anything with its arrays.
        num_agents: Agents A per env.
        radius: Radius of a disc around the position [length].
        box: Length and width of a box along the heading [length], instead of a disc.
        offset: How far the center of the box lies ahead of the position [length], at most half its
            length: for poses of a rear axle.
        swept: Also test the way from the last pose to this one: a disc exactly; of a box the
            straight ways of its center and corners.
        localizer: A localizer of the same track to read from, updated by the user; None makes one.
        origins: World positions of the tracks for a localizer of its own, as :class:`Localizer`
            takes them; a shared one brings its own.
        num_threads: CPU threads; None is one per core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, both or none of ``radius`` and ``box`` are
            given, or ``localizer`` is of another track or size.
    """

    def __init__(
        self,
        track: Any,
        num_agents: int = 1,
        *,
        radius: float | None = None,
        box: tuple[float, float] | None = None,
        offset: float = 0.0,
        swept: bool = False,
        localizer: Localizer | None = None,
        origins: Any = None,
        num_threads: int | None = None,
    ) -> None:
        if (radius is None) == (box is None):
            raise ValueError("CollisionChecker needs either a radius or a box")
        if radius is not None:
            radius = check_float("CollisionChecker.radius", radius, low=0.0)
            size = (radius, 0.0)
            if offset != 0.0:
                raise ValueError("CollisionChecker.offset must be 0 for a disc")
        else:
            if not isinstance(box, (tuple, list)) or len(box) != 2:
                raise TypeError(f"CollisionChecker.box must be (length, width), got {box!r}")
            length = check_float("CollisionChecker.box[0]", box[0], low=0.0, low_open=True)
            width = check_float("CollisionChecker.box[1]", box[1], low=0.0, low_open=True)
            size = (0.5 * length, 0.5 * width)
            check_float("CollisionChecker.offset", offset, low=-size[0], high=size[0])
        self.swept = check_bool("CollisionChecker.swept", swept)
        self._is_box = radius is None
        self._owns_localizer = localizer is None
        if localizer is None:
            localizer = Localizer(
                track, num_agents, borders=False, origins=origins, num_threads=num_threads
            )
        self.localizer = shared_localizer("CollisionChecker", localizer, track, num_agents)
        """Where the places are read from."""
        E, A = self.num_envs, self.num_agents = localizer.num_envs, localizer.num_agents
        device = self.device = localizer.device

        def vectors() -> wp.array:
            return wp.full((E, A), wp.vec2f(np.nan, np.nan), dtype=wp.vec2f, device=device)

        self.size = wp.full((E, A), wp.vec2f(*size), dtype=wp.vec2f, device=device)
        """Radius and 0, or half length and half width [length], vec2f [E, A]; may be written."""
        self.inside = wp.zeros((E, A), dtype=wp.bool, device=device)
        """Whether the whole body is on the road, bool [E, A]."""
        self.clearance = wp.full((E, A), np.nan, dtype=wp.float32, device=device)
        """Signed clearance [length], negative outside, float32 [E, A]."""
        self.point = vectors()
        """Nearest place of the borders [length], vec2f [E, A]."""
        self.normal = vectors()
        """Unit normal there, towards the road, vec2f [E, A]."""
        self.border = wp.full((E, A), -1, dtype=wp.int32, device=device)
        """0 for the border left of travel, 1 for the right one, int32 [E, A]."""
        self.swept_hit = wp.zeros((E, A), dtype=wp.bool, device=device)
        """Whether a border was touched on the way from the last pose, bool [E, A]."""
        self.swept_fraction = wp.full((E, A), np.nan, dtype=wp.float32, device=device)
        """Fraction of the way at the first touch, 1 without, NaN without a way, float32 [E, A]."""

        no_position = wp.zeros((E, A, 3), dtype=wp.float32, device=device)
        self._no_heading = wp.zeros((E, A), dtype=wp.float32, device=device)
        last_pose = wp.full((E, A), wp.vec3f(np.nan, np.nan, np.nan), dtype=wp.vec3f, device=device)
        view, every_env = localizer.view, localizer.every_env
        outputs = [self.inside, self.clearance, self.point, self.normal, self.border]
        places = [localizer.segment, localizer.n, self.size]
        if self._is_box:
            kernel = box_contact_kernel
            inputs = [view, no_position, self._no_heading, every_env, *places, offset]
        else:
            kernel = disc_contact_kernel
            inputs = [view, no_position, every_env, *places]
        self._contact = RowLaunch(kernel, E, (A,), inputs, outputs, device, num_threads)
        self._sweep = RowLaunch(
            swept_kernel,
            E,
            (A,),
            inputs=[
                view, no_position, self._no_heading, every_env, self.size, offset,
                int(self._is_box), last_pose,
            ],
            outputs=[self.swept_hit, self.swept_fraction],
            device=device,
            num_threads=num_threads,
        )  # fmt: skip
        self._forget = RowLaunch(
            forget_pose_kernel,
            E,
            (A,),
            inputs=[every_env],
            outputs=[last_pose, self.swept_hit],
            device=device,
            num_threads=1,
        )

    def update(self, position: Any, heading: Any = None, mask: Any = None) -> None:
        """Test all agents, or those of the masked envs.

        Args:
            position: Positions as :meth:`Localizer.update` takes them; with a shared localizer the
                ones it was updated with.
            heading: Yaw angles [rad], float32 [E, A]; boxes need them, discs do not.
            mask: Envs to work on, bool [E], or None for all.

        Raises:
            TypeError: If a type or dtype is wrong.
            ValueError: If a shape or device is wrong, or headings are missing.
        """
        E, A, device = self.num_envs, self.num_agents, self.device
        if heading is None and self._is_box:
            raise ValueError("CollisionChecker.update needs headings for boxes")
        position = as_positions("CollisionChecker.update(position)", position, E, A, device)
        mask = as_mask("CollisionChecker.update(mask)", mask, self.localizer.every_env, E, device)
        if heading is not None:
            heading = as_headings("CollisionChecker.update(heading)", heading, E, A, device)
        else:
            heading = self._no_heading
        update_own("CollisionChecker", self.localizer, self._owns_localizer, position, mask)
        if self._is_box:
            self._contact(position_in=position, heading_in=heading, mask_in=mask)
        else:
            self._contact(position_in=position, mask_in=mask)
        if self.swept:
            self._sweep(position_in=position, heading_in=heading, mask_in=mask)

    def reset(self, mask: Any = None) -> None:
        """Forget the last poses of the agents of the masked envs: their next step sweeps nothing.

        Args:
            mask: Envs, bool [E], or None for all.

        Raises:
            TypeError: If the dtype is wrong.
            ValueError: If the shape or device is wrong.
        """
        every = self.localizer.every_env
        mask = as_mask("CollisionChecker.reset(mask)", mask, every, self.num_envs, self.device)
        if self._owns_localizer:
            self.localizer.reset(mask)
        self._forget(mask_in=mask)
