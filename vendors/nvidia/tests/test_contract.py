"""The `nvidia` plugin does what every vendor plugin must."""

from llmperf_testing import VendorContract


class TestNvidia(VendorContract):
    plugin = "nvidia"
