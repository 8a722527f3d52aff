"""Write the tables of the documentation: settings from classes, figures from benchmarks/results.

python docs/make_tables.py           # rewrite README.md and docs/**/*.md
python docs/make_tables.py --check   # exit code 1 if a page is out of date
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import re
import sys
import textwrap
from pathlib import Path

import track_gen
from track_gen.generators import available_generators, get_spec

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
_MARK = re.compile(r"<!-- (settings|fields|figures) ([\w ]+) -->\n(?:\|.*\n|\n?\*Measured.*\n)*")


def field_texts(owner: type) -> dict[str, str]:
    """The string under each field of a class and its bases."""
    texts: dict[str, str] = {}
    for base in reversed(owner.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for node, following in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
            ):
                texts[node.target.id] = " ".join(str(following.value.value).split())
    return texts


def table(settings: type) -> str:
    """Markdown table of a settings class."""
    knobs = {knob.name for knob in settings.knobs}
    texts = field_texts(settings)
    lines = ["| setting | default | per env | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(settings):
        default = "required" if field.default is dataclasses.MISSING else f"`{field.default!r}`"
        per_env = "yes" if field.name in knobs else ""
        lines.append(f"| `{field.name}` | {default} | {per_env} | {texts[field.name]} |")
    return "\n".join(lines) + "\n"


def fields(owner: type) -> str:
    """Markdown table of the fields of a configuration, with defaults, or of a batch."""
    texts = field_texts(owner)
    rows = {
        field.name: (
            "required" if field.default is dataclasses.MISSING else f"`{field.default!r}`",
            texts[field.name],
        )
        for field in dataclasses.fields(owner)
    }
    if all(default == "required" for default, _ in rows.values()):
        lines = ["| field | meaning |", "|---|---|"]
        lines += [f"| `{name}` | {text} |" for name, (_, text) in rows.items()]
    else:
        lines = ["| field | default | meaning |", "|---|---|---|"]
        lines += [f"| `{name}` | {default} | {text} |" for name, (default, text) in rows.items()]
    return "\n".join(lines) + "\n"


def measured(name: str) -> tuple[list[dict], str]:
    """Rows of a benchmark's results, and a line that says what they were measured on."""
    result = json.loads((RESULTS / f"{name}.json").read_text())
    about = result["machine"]
    return result["rows"], (
        f"*Measured by `benchmarks/{name.split('_')[0]}.py` on {about['device']}, {about['cores']} "
        f"cores, Warp {about['warp']}, {about['date']}; seeds 0, medians.*\n"
    )


def throughput(num_envs: int, families: tuple[str, ...]) -> str:
    """Milliseconds per track by family and half width."""
    rows, about = measured("throughput")
    chosen = [row for row in rows if row["E"] == num_envs and row["family"] in families]
    widths = sorted({row["half_width"] for row in chosen}, reverse=True)
    cells = {(row["family"], row["half_width"]): row for row in chosen}
    lines = ["| ms per track | " + " | ".join(f"half_width {w:g}" for w in widths) + " |"]
    lines.append("|---" * (len(widths) + 1) + "|")
    for family in families:
        texts = [
            f"{cells[family, w]['ms/track']:.3f} ({cells[family, w]['points']:.0f} points)"
            if (family, w) in cells
            else ""
            for w in widths
        ]
        lines.append(f"| {family} | " + " | ".join(texts) + " |")
    return "\n".join(lines) + "\n\n" + about


def environment() -> str:
    """Steps per second of the race environment, and the shares of its parts."""
    rows, about = measured("environment")
    shares = [name for name in rows[0] if name.endswith(" %")]
    lines = ["| envs | steps/s | ms/step | " + " | ".join(shares) + " |"]
    lines.append("|---" * (3 + len(shares)) + "|")
    for row in rows:
        cells = [f"{row[name]:.0f}" for name in shares]
        speed = f"{round(row['steps/s'], -3):,.0f}"
        lines.append(f"| {row['E']} | {speed} | {row['ms/step']:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n" + about


def training() -> str:
    """What PPO reaches, a row per run of the example."""
    lines = [
        "| run | steps | steps per second | held-out tracks lapped | median lap |",
        "|---" * 5 + "|",
    ]
    about = {}
    for path in sorted(RESULTS.glob("ppo_*.json")):
        report = json.loads(path.read_text())
        settings, about = report["settings"], report["machine"]
        run = f"{settings['minutes']:g} minutes"
        if settings["difficulty"] is not None:
            run += f", difficulty {settings['difficulty']:g}"
        if settings["curriculum"] is not None:
            run += f" rising to {report['final_difficulty']:g}"
        lapped, laps = [], []
        for name, result in report["held_out"].items():
            share = f"{100 * result['lapped']:.0f} %"
            if "median_lap_seconds" in result:
                lapped.append(share if name == "default" else f"{share} at {float(name):g}")
                laps.append(f"{result['median_lap_seconds']:.1f} s")
            else:
                lapped.append(f"{share} of {name}")
        lines.append(
            f"| {run} | {report['steps'] / 1e6:.1f} million "
            f"| {round(report['steps_per_second'], -3):,.0f} | {', '.join(lapped)} "
            f"| {', '.join(laps)} |"
        )
    return "\n".join(lines) + (
        f"\n\n*Measured by `examples/train_ppo.py` on {about['device']}, {about['cores']} cores, "
        f"Warp {about['warp']}, torch {about['torch']}, {about['date']}; 100 held-out tracks.*\n"
    )


STEP = ("localise", "progress", "collision, box", "look-ahead, 10 points", "the step of these four")
"""Tools of a step; the others are not part of it."""


def tools() -> str:
    """Cost of each tool of a step of 4096 envs with one agent each."""
    rows, about = measured("runtime_step")
    chosen = [row for row in rows if row["A"] == 1]
    cells = {(row["tool"], row["threads"]): row for row in chosen}
    lines = ["| tool | ms, one core | ms, all cores | share of the step | us per agent, one core |"]
    lines.append("|---" * 5 + "|")
    for tool in dict.fromkeys(row["tool"] for row in chosen):
        one, every = cells[tool, 1], cells[tool, "all"]
        share = f"{100 * one['share of the step']:.0f} %"
        lines.append(
            f"| {tool} | {one['ms']:.2f} | {every['ms']:.2f} "
            f"| {share if tool in STEP else ''} | {one['us per agent']:.3f} |"
        )
    return "\n".join(lines) + "\n\n" + about


def localisation() -> str:
    """Cost of warm and cold queries on one core, by the length of the track."""
    rows, about = measured("runtime_queries")
    names = [name for name in rows[0] if name not in ("half_width", "points")]
    lines = ["| points | " + " | ".join(names) + " |", "|---" * (1 + len(names)) + "|"]
    for row in rows:
        cells = [f"{row[name]:.3f}" if "warm" in name else f"{row[name]:.1f}" for name in names]
        lines.append(f"| {row['points']:.0f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n" + about


def extent() -> str:
    """Longer side of the road's bounding box and length, by family and half width."""
    rows, about = measured("extent")
    widths = sorted({row["half_width"] for row in rows})
    cells = {(row["family"], row["half_width"]): row for row in rows}
    lines = [
        "| longer side, least / median / largest | "
        + " | ".join(f"half_width {w:g}" for w in widths)
    ]
    lines[0] += " | length, median |"
    lines.append("|---" * (len(widths) + 2) + "|")
    for family in dict.fromkeys(row["family"] for row in rows):
        texts = [
            "{side min:.2f} / {side median:.2f} / {side max:.2f}".format(**cells[family, w])
            if (family, w) in cells
            else ""
            for w in widths
        ]
        lengths = [row["length median"] for row in rows if row["family"] == family]
        span = f"{min(lengths):.1f} to {max(lengths):.1f}"
        lines.append(f"| {family} | " + " | ".join(texts) + f" | {span} |")
    return "\n".join(lines) + "\n\n" + about


def metrics() -> str:
    """Cost of metrics, mixtures and difficulty, relative to generating the batch."""
    rows, about = measured("metrics")
    lines = ["| what | half_width | us per track | relative to generating |", "|---" * 4 + "|"]
    for row in rows:
        share = f"{100 * row['share']:.0f} %" if row["share"] > 0.01 else "under 1 %"
        lines.append(f"| {row['what']} | {row['half_width']:g} | {row['us/track']:.3g} | {share} |")
    return "\n".join(lines) + "\n\n" + about


SMALL = ("bezier", "hull", "polar", "voronoi", "checkpoint")
GROWN = ("serpentine", "repulsive")
FIGURES = {
    "speed": lambda: throughput(256, SMALL),
    "environment": environment,
    "extent": extent,
    "tools": tools,
    "localisation": localisation,
    "metrics": metrics,
    "training": training,
    "growth": lambda: throughput(64, (*SMALL, *GROWN)),
}


def main() -> int:
    stale = []
    tables = {
        get_spec(name).settings.__name__: table(get_spec(name).settings)
        for name in available_generators()
    }

    def fill(match: re.Match) -> str:
        kind, name = match[1], match[2]
        if kind == "fields":
            text = fields(getattr(track_gen, name))
        else:
            text = tables[name] if kind == "settings" else FIGURES[name]()
        return f"<!-- {kind} {name} -->\n{text}"

    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        old = page.read_text()
        new = _MARK.sub(fill, old)
        if new != old:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(new)
    if stale:
        print(("out of date: " if "--check" in sys.argv else "wrote ") + ", ".join(stale))
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
