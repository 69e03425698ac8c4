"""HTML built from elements: whatever is not an element already is escaped, so that foreign text stays text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from llmperf.reporting import printable

LONGEST = 20_000
"""Characters of one text."""
EMPTY = frozenset({"br", "link", "meta", "rect", "wbr"})
"""Elements without content."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | None | Iterable["Child"]


def element(name: str, /, *children: Child, **attributes: str | int | float | None) -> Html:
    """An element of HTML or XML without what is None; of attributes, `_` becomes `-`, `__` `:`, `class_` `class`."""
    named = "".join(
        f' {key.rstrip("_").replace("__", ":").replace("_", "-")}="{escape(printable(str(value), LONGEST))}"'
        for key, value in attributes.items() if value is not None
    )  # fmt: skip
    if name in EMPTY:
        return Html(f"<{name}{named}/>")
    return Html(f"<{name}{named}>{joined(children)}</{name}>")


def joined(children: Iterable[Child], between: str = "") -> Html:
    """Children one after the other."""
    return Html(between.join(map(_text, children)))


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return escape(printable(child, LONGEST))
    return joined(child)
