"""`llmperf import` of the result tables of FlagPerf's `base` and `operation`, which become one document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click
from llmperf import encode_pretty, print_json, print_table, read_bytes, write_bytes
from llmperf.errors import UserError
from llmperf.reporting import Column, shown
from llmperf.types import Finding, Row, Section, Sheet, Source
from llmperf.types.frozen import dataclass

from llmperf_flagperf.case import names

KIND = "flagperf_results"
MAX_FILES, MAX_BYTES = 5000, 2**20
VERDICTS = {True: "agrees", False: "wrong", None: "not checked"}
COLUMNS = {
    "measured": Column(title="measured", importance=2, right=True),
    "nominal": Column(title="nominal", importance=3, right=True),
    "ratio": Column(title="ratio", importance=4, right=True),
}
"""Columns of these figures in a table of runs."""
UNITS = {"TFLOPS": 1e12, "TOPS": 1e12, "TB/s": 1e12, "GB/s": 1e9, "GiB/s": 2**30, "GB": 1e9, "GiB": 2**30, "%": 0.01}
CELL = re.compile(r"(\d[\d,]{0,15}(?:\.(\d{0,9}))?)\s*([A-Za-z/%]{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One result with its figures as printed; what is not printed is null."""

    file: str
    """The README."""
    line: int
    """Line of the row."""
    benchmark: str
    """Folder of the benchmark, such as interconnect-P2P_intraserver, or the operation."""
    vendor: str
    """Folder of the vendor."""
    device: str | None
    """Model of the chip."""
    implementation: str | None = None
    """Of an operation, with the clock."""
    measured: str | None = None
    """Mean of the devices."""
    nominal: str | None = None
    """As the vendor states it; FlagPerf prints none for operations."""
    ratio: str | None = None
    """Measured / nominal, or the utilisation of the peak."""
    relative_error: float | None = None
    """Mean error of an operation against FP64 on a CPU."""
    directions: int | None = None
    """How often FlagPerf counts a transferred byte: in both directions within a server, in one between servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """Result tables of FlagPerf's `base` and `operation`."""

    schema: Literal["llmperf/flagperf_results/1"] = "llmperf/flagperf_results/1"
    """Name and version of this document's schema."""
    rows: tuple[ResultRow, ...]
    """Rows that print a figure, by file and line."""


def figure(text: str | None) -> tuple[float, float] | None:
    """A printed number in base units and half a unit of its last digit; None for a cell without number and unit."""
    found = CELL.match(text or "")
    if found is None or (scale := UNITS.get(found[3])) is None:
        return None
    return float(found[1].replace(",", "")) * scale, 0.5 * scale * 10.0 ** -len(found[2] or "")


def agrees(row: ResultRow) -> bool | None:
    """Check whether the ratio is measured / nominal, rounded or cut off; None where a figure is not printed."""
    measured, nominal, ratio = figure(row.measured), figure(row.nominal), figure(row.ratio)
    if measured is None or nominal is None or ratio is None or not nominal[0]:
        return None
    return abs(measured[0] / nominal[0] - ratio[0]) <= 2 * ratio[1] + measured[1] / nominal[0] + 1e-9


def rows_of(path: Path) -> Iterator[ResultRow]:
    """The rows below the heading of the core results; none for a README without it, or outside of `benchmarks`."""
    folders = path.resolve().parts
    lines = read_bytes(path, MAX_BYTES).decode("utf-8", "replace").splitlines()
    if "benchmarks" not in folders[:-3]:
        return
    benchmark, vendor = folders[len(folders) - folders[::-1].index("benchmarks") :][:2]
    device = next((line.partition("：")[2].strip() for line in lines if "产品型号：" in line), None)
    place: dict[str, Any] = {"file": str(path), "benchmark": benchmark, "vendor": vendor, "device": device or None,
             "directions": names("directions").get(benchmark)}  # fmt: skip
    core = False
    for number, line in enumerate(lines, 1):
        core = "核心评测结果" in line if line.startswith("#") else core
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if core and line.startswith("|") else []
        shown = [cell if figure(cell) else None for cell in cells]
        if not any(shown):
            continue
        if len(cells) == 4:
            yield ResultRow(**place, line=number, measured=shown[1], nominal=shown[2], ratio=shown[3])
        elif len(cells) == 6:
            wrong = float(cells[1]) if re.fullmatch(r"\d[\d.]{0,9}E[+-]?\d{1,2}", cells[1]) else None
            for clock, at in (("CPU clock", 2), ("kernel clock", 3)):
                yield ResultRow(**place, line=number, implementation=f"{cells[0]}, {clock}", measured=shown[at],
                                ratio=shown[at + 2], relative_error=wrong)  # fmt: skip


class ResultsImporter:
    """Reads READMEs of `base` and `operation`, and folders of them."""

    title = "result tables of FlagPerf"

    def claims(self, path: Path) -> bool:
        """Check whether a README has such a table, or whether a folder is `base` or `operation` or lies in one."""
        if path.is_dir():
            return not {"base", "operation"}.isdisjoint(path.resolve().parts) and any(map(self.claims, _readmes(path)))
        small = path.name == "README.md" and path.stat().st_size <= MAX_BYTES
        return small and next(rows_of(path), None) is not None

    def read(
        self, paths: Sequence[Path], out: Path, stated: Mapping[str, str | None], *, force: bool, as_json: bool
    ) -> None:
        """Write all rows to one document, and print them with what their digits say."""
        files = [file for path in paths for file in (_readmes(path) if path.is_dir() else [path])]
        results = Results(rows=tuple(row for file in files for row in rows_of(file)))
        target = out / f"{KIND}.json"
        if target.exists() and not force:
            raise UserError(f"{target}: expected no file of that name, found one; --force replaces it")
        out.mkdir(parents=True, exist_ok=True)
        write_bytes(target, encode_pretty(results))
        if as_json:
            return print_json(results)
        lines = list(map(cells, results.rows))
        print_table([cell.label for cell in lines[0]], [tuple(map(shown, line)) for line in lines])
        verdicts = [line[-1].value for line in lines]
        counts = ", ".join(f"{verdicts.count(word)} {word}" for word in VERDICTS.values())
        click.echo(f"{len(verdicts)} rows: {counts}; written to {target}")


def cells(row: ResultRow) -> tuple[Row, ...]:
    """A row of a table of results, with what its digits say."""
    values = {
        "benchmark": row.benchmark, "vendor": row.vendor, "device": row.device, "implementation": row.implementation,
        "measured": row.measured, "nominal": row.nominal, "ratio": row.ratio, "bytes count": row.directions,
    }  # fmt: skip
    verdict = Row(key="ratio_is", label="ratio is", value=VERDICTS[agrees(row)], own_words=True)
    return (*(Row(key=name.replace(" ", "_"), label=name, value=value) for name, value in values.items()), verdict)


def sheets(results: Results, path: Path, findings: Sequence[Finding] = ()) -> Iterator[Sheet]:
    """A sheet for each row; no benchmark trains, so none has a throughput."""
    for row in results.rows:
        known = cells(row)
        by_key = {cell.key: cell for cell in known}
        names = {"case": row.benchmark, "layout": row.implementation, "run_id": f"{row.file}:{row.line}"}
        overview = [Row(key=key, label=key, value=value) for key, value in names.items()]
        overview += [replace(by_key[key], column=column) for key, column in COLUMNS.items()]
        overview += [by_key["device"], by_key["vendor"], replace(by_key["ratio_is"], key="status")]
        overview.append(Row(key="provenance", label="provenance", value="imported", own_words=True))
        sections = [Section(key="result", title="Result", rows=known, card=card) for card in (True, False)]
        yield Sheet(
            name=f"{path.stem}:{row.line}", title=f"{row.benchmark}: {row.device or row.vendor}",
            source=Source(kind=KIND, path=path, document=results), overview=tuple(overview),
            sections=sections.copy, findings=tuple(findings), measured=False,
        )  # fmt: skip


def _readmes(folder: Path) -> list[Path]:
    if len(files := sorted(folder.glob("**/README.md"))) > MAX_FILES:
        raise UserError(f"{folder}: expected at most {MAX_FILES} READMEs, found {len(files)}")
    return files
