"""The published FlagPerf rows on NVIDIA GPUs, planned as a user plans them: `llmperf plan CASE --on DEVICES`.

Layout, batch and tokens of each row, and its printed MFU from its printed token/p/s.
"""

from decimal import ROUND_HALF_UP, Decimal

import pytest
from llmperf.accounting.flops import utilisation
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site

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
