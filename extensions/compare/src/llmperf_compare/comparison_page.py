"""Sides of a comparison beside one another: the page of `llmperf compare`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from llmperf.reporting import UNKNOWN, Column, contract_parts, figure_rows, part, printable, sentence, shown, word
from llmperf.types import Row

from llmperf_compare.comparison import HOW, speed_line
from llmperf_compare.differences import difference_lines
from llmperf_compare.kind_texts import baseline_lines, disturbed_lines, group_text, mixture, runs_text
from llmperf_compare.kinds import AgainstReference, BaselineComparison, Side
from llmperf_compare.page import MAX_LINE, Line, Page

COMPARED = (
    "tokens_per_second_per_device",
    "step_seconds_median",
    "mfu_nominal",
    "rank_peak_bytes",
    "device_memory_used_bytes",
    "power_watts",
    "joules_per_token",
    "final_loss",
)
"""Keys of the figures that are compared, in their order."""
OF_A_DEVICE = "tokens/s of a whole device"
IN_USE_BY_ALL = "device_memory_used_bytes"
"""On a device that ranks share, such as a host, this counts other processes too: it gets no ratio."""


def comparison_page(
    sides: Mapping[str, Side],
    comparisons: Mapping[str, AgainstReference],
    with_figures: Mapping[str, Sequence[BaselineComparison]],
    language: str = "en",
) -> Page:
    """The page that compares the throughputs of some sides with the first one, and with figures of documents."""
    kinds = {group_text(group, language) for side in sides.values() for group in side.groups}
    about = list(difference_lines({name: side.results for name, side in sides.items()}, language))
    for name, side in sides.items():
        for group in side.groups:
            kind = f": {group_text(group, language)}" * (len(kinds) > 1)
            about.append(Line(text=printable(f"{name}: {runs_text(group, language)}{kind}", MAX_LINE)))
        if side.left_out:
            left_out = ", ".join(f"{count} {word(why, language)}" for why, count in side.left_out.items())
            about.append(Line(text=sentence("{name}: left out: {left_out}", language, name=name, left_out=left_out)))
    if len(kinds) == 1:
        text = sentence("all: {kind}" if len(sides) > 1 else "{kind}", language, kind=kinds.pop())
        about.append(Line(text=printable(text, MAX_LINE)))
    answers = [line for name in comparisons for line in answer_lines(name, sides, comparisons[name], language)]
    for name, figures in with_figures.items():
        answers += [Line(text=f"{name}: {line}") for line in baseline_lines(figures, language)]
    ratios = [name for name, comparison in comparisons.items() if not comparison.contract_differences]
    held = [comparisons[name].throughput for name in ratios]
    explained = any(each.low is not None or each.p_value is not None for each in held)
    columns = [Column(title="median of", importance=1)]
    reference = next(iter(sides))
    titles = [*sides, *(f"{name} / {reference}" for name in ratios)]
    columns += [Column(title=title, importance=place, right=True) for place, title in enumerate(titles, 2)]
    rows = [(word(row.label, language), *texts) for row, texts in median_rows(sides, comparisons, language)]
    return Page(
        title=sentence("Comparison of {sides}", language, sides=", ".join(sides)),
        about=tuple(about),
        answers=tuple(answers),
        columns=tuple(columns) if comparisons else (),
        rows=tuple(rows) if comparisons else (),
        warnings=tuple(line for name, side in sides.items() for line in warning_lines(name, side, language)),
        notes=(Line(text=word(HOW, language), tone="context"),) if explained else (),
    )


def warning_lines(name: str, side: Side, language: str = "en") -> Iterator[Line]:
    """Warnings that a side mixes kinds of run, or that a run was disturbed."""
    if side.mixes:
        mixed = mixture(side, language)
        text = sentence("{name} mixes {kinds}: its medians are of no single kind", language, name=name, kinds=mixed)
        yield Line(text=printable(text, MAX_LINE), tone="warning")
    yield from disturbed_lines(name, side.results, language)


def answer_lines(
    name: str, sides: Mapping[str, Side], comparison: AgainstReference, language: str = "en"
) -> Iterator[Line]:
    """Lines on one side and the reference, the first of `sides`."""
    reference = next(iter(sides))
    both = {reference: sides[reference], name: sides[name]}
    if comparison.contract_differences:
        parts = ", ".join(difference_text(part, both) for part in comparison.contract_differences)
        text = "the contracts of {name} and {reference} differ in {parts}: their figures measure different things"
        values = {"name": name, "reference": reference, "parts": parts}
        yield Line(text=printable(sentence(text, language, **values), MAX_LINE), tone="slower")
    elif comparison.device_throughput is None:
        yield speed_line(comparison.throughput, name, reference, language)
    else:
        for what, throughput in (
            ("token/p/s of a rank", comparison.throughput),
            (OF_A_DEVICE, comparison.device_throughput),
        ):
            line = speed_line(throughput, name, reference, language)
            yield replace(line, text=f"{word(what, language)}: {line.text}")
    if comparison.device_throughput is not None:
        shares = ", ".join(f"{key} {' and '.join(map(part, side.shares))}" for key, side in both.items())
        text = "the ranks had different parts of a device ({shares}): token/p/s is that of a rank, not of a device"
        yield Line(text=sentence(text, language, shares=shares))


def median_rows(
    sides: Mapping[str, Side], comparisons: Mapping[str, AgainstReference], language: str = "en"
) -> Iterator[tuple[Row, list[str]]]:
    """A row for each figure that any side has: its name, the median of each side, and its ratios to the first."""
    figures = {name: [figure_rows(result) for result in side.results] for name, side in sides.items()}
    divided = any(result.hardware.divided for side in sides.values() for result in side.results)
    of_devices = any(comparison.device_throughput is not None for comparison in comparisons.values())
    for key in (*COMPARED, "tokens_per_second_per_whole_device")[: None if of_devices else -1]:
        medians = {}
        for name, side in figures.items():
            known_values = [value for rows in side if isinstance(value := rows[key].value, (int, float))]
            medians[name] = replace(side[0][key], value=median(known_values) if known_values else None)
        if all(row.value is None for row in medians.values()):
            continue
        label = reference = next(iter(medians.values()))
        compared = [name for name, comparison in comparisons.items() if not comparison.contract_differences]
        if key == IN_USE_BY_ALL and divided:
            label = replace(reference, label=f"{reference.label}, in use by all")
            ratios = [UNKNOWN for _ in compared]
        else:
            ratios = [
                f"{float(medians[name].value or 0) / float(reference.value):.4f}"
                if reference.value and medians[name].value is not None
                else UNKNOWN
                for name in compared
            ]
        texts = []
        for name, side in figures.items():
            known, text = sum(rows[key].value is not None for rows in side), shown(medians[name])
            if 0 < known < len(side):
                of_all = "{figure} ({known} of {all} runs)"
                text = sentence(of_all, language, figure=text, known=known, all=len(side))
            texts.append(text)
        yield label, [*texts, *ratios]


def difference_text(part: str, sides: Mapping[str, Side]) -> str:
    """`seed (A: 0, B: 9)`; for nested settings, such as the optimiser, only the parts that differ."""
    contracts = {name: [contract_parts(result) for result in side.results] for name, side in sides.items()}
    paths = sorted({path for runs in contracts.values() for parts in runs for path in parts})
    texts = []
    for path in paths:
        if path != part and not path.startswith(f"{part}."):
            continue
        values = {
            name: list(dict.fromkeys(parts.get(path, UNKNOWN) for parts in runs)) for name, runs in contracts.items()
        }
        if len({value for each in values.values() for value in each}) > 1:
            differing = ", ".join(": ".join((name, ", ".join(each))) for name, each in values.items())
            texts.append(f"{path} ({differing})")
            if path == part:  # another model: its layers and widths differ too
                break
    return ", ".join(texts) or part
