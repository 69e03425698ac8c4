"""`llmperf pack`: run folders as one archive with a manifest and a README."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmperf import __version__
from llmperf.errors import Refused, UserError
from llmperf.files.json_files import decode, encode_pretty, read_bytes, write_bytes
from llmperf.files.text import utc_time
from llmperf.runfolder import filenames
from llmperf.submissions.host_names import without_host_names
from llmperf.submissions.members import MANIFEST, README, SINGLE, configured_files, is_packed
from llmperf.types.documents import Manifest
from llmperf.types.result import Result

FOLDERS = (filenames.RECORDS, filenames.FILES)
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every member, so that the same runs give the same members."""


def pack(
    runs: Sequence[Path], output: Path, language: str = "en", with_logs: bool = False, with_hosts: bool = False
) -> Manifest:
    """Write the archive of some run folders, whole or not at all.

    Names and addresses of hosts are replaced by `node-000` and so on, unless `with_hosts`.

    Refused with every error finding if a run is not valid; UserError if `output` is there, two runs have one name, or
    a file cannot be read.
    """
    if output.exists():
        raise UserError(f"{output}: is there already; choose another name with -o")
    if not output.name.endswith(".zip"):
        raise UserError(f"{output}: expected a name that ends with .zip")
    for run in runs:
        _check(run)
    names = [run.resolve().name for run in runs]
    hidden = next((name for name in names if name.startswith(".")), None)
    if hidden is not None:
        raise UserError(f"expected the name of a run folder, found the hidden {hidden!r}: rename it")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"two run folders are called {twice[0]!r}: give each once")
    members: dict[str, bytes] = {}
    results = []
    for name, run in zip(names, runs, strict=True):
        files = {path.relative_to(run).as_posix(): read_bytes(path) for path in _files(run, with_logs)}
        if not with_hosts:
            files = without_host_names(files, lambda result: _readme([result], "en"))
        results.append(decode(files[filenames.RESULT], Result, str(run / filenames.RESULT)))
        members |= {f"{name}/{inner}": data for inner, data in files.items()}
    members[README] = _readme(results, language).encode("utf-8", "backslashreplace")
    manifest = _manifest(names, members)
    write_bytes(output, _zipped({MANIFEST: encode_pretty(manifest), **dict(sorted(members.items()))}))
    return manifest


def run_folders(paths: Sequence[Path]) -> list[Path]:
    """The run folders at some paths: run folders, their result.json, or folders with runs in or below them.

    UserError for a path without a result. Hidden folders and links are passed over, as in `llmperf validate`.
    """
    from llmperf.validation.catalogue import open_catalogue
    from llmperf.validation.document_files import documents_in

    runs: list[Path] = []
    for path in paths:
        if (path / filenames.RESULT).is_file():
            runs.append(path)
            continue
        files = [document.path for document in documents_in(path, open_catalogue())]
        folders = [file.parent for file in files if file.name == filenames.RESULT]
        if not folders:
            raise UserError(f"{path}: expected a run folder with {filenames.RESULT}, or a folder of them, found none")
        runs += folders
    return runs


def no_measurements(runs: Sequence[Path]) -> Iterator[str]:
    """One line for each run that failed or was simulated: it is packed, but it is no measurement."""
    from llmperf.validation.document_files import read_run_result

    for run in runs:
        result = read_run_result(run)
        if result.status != "complete":
            yield f"{run.name} is {result.status}"
        elif result.hardware.simulated:
            yield f"{run.name} ran on a simulated device"


def _check(run: Path) -> None:
    from llmperf.validation.check import Validator

    if not (run / filenames.RESULT).is_file():
        raise UserError(f"{run}: expected a run folder with {filenames.RESULT}, found none")
    judged = Validator(submitted=True).validated(run)
    errors = [(file.path, one) for file in judged for one in file.findings if one.severity == "error"]
    if errors:
        lines = (f"{path}:{one.path}: {one.code} {one.message}" for path, one in errors)
        raise Refused(f"{run}: not valid, so not packed:", lines)


def _files(run: Path, with_logs: bool) -> Iterator[Path]:
    """The regular files that a run's result was computed from; logs on request, as they may contain anything."""
    configured = configured_files(run)
    yield from (run / name for name in SINGLE if (run / name).is_file())
    for folder in (*FOLDERS, filenames.LOGS) if with_logs else FOLDERS:
        for path in sorted((run / folder).rglob("*")):
            inside = is_packed(path.relative_to(run).as_posix(), configured)
            if inside and path.is_file() and not path.is_symlink():
                yield path


def _readme(results: Sequence[Result], language: str) -> str:
    from llmperf.reporting.markdown import render_results

    return render_results(results, language)


def _manifest(runs: Sequence[str], members: dict[str, bytes]) -> Manifest:
    from llmperf_schemas import MANIFEST_SCHEMA

    return Manifest(
        schema=MANIFEST_SCHEMA,
        created=utc_time(),
        llmperf_version=__version__,
        runs=tuple(sorted(runs)),
        files={name: hashlib.sha256(data).hexdigest() for name, data in sorted(members.items())},
    )


def _zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return buffer.getvalue()
