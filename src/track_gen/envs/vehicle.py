"""The car of the environment: a kinematic bicycle with limits on speed, acceleration and grip.

The model is the kinematic bicycle about the rear axle (Rajamani, Vehicle Dynamics and Control, 2nd
ed., 2012, section 2.2): the path has curvature tan(steer) / wheelbase. Tyres are a limit on lateral
acceleration: a car that is too fast for its steering angle follows a wider curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import warp as wp

from track_gen.checks import check_float
from track_gen.geometry import cos_sin, wrap_angle

__all__ = ["Vehicle", "VehicleParameters", "drive"]

wp.set_module_options({"enable_backward": False, "default_grid_stride": False})


@wp.struct
class VehicleParameters:
    """A :class:`Vehicle` as one kernel argument."""

    inverse_wheelbase: wp.float32
    max_steer: wp.float32
    max_speed: wp.float32
    max_reverse_speed: wp.float32
    max_acceleration: wp.float32
    max_braking: wp.float32
    max_lateral_acceleration: wp.float32
    radius: wp.float32
    dt: wp.float32
    unit: wp.float32
    """Length of one unit, 0 for the half width of the env's road."""


@wp.func
def drive(
    vehicle: VehicleParameters, pose: wp.vec4f, steer: float, throttle: float, unit: float
) -> wp.vec4f:
    """The pose (x, y, heading, speed) one step later.

    Args:
        vehicle: Parameters.
        pose: Place [length], heading [rad] and speed [length/s].
        steer: Steering in [-1, 1], left positive.
        throttle: Throttle in [-1, 1]; negative brakes, then drives backward.
        unit: Length of one unit of the vehicle's parameters [length].
    """
    speed = pose[3] / unit
    change = throttle * vehicle.max_acceleration * vehicle.dt
    if throttle * speed < 0.0:
        # Brakes hold the car; they do not push it the other way within the step.
        change = throttle * vehicle.max_braking * vehicle.dt
        if wp.abs(change) > wp.abs(speed):
            change = -speed
    after = wp.clamp(speed + change, -vehicle.max_reverse_speed, vehicle.max_speed)
    way = 0.5 * (speed + after) * vehicle.dt

    angle = cos_sin(steer * vehicle.max_steer)
    curvature = angle[1] / angle[0] * vehicle.inverse_wheelbase
    fastest = wp.max(wp.abs(speed), wp.abs(after))
    grip = vehicle.max_lateral_acceleration / wp.max(fastest * fastest, 1.0e-6)
    curvature = wp.clamp(curvature, -grip, grip)

    # An arc of constant curvature, as its chord.
    half = 0.5 * curvature * way
    chord = 1.0 - half * half * (1.0 / 6.0) * (1.0 - 0.05 * half * half)
    if wp.abs(half) > 0.3:
        chord = cos_sin(half)[1] / half
    direction = cos_sin(pose[2] + half)
    length = way * chord * unit
    return wp.vec4f(
        pose[0] + length * direction[0],
        pose[1] + length * direction[1],
        wrap_angle(pose[2] + 2.0 * half),
        after * unit,
    )


@dataclass(frozen=True, kw_only=True)
class Vehicle:
    """Parameters of the car; lengths are in units of :attr:`unit`.

    Raises:
        ValueError: If a value is out of bounds.
        TypeError: If a value is not a number.
    """

    wheelbase: float = 0.5
    """Distance of the axles [unit], > 0."""
    max_steer: float = 0.6
    """Steering angle at full lock [rad], in (0, 1.4]."""
    max_speed: float = 10.0
    """Highest speed [unit/s], > 0."""
    max_reverse_speed: float = 1.0
    """Highest speed backward [unit/s], >= 0."""
    max_acceleration: float = 5.0
    """Acceleration at full throttle [unit/s^2], > 0."""
    max_braking: float = 10.0
    """Deceleration at full braking [unit/s^2], > 0."""
    max_lateral_acceleration: float = 12.0
    """Grip [unit/s^2], > 0."""
    radius: float = 0.2
    """Radius of the disc around the position that has to stay on the road [unit], >= 0."""
    dt: float = 0.05
    """Time of one step [s], > 0."""
    unit: float | None = None
    """Length of one unit [length]; None is the half width of each env's own road."""

    def __post_init__(self) -> None:
        for name, high in (
            ("wheelbase", math.inf),
            ("max_steer", 1.4),
            ("max_speed", math.inf),
            ("max_acceleration", math.inf),
            ("max_braking", math.inf),
            ("max_lateral_acceleration", math.inf),
            ("dt", math.inf),
        ):
            check_float(f"Vehicle.{name}", getattr(self, name), 0.0, high, low_open=True)
        check_float("Vehicle.max_reverse_speed", self.max_reverse_speed, 0.0)
        check_float("Vehicle.radius", self.radius, 0.0)
        if self.unit is not None:
            check_float("Vehicle.unit", self.unit, 0.0, low_open=True)

    def parameters(self) -> Any:
        """The struct for kernels."""
        out = VehicleParameters()
        out.inverse_wheelbase = 1.0 / self.wheelbase
        out.max_steer = self.max_steer
        out.max_speed = self.max_speed
        out.max_reverse_speed = self.max_reverse_speed
        out.max_acceleration = self.max_acceleration
        out.max_braking = self.max_braking
        out.max_lateral_acceleration = self.max_lateral_acceleration
        out.radius = self.radius
        out.dt = self.dt
        out.unit = 0.0 if self.unit is None else self.unit
        return out
