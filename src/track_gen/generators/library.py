"""Library family: centrelines that the user brings, as polygons.

Real circuits and hand-made curves take part like every other family: an env takes one curve by its
seed, or all envs take the same one. Curves are cleaned on the host (repeated points removed, turned
counter-clockwise) and uploaded once per generator. They are not smoothed: the dense curve is the
polygon given. A curve that crosses itself passes; judging it is the task of the validity stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from track_gen.block import block_lane, block_launch
from track_gen.checks import check_bool, check_int
from track_gen.files import load_csv
from track_gen.generators.spec import CurveJob, Fit, GeneratorSettings, GeneratorSpec
from track_gen.rng import Stream, draw_int, draw_words

__all__ = ["SPEC", "Library"]

wp.set_module_options({"enable_backward": False})

_BOX_SIDE = 1.44
"""Longer side of the bounding box at scale 1, when normalised."""

_SAME_POINT = 1.0e-6
"""Distance below which neighbours are one point, as a share of the longer side."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Library(GeneratorSettings):
    """Given closed centrelines; compares and hashes by identity.

    The curves are copied: later changes of the caller's arrays have no effect.
    """

    curves: Sequence[Any]
    """Curves, each of shape [n, 2], with or without a repeated end point, in either direction, at
    any scale. Held as a tuple of cleaned, counter-clockwise, read-only float64 arrays."""
    normalize: bool = True
    """True: the longer side of the bounding box becomes 1.44 * scale. False: the curve keeps its
    size, times scale. Both are centred on the bounding box."""
    names: Sequence[str] | None = None
    """One name per curve, or None."""
    index: int | None = None
    """The curve that every env takes, or None: drawn per (seed, episode), the same for every
    attempt."""
    points: tuple[np.ndarray, ...] = field(init=False, repr=False)
    """What the device gets: the curves centred on their bounding boxes, float32, read-only."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @classmethod
    def from_csv(cls, paths: Sequence[str | Path], **options: Any) -> Library:
        """Centerlines of CSV files (see :mod:`track_gen.files`), named after them.

        The widths in the files are not used: the road has ``TrackGenConfig.half_width``.

        Args:
            paths: One file or several.
            options: Other settings of the library.

        Raises:
            ValueError: If a file is malformed; the message names the file and the line.
            OSError: If a file cannot be read.
        """
        curves, names = _from_csv(paths)
        return cls(curves=curves, **{"names": names, **options})

    def check(self) -> None:
        """Check, clean and copy the curves.

        Raises:
            ValueError: If there are no curves, or one has a wrong shape, a value that is not finite
                or fewer than 3 distinct points; or if ``names`` or ``index`` do not fit the curves.
            TypeError: If a type is wrong.
        """
        check_bool("Library.normalize", self.normalize)
        if isinstance(self.curves, (str, bytes, dict)) or not hasattr(self.curves, "__len__"):
            raise TypeError(
                f"Library.curves must be a list of [n, 2] arrays, got {type(self.curves).__name__}"
            )
        if len(self.curves) == 0:
            raise ValueError("Library.curves must hold at least one curve, got none")
        names = None if self.names is None else _checked_names(self.names, len(self.curves))
        if self.index is not None:
            check_int("Library.index", self.index, 0, len(self.curves) - 1)
        cleaned = [
            _clean(
                curve,
                f"Library.curves[{i}]" + ("" if names is None else f" ({names[i]!r})"),
                self.normalize,
            )
            for i, curve in enumerate(self.curves)
        ]
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "curves", tuple(given for given, _ in cleaned))
        object.__setattr__(self, "points", tuple(points for _, points in cleaned))


def _from_csv(paths: Sequence[str | Path]) -> tuple[list[np.ndarray], list[str]]:
    """Curves and names of CSV files."""
    if isinstance(paths, (str, Path)):
        paths = [paths]
    return [load_csv(path)[:, :2] for path in paths], [Path(path).stem for path in paths]


def _checked_names(names: Any, count: int) -> tuple[str, ...]:
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"Library.names must be a list of strings, got {names!r}")
    if len(names) != count:
        raise ValueError(f"Library.names must have one name per curve ({count}), got {len(names)}")
    return tuple(names)


def _device_points(given: np.ndarray, normalize: bool) -> np.ndarray:
    """``given`` centred on its bounding box, if asked with a longer side of 1.44, as float32.

    Done in float64, so that map coordinates far from their origin keep their detail.
    """
    with np.errstate(all="ignore"):
        if normalize:
            given = given / max(np.abs(given).max(), np.finfo(np.float64).tiny)
        low, high = given.min(axis=0), given.max(axis=0)
        centred = given - 0.5 * (low + high)
        if normalize and (high - low).max() > 0.0:
            centred *= _BOX_SIDE / (high - low).max()
        return centred.astype(np.float32)


def _clean(curve: Any, owner: str, normalize: bool) -> tuple[np.ndarray, np.ndarray]:
    """A curve without repeated points, counter-clockwise: as given, and as the device gets it."""
    try:
        given = np.array(curve, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{owner} must be numbers of shape [n, 2]: {error}") from error
    if given.ndim != 2 or given.shape[1] != 2:
        raise ValueError(f"{owner} must have shape [n, 2], got {given.shape}")
    if not np.isfinite(given).all():
        raise ValueError(f"{owner} must be finite, got {given[~np.isfinite(given)][0]}")
    if len(given) == 0:
        raise ValueError(f"{owner} must have at least 3 distinct points, got 0")
    points = _device_points(given, normalize)
    if not np.isfinite(points).all():
        raise ValueError(f"{owner} must fit float32, got values up to {np.abs(given).max():g}")
    # Points closer than float32 can tell apart at this size are one point.
    tolerance = _SAME_POINT * float((points.max(axis=0) - points.min(axis=0)).max())
    keep = [0]
    for i in range(1, len(points)):
        if np.abs(points[i] - points[keep[-1]]).max() > tolerance:
            keep.append(i)
    while len(keep) > 1 and np.abs(points[keep[-1]] - points[0]).max() <= tolerance:
        keep.pop()
    given, points = given[keep], points[keep]
    distinct = len(np.unique(points, axis=0))
    if distinct < 3:
        raise ValueError(f"{owner} must have at least 3 distinct points, got {distinct}")
    x, y = points.astype(np.float64).T
    if np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) < 0.0:
        given, points = (np.roll(p[::-1], 1, axis=0) for p in (given, points))
    given, points = np.array(given), np.array(points)
    given.setflags(write=False)
    points.setflags(write=False)
    return given, points


@wp.kernel
def copy_library_curve_kernel(
    # In:
    pending_in: wp.array[wp.bool],
    seeds_in: wp.array[wp.int32],
    episode_in: wp.array[wp.int32],
    points_in: wp.array[wp.vec2f],
    offsets_in: wp.array[wp.int32],
    index: int,
    # Out:
    choice_out: wp.array[wp.int32],
    curve_out: wp.array2d[wp.vec2f],
    curve_count_out: wp.array[wp.int32],
):
    """Copy the curve of an env: ``index``, or drawn if that is negative. Dim (E, lanes)."""
    env, thread = wp.tid()
    lane = block_lane(thread)
    if not pending_in[env]:
        return
    choice = index
    if index < 0:
        words = draw_words(
            seeds_in[env], episode_in[env], wp.static(int(Stream.LIBRARY_CHOICE)), 0, 0
        )
        choice = draw_int(words[0], 0, offsets_in.shape[0] - 2)
    first = offsets_in[choice]
    count = offsets_in[choice + 1] - first
    for i in range(lane, count, wp.block_dim()):
        curve_out[env, i] = points_in[first + i]
    if lane == 0:
        choice_out[env] = choice
        curve_count_out[env] = count


def _curve_size(settings: Library) -> int:
    return max(len(points) for points in settings.points)


def _fit(settings: Library) -> Fit:
    return "box" if settings.normalize else "natural"


def _allocate(settings: Library, num_envs: int, device: wp.Device) -> dict[str, wp.array]:
    offsets = np.cumsum([0] + [len(points) for points in settings.points]).astype(np.int32)
    return {
        "shared_points": wp.array(np.concatenate(settings.points), dtype=wp.vec2f, device=device),
        "shared_offsets": wp.array(offsets, dtype=wp.int32, device=device),
        "choice": wp.zeros(num_envs, dtype=wp.int32, device=device),
    }


def _launches(settings: Library, job: CurveJob) -> list[wp.Launch]:
    return [
        block_launch(
            copy_library_curve_kernel,
            job.num_envs,
            job.lanes,
            inputs=[
                job.pending,
                job.seeds,
                job.episode,
                job.scratch["shared_points"],
                job.scratch["shared_offsets"],
                -1 if settings.index is None else settings.index,
            ],
            outputs=[job.scratch["choice"], job.curve, job.curve_count],
            device=job.device,
        )
    ]


def _typical_length(settings: Library) -> float:
    """Exact: the length of the longest curve that an env can take."""
    chosen = settings.points if settings.index is None else (settings.points[settings.index],)
    edges = (np.roll(points, -1, axis=0) - points for points in chosen)
    return max(float(np.linalg.norm(edge.astype(np.float64), axis=1).sum()) for edge in edges)


SPEC = GeneratorSpec(
    name="library",
    settings=Library,
    launches=_launches,
    curve_size=_curve_size,
    fit=_fit,
    allocate=_allocate,
    typical_length=_typical_length,
)
