"""The functions of the tools in a kernel of one's own: reward and termination in one launch.

python examples/own_kernel.py
"""

from __future__ import annotations

import argparse

import numpy as np
import warp as wp

from track_gen import PerEnvSeededRNG, TrackGenConfig, TrackGenerator
from track_gen.geometry import cos_sin
from track_gen.polyline import planar
from track_gen.runtime import Spawner, TrackView, track_view
from track_gen.runtime.sensors import cast_ray
from track_gen.runtime.view import (
    curvature_at,
    find_segment,
    frenet_heading_error,
    frenet_n,
    frenet_s,
    is_drivable,
    locate,
    wrap_s,
)


@wp.kernel
def observe_kernel(
    # In:
    view: TrackView,
    position_in: wp.array2d[wp.vec3f],
    heading_in: wp.array2d[wp.float32],
    look_ahead: float,
    # In and out:
    segment: wp.array2d[wp.int32],
    # Out:
    observation_out: wp.array2d[wp.vec4f],
    range_out: wp.array2d[wp.float32],
    off_road_out: wp.array2d[wp.bool],
):
    """Offset, heading error, s, curvature ahead; free way in front; off the road. Dim (E, A)."""
    env, agent = wp.tid()
    p = position_in[env, agent]
    heading = heading_in[env, agent]
    if not (is_drivable(view, env) and wp.isfinite(p) and wp.isfinite(heading)):
        off_road_out[env, agent] = True
        return
    # segment holds the last result, so this is a warm query.
    foot = locate(view, env, p, segment[env, agent], 0.95)
    segment[env, agent] = foot.segment
    s = frenet_s(view, env, foot)
    n = frenet_n(view, env, p, foot)
    ahead = find_segment(view, env, wrap_s(s + look_ahead, view.length[env]))
    observation_out[env, agent] = wp.vec4f(
        n / view.half_width[env],
        frenet_heading_error(view, env, heading, foot),
        s,
        curvature_at(view, env, ahead.segment, ahead.fraction),
    )
    range_out[env, agent] = cast_ray(view, env, planar(p), cos_sin(heading), 10.0)
    off_road_out[env, agent] = wp.abs(n) > view.half_width[env]


def main(num_envs: int = 1024, num_agents: int = 4, device: str | None = None) -> dict:
    device = wp.get_device(device)
    rng = PerEnvSeededRNG(seeds=0, num_envs=num_envs, device=device)
    config = TrackGenConfig(num_envs=num_envs, half_width=0.1, device=device)
    track = TrackGenerator(config, rng).generate()
    spawner = Spawner(track, num_agents, rng=rng)
    spawner.random()

    shape = (num_envs, num_agents)
    segment = wp.full(shape, -1, dtype=wp.int32, device=device)
    observation = wp.zeros(shape, dtype=wp.vec4f, device=device)
    ranges = wp.zeros(shape, dtype=wp.float32, device=device)
    off_road = wp.zeros(shape, dtype=wp.bool, device=device)
    wp.launch(
        observe_kernel,
        dim=shape,
        inputs=[track_view(track), spawner.position, spawner.heading, 0.3, segment],
        outputs=[observation, ranges, off_road],
        device=device,
    )
    result = {
        "offset": float(np.abs(observation.numpy()[..., 0]).max()),
        "heading error": float(np.abs(observation.numpy()[..., 1]).max()),
        "free way": float(ranges.numpy().mean()),
        "off the road": float(off_road.numpy().mean()),
    }
    for name, value in result.items():
        print(f"{name}: {value:.3f}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--device", default=None)
    arguments = parser.parse_args()
    main(arguments.num_envs, device=arguments.device)
