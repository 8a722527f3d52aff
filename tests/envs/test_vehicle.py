from __future__ import annotations

import math

import numpy as np
import pytest
import warp as wp

from track_gen.envs.vehicle import Vehicle, VehicleParameters, drive


@wp.kernel
def drive_once_kernel(
    vehicle: VehicleParameters,
    pose_in: wp.array[wp.vec4f],
    action_in: wp.array[wp.vec2f],
    unit: float,
    pose_out: wp.array[wp.vec4f],
):
    i = wp.tid()
    pose_out[i] = drive(vehicle, pose_in[i], action_in[i][0], action_in[i][1], unit)


def after(vehicle: Vehicle, pose, action, unit=1.0):
    out = wp.zeros(1, dtype=wp.vec4f, device="cpu")
    inputs = [
        vehicle.parameters(),
        wp.array([pose], dtype=wp.vec4f, device="cpu"),
        wp.array([action], dtype=wp.vec2f, device="cpu"),
        unit,
    ]
    wp.launch(drive_once_kernel, 1, inputs, [out], device="cpu")
    return out.numpy()[0].astype(float)


def integrated(vehicle: Vehicle, pose, action, substeps=20000):
    """The step in double precision: constant curvature, linear speed, many small steps."""
    x, y, heading, v = pose
    a = action[1] * (vehicle.max_braking if action[1] * v < 0 else vehicle.max_acceleration)
    end = v + a * vehicle.dt
    if v * end < 0:
        end = 0.0
    end = min(max(end, -vehicle.max_reverse_speed), vehicle.max_speed)
    curvature = math.tan(action[0] * vehicle.max_steer) / vehicle.wheelbase
    grip = vehicle.max_lateral_acceleration / max(v * v, end * end, 1e-6)
    curvature = min(max(curvature, -grip), grip)
    h = vehicle.dt / substeps
    for k in range(substeps):
        ds = (v + (end - v) * (k + 0.5) / substeps) * h
        x += ds * math.cos(heading + 0.5 * curvature * ds)
        y += ds * math.sin(heading + 0.5 * curvature * ds)
        heading += curvature * ds
    return np.array([x, y, heading, end])


@pytest.mark.parametrize("dt", [0.05, 0.5])
@pytest.mark.parametrize("speed", [-1.0, 0.0, 0.3, 4.0, 9.9])
@pytest.mark.parametrize("action", [(0.0, 0.0), (1.0, 1.0), (-0.7, -1.0), (0.4, -0.2)])
def test_a_step_is_the_integral_of_the_model(dt, speed, action):
    vehicle = Vehicle(dt=dt)
    pose = (1.0, -2.0, 2.5, speed)
    got, expected = after(vehicle, pose, action), integrated(vehicle, pose, action)
    turn = math.remainder(got[2] - expected[2], 2 * math.pi)
    assert turn == pytest.approx(0.0, abs=2e-5)
    assert got[[0, 1, 3]] == pytest.approx(expected[[0, 1, 3]], abs=2e-5)


def test_lengths_are_in_units():
    vehicle = Vehicle()
    small = after(vehicle, (0.0, 0.0, 0.3, 0.4), (0.5, 1.0), unit=0.1)
    one = after(vehicle, (0.0, 0.0, 0.3, 4.0), (0.5, 1.0))
    assert small[[0, 1, 3]] == pytest.approx(0.1 * one[[0, 1, 3]], rel=1e-5)
    assert small[2] == pytest.approx(one[2])


def test_limits():
    vehicle = Vehicle()
    assert after(vehicle, (0, 0, 0, 9.99), (0.0, 1.0))[3] == pytest.approx(10.0)
    assert after(vehicle, (0, 0, 0, -0.99), (0.0, -1.0))[3] == pytest.approx(-1.0)
    # Braking stops within the step and no more.
    assert after(vehicle, (0, 0, 0, 0.2), (0.0, -1.0))[3] == 0.0
    assert after(vehicle, (0, 0, 0, -0.2), (0.0, 1.0))[3] == 0.0
    # Grip: at speed 8 the curve has at least the radius v^2 / a.
    turned = after(vehicle, (0, 0, 0, 8.0), (1.0, 0.0))
    assert turned[2] == pytest.approx(8.0 * 0.05 * 12.0 / 64.0, rel=1e-4)


@pytest.mark.parametrize("field", [f for f in Vehicle.__dataclass_fields__ if f != "unit"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1", None, True])
def test_values_out_of_bounds(field, value):
    with pytest.raises((ValueError, TypeError), match=f"Vehicle.{field} must be"):
        Vehicle(**{field: value})
