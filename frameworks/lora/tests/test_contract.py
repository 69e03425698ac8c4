"""The `lora` plugin does what every framework plugin must."""

from llmperf_testing import FrameworkContract


class TestLora(FrameworkContract):
    plugin = "lora"
    seed = 1
