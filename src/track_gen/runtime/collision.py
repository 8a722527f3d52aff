"""The collision checker: discs and oriented boxes against the borders at every step.

What a contact is stands in :mod:`track_gen.runtime.contact`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from track_gen.checks import check_bool, check_float
from track_gen.geometry import cos_sin
from track_gen.polyline import planar
from track_gen.row_launch import RowLaunch
from track_gen.runtime.contact import Contact, box_contact, disc_contact, paths_hit_border
from track_gen.runtime.localize import Localizer, own_or_shared, update_own
from track_gen.runtime.rows import as_headings, as_mask, as_positions
from track_gen.runtime.view import (
    LEFT,
    RIGHT,
    TrackView,
    is_abreast,
    is_drivable,
    local_position,
    origin_of,
    prefetch_borders,
)

__all__ = ["CollisionChecker"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


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
        left = paths_hit_border(view, env, wp.static(LEFT), last, now, h, offset, is_box)
        right = paths_hit_border(view, env, wp.static(RIGHT), last, now, h, offset, is_box)
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
        start = segment_in[env, agent]
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
        start = segment_in[env, agent]
        if start >= 0 and view.vertical == 0.0:
            if not is_abreast(view, env, start, n_in[env, agent]):
                start = -1
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
        localizer = self.localizer = own_or_shared(
            "CollisionChecker", localizer, track, num_agents, origins, num_threads
        )
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
        segment, n = localizer.segment, localizer.n
        if self._is_box:
            kernel = box_contact_kernel
            inputs = [view, no_position, self._no_heading, every_env]
            inputs += [segment, n, self.size, offset]
        else:
            kernel = disc_contact_kernel
            inputs = [view, no_position, every_env, segment, self.size]
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
