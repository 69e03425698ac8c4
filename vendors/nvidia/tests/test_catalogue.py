"""The peak table: exact names, dense figures, a source for each."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import llmperf_schemas
import pytest
from llmperf.accounting.flops import utilisation
from llmperf.files import json_files
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.plugins.loading import load_for
from llmperf.types import PeakFlops, Result
from llmperf_nvidia import probe as catalogue
from llmperf_nvidia import rules

ENTRIES = catalogue.table().entries
SPARSE = (
    ("H100 80GB HBM3", 1978.9, 989.4),
    ("H100 PCIe", 1513, 756.5),
    ("H100 NVL", 1671, 835.5),
    ("H200", 1979, 989.5),
    ("H200 NVL", 1671, 835.5),
    ("A100-SXM4-80GB", 624, 312),
    ("L40S", 733, 362.05),
    ("A40", 299.4, 149.7),
    ("B200", 4500, 2250),
)
"""The figure that a datasheet prints with sparsity, and the dense one that is used, in bf16 TFLOP/s."""


def peak(model, dtype="bf16"):
    answer = load_for("nvidia", None).ask("llmperf_peak_flops", device_model=model, dtype=dtype)
    assert answer is None or isinstance(answer, PeakFlops)
    return answer


@pytest.mark.parametrize(
    ("name", "tflops", "confidence"),
    [
        ("NVIDIA A100-SXM4-40GB", 312, "datasheet"),
        ("nvidia a100 sxm4 40gb", 312, "datasheet"),
        ("H800", 989.4, "low"),
        ("NVIDIA_H800-80GB", 989.4, "low"),
        ("B300", 2250, "low"),
        ("NVIDIA B300 SXM6 AC", 2250, "low"),
        ("GB300", 2500, "low"),
    ],
)
def test_names_differ_in_case_and_separators_only(name, tflops, confidence):
    answer = peak(name)
    assert (answer.device_model, answer.flops_per_second, answer.confidence) == (name, tflops * 1e12, confidence)


@pytest.mark.parametrize(
    "name",
    ["A100", "H100", "H8000", "NVIDIA H800 PCIe", "NVIDIA A100-SXM4-160GB", "L4S", "NVIDIA H20-3e", "", "NVIDIA"],
)
def test_the_figure_of_a_similar_gpu_is_never_used(name):
    assert peak(name) is None


def test_an_fp32_run_is_not_held_against_tensor_cores():
    for model, fp32, tf32 in (("A100-SXM4-80GB", 19.5e12, 156e12), ("H100 80GB HBM3", 66.9e12, 494.7e12)):
        assert peak(model, "fp32").flops_per_second == fp32
        assert peak(model, "tf32").flops_per_second == tf32


@pytest.mark.parametrize(("model", "sparse", "dense"), SPARSE)
def test_sparse_figures_are_never_used(model, sparse, dense):
    assert peak(model).flops_per_second == dense * 1e12
    entry = catalogue.table().find(model)
    assert all(figure < 0.9 * sparse for dtype, figure in entry.dense_tflops.items() if dtype != "fp8")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.model)
def test_entry_is_dense_sourced_and_whole(entry):
    dense = entry.dense_tflops
    if "bf16" in dense:
        assert dense["bf16"] == dense["fp16"]
        assert dense["bf16"] / dense["tf32"] == pytest.approx(2, rel=0.03)  # a sparse figure among them would show
    if "fp8" in dense:
        assert dense["fp8"] / dense["bf16"] == pytest.approx(2, rel=0.03)
    assert len(entry.source) > 20
    assert entry.date >= "2019"
    assert (entry.confidence == "low") == entry.source.startswith("no datasheet")
    assert entry.memory_gib
    assert entry.memory_gb_per_second
    assert entry.interconnect
    offered = catalogue.offers_of(entry).precisions
    assert set(dense) <= set(offered)


def test_catalogue_has_every_entry_as_a_machine_to_plan_for():
    probes = list(load_for("nvidia", None).ask("llmperf_catalogue"))
    assert [probe.devices[0].model for probe in probes] == [entry.model for entry in ENTRIES]
    assert len(ENTRIES) >= 20
    for probe in probes:
        assert probe.simulated
        assert probe.offers.precisions[0] == "fp32"
        assert probe.interconnect


def test_every_device_has_rates_of_memory_links_and_each_of_its_peaks():
    plugins = load_for("nvidia", None)
    for entry in ENTRIES:
        rates = plugins.rates(entry.model)
        assert rates is not None, entry.model
        assert set(rates.matmul_flops_per_second) == set(entry.dense_tflops)
        assert rates.memory_bytes_per_second
        assert len(rates.links) == 2
        for dtype, tflops in entry.dense_tflops.items():
            assert 0.4 * tflops < rates.matmul_flops_per_second[dtype] / 1e12 < tflops


def test_before_ampere_there_is_neither_bf16_nor_tf32():
    (probe,) = [
        device for device in load_for("nvidia", None).ask("llmperf_catalogue") if "T4" in device.devices[0].model
    ]
    assert (probe.offers.precisions, probe.offers.features) == (("fp32", "fp16"), ("efficient_attention", "compiler"))
    assert peak("Tesla T4", "bf16") is None


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        ({"torch": "2.9.0+cu128"}, 0),
        ({"torch": "2.9.0+cpu"}, 1),
        ({"torch": "2.9.0+cpu", "paddle": "3.2.0"}, 0),
        ({"torch": "2.9.0"}, 0),
    ],
)
def test_a_torch_without_cuda_trains_on_no_gpu(packages, found):
    document: dict[str, Any] = llmperf_schemas.example("result")
    document["hardware"]["vendor"] = "nvidia"
    document["software"]["packages"] = packages
    result = json_files.convert(document, Result, "result")
    assert len(list(rules.torch_for_gpus.check(result))) == found


MEGATRON, ZERO = "llama2_7b_pretrain_megatron", "baichuan2_13b_pretrain_zero"
PADDLE_7B, PADDLE_13B = "llama1_7b_pretrain_paddle", "llama1_13b_pretrain_paddle"
MILLION = 2**20


def planned(case, on, *settings):
    """What is worked out for a request, whether or not the framework has something to object."""
    answer = ready(plan_run(Selection(case, settings=settings), Site(on=on)))
    assert answer.plan is not None, answer.problems
    return answer.plan


def degrees(plan):
    layout = plan.layout
    return layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel


@pytest.mark.parametrize(
    ("case", "on", "settings", "layout", "global_batch", "tokens", "flops", "token_per_second", "published"),
    [
        (MEGATRON, "A100-SXM4-40GB:1x8", (), (4, 1, 2), 64, MILLION // 4, 42e9, 2868, "38.6"),
        (MEGATRON, "A100-SXM4-40GB:1x8", ("gradient_accumulation=512",), (4, 1, 2), 1024, 4 * MILLION, 42e9, 2908,
         "39.1"),
        (ZERO, "H800:2x8", (), (1, 1, 16), 128, MILLION // 4, 78e9, 2068, "16.3"),
        (ZERO, "H800:2x8", ("gradient_accumulation=64",), (1, 1, 16), 1024, 2 * MILLION, 78e9, 2710, "21.4"),
        ("llama2_7b_lora", "A100-SXM4-40GB:1x1", (), (1, 1, 1), 2, 1024, 28e9, 2788, None),
        ("llama2_7b_lora", "A100-SXM4-40GB:1x1", ("precision=fp16", "micro_batch=4", "gradient_accumulation=1"),
         (1, 1, 1), 4, 2048, 28e9, 4017, "36.1"),
    ],
)  # fmt: skip
def test_a_published_row_gives_its_published_mfu(
    case, on, settings, layout, global_batch, tokens, flops, token_per_second, published
):
    plan = planned(case, on, *settings)
    assert degrees(plan) == layout
    assert (plan.batch.global_batch, plan.batch.tokens_per_step) == (global_batch, tokens)
    assert plan.flops.of("nominal").flops == flops
    values = utilisation(plan.flops, token_per_second, plan.peak, plan.device_share)
    (headline,) = [device for device in values if device.headline]
    percent = Decimal(f"{100 * headline.value:.9g}").quantize(Decimal("0.1"), ROUND_HALF_UP)
    if published is not None:
        assert str(percent) == published
    else:
        assert percent > 100  # the table has no MFU: this row cannot have been computed in fp32


def test_forty_gigabytes_are_tuned_as_published():
    """`per_device_bs=2, recompute=True, use_fused_rms_norm=False`; at 80 GB 4, False and True."""
    small = planned(PADDLE_7B, "A100-SXM4-40GB:1x8").spec.tuning
    large = planned(PADDLE_7B, "A100-SXM4-80GB:1x8").spec.tuning
    assert (small.micro_batch, small.gradient_checkpointing, small.fused_ops) == (2, True, ())
    assert (large.micro_batch, large.gradient_checkpointing, large.fused_ops) == (4, False, ("rms_norm",))


def memory_problems(answer):
    return [device.message for device in answer.problems if device.message.startswith("weights, gradients")]


@pytest.mark.parametrize("case", ["llama2_7b_pretrain_zero", "llama2_7b_lora", PADDLE_7B])
def test_seven_billion_parameters_fit_one_h200(case):
    answer = plan_run(Selection(case), Site(on="H200:1x1"))
    assert answer.plan is not None, answer.problems
    assert degrees(answer.plan) == (1, 1, 1)
    assert memory_problems(answer) == []
    assert not any(change.contract for change in answer.plan.spec.changes)


def test_megatron_has_no_tuning_for_one_h200_since_its_update_would_fill_the_gpu():
    """16 bytes a parameter in DeepSpeed's states and 6 in its update: 138 GiB before any activation."""
    answer = plan_run(Selection(MEGATRON), Site(on="H200:1x1"))
    assert {device.where for device in answer.problems} == {"tuning.tensor_parallel"}
    alone = planned(MEGATRON, "H200:1x1", "tensor_parallel=1", "gradient_checkpointing=true")
    assert max(alone.state_bytes_per_stage) == pytest.approx(138.1 * 2**30, rel=0.002)
    assert max(alone.state_bytes_per_stage) > 0.97 * alone.probe.devices[0].memory_bytes


@pytest.mark.parametrize("case", [ZERO, PADDLE_13B])
def test_thirteen_billion_do_not_and_one_line_says_why(case):
    (line,) = memory_problems(plan_run(Selection(case), Site(on="H200:1x1")))
    assert "141.0 GiB are there" in line


@pytest.mark.parametrize("on", ["A100-SXM4-40GB:1x8", "A100-SXM4-80GB:1x8", "H800:1x8", "H800:2x8"])
@pytest.mark.parametrize("case", [MEGATRON, "llama2_7b_pretrain_zero", ZERO, PADDLE_7B, PADDLE_13B])
def test_model_states_fit_wherever_a_case_is_tuned_for(case, on):
    answer = plan_run(Selection(case), Site(on=on))
    assert memory_problems(answer) == []
    if answer.plan is not None:
        # 13B at ZeRO-1 over 16: 66 of 80 GiB; published were 77 in use, activations included
        assert max(answer.plan.state_bytes_per_stage) < 0.85 * answer.plan.probe.devices[0].memory_bytes
        assert not any(change.contract for change in answer.plan.spec.changes)


def test_overlays_leave_other_frameworks_alone():
    answer = plan_run(Selection("llama2_7b_pretrain_zero", framework="pytorch"), Site(on="A100-SXM4-80GB:1x8"))
    assert answer.spec.tuning.gradient_checkpointing
