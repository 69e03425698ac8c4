"""Brings the records of all ranks together step by step, without holding them all in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from llmperf.runfolder.reader import BLOCK_BYTES, RecordFile
from llmperf.types.records import Record, StepRecord

MERGED_BYTES = 4 * 2**20
"""Size of the blocks of all files that are in memory at the same time; their records take several times that."""
LEAST_BLOCK_BYTES = 2**12

_number = attrgetter("step")


class _Rank:
    """One file: its next steps, and where its other records go."""

    def __init__(self, path: Path, block_bytes: int, other: Callable[[Record], None]) -> None:
        self._file = RecordFile(path, block_bytes)
        self._other = other
        self._steps: list[StepRecord] = []
        self._last = 0

    def highest(self) -> int | None:
        """The highest step in memory; None at the end of the file."""
        while not self._steps:
            block = self._file.next_block()
            if not block:
                return None
            for record in block:
                if isinstance(record, StepRecord):
                    self._steps.append(record)
                else:
                    self._other(record)
            self._last = max(map(_number, self._steps), default=0)
        return self._last

    def take(self, highest: int) -> Sequence[StepRecord]:
        """Takes the steps up to the given one away."""
        if self._last <= highest:
            taken, self._steps = self._steps, []
        else:
            place = bisect_right(self._steps, highest, key=_number)
            taken, self._steps = self._steps[:place], self._steps[place:]
        return taken


def merged(paths: Sequence[Path], other: Callable[[Record], None]) -> Iterator[list[Sequence[StepRecord]]]:
    """The steps of all files in parts: each part has, for each file, its next records up to one and the same step.

    A part whole has all records of its steps where the steps of each file rise. Other records are passed to `other`.
    UserError for a file that cannot be read or has a line that is not a record.
    """
    block_bytes = min(BLOCK_BYTES, max(LEAST_BLOCK_BYTES, MERGED_BYTES // max(1, len(paths))))
    ranks = [_Rank(path, block_bytes, other) for path in paths]
    while highest := [last for rank in ranks if (last := rank.highest()) is not None]:
        yield [rank.take(min(highest)) for rank in ranks]
