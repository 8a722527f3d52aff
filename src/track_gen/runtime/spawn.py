"""Poses on the track for the start of an episode: at given places, on a grid, or random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import warp as wp

from track_gen.checks import check_float, check_int, check_threads
from track_gen.course_line import CourseLine
from track_gen.geometry import angle_of, wrap_angle
from track_gen.rng import PerEnvSeededRNG, Stream, draw_uniform
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
    find_segment,
    is_drivable,
    nearest_borders,
    origin_of,
    point_at,
    tangent_at,
    track_view,
    wrap_s,
)

__all__ = ["Spawner", "clear_offset"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})

_TRIES = 8
"""Halvings of an offset that leads outside, before the line itself is tried."""

_CENTERINGS = 3
"""Steps to the middle of the road, where the line itself is too near to a border."""


@wp.func
def clear_offset(
    view: TrackView, env: int, segment: int, fraction: float, n: float, radius: float
) -> wp.vec2f:
    """``n``, or as much of it as keeps a disc inside the borders.

    Args:
        view: Track.
        env: Row, with ``is_drivable``.
        segment: Segment of the centreline.
        fraction: Place on the segment.
        n: Lateral offset [length], left positive.
        radius: Radius of the disc [length].

    Returns:
        The offset, and the clearance of the disc there, negative if the road is too narrow for it.
        The offset is halved until the disc is clear; if it is not clear on the line either, it is
        put midway between the borders.
    """
    center = point_at(view, env, segment, fraction)
    tangent = tangent_at(view, env, segment, fraction)
    normal = wp.vec3f(-tangent[1], tangent[0], 0.0)
    half_width = view.half_width[env]
    bound = wp.max(half_width - radius, 0.0)
    offset = wp.clamp(n, -bound, bound)
    for k in range(wp.static(_TRIES + 1)):
        if k == wp.static(_TRIES):
            offset = 0.0
        room = nearest_borders(view, env, center + offset * normal, segment)
        clearance = wp.min(room.to_left, room.to_right) - radius
        if clearance >= 0.0:
            return wp.vec2f(offset, clearance)
        offset = 0.5 * offset
    offset = 0.0
    room = nearest_borders(view, env, center + offset * normal, segment)
    for _ in range(wp.static(_CENTERINGS)):
        offset += 0.5 * (room.to_left - room.to_right)
        offset = wp.clamp(offset, -half_width, half_width)
        room = nearest_borders(view, env, center + offset * normal, segment)
    return wp.vec2f(offset, wp.min(room.to_left, room.to_right) - radius)


@wp.func
def _write_pose(
    view: TrackView,
    env: int,
    agent: int,
    s: float,
    n: float,
    turn: float,
    radius: float,
    position_out: wp.array3d[wp.float32],
    heading_out: wp.array2d[wp.float32],
    s_out: wp.array2d[wp.float32],
    n_out: wp.array2d[wp.float32],
    fits_out: wp.array2d[wp.bool],
):
    if not (is_drivable(view, env) and wp.isfinite(s) and wp.isfinite(n) and wp.isfinite(turn)):
        for k in range(position_out.shape[2]):
            position_out[env, agent, k] = wp.nan
        heading_out[env, agent] = wp.nan
        s_out[env, agent] = wp.nan
        n_out[env, agent] = wp.nan
        fits_out[env, agent] = False
        return
    at = wrap_s(s, view.length[env])
    foot = find_segment(view, env, at)
    clear = clear_offset(view, env, foot.segment, foot.fraction, n, radius)
    offset = clear[0]
    tangent = tangent_at(view, env, foot.segment, foot.fraction)
    center = point_at(view, env, foot.segment, foot.fraction)
    origin = origin_of(view, env)
    position_out[env, agent, 0] = center[0] - offset * tangent[1] + origin[0]
    position_out[env, agent, 1] = center[1] + offset * tangent[0] + origin[1]
    if position_out.shape[2] > 2:
        position_out[env, agent, 2] = center[2] + origin[2]
    heading_out[env, agent] = wrap_angle(angle_of(tangent) + turn)
    s_out[env, agent] = at
    n_out[env, agent] = offset
    fits_out[env, agent] = clear[1] >= 0.0


@wp.kernel
def spawn_at_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    place_s_in: wp.array2d[wp.float32],
    place_n_in: wp.array2d[wp.float32],
    turn_in: wp.array2d[wp.float32],
    place_s: float,
    place_n: float,
    turn: float,
    radius: float,
    # Out:
    position_out: wp.array3d[wp.float32],
    heading_out: wp.array2d[wp.float32],
    s_out: wp.array2d[wp.float32],
    n_out: wp.array2d[wp.float32],
    fits_out: wp.array2d[wp.bool],
):
    """Put the agents of the masked envs at given places: array plus number. Dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if mask_in[env]:
        _write_pose(
            view,
            env,
            agent,
            place_s_in[env, agent] + place_s,
            place_n_in[env, agent] + place_n,
            turn_in[env, agent] + turn,
            radius,
            position_out,
            heading_out,
            s_out,
            n_out,
            fits_out,
        )


@wp.kernel
def spawn_grid_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    num_agents: int,
    columns: int,
    gap: float,
    width: float,
    radius: float,
    # Out:
    position_out: wp.array3d[wp.float32],
    heading_out: wp.array2d[wp.float32],
    s_out: wp.array2d[wp.float32],
    n_out: wp.array2d[wp.float32],
    fits_out: wp.array2d[wp.bool],
):
    """Put the agents of the masked envs on a grid behind index 0. Launch dim (rows, A)."""
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    rows = (num_agents + columns - 1) // columns
    half_width = view.half_width[env]
    step = wp.min(gap * half_width, 0.9 * view.length[env] / float(rows))
    column = agent % columns
    back = float(agent // columns + 1) + float(column) / float(columns)
    n = float(0.0)
    if columns > 1:
        n = width * half_width * (1.0 - 2.0 * float(column) / float(columns - 1))
    _write_pose(
        view,
        env,
        agent,
        -back * step,
        n,
        0.0,
        radius,
        position_out,
        heading_out,
        s_out,
        n_out,
        fits_out,
    )


@wp.kernel
def count_spawns_kernel(
    first_env: int,
    # In:
    mask_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    # State:
    last_seed: wp.array[wp.int32],
    last_episode: wp.array[wp.int32],
    spawns: wp.array[wp.int32],
):
    """Number the spawns in a row of one seed and episode, the first is 0. Launch dim (rows,)."""
    env = first_env + wp.tid()
    if not mask_in[env]:
        return
    spawn = int(0)
    if last_seed[env] == seeds_in[env] and last_episode[env] == episode_in[env]:
        spawn = spawns[env] + 1
    last_seed[env] = seeds_in[env]
    last_episode[env] = episode_in[env]
    spawns[env] = spawn


@wp.kernel
def spawn_random_kernel(
    first_env: int,
    # In:
    view: TrackView,
    mask_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    spawns_in: wp.array[wp.int32],
    num_agents: int,
    first_s: float,
    last_s: float,
    lateral: float,
    heading_noise: float,
    radius: float,
    # Out:
    position_out: wp.array3d[wp.float32],
    heading_out: wp.array2d[wp.float32],
    s_out: wp.array2d[wp.float32],
    n_out: wp.array2d[wp.float32],
    fits_out: wp.array2d[wp.bool],
):
    """Put the agents of the masked envs at random places. Launch dim (rows, A).

    The range of ``s`` is cut into as many pieces as there are agents, shifted by the same random
    amount, and each agent is in the first half of its own.
    """
    row, agent = wp.tid()
    env = first_env + row
    if not mask_in[env]:
        return
    seed = seeds_in[env]
    episode = episode_in[env]
    spawn = spawns_in[env]
    shared = draw_uniform(seed, episode, wp.static(int(Stream.SPAWN)), 0, spawn)
    own = draw_uniform(seed, episode, wp.static(int(Stream.SPAWN)), agent + 1, spawn)
    share = shared[0]
    if num_agents > 1:
        share = (float(agent) + 0.5 * own[0] + shared[0] * float(num_agents)) / float(num_agents)
        share = share - wp.floor(share)
    s = (first_s + (last_s - first_s) * share) * view.length[env]
    n = (2.0 * own[1] - 1.0) * lateral * wp.max(view.half_width[env] - radius, 0.0)
    turn = (2.0 * own[2] - 1.0) * heading_noise
    _write_pose(
        view,
        env,
        agent,
        s,
        n,
        turn,
        radius,
        position_out,
        heading_out,
        s_out,
        n_out,
        fits_out,
    )


class Spawner:
    """Puts agents on their tracks, inside of the borders wherever the body fits on the road.

    The poses of the masked envs are written to ``position`` and ``heading``; others stay. Offsets
    that would bring the body over a border are reduced; where the line itself is too near to one,
    the body is put in the middle of the road. Where the road is too narrow for it even there,
    ``fits`` is False. In an env without a valid track, and for a place that is not finite, the pose
    is NaN and ``fits`` is False.

    Args:
        track: :class:`track_gen.Track`, or anything with its arrays.
        num_agents: Agents A per env.
        radius: Radius around the position that must be free [length].
        rng: Seeds and episodes of :meth:`random`; the poses are a function of them, the agent, and
            how many spawns of the env came before since its seed and episode last changed.
        position: Where to write positions: vec3f or vec2f [E, A], or a torch tensor [E, A, 2 or
            3], to have them in the simulator's own state; None allocates vec3f.
        heading: Where to write headings, float32 [E, A]; None allocates.
        origins: Where each env's track stands in the world, vec3f [E]; read at each call. None is
            the origin for all.
        num_threads: CPU threads; None is one per core.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument is out of range, or shapes or devices disagree.
    """

    def __init__(
        self,
        track: Any,
        num_agents: int = 1,
        *,
        radius: float = 0.0,
        rng: PerEnvSeededRNG | None = None,
        position: Any = None,
        heading: Any = None,
        origins: Any = None,
        num_threads: int | None = None,
    ) -> None:
        check_track("Spawner", track)
        num_threads = check_threads("Spawner.num_threads", num_threads)
        A = self.num_agents = check_agents("Spawner.num_agents", num_agents)
        E = self.num_envs = track.center.shape[0]
        device = self.device = track.center.device
        radius = check_float("Spawner.radius", radius, low=0.0)
        if rng is not None:
            if not isinstance(rng, PerEnvSeededRNG):
                raise TypeError(f"Spawner.rng must be a PerEnvSeededRNG, got {type(rng).__name__}")
            if rng.num_envs != E:
                raise ValueError(f"Spawner.rng must have num_envs={E}, got {rng.num_envs}")
            if rng.device != device:
                raise ValueError(f"Spawner.rng must be on device {device}, got {rng.device}")
        self.rng = rng

        def values() -> wp.array:
            return wp.full((E, A), np.nan, dtype=wp.float32, device=device)

        if position is None:
            position = wp.full(
                (E, A), wp.vec3f(np.nan, np.nan, np.nan), dtype=wp.vec3f, device=device
            )
        self.position = position
        """Positions [length], [E, A]."""
        self.heading = values() if heading is None else heading
        """Yaw angles [rad], float32 [E, A]."""
        self.s = values()
        """Arc lengths of the poses [length], float32 [E, A]."""
        self.n = values()
        """Lateral offsets of the poses [length], float32 [E, A]."""
        self.fits = wp.zeros((E, A), dtype=wp.bool, device=device)
        """Whether the body is inside of the borders, bool [E, A]; False before the first spawn."""
        self.every_env = wp.full(E, True, dtype=wp.bool, device=device)
        """A mask of all envs, bool [E]."""

        self.origins = track_origins("Spawner.origins", track, origins)
        """World positions of the tracks, vec3f [E], or None."""
        # A flight line may cross over itself: there the borders abreast count.
        vertical = float(isinstance(track, CourseLine))
        view = track_view(track, vertical, self.origins)
        outputs = [
            as_positions("Spawner.position", self.position, E, A, device),
            as_headings("Spawner.heading", self.heading, E, A, device),
            self.s,
            self.n,
            self.fits,
        ]
        zeros = wp.zeros((E, A), dtype=wp.float32, device=device)
        self._zeros = zeros

        def prepare(kernel: wp.Kernel, inputs: list[Any]) -> RowLaunch:
            return RowLaunch(kernel, E, (A,), inputs, outputs, device, num_threads)

        self._at = prepare(
            spawn_at_kernel,
            [view, self.every_env, zeros, zeros, zeros, 0.0, 0.0, 0.0, radius],
        )
        self._grid = prepare(spawn_grid_kernel, [view, self.every_env, A, 1, 1.0, 0.0, radius])
        self._random = None
        if rng is not None:
            spawns = wp.zeros(E, dtype=wp.int32, device=device)
            last_seed = wp.zeros(E, dtype=wp.int32, device=device)
            last_episode = wp.full(E, -1, dtype=wp.int32, device=device)
            seeds, episode = rng.seeds_warp, rng.episode_warp
            self._count = RowLaunch(
                count_spawns_kernel,
                E,
                (),
                inputs=[self.every_env, seeds, episode],
                outputs=[last_seed, last_episode, spawns],
                device=device,
                num_threads=1,
            )
            self._random = prepare(
                spawn_random_kernel,
                [view, self.every_env, seeds, episode, spawns, A, 0.0, 1.0, 0.0, 0.0, radius],
            )

    def at(self, s: Any = 0.0, n: Any = 0.0, turn: Any = 0.0, mask: Any = None) -> None:
        """Put agents at given places.

        Args:
            s: Arc length [length], float32 [E, A] on the device, or a number for all agents;
                wrapped around the loop.
            n: Lateral offset [length], left positive, likewise; reduced if it leads outside.
            turn: Angle from the direction of travel [rad], likewise.
            mask: Envs, bool [E], or None for all.

        Raises:
            TypeError: If a type or dtype is wrong.
            ValueError: If a shape or device is wrong, or a number is not finite.
        """
        s_array, s_number = self._values("s", s)
        n_array, n_number = self._values("n", n)
        turn_array, turn_number = self._values("turn", turn)
        self._at(
            place_s_in=s_array,
            place_n_in=n_array,
            turn_in=turn_array,
            place_s=s_number,
            place_n=n_number,
            turn=turn_number,
            mask_in=self._mask("at", mask),
        )

    def grid(
        self, mask: Any = None, *, columns: int = 2, gap: float = 2.0, width: float = 0.5
    ) -> None:
        """Put agents on a staggered grid behind index 0, the first agent in front.

        Args:
            mask: Envs, bool [E], or None for all.
            columns: Agents side by side; with one agent per env it stands on the centreline.
            gap: Distance from row to row [half widths]; less if the grid were longer than the loop.
            width: Lateral offset of the outermost columns [half widths], in [0, 1].

        Raises:
            TypeError: If a type is wrong.
            ValueError: If a value is out of range.
        """
        columns = min(check_int("Spawner.grid(columns)", columns, 1, 1024), self.num_agents)
        gap = check_float("Spawner.grid(gap)", gap, low=0.0, low_open=True)
        width = check_float("Spawner.grid(width)", width, low=0.0, high=1.0)
        self._grid(mask_in=self._mask("grid", mask), columns=columns, gap=gap, width=width)

    def random(
        self,
        mask: Any = None,
        *,
        s_range: tuple[float, float] = (0.0, 1.0),
        lateral: float = 0.5,
        heading_noise: float = 0.1,
    ) -> None:
        """Put agents at random places; those of one env keep apart along the track.

        Args:
            mask: Envs, bool [E], or None for all.
            s_range: Range of the arc length, in lengths of the track.
            lateral: Largest lateral offset as a share of the free half width, in [0, 1]; uniform.
            heading_noise: Largest angle from the direction of travel [rad]; uniform.

        Raises:
            TypeError: If a type is wrong.
            ValueError: If a value is out of range.
            RuntimeError: If the spawner has no ``rng``.
        """
        if self._random is None:
            raise RuntimeError("Spawner.random needs a Spawner with an rng")
        if not isinstance(s_range, (tuple, list)) or len(s_range) != 2:
            raise TypeError(
                f"Spawner.random(s_range) must be a (first, last) pair, got {s_range!r}"
            )
        first = check_float("Spawner.random(s_range[0])", s_range[0], low=-1.0, high=1.0)
        last = check_float("Spawner.random(s_range[1])", s_range[1], low=first, high=first + 1.0)
        lateral = check_float("Spawner.random(lateral)", lateral, low=0.0, high=1.0)
        noise = check_float("Spawner.random(heading_noise)", heading_noise, low=0.0, high=math.pi)
        mask = self._mask("random", mask)
        self._count(mask_in=mask)
        self._random(mask_in=mask, first_s=first, last_s=last, lateral=lateral, heading_noise=noise)

    def _mask(self, method: str, mask: Any) -> wp.array:
        name = f"Spawner.{method}(mask)"
        return as_mask(name, mask, self.every_env, self.num_envs, self.device)

    def _values(self, name: str, value: Any) -> tuple[wp.array, float]:
        """Places as an array and a number to add to it."""
        name = f"Spawner.at({name})"
        numbers = (int, float, np.integer, np.floating)
        if isinstance(value, numbers) and not isinstance(value, bool):
            return self._zeros, check_float(name, value, low=-math.inf)
        return as_headings(name, value, self.num_envs, self.num_agents, self.device), 0.0
