"""Files of users and plugins: the cache folder, configuration files, and TOML."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VARIABLE = "LLMPERF_CACHE_DIR"
MAX_TOML_BYTES = 2**20


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


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file; UserError if it cannot be read, is not UTF-8, or is not TOML."""
    data = read_bytes(path, limit=MAX_TOML_BYTES)
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected a TOML file in UTF-8, found a byte that is not at {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None


def parse_value(text: str) -> Any:
    """A text parsed as a TOML value, or the text itself if it is not one."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, KeyError, RecursionError):  # not TOML, too many digits, or nested too deeply
        return text
