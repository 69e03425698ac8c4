"""The `rocm` plugin does what every vendor plugin must."""

from __future__ import annotations

from llmperf.testing import VendorContract


class TestRocm(VendorContract):
    plugin = "rocm"
