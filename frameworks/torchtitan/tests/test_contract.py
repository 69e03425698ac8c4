"""The `torchtitan` plugin does what every framework plugin must."""

from llmperf_testing import FrameworkContract


class TestTorchtitan(FrameworkContract):
    plugin = "torchtitan"
    seed = 5
