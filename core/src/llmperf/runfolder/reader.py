"""Reads records: whole files after a run, or only new records during a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.types.records import (
    FailureRecord,
    MemorySample,
    PhaseRecord,
    RankRecord,
    Record,
    StepRecord,
)

MAX_LINE_BYTES = 2**20
MAX_FILE_BYTES = 2**30
"""Larger record files are refused."""
BLOCK_BYTES = 2**20
"""Size of one read; the memory for it is allocated before the first byte is read."""

_KINDS: dict[str, type[Record]] = {
    "phase": PhaseRecord,
    "step": StepRecord,
    "rank": RankRecord,
    "failure": FailureRecord,
    "memory": MemorySample,
}


@dataclass(frozen=True, slots=True)
class _Kind:
    kind: str


def decode_record(line: bytes, where: str) -> Record:
    """One line as a record of the kind that it names; UserError that names `where` if it is not one."""
    kind = json_files.decode(line, _Kind, where).kind
    if kind not in _KINDS:
        raise UserError(f"{where}: unknown kind of record {kind[:40]!r}; expected one of: {', '.join(_KINDS)}")
    return json_files.decode(line, _KINDS[kind], where)


def read_records(path: Path) -> list[Record]:
    """All records in a file, without an incomplete last line; empty if there is no file.

    UserError for a file that cannot be read, is too large, or has a line that is not a record.
    """
    if not path.exists():
        return []
    return list(_records(json_files.read_bytes(path, MAX_FILE_BYTES), path))


def _records(data: bytes, path: Path) -> Iterator[Record]:
    whole = data[: data.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), start=1):
        if len(line) > MAX_LINE_BYTES:
            raise UserError(f"{path}:{number}: longer than {MAX_LINE_BYTES} bytes")
        yield decode_record(line, f"{path}:{number}")


class RecordTail:
    """Follows a file that is being written: each call returns the records added since the last call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0

    def new(self) -> list[Record]:
        """Records added since the last call; empty while there is no file."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                return list(self._read(file))
        except FileNotFoundError:
            return []

    def _read(self, file: IO[bytes]) -> Iterator[Record]:
        rest = b""
        while block := file.read(BLOCK_BYTES):
            data = rest + block
            whole, rest = data[: data.rfind(b"\n") + 1], data[data.rfind(b"\n") + 1 :]
            self._offset += len(whole)
            yield from _records(whole, self.path)
            if len(rest) > MAX_LINE_BYTES:
                raise UserError(f"{self.path}: a line longer than {MAX_LINE_BYTES} bytes")
