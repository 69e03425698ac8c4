"""The `paddle` plugin does what every framework plugin must."""

from llmperf_testing import FrameworkContract


class TestPaddle(FrameworkContract):
    plugin = "paddle"
    seed = 3
