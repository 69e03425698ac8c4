"""What plain PyTorch says while planning: all that does not fit, at once, without importing torch."""

from dataclasses import replace
from importlib import import_module

import pytest
from llmperf.files.json_files import convert
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.types import Probe
from llmperf_pytorch.plugin import llmperf_plan_workers
from llmperf_testing import FrameworkContract

GPU = [{"index": 0, "model": "GPU", "memory_bytes": 2**34}]


def problems(program, task, gpu=False, precisions=("fp32", "bf16", "fp16"), framework="pytorch"):
    document = {**program.PROBE, **({"devices": GPU} if gpu else {})}
    document["offers"] = {**document["offers"], "precisions": list(precisions)}
    spec = program.make_spec({"framework": framework, **task}, world=8)
    worker = import_module(f"llmperf_{framework}.plugin").llmperf_plan_workers(spec, convert(document, Probe, "probe"))
    return {problem.where: problem.message for problem in worker.problems}


def test_all_that_does_not_fit_is_told_at_once(program):
    tuning = {"context_parallel": 2, "attention": "flash", "fused_ops": ["rms_nrom"]}
    task = {"contract": {"lora": {}, "precision": "fp16"}, "tuning": tuning, "options": {"bucket": 3}}
    found = problems(program, task)
    message = "pytorch is data parallel only: expected 1, found 2; the nearest is 1"
    assert found.pop("tuning.context_parallel") == message
    assert "nearest: --set 'fused_ops=[\"rms_norm\"]'" in found.pop("tuning.fused_ops")
    assert found.pop("framework.bucket") == "pytorch has no such option; it has: prefetch"
    assert set(found) == {"tuning.attention", "contract.lora", "contract.precision"}


@pytest.mark.parametrize(
    ("model", "where"),
    [
        ({"multi_token_layers": 1}, "model.multi_token_layers"),
        ({"position_encoding": "alibi", "sinks": True}, "model.position_encoding"),
        ({"position_encoding": "alibi", "window": 9}, "model.position_encoding"),
        ({"family": "baichuan", "kv_heads": 4, "qk_norm": "head"}, "model.qk_norm"),
        ({"family": "baichuan", "kv_heads": 2}, "model.kv_heads"),
    ],
)
def test_facts_that_no_block_has(program, model, where):
    assert list(problems(program, {"model": model})) == [where]


@pytest.mark.parametrize("degree", ["tensor_parallel", "pipeline_parallel", "expert_parallel"])
def test_model_parallelism_is_that_of_other_frameworks(program, degree):
    only = "pytorch is data parallel only: expected 1, found 2; the nearest is 1"
    message = f"{only}, or --framework torchtitan or megatron_core"
    assert problems(program, {"tuning": {degree: 2}}) == {f"tuning.{degree}": message}


def test_sharded_states_are_counted(program):
    """By the README's table: 16 bytes for each parameter with all states, divided by stage."""
    from llmperf.accounting.model_states import stage_state_bytes
    from llmperf.accounting.parameters import count_parameters

    def bytes_each(precision, **tuning):
        plan = program.make_plan({"framework": "pytorch", "contract": {"precision": precision}, "tuning": tuning}, 4)
        held = stage_state_bytes(plan.spec, replace(plan.worker, buffer_bytes=0), False)
        return held[0] / count_parameters(plan.spec.model).total

    assert [bytes_each("bf16", sharding_stage=stage) for stage in range(4)] == [16, 4 + 12 / 4, 2 + 16 / 4, 16 / 4]
    assert [bytes_each("fp32", sharding_stage=stage) for stage in range(4)] == [16, 8 + 12 / 4, 4 + 16 / 4, 16 / 4]


@pytest.mark.parametrize("framework", ["pytorch", "zero", "lora", "megatron_deepspeed"])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_flash_attention_is_for_16_bits(program, framework, precision):
    """torch's flash kernel has no 32-bit form: without this the first step would raise."""
    tuning = {"attention": "flash", "sharding_stage": int(framework != "pytorch")}
    contract = {"precision": precision, **({"lora": {}} if framework == "lora" else {})}
    found = problems(program, {"contract": contract, "tuning": tuning}, gpu=True, framework=framework)
    message = f"flash attention computes in bf16 and fp16, found {precision}; nearest: --set attention=sdpa"
    assert found == ({"tuning.attention": message} if precision in ("fp32", "tf32") else {})


@pytest.mark.parametrize("framework", ["pytorch", "zero", "lora", "megatron_deepspeed", "paddle"])
@pytest.mark.parametrize("attention", ["flash", "efficient", "cudnn", "flex"])
def test_kernels_of_accelerators_are_refused_on_a_cpu(program, framework, attention):
    tuning = {"attention": attention, "sharding_stage": int(framework == "megatron_deepspeed")}
    contract = {"lora": {}} if framework == "lora" else {}
    found = problems(program, {"contract": contract, "tuning": tuning}, framework=framework)
    assert found["tuning.attention"].endswith("nearest is sdpa") or "attention=sdpa" in found["tuning.attention"]


def test_attention_kernels_say_what_they_cannot_compute(program):
    def found(attention, precision, **model):
        task = {"tuning": {"attention": attention}, "contract": {"precision": precision}, "model": model}
        return problems(program, task, gpu=True)

    alibi = {**program.BAICHUAN, "position_encoding": "alibi"}
    assert "cuDNN's attention computes in bf16 and fp16" in found("cudnn", "fp32")["tuning.attention"]
    assert "takes no ALiBi" in found("cudnn", "bf16", **alibi)["tuning.attention"]
    assert "takes no ALiBi" in found("flash", "bf16", **alibi)["tuning.attention"]
    for attention in ("efficient", "flex"):
        assert found(attention, "fp32", **alibi) == {}
    assert found("cudnn", "bf16") == {}


def test_a_family_of_ones_own_is_composed_from_its_facts(program):
    """Such as an outsider's, of blocks that are known."""
    facts = {"family": "mine", "position_encoding": "alibi", "normalized_head": True, "qk_norm": "head"}
    assert problems(program, {"model": facts}) == {}


def test_flash_attention_is_asked_of_accelerators(program):
    spec = program.make_spec({"framework": "pytorch", "tuning": {"attention": "flash"}})
    probe = convert({**program.PROBE, "devices": GPU}, Probe, "probe")
    assert llmperf_plan_workers(spec, probe).needs.features == ("flash_attention",)
    spec = program.make_spec({"framework": "pytorch", "tuning": {"attention": "flex", "compile": True}})
    assert llmperf_plan_workers(spec, probe).needs.features == ("compiler",)


@pytest.mark.parametrize(("device", "each"), [("A100-SXM4-80GB", True), ("H100-SXM5-80GB", False)])
@pytest.mark.parametrize("framework", ["pytorch", "zero"])
def test_experts_without_one_kernel_for_all_are_said_while_planning(framework, device, each):
    settings = ["contract.model=qwen3_moe_tiny", f"tuning.framework={framework}", "tuning.sharding_stage=0"]
    chosen = Selection("default", settings=(*settings, "contract.precision=bf16"))
    plan = plan_only(chosen, Site(on=f"{device}:1x1")).plan
    assert any("the host waits" in note for note in plan.worker.notes) is each
    compiled = plan_only(replace(chosen, settings=(*chosen.settings, "tuning.compile=true")), Site(on=f"{device}:1x1"))
    assert any("a product of its own" in problem.message for problem in compiled.problems) is each


class TestPytorch(FrameworkContract):
    plugin = "pytorch"
    seed = 4
