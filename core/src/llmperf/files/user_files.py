"""Where llmperf keeps what it can make again: tokenised text, compiled extensions, measured peaks."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "LLMPERF_CACHE_DIR"


def cache_dir(name: str) -> Path:
    """The folder for one kind of thing: in `$LLMPERF_CACHE_DIR`, or in `~/.cache/llmperf`. Not created."""
    chosen = os.environ.get(VARIABLE)
    return (Path(chosen) if chosen else Path.home() / ".cache" / "llmperf") / name
