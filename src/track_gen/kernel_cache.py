"""Warp's kernel cache where the home folder cannot be written: containers, read-only homes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import warp as wp

__all__ = ["ensure_writable_kernel_cache"]


def _default_cache() -> Path:
    """Folder that holds Warp's default cache on Linux; elsewhere the home folder stands for it."""
    root = os.environ.get("XDG_CACHE_HOME")
    return Path(root) if root else Path(os.path.expanduser("~")) / ".cache"


def ensure_writable_kernel_cache() -> None:
    """Point Warp to a folder of this user under the temporary one, if its default cannot be made.

    Does nothing if a cache is configured (``wp.config.kernel_cache_dir``, ``WARP_CACHE_PATH``), or
    if the default is writable. Takes effect before Warp is initialised, which the first use of a
    device does.
    """
    if wp.config.kernel_cache_dir is not None or "WARP_CACHE_PATH" in os.environ or os.name == "nt":
        return
    try:
        folder = _default_cache() / "warp"
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        name = f"warp-{os.getuid()}-{wp.config.version}"
        wp.config.kernel_cache_dir = str(Path(tempfile.gettempdir()) / name)
