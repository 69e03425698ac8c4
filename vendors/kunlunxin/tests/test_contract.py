"""The `kunlunxin` plugin does what every vendor plugin must."""

from llmperf_testing import VendorContract


class TestKunlunxin(VendorContract):
    plugin = "kunlunxin"
