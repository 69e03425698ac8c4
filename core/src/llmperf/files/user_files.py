"""The user's own files: the cache of what llmperf can make again, and configuration files."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "LLMPERF_CACHE_DIR"


def cache_dir(name: str) -> Path:
    """The folder for one kind of data, in `$LLMPERF_CACHE_DIR` or `~/.cache/llmperf`. It is not created."""
    chosen = os.environ.get(VARIABLE)
    return (Path(chosen) if chosen else Path.home() / ".cache" / "llmperf") / name


def config_file(name: str, folder: Path) -> Path | None:
    """The configuration file of that name in `folder` or the nearest folder above it.

    Without one, the file in `$XDG_CONFIG_HOME/llmperf` or `~/.config/llmperf`; None if there is none either.
    """
    nearest = folder.absolute()
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "llmperf"
    candidates = [parent / name for parent in (nearest, *nearest.parents)] + [home / name]
    return next((path for path in candidates if path.is_file()), None)
