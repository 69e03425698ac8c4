"""Seeing GPUs: through NVML, through nvidia-smi, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from llmperf.plugins import load_for
from llmperf.types import DeviceInfo
from llmperf_nvidia import probe as probing
from llmperf_nvidia import sampler

SMI = """\
#!/bin/sh
case "$1" in
*name*) echo '0, NVIDIA A100-SXM4-40GB, GPU-aaaa, 40960, 535.129.03, 8.0'
        echo '1, Tesla V100-SXM2-16GB, GPU-bbbb, 16384, 535.129.03, 7.0' ;;
*) echo '0, 1000, 40960, 37, 250.5, 61'
   echo '1, 2, 16384, [N/A], [Not Supported], 40' ;;
esac
"""


@pytest.fixture
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python cannot load NVML."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(sampler, "_open", [])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def install_smi(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "nvidia-smi").write_text(text)
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.defpath}")


def ask(hook: str, **arguments: object) -> object:
    return load_for("nvidia", None).ask(hook, **arguments)


def test_no_driver_is_one_line_and_no_device(no_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = ask("llmperf_probe")
    assert found.devices == ()
    (problem,) = found.problems
    assert "nvidia-smi is not installed" in problem
    assert "\n" not in problem
    (sample,) = ask("llmperf_query_memory", devices=(0,))
    assert (sample.memory_used_bytes, sample.power_watts) == (None, None)


def test_broken_smi_is_told(no_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_smi(tmp_path, "#!/bin/sh\necho Failed to talk to the driver\nexit 9\n", monkeypatch)
    assert "Failed to talk to the driver" in ask("llmperf_probe").problems[0]


def test_smi_stands_in_for_nvml(no_nvml: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_smi(tmp_path, SMI, monkeypatch)
    found = ask("llmperf_probe")
    assert [one.model for one in found.devices] == ["NVIDIA A100-SXM4-40GB", "Tesla V100-SXM2-16GB"]
    assert found.devices[0].memory_bytes == 40 * 2**30
    assert found.driver == "535.129.03"
    assert found.offers.precisions == ("fp32", "fp16")  # the older of the two has no bf16
    first, second, missing = ask("llmperf_query_memory", devices=(0, 1, 7))
    assert (first.memory_used_bytes, first.utilisation_percent, first.power_watts) == (1000 * 2**20, 37, 250.5)
    assert (second.utilisation_percent, second.power_watts, second.temperature_celsius) == (None, None, 40)
    assert missing.memory_total_bytes is None


def test_nvml_is_asked_first_and_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def unsupported(handle: object) -> None:
        raise RuntimeError("Not Supported")

    library = SimpleNamespace(
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: calls.append("init"),
        nvmlShutdown=lambda: calls.append("shutdown"),
        nvmlDeviceGetCount=lambda: 1,
        nvmlSystemGetDriverVersion=lambda: "550.1",
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: "NVIDIA H800",
        nvmlDeviceGetUUID=lambda handle: "GPU-cccc",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=5, total=80 * 2**30),
        nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0),
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=99),
        nvmlDeviceGetPowerUsage=unsupported,
        nvmlDeviceGetTemperature=lambda handle, sensor: 70,
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(sampler, "_open", [])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = ask("llmperf_probe")
    assert (found.devices[0].model, found.driver) == ("NVIDIA H800", "550.1")
    assert "flash_attention" in found.offers.features
    calls.clear()
    for _ in range(3):
        (sample,) = ask("llmperf_query_memory", devices=(0,))
    assert (sample.memory_used_bytes, sample.utilisation_percent, sample.power_watts) == (5, 99, None)
    assert calls == ["init"]


DEVICES = tuple(
    DeviceInfo(index=index, model="NVIDIA H200", memory_bytes=None, uuid=f"GPU-{index}{index}") for index in range(4)
)


@pytest.mark.parametrize(
    ("allowed", "indices"),
    [(None, [0, 1, 2, 3]), ("2,0", [2, 0]), ("GPU-1,3", [1, 3]), ("", []), ("1,-1,2", [1]), ("0,9,1", [0])],
)
def test_visible_devices_keep_cuda_rules(allowed: str | None, indices: list[int]) -> None:
    assert [one.index for one in probing.visible(DEVICES, allowed)] == indices


def test_mig_slices_are_refused() -> None:
    with pytest.raises(ValueError, match="expected whole GPUs"):
        probing.visible(DEVICES, "MIG-1234")


def test_plugin_imports_neither_torch_nor_nvml() -> None:
    code = (
        "import sys; from llmperf.plugins import load_for; p = load_for('nvidia', None); p.ask('llmperf_catalogue');"
        " sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'pynvml')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
