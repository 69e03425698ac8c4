"""The host as llmperf sees it."""

import os
from types import SimpleNamespace

import pytest
from llmperf.plugins.loading import load_for
from llmperf_cpu import host


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
