"""The `rocm` plugin does what every vendor plugin must."""

from llmperf_testing import VendorContract


class TestRocm(VendorContract):
    plugin = "rocm"
