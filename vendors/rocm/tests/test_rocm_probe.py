"""AMD GPUs as the library and the two commands show them, whole and faulty."""

import sys
from types import SimpleNamespace

import pytest
from llmperf.errors import PluginError
from llmperf.planning.build import plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Selection, Site
from llmperf.plugins.loading import load_for
from llmperf_rocm.plugin import llmperf_setup_device
from llmperf_testing import VendorContract

MI300X = "AMD Instinct MI300X"
# amd-smi of ROCm 6 to 10 on MI300X and MI355X, shortened
STATIC = [
    {"gpu": 0, "asic": {"market_name": MI300X, "target_graphics_version": "gfx942"}, "bus": {"bdf": "0000:83:00.0"},
     "vram": {"type": "HBM3", "size": {"value": 196592, "unit": "MB"}},
     "driver": {"name": "amdgpu", "version": "6.19.14"}},
]  # fmt: skip
METRIC = [
    {"gpu": 0, "usage": {"gfx_activity": {"value": 73, "unit": "%"}},
     "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 49148, "unit": "MB"}},
     "temperature": {"edge": "N/A", "hotspot": {"value": 61, "unit": "C"}},
     "power": {"socket_power": {"value": 142, "unit": "W"}},
     "energy": {"total_energy_consumption": {"value": 1234.5, "unit": "J"}}},
]  # fmt: skip
# rocm-smi --json, shortened
CARDS = {
    "card0": {"Card Series": "AMD Instinct MI250X", "Unique ID": "0x5c88007d760374f3",
              "VRAM Total Memory (B)": "68702699520", "VRAM Total Used Memory (B)": "1073741824", "GPU use (%)": "12",
              "Temperature (Sensor edge) (C)": "47.0", "Temperature (Sensor junction) (C)": "52.0",
              "Average Graphics Package Power (W)": "305.0"},
    "card10": {"Card series": "AMD Instinct MI250X", "Average Graphics Package Power (W)": "N/A"},
    "system": {"Driver version": "6.7.0"},
}  # fmt: skip


def probe():
    return load_for("rocm", None).ask("llmperf_probe")


def sample(*devices):
    return load_for("rocm", None).ask("llmperf_query_memory", devices=devices)


def test_the_library(machines):
    machines.library(MI300X, MI300X)
    answer = probe()
    assert (answer.problems, answer.driver) == ((), "6.10.5")
    assert [(device.index, device.model, device.uuid) for device in answer.devices] == [
        (0, MI300X, "GPU-00"),
        (1, MI300X, "GPU-11"),
    ]
    assert answer.devices[0].memory_bytes == 196592 * 2**20
    assert (answer.offers.precisions, answer.offers.collective_backend) == (("fp32", "bf16", "fp16", "fp8"), "nccl")
    first, second, missing = sample(0, 1, 5)
    assert (first.memory_used_bytes, first.utilisation_percent, first.power_watts) == (2**30, 97, 640)
    assert (first.temperature_celsius, first.energy_joules) == (71, 30.5)
    assert (second.memory_used_bytes, second.utilisation_percent) == (2 * 2**30, None)
    assert missing.memory_total_bytes is None


@pytest.mark.parametrize("call", ["amdsmi_get_energy_count", "amdsmi_get_gpu_activity", "amdsmi_get_power_info"])
def test_an_older_library_tells_less(machines, call):
    machines.library(MI300X, lacks=call)
    (device,) = sample(0)
    assert device.memory_total_bytes == 196592 * 2**20
    assert None in (device.energy_joules, device.utilisation_percent, device.power_watts)


def wrapped(documents):
    return {"gpu_data": documents}


@pytest.mark.parametrize("shape", [list, wrapped])
@pytest.mark.parametrize("warning", ["", "WARNING: user is not in the render group\n\n"])
def test_amd_smi(machines, shape, warning):
    machines.library(broken="AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded")
    machines.amd_smi(shape(STATIC), shape(METRIC), warning)
    answer = probe()
    assert (answer.devices[0].model, answer.devices[0].memory_bytes) == (MI300X, 196592 * 2**20)
    assert (answer.driver, answer.devices[0].details["pci_bus"]) == ("6.19.14", "0000:83:00.0")
    for _ in range(2):
        (device,) = sample(0)
        assert (device.memory_used_bytes, device.utilisation_percent, device.power_watts) == (49148 * 2**20, 73, 142)
        assert (device.temperature_celsius, device.energy_joules) == (61, 1234.5)


def test_rocm_smi(machines):
    machines.tool("amd-smi", "exit 1")
    machines.rocm_smi(CARDS)
    answer = probe()
    assert [(device.index, device.model) for device in answer.devices] == [
        (0, "AMD Instinct MI250X"),
        (10, "AMD Instinct MI250X"),
    ]
    assert answer.driver == "6.7.0"
    first, second = sample(0, 10)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (2**30, 68702699520)
    assert (first.utilisation_percent, first.power_watts, first.temperature_celsius) == (12, 305, 52)
    assert (second.memory_used_bytes, second.power_watts) == (None, None)


def test_nothing_is_one_line(machines):
    expected = "no AMD driver answers: the Python module amdsmi is not installed; amd-smi is not installed;"
    assert probe().problems == (f"{expected} rocm-smi is not installed",)
    assert sample(0)[0].memory_total_bytes is None


def test_each_reason_is_in_the_line(machines):
    machines.library(broken="AMDSMI_STATUS_DRIVER_NOT_LOADED - Driver not loaded")
    machines.tool("amd-smi", "echo 'amdgpu not found in modules' >&2; exit 255")
    machines.tool("rocm-smi", "printf '\\033[31mWARNING: No AMD GPUs specified'")
    (problem,) = probe().problems
    assert problem.isprintable()
    assert "amdsmi: Error code: 34 | AMDSMI_STATUS_DRIVER_NOT_LOADED" in problem
    assert "amd-smi: amdgpu not found in modules" in problem
    assert "rocm-smi: expected JSON, found '?[31mWARNING" in problem
    machines.tool("amd-smi", "printf '[%.0s' $(seq 100000)")
    assert "amd-smi: expected JSON" in probe().problems[0]


@pytest.mark.parametrize(
    "document",
    [[], {}, 3, None, [1, "x", {"gpu": "0"}], wrapped([{"gpu": 0, "asic": 7, "vram": []}]), [{"gpu": 0, "asic": {}}]],
)
def test_documents_of_another_shape_do_not_raise(machines, document):
    machines.amd_smi(document, document)
    answer = probe()
    assert answer.problems or answer.devices[0].model == "unknown AMD GPU"
    assert sample(0)[0].memory_used_bytes is None


@pytest.mark.parametrize(
    ("tool", "document", "shown", "indices"),
    [
        ("amd_smi", {"a": 1}, "expected a JSON list or object of devices under 'gpu_data', found the keys 'a'", []),
        ("amd_smi", [[[]]], "expected an object for each device in '[[]]'", []),
        ("amd_smi", [{"gpu": 0}, {"gpu": 0}], "device 0 a second time in '{\"gpu\": 0}'", [0]),
        ("amd_smi", [{"gpu": 10**22}], "index is 1", []),
        ("amd_smi", [{"gpu": -1}], "index is -1, expected a whole number from 0 to 1023", []),
        ("amd_smi", [{"gpu": 0}, "x" * 900], "expected an object for each device in '\"xxx", [0]),
        ("rocm_smi", {"a": 1}, "expected an object for each device in '{\"a\": 1}'", []),
        ("rocm_smi", {**CARDS, "card0": 1}, "expected an object for each device in '{\"card0\": 1}'", [10]),
        ("rocm_smi", {**CARDS, "card00": {}}, "device 0 a second time", [0, 10]),
        ("rocm_smi", {f"card{10**22}": {}}, "expected a key like card", []),
        ("rocm_smi", {"card1024": {}}, "index is 1024", []),
    ],
)
def test_an_entry_that_does_not_fit_is_shown(machines, tool, document, shown, indices):
    getattr(machines, tool)(document, *([[]] if tool == "amd_smi" else []))
    answer = probe()
    assert tool.replace("_", "-") in answer.problems[0]
    assert shown in answer.problems[0]
    assert len(answer.problems[0]) < 500
    assert [device.index for device in answer.devices] == indices


def test_cpus_beside_the_gpus_are_passed_over(machines):
    machines.amd_smi([*STATIC, {"cpu": 0}], [*METRIC, {"cpu": 0}])
    assert [device.index for device in probe().devices] == [0]


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("mem_usage", {"total_vram": {"value": 196592}, "used_vram": {"value": 196593}}, "memory_used_bytes"),
        ("usage", {"gfx_activity": {"value": 4294967295}}, "utilisation_percent"),
        ("power", {"socket_power": {"value": 65535}}, "power_watts"),
        ("power", {"socket_power": {"value": "1e999"}}, "power_watts"),
        ("temperature", {"hotspot": {"value": 900}}, "temperature_celsius"),
    ],
)
def test_what_cannot_be_is_unknown(machines, part, value, message):
    machines.amd_smi(STATIC, [{**METRIC[0], part: value}])
    (device,) = sample(0)
    assert getattr(device, message) is None


def test_visible_devices(machines, monkeypatch):
    machines.library(*[MI300X] * 4)
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "1,3,2")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "2,1")
    assert [device.index for device in probe().devices] == [2, 3]
    plan = ready(plan_run(Selection("default"), Site(vendor="rocm", devices=2))).plan
    assert (plan.env["ROCR_VISIBLE_DEVICES"], plan.env["HIP_VISIBLE_DEVICES"]) == ("2,3", "0,1")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "")
    assert probe().problems == ("HIP_VISIBLE_DEVICES hides all devices that are shown (4)",)


def test_one_model_is_measured(machines):
    machines.library(MI300X, "AMD Radeon Graphics", MI300X)
    answer = probe()
    assert [device.index for device in answer.devices] == [0, 2]
    assert "devices left out: 1 (AMD Radeon Graphics)" in answer.problems[0]
    assert "HIP_VISIBLE_DEVICES=1" in answer.problems[0]


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("AMD Instinct MI300X", "bf16", 1307.4),
        ("mi325x", "fp16", 1307.4),
        ("Instinct MI350X", "bf16", 2306.9),
        ("Instinct MI355X", "bf16", 2516.6),
        ("AMD Instinct MI250X", "fp16", 191.5),
        ("AMD Instinct MI300X", "tf32", None),
        ("AMD Instinct MI308X", "bf16", None),
        ("AMD Instinct MI250X/MI250", "bf16", None),
    ],
)
def test_peaks_by_whole_names(name, dtype, tflops):
    answer = load_for("rocm", None).ask("llmperf_peak_flops", device_model=name, dtype=dtype)
    assert (None if answer is None else answer.flops_per_second) == (None if tflops is None else tflops * 1e12)
    if tflops is not None:
        rates = load_for("rocm", None).rates(name)
        assert {"bf16", "fp16", "fp32"} <= set(rates.matmul_flops_per_second)
        assert rates.memory_bytes_per_second


def test_a_gpu_is_a_cuda_device_of_torch_and_another_build_of_it_is_refused(played, monkeypatch):
    cuda, version = played.runtime("set_device", "synchronize", "reset_peak_memory_stats"), SimpleNamespace(hip="6.4")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda, version=version, __version__="2.9+rocm"))
    monkeypatch.setitem(sys.modules, "llmperf_rocm.device", None)
    del sys.modules["llmperf_rocm.device"]
    with llmperf_setup_device(played.plan, 3) as device:
        assert (device.places, device.collective_backend) == ({"torch": "cuda:3"}, "nccl")
        played.use(device)
    assert played.calls == [("set_device", 3), ("reset_peak_memory_stats", 3), ("synchronize", 3), ("empty_cache",)]
    version.hip = None
    with pytest.raises(PluginError, match="not built for ROCm"):
        llmperf_setup_device(played.plan, 0)


class TestRocm(VendorContract):
    plugin = "rocm"
