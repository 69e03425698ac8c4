"""The simulated device. Delete this file with stand_in.py."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from llmperf_acme.plugin import llmperf_peak_flops, llmperf_probe, llmperf_setup_device, llmperf_worker_env


def test_the_stand_in_is_marked_as_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    probe = llmperf_probe()
    assert (probe.simulated, [device.kind for device in probe.devices]) == (True, ["cpu"])
    assert "is not installed" in probe.problems[0]
    assert llmperf_peak_flops(probe.devices[0].model, "fp32") is None
    plan: Any = SimpleNamespace(probe=probe, layout=SimpleNamespace(devices_per_node=1))
    assert llmperf_setup_device(plan, 0).places == {"torch": "cpu"}
    assert list(llmperf_worker_env(plan)) == ["OMP_NUM_THREADS"]
