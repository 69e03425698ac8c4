"""The `kunlunxin` plugin does what every vendor plugin must."""

from __future__ import annotations

from llmperf.testing import VendorContract


class TestKunlunxin(VendorContract):
    plugin = "kunlunxin"
