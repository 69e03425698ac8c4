"""The host as llmperf sees it."""

import os
import sys
from types import SimpleNamespace

import llmperf_schemas
import pytest
from llmperf.files import json_files
from llmperf.plugins.loading import load_for
from llmperf.types import Plan, Result
from llmperf_cpu import device, host, peak, rules, sampler
from llmperf_cpu.device import CpuDevice
from llmperf_testing import VendorContract


def ask(hook, **arguments):
    return load_for("cpu", None).ask(hook, **arguments)


def test_probe_shows_one_shared_device():
    probe = ask("llmperf_probe")
    (device,) = probe.devices
    assert device.kind == "cpu"
    assert device.divisible
    assert device.model
    assert int(device.details["cores"]) <= (os.cpu_count() or 1)
    assert probe.offers.precisions == ("fp32", "bf16")
    assert not probe.problems


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the host has no CPU affinity")
def test_cores_follow_the_affinity():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert host.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_cores_and_memory_follow_the_control_group(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    monkeypatch.setattr(host, "meminfo", lambda: {"MemTotal": 2**34})
    for text, cores in (("350000 100000\n", 4), ("max 100000\n", 16)):
        (tmp_path / "cpu.max").write_text(text)
        assert host.usable_cores() == cores
    assert host.memory_bytes() == 2**34
    (tmp_path / "memory.max").write_text(f"{2**30}\n")
    assert host.memory_bytes() == 2**30


def test_host_without_proc_is_still_a_device(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "PROC", tmp_path)
    monkeypatch.setattr(host, "CGROUP", tmp_path)
    (device,) = ask("llmperf_probe").devices
    assert device.model
    assert "sockets" not in device.details
    assert ask("llmperf_query_memory", devices=(0,))[0].memory_used_bytes is None


def test_threads_are_shared_by_the_ranks_of_a_node_unless_the_user_has_chosen(monkeypatch):
    device = SimpleNamespace(details={"cores": "8"})
    for ranks, chosen, threads in ((1, "", "8"), (3, "", "2"), (16, "", "1"), (1, "3", "3"), (1, "x", "8")):
        monkeypatch.setenv("OMP_NUM_THREADS", chosen)
        plan = SimpleNamespace(probe=SimpleNamespace(devices=(device,)), layout=SimpleNamespace(devices_per_node=ranks))
        ((_, env),) = [given for given in load_for("cpu", None).collect("llmperf_worker_env", plan=plan)]
        assert env["OMP_NUM_THREADS"] == threads
        assert env["MALLOC_MMAP_MAX_"] == "0"


@pytest.mark.parametrize(
    ("precision", "emulated", "found"),
    [
        ("fp32", False, 0),
        ("bf16", False, 0),
        ("fp8_tensorwise", False, 1),
        ("fp8_tensorwise", True, 0),
        ("fp16", False, 1),
    ],
)
def test_a_cpu_has_no_products_in_fp8_unless_they_are_emulated(precision, emulated, found):
    document = llmperf_schemas.example("result")
    document["contract"]["precision"] = precision
    document["tuning"]["emulate_precision"] = emulated
    result = json_files.convert(document, Result, "result")
    assert len(list(rules.precision_of_a_cpu.check(result))) == found


@pytest.mark.parametrize(
    ("flops", "cores", "codes"), [(9.7e10, 16, []), (9.7e9, 2, ["CPU3"]), (7e12, 2, []), (8e12, 2, ["CPU2"])]
)
def test_forgery_b_a_peak_that_two_cores_cannot_have_or_of_a_part_of_them(flops, cores, codes):
    document = llmperf_schemas.example("plan")
    details = {"cores": "2", "architecture": "x86_64", "machine_cores": str(cores)}
    document["probe"]["devices"][0]["details"] = details
    document["peak"]["flops_per_second"] = flops
    plan = json_files.convert(document, Plan, "plan")
    checks = {one.code: one.check for one in (rules.possible_peak, rules.low_peak)}
    assert [code for code, check in checks.items() if check is not None and list(check(plan))] == codes
    assert len(list(rules.all_cores.check(type("Run", (), {"plan": plan})))) == (cores > 2)


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
    assert with_block - before > 100 * 2**20
    del block
    assert bound.peak_memory_bytes() >= with_block - 2**22
    bound.reset_peak_memory()
    assert bound.peak_memory_bytes() < with_block - 100 * 2**20


def test_peak_memory_without_proc(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "STATUS", tmp_path / "none")
    peak = CpuDevice().peak_memory_bytes()
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


class TestCpu(VendorContract):
    plugin = "cpu"

    @pytest.fixture(autouse=True)
    def _measure_nothing(self, monkeypatch, tmp_path):
        """A measurement that takes no time, kept nowhere."""
        best = {"flops_per_second": 1e15, "size": 2048, "core_share": 1.0, "date": "2026-01-01"}
        monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(peak, "_measure", lambda key: {**best, "key": key})
