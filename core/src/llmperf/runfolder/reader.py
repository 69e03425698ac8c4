"""Records of a run folder: read whole after a run, or only what is new during it; appended, with their moments."""

from __future__ import annotations

import errno
import os
import re
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from llmperf.errors import RunFailed, UserError
from llmperf.files import json_files
from llmperf.files.text import encodable, redacted, secret_values
from llmperf.runfolder import filenames
from llmperf.types.records import (
    ExpertsRecord,
    FailureRecord,
    FurtherRecord,
    MemorySample,
    PhaseRecord,
    ProfileRecord,
    RankRecord,
    Record,
    StepRecord,
)

MAX_LINE_BYTES = 2**20
MAX_FILE_BYTES = 2**32
"""Larger record files are refused, so that reading one ends: a step takes about 250 bytes and 2 microseconds."""
BLOCK_BYTES = 2**20
"""Size of one read; the memory for it is allocated before the first byte is read."""

KINDS: dict[str, type[Record]] = {
    "phase": PhaseRecord,
    "step": StepRecord,
    "rank": RankRecord,
    "experts": ExpertsRecord,
    "failure": FailureRecord,
    "memory": MemorySample,
    "profile": ProfileRecord,
}
FURTHER = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names of the kinds of records that extensions write; not one that may be a misspelt kind of another."""
MISSPELT = 0.8
"""Ratio of difflib from which a kind is a misspelling."""
_STEP = b'{"kind":"step"'
"""Beginning of the line of a step."""
_STEPS = msgspec.json.Decoder(StepRecord)


@dataclass(frozen=True, slots=True)
class _Kind:
    kind: str
    rank: int = -1


def _decoded(line: bytes, where: str) -> Record:
    if len(line) > MAX_LINE_BYTES:
        raise UserError(f"{where}: longer than {MAX_LINE_BYTES} bytes")
    if line.startswith(_STEP):
        return json_files.decode(line, StepRecord, where)
    named = json_files.decode(line, _Kind, where)
    if named.kind in KINDS:
        return json_files.decode(line, KINDS[named.kind], where)
    if not FURTHER.fullmatch(named.kind) or named.rank < 0:
        raise UserError(f"{where}: unknown kind of record {named.kind[:40]!r}; expected one of: {', '.join(KINDS)}")
    return FurtherRecord(kind=named.kind, rank=named.rank, line=line)


def rank_records(run: Path, rank: int) -> Iterator[Record]:
    """The records of one rank in a run folder, one by one; errors as those of `RecordFile`."""
    return iter(RecordFile(filenames.records_path(run, rank)))


def recorded(run: Path) -> Iterator[tuple[Path, Iterator[Record]]]:
    """The record files of a run folder with their records, which are read as they are asked for: first those of its
    ranks, in order, then those of its devices. Errors as those of `RecordFile`.
    """
    of_nodes = sorted((run / filenames.RECORDS).glob("memory-*.jsonl"))
    for path in (*filenames.record_files(run), run / filenames.MEMORY, *of_nodes):
        yield path, iter(RecordFile(path))


def samples_of(run: Path, nodes: int) -> Iterator[MemorySample]:
    """The readings of the devices of all nodes, node by node."""
    for path in (run / filenames.MEMORY, *(filenames.memory_path(run, node) for node in range(nodes))):
        yield from (record for record in RecordFile(path) if isinstance(record, MemorySample))


class RecordFile:
    """Reads a file of records block by block, so that its size does not matter; the file is open during a read only."""

    def __init__(self, path: Path, block_bytes: int = BLOCK_BYTES) -> None:
        self.path = path
        self._block_bytes = block_bytes
        self._offset = 0
        self._line = 1

    def __iter__(self) -> Iterator[Record]:
        """The records that were added since the last call; UserError as `next_block` raises."""
        while block := self.next_block():
            yield from block

    def new(self) -> list[Record]:
        """All records that were added since the last call."""
        return list(self)

    def next_block(self) -> list[Record]:
        """The next records, without an incomplete last line; empty where there is no file or nothing new."""
        try:
            if self._offset and os.stat(self.path).st_size <= self._offset:
                return []
            with json_files.open_regular(self.path) as file:
                if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                    raise UserError(f"{self.path}: larger than the {MAX_FILE_BYTES // 2**20} MiB that are read")
                file.seek(self._offset)
                data = file.read(self._block_bytes)
                while b"\n" not in data and len(data) <= MAX_LINE_BYTES and (more := file.read(self._block_bytes)):
                    data += more
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"{self.path}: {error.strerror or error}") from None
        lines, records = data[: data.rfind(b"\n") + 1], list[Record]()
        if not lines and len(data) > MAX_LINE_BYTES:
            raise UserError(f"{self.path}:{self._line}: a line longer than {MAX_LINE_BYTES} bytes")
        if lines.count(_STEP) == lines.count(b"\n"):  # nearly all of a file: in one go
            with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                records = list(_STEPS.decode_lines(lines))
        if len(records) != lines.count(b"\n"):
            numbered = enumerate(lines.splitlines(), start=self._line)
            records = [_decoded(line, f"{self.path}:{number}") for number, line in numbered]
        self._offset += len(lines)
        self._line += len(records)
        return records


MERGED_BYTES = 4 * 2**20
"""Size of the blocks of all files that are in memory at the same time; their records take several times that."""
LEAST_BLOCK_BYTES = 2**12

_number = attrgetter("step")


def merged(paths: Sequence[Path], other: Callable[[Record], None]) -> Iterator[list[list[StepRecord]]]:
    """The steps of all files in parts: each part has, for each file, its next records up to one and the same step.

    A part whole has all records of its steps where the steps of each file rise. Other records are passed to `other`.
    UserError for a file that cannot be read or has a line that is not a record.
    """
    block_bytes = min(BLOCK_BYTES, max(LEAST_BLOCK_BYTES, MERGED_BYTES // max(1, len(paths))))
    files, last = [RecordFile(path, block_bytes) for path in paths], [0] * len(paths)
    steps: list[list[StepRecord]] = [[] for _ in paths]
    while True:
        for place, file in enumerate(files):
            while not steps[place] and (block := file.next_block()):
                for record in block:
                    if isinstance(record, StepRecord):
                        steps[place].append(record)
                    else:
                        other(record)
                last[place] = max(map(_number, steps[place]), default=0)
        if not any(steps):
            return
        highest, part = min(last[place] for place, kept in enumerate(steps) if kept), []
        for place, kept in enumerate(steps):
            end = len(kept) if last[place] <= highest else bisect_right(kept, highest, key=_number)
            part.append(kept[:end])
            steps[place] = kept[end:]
        yield part


def by_step(part: Iterable[Iterable[StepRecord]]) -> dict[int, list[StepRecord]]:
    """The records of a part of a run by step, in step order."""
    groups: dict[int, list[StepRecord]] = defaultdict(list)
    for records in part:
        for record in records:
            groups[record.step].append(record)
    return dict(sorted(groups.items()))


MAX_MESSAGE = 4_000
MAX_TRACEBACK = 40_000


class Moment(NamedTuple):
    """One moment by both clocks of a host: the wall clock, which may be set, and the monotonic one, for intervals."""

    at: float
    """Seconds since the epoch."""
    monotonic: float
    """Seconds of CLOCK_MONOTONIC, which all processes of a host share."""

    @classmethod
    def now(cls) -> Moment:
        """This moment."""
        return cls(time.time(), time.monotonic())

    def earlier(self, seconds: float) -> Moment:
        """The moment so many seconds before this one, but not before the clocks' zero."""
        return Moment(max(0.0, self.at - seconds), max(0.0, self.monotonic - seconds))


class Recorder:
    """An append-only file of JSON lines, one write each. `reserve` is a file that is deleted when the disk is full."""

    def __init__(self, path: Path, reserve: Path | None = None) -> None:
        self.path = path
        self._reserve = reserve
        self._encode = msgspec.json.Encoder().encode
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self._failed(error) from None

    def write(self, record: object) -> None:
        """Append one record, a failure without secrets; RunFailed if the disk is full or the file cannot be written."""
        if isinstance(record, FailureRecord):
            secrets = secret_values(os.environ)
            message = encodable(redacted(record.message, secrets))[:MAX_MESSAGE]
            traceback = encodable(redacted(record.traceback, secrets))[-MAX_TRACEBACK:]
            record = replace(record, message=message, traceback=traceback)
        line = self._encode(record) + b"\n"
        try:
            written = os.write(self._file, line)
        except OSError as error:
            raise self._failed(error) from None
        if written != len(line):
            os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            raise self._failed(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    def _failed(self, error: OSError) -> RunFailed:
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and self._reserve is not None:
            self._reserve.unlink(missing_ok=True)
        return RunFailed(f"{self.path}: cannot write a record: {error.strerror or error}")

    def close(self) -> None:
        """Close the file; further writes are errors."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
