"""What became of a batch, counted on the host."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass

import numpy as np

__all__ = ["GenerationReport"]


@dataclass(frozen=True)
class GenerationReport:
    """What became of the last batch."""

    num_envs: int
    """Rows E."""
    num_valid: int
    """Valid envs."""
    yield_rate: float
    """Share of valid envs."""
    first_attempt_rate: float
    """Share of envs that were valid at the first attempt."""
    attempts_mean: float
    """Mean number of attempts."""
    attempts_max: int
    """Largest number of attempts."""
    reasons: dict[str, int]
    """Invalid envs per reason; an env may have several."""

    @classmethod
    def count(
        cls, status: np.ndarray, attempts: np.ndarray, flags: type[enum.IntFlag]
    ) -> GenerationReport:
        """Count the rows of a batch.

        Args:
            status: Bit sets of reasons, shape [E].
            attempts: Attempts used, shape [E].
            flags: Names of the bits.
        """
        valid = status == 0
        reasons: Counter[str] = Counter()
        for flag in flags:
            found = int(np.count_nonzero(status & int(flag)))
            if found:
                reasons[flag.name or str(flag)] = found
        size = max(len(status), 1)
        return cls(
            num_envs=len(status),
            num_valid=int(valid.sum()),
            yield_rate=float(valid.sum() / size),
            first_attempt_rate=float((valid & (attempts == 1)).sum() / size),
            attempts_mean=float(attempts.sum() / size),
            attempts_max=int(attempts.max(initial=0)),
            reasons=dict(reasons),
        )
