"""The `transformers` plugin does what every framework plugin must."""

from llmperf_testing import FrameworkContract


class TestTransformers(FrameworkContract):
    plugin = "transformers"
    seed = 5
