"""An unpacked submission against its manifest."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from pathlib import Path, PurePosixPath

from llmperf.files.json_files import convert, read_bytes, sha256
from llmperf.runfolder import filenames
from llmperf.submissions.members import README, configured_files, is_packed
from llmperf.types import Finding
from llmperf.types.submission import Manifest
from llmperf.validation.catalogue import MAX_VIOLATIONS
from llmperf.validation.finding_files import MANIFEST
from llmperf.validation.reading import parse_json, pointer, shown
from llmperf.validation.rules.documents import REPEATED_KEY
from llmperf.validation.rules.submission import (
    ALTERED,
    EXTRA,
    MISSING,
    NO_MANIFEST,
    NOT_RENDERED,
    RUNS,
    UNDATED,
    UNEXPECTED,
)
from llmperf.validation.schema import schema_findings


def manifest_findings(folder: Path) -> Iterator[Finding]:
    """Whether the files of an unpacked archive are those that were packed; UserError if the manifest is not JSON."""
    path = folder / MANIFEST
    if not path.is_file():
        yield NO_MANIFEST.finding(
            "", f"expected {MANIFEST} at the top of the archive, found none: made by llmperf pack"
        )
        return
    parsed = parse_json(read_bytes(path), MANIFEST)
    for key in parsed.repeated:
        yield REPEATED_KEY.finding("", f"key {shown(key)} stands twice in one object")
    broken = schema_findings("manifest", parsed.value)
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
            yield MISSING.finding(where, f"expected the file {shown(name)}, found none")
        elif (found := sha256(folder / PurePosixPath(name))) != expected:
            yield ALTERED.finding(where, f"expected SHA-256 {shown(expected)}, found {found}: the file was changed")
    if README not in present and README not in manifest.files:
        yield MISSING.finding("/files", f"expected the file {shown(README)}, found none")
    for name in sorted(present - manifest.files.keys()):
        yield EXTRA.finding("/files", f"the file {shown(name)} is not in the manifest")


def _unexpected(folder: Path, present: set[str]) -> Iterator[Finding]:
    """Archives in the archive, hidden folders, documents under other names: nobody looks into them."""
    configured = {run: configured_files(folder / run) for run in _run_folders(present)}
    for name in sorted(present - {README}):
        run, _, inner = name.partition("/")
        if run not in configured or not is_packed(inner, configured[run]):
            yield UNEXPECTED.finding("/files", f"expected only what llmperf pack writes, found {shown(name)}")


def _run_folders(present: set[str]) -> list[str]:
    return sorted({name.partition("/")[0] for name in present if "/" in name and not name.startswith(".")})


def _run_findings(manifest: Manifest, present: set[str]) -> Iterator[Finding]:
    """The runs are the folders of the archive, and each has its result."""
    folders = _run_folders(present)
    for name in folders:
        if f"{name}/{filenames.RESULT}" not in present:
            yield RUNS.finding("/runs", f"expected {filenames.RESULT} in the folder {shown(name)}, found none")
        if name not in manifest.runs:
            yield RUNS.finding("/runs", f"expected the folder {shown(name)} among the runs, found it left out")
    for index, name in enumerate(manifest.runs):
        if name not in folders:
            yield RUNS.finding(f"/runs/{index}", f"expected a folder {shown(name)} in the archive, found none")
    if not manifest.runs:
        yield RUNS.finding("/runs", "expected at least one run, found none")
    elif len(set(manifest.runs)) < len(manifest.runs):
        yield RUNS.finding("/runs", "expected each run once, found one twice")


def rendering_findings(folder: Path) -> Iterator[tuple[Path, int, Finding]]:
    """Where a README or a report is not what llmperf writes of the results: file, line, finding."""
    from llmperf.submissions.rendered import differences

    if (folder / MANIFEST).is_file():
        for path, (line, message) in differences(folder):
            yield path, line, NOT_RENDERED.finding("", f"{message}, line {line}")


def _date_findings(manifest: Manifest) -> Iterator[Finding]:
    text = manifest.created
    try:
        # Python 3.10 does not read the Z of UTC
        time = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        expected = "expected a time such as 2026-01-02T03:04:05+00:00"
        yield UNDATED.finding("/created", f"{expected}, found {shown(text)}")
