"""The `paddle` plugin does what every framework plugin must."""

from __future__ import annotations

from llmperf_testing import FrameworkContract


class TestPaddle(FrameworkContract):
    plugin = "paddle"
    seed = 3
