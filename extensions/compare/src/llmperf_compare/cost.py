"""Time, energy and money of a training, extrapolated from the throughput of a run. Unknown is None, never a guess."""

from __future__ import annotations

import math
from dataclasses import dataclass

TOKENS_PER_PARAMETER = 20
"""Compute-optimal training of a dense model: Hoffmann et al. 2022, arXiv:2203.15556, table 3 (rounded)."""
JOULES_PER_KWH = 3.6e6
TOKEN_UNITS = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
MOST_TOKENS = 10**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a run measured, or a document printed."""

    tokens_per_second_per_device: float | None
    """Of one whole device."""
    devices: float | None
    """Whole devices that trained together."""
    joules_per_token: float | None
    """Of the devices alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Figures of a training of `tokens` tokens at constant rates, on the devices of the run."""

    per_million_tokens: float | None
    """In the currency of the device's price."""
    tokens: float | None
    """Of the whole training."""
    device_hours: float | None
    """Hours x devices."""
    seconds: float | None
    """On as many devices as the run had."""
    money: float | None
    """Device hours x price, in the currency of the device's price."""
    energy_kwh: float | None
    """Of the devices alone."""
    electricity: float | None
    """energy_kwh x price, in the currency of the electricity price."""


def cost_of(
    rates: Rates, *, tokens: float | None, per_device_hour: float | None = None, per_kwh: float | None = None
) -> Cost:
    """The cost of a training of `tokens` tokens, with the prices that are known."""
    speed = rates.tokens_per_second_per_device or None  # at no tokens a second, a training takes for ever
    hours_per_token = None if speed is None else 1 / (3600 * speed)
    hours = product(hours_per_token, tokens)
    joules = product(rates.joules_per_token, tokens)
    energy_kwh = None if joules is None else joules / JOULES_PER_KWH
    return Cost(
        per_million_tokens=product(hours_per_token, per_device_hour, 1e6),
        tokens=tokens,
        device_hours=hours,
        seconds=3600 * hours / rates.devices if hours is not None and rates.devices else None,
        money=product(hours, per_device_hour),
        energy_kwh=energy_kwh,
        electricity=product(energy_kwh, per_kwh),
    )


def token_count(text: str) -> int | None:
    """The number of tokens in a text such as `300B`, `1.4T` or `2e12`; None unless it is from 1 to 10^16."""
    text = text.strip().replace("_", "")
    unit = TOKEN_UNITS.get(text[-1:].upper(), 1)
    try:
        count = float(text[:-1] if unit > 1 else text) * unit
    except ValueError:
        count = math.nan
    return round(count) if 1 <= count <= MOST_TOKENS else None


def token_text(count: float) -> str:
    """`134.8B`: a number of tokens with four digits, as `token_count` reads it."""
    unit, size = next(((unit, size) for unit, size in reversed(TOKEN_UNITS.items()) if count >= size), ("", 1))
    return f"{count / size:.4g}{unit}"


def compute_optimal_tokens(parameters: int) -> int:
    """Tokens for a dense model of so many parameters: 20 a parameter, after Hoffmann et al. 2022."""
    return TOKENS_PER_PARAMETER * parameters


def product(*factors: float | None) -> float | None:
    """The product; None if a factor is unknown."""
    result = 1.0
    for factor in factors:
        if factor is None:
            return None
        result *= factor
    return result
