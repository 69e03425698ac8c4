"""Ranked bars: for each model and contract a table of entries, with a bar beside each figure, as HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from math import isfinite

from llmperf.reporting import (
    THROUGHPUT,
    UNKNOWN,
    printable,
    rounded,
    sheet_values,
    shown,
    value_text,
    word,
)
from llmperf.types import Rounding, Sheet
from llmperf_compare.ranking import Entry, Standing

from llmperf_html.columns import COLUMNS, PageColumn

SHOWN = 10
"""Entries of a contract that have bars at first; more are folded."""
MAX_ENTRIES = 100
"""Entries of a contract that have bars; the table of runs has all."""
FEW = 3
"""Figures that leave the device enough room at a fifth of the width each."""
MAX_STANDINGS = 60
"""Contracts with bars; the table of runs has all."""
IDENTITY = ("precision", "seq_len", "global_batch", "dataset")
"""Parts of a contract that its heading always names."""
LOOKS = "Pale bars are not verified, dotted bars are estimated, bars with a dashed edge are disturbed or computed."
HOW_TO_READ = "How to read the bars"
RANKS = "token/p/s: tokens per second of one rank, which has a whole device unless the row says otherwise."
"""Unit of the throughput."""


METRICS = sorted((column for column in COLUMNS if column.bar), key=lambda column: column.bar)
"""Figures with bars, by their keys in `Entry.figures`."""
BEYOND = "longer than its bar"
"""Label of a figure above all others of an entry with errors; the other bars keep their scale."""
VERDICTS = {
    "valid": "valid",
    "warnings": "valid, with warnings",
    "errors": "errors",
    "unchecked": "not checked",
    "failed": "failed",
}
IMPORTED_VERDICTS = {"valid": "figures agree", "errors": "figures disagree", "unchecked": "not checked"}
"""Labels of rows that llmperf did not measure."""
VERDICT_LEGEND = (
    'Of an imported row, "figures agree" means only that the MFU that it prints follows from the throughput that it'
    " prints: llmperf did not measure it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Where bars lead to; an empty address makes no link."""

    entry: Callable[[Entry], str]
    """Address of the page of an entry."""
    comparison: Callable[[Standing], str]
    """Address of a comparison of the entries of a contract."""


def standings_html(standings: Sequence[Standing], links: Links, language: str) -> str:
    """The bars of all standings."""
    differing = differing_parts(standings)
    parts = [standing_html(standing, place, differing[standing.model], links, language)
             for place, standing in enumerate(standings[:MAX_STANDINGS])]  # fmt: skip
    if len(standings) > MAX_STANDINGS:
        text = word("{count} more contracts have no bars here: the table has all runs.", language)
        parts.append(f'<p class="note">{escape(text.format(count=len(standings) - MAX_STANDINGS))}</p>')
    return "\n".join(parts)


def contract_text(standing: Standing, differing: Sequence[str], language: str) -> str:
    """Text that distinguishes a contract from others of its model: `precision bf16, seq_len 4096, global_batch 64`."""
    paths = dict.fromkeys(path for path in (*IDENTITY, *differing[:4]) if path in standing.contract)
    return ", ".join(f"{word(path, language)} {standing.contract[path]}" for path in paths)


def differing_parts(standings: Sequence[Standing]) -> dict[str, list[str]]:
    """For each model the paths in which its contracts differ."""
    contracts: dict[str, list[Mapping[str, str]]] = {}
    for standing in standings:
        contracts.setdefault(standing.model, []).append(standing.contract)
    return {
        model: [
            path
            for path in dict.fromkeys(path for contract in rivals for path in contract)
            if not path.startswith("model") and len({contract.get(path) for contract in rivals}) > 1
        ]
        for model, rivals in contracts.items()
    }


def arranged(standings: Sequence[Standing]) -> list[Standing]:
    """Models on accelerators before those on CPUs alone; of each group, models with the most devices first."""
    hosts: dict[str, set[bool]] = {}
    devices: dict[str, set[str]] = {}
    for standing in standings:
        for entry in standing.entries:
            hosts.setdefault(standing.model, set()).add(sheet_values(entry.sheets[0]).get("vendor") == "cpu")
            devices.setdefault(standing.model, set()).add(entry.device)
    return sorted(standings, key=lambda standing: (False not in hosts[standing.model], -len(devices[standing.model])))


def standing_html(
    standing: Standing, place: int, differing: Sequence[str], links: Links, language: str,
    chosen: Sequence[tuple[int, Entry]] | None = None, level: int = 3,
) -> str:  # fmt: skip
    """The table of one contract: all entries, or those of `chosen` with their ranks, below a heading of `level`."""
    ranked = list(enumerate(standing.entries[:MAX_ENTRIES], 1)) if chosen is None else chosen
    entries = [entry for _, entry in ranked]
    metrics = [
        metric for metric in METRICS if any(metric.key in entry.figures for entry in entries)
        and not (metric.key.startswith("train_") and "LoRA" in standing.model)  # nobody pretrains with adapters
    ]  # fmt: skip
    most = largest(standing.entries, metrics) if len(standing.entries) > 1 else {}
    rows = [_row(entry, rank if most else 0, metrics, most, links.entry, language) for rank, entry in ranked]
    heads = ""
    for metric in metrics:
        order = ' data-order="ascending"' if metric.less_is_better else ""
        button = f'<button type="button" class="sort"{order}>{_text(metric.title, language)}</button>'
        sorted_by = "" if heads else ' aria-sort="descending"'
        heads += f'<th scope="col" class="figure" data-metric="{metric.key}"{sorted_by}>{button}</th>'
    names = (word("place", language), "device, framework, layout", None, "validation", "verified")
    titles = [heads if name is None else f'<th scope="col">{_text(name, language)}</th>' for name in names]
    heading = f'<h{level} id="standing-{place}">{escape(standing.model)} '
    heading += f'<span class="contract">{escape(contract_text(standing, differing, language))}</span></h{level}>'
    many = f" many figures-{len(metrics)}" if len(metrics) > FEW else ""
    comparison, more = links.comparison(standing), ""
    if comparison:
        more = f'<a class="compare" href="{escape(comparison)}">{_text("compare these", language)}</a> '
    if len(rows) > SHOWN:
        count = word("show all {count}", language).format(count=len(rows))
        more += f'<button type="button" class="more" aria-expanded="false">{escape(count)}</button>'
    if chosen is None and len(standing.entries) > MAX_ENTRIES:
        text = word("{count} slower entries have no bars here: the table has all runs.", language)
        more += f'<p class="note">{escape(text.format(count=len(standing.entries) - MAX_ENTRIES))}</p>'
    return (
        f'<section class="standing" data-model="{escape(standing.model)}" aria-labelledby="standing-{place}">{heading}'
        f'<div class="wide"><table class="bars{many}"><thead><tr>{"".join(titles)}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}{_contract(standing.contract, language)}</section>"
    )


def _contract(contract: Mapping[str, str], language: str) -> str:
    rows = "".join(f'<tr><th scope="row">{escape(path)}</th><td>{escape(text)}</td></tr>'
                   for path, text in contract.items() if not path.startswith("model."))  # fmt: skip
    return (
        f'<details class="fold"><summary>{_text("the whole contract", language)}</summary>'
        f'<table class="data"><tbody>{rows}</tbody></table></details>'
    )


def _row(
    entry: Entry,
    rank: int,
    metrics: Sequence[PageColumn],
    most: Mapping[tuple[str, str], float],
    href_of: Callable[[Entry], str],
    language: str,
) -> str:
    figures = "".join(_figure(entry, metric, most, language) for metric in metrics)
    title = "" if entry.measured else f' title="{_text(VERDICT_LEGEND, language)}"'
    verdict = f'<span class="verdict {_look(entry)}"{title}>{escape(verdict_text(entry, language))}</span>'
    href, name = href_of(entry), escape(entry.device)
    link = f'<a href="{escape(href)}">{name}</a>' if href else name
    more = ' class="further"' if rank > SHOWN else ""
    first = entry.sheets[0]
    values = sheet_values(first)
    facets = {name: str(values.get(name) or UNKNOWN) for name in ("vendor", "precision")}
    facets["device"] = str(values.get("device_model") or entry.device.split(" ", 1)[-1])
    data = "".join(f' data-{name}="{escape(printable(text))}"' for name, text in facets.items())
    signatures = {signature_text(sheet, language) for sheet in entry.sheets} - {""}
    signed = "".join(f"<small>{escape(text)}</small>" for text in sorted(signatures))
    levels = escape(word(entry.levels or ("not rerun" if entry.measured else UNKNOWN), language))
    how = escape(" ".join(part for part in (entry.framework, word(entry.layout, language)) if part != "-") or "-")
    if changes := changes_text(entry):
        how += f'<span class="joint"> · </span><span class="changes">{escape(changes)}</span>'
    origin = str(first.cell("provenance").value or "imported")
    badge = "" if entry.measured else f'<span class="badge">{_text(origin, language)}</span>'
    return (
        f'<tr{more}{data} data-verification="{levels}">'
        f'<td class="rank">{"" if not rank else rank if isfinite(entry.speed) else UNKNOWN}</td>'
        f'<th scope="row">{link}{badge}<span class="how">'
        f"{how}</span></th>{figures}"
        f'<td class="validation">{verdict}</td>'
        f'<td class="verified" data-label="{_text("verified", language)}">{levels}{signed}</td></tr>'
    )


def _look(entry: Entry) -> str:
    """Class of a verdict: only a recomputed run has a green tick."""
    if entry.verdict != "valid":
        return entry.verdict
    if entry.disturbed:
        return "warnings"
    return "valid" if entry.measured and entry.levels is not None else "plain"


def signature_text(sheet: Sheet, language: str) -> str:
    """Text on who signed a submission; empty for a sheet that did not come as one."""
    cell = sheet.cell("signature")
    if cell.value is not None:
        return word("signed by {name}", language).format(name=cell.value)
    return word(cell.text, language) if cell.text else ""


def verdict_text(entry: Entry, language: str) -> str:
    """Verdict of validation, and a mark if its peak is uncertain."""
    if entry.measured:
        verdict = word(VERDICTS[entry.verdict], language)
        return f"{verdict}, {word('disturbed', language)}" if entry.disturbed else verdict
    if entry.sheets[0].cell("provenance").value == "estimated":
        return value_text(entry.sheets[0].cell("status"), language)
    agrees = any(sheet.cell("status").value == "agrees" for sheet in entry.sheets)
    checked = "valid" if agrees else "unchecked"
    text = word(IMPORTED_VERDICTS["errors" if entry.verdict == "errors" else checked], language)
    text += word(", with warnings", language) if entry.verdict == "warnings" else ""
    confidences = {sheet.cell("peak_confidence").value for sheet in entry.sheets}
    uncertain = {"low": "peak: confidence low", "own": "peak of the importer"}
    note = next((words for confidence, words in uncertain.items() if confidence in confidences), None)
    return f"{text} ({word(note, language)})" if note else text


def sharing_text(entry: Entry, metric: PageColumn, language: str) -> str:
    """Share of a device that a rank has, and the throughput of a whole device; empty if ranks do not share devices."""
    speed, whole = entry.figures.get(metric.key), entry.figures.get("tokens_per_second_per_whole_device")
    if metric.key != "tokens_per_second_per_device" or speed is None or whole is None or not whole.median:
        return ""
    share = Fraction(speed.median / whole.median).limit_denominator(1000)
    text = word("a rank has {share} of a device; whole device {figure}", language)
    return text.format(share=share, figure=rounded(whole.median, THROUGHPUT))


def changes_text(entry: Entry) -> str:
    """Changes from the case, and other settings in which the entries of the contract differ."""
    changes = "" if entry.changes in ("-", "/", "") else entry.changes
    named = changes.replace(",", " ").split()
    settings = [f"{name}={value}" for name, value in entry.settings.items() if f"{name}={value}" not in named]
    return " · ".join(filter(None, (changes, " ".join(settings))))


def _figure(entry: Entry, metric: PageColumn, longest: Mapping[tuple[str, str], float], language: str) -> str:
    figure, label = entry.figures.get(metric.key), f' data-label="{_text(metric.title, language)}"'
    if figure is None:
        return f'<td class="figure unknown"{label} data-value="">{_text("unknown", language)}</td>'
    most = longest.get((metric.key, figure.currency), 0.0)
    notes = [] if figure.how in ("measured", "estimated") else [word(figure.how, language)]
    if sharing := sharing_text(entry, metric, language):
        notes.append(escape(sharing))
    whisker = ends = ""
    if figure.low is not None and figure.high is not None:
        low, high = (number(value, metric.rounding) for value in (figure.low, figure.high))
        text = "expected {low} to {high}" if figure.how == "estimated" else "{low} to {high} in {runs} runs"
        notes.insert(0, word(text, language).format(low=low, high=high, runs=figure.runs))
        left, right = (min(100.0, 100 * value / most) if most else 0 for value in (figure.low, figure.high))
        line = f'<rect class="line" x="{left:.2f}%" width="{max(0.0, right - left):.2f}%"/>'
        line += "".join(f'<rect class="end" x="{end:.2f}%"/>' for end in (left, right))
        whisker = f'<svg class="whisker">{line}</svg>'
        ends = f' data-low="{figure.low!r}" data-high="{figure.high!r}"'
    text = number(figure.median, metric.rounding)
    if figure.how == "printed":
        text = escape(printable(shown(entry.sheets[0].cell(metric.key))))
    text += f" {escape(figure.currency)}" * bool(figure.currency)
    if most and figure.median > most:
        notes.append(word(BEYOND, language))
    width = min(100.0, 100 * figure.median / most) if most else 0
    doubt = " disturbed" * entry.disturbed or " unverified" * (entry.measured and entry.levels is None)
    bar = f'<svg class="bar {figure.how}{doubt}" width="{width:.2f}%"></svg>{whisker}'
    track = f'<span class="track" aria-hidden="true">{bar}</span>' if most else ""
    return (
        f'<td class="figure"{label} data-value="{figure.median!r}"{ends}'
        f' data-currency="{escape(figure.currency)}" data-look="bar {figure.how}{doubt}">'
        f'<span class="value">{text}</span> '
        f'<span class="note">{", ".join(notes)}</span>{track}</td>'
    )


def number(value: float, rounding: Rounding | None) -> str:
    """A number as HTML that `dom.js` writes anew in the reader's locale."""
    assert rounding is not None, "a figure with bars has one"
    text = escape(rounded(value, rounding))
    style = f"{rounding.style} {rounding.digits} {rounding.divisor}"
    return f'<data value="{value!r}" data-rounding="{style}">{text}</data>'


def largest(entries: Sequence[Entry], metrics: Sequence[PageColumn]) -> dict[tuple[str, str], float]:
    """The value of a full bar, by figure and currency; entries with errors do not count where there are others."""
    most: dict[tuple[str, str], float] = {}
    for metric in metrics:
        known = [entry for entry in entries if metric.key in entry.figures]
        trusted = {entry.figures[metric.key].currency for entry in known if entry.verdict != "errors"}
        for entry in known:
            figure = entry.figures[metric.key]
            if entry.verdict == "errors" and figure.currency in trusted:
                continue
            place = metric.key, figure.currency
            most[place] = metric.whole or max(most.get(place, 0.0), figure.high or figure.median)
    return most


def _text(english: str, language: str) -> str:
    return escape(word(english, language))
