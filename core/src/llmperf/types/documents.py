"""Kinds of document, the rules that documents are checked with, and the findings of one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from llmperf.types.frozen import dataclass
from llmperf.types.result import Finding

if TYPE_CHECKING:
    from llmperf.types.plan import Plan
    from llmperf.types.result import Result
    from llmperf.types.sheet import Baseline, Row, Section, Sheet


Severity = Literal["error", "warning", "note"]
Violation = tuple[str, str]
"""JSON pointer into the document, and one line that says what was expected and what was found."""

UNREADABLE = "LP001"
"""Code of the finding for a file that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule over documents, as `llmperf validate` applies it."""

    code: str
    """Stable and unique: a prefix of the package's own and a number, such as `ACME1`. `LP` is the project's prefix."""
    severity: Severity
    """Only an error makes a document invalid."""
    title: str
    """One line that says what holds for a valid document."""
    kinds: tuple[str, ...] = ("result",)
    """Names of the kinds of document that the rule applies to."""
    check: Callable[[Any], Iterable[Violation]] | None = None
    """Takes a document and yields its violations. None for a rule that is applied while a file is read."""
    page: str | Path | None = None
    """Page for `llmperf validate --explain CODE`: Markdown text, or the path of a Markdown file below the plugin's
    package. None means the entry CODE of `data/rules.toml` there, or `data/rules/CODE.md`."""

    def finding(self, path: str, message: str, more: int = 0) -> Finding:
        """A violation of this rule; `more` is the number of further violations that are not listed."""
        return Finding(code=self.code, severity=self.severity, path=path, message=message, more=more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Outcome of checking one row of a document, such as a row of a published table."""

    line: int
    """Line of the row in its source."""
    outcome: Literal["agrees", "wrong", "not checked"]
    """`agrees`: the figures of the row were computed again and are right. `wrong`: some rule has an error."""
    why: tuple[str, ...]
    """The check of the row, the codes of its errors, or what is missing to check it."""

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"line": self.line, "verdict": self.outcome, "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Figures that no two documents share, unless one is a copy of the other."""

    pointer: str
    """JSON pointer of the figures. Of several fingerprints with one pointer, the first repeated one is reported."""
    figures: tuple[str, ...]
    """The figures as text."""
    identity: str | None = None
    """Identity of the thing that has these figures, if it may be read twice; None means the file."""
    place: str = ""
    """Appended to the file's path in messages: `, line 57`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFindings:
    """Findings of validation in one file."""

    path: Path
    kind: str | None = None
    """Name of the kind of document; None for a file that could not be recognised or read."""
    findings: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...] = ()
    """One for each row, for kinds with rows."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of the file by JSON pointer, for kinds whose pointers do not lead into the file's own text."""
    seconds: float | None = None
    """Time that validation took; None where it was not measured."""

    @property
    def unreadable(self) -> bool:
        """The file could not be read."""
        return any(finding.code == UNREADABLE for finding in self.findings)

    @property
    def failed(self) -> bool:
        """Any finding is an error."""
        return any(finding.severity == "error" for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind:
    """One kind of document: how its files are recognised, read, checked and reported.

    The core asks in this order: `recognise`; then `judge`, or else `read`, or else `values`, `schema` and `type`; then
    the rules whose `kinds` name this kind; then `in_place`, `fingerprints` and `verdicts`.
    """

    name: str
    """Unique, such as `result`."""
    title: str
    """The kind in messages, such as `a result`."""
    suffixes: tuple[str, ...]
    """Endings of its file names, in lower case: `(".json",)`."""
    recognise: Callable[[Path, Callable[[], str], bool], bool]
    """Function that recognises files of this kind among those with such an ending. Arguments: path; a function that
    reads its first 4096 characters and may raise OSError; True if the user named the file, not a folder above it."""
    judge: Callable[[Path, Any], Iterable[FileFindings]] | None = None
    """Validates a file; the second argument is the `llmperf.validation.Validator`. UserError if it cannot be read."""
    read: Callable[[Path, bool], Any] | None = None
    """Reads a file that is not JSON into the document. Arguments: its path, and whether the user named the file. None:
    the file is not of this kind after all. UserError for a file that cannot be read."""
    values: Callable[[Path], Any] | None = None
    """Reads a file that is not JSON into the plain values that the schema describes."""
    schema: Callable[[], Mapping[str, Any]] | None = None
    """The JSON Schema, draft 2020-12."""
    type: Callable[[], type] | None = None
    """The dataclass that the values are converted to."""
    plugins: Callable[[Any], Iterable[tuple[str, str]]] | None = None
    """Role and name of the vendors and frameworks that the document names; their rules and reporters are used too."""
    in_place: Callable[[Any, Path, bool], Iterable[Finding]] | None = None
    """Findings that need the file's surroundings. Arguments: the document, its path, and whether it is submitted, in
    which case the files that it was made from must be there."""
    fingerprints: Callable[[Any], Iterable[Fingerprint]] | None = None
    """Figures that are reported if another document has the same."""
    line_of: Callable[[Any, str], int | None] | None = None
    """Line of the source that a JSON pointer into the document leads to."""
    verdicts: Callable[[Any, Sequence[Finding]], Sequence[Verdict]] | None = None
    """One verdict for each row, from the document and all findings of rules, also those that are not listed."""
    closing: Callable[[Sequence[Verdict]], str] | None = None
    """One line on the rows of all files."""
    unpack: Callable[[Path], AbstractContextManager[Path]] | None = None
    """Opens an archive: a folder with its documents, gone when the context ends. UserError if it cannot be unpacked, or
    its files are not those that were packed. Inside an archive, such files are not judged."""
    silent: bool = False
    """Files of this kind in a folder are passed over without a message, as llmperf wrote them itself. Such kinds are
    recognised before all others."""
    sheets: Callable[[Any, Path, Sequence[Finding]], Iterable[Sheet]] | None = None
    """The runs that a document describes, for reports; None for a kind that cannot be reported."""
    result_rows: Callable[[Path], Iterable[Row]] | None = None
    """Rows that documents of this kind add to the sheet of a result beside them, in its overview and, of those with a
    text, in its status. The argument is the file of the result."""
    baselines: Callable[[Any, Path], Iterable[Baseline]] | None = None
    """The figures of a document with which runs can be compared."""
    shipped: Path | None = None
    """A folder of documents of this kind that the package ships, for `--baseline NAME`."""
    summary: Callable[[Sequence[tuple[Path, Any]]], Section] | None = None
    """A table of many documents, each with its file, for `llmperf summary`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSection:
    """Optional figures of results, under `sections.NAME` of `result.json`."""

    name: str
    """Lower-case letters, digits and underscores, a letter first."""
    figures: type
    """A frozen dataclass with fields that JSON can hold. It is the schema of the section."""
    compute: Callable[[Plan, Result, Path], Any]
    """The figures, or None, of a plan, of its result without sections, and of the records in its run folder. `llmperf
    validate` computes them again, so that they must follow from these alone."""
    rows: Callable[[Any, Result], Iterable[Row]] = lambda figures, result: ()
    """Rows of the sheet for figures and their result; none unless given."""

    def of(self, result: Result) -> Any:
        """The figures in a result; None if it has none, or values that do not fit `figures`, which LP016 reports."""
        import msgspec

        try:
            return msgspec.convert(result.sections[self.name], type=self.figures)
        except (KeyError, msgspec.ValidationError):
            return None
