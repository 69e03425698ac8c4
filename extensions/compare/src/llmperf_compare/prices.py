"""Prices of devices and electricity, from `--prices FILE` or the user's own `llmperf.toml`, no other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date as Date
from pathlib import Path

from llmperf import catalogued_names, config_file, own_config, read_bytes, read_options, read_toml
from llmperf.errors import UserError
from llmperf.reporting import printable
from llmperf.types.units import NonNegative

NAME = "llmperf.toml"
MOST_NAMED = 5
"""Devices that one line names."""

_BETWEEN = re.compile(r"[\s_-]+|(?<=[^\x00-\x7f])(?=[a-z0-9])|(?<=[a-z])(?=[^\x00-\x7f])")
"""Between two words; the scripts of `昆仑芯AI加速卡R300` are words of their own."""


def device_words(name: str) -> tuple[str, ...]:
    """The words of a name, in small letters; `_` and `-` separate words, as spaces do."""
    return tuple(_BETWEEN.split(name.strip().casefold()))


def same_device(name: str, other: str) -> bool:
    """Check whether two names are equal but for spelling and a vendor's name: `昆仑芯AI加速卡R300` is `R300`."""
    first, second = sorted((device_words(name), device_words(other)), key=len)
    before = second[: len(second) - len(first)]
    one_name = len(before) <= 1 or not all(map(str.isascii, before))
    named = all(map(str.isalpha, before)) and any(char.isdigit() for word in first for char in word)
    return first == second[len(before) :] and (not before or (one_name and named))


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What prices have in common."""

    currency: str
    """ISO 4217, such as `USD`."""
    date: Date
    """When the price held."""
    source: str
    """Where it is published, or who offered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePrice(Price):
    """`[prices."DEVICE MODEL"]`: what one whole device costs."""

    per_hour: NonNegative
    """Price of one device for an hour, in `currency`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectricityPrice(Price):
    """`[electricity]`: what a kilowatt hour costs."""

    per_kwh: NonNegative
    """In `currency`."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTables:
    """Contents of a file of prices."""

    prices: Mapping[str, DevicePrice] = field(default_factory=dict)
    """By the model of the device, as results name it."""
    electricity: ElectricityPrice | None = None
    """Price of a kilowatt hour."""


def price_file(path: Path) -> Prices:
    """The prices in a file; UserError for an unknown key, for a value of the wrong type and for a file without any."""
    prices = _checked(read_toml(path), path)
    if prices is None:
        raise UserError(f'{path}: expected a table [prices."DEVICE MODEL"] or [electricity], found none')
    return prices


def own_prices() -> Prices | None:
    """The prices of the user's own `llmperf.toml`; None if there are none."""
    config = own_config()
    tables = {"prices": config.tables.prices, "electricity": config.tables.electricity}
    return (
        None if config.path is None else _checked({key: known for key, known in tables.items() if known}, config.path)
    )


def unused_prices(folder: Path) -> Path | None:
    """A `llmperf.toml` in `folder` or above it whose prices are not used; None if there is none with prices."""
    path = config_file(NAME, folder)
    if path is None or path == own_config().path:
        return None
    try:
        return path if b"prices" in read_bytes(path) else None
    except UserError:
        return None


def _checked(content: Mapping[str, object], path: Path) -> Prices | None:
    """The prices; None if there are none. UserError also for a currency or a source that says nothing."""
    tables = read_options(content, PriceTables, str(path))
    named: dict[str, Price] = {f"prices.{name}": of for name, of in tables.prices.items()}
    if tables.electricity is not None:
        named["electricity"] = tables.electricity
    for name, price in named.items():
        if not re.fullmatch("[A-Z]{3}", price.currency):
            found = repr(price.currency)
            raise UserError(f"{path}: {name}.currency: expected three capital letters such as USD, found {found}")
        if not price.source.strip():
            raise UserError(f"{path}: {name}.source: expected where the price is from, found an empty text")
    return Prices(devices=tables.prices, electricity=tables.electricity, file=str(path)) if named else None


def matched_prices(prices: Prices, devices: Iterable[str | None], warn: Callable[[str], None] | None) -> Prices:
    """The prices of devices by any name; a part of a name stands for the only model without a price that it fits."""
    known = list(dict.fromkeys(device for device in devices if device))
    if all(prices.of(device) is not None for device in known):
        return prices
    aliases = catalogued_names()
    named = dict(prices.devices)
    used = {name for name in prices.devices for device in known if same_device(name, device)}
    for device in known:
        own = [name for name in prices.devices if prices.of(device) is None and one_model(name, device, aliases)]
        if len(own) == 1:
            named[device] = prices.devices[own[0]]
            used.update(own)
    unpriced = [device for device in known if replace(prices, devices=named).of(device) is None]
    for name in (name for name in prices.devices if name not in used):
        fits = [device for device in unpriced if set(device_words(name)) <= set(device_words(device))]
        if fits and all(one_model(fits[0], device, aliases) for device in fits):
            named.update((device, prices.devices[name]) for device in fits if device not in named)
            used.add(name)
    prices, idle = replace(prices, devices=named), [name for name in prices.devices if name not in used]
    unpriced = [device for device in unpriced if prices.of(device) is None]
    if warn is not None and idle and unpriced:
        warn(printable(f"{prices.file}: {'; '.join(_lines(idle, unpriced))}", 1000))
    return prices


def one_model(name: str, other: str, aliases: Iterable[Sequence[str]]) -> bool:
    """Check whether two names are of one device model: by their spelling, or as names of one entry of a catalogue."""
    return same_device(name, other) or any(
        all(any(same_device(alias, given) for alias in entry) for given in (name, other)) for entry in aliases
    )


def _lines(idle: Sequence[str], unpriced: Sequence[str]) -> Iterator[str]:
    """That prices belong to no device, for each name that may be a device's, and once for all others."""
    from difflib import get_close_matches

    others, folded = [], {device.casefold(): device for device in unpriced}
    for name in idle:
        fits = [device for device in unpriced if set(device_words(name)) <= set(device_words(device))]
        if fits:
            yield f"no result has the device {name}; which of {_listed(fits)}"
        else:
            others.append(name)
    if others:
        pairs = [(name, get_close_matches(name.casefold(), folded, n=1, cutoff=0.8)) for name in others]
        close = ", ".join(f"{folded[near[0]]} is close to {name}" for name, near in pairs if near)
        line = f"no result has the device {_listed(others, ' or ')}; devices without a price: {_listed(unpriced)}"
        yield f"{line} ({close})" if close else line


def _listed(names: Sequence[str], between: str = ", ") -> str:
    return between.join(names[:MOST_NAMED]) + f" and {len(names) - MOST_NAMED} more" * (len(names) > MOST_NAMED)
