"""Where things are kept that could be made again: one folder per machine, shared by all runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$FRESHPER_CACHE`, else `$XDG_CACHE_HOME/freshper`, else `~/.cache/freshper`."""
    if own := os.environ.get("FRESHPER_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "freshper"
