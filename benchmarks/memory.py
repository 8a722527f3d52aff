"""Bytes of a generator beyond its published track."""

from __future__ import annotations

import dataclasses
from typing import Any

import warp as wp


def _arrays(value: Any) -> list[wp.array]:
    if isinstance(value, wp.array):
        return [value]
    if isinstance(value, dict):
        return [array for item in value.values() for array in _arrays(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [a for f in dataclasses.fields(value) for a in _arrays(getattr(value, f.name))]
    return []


def scratch_bytes(generator: Any) -> int:
    """Bytes of all buffers of a generator but the published track and shared tables."""
    builder = generator._executor._build
    outputs = {array.ptr for array in generator.track.arrays().values()}
    seen: dict[int, int] = {}
    for field in dataclasses.fields(builder):
        for array in _arrays(getattr(builder, field.name)):
            owner = array
            while owner._ref is not None:
                owner = owner._ref
            if owner.ptr not in outputs:
                seen[owner.ptr] = owner.size * wp.types.type_size_in_bytes(owner.dtype)
    return sum(seen.values())
