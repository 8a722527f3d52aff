"""Where agents are on their track: arc length, lateral offset, heading error, border distances."""

from __future__ import annotations

from typing import Any

import warp as wp

from track_gen.checks import check_bool, check_float, check_threads
from track_gen.row_launch import RowLaunch
from track_gen.runtime.rows import (
    as_headings,
    as_mask,
    as_positions,
    check_agents,
    check_track,
    track_origins,
)
from track_gen.runtime.view import (
    TrackView,
    frenet_heading_error,
    frenet_n,
    frenet_s,
    is_drivable,
    local_position,
    locate,
    nearest_borders,
    point_at,
    prefetch_borders,
    prefetch_centerline,
    track_view,
)

__all__ = ["Localizer", "own_or_shared", "update_own"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.kernel
def localize_kernel(
    first_env: int,
    # In:
    view: TrackView,
    position_in: wp.array3d[wp.float32],
    heading_in: wp.array2d[wp.float32],
    mask_in: wp.array[wp.bool],
    has_heading: int,
    borders: int,
    reach: float,
    # In and out:
    segment: wp.array2d[wp.int32],
    # Out:
    s_out: wp.array2d[wp.float32],
    n_out: wp.array2d[wp.float32],
    heading_error_out: wp.array2d[wp.float32],
    fraction_out: wp.array2d[wp.float32],
    left_out: wp.array2d[wp.float32],
    right_out: wp.array2d[wp.float32],
    height_out: wp.array2d[wp.float32],
):
    """Localise the agents of the masked envs. Launch dim (rows, A).

    ``segment`` holds the last result on entry, -1 for a cold query.
    """
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    prefetch_centerline(view, env, agent, segment)
    if borders != 0:
        prefetch_borders(view, env, agent, segment)
    p = local_position(view, position_in, env, agent)
    if not (is_drivable(view, env) and wp.isfinite(p)):
        segment[env, agent] = -1
        s_out[env, agent] = wp.nan
        n_out[env, agent] = wp.nan
        heading_error_out[env, agent] = wp.nan
        fraction_out[env, agent] = wp.nan
        left_out[env, agent] = wp.nan
        right_out[env, agent] = wp.nan
        height_out[env, agent] = wp.nan
        return
    foot = locate(view, env, p, segment[env, agent], reach)
    segment[env, agent] = foot.segment
    fraction_out[env, agent] = foot.fraction
    s_out[env, agent] = frenet_s(view, env, foot)
    n_out[env, agent] = frenet_n(view, env, p, foot)
    height_out[env, agent] = p[2] - point_at(view, env, foot.segment, foot.fraction)[2]
    error = float(wp.nan)
    if has_heading != 0:
        error = frenet_heading_error(view, env, heading_in[env, agent], foot)
    heading_error_out[env, agent] = error
    if borders != 0:
        places = nearest_borders(view, env, p, foot.segment)
        left_out[env, agent] = places.to_left
        right_out[env, agent] = places.to_right


@wp.kernel
def forget_kernel(
    first_env: int,
    # In:
    mask_in: wp.array[wp.bool],
    # Out:
    segment_out: wp.array2d[wp.int32],
):
    """Make the next query of the masked envs a cold one. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if mask_in[env]:
        segment_out[env, agent] = -1


class Localizer:
    """Finds the place of each agent on its track.

    The first query of an agent looks at the whole line; later ones walk from the last result, and
    look at the whole line again if that leads to no place on the road. On a valid track the results
    do not depend on which of the two was taken; on lines that cross or near themselves, flight
    lines and racing lines, a walk stays with the piece that the agent came from.

    All results are arrays [E, A] of this object with stable addresses, overwritten by
    :meth:`update` for the masked envs. In an env without a valid track, and for a position that is
    not finite, all of them are NaN and ``segment`` is -1.

    Args:
        track: :class:`track_gen.Track`, or anything with its arrays. Read at each call, so it may
            be regenerated; call :meth:`reset` for the envs that were.
        num_agents: Agents A per env.
        plan_view: Look for the nearest place in plan view; False looks in 3-D, for flight lines
            that cross over themselves.
        borders: Also measure the distances to both borders.
        reach: Lateral distance, in half widths, up to which a warm result is kept. Above 1 it can
            differ from that of a cold query: it stays with the piece of road the agent came from.
        origins: Where each env's track stands in the world, vec3f [E]; positions are then world
            positions. Read at each call. None is the origin for all.
        num_threads: CPU threads; None is one per core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        track: Any,
        num_agents: int = 1,
        *,
        plan_view: bool = True,
        borders: bool = True,
        reach: float = 0.95,
        origins: Any = None,
        num_threads: int | None = None,
    ) -> None:
        check_track("Localizer", track)
        num_threads = check_threads("Localizer.num_threads", num_threads)
        A = self.num_agents = check_agents("Localizer.num_agents", num_agents)
        E = self.num_envs = track.center.shape[0]
        self.track = track
        self.device = track.center.device
        plan_view = check_bool("Localizer.plan_view", plan_view)
        borders = check_bool("Localizer.borders", borders)
        reach = check_float("Localizer.reach", reach, low=0.0)
        self.origins = track_origins("Localizer.origins", track, origins)
        """World positions of the tracks, vec3f [E], or None."""
        self.view = track_view(track, 0.0 if plan_view else 1.0, self.origins)
        """The track as a kernel argument."""

        def values() -> wp.array:
            return wp.full((E, A), wp.nan, dtype=wp.float32, device=self.device)

        self.s = values()
        """Arc length of the nearest place [length], in [0, length), float32 [E, A]."""
        self.n = values()
        """Lateral offset [length], left positive, float32 [E, A]."""
        self.heading_error = values()
        """Heading minus direction of travel [rad] in [-pi, pi], float32 [E, A]; NaN without one."""
        self.segment = wp.full((E, A), -1, dtype=wp.int32, device=self.device)
        """Segment of the nearest place, int32 [E, A]."""
        self.fraction = values()
        """Place on the segment in [0, 1], float32 [E, A]."""
        self.left = values()
        """Distance to the border left of travel [length], negative beyond it, float32 [E, A]."""
        self.right = values()
        """Distance to the border right of travel [length], negative beyond it, float32 [E, A]."""
        self.height = values()
        """Height above the nearest place [length], float32 [E, A]."""

        self.every_env = wp.full(E, True, dtype=wp.bool, device=self.device)
        """A mask of all envs, bool [E]."""
        self._no_position = wp.zeros((E, A, 3), dtype=wp.float32, device=self.device)
        self._no_heading = wp.zeros((E, A), dtype=wp.float32, device=self.device)
        self._localize = RowLaunch(
            localize_kernel,
            E,
            (A,),
            inputs=[
                self.view, self._no_position, self._no_heading, self.every_env, 0, int(borders),
                reach, self.segment,
            ],
            outputs=[
                self.s, self.n, self.heading_error, self.fraction, self.left, self.right,
                self.height,
            ],
            device=self.device,
            num_threads=num_threads,
        )  # fmt: skip
        self._forget = RowLaunch(
            forget_kernel,
            E,
            (A,),
            inputs=[self.every_env],
            outputs=[self.segment],
            device=self.device,
            num_threads=1,
        )

    def update(self, position: Any, heading: Any = None, mask: Any = None) -> None:
        """Localise all agents, or those of the masked envs.

        Args:
            position: Positions [length]: vec3f or vec2f [E, A], or a torch tensor or float32 array
                [E, A, 2 or 3], on the device; read in place.
            heading: Yaw angles [rad], float32 [E, A], or None for no heading error.
            mask: Envs to work on, bool [E], or None for all.

        Raises:
            TypeError: If a type or dtype is wrong.
            ValueError: If a shape or device is wrong.
        """
        E, A, device = self.num_envs, self.num_agents, self.device
        self._localize(
            position_in=as_positions("Localizer.update(position)", position, E, A, device),
            heading_in=self._no_heading
            if heading is None
            else as_headings("Localizer.update(heading)", heading, E, A, device),
            has_heading=0 if heading is None else 1,
            mask_in=as_mask("Localizer.update(mask)", mask, self.every_env, E, device),
        )

    def reset(self, mask: Any = None) -> None:
        """Forget where the agents of the masked envs were: their next query is a cold one.

        Args:
            mask: Envs, bool [E], or None for all.

        Raises:
            TypeError: If the dtype is wrong.
            ValueError: If the shape or device is wrong.
        """
        chosen = as_mask("Localizer.reset(mask)", mask, self.every_env, self.num_envs, self.device)
        self._forget(mask_in=chosen)


def own_or_shared(
    owner: str,
    localizer: Any,
    track: Any,
    num_agents: int,
    origins: Any,
    num_threads: int | None,
) -> Localizer:
    """``localizer`` if it is one of this track for as many agents; None makes a new one.

    Raises:
        TypeError: If it is not a localizer, or the track is not one.
        ValueError: If it is of another track or number of agents, or there are origins beside it.
    """
    check_track(owner, track)
    num_threads = check_threads(f"{owner}.num_threads", num_threads)
    num_agents = check_agents(f"{owner}.num_agents", num_agents)
    if localizer is None:
        return Localizer(track, num_agents, borders=False, origins=origins, num_threads=num_threads)
    if not isinstance(localizer, Localizer):
        raise TypeError(f"{owner}.localizer must be a Localizer, got {type(localizer).__name__}")
    if localizer.track is not track:
        raise ValueError(f"{owner}.localizer must be of the same track")
    if localizer.num_agents != num_agents:
        raise ValueError(
            f"{owner}.localizer must be of num_agents={num_agents}, got {localizer.num_agents}"
        )
    if origins is not None:
        raise ValueError(f"{owner}.origins must be None beside a localizer, which brings its own")
    return localizer


def update_own(
    owner: str, localizer: Localizer, owned: bool, position: Any, mask: Any, heading: Any = None
) -> None:
    """Update a localizer that a tool made for itself; a shared one is updated by its user.

    Raises:
        ValueError: If the localizer is owned and there are no positions.
    """
    if owned:
        if position is None:
            raise ValueError(f"{owner}.update needs positions, as it has no shared localizer")
        localizer.update(position, heading, mask)
