"""Submissions: the files that `llmperf pack` writes, their manifest, and the rules over archives of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice, zip_longest
from pathlib import Path, PurePosixPath

from llmperf import load_plan, read_bytes, sha256
from llmperf.errors import UserError
from llmperf.reporting import rendered_again
from llmperf.types import FileFindings, Finding, Result, Text
from llmperf.types.texts import changed
from llmperf.validation import Document, Validator, open_catalogue, pointer, read_run_result, shown

from llmperf_verify.archives import unpacked
from llmperf_verify.documents import PLAN, RESULT
from llmperf_verify.rules.levels import level_rule

README = "README.md"
MANIFEST = "manifest.json"
REPORT = "report.md"
SINGLE = (PLAN, "memory.jsonl", "ending.json", "machine.json", "nodes.json", RESULT, REPORT)
"""Files at the top of a run folder that are packed."""
MOST_LISTED = 20
"""Findings of one rule that are listed."""
_INSIDE = {
    "records": re.compile(r"rank-[0-9]{5,9}\.jsonl|memory-[0-9]{3,9}\.jsonl|(?:agent|host)-[0-9]{3,9}\.json"),
    "logs": re.compile(r"(?:rank-[0-9]{5,9}|agent-[0-9]{3,9})\.log"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`manifest.json` at the top of a submission: its files, so that changed and missing files are noticed."""

    schema: str
    """Name and version of this document's schema."""
    created: str
    """Time of packing: UTC, ISO 8601."""
    llmperf_version: str
    """Version of llmperf that packed it."""
    runs: tuple[str, ...]
    """Names of the run folders, sorted."""
    files: Mapping[str, str]
    """SHA-256 of every other file, by its path in the archive."""


NO_MANIFEST = level_rule("LP801", "error", "A submission has a manifest")
MISSING = level_rule("LP802", "error", "The files of the manifest are in the submission")
ALTERED = level_rule("LP803", "error", "The files of a submission are those that were packed")
EXTRA = level_rule("LP804", "warning", "A submission has no files beside those of its manifest")
UNEXPECTED = level_rule("LP806", "error", "A submission has only the files that llmperf pack writes")
RUNS = level_rule("LP807", "error", "The runs of a manifest are the folders with a result")
NOT_RENDERED = level_rule("LP808", "error", "The README and the reports of a submission are those of its results")
UNDATED = level_rule("LP809", "error", "A manifest says when it was packed")


def is_packed(name: str, configured: Collection[str]) -> bool:
    """Check whether a file belongs to a run, by its path in the run folder; `configured` are the names in its plan."""
    folder, _, inner = name.partition("/")
    if not inner:
        return name in SINGLE
    if folder == "files":
        return inner in configured
    return folder in _INSIDE and _INSIDE[folder].fullmatch(inner) is not None


def configured_files(run: Path) -> Collection[str]:
    """Names of the configuration files that the plan asks for; none where there is no plan that can be read."""
    try:
        return load_plan(run).worker.files if (run / PLAN).is_file() else ()
    except UserError:
        return ()


@contextmanager
def unpacked_submission(archive: Path) -> Iterator[Path]:
    """A temporary folder with the files of an archive; UserError if they are not those of its manifest."""
    with unpacked(archive) as folder:
        for finding in _manifest(folder, Validator()).findings:
            if finding.severity == "error":
                raise UserError(f"{archive}: {finding.code} {finding.message}")
        yield folder


def judged_archive(archive: Path, validator: Validator) -> Iterator[FileFindings]:
    """The manifest of an archive, then the documents in it; UserError if it cannot be unpacked."""
    with unpacked(archive) as folder:

        def named(text: str) -> str:
            return text.replace(str(folder), str(archive))

        inside = replace(
            validator, submitted=True, archive=archive, shown_path=lambda path: archive / path.relative_to(folder)
        )
        files, edited = [_manifest(folder, inside)], set()
        if (folder / MANIFEST).is_file():
            for path, line, message in differences(folder):
                edited.add(path)
                finding = NOT_RENDERED.finding("", Text("{}, line {}", message, line))
                files.append(FileFindings(path=path, kind="readme", findings=(finding,), lines={finding.path: line}))
        for file in chain(files, (file for file in inside.validated(folder) if file.path not in edited)):
            findings = tuple(replace(finding, message=changed(finding.message, named)) for finding in file.findings)
            yield replace(file, path=archive / file.path.relative_to(folder), findings=findings)


def _manifest(folder: Path, validator: Validator) -> FileFindings:
    """The findings of the manifest of an unpacked archive."""
    path = folder / MANIFEST
    if path.is_file():
        (file,) = validator.judged(Document(path, open_catalogue().kinds["manifest"]))
        return file
    message = Text("expected {} at the top of the archive, found none: made by llmperf pack", MANIFEST)
    return FileFindings(path=path, kind="manifest", findings=(NO_MANIFEST.finding("", message),))


def manifest_findings(manifest: Manifest, folder: Path) -> Iterator[Finding]:
    """Check whether the files beside a manifest are those packed, and what it says of itself."""
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MANIFEST}
    for name, expected in manifest.files.items():
        where = pointer(["files", name[:200]])
        if name not in present:  # a name that leaves the folder is among them as little
            yield MISSING.finding(where, Text("expected the file {}, found none", shown(name)))
        elif (found := sha256(folder / PurePosixPath(name))) != expected:
            message = Text("expected SHA-256 {}, found {}: the file was changed", shown(expected), found)
            yield ALTERED.finding(where, message)
    if README not in present and README not in manifest.files:
        yield MISSING.finding("/files", Text("expected the file {}, found none", shown(README)))
    for name in sorted(present - manifest.files.keys()):
        yield EXTRA.finding("/files", Text("the file {} is not in the manifest", shown(name)))
    folders = sorted({name.partition("/")[0] for name in present if "/" in name and not name.startswith(".")})
    configured = {run: configured_files(folder / run) for run in folders}
    unexpected = (  # archives in the archive, hidden folders, documents under other names: these are not checked
        name
        for name in sorted(present - {README})
        if (run := name.partition("/")[0]) not in configured or not is_packed(name.partition("/")[2], configured[run])
    )
    for name in islice(unexpected, MOST_LISTED):
        yield UNEXPECTED.finding("/files", Text("expected only what llmperf pack writes, found {}", shown(name)))
    yield from (RUNS.finding(*violation) for violation in islice(_of_runs(manifest, folders, present), MOST_LISTED))
    try:
        # Python 3.10 does not read the Z of UTC
        time = datetime.fromisoformat(re.sub("Z$", "+00:00", manifest.created))
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        expected = Text("expected a time such as 2026-01-02T03:04:05+00:00")
        yield UNDATED.finding("/created", Text("{}, found {}", expected, shown(manifest.created)))


def _of_runs(manifest: Manifest, folders: Sequence[str], present: set[str]) -> Iterator[tuple[str, str]]:
    """The runs are the folders of the archive, and each has its result."""
    for name in folders:
        if f"{name}/{RESULT}" not in present:
            yield "/runs", Text("expected {} in the folder {}, found none", RESULT, shown(name))
        if name not in manifest.runs:
            yield "/runs", Text("expected the folder {} among the runs, found it left out", shown(name))
    for index, name in enumerate(manifest.runs):
        if name not in folders:
            yield f"/runs/{index}", Text("expected a folder {} in the archive, found none", shown(name))
    if not manifest.runs:
        yield "/runs", Text("expected at least one run, found none")
    elif len(set(manifest.runs)) < len(manifest.runs):
        yield "/runs", Text("expected each run once, found one twice")


def differences(folder: Path) -> Iterator[tuple[Path, int, str]]:
    """Where the README and reports of an unpacked submission differ from what llmperf writes: file, line, text."""
    results = _results(folder)
    rendered = [(path.with_name(REPORT), [result]) for path, result in results.items() if result is not None]
    if results and len(rendered) == len(results):
        rendered.append((folder / README, [result for result in results.values() if result is not None]))
    for path, of in rendered:
        if path.is_file() and not path.is_symlink():
            text = read_bytes(path).decode("utf-8", "replace")
            expected = rendered_again(text, of, "a submission in")
            if text != expected:
                yield path, *_first_difference(text, expected)


def is_written(readme: Path) -> bool:
    """Check whether a README is what `llmperf pack` writes of the runs in its folder."""
    results = _results(readme.parent).values()
    return bool(results) and None not in results and all(path != readme for path, *_ in differences(readme.parent))


def _results(folder: Path) -> dict[Path, Result | None]:
    """The result of each run folder, by its file; None where it cannot be read. Links are not followed."""
    results: dict[Path, Result | None] = {}
    for path in sorted(folder.glob(f"*/{RESULT}")):
        if path.is_file() and not path.is_symlink() and not path.parent.is_symlink():
            try:
                results[path] = read_run_result(path)
            except UserError:
                results[path] = None
    return results


def _first_difference(text: str, expected: str) -> tuple[int, str]:
    """The line in which two texts differ first, and what was expected and found in it."""

    def from_there(line: str | None) -> str:
        return Text("the end") if line is None else shown(line[max(0, same - 20) :])

    pairs = zip_longest(text.split("\n"), expected.split("\n"))
    number, found, right = next((n, one, other) for n, (one, other) in enumerate(pairs, 1) if one != other)
    characters = zip_longest(found or "", right or "")
    same = next((n for n, (one, other) in enumerate(characters) if one != other), 0)
    return number, Text("expected {}, as the results give, found {}", from_there(right), from_there(found))
