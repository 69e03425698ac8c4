"""The `zero` plugin does what every framework plugin must."""

from llmperf_testing import FrameworkContract


class TestZero(FrameworkContract):
    plugin = "zero"
    seed = 5
