"""Files of users and plugins: the cache folder, configuration files, and TOML."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

from llmperf.errors import UserError
from llmperf.files.json_files import open_regular, read_bytes

VARIABLE = "LLMPERF_CACHE_DIR"
MAX_TOML_BYTES = 2**20
MAX_KEY_PARTS = 64
"""Parts of a dotted key, such as 3 of `tuning.optimizer.name`. A parser takes quadratic time and memory for more."""
MAX_WORD = 1000
"""Characters of a key or a number without quotes."""
_TOKEN = re.compile(
    r"""
    (?P<text> \"{3} (?: [^"\\]+ | \\. | "(?!"") )* (?: "{3,5} )? | '{3} (?: [^']+ | '(?!'') )* (?: '{3,5} )? )
    | (?P<part> [A-Za-z0-9_+-]+ | " (?: [^"\\\n]+ | \\[^\n] )* "? | '[^'\n]*'? )
    | (?P<between> [.\ \t]+ )
    | \#[^\n]*
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
"""Strings, words, dots, comments and single characters; closing quotes may be missing, so that the time is linear."""


def cache_dir(name: str) -> Path:
    """The folder for one kind of data, in `$LLMPERF_CACHE_DIR` or `~/.cache/llmperf`; never another user's."""
    chosen = os.environ.get(VARIABLE)
    cache = Path(chosen) if chosen else Path.home() / ".cache" / "llmperf"
    user = os.getuid()
    try:
        of_others = (cache / name).lstat().st_uid not in (user, 0)
    except OSError:
        of_others = False
    return cache / f"user-{user}" / name if of_others else cache / name


def config_file(name: str, folder: Path) -> Path | None:
    """The configuration file of that name in `folder` or the nearest folder above it, else the user's own, if any."""
    nearest = folder.absolute()
    candidates = (parent / name for parent in (nearest, *nearest.parents))
    return next((path for path in candidates if path.is_file()), None) or own_config_file(name)


def own_config_file(name: str) -> Path | None:
    """The configuration file of that name in an absolute `$XDG_CONFIG_HOME/llmperf` or `~/.config/llmperf`, if any."""
    chosen = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    path = (chosen if chosen.is_absolute() else Path.home() / ".config") / "llmperf" / name
    return path if path.is_file() else None


def read_config(path: Path) -> dict[str, Any]:
    """The tables of a configuration file; UserError also if another user could have written it."""
    try:
        with open_regular(path) as file:
            _refuse_of_others(path, path.lstat())  # a link that another user has made chooses the file
            _refuse_of_others(path, os.fstat(file.fileno()))
            data = file.read(MAX_TOML_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    if len(data) > MAX_TOML_BYTES:
        raise UserError(f"{path}: larger than the {MAX_TOML_BYTES // 2**20} MiB that are read")
    return parse_toml(data, str(path))


def _refuse_of_others(path: Path, status: os.stat_result) -> None:
    """UserError for a file of a user other than this one and root, or one to which further users can write."""
    user = os.geteuid()
    if status.st_uid not in (user, 0):
        raise UserError(f"{path}: expected a file of this user (user ID {user}) or root, found user ID {status.st_uid}")
    if stat.S_ISLNK(status.st_mode):  # their mode has no meaning
        return
    if status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and not _private_group(status)):
        mode = stat.S_IMODE(status.st_mode)
        raise UserError(
            f"{path}: expected a file that only its owner can write, found mode {mode:03o}; use chmod go-w {path}"
        )


def _private_group(status: os.stat_result) -> bool:
    """Check whether the group is the owner's alone, by name and members; many systems give files such a group."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    return group.gr_name == owner and set(group.gr_mem) <= {owner}


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file; UserError if it cannot be read, is not UTF-8, or is not TOML."""
    return parse_toml(read_bytes(path, limit=MAX_TOML_BYTES), str(path))


def parse_toml(data: bytes, where: str) -> dict[str, Any]:
    """The tables of a file's content; UserError that names `where` if it is not UTF-8 or not TOML."""
    try:
        return _parsed(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{where}: expected a TOML file in UTF-8, found a byte that is not at {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not valid TOML: {error}") from None


def parse_value(text: str) -> Any:
    """A text parsed as a TOML value, or the text itself if it is not one."""
    try:
        return _parsed(f"value = {text}")["value"]
    except (ValueError, KeyError, RecursionError):  # not TOML, too many digits, or nested too deeply
        return text


def _parsed(text: str) -> dict[str, Any]:
    """The tables of a text; ValueError if it is not TOML or has a key that would take a parser long."""
    parts = 0
    after_dot = False
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "part":
            parts = parts + 1 if after_dot else 1
            after_dot = False
            if parts > MAX_KEY_PARTS:
                raise ValueError(f"expected keys of at most {MAX_KEY_PARTS} parts, found more{_line(token)}")
            if len(token[0]) > MAX_WORD and token[0][0] not in "\"'":
                expected = f"expected at most {MAX_WORD} characters without quotes"
                raise ValueError(f"{expected}, found {len(token[0])}{_line(token)}")
        elif token.lastgroup == "between":
            after_dot = after_dot or "." in token[0]
        else:
            parts, after_dot = 0, False
    if sys.version_info >= (3, 11):  # imported here: most commands read no TOML
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _line(token: re.Match[str]) -> str:
    """The place of a token, as tomllib gives it."""
    newlines = token.string.count("\n", 0, token.start())
    return f" (at line {newlines + 1})"
