"""A watched program in lines for a terminal, and as a sheet for reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from llmperf.reporting import AMOUNT, LOSS, PERCENT, SIGNIFICANT, STEP_SECONDS, THROUGHPUT, WATTS, shown
from llmperf.types import Finding, Row, Section, Sheet, Source, Text
from llmperf.types.sheet import Rounding

from llmperf_watch.figures import WARMUP_RULE
from llmperf_watch.types import Spread, Watched

GIB = Rounding(style="significant", digits=3, divisor=2**30)
NO_PROFILE = "a program without a log profile"
CONTRACT = ("model", "precision", "seq_len", "global_batch")
LABELS = {
    "step_seconds": ("step time", "s", STEP_SECONDS),
    "tokens_per_second": ("tokens/s", "", THROUGHPUT),
    "tokens_per_second_per_device": ("token/p/s", "", THROUGHPUT),
    "samples_per_second": ("samples/s", "", SIGNIFICANT),
    "flops_per_second_per_device": ("FLOP/s of a device", "", SIGNIFICANT),
    "mfu": ("MFU", "", PERCENT),
    "memory_bytes": ("memory of a device, GiB", "", GIB),
}  # fmt: skip


def watched_sheets(watched: Watched, path: Path, findings: Sequence[Finding] = ()) -> list[Sheet]:
    """The sheet of one program."""
    names = (watched.profile or NO_PROFILE, _fact(watched, "model"), _fact(watched, "device_model"))
    return [Sheet(name=path.parent.name or path.stem, title=" ".join(filter(None, names)),
                  source=Source(kind="watched", path=path, document=watched), sections=lambda: _sections(watched),
                  contract={name: text for name in CONTRACT if (text := _fact(watched, name))},
                  overview=tuple(_overview(watched, path)), findings=tuple(findings), measured=False)]  # fmt: skip


def summary_lines(watched: Watched) -> Iterator[str]:
    """What the command prints at the end."""
    figures = watched.figures
    yield f"llmperf watch: {watched.profile or NO_PROFILE}, {figures.reported} reported steps, {watched.evidence}"
    for section in _sections(watched):
        for row in section.rows if section.card else ():
            yield f"  {row.label}: {shown(row)}"
    for note in watched.notes:
        yield f"  note: {note}"


def _fact(watched: Watched, name: str) -> str:
    fact = watched.facts.get(name)
    return "" if fact is None else fact.value if isinstance(fact.value, str) else f"{fact.value:g}"


def _overview(watched: Watched, path: Path) -> Iterator[Row]:
    figures = watched.figures
    each, memory = figures.tokens_per_second_per_device, figures.printed.get("memory_bytes")
    mfu = next((mfu.value for mfu in figures.mfu if mfu.headline), None)
    devices = " ".join(filter(None, (_fact(watched, "devices"), _fact(watched, "device_model"))))
    yield Row(key="model", label="model", value=_fact(watched, "model") or None)
    yield Row(key="case", label="case", value=None)
    yield Row(key="device", label="device", value=devices or None)
    yield Row(key="layout", label="layout", value=watched.profile)
    rate = each.mean if each else None
    yield Row(key="tokens_per_second_per_device", label="token/p/s", value=rate, rounding=THROUGHPUT)
    yield Row(key="mfu_nominal", label="MFU (nominal)", value=mfu, rounding=PERCENT)
    yield Row(key="final_loss", label="loss", value=figures.last_loss, rounding=LOSS)
    yield Row(key="device_memory", label="mem, GiB", value=memory.median if memory else None, rounding=GIB)
    yield Row(key="fix_hp", label="fix_hp", value=None)
    text = Text("self-reported tokens, llmperf's clock" if watched.clock == "llmperf" else "self-reported")
    yield Row(key="status", label="status", value="self-reported", text=text, own_words=True)
    yield Row(key="run_id", label="run", value=path.parent.name)
    yield Row(key="provenance", label="provenance", value="self-reported", own_words=True)


def _sections(watched: Watched) -> Iterator[Section]:
    figures = watched.figures
    rates = ("step_seconds", "tokens_per_second", "tokens_per_second_per_device")
    rows = [_spread_row(name, spread) for name in rates if (spread := getattr(figures, name)) is not None]

    def row(key: str, label: str, value: Any, **more: Any) -> None:
        rows.append(Row(key=key, label=label, value=value, **more))

    for entry in figures.mfu:
        share = shown(Row(key="mfu", label="", value=entry.value, rounding=PERCENT))
        source = f"{share}; {entry.formula} FLOPs per token, peak {entry.peak_dtype}: {entry.peak_source}"
        row(f"mfu_{entry.convention}", f"MFU ({entry.convention})", entry.value, text=source)
    if figures.no_mfu:
        row("no_mfu", "MFU", None, text=f"unknown, {figures.no_mfu}")
    row("first_loss", "first loss", figures.first_loss, rounding=LOSS)
    row("last_loss", "last loss", figures.last_loss, rounding=LOSS)
    row("left_out", "warm-up", figures.left_out, text=f"{figures.left_out} of {figures.reported}; {WARMUP_RULE}")
    if figures.restarts:
        steps = ", ".join(f"{step:g}" for step in figures.restarts[:10])
        row("restarts", "began again", len(figures.restarts), text=f"at step {steps}")
    if figures.stalls:
        stalls = ", ".join(f"{stall.seconds:.3g} s before step {stall.step or 0:g}" for stall in figures.stalls[:5])
        row("stalls", "pauses", len(figures.stalls), text=stalls)
    if (seen := watched.sampled) is not None:
        label = "largest memory in use on a device of this machine, GiB"
        row("memory_peak_bytes", label, seen.memory_peak_bytes, rounding=GIB)
        row("power_watts", "power of all devices of this machine, W", seen.power_watts, rounding=WATTS)
    if watched.exit_status is not None:
        row("exit_status", "exit status", watched.exit_status)
    for card in (True, False):
        yield Section(key="figures", title="Self-reported figures", rows=tuple(rows), card=card)
    printed = tuple(_spread_row(name, spread) for name, spread in figures.printed.items())
    yield Section(key="printed", title="Printed by the program", rows=printed)
    facts = (Row(key=key, label=key.replace("_", " "), value=fact.value, text=f"{_fact(watched, key)} ({fact.source})")
             for key, fact in watched.facts.items())  # fmt: skip
    yield Section(key="facts", title="Facts and who states them", rows=tuple(facts))


def _spread_row(name: str, spread: Spread) -> Row:
    label, unit, rounding = LABELS[name]
    values = (spread.mean, spread.median, spread.p5, spread.p95)
    mean, middle, low, high = (shown(Row(key=name, label="", value=one, rounding=rounding or AMOUNT)) for one in values)
    ends = f"by line, median {middle}, 5th to 95th percentile {low} to {high} of {spread.count}"
    if spread.count == 1:
        ends = f"{low} to {high}" if low != high else "exact to these digits"
    text = f"{mean}{unit and ' '}{unit}; {ends}; {spread.source}"
    return Row(key=name, label=label, value=spread.mean, unit=unit, text=text)
