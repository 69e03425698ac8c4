"""Submissions: the rules over them, and the findings of an archive and of what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path, PurePosixPath

from llmperf.errors import UserError
from llmperf.files.json_files import convert, read_bytes, sha256
from llmperf.runfolder import filenames
from llmperf.submissions.archives import unpacked
from llmperf.submissions.members import MANIFEST, README, configured_files, is_packed
from llmperf.submissions.rendered import differences
from llmperf.types import Finding, Rule
from llmperf.types.documents import FileFindings, Manifest, Severity
from llmperf.types.texts import Text, changed
from llmperf.validation.catalogue import MAX_VIOLATIONS
from llmperf.validation.check import Validator, unreadable
from llmperf.validation.core_kinds import named_schema
from llmperf.validation.document_files import documents_in
from llmperf.validation.reading import parse_json, pointer, shown
from llmperf.validation.rules.while_reading import REPEATED_KEY, UNREADABLE
from llmperf.validation.schema import schema_findings


def _rule(code: str, severity: Severity, title: str) -> Rule:
    return Rule(code=code, severity=severity, title=title, kinds=())


NO_MANIFEST = _rule("LP801", "error", "A submission has a manifest")
MISSING = _rule("LP802", "error", "The files of the manifest are in the submission")
ALTERED = _rule("LP803", "error", "The files of a submission are those that were packed")
EXTRA = _rule("LP804", "warning", "A submission has no files beside those of its manifest")
UNEXPECTED = _rule("LP806", "error", "A submission has only the files that llmperf pack writes")
RUNS = _rule("LP807", "error", "The runs of a manifest are the folders with a result")
NOT_RENDERED = _rule("LP808", "error", "The README and the reports of a submission are those of its results")
UNDATED = _rule("LP809", "error", "A manifest says when it was packed")

NOT_OPENED = ("manifest", "archive")
"""Kinds of document that are skipped in an archive: its manifest is checked first, archives have to be unpacked."""


def judged_archive(archive: Path, validator: Validator) -> Iterator[FileFindings]:
    """The manifest of an archive, then the documents in it; UserError if it cannot be unpacked."""
    with unpacked(archive) as folder:
        for file in _submission(folder, validator.inside(folder, archive)):
            findings = (
                replace(finding, message=changed(finding.message, lambda text: text.replace(str(folder), str(archive))))
                for finding in file.findings
            )
            yield replace(file, path=archive / file.path.relative_to(folder), findings=tuple(findings))


def judged_manifest(manifest: Path, _: Validator) -> Iterator[FileFindings]:
    """A manifest against the files beside it."""
    yield FileFindings(path=manifest, kind="manifest", findings=tuple(manifest_findings(manifest.parent)))


def _submission(folder: Path, validator: Validator) -> Iterator[FileFindings]:
    try:
        findings = tuple(manifest_findings(folder))
    except UserError as error:
        findings = (UNREADABLE.finding("", str(error)),)
    yield FileFindings(path=folder / MANIFEST, kind="manifest", findings=findings)
    try:
        edited = set()
        for path, (line, message) in differences(folder) if (folder / MANIFEST).is_file() else ():
            finding = NOT_RENDERED.finding("", Text("{}, line {}", message, line))
            edited.add(path)
            yield FileFindings(path=path, kind="readme", findings=(finding,), lines={finding.path: line})
        for document in documents_in(folder, validator.catalogue):
            if not (document.kind and document.kind.name in NOT_OPENED) and document.path not in edited:
                yield from validator.judged(document)
    except UserError as error:
        yield unreadable(folder, None, error)


def manifest_findings(folder: Path) -> Iterator[Finding]:
    """Check whether the files of an unpacked archive are those packed; UserError if the manifest is not JSON."""
    path = folder / MANIFEST
    if not path.is_file():
        message = Text("expected {} at the top of the archive, found none: made by llmperf pack", MANIFEST)
        yield NO_MANIFEST.finding("", message)
        return
    parsed = parse_json(read_bytes(path), MANIFEST)
    for key in parsed.repeated:
        yield REPEATED_KEY.finding("", Text("key {} occurs twice in one object", shown(key)))
    broken = schema_findings(named_schema("manifest"), parsed.value)
    yield from broken
    if not broken and not parsed.repeated:
        manifest = convert(parsed.value, Manifest, MANIFEST)
        present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MANIFEST}
        yield from _file_findings(folder, manifest, present)
        yield from islice(_unexpected(folder, present), MAX_VIOLATIONS)
        yield from islice(_run_findings(manifest, present), MAX_VIOLATIONS)
        yield from _date_findings(manifest)


def _file_findings(folder: Path, manifest: Manifest, present: set[str]) -> Iterator[Finding]:
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


def _unexpected(folder: Path, present: set[str]) -> Iterator[Finding]:
    """Archives in the archive, hidden folders, documents under other names: these are not checked."""
    configured = {run: configured_files(folder / run) for run in _run_folders(present)}
    for name in sorted(present - {README}):
        run, _, inner = name.partition("/")
        if run not in configured or not is_packed(inner, configured[run]):
            yield UNEXPECTED.finding("/files", Text("expected only what llmperf pack writes, found {}", shown(name)))


def _run_folders(present: set[str]) -> list[str]:
    return sorted({name.partition("/")[0] for name in present if "/" in name and not name.startswith(".")})


def _run_findings(manifest: Manifest, present: set[str]) -> Iterator[Finding]:
    """The runs are the folders of the archive, and each has its result."""
    folders = _run_folders(present)
    for name in folders:
        if f"{name}/{filenames.RESULT}" not in present:
            yield RUNS.finding("/runs", Text("expected {} in the folder {}, found none", filenames.RESULT, shown(name)))
        if name not in manifest.runs:
            yield RUNS.finding("/runs", Text("expected the folder {} among the runs, found it left out", shown(name)))
    for index, name in enumerate(manifest.runs):
        if name not in folders:
            yield RUNS.finding(f"/runs/{index}", Text("expected a folder {} in the archive, found none", shown(name)))
    if not manifest.runs:
        yield RUNS.finding("/runs", Text("expected at least one run, found none"))
    elif len(set(manifest.runs)) < len(manifest.runs):
        yield RUNS.finding("/runs", Text("expected each run once, found one twice"))


def _date_findings(manifest: Manifest) -> Iterator[Finding]:
    text = manifest.created
    try:
        # Python 3.10 does not read the Z of UTC
        time = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        expected = Text("expected a time such as 2026-01-02T03:04:05+00:00")
        yield UNDATED.finding("/created", Text("{}, found {}", expected, shown(text)))
