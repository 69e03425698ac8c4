"""Cells of the memory column: `32/40`, `70.09 * 8 GB`, `46.80*2 + 38.93*2 GB`."""

from __future__ import annotations

import re

from llmperf_published.reading.cell_text import normal, withheld
from llmperf_published.reading.numbers import NUMBER, number, whole
from llmperf_published.types.document import Figure, MemoryPart, PublishedMemory

MAX_PARTS = 1024
_UNIT = r"(?:[GMKT]i?B?|bytes)"
_PART = re.compile(rf"\s*({NUMBER})\s*({_UNIT})?(?:\s*[*x]\s*(\d{{1,6}}))?\s*({_UNIT})?\s*", re.IGNORECASE)
_TOTAL = re.compile(rf"\s*({NUMBER})\s*({_UNIT})?\s*", re.IGNORECASE)


def memory(text: str, unit: str | None) -> PublishedMemory | None:
    """A cell's plain text; `unit` is what the document says where the cell does not. None if it is not understood."""
    if withheld(text):
        return PublishedMemory(text=text, used=(), total=None, unit=unit)
    used_text, bar, total_text = normal(text).partition("/")
    parts = [_PART.fullmatch(one) for one in used_text.split("+")[: MAX_PARTS + 1]]
    found = _TOTAL.fullmatch(total_text)
    if len(parts) > MAX_PARTS or (bar and found is None):
        return None
    used = []
    for part in parts:
        if part is None or (each := _figure(part[0].strip(), part[1])) is None:
            return None
        used.append(MemoryPart(each=each, devices=whole(part[3]) if part[3] else None))
    total = _figure(total_text.strip(), found[1]) if found else None
    printed = [part[4] or part[2] for part in parts if part is not None] + [found[2] if found else None]
    if len({one[0].lower() for one in printed if one}) > 1:
        return None
    return PublishedMemory(text=text, used=tuple(used), total=total, unit=next(filter(None, reversed(printed)), unit))


def _figure(text: str, digits: str) -> Figure | None:
    value = number(digits)
    return None if value is None or value < 0 else Figure(text=text, value=value, printed=digits.replace(",", ""))


def unit_in(text: str) -> str | None:
    """The unit of memory that an explanation names: GiB of `usually called device memory, in GiB`."""
    found = re.search(r"(?<![A-Za-z])([GMT]i?B)(?![A-Za-z])", normal(text), re.IGNORECASE)
    return found[1] if found else None
