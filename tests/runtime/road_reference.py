"""Float64 reference of the runtime tools: NumPy and shapely, and batches of mixed tracks."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import shapely
import warp as wp

from conftest import make
from track_gen import Track

MIXED = (
    {"generator": "bezier", "half_width": 0.1, "direction": "ccw"},
    {"generator": "hull", "half_width": 0.1, "direction": "cw"},
    {"generator": "polar", "half_width": 0.05, "direction": "random"},
    {"generator": "voronoi", "half_width": 0.1, "direction": "random"},
    {"generator": "checkpoint", "half_width": 0.06, "direction": "random"},
)


def to_track(arrays: dict[str, np.ndarray]) -> Track:
    """A track of host arrays named and shaped as in ``track.numpy()``."""
    track = Track.allocate(*arrays["center"].shape[:2], "cpu")
    for name, array in arrays.items():
        getattr(track, name).assign(array)
    return track


@functools.cache
def mixed_tracks(num_envs: int) -> dict[str, np.ndarray]:
    """Valid tracks of five families, both directions and three widths, as host arrays."""
    parts = []
    for k, config in enumerate(MIXED):
        share = num_envs // len(MIXED) + (k < num_envs % len(MIXED))
        parts.append(make(share, seeds=k, N_max=512, **config).generate().numpy())
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def circle(num_envs: int = 1, radius: float = 1.0, half_width: float = 0.1, n: int = 64) -> dict:
    """Counter-clockwise circular roads as host arrays; index 0 is at angle 0."""
    angle = 2.0 * np.pi * np.arange(n) / n
    out = np.stack([np.cos(angle), np.sin(angle), np.zeros(n)], axis=-1)
    along = np.stack([-np.sin(angle), np.cos(angle), np.zeros(n)], axis=-1)
    edge = 2.0 * radius * np.sin(np.pi / n)
    row = {
        "center": radius * out,
        "outer": (radius + half_width) * out,
        "inner": (radius - half_width) * out,
        "tangent": along,
        "normal": -out,
        "arclen": edge * np.arange(n),
        "curvature": np.full(n, 2.0 * np.pi / n / edge),
        "length": edge * n,
        "half_width": half_width,
        "spacing": edge,
        "valid": True,
        "status": 0,
        "count": n,
        "winding": 1,
        "attempts": 1,
        "required_count": n,
    }
    integers = ("status", "count", "winding", "attempts", "required_count")
    dtypes = {"valid": np.bool_, **dict.fromkeys(integers, np.int32)}
    return {
        k: np.stack([np.asarray(v, dtypes.get(k, np.float32))] * num_envs) for k, v in row.items()
    }


def points(p: np.ndarray) -> wp.array:
    """Positions [E, A, 3] as a Warp array of vec3f."""
    return wp.array(np.asarray(p, np.float32), dtype=wp.vec3f, device="cpu")


def floats(x: np.ndarray) -> wp.array:
    """Values as a Warp array of float32."""
    return wp.array(np.asarray(x, np.float32), dtype=wp.float32, device="cpu")


@dataclass
class Line:
    """A closed polyline in float64."""

    points: np.ndarray

    def __post_init__(self):
        self.points = np.asarray(self.points, np.float64)[:, :2]
        self.edges = np.roll(self.points, -1, axis=0) - self.points
        self.polygon = shapely.Polygon(self.points)
        self.ring = shapely.LinearRing(self.points)
        shapely.prepare(self.polygon)

    def nearest(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Segment, fraction and distance of the nearest place of each point, shapes [k]."""
        d = p[:, None, :] - self.points[None]
        squared = (self.edges**2).sum(-1)
        t = np.clip((d * self.edges).sum(-1) / np.maximum(squared, 1e-300), 0.0, 1.0)
        distance = np.linalg.norm(d - t[..., None] * self.edges, axis=-1)
        segment = distance.argmin(1)
        rows = np.arange(len(p))
        return segment, t[rows, segment], distance[rows, segment]

    def distances(self, p: np.ndarray) -> np.ndarray:
        """Distance of each point to each segment, shape [k, n]."""
        d = p[:, None, :] - self.points[None]
        squared = (self.edges**2).sum(-1)
        t = np.clip((d * self.edges).sum(-1) / np.maximum(squared, 1e-300), 0.0, 1.0)
        return np.linalg.norm(d - t[..., None] * self.edges, axis=-1)

    def contains(self, p: np.ndarray) -> np.ndarray:
        """Whether the polygon contains each point."""
        return shapely.contains_xy(self.polygon, p[:, 0], p[:, 1])

    def distance(self, p: np.ndarray) -> np.ndarray:
        """Distance of each point from shapely."""
        return shapely.distance(self.ring, shapely.points(p))


@dataclass
class Road:
    """One env of a track in float64."""

    center: Line
    left: Line
    right: Line
    arclen: np.ndarray
    tangent: np.ndarray
    length: float
    half_width: float
    winding: int

    def s(self, segment: np.ndarray, fraction: np.ndarray) -> np.ndarray:
        """Arc length of places of the centreline."""
        ends = np.append(self.arclen, self.length)
        return (ends[segment] + fraction * (ends[segment + 1] - ends[segment])) % self.length

    def n(self, p: np.ndarray) -> np.ndarray:
        """Lateral offset: distance, positive left of travel."""
        inside = self.center.contains(p)
        return self.center.distance(p) * np.where(inside == (self.winding > 0), 1.0, -1.0)

    def borders(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Signed distances to the left and the right border, positive on the side of the road."""
        within_left, within_right = self.left.contains(p), self.right.contains(p)
        if self.winding > 0:
            signs = ~within_left, within_right
        else:
            signs = within_left, ~within_right
        return (
            self.left.distance(p) * np.where(signs[0], 1.0, -1.0),
            self.right.distance(p) * np.where(signs[1], 1.0, -1.0),
        )

    def clearance(self, p: np.ndarray) -> np.ndarray:
        """Signed distance to the nearer border, positive on the road."""
        return np.minimum(*self.borders(p))

    def surface(self) -> shapely.Polygon:
        """The road between the borders."""
        outer, inner = (self.right, self.left) if self.winding > 0 else (self.left, self.right)
        return shapely.Polygon(outer.points, [inner.points])


def road(track: dict, env: int) -> Road:
    """One env of ``track.numpy()``."""
    n = int(track["count"][env])
    winding = int(track["winding"][env])
    left, right = ("inner", "outer") if winding > 0 else ("outer", "inner")
    return Road(
        center=Line(track["center"][env, :n]),
        left=Line(track[left][env, :n]),
        right=Line(track[right][env, :n]),
        arclen=track["arclen"][env, :n].astype(np.float64),
        tangent=track["tangent"][env, :n, :2].astype(np.float64),
        length=float(track["length"][env]),
        half_width=float(track["half_width"][env]),
        winding=winding,
    )


def place(track: dict, s: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions [E, A, 3] and headings [E, A] at arc lengths ``s`` and offsets ``n`` [E, A]."""
    E = len(track["arclen"])
    rows = np.arange(E)[:, None]
    count, length = track["count"][:, None], track["length"][:, None].astype(np.float64)
    at = np.mod(s, length)
    at[at >= np.broadcast_to(length, at.shape)] = 0.0
    ends = np.concatenate([track["arclen"].astype(np.float64), np.full((E, 1), np.nan)], axis=1)
    ends[np.arange(E), track["count"]] = track["length"]
    i = np.clip((at * count / length).astype(int), 0, count - 1)
    for _ in range(8):
        i = np.where(ends[rows, i] > at, i - 1, i)
        i = np.where(ends[rows, i + 1] <= at, i + 1, i)
    j = (i + 1) % count
    t = ((at - ends[rows, i]) / (ends[rows, i + 1] - ends[rows, i]))[..., None]

    def between(name: str) -> np.ndarray:
        line = track[name].astype(np.float64)
        return (1.0 - t) * line[rows, i] + t * line[rows, j]

    normal = between("normal")
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    position = between("center") + n[..., None] * normal
    return position, np.arctan2(-normal[..., 0], normal[..., 1])


def lateral_limit(curvature: np.ndarray, lateral: float) -> np.ndarray:
    """Largest squared speed at each point of a closed line, as the speed profile defines it.

    On each edge a line through both ends must stay below ``lateral / |curvature|``: at the tighter
    end the limit itself, at the other end the tangent there, and never more than its own limit.
    """
    k = np.asarray(curvature, np.float64)
    size = np.maximum(np.abs(k), 1e-24)
    limit = lateral / size
    for other in (np.roll(k, 1), np.roll(k, -1)):
        tangent = lateral / np.maximum(np.abs(other), 1e-24) * (2.0 - k / (other + 1e-30))
        limit = np.where(np.abs(other) > np.abs(k), np.minimum(limit, tangent), limit)
    return limit


def corners(p: np.ndarray, heading: float, box: tuple, offset: float = 0.0) -> np.ndarray:
    """Corners of a box, shape [4, 2]."""
    x = np.array([np.cos(heading), np.sin(heading)])
    y = np.array([-x[1], x[0]])
    c = p + offset * x
    a, b = 0.5 * box[0] * x, 0.5 * box[1] * y
    return np.array([c + a + b, c - a + b, c - a - b, c + a - b])


def box_clearance(of: Road, p: np.ndarray, heading: float, box: tuple, offset=0.0) -> float:
    """Signed clearance of a box, as the collision checker defines it."""
    at = corners(p, heading, box, offset)
    shape = shapely.Polygon(at)
    lines = shapely.MultiLineString([of.left.ring.coords, of.right.ring.coords])
    gap = shape.distance(lines)
    lowest = of.clearance(at).min()
    if gap > 0.0 and lowest >= 0.0:
        return gap
    if lowest < 0.0:
        return lowest
    return -max(deepest(shape.exterior, line) for line in shapely.get_parts(lines & shape))


def deepest(ring: shapely.LinearRing, line: shapely.LineString) -> float:
    """Depth of the deepest place of a line inside of a convex ring, by ternary search.

    Along a segment the distance to a convex ring is concave.
    """
    ends = shapely.get_coordinates(line)
    best = float(shapely.distance(ring, shapely.points(ends)).max())
    for a, b in itertools.pairwise(ends):
        low, high = 0.0, 1.0
        for _ in range(80):
            thirds = np.array([low + (high - low) / 3.0, high - (high - low) / 3.0])
            depth = shapely.distance(ring, shapely.points(a + thirds[:, None] * (b - a)))
            low, high = (thirds[0], high) if depth[0] < depth[1] else (low, thirds[1])
            best = max(best, float(depth.max()))
    return best
