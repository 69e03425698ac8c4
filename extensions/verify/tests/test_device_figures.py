"""Devices of a result against the catalogues of installed vendors."""

import pytest
from llmperf.files.json_files import convert
from llmperf.plugins.own_packages import vendors_with_catalogues
from llmperf.types import Result
from llmperf.types.devices import device_names
from llmperf.validation import vendor_catalogue
from llmperf.validation.check import findings
from llmperf_verify.rules.device_figures import other_owners


@pytest.mark.parametrize(
    ("vendor", "device", "code", "message"),
    [
        ("cpu", "NVIDIA H100 80GB HBM3", "LP608", 'expected a device of cpu, found "NVIDIA H100 80GB HBM3" of nvidia'),
        ("nvidia", "NVIDIA A100-SXM4-40GB", "LP308", "expected 1 (the device cannot be divided), found 0.5"),
    ],
)
def test_a_device_is_of_its_vendor_and_whole_unless_it_is_divisible(example, vendor, device, code, message):
    example["hardware"] |= {"vendor": vendor, "device_model": device}
    result = convert(example, Result, "result")
    assert [found.message for found in findings("result", result) if found.code == code] == [message]


@pytest.mark.parametrize("vendor", vendors_with_catalogues())
def test_a_vendor_owns_every_device_that_its_plugin_publishes(vendor):
    """Also those whose names a plugin would not take from its `peaks.toml`, the only file that is searched."""
    catalogue = vendor_catalogue(vendor)
    names = [name for device, _ in catalogue.devices for name in device_names(device)]
    assert [name for name in names if vendor not in other_owners(name, "cpu")] == []
