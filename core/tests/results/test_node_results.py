"""Results of runs on two nodes, whose clocks have nothing in common, on folders made by hand."""

from dataclasses import replace

import pytest
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import read_run
from llmperf.runfolder.endings import AgentReport, Ending, Host, RankExit, ReachedNode
from llmperf.runfolder.reader import Recorder
from llmperf.runfolder.readings import NodeReadings
from llmperf.types import (
    DeviceSample,
    FailureRecord,
    Layout,
    MemorySample,
    Node,
    PhaseRecord,
    RankRecord,
    StepRecord,
)
from llmperf.types.hosts import BusyProgram
from llmperf.types.records import HostSample
from llmperf.validation.run_folder import recorded_findings, run_folder_findings

SKEW = 3600.0
"""Seconds by which the wall clock of node 1 is ahead."""
BOOTED = (100.0, 90000.0)
"""CLOCK_MONOTONIC of each node when the window begins."""


class TwoNodes:
    """A run folder of two nodes with two ranks each; what a test changes, it changes before `build`."""

    def __init__(self, run, plan):
        layout = Layout(nodes=2, devices_per_node=2, tensor_parallel=1, pipeline_parallel=1, data_parallel=4)
        nodes = tuple(Node(host=f"host-{name}", address=f"10.0.0.{i}") for i, name in enumerate("ab", start=1))
        self.run = run
        self.plan = replace(plan, worker=replace(plan.worker, layout=layout), nodes=nodes, launcher="ssh")
        self.hosts = [Host(os="Linux", kernel="6.1", python="3.12.1", cpu="x", memory_bytes=2**34, environment={})] * 2
        self.reached = [
            ReachedNode(
                node_rank=node,
                host=f"host-{'ab'[node]}",
                address=f"10.0.0.{node + 1}",
                interface="eth0",
                clock_offset_seconds=node * SKEW,
                clock_error_seconds=0.002,
            )
            for node in range(2)
        ]
        self.failures, self.exits, self.codes, self.ending = {}, {}, (0, 0), {}
        self.samples = {}

    def build(self):
        for name in (filenames.RECORDS, filenames.LOGS):
            (self.run / name).mkdir(parents=True)
        json_files.save(self.run / filenames.PLAN, self.plan)
        json_files.save(self.run / filenames.NODES, tuple(self.reached))
        known = {"cause": "ended", "agents": self.codes} | self.ending
        ending = Ending(at="2026-01-01T00:01:00+00:00", **known)
        json_files.save(self.run / filenames.ENDING, ending)
        for node, host in enumerate(self.hosts):
            json_files.save(filenames.host_path(self.run, node), host)
            ranks = tuple(self.exits.get(rank, RankExit(rank=rank, pid=1, exit_code=0, at=1.0))
                          for rank in (2 * node, 2 * node + 1))  # fmt: skip
            json_files.save(
                filenames.agent_report_path(self.run, node), AgentReport(node_rank=node, pid=1, ranks=ranks)
            )
            with Recorder(filenames.memory_path(self.run, node)) as recorder:
                for sample in self.samples.get(node, ()):
                    recorder.write(sample)
        for rank in range(4):
            with Recorder(filenames.records_path(self.run, rank)) as recorder:
                for record in self.of(rank):
                    recorder.write(record)
        return build_result(self.run)

    def of(self, rank):
        node, contract = self.plan.layout.node_of(rank), self.plan.spec.contract
        wall, clock = 1e9 + node * SKEW, BOOTED[node % 2]
        measured = contract.steps - contract.warmup_steps
        tokens = self.plan.batch.tokens_per_step // 4
        for step in range(1, contract.steps + 1):
            at = float(step - contract.warmup_steps)
            if step == contract.warmup_steps + 1:
                yield PhaseRecord(rank=rank, phase="measuring", at=wall, monotonic=clock)
            yield StepRecord(rank=rank, step=step, measured=step > contract.warmup_steps, at=wall + at,
                             monotonic=clock + at, step_seconds=1.0 + 1e-6 * (rank + 7 * step), tokens=tokens,
                             loss=9.0 - step)  # fmt: skip
        if rank in self.failures:
            yield self.failures[rank]
            return
        end = measured + 0.001 * measured
        yield PhaseRecord(rank=rank, phase="evaluating", at=wall + end, monotonic=clock + end)
        yield RankRecord(rank=rank, measured_steps=measured, measured_tokens=measured * tokens, window_seconds=end,
                         peak_memory_bytes=1000 + rank, evaluation={}, packages={"python": "3.12.1"})  # fmt: skip
        yield PhaseRecord(rank=rank, phase="done", at=wall + end, monotonic=clock + end)


@pytest.fixture
def folder(tmp_path, stub_plan):
    return TwoNodes(tmp_path / "run", stub_plan(steps=6, warmup_steps=1))


def sample(node, at, **known):
    """One reading of the only device of a node, `at` seconds after its window began."""
    device = DeviceSample(index=0, memory_used_bytes=None, memory_total_bytes=None, **known)
    return MemorySample(at=1e9 + node * SKEW + at, monotonic=BOOTED[node] + at, query_seconds=0.0, devices=(device,),
                        node_rank=node)  # fmt: skip


def test_a_clock_that_is_an_hour_ahead_changes_nothing(folder):
    result = folder.build()
    assert result.status == "complete"
    assert result.metrics.window_seconds == pytest.approx(5.005)
    assert {finding.code for finding in recorded_findings(read_run(folder.run))} <= {
        "LP657"
    }  # no agent saw these ranks
    codes = {finding.code for finding in run_folder_findings(result, folder.run)}
    assert codes <= {"LP657"}


def test_the_files_of_all_nodes_are_hashed(folder):
    names = set(folder.build().files)
    assert {"nodes.json", "records/host-001.json", "records/memory-001.jsonl", "records/agent-001.json"} <= names
    assert "machine.json" not in names


def test_each_node_is_read_by_its_own_clock(folder):
    """Node 0 draws 100 W in its window and node 1 draws 300 W; outside of it both draw nothing."""
    for node, watts in ((0, 100.0), (1, 300.0)):
        folder.samples[node] = [
            sample(node, at, power_watts=watts if -1 < at < 6 else 0.0, energy_joules=7e6 + watts * at)
            for at in (-1.5, -0.5, 1.0, 2.0, 3.0, 4.0, 5.5, 7.0)
        ]
    figures = folder.build().metrics
    assert figures.power_watts == pytest.approx(200.0)
    assert figures.energy_joules == pytest.approx(400 * figures.window_seconds)


def test_a_device_of_a_node_that_was_not_read_makes_the_energy_unknown(folder):
    folder.samples[0] = [sample(0, at, power_watts=100.0, energy_joules=100 * at + 7e6) for at in range(-1, 7)]
    assert folder.build().metrics.energy_joules is None


def failure(rank, after, message="peer closed the connection"):
    return FailureRecord(rank=rank, at=1e9 + rank // 2 * SKEW + after, exception="RuntimeError", message=message,
                         traceback="")  # fmt: skip


@pytest.mark.parametrize(("first", "later"), [(1, 2), (2, 1)])
def test_the_first_failure_is_found_between_nodes_with_different_clocks(folder, first, later):
    folder.failures = {first: failure(first, 3.0, "out of memory"), later: failure(later, 3.5)}
    failed = folder.build().failure
    assert (failed.rank, failed.node_rank) == (first, first // 2)
    assert failed.message == f"node {first // 2} (host-{'ab'[first // 2]}), rank {first}: out of memory"


def test_a_killed_rank_goes_before_an_error_that_may_have_come_just_before_it(folder):
    folder.reached[1] = replace(folder.reached[1], clock_error_seconds=0.5)
    folder.failures = {0: failure(0, 3.0)}
    killed = 1e9 + SKEW + 3.6
    folder.exits = {2: RankExit(rank=2, pid=1, signal="SIGKILL", at=killed)}
    folder.codes = (1, 1)
    failed = folder.build().failure
    assert (failed.rank, failed.reason) == (2, "killed")


def test_a_lost_node_is_the_reason_although_other_ranks_failed(folder):
    folder.failures = {0: failure(0, 3.0)}
    folder.ending = {"cause": "lost", "node": 1, "message": "node 1 (host-b): has not answered for 20 s"}
    failed = folder.build().failure
    assert (failed.reason, failed.node_rank) == ("lost", 1)
    assert failed.message == "node 1 (host-b): has not answered for 20 s"


def test_a_killed_agent_goes_before_the_errors_of_peers_that_lost_its_ranks(folder):
    folder.failures, folder.codes = {0: failure(0, 3.0, "connection reset by peer")}, (1, -9)
    folder.exits = {0: RankExit(rank=0, pid=1, exit_code=1, at=1e9 + 4.0)}
    failed = folder.build().failure
    assert (failed.node_rank, failed.message) == (1, "the agent of node 1 (host-b) was killed by SIGKILL")


def test_an_agent_that_did_not_end_when_it_was_asked_to_is_no_reason(folder):
    folder.failures, folder.codes = {0: failure(0, 3.0, "out of memory")}, (1, None)
    assert folder.build().failure.message == "node 0 (host-a), rank 0: out of memory"


def test_the_agent_that_was_killed_is_the_reason_and_not_one_that_was_stopped_then(folder):
    folder.codes = (143, -9)
    failure = folder.build().failure
    assert (failure.node_rank, failure.message) == (1, "the agent of node 1 (host-b) was killed by SIGKILL")


def test_nodes_list_their_ranks_and_clocks(folder):
    first, second = folder.build().nodes
    assert (first.first_rank, first.last_rank, second.first_rank, second.last_rank) == (0, 1, 2, 3)
    assert (first.host, second.host, second.interface) == ("host-a", "host-b", "eth0")
    assert (first.coordinates, second.coordinates) == ({"data": (0, 1)}, {"data": (2, 3)})
    assert (second.clock_offset_seconds, second.clock_error_seconds) == (SKEW, 0.002)
    assert first.differs == second.differs == {}


def test_what_is_different_on_a_node_is_listed_there_and_the_rest_once(folder):
    """Of three alike nodes and one that is not, the first."""
    layout = Layout(nodes=4, devices_per_node=1, tensor_parallel=1, pipeline_parallel=1, data_parallel=4)
    nodes = tuple(Node(host=f"n{i}", address=f"10.0.0.{i}") for i in range(4))
    folder.plan = replace(folder.plan, worker=replace(folder.plan.worker, layout=layout), nodes=nodes)
    usual = replace(folder.hosts[0], driver="550.1", environment={"OMP_NUM_THREADS": "8", "NCCL_DEBUG": "INFO"})
    odd = replace(usual, kernel="5.4", driver="535.2", memory_bytes=2**33, environment={"OMP_NUM_THREADS": "1"})
    folder.hosts = [odd, usual, replace(usual, memory_bytes=usual.memory_bytes - 2**20), usual]
    folder.reached = [replace(folder.reached[0], node_rank=node) for node in range(4)]
    folder.build()
    packages = {"python": "3.12.1", "torch": "2.15.0"}
    for rank in range(4):
        path = filenames.records_path(folder.run, rank)
        versions = packages if rank != 3 else {**packages, "torch": "2.14.0"}
        line = json_files.encode(versions)
        path.write_bytes(path.read_bytes().replace(b'"packages":{"python":"3.12.1"}', b'"packages":' + line))
    result = build_result(folder.run)
    assert (result.software.kernel, result.hardware.host_memory_bytes) == ("6.1", 2**34)
    assert result.hardware.driver == "550.1"
    assert result.software.environment == {"OMP_NUM_THREADS": "8", "NCCL_DEBUG": "INFO"}
    assert result.software.packages == {"torch": "2.15.0"}
    changed = {"environment.OMP_NUM_THREADS": "1", "environment.NCCL_DEBUG": None}
    assert [node.differs for node in result.nodes] == [
        {"kernel": "5.4", "host_memory_bytes": 2**33, "driver": "535.2", **changed},
        {},
        {},
        {"packages.torch": "2.14.0"},
    ]


def test_a_node_that_recorded_nothing_is_still_listed(folder):
    folder.build()
    filenames.host_path(folder.run, 1).unlink()
    for rank in (2, 3):
        filenames.records_path(folder.run, rank).unlink()
    assert [(node.host, node.differs) for node in build_result(folder.run).nodes] == [("host-a", {}), ("host-b", {})]


@pytest.mark.slow
def test_a_result_of_2048_nodes_stays_small(folder):
    from types import SimpleNamespace

    from llmperf.results.node_figures import node_facts, node_results

    count = 2048
    layout = Layout(nodes=count, devices_per_node=8, tensor_parallel=8, pipeline_parallel=8, data_parallel=256)
    nodes = tuple(Node(host=f"gpu-{node:04d}.cluster.example", address=f"10.0.{node // 256}.{node % 256}")
                  for node in range(count))  # fmt: skip
    variables = {f"NCCL_{number}": "x" * 100 for number in range(50)}
    records = SimpleNamespace(
        plan=SimpleNamespace(layout=layout, nodes=nodes),
        ranks=[SimpleNamespace(rank=8 * node, startup_modules={}, packages={f"package{i}": "1.0" for i in range(100)})
               for node in range(count)],
        hosts={node: replace(folder.hosts[0], environment={**variables, "RANK_HOST": str(node)})
               for node in range(count)},
        nodes={node: replace(folder.reached[0], node_rank=node) for node in range(count)},
    )  # fmt: skip
    results = node_results(records, *node_facts(records))
    assert results[2047].coordinates == {"tensor": (0, 7), "data": (255, 255), "pipeline": (7, 7)}
    assert len(json_files.encode(results)) < 2**20


def reading(at, clock=None, slowed=(), **host):
    device = DeviceSample(
        index=0, memory_used_bytes=None, memory_total_bytes=None, clock_hertz=clock, throttle_reasons=slowed
    )
    known = {"cores": 2, "busy_seconds": 0.0, "own_seconds": 0.0} | host
    return MemorySample(at=at, monotonic=at, query_seconds=0.0, devices=(device,), host=HostSample(**known))


def read(samples, span=(100.0, 110.0)):
    readings = NodeReadings(span)
    for sample in samples:
        readings.add(sample)
    return readings


def test_programs_of_others_have_their_share_of_the_cores_in_the_window():
    samples = [
        reading(98.0, programs={"before": 100.0}),
        reading(100.0, programs={"before": 2.0}),
        reading(105.0, busy_seconds=9.0, own_seconds=2.0, programs={"cc1plus": 5.0, "make": 1.5}),
        reading(110.0, busy_seconds=13.0, own_seconds=2.0, programs={"cc1plus": 3.0, "tiny": 0.1}),
        reading(112.0, busy_seconds=17.0, own_seconds=2.0, programs={"after": 4.0}),
    ]
    load = read(samples).load
    assert load.share == pytest.approx((13 - 2) / 20)
    assert load.most_share == pytest.approx((9 - 2) / 10)
    assert load.programs == (BusyProgram(name="cc1plus", cpu_share=0.4), BusyProgram(name="make", cpu_share=0.075))


def test_memory_pressure_and_swapping_are_those_of_the_window():
    counters = ((90, 0, 1, 0), (100, 5, 9, 7), (105, 5, 4, 7), (110, 8, 6, 4096), (120, 9, 2, 9999))
    samples = [
        reading(at, stalled_seconds={"memory": stalled}, memory_available_bytes=free, swapped_bytes=swapped)
        for at, stalled, free, swapped in counters
    ]
    load = read(samples).load
    assert load.pressure == {"memory": 0.3}
    assert load.most_memory_pressure == 0.6
    assert load.least_memory_available_bytes == 4
    assert load.swapped_bytes == 4089


def test_throttling_and_clocks_are_listed_by_tenth():
    samples = [reading(100.0 + second / 2, 2e9 if second < 10 else 1.5e9, ("heat",) if second > 14 else ())
               for second in range(21) if second not in (4, 5)]  # fmt: skip
    readings = read(samples)
    assert readings.throttling_over_time == {"heat": (0, 0, None, 0, 0, 0, 0, 0.5, 1, 1)}
    assert readings.clock_over_time == (2e9, 2e9, None, 2e9, 2e9, *[1.5e9] * 5)


def test_a_host_that_shows_nothing_has_no_conditions():
    readings = read([MemorySample(at=at, monotonic=at, query_seconds=0.0, devices=()) for at in (101.0, 105.0)])
    assert (readings.load.share, readings.load.pressure, readings.load.swapped_bytes) == (None, {}, None)
    assert readings.throttling_over_time == {}
    assert readings.clock_over_time == ()
