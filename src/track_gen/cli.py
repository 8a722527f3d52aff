"""The command line ``track-gen``: ``generate``, ``gates``, ``info`` and ``demo``.

Needs tyro and rich, the ``cli`` extra. What a user can get wrong ends as one line on stderr and
exit code 2; anything else is a bug and keeps its traceback.
"""

# pyright: basic
from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import inspect
import io
import json
import operator
import os
import platform
import re
import statistics
import sys
import time
import typing
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import warp as wp

from track_gen.batch import UNITS
from track_gen.checks import check_choice, check_int
from track_gen.config import TrackGenConfig
from track_gen.elevation import PROFILES, ElevationSettings
from track_gen.files import description, field_texts, write_npz
from track_gen.gate_batch import GateSequence
from track_gen.gate_config import GateGenConfig
from track_gen.gate_generator import GateGenerator
from track_gen.generators import available_generators, get_spec
from track_gen.generators.spec import GeneratorSettings
from track_gen.report import GenerationReport
from track_gen.rng import PerEnvSeededRNG
from track_gen.status import GateStatus, TrackStatus
from track_gen.track_generator import TrackGenerator
from track_gen.viz import check_picture_path, plot_courses, plot_families, plot_tracks

__all__ = ["main"]

_TIMED_CALLS = 3


class _UsageError(Exception):
    """What the user can mend; its text is the line on stderr."""


@contextlib.contextmanager
def _user_input(*more: type[Exception]) -> Iterator[None]:
    """Turn errors about arguments, missing extras and files into usage errors."""
    try:
        yield
    except (ValueError, TypeError, ImportError, OSError, *more) as error:
        raise _UsageError(" ".join(str(error).split())) from error


def _families_with_defaults() -> dict[str, type[GeneratorSettings]]:
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


def _families_with_anchors() -> dict[str, type[GeneratorSettings]]:
    """Settings classes of the families that can place gates."""
    return {
        name: owner
        for name, owner in _families_with_defaults().items()
        if get_spec(name).anchors is not None
    }


@dataclass(frozen=True)
class _Info:
    """Show versions, devices, families and the kernel cache."""


@dataclass(frozen=True)
class _Demo:
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
        _families_with_defaults(),
        {"num_envs": 64, "half_width": 0.1},
        "64 tracks",
        "Generate a batch of tracks. Settings of a family and of an elevation are dotted flags: "
        "--elevation noise --noise.harmonics 6. Where two numbers are allowed, "
        "they are the bounds of a draw per track: --bezier.rad 0.2 0.6",
    )
    gates = batch_command(
        "Gates",
        GateGenConfig,
        _families_with_anchors(),
        {"num_envs": 64},
        "16 courses",
        "Generate a batch of gate courses. Settings of a family and of an elevation are dotted "
        "flags: --elevation uniform --uniform.low 1 --uniform.high 4",
    )
    subcommands = {"generate": generate, "gates": gates, "info": _Info, "demo": _Demo}
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


def _parse(args: Sequence[str] | None) -> Any:
    """The subcommand that the arguments ask for.

    Raises:
        SystemExit: After ``--help``.
    """
    try:
        import rich  # noqa: F401
        import tyro
    except ImportError as error:
        raise _UsageError(
            "the command line needs tyro and rich: pip install 'track-gen[cli]'"
        ) from error
    types = _command_types()
    box = io.StringIO()
    try:
        with _user_input(), contextlib.redirect_stderr(box):
            return tyro.cli(
                types,
                prog="track-gen",
                description="Thousands of closed race tracks per call, on NVIDIA Warp.",
                args=None if args is None else list(args),
            )
    except SystemExit as error:
        if error.code in (None, 0):
            raise
        raise _UsageError(_one_line(box.getvalue())) from error


def _compactness(track: dict[str, np.ndarray]) -> np.ndarray:
    """4 pi area / length^2 of the valid tracks: 1 for a circle."""
    values = []
    for center, count in zip(
        track["center"][track["valid"]], track["count"][track["valid"]], strict=True
    ):
        x, y = center[:count, :2].astype(np.float64).T
        dx, dy = np.roll(x, -1) - x, np.roll(y, -1) - y
        area = 0.5 * abs(float(np.sum(x * dy - y * dx)))
        values.append(4.0 * np.pi * area / np.hypot(dx, dy).sum() ** 2)
    return np.asarray(values)


def _make_generator(config: Any, seed: int) -> Any:
    """A generator and its random numbers; what Warp cannot allocate is a usage error too."""
    with _user_input(RuntimeError, MemoryError), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rng = PerEnvSeededRNG(seeds=seed, num_envs=config.num_envs, device=config.device)
        kind: Any = GateGenerator if isinstance(config, GateGenConfig) else TrackGenerator
        generator = kind(config, rng)
    for warning in caught:
        print(f"track-gen: warning: {warning.message}", file=sys.stderr)
    return generator


@dataclass(frozen=True)
class _Batch:
    """A generated batch with its figures."""

    track: Any
    """A ``Track`` or a ``GateSequence``."""
    arrays: dict[str, np.ndarray]
    report: GenerationReport
    milliseconds: float
    """Median wall clock per track [ms]."""


@contextlib.contextmanager
def _progress_bar(generator: Any) -> Iterator[None]:
    """A bar on stderr while a host-driven family grows its tracks; nothing for the others."""
    if generator.config.spec.capturable:
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed} of {task.total} grown, {task.fields[iterations]} iterations"),
        TimeElapsedColumn(),
    )
    num_envs = generator.config.num_envs
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(generator.config.spec.name, total=num_envs, iterations=0)
        generator.on_progress = lambda iterations, growing: progress.update(
            task, completed=num_envs - growing, iterations=iterations
        )
        try:
            yield
        finally:
            generator.on_progress = None


def _run(generator: Any) -> _Batch:
    """Generate the batch and time the warm calls; a repeated call gives the same tracks."""
    with _progress_bar(generator):
        return _run_timed(generator)


def _run_timed(generator: Any) -> _Batch:
    generator.warmup()
    times: list[float] = []
    batch: Any = None
    for _ in range(_TIMED_CALLS):
        wp.synchronize_device(generator.device)
        start = time.perf_counter()
        batch = generator.generate()
        wp.synchronize_device(generator.device)
        times.append(time.perf_counter() - start)
    milliseconds = 1e3 * statistics.median(times) / generator.config.num_envs
    return _Batch(batch, batch.numpy(), generator.report(), milliseconds)


def _table(batches: dict[str, _Batch], title: str) -> Any:
    """The figures of some batches, one row each."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("family")
    for name in ("yield", "attempts", "length", "compactness", "ms per track"):
        table.add_column(name, justify="right")
    for name, batch in batches.items():
        lengths = batch.arrays["length"][batch.arrays["valid"]].astype(np.float64)
        compactness = _compactness(batch.arrays)
        table.add_row(
            name,
            f"{100.0 * batch.report.yield_rate:.2f} %",
            f"{batch.report.attempts_mean:.3f}",
            f"{lengths.mean():.3g} ± {lengths.std():.2g}" if len(lengths) else "-",
            f"{compactness.mean():.2f} ± {compactness.std():.2f}" if len(lengths) else "-",
            f"{batch.milliseconds:.3f}",
        )
    return table


def _gate_table(name: str, batch: _Batch, title: str) -> Any:
    """The figures of a batch of gate courses."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("family")
    for column in ("yield", "attempts", "gates", "extent", "ms per course"):
        table.add_column(column, justify="right")
    valid = batch.arrays["valid"]
    counts, points = batch.arrays["count"][valid], batch.arrays["position"][valid][..., :2]
    extents = [np.ptp(p[:n], axis=0).max() for p, n in zip(points, counts, strict=True)]
    table.add_row(
        name,
        f"{100.0 * batch.report.yield_rate:.2f} %",
        f"{batch.report.attempts_mean:.3f}",
        f"{counts.min()} to {counts.max()}" if len(counts) else "-",
        f"{np.mean(extents):.3g} ± {np.std(extents):.2g}" if len(counts) else "-",
        f"{batch.milliseconds:.3f}",
    )
    return table


def _invalid_text(batch: _Batch, N_max: int) -> str:
    """Why some tracks are not valid, as one line; empty if all are."""
    if not batch.report.reasons:
        return ""
    reasons = ", ".join(f"{name} {count}" for name, count in batch.report.reasons.items())
    text = f"{batch.report.num_envs - batch.report.num_valid} not valid: {reasons}"
    overflow = (batch.arrays["status"] & int(TrackStatus.OVERFLOW)) != 0
    if "required_count" in batch.arrays and overflow.any():
        text += f"; N_max is {N_max}, {batch.arrays['required_count'][overflow].max()} would do"
    return text


def _config_json(config: Any, device: wp.Device) -> str:
    """The configuration as JSON; the family's settings stand under its name."""
    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    settings = {
        f.name: getattr(config.settings, f.name) for f in dataclasses.fields(config.settings)
    }
    if config.elevation is not None:
        name = next(n for n, owner in PROFILES.items() if isinstance(config.elevation, owner))
        values |= {"elevation": {"profile": name, **dataclasses.asdict(config.elevation)}}
    values |= {"device": str(device), "generator": config.spec.name, config.spec.name: settings}
    return json.dumps(values)


def _write_npz(path: Path, generator: Any, batch: _Batch) -> None:
    """Write the batch so that NumPy alone reads and explains it; replaces the file as a whole."""
    gates = isinstance(batch.track, GateSequence)
    units = UNITS.replace("half_width", "gate_width") if gates else UNITS
    about = description(type(batch.track), GateStatus if gates else TrackStatus, units)
    extra = {
        "seeds": generator.rng.seeds_warp.numpy(),
        "episode": generator.rng.episode_warp.numpy(),
        "config": _config_json(generator.config, generator.device),
        "seed_version": generator.config.spec.seed_version,
    }
    write_npz(path, {**batch.arrays, **about, **extra})


def _check_writable(name: str, path: Path) -> None:
    """Refuse a file that cannot be written before the work is done.

    Raises:
        ValueError: With the reason.
    """
    if path.is_dir():
        raise ValueError(f"{name}: {str(path)!r} is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"{name}: no such folder: {str(path.parent)!r}")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise ValueError(f"{name}: cannot write {str(path)!r}")


def _elevation(command: Any) -> ElevationSettings | None:
    """The elevation that the flags ask for.

    Raises:
        ValueError: If there is none of this name, or flags of another one were given.
    """
    if command.elevation is not None:
        check_choice("--elevation", command.elevation, PROFILES)
    for name, owner in PROFILES.items():
        if name != command.elevation and getattr(command.profiles, name) != owner():
            raise ValueError(f"--{name}.* needs --elevation {name}, got {command.elevation}")
    return None if command.elevation is None else getattr(command.profiles, command.elevation)


def _generate(command: Any, kind: type) -> int:
    """Generate a batch of tracks or of gate courses, as the type of the configuration says."""
    from rich.console import Console

    gates = kind is GateGenConfig
    with _user_input():
        chosen: str | GeneratorSettings = command.generator
        for name, owner in (
            _families_with_anchors() if gates else _families_with_defaults()
        ).items():
            settings = getattr(command.families, name)
            if name == command.generator:
                chosen = settings
            elif settings != owner():
                raise ValueError(f"--{name}.* needs --generator {name}, got {command.generator}")
        config = kind(generator=chosen, elevation=_elevation(command), **vars(command.options))
        if command.out is not None:
            if command.out.suffix != ".npz":
                raise ValueError(f"--out must end in .npz, got {str(command.out)!r}")
            _check_writable("--out", command.out)
        if command.plot is not None:
            check_picture_path("--plot", command.plot)
            _check_writable("--plot", command.plot)
    console = Console(highlight=False)
    generator = _make_generator(config, command.seed)
    with console.status("generating"):
        batch = _run(generator)
    title = f"{config.num_envs} {'courses' if gates else 'tracks'} on {generator.device.name}"
    name = config.spec.name
    console.print(_gate_table(name, batch, title) if gates else _table({name: batch}, title))
    invalid = _invalid_text(batch, 0 if gates else config.N_max)
    if invalid:
        console.print(invalid, style="red")
    if command.out is not None:
        with _user_input():
            _write_npz(command.out, generator, batch)
        console.print(f"wrote {command.out}", soft_wrap=True)
    if command.plot is not None:
        with _user_input():
            if isinstance(batch.track, GateSequence):
                plot_courses(batch.track, line=config.line, path=command.plot)
            else:
                plot_tracks(batch.track, path=command.plot)
        console.print(f"wrote {command.plot}", soft_wrap=True)
    return 0


def _demo(command: _Demo) -> int:
    from rich.console import Console

    with _user_input():
        check_int("--num-envs", command.num_envs, low=1, high=2**31 - 1)
        command.out.parent.mkdir(parents=True, exist_ok=True)
        check_picture_path("--out", command.out)
        _check_writable("--out", command.out)
    console = Console(highlight=False)
    batches: dict[str, _Batch] = {}
    device = None
    with console.status("starting") as status:
        for name in _families_with_defaults():
            status.update(f"{name}: compiling its kernels once, then {command.num_envs} tracks")
            with _user_input():
                config = TrackGenConfig(
                    num_envs=command.num_envs,
                    half_width=command.half_width,
                    generator=name,
                    device=command.device,
                    num_threads=command.num_threads,
                )
            generator = _make_generator(config, command.seed)
            device = generator.device
            batches[name] = _run(generator)
    title = (
        f"{command.num_envs} tracks per family on {device.name if device else '-'}: "
        f"half width {command.half_width:g}, seed {command.seed}, "
        f"median of {_TIMED_CALLS} warm calls"
    )
    console.print(_table(batches, title))
    with _user_input():
        plot_families({name: batch.track for name, batch in batches.items()}, path=command.out)
    console.print(f"wrote {command.out}", soft_wrap=True)
    return 0


def _info() -> int:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    about = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    about.add_row("track-gen", importlib.metadata.version("track-gen"))
    about.add_row("Warp", wp.__version__)
    about.add_row("Python", platform.python_version())
    about.add_row("kernel cache", str(wp.config.kernel_cache_dir))
    console.print(about, soft_wrap=True)
    devices = Table(box=box.SIMPLE_HEAD)
    for column in ("device", "name", "architecture", "memory"):
        devices.add_column(column)
    for device in wp.get_devices():
        default = " (default)" if device == wp.get_device() else ""
        memory = f"{device.total_memory / 2**30:.0f} GiB" if device.is_cuda else "-"
        arch = f"sm_{device.arch}" if device.is_cuda else platform.machine()
        devices.add_row(f"{device.alias}{default}", device.name, arch, memory)
    console.print(devices)
    families = Table(box=box.SIMPLE_HEAD)
    for column in ("family", "graph", "what it is"):
        families.add_column(column)
    for name in available_generators():
        spec = get_spec(name)
        text = (inspect.getdoc(spec.settings) or "").partition("\n")[0]
        families.add_row(name, "yes" if spec.capturable else "no", text)
    console.print(families)
    return 0


@contextlib.contextmanager
def _quiet_warp() -> Iterator[None]:
    """Keep Warp's banner and compile messages out of the output.

    Its native code writes to file descriptor 2 that there is no CUDA driver, at the first ``init``;
    ``track-gen info`` shows the devices to whoever asks.
    """
    level = wp.config.log_level
    wp.config.log_level = wp.LOG_ERROR
    try:
        stderr = os.dup(2)
        sink = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(sink, 2)
            wp.init()
        finally:
            os.dup2(stderr, 2)
            os.close(sink)
            os.close(stderr)
        yield
    finally:
        wp.config.log_level = level


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        args: Arguments without the program name; None takes those of the process.

    Returns:
        The exit code: 0, or 2 after a line on stderr that says what to mend.
    """
    try:
        with _quiet_warp():
            command = _parse(args)
            if isinstance(command, _Info):
                return _info()
            if isinstance(command, _Demo):
                return _demo(command)
            gates = type(command).__name__ == "Gates"
            return _generate(command, GateGenConfig if gates else TrackGenConfig)
    except SystemExit:
        return 0
    except _UsageError as error:
        print(f"track-gen: error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
