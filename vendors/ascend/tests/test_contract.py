"""The `ascend` plugin does what every vendor plugin must."""

from llmperf_testing import VendorContract


class TestAscend(VendorContract):
    plugin = "ascend"
