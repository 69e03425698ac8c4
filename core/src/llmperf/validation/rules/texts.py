"""Texts of a document that would change what a terminal shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llmperf.files.json_files import builtins, encode
from llmperf.types import Result, Text, Violation
from llmperf.validation.reading import pointer, shown
from llmperf.validation.violations import rule

if TYPE_CHECKING:
    from llmperf.types import Plan

CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""All but tabs and ends of lines."""
ENCODED = re.compile(rb"\\u00[01]|\\[bf]|\x7f|\xc2[\x80-\x9f]")
"""The same in JSON, and little else."""
FREE = (("failure",), ("worker", "files"))
"""Output of programs, and files that a rank reads: they are what they are."""


@rule("LP668", "error", "Texts have no control characters", "result", "plan")
def no_control_characters(document: Result | Plan) -> Iterator[Violation]:
    """No text but the log of a failed run has characters that move the cursor of a terminal or change its colours.

    Only the first one is reported.
    """
    if ENCODED.search(encode(document)) is None:
        return
    for parts, text in _texts(builtins(document), ()):
        if CONTROL.search(text) is not None and not any(parts[: len(free)] == free for free in FREE):
            yield pointer(parts), Text("expected a text without control characters, found {}", shown(text))
            return


def _texts(value: Any, parts: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text of a document, also the keys of objects, with its place."""
    if isinstance(value, str):
        yield parts, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*parts, key[:200]), key
            yield from _texts(inner, (*parts, key[:200]))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*parts, index))
