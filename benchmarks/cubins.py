"""Compile every kernel for CUDA without a GPU and list what it costs.

    python benchmarks/cubins.py --json out/cubins.json

NVRTC inside the Warp wheel makes the cubins, cuobjdump (``nvidia-cuda-cuobjdump`` from the dev
extra) reads them. STACK and LOCAL of 0 mean that nothing spills.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import subprocess
import tempfile
from pathlib import Path

import warp as wp

import track_gen
from track_gen.stages.relax import RelaxConfig, make_relax_kernel

ARCHITECTURES = (80, 90)
"""Compute capabilities: A100 and H100 class."""

_USAGE = re.compile(
    r"Function (?P<kernel>\S+):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) "
    r"SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)"
)

_SUFFIX = re.compile(r"(__locals__.*)?_[0-9a-f]{8}_cuda_kernel_(forward|backward)$")


def cuobjdump() -> Path:
    """Path of the tool.

    Raises:
        FileNotFoundError: If the dev extra is not installed.
    """
    import nvidia  # a namespace package of the wheels

    for root in nvidia.__path__:
        for found in Path(root).glob("*/bin/cuobjdump"):
            return found
    raise FileNotFoundError("cuobjdump is not installed: pip install 'track-gen[dev]'")


def kernel_modules() -> dict[str, wp.Module]:
    """Every Warp module of the package that has kernels, by name."""
    modules = {}
    for info in pkgutil.walk_packages(track_gen.__path__, "track_gen."):
        if info.name.startswith(("track_gen.cli", "track_gen.viz")):
            continue
        importlib.import_module(info.name)
        module = wp.get_module(info.name)
        if any(not kernel.is_generic for kernel in module.kernels.values()):
            modules[info.name] = module
    for config in (
        RelaxConfig(),
        RelaxConfig(sep_every=1),
        RelaxConfig(sep_every=8, sep_cache_slots=16),
    ):
        kernel = make_relax_kernel(config.mode)
        modules[f"track_gen.stages.relax[{config.mode}]"] = kernel.module
    return modules


def resource_usage() -> list[dict]:
    """Registers, stack, shared and local memory of every kernel and architecture."""
    tool = cuobjdump()
    rows = []
    for name, module in kernel_modules().items():
        with tempfile.TemporaryDirectory() as folder:
            wp.compile_aot_module(module, arch=ARCHITECTURES, module_dir=folder, use_ptx=False)
            for cubin in sorted(Path(folder).glob("*.cubin")):
                command = [tool, "--dump-resource-usage", cubin]
                text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                arch = int(re.search(r"sm_?(\d+)", cubin.name).group(1))
                for match in _USAGE.finditer(text):
                    rows.append(
                        {
                            "module": name,
                            "kernel": _SUFFIX.sub("", match["kernel"]),
                            "arch": arch,
                            **{k: int(match[k]) for k in ("registers", "stack", "local", "shared")},
                        }
                    )
    return rows


def main() -> None:
    from common import machine, show

    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--json", type=Path, default=None)
    args = arguments.parse_args()
    wp.config.quiet = True
    rows = resource_usage()
    show("Kernels compiled for CUDA", rows, machine("cpu"), args.json)


if __name__ == "__main__":
    main()
