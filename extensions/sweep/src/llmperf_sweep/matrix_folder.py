"""The folder of a matrix: what it consists of, who works in it, and the state of each run.

DIR/matrix.json                 the cells, and the versions that they are measured with
DIR/matrix.lock, part-I-of-N.lock   held by the controllers that work here
DIR/cells/ID-REPEAT.json        the attempts of one run
DIR/runs/                       a run folder for each attempt that ended
DIR/unfinished/                 run folders of attempts that were cut off: they do not count
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import socket
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Literal, TypeVar

from llmperf import __version__, encode_pretty, read_bytes, read_options, utc_time, write_bytes
from llmperf.errors import UserError
from llmperf.types.units import Count, NonNegative, Positive

from llmperf_sweep.matrix_file import Cell, Matrix

T = TypeVar("T")

MATRIX = "matrix.json"
LOCK = "matrix.lock"
CELLS = "cells"
RUNS = "runs"
UNFINISHED = "unfinished"
JOBS = "jobs"
"""Where launchers keep the scripts and the output of jobs that they submit."""
SCHEMA = "llmperf/matrix/1"
_PLUGINS = re.compile(r"llmperf\.(vendor|framework|extension)\.v\d+")
"""Entry-point groups of plugins."""
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixDocument:
    """`matrix.json`: what the folder holds; a controller that continues must have the same."""

    schema: str
    """Name and version of this document's schema."""
    name: str
    created: str
    """UTC, ISO 8601."""
    repeats: Positive
    launcher: str
    """Launcher that brings the ranks to the nodes."""
    versions: Mapping[str, str]
    """Version of each distribution with a plugin, and of the core."""
    files: Mapping[str, str]
    """SHA-256 of the user's case and model files."""
    cells: Mapping[str, Cell]
    """By identity."""


def document_of(matrix: Matrix, launcher: str) -> MatrixDocument:
    """The document of a matrix as it is now."""
    versions = {"llmperf-core": __version__}
    for installed in distributions():
        if any(_PLUGINS.fullmatch(entry.group) for entry in installed.entry_points):
            versions.setdefault(installed.name, installed.version)
    names = {cell.case for cell in matrix.cells} | {str(cell.value("contract.model")) for cell in matrix.cells}
    own = {name: matrix.folder / name for name in sorted(names) if name.endswith(".toml")}
    return MatrixDocument(
        schema=SCHEMA,
        name=matrix.name,
        created=utc_time(),
        repeats=matrix.repeats,
        launcher=launcher,
        versions=versions,
        files={name: hashlib.sha256(read_bytes(path)).hexdigest() for name, path in own.items()},
        cells={cell.identity: cell for cell in matrix.cells},
    )


def _load(path: Path, kind: type[T]) -> T:
    try:
        document = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: {error}") from None
    return read_options(document, kind, str(path))


def differences(old: MatrixDocument, new: MatrixDocument) -> Iterator[str]:
    """In what a matrix differs from the one that a folder was made for, apart from what changes no figure."""
    if new.repeats < old.repeats:
        yield f"repeats {new.repeats}, was {old.repeats}; only more are accepted"
    if new.launcher != old.launcher:
        yield f"launcher {new.launcher}, was {old.launcher}"
    for count, cells, other in (("more", new.cells, old.cells), ("fewer", old.cells, new.cells)):
        different = [cell for identity, cell in cells.items() if identity not in other]
        if different:
            yield f"{len(different)} cells {count}, such as {different[0].text}"
    for kind, before_all, after_all in (("", old.versions, new.versions), ("file ", old.files, new.files)):
        for name in sorted({*before_all, *after_all}):
            before, after = before_all.get(name), after_all.get(name)
            if before != after:
                yield f"file {name} has changed" if kind else f"{name} {after or 'gone'}, was {before or 'not there'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a run of a cell."""

    run: str | None
    """Name of its run folder; None if the run could not be planned."""
    began: str
    """UTC, ISO 8601."""
    state: Literal["running", "complete", "failed", "unfinished"]
    """`running` is written before the run begins; `unfinished` if it was cut off."""
    seconds: NonNegative | None = None
    """How long it took; None while it runs, and if its controller did not see its end."""
    reason: str = ""
    """Reason of the failure, in one line."""
    error_findings: Count = 0
    """Findings of its result that are errors."""
    tokens_per_second_per_device: NonNegative | None = None
    """token/p/s; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRun:
    """One of the runs of a cell, with its attempts."""

    cell: str
    """Identity of the cell."""
    repeat: Positive
    """From 1."""
    attempts: tuple[Attempt, ...] = field(default_factory=tuple)
    """In order."""

    @property
    def complete(self) -> Attempt | None:
        """The attempt that counts; None if there is none yet."""
        return next((attempt for attempt in self.attempts if attempt.state == "complete"), None)

    @property
    def failures(self) -> int:
        """Attempts that failed."""
        return sum(attempt.state == "failed" for attempt in self.attempts)

    @property
    def name(self) -> str:
        """Name of its file, without the suffix."""
        return f"{self.cell}-{self.repeat}"


class MatrixFolder:
    """A folder that this controller works in, locked until `close`."""

    def __init__(self, path: Path, part: tuple[int, int] | None = None) -> None:
        """UserError if the folder cannot be made or another controller works in it."""
        self.path = path
        self.part = part
        try:
            for name in (CELLS, RUNS, UNFINISHED):
                (path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{path}: cannot create: {error.strerror}") from None
        self._locks: list[int] = []
        try:
            for lock in _locks(path, part):
                self._locks.append(lock)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other controllers work here."""
        for lock in self._locks:
            os.ftruncate(lock, 0)
            os.close(lock)
        self._locks.clear()

    def open(self, document: MatrixDocument) -> None:
        """Make `matrix.json`, or check that it describes the same matrix; UserError with what has changed."""
        before = checked(self.path, document)
        if before is None:
            write_bytes(self.path / MATRIX, encode_pretty(document))
        elif document.repeats > before.repeats:
            write_bytes(self.path / MATRIX, encode_pretty(replace(before, repeats=document.repeats)))

    def write(self, run: CellRun) -> None:
        """Save the state of a run."""
        write_bytes(self.path / CELLS / f"{run.name}.json", encode_pretty(run))

    def set_aside(self, name: str) -> None:
        """Move the folder of a run that was cut off, if it had been made, to those that do not count."""
        folder = self.path / RUNS / name
        if folder.exists():
            folder.rename(self.path / UNFINISHED / name)


def checked(path: Path, document: MatrixDocument) -> MatrixDocument | None:
    """The document of a folder, None if it has none; UserError if the folder was made for another matrix."""
    file = path / MATRIX
    if not file.exists():
        return None
    before = _load(file, MatrixDocument)
    changed = "; ".join(differences(before, document))
    if changed:
        raise UserError(
            f"{file}: expected the matrix that this folder was made for, found another one: {changed};"
            " undo that, or choose another folder with --out"
        )
    return before


def read_run(path: Path, cell: str, repeat: int) -> CellRun:
    """The state of a run in the folder of a matrix; without attempts if there is no file yet."""
    empty = CellRun(cell=cell, repeat=repeat)
    file = path / CELLS / f"{empty.name}.json"
    if not file.exists():
        return empty
    run = _load(file, CellRun)
    names = [attempt.run for attempt in run.attempts if attempt.run is not None]
    if (run.cell, run.repeat) != (cell, repeat) or not all(map(_RUN_NAME.fullmatch, names)):
        raise UserError(f"{file}: expected run {repeat} of cell {cell} with run folders below {RUNS}/, found others")
    return run


def made_for_matrix(path: Path) -> bool:
    """Check whether a folder is that of a matrix; UserError if it holds other folders, such as those of runs."""
    if (path / MATRIX).exists():
        return True
    others = [entry.name for entry in path.iterdir() if entry.is_dir()] if path.is_dir() else []
    other = next((name for name in sorted(others) if name not in (CELLS, RUNS, UNFINISHED, JOBS)), None)
    if other is not None:
        raise UserError(
            f"{path}: expected the folder of a matrix or an empty one, found {other}/; choose another --out"
        )
    return False


def _locks(path: Path, part: tuple[int, int] | None) -> Iterator[int]:
    """Descriptors of the locks of this controller, of the whole matrix or a part, which excludes the same part."""
    yield _locked(path, LOCK, fcntl.LOCK_EX if part is None else fcntl.LOCK_SH)
    if part is None:
        return
    yield _locked(path, f"part-{part[0]}-of-{part[1]}.lock", fcntl.LOCK_EX)
    for other in sorted(path.glob("part-*-of-*.lock")):
        if not other.stem.endswith(f"-of-{part[1]}"):
            os.close(_locked(path, other.name, fcntl.LOCK_EX))


def _locked(path: Path, name: str, kind: int) -> int:
    try:
        lock = os.open(path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        raise UserError(f"{path / name}: cannot create: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise UserError(f"{path / name}: expected a regular file, found another kind; delete it")
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 200, 0).decode(errors="replace").strip() or "a controller of parts of it"
        os.close(lock)
        raise UserError(f"{path}: {holder} works in this folder ({name}); wait for it, or end it") from None
    except OSError as error:
        os.close(lock)
        raise UserError(f"{path}: this file system has no locks ({error.strerror}); choose another --out") from None
    os.ftruncate(lock, 0)
    if kind == fcntl.LOCK_EX:
        os.pwrite(lock, f"process {os.getpid()} on {socket.gethostname()}, since {utc_time()},".encode(), 0)
    return lock
