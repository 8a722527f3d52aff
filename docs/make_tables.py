"""Write the settings tables of the family pages from the settings classes.

python docs/make_tables.py           # rewrite docs/families/*.md
python docs/make_tables.py --check   # exit code 1 if a page is out of date
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from pathlib import Path

from track_gen.generators import available_generators, get_spec

PAGES = Path(__file__).parent / "families"
_MARK = re.compile(r"<!-- settings (\w+) -->\n(?:\|.*\n)*")


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


def main() -> int:
    stale = []
    tables = {
        get_spec(name).settings.__name__: table(get_spec(name).settings)
        for name in available_generators()
    }
    for page in sorted(PAGES.glob("*.md")):
        old = page.read_text()
        new = _MARK.sub(lambda m: f"<!-- settings {m[1]} -->\n{tables[m[1]]}", old)
        if new != old:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(new)
    if stale:
        print(("out of date: " if "--check" in sys.argv else "wrote ") + ", ".join(stale))
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
