"""Which prices belong to which devices of some results, and which belong to none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from llmperf.reporting.cells import printable
from llmperf.types.device_names import device_words, same_device
from llmperf.types.prices import Prices

MOST_NAMED = 5
"""Devices that one line names."""


def matched_prices(prices: Prices, devices: Iterable[str | None], warn: Callable[[str], None] | None) -> Prices:
    """The prices, where a part of a name such as `H800` also stands for the only device without a price that it fits.

    `warn` is called with one line if devices have no price and prices fit no device.
    """
    known = list(dict.fromkeys(device for device in devices if device))
    unpriced = [device for device in known if prices.of(device) is None]
    idle = [name for name in prices.devices if not any(same_device(name, device) for device in known)]
    named, several = dict(prices.devices), []
    for name in idle:
        fits = [device for device in unpriced if set(device_words(name)) <= set(device_words(device))]
        if len(fits) == 1:
            named.setdefault(fits[0], prices.devices[name])
        else:
            several.append(_line(name, fits or unpriced, "which of" if fits else "devices without a price:"))
    prices = replace(prices, devices=named)
    if warn is not None and several and any(prices.of(device) is None for device in known):
        warn(printable(f"{prices.file}: {'; '.join(several[:MOST_NAMED])}", 1000))
    return prices


def _line(name: str, devices: list[str], introduced: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name.casefold(), [device.casefold() for device in devices], n=1, cutoff=0.3)
    nearest = next((device for device in devices if [device.casefold()] == near), None)
    listed = ", ".join(devices[:MOST_NAMED]) + f" and {len(devices) - MOST_NAMED} more" * (len(devices) > MOST_NAMED)
    closest = f" (the closest is {nearest})" if nearest is not None and len(devices) > 1 else ""
    return f"no result has the device {name}; {introduced} {listed}{closest}"
