"""`llmperf_compare.load_results`: runs and imported rows for programs and notebooks, with exact values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from llmperf.errors import UserError
from llmperf.reporting import sheet_values
from llmperf.types import Finding, Sheet

from llmperf_compare.copies import distinct_sheets
from llmperf_compare.documents import opened_results
from llmperf_compare.ranking import Standing, standings
from llmperf_compare.steps import StepFigures, recorded_steps

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedResult:
    """One run, or one imported row."""

    path: str
    """File of the document; `submission.zip/RUN/result.json` for one in an archive."""
    sheet: Sheet
    """Its sections of labelled rows, as reports have them."""
    values: Mapping[str, str | int | float | bool | None]
    """Exact values by the column names of `llmperf report --format csv`; unknown is None."""

    @property
    def name(self) -> str:
        """Name of the run folder; file and line of an imported row."""
        return self.sheet.name

    @property
    def measured(self) -> bool:
        """The figures were measured by llmperf; False for imported figures."""
        return self.sheet.measured

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings of validation."""
        return self.sheet.findings

    @property
    def valid(self) -> bool:
        """Validation found no error."""
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def document(self) -> Any:
        """The whole document: a `llmperf.types.Result` for a run."""
        return self.sheet.source.document

    def steps(self) -> tuple[StepFigures, ...]:
        """The steps of a run, from its records or else its loss curve; empty for imported rows."""
        return recorded_steps(self.sheet)

    def steps_frame(self) -> pandas.DataFrame:
        """The steps as a DataFrame of pandas, indexed by `step`; UserError without pandas."""
        columns = ["step", "measured", "seconds", "loss", "tokens", "memory_used_bytes"]
        rows = [[getattr(step, name) for name in columns] for step in self.steps()]
        frame: pandas.DataFrame = _pandas().DataFrame(rows, columns=columns).set_index("step")
        return frame


class LoadedResults(Sequence[LoadedResult]):
    """Results in the order of their files."""

    def __init__(self, results: Sequence[LoadedResult], left_out: Sequence[str]) -> None:
        self._results = tuple(results)
        self.left_out = tuple(left_out)
        """A line for each copy and each file that could not be read, and for different runs with one identity."""

    @overload
    def __getitem__(self, place: int) -> LoadedResult: ...
    @overload
    def __getitem__(self, place: slice) -> LoadedResults: ...
    def __getitem__(self, place: int | slice) -> LoadedResult | LoadedResults:
        if isinstance(place, slice):
            return LoadedResults(self._results[place], self.left_out)
        return self._results[place]

    def __len__(self) -> int:
        return len(self._results)

    def __iter__(self) -> Iterator[LoadedResult]:
        return iter(self._results)

    def __repr__(self) -> str:
        measured = sum(result.measured for result in self._results)
        return f"<LoadedResults: {measured} measured, {len(self) - measured} imported>"

    def standings(self) -> list[Standing]:
        """Standings of the runs of one contract, as in `llmperf summary` and the HTML report."""
        return standings([result.sheet for result in self._results])

    def standings_frame(self) -> pandas.DataFrame:
        """The standings as a DataFrame, one row for each kind of run: medians, `..._low`, `..._high`, and `..._how`."""
        rows = []
        for standing in self.standings():
            for entry in standing.entries:
                row: dict[str, Any] = {"model": standing.model, "device": entry.device, "framework": entry.framework}
                row |= {"layout": entry.layout, "changes": entry.changes, "measured": entry.measured}
                row |= {"verdict": entry.verdict, "disturbed": entry.disturbed, "levels": entry.levels}
                row |= {"runs": len(entry.sheets)}
                for name, figure in entry.figures.items():
                    row |= {name: figure.median, f"{name}_low": figure.low, f"{name}_high": figure.high}
                    row[f"{name}_how"] = figure.how
                rows.append(row)
        return _pandas().DataFrame(rows)

    def to_frame(self) -> pandas.DataFrame:
        """A DataFrame of pandas, a row for each result, with the columns of `report --format csv` and exact values."""
        columns = list(dict.fromkeys(name for result in self._results for name in ("path", *result.values)))
        rows = [{"path": result.path, **result.values} for result in self._results]
        return _pandas().DataFrame(rows, columns=columns)


def load_results(*paths: str | PathLike[str]) -> LoadedResults:
    """The results at some paths: run folders, imported documents, archives of `llmperf pack`, and folders of all these.

    `published` names the rows that ship with llmperf, unless there is a file or folder of that name.
    Each is held against its schema and validated, as by `llmperf report`. Copies of a run, and files and archives in a
    folder that cannot be read, are left out with a warning. UserError if nothing can be read.

    >>> results = llmperf_compare.load_results("runs")
    >>> results.to_frame()[["model", "device_model", "tokens_per_second_per_device"]]
    >>> results[0].steps_frame().loss.plot()
    """
    if not paths:
        raise UserError("load_results: expected a path, found none")
    left_out: list[str] = []
    results = [
        LoadedResult(path=each.source.place, sheet=each, values=sheet_values(each))
        for each in distinct_sheets(opened_results([Path(path) for path in paths], left_out.append), left_out.append)
    ]
    for line in left_out:
        warnings.warn(line, stacklevel=2)
    return LoadedResults(results, left_out)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise UserError("to_frame: expected pandas, found none installed: pip install pandas") from None
    return pandas
