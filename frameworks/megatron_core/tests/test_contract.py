"""The `megatron_core` plugin does what every framework plugin must."""

from llmperf_testing import FrameworkContract


class TestMegatronCore(FrameworkContract):
    plugin = "megatron_core"
    seed = 5
