"""A file imports only from the rows above its own."""

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src"

FAMILIES = (
    "generators.bezier",
    "generators.checkpoint",
    "generators.hull",
    "generators.library",
    "generators.mixture",
    "generators.polar",
    "generators.repulsive",
    "generators.serpentine",
    "generators.voronoi",
)
ROWS = (
    ("recording",),
    ("kernel_cache", "checks", "status"),
    ("block", "rng", "geometry"),
    ("polyline", "parameters", "elevation", "gate_rules", "files", "placement"),
    ("flight_line", "published"),
    ("batch", "difficulty", "gate_batch", "gate_pushes", "report"),
    ("generators.spec",),
    ("generators.crossings", "generators.repulsion"),
    ("generators.corners", "generators.growth"),
    FAMILIES,
    ("generators",),
    ("stages.loop_rows", "stages.rise_limit"),
    ("stages.relax_neighbors",),
    ("stages.relax_sweep",),
    (
        "stages",
        "stages.elevation",
        "stages.gate_heights",
        "stages.gate_layout",
        "stages.gate_order",
        "stages.gate_validity",
        "stages.gates",
        "stages.inflate",
        "stages.relax",
        "stages.resample",
        "stages.validity",
    ),
    ("config", "gate_config"),
    ("executor", "height_field"),
    ("row_launch",),
    ("course_line",),
    ("runtime.metrics", "runtime.racing_line", "runtime.rows", "runtime.view"),
    ("batch_generator",),
    ("track_generator", "gate_generator"),
    ("",),  # the package itself: public names only
    ("runtime.*", "envs.*"),
    ("viz.*", "cli.*"),
)
EDGES = ("viz", "cli")


def row_of(module: str) -> int | None:
    """Row of a module, None if it has no place yet."""
    for row, names in enumerate(ROWS):
        if module in names or f"{module.partition('.')[0]}.*" in names:
            return row
    return None


def modules(src: Path) -> dict[str, Path]:
    """Modules of the package by name without ``track_gen.``."""
    found = {}
    for path in (src / "track_gen").rglob("*.py"):
        parts = path.relative_to(src / "track_gen").with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of the package that a file imports anywhere, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            names = [
                full if full.removeprefix("track_gen.") in known else base
                for full in (f"{base}.{alias.name}" for alias in node.names)
            ]
        else:
            continue
        found.update(
            name.removeprefix("track_gen").removeprefix(".")
            for name in names
            if name == "track_gen" or name.startswith("track_gen.")
        )
    return found


def violations(src: Path) -> list[str]:
    """Every breach of the layer rule, as text."""
    known = modules(src)
    found = []
    for module, path in sorted(known.items()):
        row = row_of(module)
        if row is None:
            found.append(f"{module} has no row: place it")
            continue
        top = module.partition(".")[0]
        for target in sorted(imports(path, known)):
            target_row, target_top = row_of(target), target.partition(".")[0]
            if target_row is None:
                found.append(f"{module} imports {target}, which has no row")
            elif target_top in EDGES and top not in EDGES:
                found.append(f"{module} imports the edge {target}")
            elif {top, target_top} == {"generators", "stages"}:
                found.append(f"{module} imports {target}: families and stages never meet here")
            elif target_row == row and top not in (*EDGES, "runtime", "envs"):
                found.append(f"{module} imports {target} of its own row")
            elif target_row > row:
                found.append(f"{module} imports {target} from a row below")
    return found


def test_every_import_comes_from_a_row_above():
    assert violations(SRC) == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("checks.py", "import track_gen.rng", "checks imports rng from a row below"),
        ("rng.py", "from track_gen.block import x", "rng imports block of its own row"),
        ("rng.py", "from track_gen import block", "rng imports block of its own row"),
        (
            "batch.py",
            "def f():\n    from track_gen import config",
            "batch imports config from a row",
        ),
        ("stages/relax.py", "from track_gen.generators.spec import x", "never meet here"),
        ("generators/hull.py", "from track_gen.stages import relax", "never meet here"),
        ("generators/hull.py", "from track_gen.generators import polar", "of its own row"),
        ("config.py", "from track_gen import TrackGenerator", "imports  from a row below"),
        ("track_generator.py", "from track_gen.viz import x", "imports the edge viz"),
        ("novel.py", "", "novel has no row"),
    ],
)
def test_a_breach_is_found(tmp_path, path, text, expected):
    package = tmp_path / "track_gen"
    for module, source in modules(SRC).items():
        if row_of(module) is None:
            continue
        target = package / source.relative_to(SRC / "track_gen")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("")
    assert violations(tmp_path) == []
    (package / path).write_text(text)
    found = violations(tmp_path)
    assert len(found) == 1
    assert expected in found[0]


def test_corners_is_what_families_may_share(tmp_path):
    package = tmp_path / "track_gen" / "generators"
    package.mkdir(parents=True)
    (package / "corners.py").write_text("")
    (package / "hull.py").write_text("from track_gen.generators.corners import x")
    assert violations(tmp_path) == []
