"""Time, energy and money of a training, extrapolated from the throughput of a run, with what each figure assumes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from llmperf import count_parameters, library
from llmperf.errors import UserError
from llmperf.reporting import AMOUNT, Column, money, printable, rounded, sheet_values, shown, value_text, word
from llmperf.types import Model, Result, Row, Section, Sheet, Text

from llmperf_compare.prices import (
    DevicePrice,
    ElectricityPrice,
    Prices,
    matched_prices,
    own_prices,
    price_file,
    unused_prices,
)

TOKENS_PER_PARAMETER = 20
"""Compute-optimal training of a dense model: Hoffmann et al. 2022, arXiv:2203.15556, table 3 (rounded)."""
JOULES_PER_KWH = 3.6e6
TOKEN_UNITS = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
MOST_TOKENS = 10**16
Value = str | int | float | bool | None

ASSUMES = (
    "every step as fast as the measured ones; no failures, restarts, evaluation or checkpoints; no storage, network or"
    " idle devices are paid"
)
ASSUMED = "assumed for the cost"
AS_ASKED = "as asked for (--train-tokens)"
ENERGY_ASSUMES = "the devices alone, without their hosts and cooling"
DAYS = replace(AMOUNT, divisor=86400)
COST_COLUMNS = {
    "cost_per_million_tokens": Column(title="cost per million tokens", importance=5, wraps=10, right=True),
    "train_device_hours": Column(title="training, device hours", importance=7, wraps=10, right=True),
    "train_seconds": Column(title="training, days", importance=7, wraps=10, right=True),
    "train_cost": Column(title="cost of a training", importance=5, wraps=10, right=True),
}
"""Columns of a table of many runs: the first where devices have prices, those of a training for a number of tokens that
was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates of a run or of a printed row."""

    tokens_per_second_per_device: float | None
    """Throughput of one whole device."""
    devices: float | None
    """Whole devices that trained together."""
    joules_per_token: float | None
    """Energy of the devices alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Figures of a training of `tokens` tokens at constant rates, on the devices of the run."""

    per_million_tokens: float | None
    """In the currency of the device's price."""
    tokens: float | None
    """Tokens of the whole training."""
    device_hours: float | None
    """Hours x devices."""
    seconds: float | None
    """On as many devices as the run had."""
    money: float | None
    """Device hours x price, in the currency of the device's price."""
    energy_kwh: float | None
    """Energy of the devices alone."""
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


def product(*factors: float | None) -> float | None:
    """The product; None if a factor is unknown."""
    result = 1.0
    for factor in factors:
        if factor is None:
            return None
        result *= factor
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Costing:
    """Inputs of costs."""

    prices: Prices | None = None
    """None: no figure in money is known."""
    train_tokens: int | None = None
    """Tokens of a whole training; None: 20 a parameter for dense models that are trained from scratch."""


def costing_for(prices: Path | None, train_tokens: int | str | None, warn: Callable[[str], None]) -> Costing | None:
    """Inputs of costs; None if no price is known and no number of tokens was asked for.

    Without a file of `prices`, those of the user's own configuration count, never of a `llmperf.toml` in the working
    directory, which may have come with the results. `train_tokens` is a number or a text such as `1.4T`.
    """
    count = token_count(train_tokens) if isinstance(train_tokens, str) else train_tokens
    if count is None and train_tokens is not None:
        expected = "expected a number of tokens such as 300B, 1.4T or 2e12"
        raise UserError(f"--train-tokens: {expected}, found {train_tokens!r}")
    known = own_prices() if prices is None else price_file(prices)
    try:
        unused = unused_prices(Path.cwd()) if prices is None else None
    except FileNotFoundError:  # refused when the results are read
        unused = None
    if unused is not None:
        warn(f"{unused}: its prices are not used, because the file may have come with results; use --prices {unused}")
    if known is None and count is None:
        return None
    return Costing(prices=known, train_tokens=count)


def used_prices(prices: Prices) -> str:
    """`prices: prices.toml, 2026-11-01`: the file, and the dates of its prices from the oldest to the newest."""
    dates = sorted({price.date for price in (*prices.devices.values(), prices.electricity) if price is not None})
    ends = [dates[0], *dates[-1:]] if len(dates) > 1 else dates
    return f"prices: {printable(prices.file)}, {' to '.join(date.isoformat() for date in ends)}"


def with_cost(sheets: Iterable[Sheet], costing: Costing, warn: Callable[[str], None] | None = None) -> list[Sheet]:
    """The sheets with a section on cost and, where devices have a price, its column in a table of many."""
    sheets = list(sheets)
    values = [sheet_values(sheet) for sheet in sheets]
    if costing.prices is not None:
        devices = (str(known.get("device_model") or "") for known in values)
        costing = replace(costing, prices=matched_prices(costing.prices, devices, warn))
    costs = [tuple(cost_rows(sheet, costing)) for sheet in sheets]
    return [
        with_rows(sheet, in_table(rows, costing), "cost", "Cost of a training", rows)
        for sheet, rows in zip(sheets, costs, strict=True)
    ]


def in_table(rows: Iterable[Row], costing: Costing) -> Iterator[Row]:
    """Those rows of a cost that a table of many has: money with prices, and of a training that was asked for."""
    named = {row.key: row for row in rows}
    priced = costing.prices is not None and costing.prices.devices
    for key, column in COST_COLUMNS.items():
        if key in named and (priced if key == "cost_per_million_tokens" else costing.train_tokens is not None):
            row = replace(named[key], column=column)
            yield replace(row, text=None, rounding=DAYS) if row.unit == "s" else row


def with_rows(sheet: Sheet, in_table: Iterable[Row], key: str, title: str, rows: tuple[Row, ...]) -> Sheet:
    """The sheet with further cells in a table of many, and a further section both on its card and in its document."""

    def sections() -> Iterator[Section]:
        yield from sheet.sections()
        yield from (Section(key=key, title=title, rows=rows, card=card) for card in (True, False))

    return replace(sheet, overview=(*sheet.overview, *in_table), sections=sections)


def price_lines(devices: Iterable[str], costing: Costing, language: str = "en") -> Iterator[str]:
    """The price of each device model, with its date and source, or that there is none; what costs assume."""
    prices, tokens = costing.prices, costing.train_tokens
    if prices is not None:
        for device in dict.fromkeys(devices):
            yield f"{device}: {value_text(_price_row(prices.of(device), prices, device), language)}"
    if tokens is not None:
        asked = word(Text("{}: {}", token_text(tokens), Text(AS_ASKED)), language)
        yield f"{word('tokens of a training', language)}: {asked}"
    yield f"{word(ASSUMED, language)}: {word(ASSUMES, language)}"


def cost_rows(sheet: Sheet, costing: Costing) -> Iterator[Row]:
    """The cost of one run, with what it assumes."""
    values = sheet_values(sheet)
    device, name = values.get("device_model"), values.get("model")
    document, shelf = sheet.source.document, library()
    model = document.model if isinstance(document, Result) else None
    if model is None and name in shelf.paths("models"):
        model = shelf.model(str(name))
    adapters = shown(sheet.cell("model")).endswith("LoRA")
    device = None if device is None else str(device)
    yield from training_rows(rates_of(values), costing, device=device, model=model, adapters=adapters)


def training_rows(
    rates: Rates, costing: Costing, *, device: str | None, model: Model | None, adapters: bool
) -> Iterator[Row]:
    """The cost of a training at some rates, with what it assumes; `adapters`: only these are trained."""
    price = None if costing.prices is None else costing.prices.of(device)
    electricity = None if costing.prices is None else costing.prices.electricity
    tokens, source = _tokens(model, adapters, costing.train_tokens)
    cost = cost_of(
        rates,
        tokens=tokens,
        per_device_hour=None if price is None else price.per_hour,
        per_kwh=None if electricity is None else electricity.per_kwh,
    )
    if costing.prices is not None:
        yield _price_row(price, costing.prices, device or "an unknown device")
        yield _money("cost_per_million_tokens", "cost per million tokens", cost.per_million_tokens, price)
    parts = (
        Row(key="train_tokens", label="tokens of a training", value=tokens),
        Row(key="train_tokens_source", label="tokens of a training", value=source, own_words=True),
    )
    amount = Text("unknown") if tokens is None else token_text(tokens)
    text = Text("{}: {}", amount, source)
    yield Row(key="train", label="tokens of a training", value=None, text=text, parts=parts, own_words=True)
    yield Row(key="train_device_hours", label="device hours of a training", value=cost.device_hours, unit="h",
              rounding=AMOUNT)  # fmt: skip
    took = None
    if cost.seconds is not None and rates.devices is not None:
        many = "{} on {:g} device" if rates.devices == 1 else "{} on {:g} devices"
        took = Text(many, duration(cost.seconds), rates.devices)
    yield Row(key="train_seconds", label="time of a training", value=cost.seconds, unit="s", text=took, own_words=True)
    if price is not None:
        yield _money("train_cost", "cost of a training", cost.money, price)
    if cost.energy_kwh is not None:
        text = Text("{}: {}", rounded(cost.energy_kwh, AMOUNT), Text(ENERGY_ASSUMES))
        yield Row(key="train_energy_kwh", label="energy of a training, kWh", value=cost.energy_kwh, unit="kWh",
                  text=text, own_words=True)  # fmt: skip
    if electricity is not None and costing.prices is not None:
        yield _price_row(electricity, costing.prices, "")
        yield _money("train_electricity_cost", "electricity of a training", cost.electricity, electricity)
    yield Row(key="cost_assumes", label=ASSUMED, value=ASSUMES, own_words=True)


def _price_row(price: DevicePrice | ElectricityPrice | None, prices: Prices, device: str) -> Row:
    """The price with its date, source and file; for devices without one, that there is none."""
    key, label = ("price", "price of a device") if device else ("electricity_price", "price of electricity")
    amount: float | None = None
    text = Text("unknown: {} has no price of {}", prices.file, device)
    if price is not None:
        hourly, electric = "{:g} {} an hour: {}, {}, from {}", "{:g} {} a kWh: {}, {}, from {}"
        amount, per = (price.per_hour, hourly) if isinstance(price, DevicePrice) else (price.per_kwh, electric)
        text = Text(per, amount, price.currency, price.source, price.date, prices.file)
    details = (None, None, None) if price is None else (price.currency, price.date.isoformat(), price.source)
    named = zip(("currency", "date", "source", "file"), (*details, prices.file), strict=True)
    parts = (
        Row(key=key, label=label, value=amount),
        *(Row(key=f"{key}_{name}", label=label, value=value) for name, value in named),
    )
    return Row(key=key, label=label, value=amount, text=text, parts=parts, own_words=True)


def _money(key: str, label: str, amount: float | None, price: DevicePrice | ElectricityPrice | None) -> Row:
    currency = "" if price is None else price.currency
    text = None if amount is None else money(amount, currency)
    return Row(key=key, label=label, value=amount, unit=currency, rounding=AMOUNT, text=text)


def rates_of(values: Mapping[str, Value]) -> Rates:
    """The rates among the exact values of a sheet (`sheet_values`)."""
    share = _number(values, "device_share")
    return Rates(
        tokens_per_second_per_device=_number(values, "tokens_per_second_per_whole_device")
        or (None if share else _number(values, "tokens_per_second_per_device")),  # imported: of whole devices
        devices=product(_number(values, "nodes"), _number(values, "devices_per_node"), share or 1.0),
        joules_per_token=_number(values, "joules_per_token"),
    )


def _tokens(model: Model | None, adapters: bool, asked: int | None) -> tuple[float | None, str]:
    """Tokens of a whole training, and why so many, or why they are unknown."""
    if asked is not None:
        return asked, Text(AS_ASKED)
    if model is None:
        return None, Text("the model is not in the library; use --train-tokens")
    if model.mixture is not None or adapters:
        return None, Text("20 tokens a parameter holds for dense models trained from scratch; use --train-tokens")
    parameters = count_parameters(model).total
    source = Text("{} for each parameter (Hoffmann et al. 2022)", TOKENS_PER_PARAMETER)
    return TOKENS_PER_PARAMETER * parameters, source


def _number(values: Mapping[str, Value], key: str) -> float | None:
    value = values.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def duration(seconds: float) -> str:
    """`41.3 days`, `5.1 hours`, `3.2 years`: three digits of the unit that fits."""
    units = {"years": 365.25 * 86400, "days": 86400.0, "hours": 3600.0, "minutes": 60.0}
    name = next((name for name, size in units.items() if seconds >= 2 * size), "seconds")
    return Text(f"{{}} {name}", f"{float(f'{seconds / units.get(name, 1.0):.3g}'):,g}")
