"""Prices, as the tables of `llmperf.toml` or of a file of prices give them: each with its date and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date as Date

from llmperf.types.device_names import device_words, same_device
from llmperf.types.units import NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePrice:
    """`[prices."DEVICE MODEL"]`: what one whole device costs."""

    per_hour: NonNegative
    """Of one device, in `currency`."""
    currency: str
    """ISO 4217, such as `USD`."""
    date: Date
    """When the price held."""
    source: str
    """Where it is published, or who offered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectricityPrice:
    """`[electricity]`: what a kilowatt hour costs."""

    per_kwh: NonNegative
    """In `currency`."""
    currency: str
    """ISO 4217, such as `USD`."""
    date: Date
    """When the price held."""
    source: str
    """Where it is published, or who offered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The prices of one file."""

    devices: Mapping[str, DevicePrice] = field(default_factory=dict)
    """By the model of the device, as results name it."""
    electricity: ElectricityPrice | None = None
    """None where the file has none."""
    file: str
    """The file that they are from."""

    def of(self, device: str | None) -> DevicePrice | None:
        """The price of a device model, by `same_device`; None if there is none."""
        spelt = next((name for name in self.devices if device_words(name) == device_words(device or "")), None)
        name = spelt or next((name for name in self.devices if same_device(name, device or "")), None)
        return None if name is None else self.devices[name]
