"""The content of a run folder, read into memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from llmperf.files import json_files
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import (
    AgentReport,
    Ending,
    Host,
    ReachedNode,
    read_ending,
    read_hosts,
    read_nodes,
    read_reports,
)
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
    hosts: dict[int, Host]
    """By node."""
    nodes: dict[int, ReachedNode]
    """The nodes of a run through a launcher, as the controller reached them."""
    files: dict[str, str]
    """SHA-256 by name."""
    secrets: tuple[str, ...] = ()
    """Texts that are hidden in log tails."""

    def clock_offset(self, node: int) -> tuple[float, float]:
        """A node's wall clock minus the controller's, and its largest error, in seconds; zeros on this machine."""
        reached = self.nodes.get(node)
        if reached is None or reached.clock_offset_seconds is None:
            return 0.0, 0.0
        return reached.clock_offset_seconds, reached.clock_error_seconds or 0.0

    @cached_property
    def samples_by_node(self) -> dict[int, list[MemorySample]]:
        """The readings of each node in the order of time."""
        by_node: dict[int, list[MemorySample]] = defaultdict(list)
        for sample in self.samples:
            by_node[sample.node_rank].append(sample)
        return {node: sorted(samples, key=lambda sample: sample.monotonic) for node, samples in by_node.items()}

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
    plan = json_files.load(run / filenames.PLAN, Plan)
    nodes = plan.layout.nodes
    records = [record for path in filenames.record_files(run) for record in read_records(path)]
    readings = [run / filenames.MEMORY, *(filenames.memory_path(run, node) for node in range(nodes))]
    return RunRecords(
        run=run,
        plan=plan,
        phases=[record for record in records if isinstance(record, PhaseRecord)],
        steps=[record for record in records if isinstance(record, StepRecord)],
        ranks=[record for record in records if isinstance(record, RankRecord)],
        failures=[record for record in records if isinstance(record, FailureRecord)],
        samples=[sample for path in readings for sample in read_records(path) if isinstance(sample, MemorySample)],
        reports=read_reports(run),
        ending=read_ending(run),
        hosts=read_hosts(run, nodes),
        nodes={node.node_rank: node for node in read_nodes(run) if node.node_rank < nodes},
        files=file_hashes(run),
    )


def file_hashes(run: Path) -> dict[str, str]:
    """SHA-256 of all files that a result is computed from, by name inside the folder."""
    sources = [*(run / name for name in filenames.SOURCES), *sorted((run / filenames.RECORDS).glob("*"))]
    return {path.relative_to(run).as_posix(): json_files.sha256(path) for path in sources if path.is_file()}
