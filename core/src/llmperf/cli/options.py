"""Types of options: finite numbers, seconds, parts, and names that plans and results can contain, which are UTF-8."""

from __future__ import annotations

import math
import os
from typing import Any

import click


def is_utf8(text: str) -> bool:
    """Whether a text was valid UTF-8 on the command line."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Text(click.types.StringParamType):
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


class Part(click.types.StringParamType):
    """`I/N`: a part of a matrix."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Both numbers; click's error unless I is from 1 to N."""
        if isinstance(value, tuple):
            return value
        part, slash, parts = str(value).partition("/")
        if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts) <= 10_000):
            self.fail(f"expected I/N with I from 1 to N, such as 2/4; found {value!r}.", param, ctx)
        return int(part), int(parts)
