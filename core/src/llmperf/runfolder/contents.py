"""The content of a run folder, read into memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from llmperf.files import json_files
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import AgentReport, Ending, Host, read_ending, read_host, read_reports
from llmperf.runfolder.reader import read_records
from llmperf.types.plan import Plan
from llmperf.types.records import FailureRecord, MemorySample, PhaseRecord, RankRecord, StepRecord


@dataclass(frozen=True)
class RunRecords:
    """A run folder in memory. Lists are ordered as the files are: by rank, then by time."""

    run: Path
    plan: Plan
    phases: list[PhaseRecord]
    steps: list[StepRecord]
    ranks: list[RankRecord]
    failures: list[FailureRecord]
    samples: list[MemorySample]
    reports: list[AgentReport]
    ending: Ending | None
    host: Host | None
    files: dict[str, str]
    """SHA-256 by name."""
    secrets: tuple[str, ...] = ()
    """Texts that are hidden in log tails."""

    @cached_property
    def by_step(self) -> dict[int, list[StepRecord]]:
        """The records of each step, in step order."""
        by_step: dict[int, list[StepRecord]] = defaultdict(list)
        for record in self.steps:
            by_step[record.step].append(record)
        return dict(sorted(by_step.items()))

    @cached_property
    def complete_steps(self) -> dict[int, list[StepRecord]]:
        """The steps that every rank has finished."""
        world = self.plan.layout.world_size
        return {step: records for step, records in self.by_step.items() if len(records) == world}


def read_run(run: Path) -> RunRecords:
    """Read a run folder; UserError if the plan or a record is unreadable."""
    records = [record for path in filenames.record_files(run) for record in read_records(path)]
    return RunRecords(
        run=run,
        plan=json_files.load(run / filenames.PLAN, Plan),
        phases=[record for record in records if isinstance(record, PhaseRecord)],
        steps=[record for record in records if isinstance(record, StepRecord)],
        ranks=[record for record in records if isinstance(record, RankRecord)],
        failures=[record for record in records if isinstance(record, FailureRecord)],
        samples=[record for record in read_records(run / filenames.MEMORY) if isinstance(record, MemorySample)],
        reports=read_reports(run),
        ending=read_ending(run),
        host=read_host(run),
        files=file_hashes(run),
    )


def file_hashes(run: Path) -> dict[str, str]:
    """SHA-256 of all files that a result is computed from, by name inside the folder."""
    single = [run / name for name in (filenames.PLAN, filenames.MEMORY, filenames.ENDING, filenames.MACHINE)]
    paths = [path for path in [*single, *sorted((run / filenames.RECORDS).glob("*"))] if path.is_file()]
    return {path.relative_to(run).as_posix(): json_files.sha256(path) for path in paths}
