"""Foreign text as it may be printed and written."""

from __future__ import annotations


def printable(text: str, instead: str | None = None, keep: str = "") -> str:
    """Text that cannot move the cursor of the terminal it is printed on, or start a new line.

    Characters that are not printable become `instead`, by default their escapes; those in `keep` stay.
    """
    if text.isprintable():
        return text
    return "".join(
        char
        if char.isprintable() or char in keep
        else char.encode("unicode_escape").decode()
        if instead is None
        else instead
        for char in text
    )


def encodable(text: str) -> str:
    """Text that can be written as UTF-8: half a surrogate pair becomes its escape."""
    return text.encode("utf-8", "backslashreplace").decode()
