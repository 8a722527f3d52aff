"""``python -m track_gen.cli``."""

from __future__ import annotations

import sys

from track_gen.cli import main

if __name__ == "__main__":
    sys.exit(main())
