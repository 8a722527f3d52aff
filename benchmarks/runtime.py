"""Cost of the runtime tools: one environment step, and each query per agent or segment.

python benchmarks/runtime.py --json out/runtime.json
"""

from __future__ import annotations

import numpy as np
import warp as wp

from common import machine, make, milliseconds, parser, show
from track_gen.runtime import (
    CollisionChecker,
    Localizer,
    ProgressTracker,
    RacingLine,
    Sensors,
    Spawner,
    SpeedProfile,
)

LOOK_AHEAD = tuple(0.1 * k for k in range(1, 11))
RAYS = tuple(np.linspace(-1.5, 1.5, 16).tolist())
LIMITS = {"lateral": 1.0, "acceleration": 1.0, "braking": 1.0}


def step_table(track, num_agents: int, rng, device, threads: int | None, repeats: int) -> list:
    """Time of each tool of one environment step, and of the step."""
    E, A = track.num_envs, num_agents
    spawner = Spawner(track, A, radius=0.03, rng=rng, num_threads=threads)
    spawner.random()
    pose = spawner.position, spawner.heading
    localizer = Localizer(track, A, num_threads=threads)
    shared = {"num_agents": A, "localizer": localizer, "num_threads": threads}
    progress = ProgressTracker(track, **shared)
    disc = CollisionChecker(track, radius=0.03, **shared)
    box = CollisionChecker(track, box=(0.06, 0.03), **shared)
    ahead = Sensors(track, look_ahead=LOOK_AHEAD, **shared)
    lidar = Sensors(track, rays=RAYS, **shared)
    parts = {
        "localise": lambda: localizer.update(*pose),
        "progress": lambda: progress.update(),
        "collision, box": lambda: box.update(*pose),
        "look-ahead, 10 points": lambda: ahead.update(*pose),
    }

    def step() -> None:
        for call in parts.values():
            call()

    step()
    whole = milliseconds(step, device, repeats)
    rows = [
        {"tool": name, "ms": milliseconds(call, device, repeats)} for name, call in parts.items()
    ]
    rows.append({"tool": "the step of these four", "ms": whole})
    extra = {
        "collision, disc": lambda: disc.update(*pose),
        "16 rays": lambda: lidar.update(*pose),
        "spawn, random": lambda: spawner.random(),
        "step, all masked out": lambda: [
            localizer.update(*pose, nobody),
            progress.update(mask=nobody),
            box.update(*pose, nobody),
            ahead.update(*pose, nobody),
        ],
    }
    nobody = wp.zeros(E, dtype=wp.bool, device=device)
    rows += [
        {"tool": name, "ms": milliseconds(call, device, repeats)} for name, call in extra.items()
    ]
    for row in rows:
        row["share of the step"] = row["ms"] / whole
        row["us per agent"] = 1e3 * row["ms"] / (E * A)
    return [{"E": E, "A": A, "threads": threads or "all", **row} for row in rows]


def driven_poses(track, num_agents: int, steps: int = 8) -> list:
    """Poses of agents that drive a fifth of a segment per step, within 0.8 half widths."""
    random = np.random.default_rng(0)
    E, A = track.num_envs, num_agents
    at = track.numpy()
    count, half_width = at["count"][:, None], at["half_width"][:, None, None]
    begin = random.random((E, A)) * count
    offset = random.uniform(-0.8, 0.8, (E, A))[..., None] * half_width
    rows = np.arange(E)[:, None]
    poses = []
    for step in range(steps):
        place = (begin + 0.2 * step) % count
        i = np.minimum(place.astype(int), count - 1)
        j, t = (i + 1) % count, (place - i)[..., None]
        position = at["center"][rows, i] * (1.0 - t) + at["center"][rows, j] * t
        position += offset * at["normal"][rows, i]
        heading = np.arctan2(at["tangent"][rows, i, 1], at["tangent"][rows, i, 0]) + 0.1
        pose = (
            wp.array(position.astype(np.float32), dtype=wp.vec3f, device=track.device),
            wp.array(heading.astype(np.float32), dtype=wp.float32, device=track.device),
        )
        poses.append(pose)
    return poses + poses[-2:0:-1]


def query_table(device, repeats: int) -> list:
    """Warm localisation of driving agents and cold queries, on one core, short and long tracks."""
    rows = []
    for half_width, N_max in ((0.1, 512), (0.03, 512), (0.01, 1536)):
        track = make(2048, device, half_width=half_width, N_max=N_max).generate()
        points = float(track.count.numpy()[track.valid.numpy()].mean())
        agents = 2048 * float(track.valid.numpy().mean())
        poses = driven_poses(track, 1)
        row = {"half_width": half_width, "points": points}
        for name, borders in (("", False), (" with borders", True)):
            localizer = Localizer(track, borders=borders, num_threads=1)

            def drive(it: Localizer = localizer, way=poses) -> None:
                for pose in way:
                    it.update(*pose)

            def cold(it: Localizer = localizer, pose=poses[0]) -> None:
                it.reset()
                it.update(*pose)

            drive()
            took = milliseconds(drive, device, repeats)
            row[f"warm us per agent{name}"] = 1e3 * took / agents / len(poses)
            took = milliseconds(cold, device, repeats)
            row[f"cold ns per segment{name}"] = 1e6 * took / agents / points
        rows.append(row)
    return rows


def line_table(track, device, repeats: int) -> list:
    """Racing line and speed profile, per track."""
    line = RacingLine(track)
    line.update()
    rows = []
    for name, tool in (
        ("racing line", line),
        ("speed profile, centreline", SpeedProfile(track, **LIMITS)),
        ("speed profile, racing line", SpeedProfile(line, **LIMITS)),
    ):
        took = milliseconds(tool.update, device, repeats)
        rows.append({"tool": name, "ms": took, "us per track": 1e3 * took / track.num_envs})
    center, racing = (SpeedProfile(x, **LIMITS) for x in (track, line))
    center.update()
    racing.update()
    ratio = racing.lap_time.numpy() / center.lap_time.numpy()
    for row in rows:
        row["lap time, mean"] = float(np.nanmean(ratio))
        row["lap time, worst"] = float(np.nanmax(ratio))
    return rows


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--envs", type=int, default=4096)
    arguments.add_argument("--repeats", type=int, default=31)
    args = arguments.parse_args()
    wp.config.quiet = True
    device, about = args.device, machine(args.device)

    def path(name: str):
        return args.json.with_stem(f"{args.json.stem}_{name}") if args.json else None

    generator = make(args.envs, device, half_width=0.1)
    track = generator.generate()
    rows = []
    for agents in (1, 4):
        for threads in (1, None):
            rows += step_table(track, agents, generator.rng, device, threads, args.repeats)
    show("One step of the tools, bezier, half_width 0.1, seeds 0", rows, about, path("step"))
    rows = query_table(device, args.repeats)
    show("Localisation on one core, bezier, seeds 0", rows, about, path("queries"))
    rows = line_table(track, device, max(args.repeats // 5, 1))
    show("Lines, all cores, lap time over the centreline's", rows, about, path("lines"))


if __name__ == "__main__":
    main()
