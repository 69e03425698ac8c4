"""Which prices belong to which devices of some results, and which belong to none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from llmperf.reporting.safe_text import printable
from llmperf.types.device_names import device_words, same_device
from llmperf.types.prices import Prices

MOST_NAMED = 5
"""Devices that one line names."""


def matched_prices(prices: Prices, devices: Iterable[str | None], warn: Callable[[str], None] | None) -> Prices:
    """The prices, which other names of a device in a catalogue share, where devices have no price of their own name.

    A part of a name such as `H800` also stands for the only device model without a price that it fits. `warn` is
    called with one line if devices have no price and prices fit no device.
    """
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
    """Whether two names are of one device model: by their spelling, or as names of one entry of a catalogue."""
    return same_device(name, other) or any(
        all(any(same_device(alias, given) for alias in entry) for given in (name, other)) for entry in aliases
    )


def catalogued_names() -> list[list[str]]:
    """The names of each device in the catalogues of the installed vendor plugins; plugins that fail are left out."""
    from llmperf.planning.vendors import catalogues
    from llmperf.types.device_names import device_names

    return [device_names(entry.devices[0]) for _, entry in catalogues(None)[0]]


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
