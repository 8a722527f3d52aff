"""Who records: whether launches of this thread go into a graph, and what must not happen then.

A capture records addresses. An argument on the host would have to be copied to a temporary array,
which is gone before the graph is replayed: so it is refused, before anything is recorded.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager

import warp as wp

__all__ = ["exclusive_cpu_capture", "recording_here", "refuse_recording"]

_capture_lock = threading.Lock()
_capture_owner: int | None = None


def _forget_after_fork() -> None:
    """A held lock does not survive a fork; start afresh in the child."""
    global _capture_lock, _capture_owner
    _capture_lock = threading.Lock()
    _capture_owner = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def recording_here(device: wp.Device) -> bool:
    """Whether launches of the calling thread on ``device`` are recorded by an open capture.

    A CPU capture makes ``device.is_capturing`` true in every thread but records only the launches
    of its own: a capture that the package opened in another thread does not count.
    """
    if not device.is_capturing:
        return False
    return device.is_cuda or _capture_owner in (None, threading.get_ident())


def refuse_recording(name: str, device: wp.Device) -> None:
    """Refuse what reads the host, or allocates, while a capture records.

    Raises:
        RuntimeError: If launches of this thread are recorded.
    """
    if recording_here(device):
        raise RuntimeError(f"{name} cannot run while a capture is open")


@contextmanager
def exclusive_cpu_capture():
    """Hold the process-wide CPU capture.

    Raises:
        RuntimeError: If one is open.
    """
    global _capture_owner
    if not _capture_lock.acquire(blocking=False):
        raise RuntimeError("another thread's CPU capture is open: a CPU capture is process-wide")
    try:
        if wp.get_device("cpu").is_capturing:
            raise RuntimeError("a CPU capture is open already: a CPU capture is process-wide")
        _capture_owner = threading.get_ident()
        yield
    finally:
        _capture_owner = None
        _capture_lock.release()
