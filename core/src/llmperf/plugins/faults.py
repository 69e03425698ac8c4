"""What a plugin does wrong, told in one line that names the plugin and the hook."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
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
"""How long a hook that should be quick may take before the user is told for whom it is that we wait."""

MAX_ITEMS = 100_000
"""Of one answer; more are an answer without an end."""


def printing_aside() -> redirect_stdout[IO[str]]:
    """What a plugin prints in here goes to standard error, so that standard output holds our document alone."""
    return redirect_stdout(sys.stderr or StringIO())


@contextmanager
def blaming(found: Found, hook: str) -> Iterator[None]:
    """PluginError in one line for whatever a plugin's hook raises in here; what the core's raises stays as it is.

    What it prints goes to standard error. The supervisor of this command knows meanwhile who is being asked.
    """
    if found.role == "core":
        with printing_aside():
            yield
        return
    try:
        with asking(who(found), hook), printing_aside():
            yield
    except (LlmperfError, Interrupted, Terminated):
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not supervised():
            raise
        raise PluginError(f"{who(found)}: {hook} raised {_told(error)}") from error


@contextmanager
def told_if_slow(found: Found, hook: str) -> Iterator[None]:
    """A line on standard error when a hook takes long, so that nobody waits without knowing for whom."""
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


def _told(error: BaseException) -> str:
    """What a plugin raised, in one line: `ValueError: no such thing (their_module.py, line 7)`."""
    place = extract_tb(error.__traceback__)[-1]
    return f"{named(error)} ({Path(place.filename).name}, line {place.lineno})"


def named(error: BaseException) -> str:
    """An exception of a plugin in one line, `ValueError: no such thing`, also where its message cannot be read."""
    try:
        message = str(error)
    except BaseException:
        message = "its message cannot be read"
    return " ".join(f"{type(error).__name__}: {message}".split())


def blamed_items(found: Found, hook: str, given: Iterable[Any]) -> Iterator[Any]:
    """What a hook's answer holds, one by one; PluginError if it holds nothing, raises half way, or never ends."""
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
    """What a hook gave, if it is of a kind all the way down; PluginError if not."""
    from llmperf.files.json_files import reshaped

    if not isinstance(given, kind):
        raise PluginError(f"{who(found)}: expected a {kind.__name__} of {hook}, found {type(given).__name__}")
    try:
        with blaming(found, hook):  # what it gave may have properties of its own making
            return reshaped(given, kind, hook)
    except PluginError:
        raise
    except UserError as error:
        raise PluginError(f"{who(found)}: {error}") from None
