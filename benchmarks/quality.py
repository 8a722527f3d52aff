"""Yield, judge's verdict and character per family, and the hard settings.

    python benchmarks/quality.py --seeds 4096 --json out/quality.json
    python benchmarks/quality.py --hard --seeds 1024

The judge is the independent float64 one of the tests. A false accept is a valid env that the judge
rejects, a false reject the other way round; both are counted over first attempts and final tracks.
"""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import warp as wp
from scipy import stats

from common import FAMILIES, machine, make, parser, show
from judge import judge_batch
from track_gen import Bezier, Hull, Polar, TrackStatus, Voronoi


def _judge(arrays: tuple) -> list[list[str]]:
    return judge_batch(*arrays)


def judged(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Whether the judge accepts each row that has a track."""
    pieces = np.array_split(np.arange(len(arrays["count"])), 16)
    keys = ("center", "outer", "inner", "count", "half_width")
    with ProcessPoolExecutor(2) as pool:
        verdicts = pool.map(_judge, [tuple(arrays[k][p] for k in keys) for p in pieces])
        return np.array([not reasons for verdict in verdicts for reasons in verdict])


def compactness(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """4 pi area / length^2 of each track's centerline."""
    p = arrays["center"].astype(np.float64)
    out = np.full(len(p), np.nan)
    for env, n in enumerate(arrays["count"]):
        x, y = p[env, :n, 0], p[env, :n, 1]
        area = 0.5 * np.abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum())
        if n:
            out[env] = 4 * np.pi * area / arrays["length"][env] ** 2
    return out


def measure(family, seeds: int, device, judge: bool = True, **config) -> dict:
    """One row of the table."""
    config.setdefault("half_width", 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        first = make(seeds, device, generator=family, max_attempts=1, **config)
        final = make(seeds, device, generator=family, **config)
        raw = make(256, device, generator=family, max_attempts=1, relax_enable=False, **config)
    a, b, c = first.generate().numpy(), final.generate().numpy(), raw.generate().numpy()
    overflow = (a["status"] & int(TrackStatus.OVERFLOW)) != 0
    fallback = first._buffers.family.get("fallback")
    row = {
        "first": float(a["valid"][~overflow].mean()),
        "final": float(b["valid"].mean()),
        "overflow": float(overflow.mean()),
        "fallback": float(fallback.numpy().mean()) if fallback is not None else 0.0,
        "sweeps": float(first.sweeps.numpy().mean()),
        "length": float(np.nanmean(b["length"])),
        "compactness raw": float(np.nanmean(compactness(c))),
        "compactness": float(np.nanmean(compactness(b))),
        "sd": float(np.nanstd(compactness(b))),
        "KS p": float(stats.ks_2samp(a["length"][a["valid"]], b["length"][b["valid"]]).pvalue),
    }
    if judge:
        ok = judged(a)
        has = a["count"] > 0
        row["false accepts"] = int((a["valid"] & ~ok).sum() + (b["valid"] & ~judged(b)).sum())
        row["false rejects"] = int((has & ~a["valid"] & ok).sum())
    return row


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--seeds", type=int, default=1024)
    arguments.add_argument("--hard", action="store_true", help="the hard settings instead")
    arguments.add_argument("--no-judge", action="store_true")
    args = arguments.parse_args()
    wp.config.quiet = True
    rows = []
    options = {"seeds": args.seeds, "device": args.device, "judge": not args.no_judge}
    if args.hard:
        cases = [
            ("bezier 0.2", "bezier", {"half_width": 0.2}),
            ("hull displacement 0.6", Hull(displacement=0.6), {}),
            ("polar jitter 0.85, 24 knots", Polar(radial_jitter=0.85, num_knots=24), {}),
            ("voronoi 32 anchors, 0.15", Voronoi(num_anchors=32), {"half_width": 0.15}),
            ("checkpoint 0.15", "checkpoint", {"half_width": 0.15}),
        ]
        for ratio in (0.4, 0.8):
            cases += [(f"{f} spacing {ratio}", f, {"spacing": ratio * 0.1}) for f in FAMILIES]
        cases += [(f"{f} 0.01", f, {"half_width": 0.01, "N_max": 1536}) for f in FAMILIES]
        cases += [("bezier rad 0.2 to 0.6", Bezier(rad=(0.2, 0.6)), {"half_width": (0.03, 0.1)})]
        for name, family, config in cases:
            rows.append({"case": name, **measure(family, **options, **config)})
    else:
        for half_width, scale in ((0.03, 1.0), (0.06, 1.0), (0.1, 1.0), (0.5, 10.0)):
            for family in args.families:
                row = measure(family, **options, half_width=half_width, scale=scale)
                rows.append({"case": f"{family} {half_width} at scale {scale:g}", **row})
    title = f"Quality, {'hard settings, ' if args.hard else ''}seeds 0 of {args.seeds} envs"
    show(title, rows, machine(args.device), args.json)


if __name__ == "__main__":
    main()
