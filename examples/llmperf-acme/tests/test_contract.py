"""What llmperf asks of every vendor plugin."""

from llmperf.testing import VendorContract


class TestAcme(VendorContract):
    plugin = "acme"
