"""Types of options: finite numbers, seconds, and names for plans and results, which are UTF-8."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

T = TypeVar("T", bound=Callable[..., Any])


def is_utf8(text: str) -> bool:
    """Check whether a text was valid UTF-8 on the command line."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def paths_argument(name: str = "paths", metavar: str = "PATH...") -> Callable[[T], T]:
    """Files and folders, at least one; a shell offers runs."""
    from pathlib import Path

    from llmperf.cli.completion import run_folders

    return click.argument(name, metavar=metavar, nargs=-1, required=True, type=click.Path(path_type=Path),
                          shell_complete=run_folders)  # fmt: skip


class Utf8(click.types.StringParamType):
    """A text in UTF-8."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text; click's error if it is not UTF-8."""
        text = super().convert(value, param, ctx)
        if not is_utf8(text):
            self.fail(f"{text!r} is not UTF-8 text.", param, ctx)
        return text


class Folder(click.Path):
    """The name of a folder, in UTF-8. An empty name would mean the current folder and is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; click's error for an empty name or one that is not UTF-8."""
        if not os.fspath(value):
            self.fail("expected a folder, found an empty name.", param, ctx)
        if not is_utf8(os.fspath(value)):
            self.fail(f"{os.fspath(value)!r} is not UTF-8 text.", param, ctx)
        return super().convert(value, param, ctx)


class Finite(click.FloatRange):
    """A finite number in a range. Comparisons with nan would never fail."""

    what = "finite number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; click's error if it is not a finite number in the range."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a {self.what}.", param, ctx)
        return number


class Seconds(Finite):
    """A number of seconds, at least 1."""

    what = "number of seconds"

    def __init__(self) -> None:
        super().__init__(min=1)
