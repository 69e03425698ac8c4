"""The content of a run folder: what its records add up to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import (
    AgentReport,
    Ending,
    Host,
    ReachedNode,
    read_ending,
    read_nodes,
    read_reports,
)
from llmperf.runfolder.reader import by_step, merged, samples_of
from llmperf.runfolder.readings import NodeReadings, node_readings
from llmperf.runfolder.totals import ExpertTotals, RankTotals, Span, StepTotals, measured_windows
from llmperf.types.plan import Plan
from llmperf.types.records import (
    ExpertsRecord,
    FailureRecord,
    FurtherRecord,
    PhaseRecord,
    ProfileRecord,
    RankRecord,
    Record,
)


@dataclass(frozen=True)
class RunRecords:
    """A run folder. Steps are added up as they are read, other records are lists, ordered by rank, then by time."""

    run: Path
    plan: Plan
    phases: list[PhaseRecord]
    """Repeated `evaluating` of a long evaluation left out."""
    steps: StepTotals
    by_rank: dict[int, RankTotals]
    """The totals of each rank that has recorded a step, in rank order."""
    ranks: list[RankRecord]
    experts: ExpertTotals
    further: dict[str, dict[int, FurtherRecord]]
    """Records of extensions for ranks: by kind, then by rank, in rank order."""
    failures: list[FailureRecord]
    profiles: list[ProfileRecord]
    """Profiles of steps after the measured ones, or of a run under a profiler."""
    windows: dict[int, Span]
    """Spans in which every rank of a node was in its measured window, by node."""
    readings: dict[int, NodeReadings]
    reports: list[AgentReport]
    ending: Ending | None
    hosts: dict[int, Host]
    """Hosts by node."""
    nodes: dict[int, ReachedNode]
    """The nodes of a run through a launcher, as the controller reached them."""
    files: dict[str, str]
    """SHA-256 by name."""
    secrets: tuple[str, ...] = ()
    """Texts that are hidden in log tails."""

    @property
    def window_seconds(self) -> float | None:
        """Length of the slowest rank's measured window; None unless every rank has closed its own."""
        if len({rank.rank for rank in self.ranks}) != self.plan.layout.world_size:
            return None
        return max(rank.window_seconds for rank in self.ranks) or None


def read_run(run: Path, secrets: tuple[str, ...] = ()) -> RunRecords:
    """Read a run folder in memory that depends on the number of ranks, not of steps; UserError if it is unreadable."""
    plan = json_files.load(run / filenames.PLAN, Plan)
    sources = [*(run / name for name in filenames.SOURCES), *sorted((run / filenames.RECORDS).glob("*"))]
    files = {path.relative_to(run).as_posix(): json_files.sha256(path) for path in sources if path.is_file()}
    steps = StepTotals(plan.layout.world_size, plan.batch.tokens_per_step)
    by_rank, experts, phase_of = dict[int, RankTotals](), ExpertTotals(plan), dict[int, str]()
    phases, ranks = list[PhaseRecord](), list[RankRecord]()
    failures, profiles = list[FailureRecord](), list[ProfileRecord]()
    further: dict[str, dict[int, FurtherRecord]] = defaultdict(dict)

    def add(record: Record) -> None:
        if isinstance(record, PhaseRecord):
            if record.phase != "evaluating" or phase_of.get(record.rank) != "evaluating":
                phases.append(record)
            phase_of[record.rank] = record.phase
        elif isinstance(record, RankRecord):
            ranks.append(record)
        elif isinstance(record, ExpertsRecord):
            experts.add(record)
        elif isinstance(record, FurtherRecord) and record.kind != plan.purpose:  # those of a task are the extension's
            if record.rank in further[record.kind]:
                raise UserError(f"records of rank {record.rank}: {record.kind}: expected one record, found several")
            further[record.kind][record.rank] = record
        elif isinstance(record, FailureRecord):
            failures.append(record)
        elif isinstance(record, ProfileRecord):
            profiles.append(record)

    nodes, paths = plan.layout.nodes, filenames.record_files(run)
    for part in merged(paths, add):
        for path, records in zip(paths, part, strict=True):
            if not records:
                continue
            rank = records[0].rank
            if rank not in by_rank:
                if path != filenames.records_path(run, rank):
                    raise UserError(f"{path}: expected records of the rank in the file's name, found rank {rank}")
                by_rank[rank] = RankTotals(rank)
            if any(record.rank != rank for record in records):
                raise UserError(f"{path}: expected records of one rank, found several")
            by_rank[rank].add(records)
        for step, of_ranks in by_step(part).items():
            steps.add(step, of_ranks)
    windows = measured_windows(phases, plan.layout)
    paths_of_hosts = {node: filenames.host_path(run, node) for node in range(nodes)}
    hosts = {node: json_files.load(path, Host) for node, path in paths_of_hosts.items() if path.exists()}
    if not hosts and (machine := run / filenames.MACHINE).exists():
        hosts = {0: json_files.load(machine, Host)}
    by_number = attrgetter("rank")
    return RunRecords(
        run=run,
        plan=plan,
        phases=sorted(phases, key=by_number),
        steps=steps,
        by_rank=dict(sorted(by_rank.items())),
        ranks=sorted(ranks, key=by_number),
        experts=experts,
        further={kind: dict(sorted(further[kind].items())) for kind in sorted(further)},
        failures=sorted(failures, key=by_number),
        profiles=sorted(profiles, key=by_number),
        windows=windows,
        readings=node_readings(samples_of(run, nodes), windows),
        reports=read_reports(run),
        ending=read_ending(run),
        hosts=hosts,
        nodes={node.node_rank: node for node in read_nodes(run) if node.node_rank < nodes},
        files=files,
        secrets=secrets,
    )
