"""Kinds of run in words: what they are, how often they ran, in what a side mixes them, and which were disturbed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from llmperf.reporting import (
    Kind,
    devices,
    disturbances,
    disturbed,
    figure_rows,
    layout,
    model_text,
    part,
    percent,
    printable,
    sentence,
    settings,
    shared,
    shown,
    uneven,
    word,
)
from llmperf.types import Result
from llmperf.types.result import OTHER_CPU_SHARE

from llmperf_compare.kinds import BaselineComparison, Group, Side
from llmperf_compare.page import MAX_LINE, Line

SHOWN_RUNS = 3
"""Runs that one warning names."""


def runs_text(group: Group, language: str = "en") -> str:
    """`4 runs, spread 2.7 %`."""
    relative = None if group.spread is None else group.spread.relative
    spread = "" if relative is None else f", {word('spread', language)} {percent(relative)}"
    return f"{count_text(len(group.results), language)}{spread}"


def count_text(count: int, language: str = "en") -> str:
    """`1 run`, `4 runs`."""
    return sentence("{all} run" if count == 1 else "{all} runs", language, all=f"{count:,}")


def phase_text(result: Result, language: str = "en") -> str:
    """Kind of training: `pretraining`, or `LoRA` if only adapters."""
    return word("pretraining" if result.contract.lora is None else "LoRA", language)


def group_text(group: Group, language: str = "en") -> str:
    """A kind of run with its model: `llama_tiny, pretraining, default by zero, ...`."""
    first = group.results[0]
    return f"{first.model.name}, {phase_text(first, language)}, {kind_text(group.kind, language)}"


def short_text(group: Group, language: str = "en") -> str:
    """`llama2_7b + LoRA by lora on 1x1 NVIDIA A100`."""
    first, kind = group.results[0], group.kind
    model = model_text(first.model.name, first.contract.lora is not None)
    values = {"model": model, "framework": kind.framework, "devices": kind_devices(kind)}
    return sentence("{model} by {framework} on {devices}", language, **values)


def kind_text(kind: Kind, language: str = "en") -> str:
    """`default by zero, TP1 x PP1 x DP2, on 1x2 AMD EPYC (1/2 each), steps=50`."""
    values = {"layout": word(layout(kind.layout), language), "devices": kind_devices(kind)}
    values |= {"case": kind.case, "framework": kind.framework, "changes": kind_changes(kind, language)}
    return sentence("{case} by {framework}, {layout}, on {devices}, {changes}", language, **values)


def kind_devices(kind: Kind) -> str:
    """`1x2 AMD EPYC (1/2 each)`."""
    return devices(kind.layout.nodes, kind.layout.devices_per_node, kind.device, kind.device_share)


def kind_changes(kind: Kind, language: str = "en") -> str:
    """Changes from the case; variables of the environment are none."""
    return settings(kind.contract + kind.tuning) or word("settings of the case", language)


def mixture(side: Side, language: str = "en") -> str:
    """`2 kinds of run, which differ in framework (pytorch, zero)`."""
    kinds = [group.kind for group in side.groups]
    values = {name: "; ".join(dict.fromkeys(_SHOWN[name](kind) for kind in kinds)) for name in side.mixes}
    parts = [f"{word(name.replace('_', ' '), language)} ({text})" for name, text in values.items()]
    return sentence("{count} kinds of run, which differ in {parts}", language, count=len(kinds), parts=", ".join(parts))


_SHOWN: dict[str, Callable[[Kind], str]] = {
    "case": lambda kind: kind.case,
    "model": lambda kind: kind.model,
    "contract": lambda kind: settings(kind.contract) or "/",
    "device": lambda kind: kind.device,
    "device_share": lambda kind: part(kind.device_share),
    "framework": lambda kind: kind.framework,
    "layout": lambda kind: f"{kind.layout.nodes}x{kind.layout.devices_per_node} {layout(kind.layout)}",
    "tuning": lambda kind: settings(kind.tuning) or "/",
}
"""Text of a field of a kind, by the name of the field."""


def disturbed_lines(name: str, results: Sequence[Result], language: str = "en") -> Iterator[Line]:
    """Warnings about runs with uneven steps, runs that shared the host or its devices, and otherwise disturbed ones."""
    of_all = sentence("of {runs}", language, runs=count_text(len(results), language))
    if with_uneven_steps := [result for result in results if uneven(result)]:
        worst = max(with_uneven_steps, key=_unevenness)
        text = "{name}: {count} {of_all} disturbed, with very uneven steps: {run} ({steps})"
        if len(with_uneven_steps) > 1:
            text = "{name}: {count} {of_all} disturbed, with very uneven steps; the worst is {run} ({steps})"
        values = {"name": name, "count": len(with_uneven_steps), "of_all": of_all}
        yield _warning(sentence(text, language, **values, run=worst.run_id, steps=steps_text(worst, language)))
    if sharing := [result for result in results if shared(result)]:
        largest = max(result.metrics.other_cpu_share or 0.0 for result in sharing)
        where = "up to {share} of the cores" if largest > OTHER_CPU_SHARE else "on its devices"
        text = (
            "{name}: {count} {of_all} disturbed by other processes ({where}): their throughput may be too low: {runs}"
        )
        if len(sharing) == 1:
            text = (
                "{name}: {count} {of_all} disturbed by other processes ({where}): its throughput may be too low: {runs}"
            )
        runs, more = ", ".join(result.run_id for result in sharing[:SHOWN_RUNS]), len(sharing) - SHOWN_RUNS
        if more > 0:
            runs = sentence("{names} and {more} more", language, names=runs, more=more)
        values = {"name": name, "count": len(sharing), "of_all": of_all, "runs": runs}
        yield _warning(
            sentence(text, language, **values, where=sentence(where, language, share=f"{100 * largest:.0f} %"))
        )
    others = [result for result in results if disturbed(result) and not uneven(result) and not shared(result)]
    if others:
        text = "{name}: {count} {of_all} disturbed: {run}: {what}"
        values = {"name": name, "count": len(others), "of_all": of_all, "run": others[0].run_id}
        yield _warning(sentence(text, language, **values, what=word("; ".join(disturbances(others[0])), language)))


def _warning(text: str) -> Line:
    return Line(text=printable(text, MAX_LINE), tone="warning")


def _unevenness(result: Result) -> float:
    steps = result.metrics.step_seconds
    return 0.0 if steps is None or not steps.p5 else steps.p95 / steps.p5


def steps_text(result: Result, language: str = "en") -> str:
    """`median step 0.0190 s, mean 0.0900 s, 5 % to 95 %: 0.0180 to 0.4000 s`."""
    figures = figure_rows(result)
    values = {name: shown(figures[f"step_seconds_{name}"]) for name in ("median", "mean", "p5", "p95")}
    return sentence("median step {median} s, mean {mean} s, 5 % to 95 %: {p5} to {p95} s", language, **values)


def baseline_lines(comparisons: Sequence[BaselineComparison], language: str = "en") -> Iterator[str]:
    """For each kind of runs the figure it is compared with, or why there is none; equal reasons on one line."""
    by_reason: dict[str, list[str]] = {}
    for comparison in comparisons:
        kind, why = comparison.group.kind, comparison.why
        if comparison.share is not None:
            times = f"{comparison.share:.2f}"
            why = sentence("{times} times as fast as {row}", language, times=times, row=why)
        by_reason.setdefault(why, []).append(f"{kind.case} on {kind_devices(kind)}")
    for why, kinds in by_reason.items():
        names = list(dict.fromkeys(kinds))
        shown_names = "; ".join(names if len(names) <= SHOWN_RUNS else names[:2])
        if len(names) > SHOWN_RUNS:
            shown_names = sentence("{names} and {more} more", language, names=shown_names, more=len(names) - 2)
        yield printable(f"{shown_names}: {why}", MAX_LINE)
    for kind_name in dict.fromkeys(comparison.kind for comparison in comparisons if comparison.share is not None):
        text = "a {kind} row is one figure without its spread: whether a difference is significant is unknown"
        yield sentence(text, language, kind=kind_name)
