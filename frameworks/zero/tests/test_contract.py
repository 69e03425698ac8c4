"""The `zero` plugin does what every framework plugin must."""

from __future__ import annotations

from llmperf_testing import FrameworkContract


class TestZero(FrameworkContract):
    plugin = "zero"
    seed = 5
