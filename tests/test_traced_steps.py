"""A traced step: no trainer makes the host wait in bf16 and fp32, ranks share the work, and memory adds up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("traced_steps_program.py")
DEVICES = "A100-SXM4-80GB:1x4"
HOPPER = "H100-SXM5-80GB:1x4"
"""Has one kernel for the products of all experts."""
LAYOUTS = {
    "ddp": (0, "pytorch", ["tuning.sharding_stage=0"]),
    "fsdp": (0, "pytorch", ["tuning.sharding_stage=3"]),
    "zero 0": (0, "zero", ["tuning.sharding_stage=0"]),
    "zero 1": (0, "zero", ["tuning.sharding_stage=1"]),
    "zero 2 overlapped": (0, "zero", ["tuning.sharding_stage=2", "framework.overlap_comm=true"]),
    "zero 3": (0, "zero", ["tuning.sharding_stage=3"]),
    "lora": (0, "lora", ["tuning.sharding_stage=0", "contract.lora.rank=8", "contract.lora.dropout=0.0"]),
    "first stage": (0, "megatron_deepspeed", ["tuning.sharding_stage=1", "tuning.pipeline_parallel=2"]),
    "last stage": (3, "megatron_deepspeed", ["tuning.sharding_stage=1", "tuning.pipeline_parallel=2"]),
}
FP16 = {"ddp": ("pytorch", ["tuning.sharding_stage=0"]), "zero 3": ("zero", ["tuning.sharding_stage=3"])}
if os.environ.get("LLMPERF_ALL_TESTS"):
    FP16 |= {f"zero {stage}": ("zero", [f"tuning.sharding_stage={stage}"]) for stage in (0, 1)}
BF16 = "contract.precision=bf16"
SEQUENCE = ["tuning.tensor_parallel=2", "tuning.sequence_parallel=true", "framework.overlap_tensor_parallel=true"]
TODAY = {
    "llama3_tiny": ("pytorch", ["tuning.sharding_stage=0"]),
    "qwen3_moe_tiny": ("pytorch", ["tuning.sharding_stage=0"]),
    "gpt_oss_tiny": ("pytorch", ["tuning.sharding_stage=3", "tuning.attention=flex"]),
    "deepseek_v3_tiny": ("zero", ["tuning.sharding_stage=3", "tuning.attention=efficient"]),
}
"""Models of today; the kernels compute what is visible, with values as wide as they are."""
DENSE, MIXTURE = "contract.model=llama3_tiny", "contract.model=qwen3_moe_tiny"
RANKS = ["tuning.tensor_parallel=2", "tuning.sequence_parallel=true"]
TRAINERS = {
    "torchtitan": (0, [DENSE, "tuning.sharding_stage=3", "contract.global_batch=12"], "reduce_scatter"),
    "torchtitan sequence": (0, [DENSE, "tuning.sharding_stage=3", *RANKS], "all_gather"),
    "torchtitan last stage": (3, [DENSE, "tuning.sharding_stage=3", "tuning.pipeline_parallel=2"], "send_receive"),
    "torchtitan experts": (0, [MIXTURE, "tuning.sharding_stage=3", "tuning.expert_parallel=2"], "all_to_all"),
    "megatron_core": (0, [DENSE, "tuning.sharding_stage=1", *RANKS], "reduce_scatter"),
    "megatron_core last stage": (3, [DENSE, "tuning.sharding_stage=1", "tuning.pipeline_parallel=2"], "send_receive"),
    "megatron_core experts": (0, [MIXTURE, "tuning.sharding_stage=1", "tuning.expert_parallel=4"], "all_gather"),
    "transformers": (0, [DENSE, "tuning.sharding_stage=0"], "all_reduce"),
    "transformers fsdp": (0, [DENSE, "tuning.sharding_stage=3"], "reduce_scatter"),
    "transformers zero": (0, [DENSE, "tuning.sharding_stage=2", "framework.engine=deepspeed"], "all_gather"),
}
"""The field's own trainers, the first word: a rank, settings, and a communication that they need."""
EACH_EXPERT = ["tuning.sharding_stage=0", "contract.model=qwen3_moe_tiny"]
NAMES = [*LAYOUTS, *(f"{name} fp16" for name in FP16), "sequence", *TODAY, "each expert", "compiled"]
NAMES += TRAINERS


@pytest.fixture(scope="module")
def traces():
    tasks = [
        *((DEVICES, rank, framework, [*settings, BF16]) for rank, framework, settings in LAYOUTS.values()),
        *((DEVICES, 0, framework, [*settings, "contract.precision=fp16"]) for framework, settings in FP16.values()),
        (DEVICES, 0, "megatron_deepspeed", [*SEQUENCE, BF16]),
        *(
            (HOPPER, 0, framework, [*settings, f"contract.model={name}", BF16])
            for name, (framework, settings) in TODAY.items()
        ),
        (DEVICES, 0, "pytorch", [*EACH_EXPERT, BF16]),
        (DEVICES, 0, "pytorch", [*LAYOUTS["ddp"][2], BF16, "tuning.compile=true"]),
        *((DEVICES, rank, name.split()[0], [*settings, BF16]) for name, (rank, settings, _) in TRAINERS.items()),
    ]
    tasks = [(on, rank, framework, [*settings, "tuning.micro_batch=1"]) for on, rank, framework, settings in tasks]
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(PROGRAM), json.dumps(tasks)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.removeprefix("TRACE ") for line in done.stdout.splitlines() if line.startswith("TRACE ")]
    return dict(zip(NAMES, map(json.loads, lines), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_estimates_believe_the_trace(traces, name):
    assert traces[name]["wrong"] is None


@pytest.mark.parametrize("layout", [*LAYOUTS, "sequence", *TODAY])
def test_the_host_never_waits(traces, layout):
    assert traces[layout]["waits"] == {}


@pytest.mark.parametrize("model", TODAY)
def test_traced_flops_are_those_of_the_models_facts(traces, model):
    trace = traces[model]
    assert trace["matmul_flops"] == pytest.approx(trace["stated_matmul_flops"], rel=0.001)
    assert trace["attention_flops"] == pytest.approx(trace["stated_attention_flops"], rel=0.001)


def test_a_compiler_joins_operations_of_blocks_forward_and_backward(traces):
    compiled, separate = traces["compiled"], traces["ddp"]
    assert compiled["matmul_flops"] == separate["matmul_flops"]
    assert compiled["peak"] <= separate["peak"]
    for phase in ("forward", "backward"):
        assert compiled["kernels"][phase] < separate["kernels"][phase]
        assert compiled["bytes"][phase] < separate["bytes"][phase]


def test_the_host_waits_for_the_sizes_of_experts_without_one_kernel_for_all(traces):
    trace, grouped = traces["each expert"], traces["qwen3_moe_tiny"]
    assert trace["matmul_flops"] == pytest.approx(grouped["matmul_flops"], rel=1e-9)
    assert any("kernels/choice.py" in place for place in trace["waits"])


@pytest.mark.parametrize("name", TRAINERS)
def test_the_fields_own_trainers_communicate_and_compute_as_their_layout_says(traces, name):
    trace = traces[name]
    assert TRAINERS[name][2] in {collective for collective, _, _ in trace["collectives"]}
    assert sum(trace["at_peak"].values()) == trace["peak"]
    if name.split()[0] != "megatron_core" and "stage" not in name:  # whose attention is products, and half the layers
        assert trace["matmul_flops"] == pytest.approx(trace["stated_matmul_flops"], rel=0.001)
        assert trace["attention_flops"] == pytest.approx(trace["stated_attention_flops"], rel=0.001)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_by_kind_adds_up(traces, layout):
    assert sum(traces[layout]["at_peak"].values()) == traces[layout]["peak"]
    assert sum(traces[layout]["between"].values()) <= traces[layout]["peak"]


def test_every_layout_computes_the_same_products_in_all(traces):
    flops = {name: trace["matmul_flops"] for name, trace in traces.items()}
    names = ("fsdp", "zero 0", "zero 1", "zero 3")
    assert {name: flops[name] for name in names} == dict.fromkeys(names, flops["ddp"])
    # half as many data-parallel ranks: twice the micro batches
    assert flops["first stage"] + flops["last stage"] == pytest.approx(2 * flops["ddp"])


@pytest.mark.parametrize("name", ["ddp", *(f"{layout} fp16" for layout in FP16)])
def test_a_fused_optimizer_is_one_kind_of_operation(traces, name):
    assert "aten._fused_adamw_" in traces[name]["optimizers"]


def test_communication_overlaps_until_it_is_waited_for(traces):
    pairs = {(collective, overlaps) for collective, ranks, overlaps in traces["sequence"]["collectives"] if ranks == 2}
    assert {("all_gather", False), ("all_gather", True), ("reduce_scatter", False), ("reduce_scatter", True)} <= pairs
    assert ("all_reduce", True) not in pairs
    assert ["all_reduce", 4, True] in traces["ddp"]["collectives"]  # of gradients, while computing
    assert any(collective == "send_receive" for collective, _, _ in traces["last stage"]["collectives"])
