"""The prices that a report uses: those of `--prices FILE`, otherwise those of the user's own `llmperf.toml`.

A `llmperf.toml` in the working directory or above it may have come with a submission, so its prices are not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from llmperf.cases.fields import check_table
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.files.json_files import read_bytes
from llmperf.files.user_files import config_file, own_config_file, read_toml
from llmperf.planning.user_config import NAME, configuration
from llmperf.types.prices import DevicePrice, ElectricityPrice, Prices

_CURRENCY = re.compile("[A-Z]{3}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTables:
    """What a file of prices holds."""

    prices: Mapping[str, DevicePrice] = field(default_factory=dict)
    """By the model of the device, as results name it."""
    electricity: ElectricityPrice | None = None
    """Of a kilowatt hour."""


def price_file(path: Path) -> Prices:
    """The prices in a file; UserError for an unknown key, for a value of the wrong type and for a file without any."""
    content = read_toml(path)
    check_table(content, PriceTables, str(path))
    tables = json_files.convert(content, PriceTables, str(path))
    prices = _checked(Prices(devices=tables.prices, electricity=tables.electricity, file=str(path)))
    if prices is None:
        raise UserError(f'{path}: expected a table [prices."DEVICE MODEL"] or [electricity], found none')
    return prices


def own_prices() -> Prices | None:
    """The prices of `llmperf.toml` in `$XDG_CONFIG_HOME/llmperf` or `~/.config/llmperf`; None if there are none.

    UserError as from `user_config`.
    """
    path = own_config_file(NAME)
    if path is None:
        return None
    tables = configuration(path).tables
    return _checked(Prices(devices=tables.prices, electricity=tables.electricity, file=str(path)))


def unused_prices(folder: Path) -> Path | None:
    """A `llmperf.toml` in `folder` or above it whose prices are not used; None if there is none with prices."""
    path = config_file(NAME, folder)
    if path is None or path == own_config_file(NAME):
        return None
    try:
        return path if b"prices" in read_bytes(path) else None
    except UserError:
        return None


def _checked(prices: Prices) -> Prices | None:
    """The prices; None if there are none. UserError for a currency or a source that says nothing."""
    named: dict[str, DevicePrice | ElectricityPrice] = {f"prices.{name}": of for name, of in prices.devices.items()}
    if prices.electricity is not None:
        named["electricity"] = prices.electricity
    for name, price in named.items():
        if not _CURRENCY.fullmatch(price.currency):
            found = repr(price.currency)
            raise UserError(
                f"{prices.file}: {name}.currency: expected three capital letters such as USD, found {found}"
            )
        if not price.source.strip():
            raise UserError(f"{prices.file}: {name}.source: expected where the price is from, found an empty text")
    return prices if named else None
