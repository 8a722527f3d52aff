"""What an open capture may record: kernels that are told apart, and arrays that outlive it."""

from __future__ import annotations

import numpy as np
import warp as wp

from conftest import make, raw_bytes
from cubins import kernel_modules


def test_a_capture_can_tell_all_kernels_apart():
    """The CPU finds the kernels of a graph by name and module: overloads have the same of both."""
    seen = set()
    for module in kernel_modules().values():
        assert not [name for name, kernel in module.kernels.items() if kernel.is_generic]
        content = module.get_module_hash(1)
        for kernel in module.kernels.values():
            assert (kernel.key, content) not in seen, kernel.key
            seen.add((kernel.key, content))


def test_kernels_of_one_name_in_one_capture():
    """The solvers of two ways to find neighbours share a name, not a module."""
    options = ({}, {"relax_sep_every": 1, "relax_sep_cache_slots": 0}, {"half_width": 0.15})
    generators = [make(num_envs=6, **option) for option in options]
    for generator in generators:
        generator.warmup()
    with wp.ScopedCapture(device="cpu") as capture:
        for generator in generators:
            generator.rng.advance()
            generator.generate()
    for episode in (1, 2, 3):
        wp.capture_launch(capture.graph)
        for generator, option in zip(generators, options, strict=True):
            eager = make(num_envs=6, **option)
            for _ in range(episode):
                eager.rng.advance()
            assert raw_bytes(generator.track) == raw_bytes(eager.generate())
            assert np.array_equal(generator.sweeps.numpy(), eager.sweeps.numpy())
