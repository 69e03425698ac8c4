"""`nvidia-smi` where NVML cannot be loaded from Python."""

import os
import sys
import time
from dataclasses import replace

import pytest
from llmperf.measuring.sampler import Sampler
from llmperf.plugins.loading import load_for
from llmperf.runfolder.reader import RecordFile
from llmperf_nvidia import nvml, sampler

A100 = "0, NVIDIA A100-SXM4-40GB, GPU-aaaa, 40960, 535.129.03, 00000000:07:00.0, 400.00, Enabled"
V100 = "1, Tesla V100-SXM2-16GB, GPU-bbbb, 16384, 535.129.03, 00000000:0A:00.0, 300.00, Enabled"
OF_TODAY = f"""\
#!/bin/sh
case "$1" in
*name*) echo '{A100}, 8.0, Disabled, 400.00, 4, 16'
        echo '{V100}, 7.0, [N/A], 300.00, 3, 16' ;;
*) echo '0, 1000, 40960, 37, 250.5, 61, 0x0000000000000004'
   echo '1, 2, 16384, [N/A], [Not Supported], 40, [N/A]' ;;
esac
"""
OLDER = f"""\
#!/bin/sh
case "$1" in
*compute_cap*|*reasons*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;;
*name*) echo '{A100}' ;;
*) echo '0, 1000, 40960, 37, 250.5, 61' ;;
esac
"""


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """A function that installs an `nvidia-smi`, where Python cannot load NVML."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(sampler, "_library", [])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")

    def install(text):
        (tmp_path / "nvidia-smi").write_text(text)
        (tmp_path / "nvidia-smi").chmod(0o755)

    return install


def ask(hook, **arguments):
    return load_for("nvidia", None).ask(hook, **arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "nvidia-smi is not installed"),
        ("#!/bin/sh\necho Failed to talk to the driver\nexit 9\n", "Failed to talk to the driver"),
        ("#!/bin/sh\nexit 3\n", "exit code 3"),
        ("#!/no/such/shell\n", "nvidia-smi"),
    ],
)
def test_no_tool_and_a_broken_one_are_one_line_and_no_device(tool, text, message):
    if text is not None:
        tool(text)
    answer = ask("llmperf_probe")
    assert answer.devices == ()
    (problem,) = answer.problems
    assert message in problem
    assert "\n" not in problem
    (sample,) = ask("llmperf_query_memory", devices=(0,))
    assert (sample.memory_used_bytes, sample.power_watts, sample.throttle_reasons) == (None, None, None)


def test_it_replaces_nvml(tool):
    tool(OF_TODAY)
    answer = ask("llmperf_probe")
    (device,) = answer.devices  # the other is of another model
    assert "1 (Tesla V100-SXM2-16GB)" in answer.problems[0]
    assert (device.model, device.memory_bytes, device.uuid) == ("NVIDIA A100-SXM4-40GB", 40 * 2**30, "GPU-aaaa")
    assert (answer.driver, answer.interconnect) == ("535.129.03", "PCIe gen 4 x16")
    assert device.details == {
        "compute_capability": "8.0",
        "pci_bus": "00000000:07:00.0",
        "pcie": "gen 4 x16",
        "ecc": "on",
        "mig": "off",
        "power_limit": "400 W",
        "power_limit_default": "400 W",
    }
    first, second, missing = ask("llmperf_query_memory", devices=(0, 1, 7))
    assert (first.memory_used_bytes, first.utilisation_percent, first.power_watts) == (1000 * 2**20, 37, 250.5)
    assert first.throttle_reasons == ("power limit",)
    assert (second.utilisation_percent, second.power_watts, second.temperature_celsius) == (None, None, 40)
    assert (second.throttle_reasons, missing.memory_total_bytes) == (None, None)


def test_an_older_tool_knows_fewer_fields(tool):
    tool(OLDER)
    answer = ask("llmperf_probe")
    assert answer.devices[0].details["compute_capability"] == "8.0"  # of the table
    assert "bf16" in answer.offers.precisions
    (sample,) = ask("llmperf_query_memory", devices=(0,))
    assert (sample.power_watts, sample.throttle_reasons) == (250.5, None)


GOOD = f"{A100}, 8.0, Disabled, 400.00, 4, 16"
LOST = "Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([GOOD, LOST], "1 cells where 13 are expected"),
        ([GOOD, A100], "8 cells where 13 are expected"),
        ([GOOD, GOOD], "device 0 a second time"),
        ([], "found an empty output"),
        (["x" * 9000], f"'{'x' * 200}'"),
        ([GOOD.replace("0, ", "-3, ", 1)], "index is -3, expected a whole number"),
        ([GOOD, GOOD.replace("0, ", "00, ", 1)], "device 0 a second time"),
        ([GOOD.replace("0, ", "[N/A], ", 1)], "expected a whole number"),
        ([GOOD.replace("40960", "-40960")], "memory_total_mib is "),
        ([GOOD.replace("40960", "nan")], "memory_total_mib is "),
        ([GOOD.replace("40960", "inf")], "memory_total_mib is "),
        ([GOOD.replace("8.0", "i")], "compute_cap is i, expected"),
    ],
)
def test_a_row_that_does_not_fit_is_shown(tool, rows, message):
    shown = "".join(f"echo '{row}'\n" for row in rows)
    tool(f"#!/bin/sh\n{shown}")
    answer = ask("llmperf_probe")
    assert answer.devices == ()
    (problem,) = answer.problems
    assert "nvidia-smi: " in problem
    assert message in problem
    assert len(problem) < 600
    (sample,) = ask("llmperf_query_memory", devices=(0,))
    assert sample.memory_used_bytes is None


def test_what_the_tool_does_not_know_or_cannot_be_is_unknown(tool):
    row = GOOD.replace("40960", "[N/A]").replace("400.00", "[Not Supported]").replace("8.0", "[Unknown Error]")
    tool(f"#!/bin/sh\necho '{row}'\n")
    (device,) = ask("llmperf_probe").devices
    assert (device.memory_bytes, "power_limit" in device.details) == (None, False)
    tool("#!/bin/sh\necho '0, 1000, 40960, nan, -5, inf, [N/A]'\n")
    (sample,) = ask("llmperf_query_memory", devices=(0,))
    assert (sample.memory_used_bytes, sample.utilisation_percent) == (1000 * 2**20, None)
    assert (sample.power_watts, sample.temperature_celsius) == (None, None)


def sample(*devices):
    return load_for("nvidia", None).ask("llmperf_query_memory", devices=devices)


def test_a_reading_has_memory_power_energy_and_reasons(machines):
    machines.play(machines.A100, replace(machines.A100, mask=0x44, watts=400))
    first, second = sample(0, 1)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (512 * 2**20, 40 * 2**30)
    assert (first.utilisation_percent, first.power_watts, first.temperature_celsius) == (99, 250, 61)
    assert first.clock_hertz == 1.41e9
    assert (first.throttle_reasons, second.throttle_reasons) == ((), ("power limit", "heat"))
    assert second.energy_joules == 1_000_400
    assert sample(0, 1)[1].energy_joules - second.energy_joules == 400


def test_what_a_gpu_does_not_tell_is_unknown(machines):
    gpu = machines.A100
    machines.play(gpu, replace(gpu, pid=4321), replace(gpu, pid=-1))
    assert [device.process_ids for device in sample(0, 1, 2)] == [(), (4321,), None]
    machines.play(machines.V100)
    (answer,) = sample(0)
    assert answer.energy_joules is None
    assert answer.power_watts == 250
    assert sample(5)[0].memory_total_bytes is None


def test_older_drivers_call_the_reasons_otherwise(old_machines):
    old_machines.play(replace(old_machines.A100, mask=0x80))
    assert sample(0)[0].throttle_reasons == ("power brake",)


@pytest.mark.parametrize(
    ("mask", "reasons"),
    [
        (0x0, ()),
        (0x1, ()),  # idle
        (0x4, ("power limit",)),
        (0x60, ("heat",)),
        (0x68, ("hardware slowdown", "heat")),
        (0x12, ("clock setting",)),
        (0x200, ("power limit",)),
        (0x400, ("other",)),
        (0x8000000000000001, ("other",)),
    ],
)
def test_reasons_in_words(mask, reasons):
    assert nvml.reasons_of(mask) == reasons


def test_the_bits_are_those_of_nvml():
    import pynvml

    assert pynvml.nvmlClocksEventReasonGpuIdle == nvml.IDLE
    words = {
        pynvml.nvmlClocksEventReasonSwPowerCap: "power limit",
        pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
        pynvml.nvmlClocksEventReasonSwThermalSlowdown: "heat",
        pynvml.nvmlClocksEventReasonHwThermalSlowdown: "heat",
        pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
        pynvml.nvmlClocksEventReasonApplicationsClocksSetting: "clock setting",
        pynvml.nvmlClocksThrottleReasonBoardLimit: "power limit",
    }
    assert {bit: nvml.reasons_of(bit) for bit in words} == {bit: (word,) for bit, word in words.items()}


def test_a_gpu_lost_on_the_way_is_noted_and_ends_the_sampling_only(machines, tmp_path):
    machines.play(machines.A100, replace(machines.A100, error=machines.LOST, after=3))
    path = tmp_path / "memory.jsonl"
    sampler = Sampler(path, lambda devices: sample(*devices), (0, 1), interval=0.005)
    sampler.start()
    deadline = time.monotonic() + 100
    while sampler.problem is None and time.monotonic() < deadline:
        time.sleep(0.005)
    sampler.stop()
    assert sampler.problem == "reading the devices failed: OSError: GPU 1: GPU is lost (reset it or reboot)"
    assert sum(bool(record.devices) for record in RecordFile(path).new()) == 3  # the last reading is of the host alone


def test_nvml_stays_open_between_readings(machines):
    machines.play(machines.A100)
    before = sample(0)[0].energy_joules
    machines.describe()  # a driver asked anew would show no GPU
    assert sample(0)[0].energy_joules > before
