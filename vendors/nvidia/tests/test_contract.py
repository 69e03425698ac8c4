"""The `nvidia` plugin does what every vendor plugin must."""

from __future__ import annotations

from llmperf_testing import VendorContract


class TestNvidia(VendorContract):
    plugin = "nvidia"
