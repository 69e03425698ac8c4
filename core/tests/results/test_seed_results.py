"""Results of the published systems as a run would leave them: no finding, and each rule catches its fault.

The plans are those of `llmperf plan CASE --on DEVICES`; the records are made up so that they give the published
throughput. Nothing was measured.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import pytest
from llmperf.files import json_files
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import AgentReport, Ending, RankExit, SeenPhase
from llmperf.types import MemorySample, Result
from llmperf.types.devices import DeviceSample
from llmperf.validation.catalogue import open_catalogue
from llmperf.validation.check import findings, validate_path
from llmperf.validation.rules import provenance


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


def put(*values):
    """A fault: at each JSON pointer another value, or what a function makes of the one that is there."""

    def fault(result):
        for pointer, value in values:
            *folders, leaf = pointer[1:].split("/")
            inner = result
            for folder in folders:
                inner = inner[int(folder)] if isinstance(inner, list) else inner[folder]
            leaf = int(leaf) if isinstance(inner, list) else leaf
            inner[leaf] = value(inner[leaf]) if callable(value) else value

    return fault


def times(factor):
    return lambda value: type(value)(value * factor)


def without_bf16(result):
    """In bf16, on a device that has not got it: an R300, or a V100 in an NVIDIA GPU's place."""
    result["contract"]["precision"] = "bf16"
    if result["hardware"]["vendor"] == "nvidia":
        result["hardware"]["device_model"] = "Tesla V100-SXM2-32GB"


@pytest.fixture(autouse=True)
def core_from_a_package(monkeypatch):
    """The core counts as installed from a package: sources of a working copy are not compared."""
    monkeypatch.setattr(provenance, "_editable", lambda distribution: False)
    provenance._hash_here.cache_clear()
    yield
    provenance._hash_here.cache_clear()


def source_of_the_installed_core(result):
    """Another source of the version that is installed."""
    core = next(plugin for plugin in result["plugins"] if plugin["role"] == "core")
    core["source_hash"] = hashlib.sha256(b"patched").hexdigest()


def again(factor):
    """The peak counts as measured, and is measured again."""

    def fault(result):
        for mfu in result["mfu"]:
            mfu["peak_confidence"] = "measured"
        whole = mfu["peak_flops_per_second"] / result["hardware"]["device_share"]
        result["peak_again"] = {"device_model": "", "dtype": mfu["peak_dtype"], "flops_per_second": factor * whole,
                                "source": "", "date": "2026-01-01"}  # fmt: skip

    return fault


def losses(result, loss):
    for point in result["loss_curve"]:
        point["loss"] = loss(point["step"])


FAILURE = {"rank": 0, "reason": "killed", "exception": None, "message": "killed", "log_tail": []}
CHANGE = {"path": "tuning.micro_batch", "case_value": 1, "value": 999, "origin": "--set"}
COUNTING = {"name": "acme_moe", "role": "extension", "distribution": "llmperf-acme-moe", "version": "1.0"}

NODE = {"node_rank": 7, "host": "node7", "interface": None, "first_rank": 0, "last_rank": 0, "coordinates": {},
        "clock_offset_seconds": None, "clock_error_seconds": None}  # fmt: skip
STRAGGLER = {"rank": 0, "node_rank": 0, "busy_seconds": 1.0, "lag_seconds": 1.0}
WAITING = {
    "share": 0.5,
    "least_share": 0.4,
    "most_share": 0.6,
    "stragglers": [STRAGGLER],
    "cost_seconds": 0.0,
    "method": "-",
}


def waiting(**changes):
    return put(("/waiting", WAITING | changes))


def costly(result):
    waiting(cost_seconds=0.5 * result["metrics"]["window_seconds"])(result)


def balanced(result):
    """A layer whose experts took other tokens than those of their table."""
    put(
        ("/contract/routing", "balanced"),
        ("/model/mixture", {"experts": 4, "top_k": 1, "expert_width": 8}),
        ("/expert_load", [LOAD]),
    )(result)


def uncounted(result):
    """Experts that took the tokens of their tables, or not: nothing was counted."""
    balanced(result)
    result["expert_load"] = []


def equal(result):
    """A router that gave each expert as many tokens."""
    balanced(result)
    result["contract"]["routing"] = "learned"
    result["expert_load"] = [LOAD | {"tokens": [6, 6, 6, 6]}]


LOAD = {"layer": 0, "tokens": [1, 2, 3, 4], "imbalance": 1.0}

FAULTS = {
    "LP101": put(("/parallelism/tensor_parallel", times(2))),
    "LP102": put(("/batch/global_batch", times(2))),
    "LP103": put(("/batch/tokens_per_step", times(2))),
    "LP104": put(("/tuning/micro_batch", 77)),
    "LP105": put(("/parallelism/sharding_degree", 3)),
    "LP106": put(("/hardware/devices_per_node", times(3))),
    "LP201": put(("/metrics/tokens_per_second_per_device", times(1.02))),
    "LP202": put(("/metrics/measured_tokens", times(2))),
    "LP203": put(("/metrics/measured_steps", lambda value: value + 1)),
    "LP204": put(("/metrics/tokens_per_second", times(1.5))),
    "LP205": put(("/metrics/step_seconds/p5", times(3))),
    "LP206": put(("/metrics/step_seconds/mean", times(2)), ("/metrics/step_seconds/p95", times(3))),
    "LP207": put(("/finished", "2020-01-01T00:00:00+00:00")),
    "LP208": put(("/metrics/energy_joules", 1e6), ("/metrics/joules_per_token", 1e6)),
    "LP209": put(("/metrics/step_seconds/median", times(0.3)), ("/metrics/step_seconds/p5", times(0.3))),
    "LP230": put(("/expert_load", [LOAD])),
    "LP231": put(("/expert_load", [LOAD])),
    "LP232": balanced,
    "LP233": uncounted,
    "LP234": equal,
    "LP220": put(("/nodes", [NODE])),
    "LP221": waiting(share=0.9),
    "LP222": costly,
    "LP301": put(("/mfu/0/value", times(100))),
    "LP302": put(("/mfu/0/value", 1.2)),
    "LP303": put(("/mfu/2/flops_per_token", times(2))),
    "LP304": put(("/parameters", lambda value: value + 1)),
    "LP305": put(("/mfu/0/headline", False)),
    "LP306": put(("/mfu/0/peak_source", "")),
    "LP307": put(("/mfu/0/peak_flops_per_second", times(2))),
    "LP308": put(("/hardware/device_share", 0.3)),
    "LP309": put(("/hardware/device_model", "custom"), ("/mfu/0/peak_flops_per_second", 1e12)),
    "LP310": put(("/mfu/0/peak_confidence", "low")),
    "LP401": put(("/metrics/device_memory_used_bytes", times(9))),
    "LP402": put(("/metrics/rank_memory/0/peak_bytes", times(999))),
    "LP403": put(("/metrics/rank_memory/0/rank", 99)),
    "LP404": put(("/metrics/utilisation_percent", 101.0)),
    "LP405": put(("/metrics/throttling", {"heat": 0.5})),
    "LP406": put(("/metrics/throttling", {"power limit": 0.5})),
    "LP407": put(("/hardware/device_memory_bytes", times(2))),
    "LP408": without_bf16,
    "LP409": put(("/metrics/other_cpu_share", 0.5)),
    "LP501": put(("/loss_curve/3/loss", None), ("/loss_curve/3/nonfinite", "nan")),
    "LP502": put(("/metrics/known_entropy", 9.0)),
    "LP503": put(("/metrics/first_loss", 2.0), ("/loss_curve/0/loss", 2.0)),
    "LP504": put(("/metrics/final_loss", times(0.9))),
    "LP505": put(("/loss_curve/3/step", 5)),
    "LP506": put(("/metrics/final_loss", 1e9)),
    "LP507": put(("/loss_curve/3/loss", 1e9)),
    "LP509": lambda result: losses(result, lambda step: 5.123456),
    "LP510": lambda result: losses(result, lambda step: math.log(result["model"]["vocab_size"]) + 1e-9 * step),
    "LP512": lambda result: losses(result, lambda step: 12.0 + 0.05 * step),
    "LP513": lambda result: losses(result, lambda step: 10.0 + 0.001 * (step % 7)),
    "LP601": put(("/variant", lambda value: not value)),
    "LP602": put(("/failure", FAILURE)),
    "LP603": put(("/fix_hp", [CHANGE])),
    "LP604": put(("/contract/model", "llama3_8b")),
    "LP605": put(("/hardware/simulated", True)),
    "LP606": put(("/contract/seed", 4242), ("/fix_hp", []), ("/variant", False)),
    "LP607": put(("/model/layers", lambda value: value + 1)),
    "LP608": put(("/hardware/vendor", "rocm")),
    "LP609": put(("/hardware/driver", None)),
    "LP610": put(("/model/window_pattern", ["window"])),
    "LP640": put(("/tuning/fused_ops", ["made up"])),
    "LP315": put(("/mfu/0/counted_by", "acme_moe"), ("/plugins", lambda plugins: [*plugins, COUNTING])),
    "LP316": put(("/mfu/0/counted_by", "acme_moe")),
    "LP318": put(("/mfu/0/peak_date", "soon")),
    "LP319": put(("/mfu/0/of_measured_peak", 0.5)),
    "LP321": put(("/emulated", True)),
    "LP322": put(("/mfu/0/of_weighted_peak", 0.5)),
    "LP320": put(("/sections/roofline/flops_per_byte", times(2))),
    "LP016": put(("/sections/roofline/rank", "first")),
    "LP323": put(("/model/nominal_parameters", times(5000))),
    "LP317": put(("/mfu/0/counted_by", "acme_moe"), ("/mfu/0/flops_per_token", times(2))),
    "LP641": put(("/case", "my_own")),
    "LP652": put(("/plugins", [])),
    "LP660": put(("/contract/dataset", "synthetic"), ("/contract/packing", "packed"), ("/data_fingerprint", "0" * 64)),
    "LP653": source_of_the_installed_core,
    "LP665": put(("/challenge", "9f" * 32)),
    "LP210": put(("/metrics/energy_joules", 1e-9), ("/metrics/window_seconds", 60.0)),
    "LP236": put(("/metrics/window_seconds", 0.5)),
    "LP237": put(
        ("/metrics/measured_steps", 60),
        ("/metrics/step_seconds/quarters", [{"median": at, "p25": 0.98 * at, "p75": 1.02 * at} for at in (5, 5, 6, 6)]),
    ),
    "LP238": put(("/metrics/step_seconds/mean_low", 0.0), ("/metrics/step_seconds/mean_high", 1e9)),
    "LP414": put(("/conditions", [{"node_rank": 0, "clock_hertz": [1.98e9] * 5 + [1.7e9] * 5}])),
    "LP410": put(("/conditions", [{"node_rank": 0, "pressure": {"memory": 0.3}}])),
    "LP662": put(("/plugins/0/source_hash", "0" * 64)),
    "LP664": put(
        ("/hardware/device_share", 1), ("/metrics/window_seconds", 60.0), ("/metrics/utilisation_percent", 0.1)
    ),
    "LP658": again(2.0),
    "LP324": put(("/hardware/vendor", "cpu"), ("/hardware/device_model", "Example CPU")),
    "LP325": put(("/metrics/joules_per_token", 1e-30)),
    "LP668": put(("/hardware/host_cpu", "Example \x1b[1mCPU")),
    "LP655": put(("/software/environment", {"LD_PRELOAD": "/tmp/slow.so"})),
    "LP905": put(("/plugins/1", COUNTING | {"role": "framework"})),
    "LP902": put(("/hardware/vendor", "acme")),
}
NOWHERE = {
    ("LP503", "lora"): "fine-tuning starts from a trained model",
    ("LP513", "lora"): "adapters on frozen weights are not judged",
    ("LP513", "paddle 7B"): "the learning rates of its steps sum to too little",
    ("LP513", "paddle 13B"): "the learning rates of its steps sum to too little",
}
"""Faults that a row has no place for, and why."""


ALL_TESTS = bool(os.environ.get("LLMPERF_ALL_TESTS"))
FAULTY = [name for name in ROWS if ALL_TESTS or name != MANY_STEPS]
"""Rows that the faults are put into."""


@pytest.fixture(scope="module")
def results(runs):
    return {name: (runs[name] / "result.json").read_text() for name in FAULTY}


def faulty():
    """Each fault with a row that has a place for it, in turn; with each such row where all tests are asked for."""
    for turn, code in enumerate(FAULTS):
        names = [name for name in FAULTY if (code, name) not in NOWHERE]
        yield from ((code, name) for name in (names if ALL_TESTS else [names[turn % len(names)]]))


def test_every_rule_over_results_has_its_fault():
    rules = (owned.rule for owned in open_catalogue().all_rules())
    assert {rule.code for rule in rules if "result" in rule.kinds} == FAULTS.keys() | {"LP904"}


@pytest.mark.parametrize(("code", "name"), list(faulty()))
def test_a_fault_put_into_a_result_is_found_by_its_rule(results, code, name):
    result = json.loads(results[name])
    FAULTS[code](result)
    assert code in judged(result)


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


def test_a_rule_raises_one_finding_for_one_cause(results):
    """For all conventions, ranks, steps and nodes together."""
    text = next(iter(results.values()))
    for fault in FAULTS.values():
        result = json.loads(text)
        fault(result)
        for mfu in result["mfu"][1:]:  # what is wrong with one convention is wrong with all
            mfu.update(
                {name: value for name, value in result["mfu"][0].items() if name.startswith(("peak_", "counted"))}
            )
        listed = findings("result", json_files.convert(result, Result, "result"))
        causes = Counter((found.code, *(re.sub(r"\d[\d.,e+]*", "", text) for text in (found.path, found.message)))
                         for found in listed)  # fmt: skip
        assert [cause for cause, count in causes.items() if count > 1] == []
        conventions = Counter(
            (found.code, found.path.split("/")[-1]) for found in listed if found.path.startswith("/mfu/")
        )
        assert [cause for cause, count in conventions.items() if count > 1] == []
