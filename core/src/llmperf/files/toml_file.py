"""Reads TOML files and values of users and plugins."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_TOML_BYTES = 2**20


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file; UserError if it cannot be read, is not UTF-8, or is not TOML."""
    data = read_bytes(path, limit=MAX_TOML_BYTES)
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected a TOML file in UTF-8, found a byte that is none at {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: no valid TOML: {error}") from None


def parse_value(text: str) -> Any:
    """A value as TOML reads it, or the text itself if it is not a TOML value."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, KeyError, RecursionError):  # no TOML, more digits than are read, brackets in brackets
        return text
