"""The records of one rank, as rules over run folders take them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmperf.runfolder import filenames
from llmperf.runfolder.rank_totals import RankTotals
from llmperf.runfolder.reader import read_steps
from llmperf.types import PhaseRecord, RankRecord, StepRecord
from llmperf.validation.reading import pointer


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """Records of one rank."""

    rank: RankRecord
    totals: RankTotals
    phases: list[PhaseRecord]
    path: Path
    """Its file, which is read again only where the totals show that a step is wrong."""

    def steps(self) -> Iterator[StepRecord]:
        """Its steps, from the file."""
        return read_steps(self.path)

    @property
    def edges(self) -> tuple[float, float] | None:
        """Edges of its window, by its phases; None unless it has exactly one begin, and an end."""
        begins = [phase.monotonic for phase in self.phases if phase.phase == "measuring"]
        ends = [phase.monotonic for phase in self.phases if phase.phase == "evaluating"]
        return (begins[0], ends[0]) if len(begins) == 1 and ends else None

    @property
    def pointer(self) -> str:
        """Pointer for findings about it: its file among those of the result."""
        return pointer(["files", f"{filenames.RECORDS}/{self.path.name}"])
