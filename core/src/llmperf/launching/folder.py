"""Making a run folder: the plan, the framework's files, and space kept back for the end."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from llmperf import documents, rundir
from llmperf.errors import UserError
from llmperf.types.plan import Plan

RANK_RESERVE_BYTES = 256 * 1024
RESULT_RESERVE_BYTES = 1024 * 1024
BYTES_PER_LOSS_POINT = 200
"""Upper bound of a step's part in the result."""


def create_run_folder(run: Path, plan: Plan) -> None:
    """Create the folder with all that the workers read; UserError if it exists, cannot be written or has no space."""
    names = [_inside(name) for name in plan.files]
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
        run.mkdir()
        for name in (rundir.RECORDS, rundir.LOGS, rundir.FILES):
            (run / name).mkdir()
    except FileExistsError as error:
        raise UserError(f"{error.filename or run}: already exists; choose another folder with --out") from None
    except OSError as error:
        raise UserError(f"{error.filename or run}: cannot create: {error.strerror}") from None
    documents.write_bytes(run / rundir.RANK_RESERVE, bytes(RANK_RESERVE_BYTES))
    reserve = RESULT_RESERVE_BYTES + BYTES_PER_LOSS_POINT * plan.spec.contract.steps
    documents.write_bytes(run / rundir.RESULT_RESERVE, bytes(reserve))
    documents.save(run / rundir.PLAN, plan)
    for name, text in zip(names, plan.files.values(), strict=True):
        (run / rundir.FILES / name).parent.mkdir(parents=True, exist_ok=True)
        documents.write_bytes(run / rundir.FILES / name, text.encode())


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if not path.parts or path.is_absolute() or ".." in path.parts or "\0" in name or "\\" in name:
        raise UserError(f"plan.files: {name!r} is not a name inside the run folder")
    return name


def release(run: Path) -> None:
    """Give back the space that was kept for the end."""
    for name in (rundir.RANK_RESERVE, rundir.RESULT_RESERVE):
        (run / name).unlink(missing_ok=True)
