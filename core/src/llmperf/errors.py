"""The exceptions of llmperf.

    Exception
    └── LlmperfError         anything llmperf raises on purpose
        ├── UserError        bad input: one line to the user, exit code 2, no traceback
        │   ├── DataError    data that cannot be used
        │   ├── Refused      several reasons at once, a line each
        │   └── PluginError  a plugin cannot be used: missing, broken, in conflict, or answering what it may not
        └── RunFailed        a run ended without a complete result; the run folder says why, exit code 1

    BaseException
    ├── KeyboardInterrupt
    │   └── Interrupted      the command received SIGINT
    └── Terminated           the command received SIGTERM or SIGHUP

Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class LlmperfError(Exception):
    """Anything that llmperf raises on purpose."""


class UserError(LlmperfError):
    """Bad input, in one line: where, what was expected, what was found, the nearest valid choice."""

    exit_code = 2


class DataError(UserError):
    """Data that cannot be used: the setting that selects them, and what is wrong."""

    def __init__(self, where: str, message: str) -> None:
        super().__init__(f"{where}: {message}")
        self.where = where
        self.message = message


class Refused(UserError):
    """Several reasons why something cannot be done, a line each."""

    def __init__(self, heading: str, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n  ".join([heading, *self.lines]))


class PluginError(UserError):
    """A plugin that cannot be used, with the reason; only runs that need the plugin stop."""


class PluginImportError(PluginError):
    """The module of a plugin cannot be imported."""


class RunFailed(LlmperfError):
    """A run ended without a complete result."""

    exit_code = 1


class Interrupted(KeyboardInterrupt):
    """The command received SIGINT. Other KeyboardInterrupts are raised by plugins or libraries."""


class Terminated(BaseException):
    """The command received SIGTERM or SIGHUP; temporary files are removed before it ends."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"ended by signal {number}")


def unknown(where: str, kind: str, found: str, choices: Iterable[str], *, listing: str | None = None) -> UserError:
    """The error for a name that is none of `choices`, such as `unknown framework 'zer'; did you mean 'zero'?`."""
    from difflib import get_close_matches

    names, where = sorted(choices), where and f"{where}: "
    near = get_close_matches(found.lower(), [name.lower() for name in names], n=1, cutoff=0.5)
    if near:
        nearest = next(name for name in names if name.lower() == near[0])
        return UserError(f"{where}unknown {kind} {found!r}; did you mean {nearest!r}?")
    if listing is not None:
        like = ", ".join(get_close_matches(found.lower(), names, n=3, cutoff=0)) or "none"
        return UserError(f"{where}unknown {kind} {found!r}; nearest: {like}; `{listing}` lists those that exist")
    listed = ", ".join(names) if names else "none"
    return UserError(f"{where}unknown {kind} {found!r}; expected one of: {listed}")


def absent_name(module: str, name: str, moved: Mapping[str, str]) -> Exception:
    """The error for a name that a module lacks, to be raised by the module's `__getattr__`.

    `moved` has what replaces each name that the module once had, such as `llmperf_vendorkit.PeakTable`. For those it is
    an ImportError, because Python drops the text of an AttributeError in `from MODULE import NAME`.
    """
    if name in moved:
        return ImportError(f"{module}.{name} is now {moved[name]}", name=name)
    return AttributeError(f"module {module!r} has no attribute {name!r}")
