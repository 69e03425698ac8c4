"""The `cpu` plugin does what every vendor plugin must."""

import pytest
from llmperf_cpu import peak
from llmperf_testing import VendorContract


class TestCpu(VendorContract):
    plugin = "cpu"

    @pytest.fixture(autouse=True)
    def _measure_nothing(self, monkeypatch, tmp_path):
        """A measurement that takes no time, kept nowhere."""
        best = {"flops_per_second": 1e15, "size": 2048, "core_share": 1.0, "date": "2026-01-01"}
        monkeypatch.setenv("LLMPERF_CACHE_DIR", str(tmp_path))
        monkeypatch.setattr(peak, "_measure", lambda key: {**best, "key": key})
