"""Readings of whole GPUs while a run goes."""

import time
from dataclasses import replace

import pytest
from llmperf.measuring.sampler import Sampler
from llmperf.plugins.loading import load_for
from llmperf.runfolder.reader import RecordFile
from llmperf_nvidia import nvml


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
