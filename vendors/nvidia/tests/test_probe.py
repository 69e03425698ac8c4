"""Seeing GPUs through NVML: whole machines, mixed ones, faulty ones."""

from dataclasses import replace

import pytest
from llmperf.plugins.loading import load_for
from llmperf_testing import VendorContract


def probe():
    return load_for("nvidia", None).ask("llmperf_probe")


def test_eight_a100_are_seen_with_all_that_matters(machines):
    machines.play(*[machines.A100] * 8)
    answer = probe()
    assert (len(answer.devices), answer.driver, answer.interconnect) == (8, "580.65.06", "NVLink, 12 links each")
    assert answer.problems == ()
    device = answer.devices[5]
    assert (device.index, device.model, device.memory_bytes) == (5, "NVIDIA A100-SXM4-40GB", 40 * 2**30)
    assert device.uuid == "GPU-00000005-aaaa-bbbb-cccc-000000000000"
    assert device.details == {
        "compute_capability": "8.0",
        "cuda": "13.0",
        "pci_bus": "00000000:57:00.0",
        "pcie": "gen 4 x16",
        "nvlinks": "12",
        "topology": "SYS SYS SYS SYS PXB X NODE NODE",
        "ecc": "on",
        "mig": "off",
        "power_limit": "400 W",
        "power_limit_default": "400 W",
        "highest_clocks": "SM 1410 MHz, memory 1215 MHz",
        "throttling": "none",
    }
    assert "bf16" in answer.offers.precisions
    assert "flash_attention" in answer.offers.features


def test_of_a_mixed_machine_the_first_model_is_used_and_a_line_says_what_works_too(machines, monkeypatch):
    machines.play(machines.V100, machines.A100, machines.V100, machines.A100)
    answer = probe()
    assert [shown.index for shown in answer.devices] == [0, 2]
    assert answer.offers.precisions == ("fp32", "fp16")
    (line,) = answer.problems
    assert "1 (NVIDIA A100-SXM4-40GB), 3 (NVIDIA A100-SXM4-40GB)" in line
    assert "CUDA_VISIBLE_DEVICES=1,3" in line
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    answer = probe()
    assert ([shown.index for shown in answer.devices], answer.problems) == ([1, 3], ())
    assert answer.interconnect == "NVLink, 12 links each"


def test_gpus_without_nvlink_talk_over_pcie(machines):
    machines.play(machines.V100, machines.V100)
    assert probe().interconnect == "PCIe gen 4 x16"
    assert "mig" not in probe().devices[0].details


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ({"mig": 1}, "GPU 0 is left out: it is in MIG mode"),
        ({"error": 15}, "GPU 0 is left out: GPU is lost (reset it or reboot)"),
        ({"error": 4}, "GPU 0 is left out: Insufficient Permissions (give this user access"),
    ],
)
def test_a_gpu_that_no_run_can_use_is_left_out(machines, fault, line):
    machines.play(replace(machines.A100, **fault), machines.A100)
    answer = probe()
    assert [shown.index for shown in answer.devices] == [1]
    (problem,) = answer.problems
    assert problem.startswith(line)
    assert ("nvidia-smi -i 0 -mig 0" in problem) is ("mig" in fault)


@pytest.mark.parametrize(
    ("init", "message"),
    [(4, "give this user access to /dev/nvidia*"), (9, "modprobe nvidia"), (18, "reload the module or reboot")],
    ids=["no permission", "driver not loaded", "version mismatch"],
)
def test_a_driver_that_does_not_answer_is_one_line(machines, init, message):
    machines.play(machines.A100, init=init)
    answer = probe()
    assert answer.devices == ()
    (line,) = answer.problems
    assert line.startswith("no NVIDIA driver answers: NVML: ")
    assert message in line
    assert "nvidia-smi is not installed" in line
    assert "\n" not in line


def test_a_driver_without_gpus_and_a_mig_slice_that_is_asked_for_are_one_line(machines, monkeypatch):
    machines.play()
    assert probe().problems == ("the NVIDIA driver shows no GPU",)
    machines.play(machines.A100)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1234")
    answer = probe()
    assert answer.devices == ()
    assert "expected whole GPUs, found the MIG slice MIG-1234" in answer.problems[0]


class TestNvidia(VendorContract):
    plugin = "nvidia"
