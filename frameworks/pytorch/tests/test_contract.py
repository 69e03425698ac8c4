"""The `pytorch` plugin does what every framework plugin must."""

from llmperf_testing import FrameworkContract


class TestPytorch(FrameworkContract):
    plugin = "pytorch"
    seed = 4
