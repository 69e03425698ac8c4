"""The `megatron_deepspeed` plugin does what every framework plugin must."""

from llmperf_testing import FrameworkContract


class TestMegatronDeepspeed(FrameworkContract):
    plugin = "megatron_deepspeed"
    seed = 2
