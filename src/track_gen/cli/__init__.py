"""The command line ``track-gen``: ``generate``, ``gates``, ``info`` and ``demo``.

Needs tyro and rich, the ``cli`` extra. What a user can get wrong ends as one line on stderr and
exit code 2; anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

from track_gen.cli.commands import main

__all__ = ["main"]
