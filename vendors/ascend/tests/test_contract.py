"""The `ascend` plugin does what every vendor plugin must."""

from __future__ import annotations

from llmperf_testing import VendorContract


class TestAscend(VendorContract):
    plugin = "ascend"
