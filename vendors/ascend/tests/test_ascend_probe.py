"""What `npu-smi info` shows, recorded and faulty."""

import sys
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.plugins.loading import load_for
from llmperf_ascend.plugin import llmperf_setup_device
from llmperf_testing import VendorContract

HEAD = """\
+------------------------------------------------------------------------------------------------+
| npu-smi 25.2.3                   Version: 25.2.3                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
"""
TAIL = """\
+===========================+===============+====================================================+
+---------------------------+---------------+----------------------------------------------------+
| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |
+===========================+===============+====================================================+
| 0       0                 | 4101          | python                   | 53100                   |
"""


def rows(number=0, name="910B3", health="OK", state="105.7       40                0    / 0", use=None):
    use = use or f"{number}           0    / 0          53202/ 65536"
    return (
        f"| {number}     {name}               | {health}            | {state}             |\n"
        f"| 0                         | 0000:C{number}:00.0  | {use}         |\n"
    )


@pytest.fixture
def tool(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)

    def play(*blocks, script=None):
        (tmp_path / "table").write_text(HEAD + "".join(blocks) + TAIL)
        path = tmp_path / "npu-smi"
        path.write_text(f"#!/bin/sh\n{script or f'cat {tmp_path}/table'}\n")
        path.chmod(0o755)

    return play


def probe():
    return load_for("ascend", None).ask("llmperf_probe")


def sample(*devices):
    return load_for("ascend", None).ask("llmperf_query_memory", devices=devices)


def test_a_recorded_table(tool):
    tool(rows(0), rows(3, state="-    NA    0 / 0"))
    answer = probe()
    assert (answer.problems, answer.driver) == ((), "25.2.3")
    assert [(device.index, device.model, device.details["npu"]) for device in answer.devices] == [
        (0, "Ascend 910B3", "0"),
        (1, "Ascend 910B3", "3"),
    ]
    assert answer.devices[0].memory_bytes == 64 * 2**30
    assert (answer.offers.precisions, answer.offers.collective_backend) == (("fp32", "bf16", "fp16"), "hccl")
    first, second, missing = sample(0, 1, 2)
    assert (first.memory_used_bytes, first.power_watts, first.temperature_celsius) == (53202 * 2**20, 105.7, 40)
    assert (second.utilisation_percent, second.power_watts, second.temperature_celsius) == (3, None, None)
    assert missing.memory_used_bytes is None


@pytest.mark.parametrize(
    ("use", "used", "total"), [("12  882  / 15169  0 / 32768", 0, 32768), ("12  3360 / 15039", 3360, 15039)]
)
def test_memory_is_hbm_where_there_is_any(tool, use, used, total):
    tool(rows(use=use))
    (device,) = sample(0)
    assert (device.memory_used_bytes, device.memory_total_bytes) == (used * 2**20, total * 2**20)


def test_two_chips_of_one_npu(tool):
    # as npu-smi 25.5 shows them, with Phy-ID; power is shown on the first chip only
    second = "| 0     Ascend910 | OK | -  34  0    / 0 |\n| 1     1 | 0000:9F:00.0 | 0  0    / 0  2874 / 65536 |\n"
    tool(rows(name="Ascend910"), second)
    answer = probe()
    assert [(device.index, device.model, device.details["pci_bus"]) for device in answer.devices] == [
        (0, "Ascend910", "0000:C0:00.0"),
        (1, "Ascend910", "0000:9F:00.0"),
    ]
    assert [device.power_watts for device in sample(0, 1)] == [105.7, None]


FAULTS = [
    ({"use": "0  0 / 0  70000 / 65536"}, "memory in use is 70000 of 65536 MiB"),
    ({"use": "0  0 / 0  0 / 0"}, "memory in use is 0 of 0 MiB"),
    ({"use": "101  0 / 0  1 / 65536"}, "utilisation_percent is 101, expected 0 to 100"),
    ({"state": "9000.0   40   0 / 0"}, "power_watts is 9000.0, expected 0 to 2000"),
    ({"state": "90.0   400   0 / 0"}, "temperature_celsius is 400"),
    ({"state": "hot"}, "no NPU, name, power"),
    ({"name": ""}, "no NPU, name, power"),
    ({"use": "0 | 1"}, "3 and 4 cells"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS, ids=[message for _, message in FAULTS])
def test_rows_that_do_not_fit_are_shown_and_left_out(tool, fault, message):
    tool(rows(), rows(1, **fault))
    answer = probe()
    assert [device.index for device in answer.devices] == [0]
    (problem,) = answer.problems
    assert message in problem
    assert problem.isprintable()
    assert sample(1)[0].memory_total_bytes is None


def test_an_npu_that_is_not_well(tool):
    tool(rows(health="Warning"), rows(1, health="Alarm"), rows(2))
    answer = probe()
    assert [device.index for device in answer.devices] == [0, 2]
    assert answer.problems == ("NPU 0: its health is Warning", "NPU 1: its health is Alarm, and it is left out")
    plan = ready(plan_run(Selection("default"), Site(vendor="ascend", devices=2))).plan
    assert plan.env["ASCEND_RT_VISIBLE_DEVICES"] == "0,2"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'DrvMngGetConsoleLogLevel failed' >&2; exit 255", "npu-smi: DrvMngGetConsoleLogLevel failed"),
        ("echo; echo hello", "npu-smi: expected a table of NPUs, found 'hello'"),
        ("yes", "npu-smi printed more than the 1048576 bytes"),
        (None, "npu-smi is not installed"),
    ],
)
def test_no_driver_is_one_line(tool, script, message):
    if script is not None:
        tool(script=script)
    (problem,) = probe().problems
    assert problem.startswith("no Ascend driver answers: ")
    assert message in problem
    assert sample(0)[0].memory_total_bytes is None


def test_visible_devices_and_other_models(tool, monkeypatch):
    tool(rows(0), rows(1, name="310P3", use="0  1 / 21534"), rows(2))
    answer = probe()
    assert [device.index for device in answer.devices] == [0, 2]
    assert "devices left out: 1 (Ascend 310P3)" in answer.problems[0]
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
    answer = probe()
    assert (answer.devices[0].model, answer.offers.precisions) == ("Ascend 310P3", ("fp32",))
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "9")
    assert probe().problems == ("ASCEND_RT_VISIBLE_DEVICES hides all devices that are shown (3)",)


def test_a_die_of_a_910c_has_half_of_the_published_peak_of_a_package_and_others_have_none():
    ask = load_for("ascend", None).ask
    answer = ask("llmperf_peak_flops", device_model="Ascend910", dtype="bf16")
    assert (answer.flops_per_second, answer.confidence) == (752e12 / 2, "low")
    for dtype in ("fp32", "bf16", "fp16"):
        assert ask("llmperf_peak_flops", device_model="Ascend 910B3", dtype=dtype) is None


def test_an_npu(played, monkeypatch):
    npu = played.runtime("set_device", "synchronize", "reset_peak_memory_stats")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(npu=npu))
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace())
    with llmperf_setup_device(played.plan, 3) as device:
        assert (device.places, device.collective_backend) == ({"torch": "npu:3"}, "hccl")
        played.use(device)
    assert played.calls == [("set_device", 3), ("reset_peak_memory_stats", 3), ("synchronize", 3), ("empty_cache",)]
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    with pytest.raises(PluginError, match=r"torch_npu, .*, cannot be imported"):
        llmperf_setup_device(played.plan, 0)


class TestAscend(VendorContract):
    plugin = "ascend"
