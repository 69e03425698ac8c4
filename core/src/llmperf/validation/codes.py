"""Codes of rules as people type them: in either case, whole or their beginning."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from llmperf.errors import UserError
from llmperf.validation.catalogue import catalogue

OURS = "LP"
"""What the core's codes begin with, and no plugin's."""


def beginnings(typed: Iterable[str], option: str, others: bool) -> tuple[str, ...]:
    """Beginnings of codes in upper case; UserError for one that no rule's code has.

    With `others` a plugin may have codes of its own, which cannot be known: only those of the core are checked.
    """
    return tuple(_beginning(one, option, others) for one in typed)


def whole(typed: str, option: str) -> str:
    """The code of one rule of the core; UserError for anything else."""
    code = typed.upper()
    if code not in _codes():
        raise _unknown(typed, option)
    return code


def _beginning(typed: str, option: str, others: bool) -> str:
    code = typed.upper()
    known = code and any(one.startswith(code) for one in _codes())
    if not known and (not code or code.startswith(OURS) or not others):
        raise _unknown(typed, option)
    return code


def _codes() -> list[str]:
    return [rule.code for rule in catalogue()]


def _unknown(typed: str, option: str) -> UserError:
    near = get_close_matches(typed.upper(), _codes(), n=1, cutoff=0)
    return UserError(f"{option}: unknown rule {typed[:80]!r}; did you mean {near[0]!r}?")
