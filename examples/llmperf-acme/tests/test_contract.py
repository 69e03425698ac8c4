"""What llmperf asks of every vendor plugin."""

from llmperf_testing import VendorContract


class TestAcme(VendorContract):
    plugin = "acme"
