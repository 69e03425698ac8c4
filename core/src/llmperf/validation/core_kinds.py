"""The core's kinds of document: results, plans, records, cases and models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from llmperf.cases.fields import with_unset
from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes
from llmperf.files.user_files import read_toml
from llmperf.runfolder import filenames
from llmperf.types import Case, Finding, Model, Result, Text
from llmperf.types.documents import DocumentKind, FileFindings, Fingerprint
from llmperf.validation.reading import from_toml, parse_json, shown
from llmperf.validation.rules.while_reading import CUT_OFF, MISNAMED
from llmperf.validation.schema import MAX_FINDINGS, record_findings

if TYPE_CHECKING:
    from llmperf.types import Plan, Sheet

Beginning = Callable[[], str]


def result_kind(sheets: Callable[[Result, Path, Sequence[Finding]], Iterable[Sheet]] | None = None) -> DocumentKind:
    """Results, with the function that makes sheets of them for reports."""
    return json_kind(
        "result",
        "a result",
        "llmperf.types:Result",
        plugins=lambda result: [("vendor", result.hardware.vendor), *_roles(result)],
        in_place=_beside_result,
        fingerprints=_fingerprints,
        sheets=sheets,
    )


def kinds() -> list[DocumentKind]:
    """Plans, records, cases and models."""
    return [
        json_kind(
            "plan",
            "a plan",
            "llmperf.types:Plan",
            plugins=lambda plan: [("vendor", plan.vendor), *_roles(plan)],
            in_place=_beside_plan,
        ),
        DocumentKind(
            name="record",
            title="records",
            suffixes=(".jsonl",),
            recognise=_is_record,
            judge=_record_file,
        ),
        *(
            DocumentKind(
                name=name,
                title=f"a {name}",
                suffixes=(".toml",),
                recognise=partial(_is_toml, name),
                values=partial(_toml_values, type_),
                schema=partial(named_schema, name),
                type=lambda type_=type_: type_,  # type: ignore[misc]
                in_place=_named_as_file,
            )
            for name, type_ in (("case", Case), ("model", Model))
        ),
    ]


def json_kind(name: str, title: str, type_: str, **more: Any) -> DocumentKind:
    """A kind of JSON documents that name their schema, `llmperf/NAME/1`; their dataclass is at `MODULE:NAME`.

    The schema is that of the project for this name, else that of the dataclass; `more` are other fields of the kind.
    """
    import llmperf_schemas
    from msgspec.json import schema as schema_of

    known = (
        partial(named_schema, name) if name in llmperf_schemas.NAMES else cache(lambda: schema_of(resolve_name(type_)))
    )
    fields = {"suffixes": (".json",), "recognise": partial(_is_json, name), "schema": known, **more}
    return DocumentKind(name=name, title=title, type=partial(resolve_name, type_), **fields)


@cache
def named_schema(name: str) -> Mapping[str, Any]:
    """One of the project's schemas by its name, read once."""
    import llmperf_schemas

    return llmperf_schemas.load(name)


def _is_json(name: str, path: Path, beginning: Beginning, _: bool) -> bool:
    """Check for JSON by the file's name, else by the `schema` that the document names."""
    if path.name in (filenames.RESULT, filenames.PLAN):
        return path.name == f"{name}.json"
    text = beginning()
    return re.search(rf'"schema"\s*:\s*"llmperf/{name}/', text) is not None and '"$schema"' not in text


def _is_record(path: Path, _: Beginning, named: bool) -> bool:
    """Many programs write lines of JSON: in a folder, only files with the names that a run gives are records."""
    recorded = path.parent.name == filenames.RECORDS and path.name.startswith(("rank-", "memory-"))
    return named or path.name == filenames.MEMORY or recorded


def _is_toml(name: str, path: Path, beginning: Beginning, _: bool) -> bool:
    """Check for a case or a model by the folder of the file, else by its lines."""
    if path.parent.name in ("cases", "models"):
        return path.parent.name == f"{name}s"
    lines = [line.strip() for line in beginning().splitlines()]
    begins = "[contract" if name == "case" else "vocab_size"
    return any(line.startswith(begins) for line in lines) and not (name == "case" and "[when]" in lines)


def _toml_values(type_: type, path: Path) -> Any:
    """The file's table; a file that gives no name has its own, as for `llmperf run`, and "none" unsets a setting."""
    values = from_toml({"name": path.stem, **read_toml(path)}, str(path))
    return with_unset(values, type_) if type_ is Case else values


def _named_as_file(document: Case | Model, path: Path, _: bool) -> Iterator[Finding]:
    if document.name != path.stem:
        message = Text("expected {}, as the file is called, found {}", shown(path.stem), shown(document.name))
        yield MISNAMED.finding("/name", message)


def _roles(document: Result | Plan) -> list[tuple[str, str]]:
    return [(plugin.role, plugin.name) for plugin in document.plugins]


def _beside_result(result: Result, path: Path, submitted: bool) -> Sequence[Finding]:
    from llmperf.validation.run_folder import run_folder_findings

    return run_folder_findings(result, path.parent, submitted)


def _beside_plan(_: Plan, path: Path, __: bool) -> Iterator[Finding]:
    from llmperf.validation.run_folder import plan_folder_findings

    return plan_folder_findings(path.parent)


def _fingerprints(result: Result) -> Iterator[Fingerprint]:
    """The hashes of the records, and the measured figures to the last digit."""
    hashes = sorted(digest for name, digest in result.files.items() if name.startswith("records/"))
    if hashes:
        yield Fingerprint(pointer="", figures=("records", *hashes))
    metrics = result.metrics
    known = (metrics.tokens_per_second_per_device, metrics.window_seconds, metrics.final_loss)
    if None not in known:
        losses = (repr(point.loss) for point in result.loss_curve)
        yield Fingerprint(pointer="", figures=("figures", *map(repr, known), repr(metrics.step_seconds), *losses))


def _record_file(path: Path, _: object) -> Iterator[FileFindings]:
    """The findings of each line, with its index before the pointer; UserError for one that is not JSON."""
    *lines, last = read_bytes(path).split(b"\n")
    findings: list[Finding] = []
    for number, line in enumerate([*lines, last]):
        if not line.strip():
            continue
        try:
            value = parse_json(line, str(path)).value
        except UserError as error:
            if number < len(lines):
                raise UserError(f"{path}: line {number + 1}: {str(error).removeprefix(f'{path}: ')}") from None
            findings.append(CUT_OFF.finding(f"/{number}", Text("the last line is cut off")))
            break
        findings += (replace(finding, path=f"/{number}{finding.path}") for finding in record_findings(value))
        if len(findings) >= MAX_FINDINGS and number < len(lines):
            message = Text("{}; the lines after this one are not judged", findings[-1].message)
            findings[-1] = replace(findings[-1], message=message)
            break
    yield FileFindings(path=path, kind="record", findings=tuple(findings))
