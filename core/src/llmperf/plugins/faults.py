"""Faults of plugins as PluginErrors of one line that names the plugin and the hook."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from io import StringIO
from pathlib import Path
from traceback import extract_tb
from typing import IO, TYPE_CHECKING, Any, TypeVar

from llmperf.errors import Interrupted, LlmperfError, PluginError, Terminated, UserError
from llmperf.plugins.asking import asking, supervised

if TYPE_CHECKING:
    from llmperf.plugins.discovery import Found

T = TypeVar("T")

SLOW_SECONDS = 5.0
"""A hook that should be quick may take this long before llmperf prints which plugin it waits for."""

MAX_ITEMS = 100_000
"""Items in one answer; a longer answer is taken to be endless."""


def printing_aside() -> redirect_stdout[IO[str]]:
    """Send what a plugin prints in this context to standard error: standard output is for llmperf alone."""
    return redirect_stdout(sys.stderr or StringIO())


@contextmanager
def blaming(found: Found, hook: str, *, limited: bool = True, prints: bool = False) -> Iterator[None]:
    """Turn any exception of a plugin's hook in this context into a PluginError of one line.

    Exceptions of the core's own hooks are not changed. Output of the hook goes to standard error. Meanwhile, the
    supervisor of this command knows which plugin is being called, unless the call may take as long as it likes. If
    the hook `prints` what the command prints, its output stays on standard output.
    """
    if found.role == "core":
        with printing_aside():
            yield
        return
    try:
        with asking(who(found), hook) if limited else nullcontext(), nullcontext() if prints else printing_aside():
            yield
    except (LlmperfError, Interrupted, Terminated):
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not supervised():
            raise
        raise PluginError(f"{who(found)}: {hook} raised {described(error)}") from error


@contextmanager
def report_if_slow(found: Found, hook: str) -> Iterator[None]:
    """Print a line on standard error if a hook takes long."""
    from threading import Timer

    timer = Timer(SLOW_SECONDS, print, [f"llmperf: still waiting for {hook} of {who(found)}"], {"file": sys.stderr})
    timer.daemon = True  # Ctrl-C does not wait for it
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def who(found: Found) -> str:
    """A plugin as errors name it: `vendor 'acme' (llmperf-acme)`."""
    return f"{found.role} {found.name!r} ({found.distribution})"


def described(error: BaseException) -> str:
    """An exception of a plugin in one line, with its place: `ValueError: no such thing (their_module.py, line 7)`."""
    place = extract_tb(error.__traceback__)[-1]
    return f"{named(error)} ({Path(place.filename).name}, line {place.lineno})"


def named(error: BaseException) -> str:
    """An exception of a plugin in one line, `ValueError: no such thing`, even if its message cannot be read."""
    try:
        message = str(error)
    except BaseException:
        message = "its message cannot be read"
    return " ".join(f"{type(error).__name__}: {message}".split())


def blamed_items(found: Found, hook: str, given: Iterable[Any]) -> Iterator[Any]:
    """The items of a hook's answer; PluginError if it is not a list, raises while it is read, or does not end."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise PluginError(f"{who(found)}: expected a list of {hook}, found {type(given).__name__}")
    with blaming(found, hook):
        items = iter(given)
    for _ in range(MAX_ITEMS):
        with blaming(found, hook):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item
    raise PluginError(f"{who(found)}: {hook} gave more than {MAX_ITEMS} items")


def of_kind(found: Found, hook: str, given: Any, kind: type[T]) -> T:
    """The answer of a hook, checked to be of a kind at every depth; PluginError otherwise."""
    from llmperf.files.json_files import reshaped

    if not isinstance(given, kind):
        raise PluginError(f"{who(found)}: expected a {kind.__name__} of {hook}, found {type(given).__name__}")
    try:
        with blaming(found, hook):  # properties of the answer may raise
            return reshaped(given, kind, hook)
    except PluginError:
        raise
    except UserError as error:
        raise PluginError(f"{who(found)}: {error}") from None
