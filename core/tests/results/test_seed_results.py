"""Results of the published systems as a run would leave them: no finding, and what was edited after is found.

The plans are those of `llmperf plan CASE --on DEVICES`; the records are made up so that they give the published
throughput. Nothing was measured.
"""

import hashlib
import json
import math
import shutil
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import pytest
from llmperf import standard_layout
from llmperf.accounting.model_states import stage_state_bytes
from llmperf.accounting.optimiser_step import batch_of, settle
from llmperf.accounting.rank_layout import data_parallel_of
from llmperf.cases.library import library
from llmperf.files import json_files
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import AgentReport, Ending, RankExit, SeenPhase
from llmperf.types import MemorySample, Needs, Result, WorkerPlan
from llmperf.types.devices import DeviceSample
from llmperf.validation.check import findings, validate_path
from llmperf_verify.rules import provenance


@dataclass(frozen=True)
class Row:
    """A published row: how it is planned, and its token/p/s."""

    case: str
    on: str
    tokens_per_second: float
    settings: tuple[str, ...] = ()


ROWS = {
    "megatron": Row("llama2_7b_pretrain_megatron", "A100-SXM4-40GB:1x8", 2868),
    "megatron 4M": Row("llama2_7b_pretrain_megatron", "A100-SXM4-40GB:1x8", 2908, ("gradient_accumulation=512",)),
    "lora": Row(
        "llama2_7b_lora", "A100-SXM4-40GB:1x1", 4017, ("precision=fp16", "micro_batch=4", "gradient_accumulation=1")
    ),
    "zero H800": Row("baichuan2_13b_pretrain_zero", "H800:2x8", 2068),
    "zero R300": Row("llama2_7b_pretrain_zero", "R300:1x8", 900),
    "paddle 7B": Row("llama1_7b_pretrain_paddle", "A100-SXM4-80GB:1x8", 4267),
    "paddle 13B": Row("llama1_13b_pretrain_paddle", "A100-SXM4-80GB:1x8", 1707),
}
MANY_STEPS = "zero R300"
"""The row with ten times the steps of the others."""
FEW_STEPS = [pytest.param(name, marks=[pytest.mark.slow] if name == MANY_STEPS else []) for name in ROWS]
BEGIN = 1768469405.0
STARTED = BEGIN - 500.0
"""When the hosts were, whose monotonic clocks the records have."""


def loss_at(plan, step):
    """From a little above ln(vocabulary), as that of an untrained model, down to 2.5."""
    return 2.5 + (math.log(plan.spec.model.vocab_size) - 1.9) * math.exp(-step / 50)


def plan_of(row):
    """The plan of a row as if its devices were here."""
    found = ready(plan_run(Selection(row.case, settings=row.settings), Site(on=row.on)))
    assert found.plan is not None, found.problems
    return replace(found.plan, probe=replace(found.plan.probe, simulated=False, driver="535.129.03"))


def step_times(contract, seconds, rank):
    """Of each step: uneven by some thousandths, as on any machine, and on average over the measured ones as given."""
    uneven = [1 + 0.003 * math.sin(step + 100 * rank) for step in range(contract.steps)]
    mean = math.fsum(uneven[contract.warmup_steps :]) / (contract.steps - contract.warmup_steps)
    return [seconds * one / mean for one in uneven]


def sample(plan, at):
    devices = tuple(
        DeviceSample(
            index=index,
            memory_used_bytes=22 * 2**30,
            memory_total_bytes=one.memory_bytes,
            utilisation_percent=98.0,
            power_watts=300.0,
            throttle_reasons=(),
        )
        for index, one in enumerate(plan.probe.devices * plan.layout.nodes)
    )
    return MemorySample(at=at, monotonic=at - STARTED, query_seconds=0.001, devices=devices)


def keep_agent_reports(plan, run, seconds):
    """What the agents saw of the ranks, without delay."""
    contract, per_node = plan.spec.contract, plan.layout.devices_per_node
    edges = (("measuring", contract.warmup_steps), ("evaluating", contract.steps))
    for node in range(plan.layout.nodes):
        ranks = []
        for rank in range(node * per_node, (node + 1) * per_node):
            taken = step_times(contract, seconds, rank)
            phases = tuple(SeenPhase(phase=phase, monotonic=BEGIN - STARTED + math.fsum(taken[:steps]), uptime=None)
                           for phase, steps in edges)  # fmt: skip
            ranks.append(RankExit(rank=rank, pid=100, exit_code=0, at=BEGIN + 1e6, phases=phases))
        json_files.save(filenames.agent_report_path(run, node), AgentReport(node_rank=node, pid=1, ranks=tuple(ranks)))


def leave_run(row, run, records):
    """What a run leaves in its folder."""
    plan = plan_of(row)
    seconds = plan.batch.tokens_per_step / (row.tokens_per_second * plan.layout.world_size)
    (run / "records").mkdir(parents=True)
    json_files.save(run / filenames.PLAN, plan)
    for rank in range(plan.layout.world_size):
        taken = step_times(plan.spec.contract, seconds, rank)
        left = records(plan, rank, taken, seconds, partial(loss_at, plan))
        lines = [json_files.encode(record) + b"\n" for record in left]
        filenames.records_path(run, rank).write_bytes(b"".join(lines))
    times = [BEGIN + seconds * step for step in range(plan.spec.contract.steps + 2)]
    (run / filenames.MEMORY).write_bytes(b"".join(json_files.encode(sample(plan, at)) + b"\n" for at in times))
    keep_agent_reports(plan, run, seconds)
    json_files.save(run / filenames.ENDING, Ending(cause="ended", at="2026-12-15T09:30:31+00:00", agents=(0,)))
    json_files.save(run / filenames.RESULT, build_result(run))
    return run


class Runs(dict):
    """Runs by the name of their row, each left when it is asked for."""

    def __init__(self, root, records):
        super().__init__()
        self._root, self._records = root, records

    def __missing__(self, name):
        self[name] = leave_run(ROWS[name], self._root / name.replace(" ", "_"), self._records)
        return self[name]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, records_of_a_rank):
    return Runs(tmp_path_factory.mktemp("runs"), records_of_a_rank)


@pytest.mark.parametrize("name", FEW_STEPS)
def test_a_run_of_a_published_system_has_no_finding(runs, name):
    result = json.loads((runs[name] / "result.json").read_text())
    low = result["mfu"][0]["peak_confidence"] == "low"
    assert [finding.code for file in validate_path(runs[name]) for finding in file.findings] == ["LP310"] * low
    assert result["metrics"]["tokens_per_second_per_device"] == pytest.approx(ROWS[name].tokens_per_second)


def judged(result):
    return {one.code for one in findings("result", json_files.convert(result, Result, "result"))}


def test_another_source_of_the_version_that_is_installed_is_found(runs, monkeypatch):
    """Of a core from a package: sources of a working copy are not compared."""
    monkeypatch.setattr(provenance, "_editable", lambda distribution: False)
    provenance._hash_here.cache_clear()
    result = json.loads((runs["megatron"] / "result.json").read_text())
    core = next(plugin for plugin in result["plugins"] if plugin["role"] == "core")
    core["source_hash"] = hashlib.sha256(b"patched").hexdigest()
    assert "LP653" in judged(result)
    provenance._hash_here.cache_clear()


@pytest.mark.parametrize("name", FEW_STEPS)
def test_a_result_that_was_edited_after_the_run_is_found(runs, name, tmp_path):
    """Every figure made better so that they agree with each other: only the records know."""
    result = json.loads((runs[name] / "result.json").read_text())
    metrics = result["metrics"]
    for field in ("tokens_per_second_per_device", "tokens_per_second"):
        metrics[field] *= 1.1
    for field in ("median", "p5", "p95", "mean", "mean_low", "mean_high"):
        metrics["step_seconds"][field] = metrics["step_seconds"][field] and metrics["step_seconds"][field] / 1.1
    metrics["window_seconds"] /= 1.1
    for mfu in result["mfu"]:
        mfu["value"] = mfu["value"] and mfu["value"] * 1.1
    for field in ("achieved_flops_per_second", "share_of_attainable"):
        line = result["sections"]["roofline"]
        line[field] = line[field] and line[field] * 1.1
    low = {"LP310"} if result["mfu"][0]["peak_confidence"] == "low" else set()
    assert judged(result) == low
    copied = tmp_path / "run"
    shutil.copytree(runs[name], copied)
    (copied / "result.json").write_text(json.dumps(result))
    (file,) = [one for one in validate_path(copied) if one.kind == "result"]
    assert {one.code for one in file.findings} == {"LP703"} | low


model, case = library().model, library().case


def settled(name: str, **changed: int) -> tuple[int, int]:
    """Global batch and tokens per step of a published case, some of its settings changed as a row's fix_hp does."""
    document = case(name)
    tuning = replace(document.tuning, **changed)
    data_parallel = data_parallel_of(tuning)
    whole, accumulation, problem = settle(
        document.contract, tuning, data_parallel, {f"tuning.{path}" for path in changed}
    )
    assert problem is None
    contract = replace(document.contract, global_batch=whole)
    batch = batch_of(contract, replace(tuning, gradient_accumulation=accumulation), data_parallel)
    return batch.global_batch, batch.tokens_per_step


def test_first_hundred_million_tokens() -> None:
    for name in ("baichuan2_13b_pretrain_zero", "llama2_7b_pretrain_zero"):
        _, tokens = settled(name)
        steps = case(name).contract.steps
        assert steps * tokens <= 100_000_000 < (steps + 1) * tokens


@pytest.mark.parametrize(
    ("name", "changed", "published_gib"),
    [
        ("llama2_7b_pretrain_megatron", {}, 32),
        ("llama2_7b_lora", {}, 37.3),
        ("baichuan2_13b_pretrain_zero", {}, 77),
        ("llama2_7b_pretrain_zero", {}, 29),
        ("llama1_7b_pretrain_paddle", {}, 70.09),
        ("llama1_7b_pretrain_paddle", {"sharding_stage": 1, "tensor_parallel": 2, "sharding_degree": 4}, 58.73),
        ("llama1_7b_pretrain_paddle", {"tensor_parallel": 2, "sharding_degree": 4}, 54.01),
        ("llama1_13b_pretrain_paddle", {}, 60.06),
    ],
)
def test_model_states_leave_room_for_activations(name: str, changed: dict[str, int], published_gib: float) -> None:
    """Estimated states are a part, and no small one, of the memory that was measured with activations."""
    document = case(name)
    tuning, facts = replace(document.tuning, **changed), model(document.contract.model)
    spec = SimpleNamespace(model=facts, contract=document.contract, tuning=tuning)
    worker = WorkerPlan(layout=standard_layout(spec), needs=Needs(runtime="torch", precision="fp16"), agent=())
    held = max(stage_state_bytes(spec, worker, False)) / 2**30
    assert 0.25 * published_gib < held < published_gib
