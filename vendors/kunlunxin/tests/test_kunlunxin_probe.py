"""Cards as `xpu_smi` shows them; rows that are not plausible are left out."""

import pytest
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.plugins.loading import load_for
from llmperf_testing import VendorContract

P800 = (
    "00000000:03:00.0 0 0 02K15K624CV00304 36 0 0 0 86 1450 1450 1450 1450 1450 1450"
    ' 2 96 90440 98304 0 1.0:2.6:1.39.1.7 "P800 OAM" 0 0 0 0 0 0 0 0 0 0'
)


def probe():
    return load_for("kunlunxin", None).ask("llmperf_probe")


def sample(*devices):
    return load_for("kunlunxin", None).ask("llmperf_query_memory", devices=devices)


def test_eight_cards(machines, card):
    machines.play(*[card()] * 8)
    answer = probe()
    assert (answer.problems, answer.driver, answer.simulated) == ((), "4.23", False)
    assert [(device.index, device.model, device.memory_bytes) for device in answer.devices] == [
        (index, "R300", 32 * 2**30) for index in range(8)
    ]
    assert answer.devices[3].uuid == "02K00Y6217V00003"
    assert (answer.offers.precisions, answer.offers.collective_backend) == (("fp32", "fp16"), "bkcl")
    assert answer.offers.runtimes == ("torch", "paddle")


@pytest.mark.parametrize("old", [False, True])
def test_samples(machines, card, old):
    machines.play(card(), card(watts="N/A", celsius="-"), old=old)
    first, second, missing = sample(0, 1, 7)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (29 * 2**30, 32 * 2**30)
    assert (first.utilisation_percent, first.power_watts, first.temperature_celsius) == (99, 150, 61)
    assert (second.power_watts, second.temperature_celsius, second.memory_used_bytes) == (None, None, 29 * 2**30)
    assert (missing.memory_used_bytes, missing.memory_total_bytes) == (None, None)


def test_power_in_milliwatts(machines, card):
    machines.play(card(watts="150500"))
    assert sample(0)[0].power_watts == 150.5


def test_a_recorded_row_of_driver_5(machines):
    machines.print(["x", "| XPU-SMI   Driver Version: 5.0.21   XPU-RT Version: 5.0.21 |"], [P800], name="xpu-smi")
    answer = probe()
    assert (answer.problems, answer.driver) == ((), "5.0.21")
    assert (answer.devices[0].model, answer.devices[0].memory_bytes) == ("P800 OAM", 96 * 2**30)
    (device,) = sample(0)
    assert (device.memory_used_bytes, device.power_watts, device.temperature_celsius) == (90440 * 2**20, 86, 36)


FAULTS = [
    ({"total": 16384, "used": 1}, "column 19: memory_total_mib is 16384, expected 32768"),
    ({"used": 40000}, "memory in use is 40000 of 32768 MiB"),
    ({"celsius": "300"}, "column 5: temperature_celsius is 300, expected 1 to 120"),
    ({"watts": "0"}, "column 9: power_watts is 0, expected 1 to 999"),
    ({"watts": "nan"}, "column 9: power_watts is nan"),
    ({"percent": "101"}, "column 20: utilisation_percent is 101, expected 0 to 100"),
    ({"percent": "-5"}, "column 20: utilisation_percent is -5"),
    ({"percent": "1e999"}, "column 20: utilisation_percent is 1e999"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_a_row_that_does_not_fit_is_shown_and_left_out(machines, card, fault, message):
    machines.play(card(), card(**fault))
    answer = probe()
    assert [device.index for device in answer.devices] == [0]
    (problem,) = answer.problems
    assert message in problem
    assert "0000:02:00.0 1 1 02K00Y6217V00001" in problem
    assert [device.memory_used_bytes for device in sample(0, 1)] == [29 * 2**30, None]
    machines.play(card(**fault))
    answer = probe()
    assert (answer.devices, sample(0)[0].memory_used_bytes) == ((), None)
    assert message in answer.problems[0]
    assert "no known layout of `xpu_smi -m` fits '0000:01:00.0 0 0 " in answer.problems[0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([""], "an empty output"),
        (["Segmentation fault"], "2 fields where 20 to 64 are expected"),
        (["x " * 30], "column 1: pci_bus is x"),
        (["x" * 5000], "1 fields"),
        (["\x1b]0;owned\x07 " * 25], "?]0;owned?"),
    ],
)
def test_anything_else_is_one_short_printable_line(machines, card, rows, message):
    machines.play(card())
    machines.print(["Driver Version: 4.23"], rows)
    (problem,) = probe().problems
    assert message in problem
    assert len(problem) < 1500
    assert problem.isprintable()


def test_a_device_number_counts_once_and_a_card_whose_model_is_not_shown_has_no_peak(machines, card):
    machines.print(["Driver Version: 4.23"], [card().row(0), card().row(0)])
    answer = probe()
    (device,) = answer.devices
    assert "device 0 a second time" in answer.problems[0]
    assert (device.model, answer.offers.precisions) == ("unknown Kunlunxin XPU", ("fp32",))
    assert load_for("kunlunxin", None).ask("llmperf_peak_flops", device_model=device.model, dtype="fp16") is None


def test_a_driver_that_is_not_known(machines, card):
    machines.play(card(), driver="9.1")
    assert probe().problems[0].startswith("the columns of `xpu_smi -m` are known for drivers 2, 3, 4, 5, not for 9:")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "xpu_smi is not installed; it comes with Kunlunxin's driver (XRE), and must be on PATH"),
        ("exit 3", "xpu_smi: exit code 3"),
        ("echo 'Initialize default context for dev -1 fail' >&2; exit 1", "xpu_smi: Initialize default context"),
        ("echo Usage", "xpu_smi shows no driver version; is it Kunlunxin's?"),
        ("yes", "xpu_smi printed more than the 1048576 bytes"),
    ],
)
def test_a_tool_that_gives_no_answer(machines, script, message):
    if script is not None:
        machines.tool(script)
    (problem,) = probe().problems
    assert message in problem
    assert sample(0)[0].memory_total_bytes is None


def test_visible_devices_and_other_models(machines, card, monkeypatch):
    machines.play(card(), card(), card(model="R200", total=16384, used=1))
    answer = probe()
    assert [device.index for device in answer.devices] == [0, 1]
    assert answer.problems == (
        "devices left out: 2 (R200): a run measures devices of one model, and the first is R300;"
        " choose others with XPU_VISIBLE_DEVICES=2",
    )
    monkeypatch.setenv("XPU_VISIBLE_DEVICES", "1,0")
    assert [device.index for device in probe().devices] == [1, 0]
    monkeypatch.setenv("XPU_VISIBLE_DEVICES", "")
    assert probe().problems == ("XPU_VISIBLE_DEVICES hides all devices that are shown (3)",)


def test_a_tool_that_plays_a_machine_says_so(machines, card):
    machines.play(card(), driver="4.23 (llmperf stand-in)")
    answer = probe()
    assert (answer.simulated, answer.driver) == (True, "4.23 (llmperf stand-in)")


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


class TestKunlunxin(VendorContract):
    plugin = "kunlunxin"
