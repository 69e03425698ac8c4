"""NPUs as `npu-smi info` shows them, whole and faulty; no NPU has been asked."""

from __future__ import annotations

import pytest
from llmperf.planning.build import draft
from llmperf.planning.request import Request
from llmperf.plugins import load_for

TOP = """\
+----------------------------------------------------------------------------------------------+
| npu-smi 24.1.rc2                 Version: 24.1.rc2                                           |
+---------------------------+---------------+--------------------------------------------------+
| NPU   Name                | Health        | Power(W)   Temp(C)        Hugepages-Usage(page)  |
| Chip  {physical}          | Bus-Id        | AICore(%)  Memory-Usage(MB) HBM-Usage(MB)        |
+===========================+===============+==================================================+
"""
LINE = "+---------------------------+---------------+--------------------------------------------------+\n"
PROCESSES = """\
| NPU     Chip              | Process id    | Process name             | Process memory(MB)    |
+===========================+===============+==================================================+
| 0       0                 | 4711          | python                   | 3000                  |
| No running processes found in NPU 1                                                          |
"""


def npu(number, name="910B3", health="OK", sensors="88.9  36  0 / 0", second="0", bus="0000:C1:00.0", use=None):
    use = use or "12  0 / 0  3161 / 65536"
    return f"| {number}  {name} | {health} | {sensors} |\n| {second} | {bus} | {use} |\n{LINE}"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Plays a machine whose `npu-smi` prints these chips."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)

    def play(*chips, script=None, physical=""):
        (folder / "table").write_text(TOP.format(physical=physical) + "".join(chips) + PROCESSES)
        tool = folder / "npu-smi"
        tool.write_text(f"#!/bin/sh\n{script or f'cat {folder}/table'}\n")
        tool.chmod(0o755)

    return play


def probe():
    return load_for("ascend", None).ask("llmperf_probe")


def sample(*devices):
    return load_for("ascend", None).ask("llmperf_query_memory", devices=devices)


def test_a_node(machine):
    machine(*[npu(one) for one in range(8)])
    found = probe()
    assert (found.problems, found.driver, found.simulated) == ((), "24.1.rc2", False)
    assert [one.index for one in found.devices] == list(range(8))
    assert (found.devices[7].model, found.devices[7].memory_bytes) == ("910B3", 64 * 2**30)
    assert (found.offers.precisions, found.offers.collective_backend) == (("fp32", "bf16", "fp16"), "hccl")
    one, missing = sample(3, 9)
    assert (one.memory_used_bytes, one.memory_total_bytes) == (3161 * 2**20, 64 * 2**30)
    assert (one.utilisation_percent, one.power_watts, one.temperature_celsius) == (12, 88.9, 36)
    assert missing.memory_total_bytes is None


def test_two_chips_of_one_npu(machine):
    second = npu(0, "Ascend910", sensors="-  34  0 / 0", second="1  1", bus="0000:9F:00.0")
    machine(npu(0, "Ascend910", second="0  0"), second, physical="Phy-ID")
    assert [(one.index, one.details["chip"]) for one in probe().devices] == [(0, "0"), (1, "1")]
    assert [one.power_watts for one in sample(0, 1)] == [88.9, None]


def test_a_chip_without_hbm(machine):
    machine(npu(0, "310P3", use="0  628 / 21534"))
    assert probe().devices[0].memory_bytes == 21534 * 2**20
    assert probe().offers.precisions == ("fp32", "fp16")


@pytest.mark.parametrize(
    "row",
    [
        npu(1, use="0  0 / 0  70000 / 65536"),
        npu(1, use="0  0 / 0  0 / 0"),
        npu(1, use="0"),
        npu(1, bus="somewhere"),
        npu(1, sensors="hot"),
        npu("x"),
    ],
)
def test_a_row_that_does_not_fit_is_shown_and_tells_nothing(machine, row):
    machine(npu(0), row, npu(2))
    found = probe()
    assert [one.index for one in found.devices] == [0, 2]
    (problem,) = found.problems
    assert "do not fit" in problem
    assert "910B3" in problem
    assert sample(1)[0].memory_used_bytes is None


def test_an_ill_npu_is_left_out(machine):
    machine(npu(0, health="Critical"), npu(1))
    assert [one.index for one in probe().devices] == [1]
    assert "NPU 0 is left out: its health is Critical" in probe().problems[0]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'dcmi module initialize failed. ret is -8005'; exit 1", "npu-smi: dcmi module initialize failed"),
        ("echo nothing", "expected its table of NPUs, found 'nothing"),
        ("head -c 3000000 /dev/zero", "printed more than"),
    ],
)
def test_a_faulty_tool_is_one_line(machine, script, said):
    machine(script=script)
    (problem,) = probe().problems
    assert said in problem
    assert problem.isprintable()
    assert sample(0)[0].memory_total_bytes is None


def test_no_driver_is_one_line(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert probe().problems == ("no Ascend driver answers: npu-smi is not installed",)


def test_visible_devices(machine, monkeypatch):
    machine(*[npu(one) for one in range(4)])
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "2,3")
    assert [one.index for one in probe().devices] == [2, 3]
    assert draft(Request("default", vendor="ascend", devices=2)).plan.env["ASCEND_RT_VISIBLE_DEVICES"] == "2,3"
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "")
    assert "hides all of them" in probe().problems[0]


def test_peaks_are_unknown_and_npus_that_are_not_here_can_be_planned_for():
    assert load_for("ascend", None).ask("llmperf_peak_flops", device_model="910B3", dtype="fp16") is None
    found = draft(Request("llama2_7b_pretrain_zero", on="910B3:1x8", settings=("dataset=synthetic",)))
    assert found.problems == []
    assert found.plan.vendor == "ascend"
