"""Words as one command line for the login shell of a host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from llmperf.errors import UserError

_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./-]+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_CHUNK = re.compile(r"[^'\\!]+|.", re.DOTALL)


def quoted(word: str) -> str:
    r"""A word as POSIX shells, zsh and fish read it back unchanged; csh and tcsh too, unless it has a line break.

    Quotes, backslashes and exclamation marks are escaped outside single quotes: inside them, fish knows the escapes
    `\\` and `\'`, and csh replaces `!`.
    """
    if _PLAIN.fullmatch(word):
        return word
    if not word:
        return "''"
    return "".join("\\" + chunk if chunk in "'\\!" else f"'{chunk}'" for chunk in _CHUNK.findall(word))


def check_names(env: Iterable[str], where: str) -> None:
    """UserError for a variable whose name is not a plain identifier."""
    for name in env:
        if not _NAME.fullmatch(name):
            raise UserError(f"{where}: cannot set the variable {name!r}: expected letters, digits and _ only")


def command_line(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """The command that replaces the login shell by `argv` with the variables `env`.

    UserError for what no command line can hold: a NUL character, or a variable whose name is not a plain identifier.
    """
    check_names(env, "launcher 'ssh'")
    words = [*(f"{name}={value}" for name, value in env.items()), *argv]
    if any("\0" in word for word in words):
        raise UserError("launcher 'ssh': a command or variable has a NUL character, which no command line can hold")
    return " ".join(["exec", "env", *map(quoted, words)])
