"""The published row of 8 R300, planned as a user plans it, and the variables its ranks get."""

import pytest
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.plugins.loading import load_for

CASE, ROW = "llama2_7b_pretrain_zero", "llama2_7b_pretrain_zero_512"


@pytest.fixture
def planned(machines):
    def plan(*settings, on="R300:1x8", case=ROW):
        answer = ready(plan_run(Selection(case, settings=("dataset=synthetic", *settings)), Site(on=on)))
        assert answer.problems == ()
        return answer.plan

    return plan


def test_the_published_row(planned):
    plan = planned()
    layout, contract, tuning = plan.layout, plan.spec.contract, plan.spec.tuning
    assert (layout.data_parallel, layout.sharding_stage, layout.sharding_degree) == (8, 3, 8)
    assert (layout.tensor_parallel, layout.pipeline_parallel) == (1, 1)
    assert (plan.batch.micro_batch, plan.batch.gradient_accumulation, plan.batch.global_batch) == (12, 1, 96)
    assert (contract.seq_len, plan.batch.tokens_per_step) == (512, 12 * 8 * 512)
    assert (contract.precision, tuning.gradient_checkpointing) == ("fp16", True)
    assert plan.flops.of("nominal").flops == 42e9
    assert (plan.peak.flops_per_second, plan.peak.confidence) == (128e12, "low")
    assert max(plan.state_bytes_per_stage) < 29 * 2**30


def test_the_row_is_a_case_of_its_own_and_the_contract_of_the_other_is_the_same_on_every_device(planned):
    assert [change.path for change in planned().spec.changes] == ["contract.dataset"]
    plan = planned(case=CASE)
    assert [change.path for change in plan.spec.changes] == ["contract.dataset"]
    assert (plan.spec.contract.seq_len, plan.batch.global_batch, plan.batch.micro_batch) == (4096, 8, 1)


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "bf16"])
def test_other_peaks_are_unknown(dtype):
    assert load_for("kunlunxin", None).ask("llmperf_peak_flops", device_model="R300", dtype=dtype) is None


def test_variables_of_the_published_case(planned, monkeypatch):
    env = planned().env
    assert (env["XDNN_FC_GEMM_DTYPE"], env["BKCL_FORCE_SYNC"], env["XPU_EVENT_KL3_ENABLE"]) == ("float32", "1", "1")
    assert "XPU_VISIBLE_DEVICES" not in env
    assert "XDNN_FC_GEMM_DTYPE" not in planned(on="P800:1x8").env
    # what the user has set wins
    monkeypatch.setenv("XDNN_FC_GEMM_DTYPE", "int16")
    monkeypatch.setenv("XPU_FC_AUTOTUNE_FILE", "/data/fc_autotune_fp16.log")
    env = planned().env
    assert (env["XDNN_FC_GEMM_DTYPE"], env["XPU_FC_AUTOTUNE_FILE"]) == ("int16", "/data/fc_autotune_fp16.log")


def test_ranks_see_the_planned_cards(machines, card, monkeypatch):
    machines.play(*[card()] * 4)
    monkeypatch.setenv("XPU_VISIBLE_DEVICES", "2,3")
    answer = ready(plan_run(Selection("default"), Site(vendor="kunlunxin", devices=2)))
    assert answer.plan.env["XPU_VISIBLE_DEVICES"] == "2,3"


def test_bf16_is_refused_with_what_there_is(machines):
    answer = plan_run(Selection(CASE, settings=("dataset=synthetic", "precision=bf16")), Site(on="R300:1x8"))
    (problem,) = answer.problems
    assert problem.message.startswith("R300 (kunlunxin) offers fp32, fp16, found bf16; nearest: --set precision=fp16")
