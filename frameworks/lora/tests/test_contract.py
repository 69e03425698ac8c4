"""The `lora` plugin does what every framework plugin must."""

from __future__ import annotations

from llmperf_testing import FrameworkContract


class TestLora(FrameworkContract):
    plugin = "lora"
    seed = 1
