"""LP608 finds the owner of a device without importing the vendors that do not publish its name."""

import pytest
from llmperf.plugins.own_packages import vendors_with_catalogues
from llmperf.types.devices import device_names
from llmperf.validation.plugin_data import other_owners, vendor_catalogue


@pytest.mark.parametrize("vendor", vendors_with_catalogues())
def test_a_vendor_owns_every_device_that_its_plugin_publishes(vendor):
    """Also those whose names a plugin would not take from its `peaks.toml`, the only file that is searched."""
    catalogue = vendor_catalogue(vendor)
    assert catalogue is not None
    names = [name for device, _ in catalogue.devices for name in device_names(device)]
    assert [name for name in names if vendor not in other_owners(name, "cpu")] == []
