"""One rank on the host, and the sampler's readings of it."""

import sys

import pytest
from llmperf_cpu import device, sampler
from llmperf_cpu.device import CpuDevice

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
def test_peak_memory_rises_and_begins_anew():
    with CpuDevice() as bound:
        first, second = bound.event(), bound.event()
        bound.synchronize()
    assert second.ready()
    assert 0 <= second.seconds_since(first) < 5
    bound.reset_peak_memory()
    before = bound.peak_memory_bytes()
    block = bytearray(128 * 2**20)
    with_block = bound.peak_memory_bytes()
    assert before is not None
    assert with_block is not None
    assert with_block - before > 100 * 2**20
    del block
    assert bound.peak_memory_bytes() >= with_block - 2**22
    bound.reset_peak_memory()
    assert bound.peak_memory_bytes() < with_block - 100 * 2**20


def test_peak_memory_without_proc(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "STATUS", tmp_path / "none")
    peak = CpuDevice().peak_memory_bytes()
    assert peak is not None
    assert peak > 2**20


def test_power_from_package_counters(tmp_path, monkeypatch):
    def zone(name, label, microjoules):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "name").write_text(label + "\n")
        (folder / "energy_uj").write_text(f"{microjoules}\n")

    monkeypatch.setattr(sampler, "POWERCAP", tmp_path)
    clock = [100.0]
    monkeypatch.setattr(sampler.time, "monotonic", lambda: clock[0])
    zone("intel-rapl:0", "package-0", 5_000_000)
    zone("intel-rapl:0:0", "core", 1_000_000)
    watching = sampler.HostSampler()
    clock[0] = 102.0
    zone("intel-rapl:0", "package-0", 105_000_000)
    zone("intel-rapl:0:0", "core", 90_000_000)
    reading = watching.sample(0)
    assert (reading.power_watts, reading.energy_joules) == (50, 105)
    clock[0] = 103.0
    zone("intel-rapl:0", "package-0", 1_000_000)  # wrapped
    assert watching.sample(0).power_watts is None


def test_temperature_is_the_hottest_cpu_sensor(tmp_path, monkeypatch):
    monkeypatch.setattr(sampler, "HWMON", tmp_path)
    assert sampler.HostSampler().sample(0).temperature_celsius is None
    for name, label, readings in (("hwmon0", "nvme", [90000]), ("hwmon1", "k10temp", [41500, 55250])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(label + "\n")
        for number, value in enumerate(readings, 1):
            (tmp_path / name / f"temp{number}_input").write_text(f"{value}\n")
    assert sampler.HostSampler().sample(0).temperature_celsius == 55.25
