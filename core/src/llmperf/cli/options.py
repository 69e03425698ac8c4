"""Names that options take: such as can be written into plans and results, which are UTF-8."""

from __future__ import annotations

import os
from typing import Any

import click


def is_utf8(text: str) -> bool:
    """Whether a text from the command line was UTF-8 there."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Text(click.types.StringParamType):
    """A text that was UTF-8."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text; click's error if its bytes were no UTF-8."""
        text = super().convert(value, param, ctx)
        if not is_utf8(text):
            self.fail(f"{text!r} is not UTF-8 text.", param, ctx)
        return text


class Folder(click.Path):
    """The name of a folder: UTF-8, and not empty, which would mean the folder one is in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; click's error if there is no name or its bytes were no UTF-8."""
        if not os.fspath(value):
            self.fail("expected a folder, found an empty name.", param, ctx)
        if not is_utf8(os.fspath(value)):
            self.fail(f"{os.fspath(value)!r} is not UTF-8 text.", param, ctx)
        return super().convert(value, param, ctx)
