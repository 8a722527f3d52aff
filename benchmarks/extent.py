"""How large the tracks of each family are: length and longer side of the road's bounding box.

    python benchmarks/extent.py --json benchmarks/results/extent.json

All figures are for ``scale`` 1; lengths grow with ``scale`` where ``half_width`` does too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from common import machine, make, parser, show
from track_gen import available_generators

WIDTHS = (0.03, 0.06, 0.1, 0.3)


def extent(family: str, half_width: float, num_envs: int, device: Any) -> dict[str, Any]:
    """One row: least, median and largest longer side over the seeds, median length."""
    generator = make(num_envs, device, generator=family, half_width=half_width, N_max=2048)
    track = generator.generate()
    outer, valid = track.outer.numpy()[..., :2], track.valid.numpy()
    side = (np.nanmax(outer[valid], axis=1) - np.nanmin(outer[valid], axis=1)).max(axis=1)
    length = track.length.numpy()[valid]
    return {
        "family": family,
        "half_width": half_width,
        "valid": float(valid.mean()),
        "side min": float(side.min()),
        "side median": float(np.median(side)),
        "side max": float(side.max()),
        "length median": float(np.median(length)),
    }


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--num-envs", type=int, default=512)
    args = arguments.parse_args()
    wp.config.quiet = True
    device = wp.get_device(args.device)
    rows = [
        extent(family, half_width, args.num_envs, device)
        for family in available_generators()
        if family not in ("library", "repulsive")
        for half_width in WIDTHS
        if family != "serpentine" or half_width < 0.2
    ]
    show("Sizes of tracks at scale 1, seeds 0", rows, machine(device), args.json)


if __name__ == "__main__":
    main()
