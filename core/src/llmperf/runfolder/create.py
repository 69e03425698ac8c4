"""Creates a run folder: the plan, the framework's files, and space reserved for the end of the run."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.files.text import without_secrets
from llmperf.runfolder import filenames
from llmperf.runfolder.totals import MOST_EVEN_POINTS, MOST_NONFINITE_POINTS
from llmperf.types.plan import Plan

RANK_RESERVE_BYTES = 256 * 1024
RESULT_RESERVE_BYTES = 1024 * 1024
BYTES_PER_LOSS_POINT = 200
"""Upper bound of the size of one point of the loss curve in a result."""
BYTES_PER_RANK = 512
"""Upper bound of the size of what a result has for each rank: its memory, and the names and digests of its files."""


def create_run_folder(run: Path, plan: Plan) -> None:
    """Create the folder with all files that workers read; UserError if it exists, cannot be written or has no space."""
    for name in plan.worker.files:
        inside = PurePosixPath(name)
        if not inside.parts or inside.is_absolute() or ".." in inside.parts or "\0" in name or "\\" in name:
            raise UserError(f"plan.worker.files: {name!r} is not a name inside the run folder")
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{run.parent}: cannot create: {error.strerror}") from None
    try:
        run.mkdir()
    except FileExistsError:
        raise UserError(f"{run}: already exists; choose another folder with --out") from None
    except OSError as error:
        raise UserError(f"{run}: cannot create: {error.strerror}") from None
    try:
        for name in (filenames.RECORDS, filenames.LOGS, filenames.FILES):
            (run / name).mkdir()
        json_files.write_bytes(run / filenames.RANK_RESERVE, bytes(RANK_RESERVE_BYTES))
        points = min(plan.spec.contract.steps, MOST_EVEN_POINTS + MOST_NONFINITE_POINTS)
        reserve = RESULT_RESERVE_BYTES + BYTES_PER_LOSS_POINT * points + BYTES_PER_RANK * plan.layout.world_size
        json_files.write_bytes(run / filenames.RESULT_RESERVE, bytes(reserve))
        nodes = tuple(replace(node, env=without_secrets(node.env)) for node in plan.nodes)
        recorded = replace(plan, env=without_secrets(plan.env), nodes=nodes)  # ranks inherit secrets from the agent
        json_files.save(run / filenames.PLAN, recorded)
        for name, text in plan.worker.files.items():
            path = run / filenames.FILES / name
            path.parent.mkdir(parents=True, exist_ok=True)
            json_files.write_bytes(path, text.encode())
    except BaseException as error:
        shutil.rmtree(run, ignore_errors=True)
        if isinstance(error, OSError):
            raise UserError(f"{run}: cannot create: {error.strerror}") from None
        raise


def load_plan(run: Path | str) -> Plan:
    """The plan of a run folder, for programs that a framework starts; UserError if it cannot be read."""
    return json_files.load(Path(run) / filenames.PLAN, Plan)


def fill(text: str, values: Mapping[str, object]) -> str:
    """Replace each placeholder `{name}` of a plan by its value; other braces are left unchanged."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def release(run: Path) -> None:
    """Delete the files that reserve space for the end of the run."""
    for name in (filenames.RANK_RESERVE, filenames.RESULT_RESERVE):
        (run / name).unlink(missing_ok=True)


@contextmanager
def held(run: Path) -> Iterator[None]:
    """Hold the lock of a run folder; UserError if another process does, or the folder has no plan."""
    path = run / filenames.PLAN
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; expected a run folder") from None
    try:
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{run}: expected a run that has ended, found that its llmperf still runs") from None
        yield
    finally:
        os.close(lock)
