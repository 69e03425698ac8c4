"""Sheets of labelled rows: what reporters render, whatever kind of document they come from.

A kind of document makes one sheet for each run that it describes. Every reporter renders the same sheets, and
`llmperf.reporting.shown` turns each value into text, so that a figure has the same digits in every format.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, Protocol

from llmperf.types.frozen import dataclass
from llmperf.types.result import Finding, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """Rounding of a number in text."""

    style: Literal["decimals", "significant", "percent", "amount"]
    """`decimals`: digit groups and a fixed number of decimals; `significant`: that many significant digits; `amount`:
    the same, but large ones as whole numbers with digit groups; `percent`: a share of 1 in percent, with that many
    decimals, or three significant digits below 1 %."""
    digits: int
    """Decimals or significant digits."""
    divisor: int = 1
    """The value is divided by this first: 2**30 shows bytes in GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    title: str
    """Its header."""
    importance: int
    """1 is the last to be left out."""
    wraps: int | None = None
    """Width below which its cells do not wrap; None where they never do."""
    right: bool = False
    """Its cells are aligned to the right, as figures are."""
    note: str = ""
    """A sentence below a table of runs that has this column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One labelled value."""

    key: str
    """Stable name for programs: a column of CSV, a member of JSON. Empty for text that only people read."""
    label: str
    """English label, empty for none; reporters translate it by `llmperf_translations`."""
    value: str | int | float | bool | None
    """Exact value; None where unknown."""
    unit: str = ""
    """Unit of the exact value, such as `bytes`; empty where it has none."""
    rounding: Rounding | None = None
    """Rounding of a number; None shows all of its digits."""
    text: str | None = None
    """Shown in place of the value: digits as a document printed them, or a text composed of the parts."""
    parts: tuple[Row, ...] = ()
    """Rows that the text is composed of. Formats for programs list them in place of this row."""
    own_words: bool = False
    """The text is made of llmperf's own words, which reporters translate; a `Text` always is. Texts of users, documents
    and machines are never translated."""
    column: Column | None = None
    """Column of a row that an extension adds to `Sheet.overview` or has in a section of results; None for a row that
    tables of many runs do not show, and for those of the core's own columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Rows under one title: a list of labelled rows, or a table."""

    key: str
    """Stable name, such as `performance`."""
    title: str
    """English title."""
    rows: tuple[Row, ...] = ()
    """A list of labelled rows."""
    records: tuple[tuple[Row, ...], ...] = ()
    """A table: the rows of each record are its cells, and their labels are the headers."""
    lines: tuple[str, ...] = ()
    """Lines of a log, shown with their indentation."""
    level: Literal[2, 3] = 2
    """Level of the heading; 3 for a part of the section before it."""
    card: bool = False
    """The section sums up a run in a few rows. A terminal shows only such sections; whole documents, which show all the
    others, leave them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Values over steps or seconds: the median at each x, between the 5th and the 95th percentile."""

    x: tuple[float, ...]
    """Step or seconds."""
    low: tuple[float, ...]
    """5th percentile; the smallest value where no x has more than two."""
    middle: tuple[float, ...]
    """Median."""
    high: tuple[float, ...]
    """95th percentile; the largest value where no x has more than two."""
    of: int
    """Largest number of values at one x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Curves of a run over steps and over time."""

    by_name: Mapping[str, Curve]
    """`loss` and `step_seconds` by step; `memory_bytes`, `power_watts` and `utilisation_percent` by seconds;
    `step_ends`, the second at which rank 0 ended a step, by step."""
    window_seconds: float | None = None
    """Length of the measured window, which begins at second 0; None where it never began."""
    entropy: float | None = None
    """Known entropy of the data, nats per token."""
    warmup_steps: int = 0
    """The first steps, which are not measured."""
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of rank 0 in each of its phases, in their order."""
    traced_seconds: Mapping[str, float] = field(default_factory=dict)
    """Time of a traced step of rank 0 by kind of operation; the parts add up to the step, which the profiler slows
    down. Empty without a trace."""
    expected: Mapping[str, float] = field(default_factory=dict)
    """Expectations of formulas before the run: `step_seconds`, and `rank_peak_bytes` of the rank that needs most."""
    expected_basis: str = ""
    """Assumptions of the expected duration of a step, or the reason why there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The document that sheets were made from; the sheets of one document share it."""

    kind: str
    """Name of the kind of document: `result`, `published`, ..."""
    path: Path
    """File of the document."""
    document: Any
    """The document, as it was read."""
    markdown: Callable[[str], str] | None = None
    """The whole document in Markdown in a language, for kinds with a form of their own; None renders the sheets."""
    closing: Callable[[Sequence[Sheet]], str] | None = None
    """One line on all sheets of this kind, below a table of them."""
    archive: Path | None = None
    """The archive that `path` was unpacked from for a moment; None for a file."""
    member: Path | None = None
    """The file in the archive."""
    recorded: bool = False
    """A file in an archive lies beside records there."""

    @property
    def place(self) -> str:
        """The file, such as `submission.zip/RUN/result.json` for one in an archive."""
        return str(self.path if self.archive is None or self.member is None else self.archive / self.member)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One run, measured or published, as sections of labelled rows."""

    name: str
    """Name of the run: its run folder, or file and line of a published row."""
    title: str
    """One line that says what was run, for a heading."""
    source: Source
    """The document it was made from."""
    overview: tuple[Row, ...]
    """Its cells in a table of many runs, by key: `model`, `case`, `device`, `layout`, `tokens_per_second_per_device`,
    `mfu_nominal`, `final_loss`, `device_memory`, `fix_hp`, `status`, `run`. Other keys are optional."""
    sections: Callable[[], Iterable[Section]]
    """Makes the sections with everything that is known. A table of many runs does without them."""
    findings: tuple[Finding, ...] = ()
    """Findings of validation."""
    contract: Mapping[str, str] = field(default_factory=dict)
    """The contract, by path. Figures of sheets with another contract must not be compared."""
    setting: Mapping[str, str] = field(default_factory=dict)
    """Settings of the run, by English label: what explains a difference between two sheets of one contract."""
    repeats: Hashable = None
    """Equal for repeats of one run; None where it is not known what the sheet repeats."""
    measured: bool = True
    """The figures were measured by llmperf; False for published ones."""
    curves: Callable[[], Curves | None] | None = None
    """Reads the curves when called, or returns None without curves; None for results, and kinds without curves."""
    foreword: tuple[str, ...] = ()
    """Lines, in the reader's language, that a page shows above all sheets: the answer of the command that made them."""

    @property
    def figure(self) -> float | None:
        """token/p/s, by which sheets are ordered; None where unknown."""
        value = self.cell("tokens_per_second_per_device").value
        return None if isinstance(value, str) else value

    def cell(self, key: str) -> Row:
        """The row of the overview with this key; an unknown value if it has no such row."""
        missing = Row(key=key, label=key, value=None)
        return next((row for row in self.overview if row.key == key), missing)


class Reporter(Protocol):
    """Renders sheets of any kind of document in one format."""

    @property
    def name(self) -> str:
        """The name for `llmperf report --format`."""

    def render(self, sheets: Sequence[Sheet], language: str) -> str:
        """The whole report as text. `language` is `en` or `zh`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One figure from a document, with which runs can be compared (`llmperf compare --baseline`)."""

    place: str
    """Place of the figure: `document.md:57`."""
    model: str | None
    """Name of its model in the library; None where unknown."""
    tokens_per_second_per_device: float | None
    """The figure; None where it is withheld."""
    global_batch: int | None
    """Sequences in one optimiser step; None where unknown."""
    misfits: Callable[[Result], tuple[str, ...]]
    """Reasons why it must not be compared with a result, in words; empty where it can be."""
    differences: Callable[[Result], tuple[str, ...]]
    """Further differences, in words; these do not prevent a comparison."""
