"""What each subcommand does, and the entry point."""

# pyright: basic
from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import inspect
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from track_gen.checks import check_choice, check_float, check_int
from track_gen.cli.arguments import (
    DemoCommand,
    InfoCommand,
    UsageError,
    families_with_anchors,
    families_with_defaults,
    parse,
    user_input,
)
from track_gen.cli.batches import (
    TIMED_CALLS,
    MeasuredBatch,
    gate_table,
    invalid_text,
    make_generator,
    metrics_table,
    run_batch,
    track_table,
)
from track_gen.config import TrackGenConfig
from track_gen.elevation import PROFILES, ElevationSettings
from track_gen.files import write_npz
from track_gen.gate_batch import GateSequence
from track_gen.gate_config import GateGenConfig
from track_gen.generators import available_generators, get_spec
from track_gen.generators.spec import GeneratorSettings
from track_gen.placement import grid_origins
from track_gen.viz import (
    check_picture_path,
    plot_courses,
    plot_families,
    plot_tracks,
    plot_world,
)

__all__ = ["main"]


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


def _write_npz(path: Path, generator: Any, batch: MeasuredBatch) -> None:
    """Write the batch so that NumPy alone reads and explains it; replaces the file as a whole."""
    extra = {
        "seeds": generator.rng.seeds_warp.numpy(),
        "episode": generator.rng.episode_warp.numpy(),
        "config": _config_json(generator.config, generator.device),
        "seed_version": generator.config.spec.seed_version,
    }
    extra |= {f"metrics_{name}": values for name, values in _metrics(generator).items()}
    write_npz(path, {**batch.arrays, **batch.track.file_notes(), **extra})


def _metrics(generator: Any) -> dict[str, np.ndarray]:
    """Metrics of the batch by name; empty if they were not asked for."""
    metrics = getattr(generator, "metrics", None)
    return {} if metrics is None else metrics.numpy()


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
    with user_input():
        chosen: str | GeneratorSettings = command.generator
        for name, owner in (families_with_anchors() if gates else families_with_defaults()).items():
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
        if command.world is not None:
            check_float("--world", command.world, 0.0, low_open=True)
            if command.plot is None:
                raise ValueError("--world needs --plot, the picture it is about")
        if command.plot is not None:
            check_picture_path("--plot", command.plot)
            _check_writable("--plot", command.plot)
    console = Console(highlight=False)
    generator = make_generator(config, command.seed)
    with console.status("generating"):
        batch = run_batch(generator)
    title = f"{config.num_envs} {'courses' if gates else 'tracks'} on {generator.device.name}"
    name = config.spec.name
    console.print(gate_table(name, batch, title) if gates else track_table({name: batch}, title))
    if metrics := _metrics(generator):
        console.print(metrics_table(metrics))
    invalid = invalid_text(batch, 0 if gates else config.N_max)
    if invalid:
        console.print(invalid, style="red")
    if command.out is not None:
        with user_input():
            _write_npz(command.out, generator, batch)
        console.print(f"wrote {command.out}", soft_wrap=True)
    if command.plot is not None:
        with user_input():
            if command.world is not None:
                origins = grid_origins(config.num_envs, command.world, generator.device)
                line = getattr(config, "line", "arc")
                plot_world(batch.track, origins, line=line, path=command.plot)
            elif isinstance(batch.track, GateSequence):
                plot_courses(batch.track, line=config.line, path=command.plot)
            else:
                plot_tracks(batch.track, path=command.plot)
        console.print(f"wrote {command.plot}", soft_wrap=True)
    return 0


def _demo(command: DemoCommand) -> int:
    from rich.console import Console

    with user_input():
        check_int("--num-envs", command.num_envs, low=1, high=2**31 - 1)
        command.out.parent.mkdir(parents=True, exist_ok=True)
        check_picture_path("--out", command.out)
        _check_writable("--out", command.out)
    console = Console(highlight=False)
    batches: dict[str, MeasuredBatch] = {}
    device = None
    with console.status("starting") as status:
        for name in families_with_defaults():
            status.update(f"{name}: compiling its kernels once, then {command.num_envs} tracks")
            with user_input():
                config = TrackGenConfig(
                    num_envs=command.num_envs,
                    half_width=command.half_width,
                    generator=name,
                    device=command.device,
                    num_threads=command.num_threads,
                )
            generator = make_generator(config, command.seed)
            device = generator.device
            batches[name] = run_batch(generator)
    title = (
        f"{command.num_envs} tracks per family on {device.name if device else '-'}: "
        f"half width {command.half_width:g}, seed {command.seed}, "
        f"median of {TIMED_CALLS} warm calls"
    )
    console.print(track_table(batches, title))
    with user_input():
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
    given = sys.argv[1:] if args is None else list(args)
    if given == ["--version"]:
        print(f"track-gen {importlib.metadata.version('track-gen')}")
        return 0
    try:
        with _quiet_warp():
            command = parse(given)
            if isinstance(command, InfoCommand):
                return _info()
            if isinstance(command, DemoCommand):
                return _demo(command)
            gates = type(command).__name__ == "Gates"
            return _generate(command, GateGenConfig if gates else TrackGenConfig)
    except SystemExit:
        return 0
    except BrokenPipeError:
        # Whoever reads our output has seen enough: `track-gen info | head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except UsageError as error:
        print(f"track-gen: error: {error}", file=sys.stderr)
        return 2
