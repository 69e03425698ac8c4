"""Findings of `llmperf compare` and `summary` for other programs: JUnit, GitHub and SARIF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from llmperf.reporting import overview_cells, printable
from llmperf.types import FileFindings, Finding, Result

from llmperf_compare.comparison import Comparison, limit_text, speed_line
from llmperf_compare.differences import difference_lines
from llmperf_compare.finding_formats import answer_findings
from llmperf_compare.kind_texts import disturbed_lines, short_text
from llmperf_compare.kinds import AnyComparison, BaselineComparison, Group
from llmperf_compare.ranked_kinds import ImportedRow

CODES = {
    "below-limit": "The throughput is below the required share of the baseline's.",
    "slower": "The throughput is significantly lower than the baseline's.",
    "faster": "The throughput is significantly higher than the baseline's.",
    "not-decided": "No difference of throughput is shown.",
    "contracts-differ": "The figures measure different things.",
    "no-baseline": "There is nothing to compare the throughput with.",
    "no-throughput": "No run is complete.",
    "unreadable": "A file among the runs cannot be read.",
    "imported": "A row of a document, which was not measured.",
    "disturbed": "Something else slowed the runs down.",
}
"""Each code, and what it means."""
Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One side of a comparison, or one kind of run: a test case of JUnit."""

    name: str
    path: Path
    """The result of its first run."""
    findings: tuple[Finding, ...]


def finding(code: str, severity: Severity, message: str) -> Finding:
    """One finding on a whole side or kind."""
    return Finding(code=code, severity=severity, path="", message=message)


def speed_findings(
    comparison: Comparison, sides: Mapping[str, Sequence[Result]], fail_below: float | None
) -> Iterator[Finding]:
    """Check whether the second side is fast enough against the first, and name all in which they differ."""
    reference, name = sides
    text = speed_line(comparison, name, reference).text
    code = "not-decided"
    severity: Severity = "note"
    if fail_below is not None and comparison.ratio < fail_below:
        code, severity, text = "below-limit", "error", limit_text(comparison, name, reference, fail_below)
    elif comparison.verdict in ("higher", "lower"):
        code, severity = ("faster", "note") if comparison.verdict == "higher" else ("slower", "warning")
    yield finding(code, severity, "; ".join([text, *(line.text for line in difference_lines(sides))]))


def figure_findings(comparison: BaselineComparison, alone: Severity, fail_below: float | None) -> Iterator[Finding]:
    """How runs compare with a figure from a document; `alone` is the severity where no figure fits."""
    name = short_text(comparison.group)
    if comparison.share is None:
        yield finding("no-baseline", alone, f"{name}: {comparison.why}")
        return
    text = f"{name} is {comparison.share:.2f} times as fast as {comparison.why}"
    if fail_below is not None and comparison.share < fail_below:
        yield finding("below-limit", "error", f"{text}; the limit is {fail_below:g}")
    else:
        yield finding("not-decided", "note", text)


def kind_findings(group: Group, comparison: AnyComparison | None, fail_below: float | None) -> Iterator[Finding]:
    """Findings about one kind of run: its speed against its baseline, its failures, its disturbed runs."""
    name = short_text(group)
    alone: Severity = "note" if fail_below is None else "error"
    if group.spread is None:
        yield finding("no-throughput", "error", f"{name}: none of {len(group.results)} runs is complete")
    elif isinstance(comparison, BaselineComparison):
        yield from figure_findings(comparison, alone, fail_below)
    elif comparison is not None and comparison.comparison is not None:
        sides = {"the baseline": comparison.baseline.results, name: group.results}
        yield from speed_findings(comparison.comparison, sides, fail_below)
    elif fail_below is not None:
        yield finding("no-baseline", alone, f"{name}: no baseline fits")
    yield from (finding("disturbed", "warning", line.text) for line in disturbed_lines(name, group.results))


def imported_finding(row: ImportedRow) -> Finding:
    """The finding for an imported row, which was not measured."""
    keys = ("tokens_per_second_per_device", "mfu_nominal", "status")
    speed, mfu, verdict = overview_cells(row.sheet, keys)
    text = f"{row.standing.model} on {row.entry.device}: {speed} token/p/s, MFU {mfu}; {verdict}; not measured"
    return finding("imported", "note", printable(text))


def document(checked: Sequence[Checked], wanted: str, command: str) -> str:
    """All findings as `junit`, `github` or `sarif`. JUnit has a test case for each side or kind."""
    kind, lines = command.replace(" ", "."), {} if wanted == "junit" else {"": 1}
    files = [FileFindings(path=each.path, kind=kind, findings=each.findings, lines=lines) for each in checked]
    return answer_findings(files, wanted, command, [each.name for each in checked], CODES)
