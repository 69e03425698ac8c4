"""A result against the plan and the records that lie beside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Set
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from llmperf.errors import UserError
from llmperf.files.json_files import builtins, read_bytes, sha256
from llmperf.files.text import printable
from llmperf.results.sections import LEFT_OUT, computed_sections, known_sections
from llmperf.runfolder import filenames
from llmperf.types import Finding, Result, Text
from llmperf.validation.reading import pointer, shown
from llmperf.validation.rules.while_reading import (
    ABSENT,
    BY_ITSELF,
    CHANGED,
    DIFFERENT,
    NOT_SUBMITTED,
    PLAN_FILE,
    PLAN_PROBLEMS,
    RESULTLESS,
    RULE_FAILED,
    UNLISTED,
)

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords

RUN = "run"
"""Kind of rules over the records of a run folder."""
MAX_DIFFERENCES = 20
Parts = tuple[str | int, ...]
"""Parts of a JSON pointer."""
NOT_REBUILT = ("findings", "files")
"""Parts of a result that do not come from the records, or are checked by their own rule."""


def run_folder_findings(result: Result, folder: Path, submitted: bool = False) -> list[Finding]:
    """Check the files that a result was computed from, and its figures; if `submitted`, they must be there."""
    if submitted and not result.files:
        return [NOT_SUBMITTED.finding("/files", Text("expected the SHA-256 of the plan and the records, found none"))]
    planned = _regular(folder / filenames.PLAN)
    parts = planned or any(_path_problem(name, folder) is None for name in result.files)
    parts = parts or any(os.path.lexists(folder / name) for name in (filenames.PLAN, filenames.RECORDS))
    listed = list(_file_findings(result, folder)) if planned or (result.files and parts) else []
    if not planned:
        if all(finding.code != ABSENT.code for finding in listed):
            beside = os.path.lexists(folder / filenames.RECORDS)  # the plan was taken away
            rule = NOT_SUBMITTED if submitted else ABSENT if beside else BY_ITSELF
            message = Text(
                "expected the plan and the records beside the result, found no plan: its figures were not computed"
                " again"
            )
            listed.append(rule.finding("/files", message))
        return listed
    sources = (name for name in result.files if name in filenames.SOURCES or name.startswith(f"{filenames.RECORDS}/"))
    absent = [name[:200] for name in sources if "\0" not in name and not os.path.lexists(folder / name[:255])]
    if absent:  # links are listed by `_sources`
        names = ", ".join(shown(name) for name in absent[:3]) + (", ..." if len(absent) > 3 else "")
        message = Text("the figures cannot be computed again: {} missing: {}", len(absent), names)
        listed.append(DIFFERENT.finding("", message))
    elif not any(_is_link(path) for path in _sources(folder)):
        listed += _difference_findings(result, folder)
    return listed


def recorded_findings(records: RunRecords) -> list[Finding]:
    """Findings of the rules of plugins among the records of a run."""
    from llmperf.validation.catalogue import open_catalogue

    catalogue = open_catalogue((plugin.role, plugin.name) for plugin in records.plan.plugins)
    return catalogue.applied(RUN, records)[0]


def plan_folder_findings(folder: Path) -> Iterator[Finding]:
    """Check whether the result lies beside a plan where a run has been."""
    begun = any((folder / name).exists() for name in (filenames.RECORDS, filenames.REPORT))
    if begun and not _regular(folder / filenames.RESULT):
        from llmperf.results.failure import how_far

        cut_off = Text("the run has not ended, was cut off, or its result was taken away")
        why = how_far(folder, cut_off) or cut_off
        message = Text("expected {} beside the plan of a run, found none: {}", filenames.RESULT, why)
        yield RESULTLESS.finding("", message)


def _regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _is_link(path: Path) -> bool:
    return path.exists() and not _regular(path)


def _sources(folder: Path) -> list[Path]:
    single = [folder / name for name in filenames.SOURCES]
    records = folder / filenames.RECORDS
    # a folder that is a link is itself among them, so that it is seen and not entered
    return [*single, records] if records.is_symlink() else [*single, *sorted(records.glob("*"))]


def _file_findings(result: Result, folder: Path) -> Iterator[Finding]:
    for path in _sources(folder):
        name = path.relative_to(folder).as_posix()
        if name in result.files:
            continue
        where = pointer(["files", name])
        if _regular(path):
            message = Text("expected the SHA-256 of {}, which the figures come from, found none", shown(name))
            yield UNLISTED.finding(where, message)
        elif _is_link(path):  # it keeps the figures from being computed again
            yield ABSENT.finding(where, Text("expected a regular file {}, found a link or a folder", shown(name)))
    for name, expected in result.files.items():
        where = pointer(["files", name[:200]])
        problem = _path_problem(name, folder)
        if problem:
            yield ABSENT.finding(where, problem)
        elif (found := sha256(folder / name)) != expected:
            message = Text("expected SHA-256 {}, found {}: the file was changed", shown(expected), found)
            yield CHANGED.finding(where, message)


def _path_problem(name: str, folder: Path) -> str | None:
    """The reason why a listed file is not opened; only regular files inside the folder are."""
    plain = PurePosixPath(name).as_posix() == name  # one file has one name, so that it is read once
    if not plain or "\0" in name or name.startswith("/") or ".." in PurePosixPath(name).parts:
        return Text("expected a file inside the run folder, found {}", shown(name))
    parents = [folder / parent for parent in PurePosixPath(name).parents]
    if len(name) > 255 or any(parent.is_symlink() for parent in parents[:-1]) or not _regular(folder / name):
        return Text("expected a file {} in the run folder, found none", shown(name))
    return None


def _difference_findings(result: Result, folder: Path) -> Iterator[Finding]:
    from llmperf.results.run_result import result_of
    from llmperf.runfolder.contents import read_run

    try:
        records = read_run(folder)
        rebuilt = result_of(records)
        told = recorded_findings(records)
    except (UserError, LookupError, ArithmeticError, ValueError, TypeError) as error:
        cause = printable(str(error)).removeprefix(f"{folder}/")
        if not isinstance(error, UserError):  # the folder's plan and records fit their types and still make no sense
            cause = printable(f"{type(error).__name__}: {error}")
        yield DIFFERENT.finding("", Text("the figures cannot be computed again: {}", cause))
        return
    known, ran = known_sections().by_name, {(one.distribution, one.version) for one in records.plan.plugins}
    compared = result.sections.keys() & known.keys()
    if not any(note.startswith(LEFT_OUT) for note in result.notes):  # the run had the sections of its packages
        owners = {name: known[name].owner for name in rebuilt.sections}
        compared |= {name for name, owner in owners.items() if (owner.distribution, owner.version) in ran}
    if not compared <= rebuilt.sections.keys():
        faults = computed_sections(records.plan, rebuilt, folder)[1]
        for name in sorted(compared & faults.keys()):
            message = Text("not computed again: {}", printable(faults[name])[:300])
            yield RULE_FAILED.finding(pointer(["sections", name]), message)
        compared -= faults.keys()
    departures = _differences(_comparable(result, compared), _comparable(rebuilt, compared), ())
    for path, found, expected in islice(departures, MAX_DIFFERENCES):
        message = Text("expected {} (computed again from the records), found {}", shown(expected), shown(found))
        yield DIFFERENT.finding(pointer(path), message)
    yield from told
    problems = (*records.plan.problems, *records.plan.worker.problems)
    if result.status == "complete" and problems:
        found = Text("{}, the first {}: {}", len(problems), shown(problems[0].code), shown(problems[0].message))
        message = Text("expected no problem in {} of a complete run, found {}", filenames.PLAN, found)
        yield PLAN_PROBLEMS.finding("/status", message)
    changed = 0
    for name, text in records.plan.worker.files.items():
        inside = f"{filenames.FILES}/{name}"
        if changed == MAX_DIFFERENCES or _path_problem(inside, folder) is not None:
            continue  # configuration files may have been left out
        source, file = text.encode("utf-8", "replace"), folder / inside
        try:
            same = file.stat().st_size == len(source) and read_bytes(file) == source
        except (OSError, UserError):
            same = False
        if not same:
            changed += 1
            message = Text("expected {} as the plan has it, found another text", shown(inside))
            yield PLAN_FILE.finding(pointer(["files", filenames.PLAN]), message)


def _comparable(result: Result, sections: Set[str]) -> dict[str, Any]:
    document: dict[str, Any] = builtins(result)
    document["sections"] = {name: value for name, value in document["sections"].items() if name in sections}
    document["notes"] = [note for note in document["notes"] if not note.startswith(LEFT_OUT)]
    if document["failure"] is not None:
        # from the logs, which may have been left out when the folder was handed on
        del document["failure"]["log_tail"]
    return {name: value for name, value in document.items() if name not in NOT_REBUILT}


def _differences(found: Any, expected: Any, path: Parts) -> Iterator[tuple[Parts, Any, Any]]:
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            yield from _differences(found.get(key), expected.get(key), (*path, key))
    elif isinstance(found, (list, tuple)) and isinstance(expected, (list, tuple)) and len(found) == len(expected):
        for index, (value, wanted) in enumerate(zip(found, expected, strict=True)):
            yield from _differences(value, wanted, (*path, index))
    elif isinstance(found, float) and isinstance(expected, float):
        # another Python or numpy may round the last bits of a mean otherwise
        if not abs(found - expected) <= 1e-9 * max(abs(found), abs(expected)):
            yield path, found, expected
    elif found != expected:
        yield path, found, expected
