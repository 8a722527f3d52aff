"""Arguments: the subcommands, made from the configurations, and what parses them."""

# pyright: basic
from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import operator
import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from track_gen.config import TrackGenConfig
from track_gen.elevation import PROFILES
from track_gen.files import field_texts
from track_gen.gate_config import GateGenConfig
from track_gen.generators import available_generators, get_spec
from track_gen.generators.spec import GeneratorSettings

__all__ = [
    "DemoCommand",
    "InfoCommand",
    "UsageError",
    "families_with_anchors",
    "families_with_defaults",
    "parse",
    "user_input",
]


class UsageError(Exception):
    """What the user can mend; its text is the line on stderr."""


@contextlib.contextmanager
def user_input(*more: type[Exception]) -> Iterator[None]:
    """Turn errors about arguments, missing extras and files into usage errors."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, ImportError, OSError, *more) as error:
        raise UsageError(" ".join(str(error).split())) from error


def families_with_defaults() -> dict[str, type[GeneratorSettings]]:
    """Settings classes of the families that work without data from the user."""
    settings = {name: get_spec(name).settings for name in available_generators()}
    return {
        name: owner
        for name, owner in settings.items()
        if all(
            f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
            for f in dataclasses.fields(owner)
        )
    }


def families_with_anchors() -> dict[str, type[GeneratorSettings]]:
    """Settings classes of the families that can place gates."""
    return {
        name: owner
        for name, owner in families_with_defaults().items()
        if get_spec(name).anchors is not None
    }


@dataclass(frozen=True)
class InfoCommand:
    """Show versions, devices, families and the kernel cache."""


@dataclass(frozen=True)
class DemoCommand:
    """Generate a batch of every family; print a table and write a picture."""

    out: Path = Path("out/demo.png")
    """Picture to write; its folder is made."""
    num_envs: int = 256
    """Tracks per family."""
    seed: int = 0
    """Seed of every batch."""
    half_width: float = 0.06
    """Half the width of the road, at scale 1."""
    device: str | None = None
    """Warp device; by default CUDA if there is one, else the CPU."""
    num_threads: int | None = None
    """CPU worker threads; by default all usable cores."""


def _command_types() -> Any:
    """The union of the subcommands for tyro.

    ``generate`` and ``gates`` have the fields of their configuration and of every family, with
    their texts, so that nothing is described twice.
    """
    import tyro

    def path(text: str) -> Any:
        return Annotated[Path | None, tyro.conf.arg(help=text, metavar="PATH")]

    profiles = dataclasses.make_dataclass(
        "Profiles",
        [(name, owner, dataclasses.field(default=owner())) for name, owner in PROFILES.items()],
        frozen=True,
    )

    def batch_command(
        name: str,
        config: type,
        families: dict[str, type[GeneratorSettings]],
        defaults: dict[str, Any],
        things: str,
        doc: str,
    ) -> type:
        """A subcommand with the fields of a configuration, its families and the profiles."""
        hints = typing.get_type_hints(config) | {"device": str | None}
        texts = field_texts(config)
        options = dataclasses.make_dataclass(
            f"{name}Options",
            [
                (
                    f.name,
                    Annotated[hints[f.name], tyro.conf.arg(help=texts[f.name].replace("``", ""))],
                    dataclasses.field(default=defaults.get(f.name, f.default)),
                )
                for f in dataclasses.fields(config)
                if f.name not in ("generator", "elevation")
            ],
            frozen=True,
        )
        choices = dataclasses.make_dataclass(
            f"{name}Families",
            [(n, owner, dataclasses.field(default=owner())) for n, owner in families.items()],
            frozen=True,
        )
        fields: list[tuple[str, Any, Any]] = [
            (
                "generator",
                Annotated[
                    str, tyro.conf.arg(help=f"Family: {', '.join(families)}.", metavar="NAME")
                ],
                "bezier",
            ),
            (
                "elevation",
                Annotated[
                    str | None,
                    tyro.conf.arg(
                        help=f"Heights: {', '.join(PROFILES)}; without it all is flat.",
                        metavar="NAME",
                    ),
                ],
                None,
            ),
            ("seed", Annotated[int, tyro.conf.arg(help="Seed of the batch, any int.")], 0),
            ("out", path("File for the arrays, .npz; it loads with NumPy alone."), None),
            ("plot", path(f"Picture of the first {things}: png, svg, pdf, ..."), None),
            (
                "world",
                Annotated[
                    float | None,
                    tyro.conf.arg(
                        help="Let --plot show all envs in one world, this far apart [length].",
                        metavar="SPACING",
                    ),
                ],
                None,
            ),
            ("options", Annotated[options, tyro.conf.arg(name="")], options()),
            ("families", Annotated[choices, tyro.conf.arg(name="")], choices()),
            ("profiles", Annotated[profiles, tyro.conf.arg(name="")], profiles()),
        ]
        command = dataclasses.make_dataclass(
            name, [(n, t, dataclasses.field(default=d)) for n, t, d in fields], frozen=True
        )
        command.__doc__ = doc
        return command

    generate = batch_command(
        "Generate",
        TrackGenConfig,
        families_with_defaults(),
        {"num_envs": 64, "half_width": 0.1},
        "64 tracks",
        "Generate a batch of tracks. Settings of a family and of an elevation are dotted flags: "
        "--elevation noise --noise.harmonics 6. Where two numbers are allowed, "
        "they are the bounds of a draw per track: --bezier.rad 0.2 0.6",
    )
    gates = batch_command(
        "Gates",
        GateGenConfig,
        families_with_anchors(),
        {"num_envs": 64},
        "16 courses",
        "Generate a batch of gate courses. Settings of a family and of an elevation are dotted "
        "flags: --elevation uniform --uniform.low 1 --uniform.high 4",
    )
    subcommands = {"generate": generate, "gates": gates, "info": InfoCommand, "demo": DemoCommand}
    types: list[Any] = [
        Annotated[owner, tyro.conf.subcommand(name)] for name, owner in subcommands.items()
    ]
    return functools.reduce(operator.or_, types)


def _one_line(box: str) -> str:
    """The message inside one of tyro's error boxes as one line.

    A box has a title, then sections between rules; where stdout is not UTF-8 it is drawn in ASCII.
    """
    lines = [line.strip("│ ") for line in re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines()]
    lines = lines[1:] if lines[0].startswith("╭") else lines[2:]
    rules = [i for i, line in enumerate(lines) if re.fullmatch("[─-]{4,}", line)]
    head = " ".join(lines[: rules[0] if rules else len(lines)]).partition("Got errors:")[0].strip()
    head = re.sub(r"^Error parsing __\S+: ", "", head)
    head += "".join(f"; {line}" for line in lines if line.startswith("Available subcommands:"))
    if "Perhaps you meant:" in lines:
        following = lines[lines.index("Perhaps you meant:") :]
        flag = next((line.split()[0] for line in following if re.match("--[a-zA-Z]", line)), "")
        head += f". Did you mean: {flag.rstrip(',')}?" if flag else ""
    return head


def parse(args: Sequence[str]) -> Any:
    """The subcommand that the arguments ask for.

    Raises:
        SystemExit: After ``--help``.
    """
    try:
        import rich  # noqa: F401
        import tyro
    except ImportError as error:
        raise UsageError(
            "the command line needs tyro and rich: pip install 'track-gen[cli]'"
        ) from error
    types = _command_types()
    box = io.StringIO()
    try:
        with user_input(), contextlib.redirect_stderr(box):
            return tyro.cli(
                types,
                prog="track-gen",
                description="Thousands of closed race tracks per call, on NVIDIA Warp.",
                args=args,
            )
    except SystemExit as error:
        if error.code in (None, 0):
            raise
        raise UsageError(_one_line(box.getvalue())) from error
