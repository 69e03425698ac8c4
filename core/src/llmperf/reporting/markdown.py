"""Sheets as Markdown: one run as a document in the order of the published READMEs, several below a table of all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from llmperf.reporting.language import require
from llmperf.reporting.overview import columns_of, notes, ordered, overview_cells
from llmperf.reporting.result_sheets import result_sheet
from llmperf.reporting.words import markdown_text, printable, recorded, value_text, word
from llmperf.types import Finding, Result, Section, Sheet, Source

TITLE = "Configuration and results"
"""First heading of a report."""
AS_TABLES = ("general",)
"""Sections whose labelled rows are a table, as in the published READMEs; the others are lists."""
BACKSLASH = r"\\"
"""Escape for a character that would begin a heading or a list inside an item."""
SEVERITIES = ("error", "warning", "note")
"""Severities in the order in which findings of several runs are listed."""
MAX_INDENT = 40
"""Spaces before a line of a log."""


class MarkdownReporter:
    """`llmperf report --format markdown`."""

    name = "markdown"

    def render(self, sheets: Sequence[Sheet], language: str) -> str:
        """The document of one run, or a table of several followed by the document of each, in the table's order."""
        sources: dict[int, tuple[Source, list[Sheet]]] = {}
        for sheet in sheets:
            sources.setdefault(id(sheet.source), (sheet.source, []))[1].append(sheet)
        if len(sources) == 1:
            return "".join(_documents(sheets, language))
        by_content = sorted(sheets, key=lambda sheet: tuple(overview_cells(sheet)))
        rows = ordered(by_content)  # runs of equal speed come in the same order, whatever the order of `sheets`
        count = word("{all} run" if len(rows) == 1 else "{all} runs", language).format(all=len(rows))
        columns = columns_of(rows)
        headers = [column.title for column in columns.values()]
        lines = [f"# {word(TITLE, language)}, {count}", ""]
        lines += markdown_table(headers, (overview_cells(row, columns, language) for row in rows), language)
        for note in notes(rows, columns, language):
            lines += ["", markdown_text(note)]
        lines += [*_findings_of_all(rows, language), ""]
        for text in _documents(rows, language):  # with headings shifted so that its title is of level 2
            first = text[: len(text) - len(text.lstrip("#"))]
            lines.append(re.sub(f"(?m)^{first}(?=#* )", "##", text) if first else text)
        return "\n".join(lines)


def render_results(results: Sequence[Result], language: str = "en") -> str:
    """Measured results as one document."""
    return MarkdownReporter().render([result_sheet(result) for result in results], language)


def rendered_again(text: str, results: Sequence[Result], what: str) -> str:
    """Render results in the language of an earlier text; UserError that names `what` needs it if that is absent."""
    language = require("en" if TITLE in text.partition("\n")[0] else "zh", what)
    return render_results(results, language).encode("utf-8", "backslashreplace").decode()


def _documents(sheets: Sequence[Sheet], language: str) -> Iterator[str]:
    """The document of each run, then the documents of kinds with a form of their own."""
    own: dict[int, Source] = {}
    for sheet in sheets:
        if sheet.source.markdown is None:
            lines = [f"# {markdown_text(sheet.title)}, {word(TITLE, language)}, {markdown_text(sheet.name)}"]
            sections = [section for section in sheet.sections() if not section.card]
            failures = [section for section in sections if section.key == "failure"]
            for section in failures:
                lines += _section(section, language)
            if sheet.measured:
                lines += _findings(sheet.findings, bool(failures), language)
            for section in sections:
                if section not in failures:
                    lines += _section(section, language)
            yield "\n".join(lines) + "\n"
        else:
            own.setdefault(id(sheet.source), sheet.source)
    for source in own.values():
        if source.markdown is not None:
            yield source.markdown(language)


def _heading(level: int, title: str, language: str) -> list[str]:
    return ["", f"{'#' * level} {word(title, language)}"]


def _section(section: Section, language: str) -> Iterator[str]:
    yield from _heading(section.level, section.title, language)
    if section.rows or section.records or section.lines:
        yield ""
    if section.key in AS_TABLES:
        yield from markdown_table(
            ("item", "value"),
            ((word(row.label, language), value_text(row, language)) for row in section.rows),
            language,
        )
    else:
        for row in section.rows:
            value = markdown_text(value_text(row, language))
            if row.label:
                yield f"- {markdown_text(word(row.label, language))}: {value}"
            else:
                yield f"- {re.sub('^(?=[#>+=-])', BACKSLASH, value)}"
    if section.records:
        headers = [row.label for row in section.records[0]]
        records = ([value_text(row, language) for row in record] for record in section.records)
        yield from markdown_table(headers, records, language)
    if section.lines:
        yield ""
    for line in section.lines:
        indent = min(len(line) - len(line.lstrip(" ")), MAX_INDENT)
        yield f"    {' ' * indent}{printable(line)}"


def markdown_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], language: str, right: Sequence[bool] = ()
) -> Iterator[str]:
    """The lines of a table; columns of figures are aligned to the `right`."""
    yield f"| {' | '.join(markdown_text(word(header, language)) for header in headers)} |"
    yield "|" + "".join(" ---: |" if place < len(right) and right[place] else " --- |" for place in range(len(headers)))
    yield from (f"| {' | '.join(map(markdown_text, row))} |" for row in rows)


def _findings_of_all(sheets: Sequence[Sheet], language: str) -> Iterator[str]:
    """One line for each code: how many runs have it, and the first of them; nothing if none has any."""
    by_code: dict[tuple[str, str], list[tuple[Sheet, Finding]]] = {}
    for sheet in sheets:
        for finding in {finding.code: finding for finding in reversed(sheet.findings)}.values():
            by_code.setdefault((finding.severity, finding.code), []).append((sheet, finding))
    if not by_code:
        return
    yield from _heading(2, "Findings", language)
    yield ""
    for (severity, code), found in sorted(by_code.items(), key=lambda each: (SEVERITIES.index(each[0][0]), each[0][1])):
        sheet, finding = found[0]
        count = word("{all} run" if len(found) == 1 else "{all} runs", language).format(all=len(found))
        where = f"{markdown_text(sheet.name)}: {markdown_text(recorded(finding.message, language))}"
        yield f"- {markdown_text(code)} {word(severity, language)}, {count}: {where}"


def _findings(findings: Sequence[Finding], failed: bool, language: str) -> Iterator[str]:
    yield from _heading(2, "Findings", language)
    yield ""
    if not findings:
        yield word("The run failed; nothing else was found." if failed else "No findings.", language)
    for finding in findings:
        severity = word(finding.severity, language)
        place = f"{markdown_text(finding.code)} {severity} {markdown_text(finding.path)}"
        yield f"- {place}: {markdown_text(recorded(finding.message, language))}"
