"""Pack runs as a submission: one archive with a manifest and a README."""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import llmperf_schemas
import msgspec
from llmperf import (
    __version__,
    decode,
    encode_pretty,
    json_option,
    language_option,
    print_json,
    read_bytes,
    run_folders,
    utc_time,
    warn,
    write_bytes,
)
from llmperf.errors import Refused, UserError
from llmperf.reporting import render_results
from llmperf.types import Plan, Result
from llmperf.validation import Validator, documents_in, open_catalogue

from llmperf_verify.documents import PLAN, RESULT
from llmperf_verify.submissions import MANIFEST, README, REPORT, SINGLE, Manifest, configured_files, is_packed

EXAMPLES = """\b
Examples:
  llmperf pack runs/ID -o submission.zip
  llmperf pack runs -o submission.zip --lang zh          every run in a folder
  llmperf validate submission.zip
"""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every member, so that the same runs give the same members."""
PUBLIC = re.compile(r"localhost|127\..*|::1")
"""Names that every machine gives itself."""
TEXTS = frozenset({"host", "address", "message", "traceback", "log_tail", "notes", "problems", "env", "environment"})
"""Fields that may hold names of hosts, also below them. Names may be words, such as `cpu`: other fields are kept."""
DOCUMENTS = (PLAN, "nodes.json", "ending.json", RESULT)

Hide = Callable[[str], str]


@click.command("pack", epilog=EXAMPLES)
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path), shell_complete=run_folders
)
@click.option("-o", "--out", "output", metavar="FILE.zip", required=True, type=click.Path(path_type=Path),
              help="The archive to write.")  # fmt: skip
@language_option
@click.option("--logs", "with_logs", is_flag=True, help="Put the ranks' logs in too: read them first.")
@click.option("--hosts", "with_hosts", is_flag=True, help="Keep the names and addresses of hosts.")
@json_option
def command(
    paths: tuple[Path, ...], output: Path, language: str, with_logs: bool, with_hosts: bool, as_json: bool
) -> None:
    """Make a submission of runs: results, plans, records, environment, a README, a manifest with hashes.

    PATH is a run folder, its result.json, or a folder of runs. A run with an error finding is not packed. A run that
    failed or was simulated is packed with a warning. Of runs through a launcher, names and addresses of hosts are
    replaced by node-000, address-000 and so on. The archive is written completely or not at all.
    """
    runs: list[Path] = []
    for path in paths:
        if (path / RESULT).is_file():
            runs.append(path)
            continue
        documents = documents_in(path, open_catalogue())  # hidden folders and links are passed over
        folders = [document.path.parent for document in documents if document.path.name == RESULT]
        if not folders:
            raise UserError(f"{path}: expected a run folder with {RESULT}, or a folder of them, found none")
        runs += folders
    results, count = pack(runs, output, language, with_logs, with_hosts)
    for run, result in zip(runs, results, strict=True):
        if result.status != "complete":
            warn(f"packed, but no measurement: {run.name} is {result.status}")
        elif result.hardware.simulated:
            warn(f"packed, but no measurement: {run.name} ran on a simulated device")
    if as_json:
        print_json({"archive": str(output), "runs": [str(run) for run in runs], "files": count})
        return
    packed = f"{len(runs)} run{'s' * (len(runs) != 1)}, {count} files"
    click.echo(f"{output}: {packed}; check it: llmperf validate {output}")


def pack(
    runs: Sequence[Path], output: Path, language: str = "en", with_logs: bool = False, with_hosts: bool = False
) -> tuple[list[Result], int]:
    """Write the archive of some run folders, whole or not at all; returns their results and the number of files.

    Refused with every error finding if a run is not valid; UserError if `output` is there or two runs have one name.
    """
    if output.exists():
        raise UserError(f"{output}: is there already; choose another name with -o")
    if not output.name.endswith(".zip"):
        raise UserError(f"{output}: expected a name that ends with .zip")
    for run in runs:
        if not (run / RESULT).is_file():
            raise UserError(f"{run}: expected a run folder with {RESULT}, found none")
        if errors := _errors(run):
            raise Refused(f"{run}: not valid, so not packed:", errors)
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
        files = _files(run, with_logs)
        if not with_hosts:
            files = without_host_names(files)
        results.append(decode(files[RESULT], Result, str(run / RESULT)))
        members |= {f"{name}/{inner}": data for inner, data in files.items()}
    members[README] = render_results(results, language).encode("utf-8", "backslashreplace")
    members = dict(sorted(members.items()))
    manifest = Manifest(
        schema=llmperf_schemas.MANIFEST_SCHEMA,
        created=utc_time(),
        llmperf_version=__version__,
        runs=tuple(sorted(names)),
        files={name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {MANIFEST: encode_pretty(manifest), **members}.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    write_bytes(output, buffer.getvalue())
    if errors := _errors(
        output
    ):  # such as a section of an extension that was computed from a file that does not travel
        output.unlink()
        raise Refused(f"{output}: would not be valid, so not written:", errors)
    return results, len(members)


def _errors(path: Path) -> list[str]:
    """Errors of a run folder, or of an archive, as a submission."""
    judged = Validator(submitted=True).validated(path)
    found = [(file.path, one) for file in judged for one in file.findings if one.severity == "error"]
    return [f"{where}:{one.path}: {one.code} {one.message}" for where, one in found]


def _files(run: Path, with_logs: bool) -> dict[str, bytes]:
    """The regular files that a run's result was computed from; logs on request, as they may contain anything."""
    files = {name: read_bytes(run / name) for name in SINGLE if (run / name).is_file()}
    configured = configured_files(run)
    for folder in ("records", "files", *(["logs"] if with_logs else [])):
        for path in sorted((run / folder).rglob("*")):
            name = path.relative_to(run).as_posix()
            if is_packed(name, configured) and path.is_file() and not path.is_symlink():
                files[name] = read_bytes(path)
    return files


def without_host_names(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of one run, by path in its folder, without names of its hosts; the result has the new hashes."""
    plan = decode(files[PLAN], Plan, PLAN) if PLAN in files else None
    names = {} if plan is None else replacements(plan)
    if not names:
        return dict(files)
    hide = _hiding(names)
    hidden = {name: _hidden(name, data, hide) for name, data in files.items()}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in hidden.items()}
    result = decode(hidden[RESULT], Result, RESULT)
    result = replace(result, files={name: hashes.get(name, digest) for name, digest in result.files.items()})
    hidden[RESULT] = encode_pretty(result)
    if REPORT in hidden:
        hidden[REPORT] = render_results([result]).encode()
    return hidden


def replacements(plan: Plan) -> dict[str, str]:
    """Replacements for each name and address of the plan's nodes."""
    names: dict[str, str] = {}
    for kind, texts in (
        ("node", [node.host for node in plan.nodes]),
        ("address", [node.address for node in plan.nodes]),
    ):
        for number, text in enumerate(texts):
            names.setdefault(text, f"{kind}-{number:03d}")
        for number, text in enumerate(texts):  # `USER@HOST:PORT` is known without user and port too
            names.setdefault(_bare(text), f"{kind}-{number:03d}")
    return {name: other for name, other in names.items() if name and not PUBLIC.fullmatch(name)}


def _bare(host: str) -> str:
    name, colon, port = host.rpartition("@")[2].rpartition(":")
    return name if colon and port.isdigit() and ":" not in name else host.rpartition("@")[2]


def _hiding(names: Mapping[str, str]) -> Hide:
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-]|\.\w)")
    return lambda text: pattern.sub(lambda match: names[match[0]], text)


def _hidden(name: str, data: bytes, hide: Hide) -> bytes:
    """A file of the run; one in which nothing changes keeps its bytes."""
    folder, _, inner = name.rpartition("/")
    if name in DOCUMENTS or (folder == "records" and inner.startswith("host-")):
        document = json.loads(data)
        hidden = _without(document, hide, inside=False)
        return data if hidden == document else encode_pretty(hidden)
    if folder == "records" and inner.startswith("rank-"):
        return b"\n".join(_failure(line, hide) for line in data.split(b"\n"))
    if folder == "logs":
        return hide(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    return data


def _failure(line: bytes, hide: Hide) -> bytes:
    """A record; only those of failures hold texts. The last line may be cut off."""
    if b'"failure"' not in line:
        return line
    try:
        record = json.loads(line)
    except ValueError:
        return line
    return msgspec.json.encode(_without(record, hide, inside=False)) if isinstance(record, dict) else line


def _without(value: Any, hide: Hide, *, inside: bool) -> Any:
    if isinstance(value, str):
        return hide(value) if inside else value
    if isinstance(value, list):
        return [_without(part, hide, inside=inside) for part in value]
    if isinstance(value, dict):
        return {
            name: _without(part, hide, inside=inside or name in TEXTS or name.startswith("environment."))
            for name, part in value.items()
        }
    return value
