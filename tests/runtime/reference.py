"""Float64 reference of the runtime tools: NumPy and shapely, nothing of track_gen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import shapely


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


def place(track: dict, env: np.ndarray, s: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Positions [k, 3] at arc length ``s`` and lateral offset ``n`` of the envs."""
    out = np.empty((len(env), 3))
    for k, e in enumerate(env):
        count = track["count"][e]
        ends = np.append(track["arclen"][e, :count], track["length"][e])
        at = s[k] % track["length"][e]
        i = min(np.searchsorted(ends, at, side="right") - 1, count - 1)
        t = (at - ends[i]) / (ends[i + 1] - ends[i])
        j = (i + 1) % count
        normal = (1 - t) * track["normal"][e, i] + t * track["normal"][e, j]
        out[k] = (1 - t) * track["center"][e, i] + t * track["center"][e, j]
        out[k] += n[k] * normal / np.linalg.norm(normal)
    return out


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
    points = np.concatenate([of.left.points, of.right.points])
    within = points[shapely.contains_xy(shape, points[:, 0], points[:, 1])]
    if not len(within):
        return 0.0
    return -shapely.distance(shape.exterior, shapely.points(within)).max()
