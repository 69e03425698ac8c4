"""The checks that llmperf has for every vendor plugin."""

from llmperf_testing import VendorContract


class TestAcme(VendorContract):
    plugin = "acme"
