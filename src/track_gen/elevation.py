"""Elevation profiles: what a user asks for, and the height along a closed line on the device.

A profile is a periodic shape in [-1, 1] over the loop coordinate ``u`` in [0, 1); the height is
``middle + half * shape`` of the range [``middle - half``, ``middle + half``]. A block draws the few
coefficients of its env once with :func:`draw_profile`; :func:`sample_profile` evaluates them
anywhere. Whoever uses a profile limits the grade: the shape knows nothing of corners.

Knots are joined by a monotone cubic (Fritsch and Butland: A method for constructing local monotone
piecewise cubic interpolants, SIAM J. Sci. Stat. Comput. 5(2), 1984), which never leaves the range
of its knots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import warp as wp

from track_gen.block import block_sync
from track_gen.checks import check_float, check_int
from track_gen.geometry import cos_sin
from track_gen.rng import Stream, draw_uniform

__all__ = [
    "DEFAULT_MAX_GRADE",
    "PROFILE_SIZE",
    "PROFILES",
    "ElevationSettings",
    "Flat",
    "Noise",
    "Profile",
    "RandomWalk",
    "Uniform",
    "draw_profile",
    "make_profile",
    "profile_bounds",
    "sample_profile",
]

wp.set_module_options({"enable_backward": False})

DEFAULT_MAX_GRADE = 0.15
"""Largest grade of a track whose elevation names none."""

MOST_KNOTS = 64
"""Most knots of a profile."""

PROFILE_SIZE = 2 * MOST_KNOTS
"""Coefficients per env: two per knot (height and slope) or harmonic."""

_FLAT = 0
_UNIFORM = 1
_WALK = 2
_NOISE = 3


@dataclass(frozen=True, kw_only=True)
class ElevationSettings:
    """What all elevations share; use one of the subclasses.

    Raises:
        ValueError: If a value is out of bounds, or would make the profile flat by mistake.
        TypeError: If a type is wrong.
    """

    max_grade: float | None = None
    """Largest rise over plan distance, in (0, 10]; None is 0.15 for a track, the ``max_grade`` of
    ``GateGenConfig`` for a gate course."""
    banking: float = 0.0
    """Largest angle [deg] by which a corner of a track leans inwards, in [0, 45]; 0 is level."""
    banking_radius: float = 4.0
    """Radius [half widths], in [1, 1000], at which the banking reaches its largest angle; it is
    proportional to the curvature up to there."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        if type(self) is ElevationSettings:
            raise TypeError("ElevationSettings is a base class: use Flat, Uniform, ...")
        if self.max_grade is not None:
            check_float(f"{name}.max_grade", self.max_grade, 0.0, 10.0, low_open=True)
        check_float(f"{name}.banking", self.banking, 0.0, 45.0)
        check_float(f"{name}.banking_radius", self.banking_radius, 1.0, 1000.0)


@dataclass(frozen=True, kw_only=True)
class Flat(ElevationSettings):
    """One height everywhere."""

    z: float = 0.0
    """Height [length]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_float("Flat.z", self.z, -1.0e30, 1.0e30)


@dataclass(frozen=True, kw_only=True)
class Uniform(ElevationSettings):
    """Heights drawn uniformly at equally spaced knots, joined by a monotone curve."""

    low: float = 0.0
    """Least height [length]."""
    high: float | None = None
    """Largest height [length], > ``low``; None is ``low`` plus 3 % of the loop's plan length."""
    knots: int = 8
    """Knots round the loop, in [2, 64]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_float("Uniform.low", self.low, -1.0e30, 1.0e30)
        check_int("Uniform.knots", self.knots, 2, MOST_KNOTS)
        if self.high is not None:
            check_float("Uniform.high", self.high, -1.0e30, 1.0e30)
            _check_not_flat("Uniform.high", "Uniform.low", self.low, self.high)


@dataclass(frozen=True, kw_only=True)
class RandomWalk(ElevationSettings):
    """A closed random walk: steps of random grade between equally spaced knots."""

    z: float = 0.0
    """Height midway between the lowest and the highest knot [length]."""
    span: float | None = None
    """Most height between the lowest and the highest place [length], > 0: a walk that needs more is
    scaled down. None is what the grade allows, half the plan length times ``max_grade``."""
    knots: int = 12
    """Steps round the loop, in [3, 64]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_float("RandomWalk.z", self.z, -1.0e30, 1.0e30)
        check_int("RandomWalk.knots", self.knots, 3, MOST_KNOTS)
        if self.span is not None:
            check_float("RandomWalk.span", self.span, 0.0, 1.0e30, low_open=True)
            low, high = self.z - 0.5 * self.span, self.z + 0.5 * self.span
            _check_not_flat("RandomWalk.z + span / 2", "RandomWalk.z - span / 2", low, high)


@dataclass(frozen=True, kw_only=True)
class Noise(ElevationSettings):
    """A sum of harmonics of the loop with random phases, the k-th about 1 / k as high."""

    z: float = 0.0
    """Middle height [length]."""
    amplitude: float | None = None
    """Bound on the distance from ``z`` [length], > 0, reached where all harmonics peak together;
    None is 2 % of the loop's plan length."""
    harmonics: int = 4
    """Number of harmonics, in [1, 32]: the shortest wave is the loop's length over this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_float("Noise.z", self.z, -1.0e30, 1.0e30)
        check_int("Noise.harmonics", self.harmonics, 1, MOST_KNOTS // 2)
        if self.amplitude is not None:
            check_float("Noise.amplitude", self.amplitude, 0.0, 1.0e30, low_open=True)
            low, high = self.z - self.amplitude, self.z + self.amplitude
            _check_not_flat("Noise.z + amplitude", "Noise.z - amplitude", low, high)


PROFILES: dict[str, type[ElevationSettings]] = {
    "flat": Flat,
    "uniform": Uniform,
    "walk": RandomWalk,
    "noise": Noise,
}
"""Settings class of each profile by its name on the command line."""


def _inwards(low: float, high: float) -> tuple[float, float]:
    """The range in float32, rounded so that it does not grow."""
    low32, high32 = np.float32(low), np.float32(high)
    if low32 < low:
        low32 = np.nextafter(low32, np.float32(np.inf))
    if high32 > high:
        high32 = np.nextafter(high32, np.float32(-np.inf))
    return float(low32), float(high32)


def _check_not_flat(high_name: str, low_name: str, low: float, high: float) -> None:
    """Refuse a range that holds no two float32 heights.

    Raises:
        ValueError: If it is empty, reversed or too narrow.
    """
    low32, high32 = _inwards(low, high)
    if not low32 < high32:
        raise ValueError(
            f"{high_name} must be > {low_name} in float32, got {high} and {low}: the profile would "
            "be flat; use Flat(z=...) for one height"
        )


@wp.struct
class Profile:
    """A profile as a kernel argument; :func:`make_profile` fills it."""

    kind: wp.int32
    count: wp.int32
    low: wp.float32
    high: wp.float32
    low_share: wp.float32
    high_share: wp.float32
    step: wp.float32


def make_profile(settings: ElevationSettings, max_grade: float) -> Profile:
    """Settings as a kernel argument.

    Args:
        settings: Checked settings.
        max_grade: Grade that the user of the profile keeps; a random walk takes its steps from it.

    Raises:
        TypeError: If the settings are none of the known profiles.
    """
    profile = Profile()
    if isinstance(settings, Flat):
        profile.kind, profile.count = _FLAT, 0
        profile.low = profile.high = settings.z
    elif isinstance(settings, Uniform):
        profile.kind, profile.count = _UNIFORM, settings.knots
        if settings.high is None:
            profile.low = profile.high = settings.low
            profile.high_share = 0.03
        else:
            profile.low, profile.high = _inwards(settings.low, settings.high)
    elif isinstance(settings, RandomWalk):
        profile.kind, profile.count = _WALK, settings.knots
        profile.step = max_grade
        if settings.span is None:
            profile.low = profile.high = settings.z
            profile.low_share, profile.high_share = -0.25 * max_grade, 0.25 * max_grade
        else:
            half = 0.5 * settings.span
            profile.low, profile.high = _inwards(settings.z - half, settings.z + half)
    elif isinstance(settings, Noise):
        profile.kind, profile.count = _NOISE, settings.harmonics
        if settings.amplitude is None:
            profile.low = profile.high = settings.z
            profile.low_share, profile.high_share = -0.02, 0.02
        else:
            half = settings.amplitude
            profile.low, profile.high = _inwards(settings.z - half, settings.z + half)
    else:
        raise TypeError(f"elevation must be Flat, Uniform, RandomWalk or Noise, got {settings!r}")
    return profile


@wp.func
def profile_bounds(profile: Profile, length: float) -> wp.vec2f:
    """Range (low, high) of the heights on a loop of this plan length."""
    return wp.vec2f(
        profile.low + profile.low_share * length, profile.high + profile.high_share * length
    )


@wp.func
def _knot_slope(before: float, after: float) -> float:
    """Slope at a knot between two steps: their harmonic mean, 0 at an extremum."""
    if before * after > 0.0:
        return 2.0 * before * after / (before + after)
    return 0.0


@wp.func
def draw_profile(
    profile: Profile,
    seed: int,
    episode: int,
    attempt: int,
    length: float,
    coefficients: wp.array2d[wp.float32],
    env: int,
    lane: int,
):
    """Draw the coefficients of one env; every lane of its block calls this, it ends with a barrier.

    Args:
        profile: Profile.
        seed: Seed of the env.
        episode: Episode of the env.
        attempt: Attempt, from 0.
        length: Plan length of the loop, > 0.
        coefficients: Output, shape [E, >= PROFILE_SIZE].
        env: Row.
        lane: Lane of the caller.
    """
    count = profile.count
    draws = count
    if profile.kind == wp.static(_NOISE):
        draws = 2 * count
    for quad in range(lane, (draws + 3) // 4, wp.block_dim()):
        u = draw_uniform(seed, episode, wp.static(int(Stream.ELEVATION)), attempt, quad)
        for k in range(wp.static(4)):
            if 4 * quad + k < draws:
                coefficients[env, 4 * quad + k] = 2.0 * u[k] - 1.0
    block_sync()
    if profile.kind == wp.static(_WALK) and lane == 0:
        bounds = profile_bounds(profile, length)
        half = wp.max(0.5 * (bounds[1] - bounds[0]), 1.0e-37)
        unit = profile.step * length / float(count) / half
        drift = float(0.0)
        for k in range(count):
            drift += coefficients[env, k]
        drift = drift / float(count)
        height = float(0.0)
        lowest = float(0.0)
        highest = float(0.0)
        for k in range(count):
            step = coefficients[env, k] - drift
            coefficients[env, k] = height
            height += unit * step
            if k + 1 < count:
                lowest = wp.min(lowest, height)
                highest = wp.max(highest, height)
        middle = 0.5 * (lowest + highest)
        factor = 1.0 / wp.max(0.5 * (highest - lowest), 1.0)
        for k in range(count):
            coefficients[env, k] = factor * (coefficients[env, k] - middle)
    if profile.kind == wp.static(_NOISE) and lane == 0:
        total = float(0.0)
        for k in range(count):
            total += (0.75 + 0.25 * coefficients[env, 2 * k]) / float(k + 1)
        for k in range(count):
            weight = (0.75 + 0.25 * coefficients[env, 2 * k]) / float(k + 1) / total
            phase = cos_sin(wp.static(math.pi) * coefficients[env, 2 * k + 1])
            coefficients[env, 2 * k] = weight * phase[0]
            coefficients[env, 2 * k + 1] = weight * phase[1]
    block_sync()
    if profile.kind == wp.static(_UNIFORM) or profile.kind == wp.static(_WALK):
        for k in range(lane, count, wp.block_dim()):
            height = coefficients[env, k]
            before = height - coefficients[env, wp.where(k > 0, k - 1, count - 1)]
            after = coefficients[env, wp.where(k + 1 < count, k + 1, 0)] - height
            coefficients[env, wp.static(MOST_KNOTS) + k] = _knot_slope(before, after)
        block_sync()


@wp.func
def sample_profile(
    profile: Profile, coefficients: wp.array2d[wp.float32], env: int, u: float
) -> float:
    """Shape in [-1, 1] at ``u`` in [0, 1]; periodic.

    The height is ``middle + half * shape`` with middle and half width of :func:`profile_bounds`.
    """
    if profile.kind == wp.static(_FLAT):
        return 0.0
    count = profile.count
    if profile.kind == wp.static(_NOISE):
        turn = cos_sin(wp.static(2.0 * math.pi) * u)
        c = turn[0]
        s = turn[1]
        shape = float(0.0)
        weights = coefficients[env]
        k = int(0)
        while k < 2 * count:
            shape += weights[k] * c - weights[k + 1] * s
            next_c = c * turn[0] - s * turn[1]
            s = s * turn[0] + c * turn[1]
            c = next_c
            k += 2
        return wp.clamp(shape, -1.0, 1.0)
    position = u * float(count)
    k1 = wp.min(int(position), count - 1)
    t = wp.clamp(position - float(k1), 0.0, 1.0)
    k2 = k1 + 1
    if k2 == count:
        k2 = 0
    v1 = coefficients[env, k1]
    v2 = coefficients[env, k2]
    m1 = coefficients[env, wp.static(MOST_KNOTS) + k1]
    m2 = coefficients[env, wp.static(MOST_KNOTS) + k2]
    s = 1.0 - t
    shape = v1 + t * t * (3.0 - 2.0 * t) * (v2 - v1) + t * s * (s * m1 - t * m2)
    return wp.clamp(shape, wp.min(v1, v2), wp.max(v1, v2))
