"""Sheets for a terminal: one run as a card, several as the rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmperf.reporting.overview import columns_of, notes, ordered, overview_cells, rerun_line
from llmperf.reporting.text_table import Paint, TextTable, fitted, laid_out, wrapped_cell
from llmperf.reporting.words import finding_text, printable, sentence, value_text, word
from llmperf.types import Row, Sheet

SHORT = (
    *("", "disturbed", "verification", "case", "model", "devices", "framework", "batch", "step_seconds", "stragglers"),
    *("loss", "rank_peak_bytes", "energy"),
)
"""Rows of a card without `--verbose`, beside those of a failure, of changes from the case, and of a missing peak."""
WIDE = "--wide, --format csv"
"""Options that show the columns for which a terminal has no room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalReporter:
    """`llmperf report --format terminal`."""

    width: int | None = None
    """Columns of the terminal; None for no limit."""
    paint: Paint | None = None
    """Colours a status."""
    verbose: bool = False
    """A card has every row."""

    @property
    def name(self) -> str:
        """The name for `--format`."""
        return "terminal"

    def render(self, sheets: Sequence[Sheet], language: str) -> str:
        """The card of a measured run, or a table of several runs and of published ones."""
        if len(sheets) == 1 and sheets[0].measured:
            rerun = rerun_line(sheets, language)
            text = "\n".join([card(sheets[0], language, self.paint, self.verbose), *([] if rerun is None else [rerun])])
            return fitted(text, self.width) + "\n"
        chosen = columns_of(sheets)
        rows = [[printable(cell) for cell in overview_cells(sheet, chosen, language)] for sheet in ordered(sheets)]
        columns = [replace(column, title=word(column.title, language)) for column in chosen.values()]
        table = laid_out(columns, rows, self.width, self.paint)
        lines = left_out_text(table, language, WIDE) + notes(sheets, chosen, language)
        rerun = None if self.width is None else rerun_line(sheets, language)  # a pipe gets a line for each run
        lines += [] if rerun is None else [rerun]
        lines += closing_lines(sheets, language)
        if self.width is not None:
            lines = ["\n".join(wrapped_cell(line, self.width)) for line in lines]
        return f"{table.text}\n" + "".join(f"\n{line}\n" for line in lines)


def card(sheet: Sheet, language: str = "en", paint: Paint | None = None, verbose: bool = False) -> str:
    """One run as a verdict, labels and values, with its findings below: the text at the end of `llmperf run`."""
    from tabulate import tabulate

    head, lines = list[str](), list[tuple[str, str]]()
    for section in (section for section in sheet.sections() if section.card):
        head += [*(printable(word(line, language)) for line in section.lines), *[""] * bool(section.lines)]
        for row in section.rows:
            value = printable(value_text(row, language))
            if section.key == "performance" and not (verbose or _telling(row, value)):
                continue
            shown = paint(value, value) if paint and row.key == "status" else value
            lines.append((printable(word(row.label, language)), shown))
    table = tabulate(lines, tablefmt="plain", disable_numparse=True)
    return "\n".join([*head, table, *(finding_text(finding, language) for finding in sheet.findings)])


def _telling(row: Row, value: str) -> bool:
    """Check whether a card has this row without `--verbose`."""
    unusual = {"status": row.value != "complete", "fix_hp": value != "/", "peak_flops_per_second": not row.value}
    return unusual.get(row.key, row.key in SHORT or row.key.startswith("evaluation_"))


def closing_lines(sheets: Sequence[Sheet], language: str) -> list[str]:
    """Lines of each kind of document about all of its sheets, such as how many published rows were checked."""
    by_kind: dict[str, list[Sheet]] = {}
    for sheet in sheets:
        by_kind.setdefault(sheet.source.kind, []).append(sheet)
    closings = [(members[0].source.closing, members) for members in by_kind.values()]
    return [printable(word(closing(members), language)) for closing, members in closings if closing is not None]


def left_out_text(table: TextTable, language: str, remedy: str) -> list[str]:
    """One line on the columns that do not fit the terminal and the option that shows them; none if all fit."""
    missing = [*table.left_out, *[word("the ends of long cells", language)] * table.cut]
    columns = ", ".join(missing)
    text = sentence("left out to fit the terminal: {columns} ({remedy})", language, columns=columns, remedy=remedy)
    return [text] if missing else []
