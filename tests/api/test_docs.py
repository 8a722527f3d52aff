"""The documentation's code runs: blocks of one page share a namespace, in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(path: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), flags=re.S)


def small(code: str) -> str:
    """The same code on the CPU with few envs and steps."""
    code = code.replace('"cuda"', '"cpu"').replace("range(1000)", "range(3)")
    return re.sub(r"\bE(, device)? = \d+", r"E\1 = 6", code)


@pytest.mark.parametrize("page", ["docs/cuda-graph.md", "README.md"])
def test_code_blocks_run(page):
    code = blocks(page)
    assert code
    namespace: dict = {}
    for block in code:
        exec(compile(small(block), page, "exec"), namespace)
