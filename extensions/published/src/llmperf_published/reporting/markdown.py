"""An imported document as Markdown again, in the order of its source; its tables cell by cell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from llmperf.reporting import markdown_text, word

from llmperf_published.reading.vocabulary import vocabulary
from llmperf_published.types.document import Published, Section, Table

WHOLE = 20_000
"""Characters of a cell or a line: as many as are read."""
_RISKY = re.compile(r"<(?!br\s?/?>)|[\[\]`|]", re.IGNORECASE)
"""Characters that may begin a tag, a link, code or a cell; a line break is harmless."""
_HEADINGS = {
    "hardware": "Hardware", "software": "Software", "parallelism": "Parallelism",
    "optimisation": "Optimisation strategy", "batch": "Batch", "general": "General", "performance": "Performance",
}  # fmt: skip
_PLAIN = re.compile(r"\\([!-/:-@\[-`{-~])")


def published_markdown(published: Published, language: str = "en") -> str:
    """The whole document; headings and labels as printed where that is the language, else translated if known."""
    translated = language != published.source.language
    lines = [f"### {_escaped(published.title or published.source.name)}", ""]
    names = {entry.line: entry.name for one in published.sections if one.kind == "general" for entry in one.entries}
    parts: list[Section | Table] = [*published.sections, *published.tables]
    into = language if translated else None
    for part in sorted(parts, key=lambda one: one.line):
        if isinstance(part, Table):
            lines += _table(part, names, into)
        elif part.kind != "general":
            lines += [f"#### {_escaped(word(_HEADINGS[part.kind], into) if into else part.heading)}", ""]
            for entry in part.entries:
                label = f"{_escaped(_title(entry.name, entry.label, into))}: " if entry.label else ""
                lines.append(f"- {label}{_escaped(entry.text)}")
            lines.append("")
    lines += _remarks("Notes", [(one.line, one.text) for one in published.notes], language)
    unread = [(one.line, f"{one.text} ({one.reason})") for one in published.unread]
    lines += _remarks("Not understood", unread, language)
    return "\n".join(lines).rstrip("\n") + "\n"


def _title(name: str | None, printed: str, language: str | None, part: str = "titles") -> str:
    """A label or header in a language; as printed without one, and where its meaning has one word in both."""
    titles = {**vocabulary("titles"), **vocabulary(part)}
    return str(titles[name][language == "zh"]) if language is not None and name in titles else printed


def _table(table: Table, names: Mapping[int, str | None], language: str | None) -> Iterator[str]:
    """A table with its heading; `language` translates what is known, `names` the labels of the general table."""
    heading = table.heading
    if language is not None and table.kind in _HEADINGS:
        heading = word(_HEADINGS[table.kind], language)
    if heading:  # CSV has none
        yield from (f"#### {_escaped(heading)}", "")
    rows: list[Sequence[str]] = [[_title(one.name, one.header, language) for one in table.columns]]
    for row in table.rows:
        cells = row.cells
        if table.kind == "general" and cells:
            cells = (_title(names.get(row.line), cells[0], language, "metric_titles"), *cells[1:])
        rows.append(cells)
    lines = ["| " + " | ".join(map(cell, cells)) + " |" for cells in rows]
    yield from (lines[0], "|" + " --- |" * len(table.columns), *lines[1:], "")


def cell(raw: str) -> str:
    """A cell as its source has it, where nothing but emphasis and escapes is in it; else its text, escaped."""
    if raw.isprintable() and not _RISKY.search(raw):
        return raw
    return _escaped(_PLAIN.sub(r"\1", raw))


def _escaped(text: str) -> str:
    return markdown_text(text, WHOLE)


def _remarks(heading: str, remarks: Sequence[tuple[int, str]], language: str) -> Iterator[str]:
    """Remarks with the line of the source that they stand in."""
    if remarks:
        yield from (f"#### {word(heading, language)}", "")
        yield from (f"- {word('line', language)} {line}: {_escaped(text)}" for line, text in remarks)
        yield ""
