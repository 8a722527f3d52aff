"""The documentation's code runs: blocks of one page share a namespace, in order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(path: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), flags=re.S)


def small(code: str) -> str:
    """The same code on the CPU with few envs and steps."""
    code = code.replace('"cuda"', '"cpu"').replace("range(1000)", "range(3)")
    return re.sub(r"\bE(, device)? = \d+", r"E\1 = 6", code)


PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "```python" in path.read_text()
)


@pytest.mark.parametrize("page", PAGES)
def test_code_blocks_run(page):
    code = blocks(page)
    namespace: dict = {}
    for block in code:
        exec(compile(small(block), page, "exec"), namespace)


def test_every_page_with_code_is_run():
    assert {"README.md", "docs/cuda-graph.md", "docs/families/bezier.md"} <= set(PAGES)


def test_settings_tables_are_up_to_date():
    command = [sys.executable, str(ROOT / "docs" / "make_tables.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0


def test_links_and_pictures_exist():
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name}: {target}"
