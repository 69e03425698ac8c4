"""An unpacked submission against its manifest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from llmperf.documents import convert, read_bytes, sha256
from llmperf.types import Finding
from llmperf.types.submission import Manifest
from llmperf.validation.finding_files import MANIFEST
from llmperf.validation.reading import parse_json, pointer, shown
from llmperf.validation.rules.submission import ALTERED, EXTRA, MISSING, NO_MANIFEST
from llmperf.validation.schema import schema_findings


def manifest_findings(folder: Path) -> Iterator[Finding]:
    """Whether the files of an unpacked archive are those that were packed; UserError if the manifest is not JSON."""
    path = folder / MANIFEST
    if not path.is_file():
        yield NO_MANIFEST.finding(
            "", f"expected {MANIFEST} at the top of the archive, found none: made by llmperf pack"
        )
        return
    value = parse_json(read_bytes(path), MANIFEST).value
    broken = schema_findings("manifest", value)
    yield from broken
    if not broken:
        yield from _file_findings(folder, convert(value, Manifest, MANIFEST))


def _file_findings(folder: Path, manifest: Manifest) -> Iterator[Finding]:
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {MANIFEST}
    for name, expected in manifest.files.items():
        where = pointer(["files", name[:200]])
        if name not in present:  # a name that leaves the folder is among them as little
            yield MISSING.finding(where, f"expected the file {shown(name)}, found none")
        elif (found := sha256(folder / PurePosixPath(name))) != expected:
            yield ALTERED.finding(where, f"expected SHA-256 {shown(expected)}, found {found}: the file was changed")
    for name in sorted(present - manifest.files.keys()):
        yield EXTRA.finding("/files", f"the file {shown(name)} is not in the manifest")
