"""Faults of plugins as PluginErrors of one line that names the plugin and the hook."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import fields, is_dataclass
from io import StringIO
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, TypeVar

from llmperf.errors import Interrupted, LlmperfError, PluginError, Terminated, UserError
from llmperf.files.text import printable
from llmperf.plugins.asking import asking

if TYPE_CHECKING:
    from llmperf.plugins.own_packages import Found

T = TypeVar("T")

SLOW_SECONDS = 5.0
"""A hook that should be quick may take this long before llmperf prints which plugin it waits for."""

MAX_ITEMS = 100_000
"""Items in one answer; a longer answer is taken to be endless."""
MAX_ANSWERS = 100
"""Answers to a hook that may give one or several."""
MAX_CHARACTERS = 2**20
"""Most characters of all texts in one answer of a vendor, which commands print and plans keep."""

_packages: dict[str, Found] = {}
"""The plugins that were called so far, by the top package of their module."""


def printing_aside() -> redirect_stdout[IO[str]]:
    """Send what a plugin prints in this context to standard error: standard output is for llmperf alone."""
    return redirect_stdout(sys.stderr or StringIO())


@contextmanager
def blaming(found: Found, hook: str, *, limited: bool = True, prints: bool = False) -> Iterator[None]:
    """Turn any exception of a plugin's hook in this context into a PluginError of one line.

    Output goes to standard error, unless the hook `prints`. In a child process, time is `limited`.
    """
    if found.role == "core":
        with printing_aside():
            yield
        return
    import threading

    _packages[found.module.split(".")[0]] = found
    threading.excepthook = _of_thread
    try:
        with asking(who(found), hook) if limited else nullcontext(), nullcontext() if prints else printing_aside():
            yield
    except (LlmperfError, Interrupted, Terminated, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginError(f"{who(found)}: {hook} raised {described(error)}") from error


def _of_thread(args: Any) -> None:
    """One line for an exception that ended a thread of a plugin; the traceback for other threads."""
    from traceback import walk_tb

    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(args.exc_traceback)]
    owner = next((found for name in modules if (found := _packages.get(name.split(".")[0])) is not None), None)
    if owner is None or args.exc_value is None or sys.stderr is None:
        import threading

        threading.__excepthook__(args)
    else:
        print(f"llmperf: {printable(f'{who(owner)}: a thread raised {described(args.exc_value)}')}", file=sys.stderr)


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
    from traceback import extract_tb

    places = extract_tb(error.__traceback__)
    asked = [place for place in places if place.name != "__getattr__"]  # modules explain names that have moved there
    place = (asked or places)[-1]
    return f"{named(error)} ({os.path.basename(place.filename)}, line {place.lineno})"


def named(error: BaseException) -> str:
    """An exception of a plugin in one line, `ValueError: no such thing`, even if its message cannot be read."""
    try:
        message = str(error)
    except BaseException:
        message = "its message cannot be read"
    return " ".join(f"{type(error).__name__}: {message}".split())


def blamed_items(found: Found, hook: str, given: Iterable[Any], most: int = MAX_ITEMS) -> list[Any]:
    """The items of a hook's answer; PluginError if it is not a list, raises while it is read, or does not end."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise PluginError(f"{who(found)}: expected a list of {hook}, found {type(given).__name__}")
    with blaming(found, hook):
        items = list(islice(given, most + 1))
    if len(items) > most:
        raise PluginError(f"{who(found)}: {hook} gave more than {most} items")
    return items


def of_kind(found: Found, hook: str, given: Any, kind: type[T]) -> T:
    """The answer of a hook, checked to be of a kind at every depth; PluginError otherwise."""
    from llmperf.files.json_files import reshaped

    if not isinstance(given, kind):
        raise PluginError(f"{who(found)}: expected a {kind.__name__} of {hook}, found {type(given).__name__}")
    try:
        with blaming(found, hook):  # properties of the answer may raise
            answer = reshaped(given, kind, hook)
        if found.role == "vendor" and _characters(answer, MAX_CHARACTERS) > MAX_CHARACTERS:
            raise PluginError(f"{who(found)}: {hook}: expected texts of at most {MAX_CHARACTERS} characters together")
        return answer
    except PluginError:
        raise
    except UserError as error:
        raise PluginError(f"{who(found)}: {error}") from None


def _characters(value: Any, most: int) -> int:
    """Length of all texts in a value, counted until it is beyond `most`."""
    if isinstance(value, str):
        return len(value)
    if is_dataclass(value):
        inner: Iterable[Any] = (getattr(value, field.name) for field in fields(value))
    elif isinstance(value, Mapping):
        inner = (part for pair in value.items() for part in pair)
    else:
        inner = value if isinstance(value, (list, tuple)) else ()
    total = 0
    for part in inner:
        if (total := total + _characters(part, most)) > most:
            break
    return total
