"""A watched program in lines for a terminal, and as a sheet for reports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from llmperf.reporting import AMOUNT, LOSS, PERCENT, SIGNIFICANT, STEP_SECONDS, THROUGHPUT, WATTS, shown
from llmperf.types import Finding, Row, Section, Sheet, Source, Text
from llmperf.types.sheet import Rounding

from llmperf_watch.figures import WARMUP_RULE
from llmperf_watch.types import Spread, Watched

GIB = Rounding(style="significant", digits=3, divisor=2**30)
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
    return [
        Sheet(
            name=path.parent.name or path.stem,
            title=" ".join(filter(None, (_program(watched), _fact(watched, "model"), _fact(watched, "device_model")))),
            source=Source(kind="watched", path=path, document=watched),
            overview=tuple(_overview(watched, path)),
            sections=lambda: _sections(watched),
            findings=tuple(findings),
            measured=False,
        )
    ]


def summary_lines(watched: Watched) -> Iterator[str]:
    """What the command prints at the end."""
    figures = watched.figures
    yield f"llmperf watch: {_program(watched)}, {figures.reported} reported steps, {watched.evidence}"
    for section in _sections(watched):
        for row in section.rows:
            if section.card:
                yield f"  {row.label}: {shown(row)}"
    for note in watched.notes:
        yield f"  note: {note}"


def _fact(watched: Watched, name: str) -> str:
    fact = watched.facts.get(name)
    return "" if fact is None else fact.value if isinstance(fact.value, str) else f"{fact.value:g}"


def _program(watched: Watched) -> str:
    return watched.profile or "a program without a log profile"


def _overview(watched: Watched, path: Path) -> Iterator[Row]:
    figures = watched.figures
    each = figures.tokens_per_second_per_device
    mfu = next((mfu.value for mfu in figures.mfu if mfu.headline), None)
    memory = figures.printed.get("memory_bytes")
    mean, used = each.mean if each else None, memory.median if memory else None
    devices = " ".join(filter(None, (_fact(watched, "devices"), _fact(watched, "device_model"))))
    yield Row(key="model", label="model", value=_fact(watched, "model") or None)
    yield Row(key="case", label="case", value=None)
    yield Row(key="device", label="device", value=devices or None)
    yield Row(key="layout", label="layout", value=watched.profile)
    yield Row(key="tokens_per_second_per_device", label="token/p/s", value=mean, rounding=THROUGHPUT)
    yield Row(key="mfu_nominal", label="MFU (nominal)", value=mfu, rounding=PERCENT)
    yield Row(key="final_loss", label="loss", value=figures.last_loss, rounding=LOSS)
    yield Row(key="device_memory", label="mem, GiB", value=used, rounding=GIB)
    yield Row(key="fix_hp", label="fix_hp", value=None)
    own = Text("self-reported tokens, llmperf's clock")
    text = own if watched.clock == "llmperf" else Text("self-reported")
    yield Row(key="status", label="status", value="self-reported", text=text, own_words=True)
    yield Row(key="run_id", label="run", value=path.parent.name)
    yield Row(key="provenance", label="provenance", value="self-reported", own_words=True)


def _sections(watched: Watched) -> Iterator[Section]:
    figures = watched.figures
    rows = [
        _spread_row(name, spread)
        for name in ("step_seconds", "tokens_per_second", "tokens_per_second_per_device")
        if (spread := getattr(figures, name)) is not None
    ]
    for entry in figures.mfu:
        source = f"{entry.formula} FLOPs per token, peak {entry.peak_dtype}: {entry.peak_source}"
        key = f"mfu_{entry.convention}"
        share = shown(Row(key=key, label="", value=entry.value, rounding=PERCENT))
        rows.append(Row(key=key, label=f"MFU ({entry.convention})", value=entry.value, text=f"{share}; {source}"))
    if figures.no_mfu:
        rows.append(Row(key="no_mfu", label="MFU", value=None, text=f"unknown, {figures.no_mfu}"))
    for name, loss in (("first_loss", figures.first_loss), ("last_loss", figures.last_loss)):
        rows.append(Row(key=name, label=name.replace("_", " "), value=loss, rounding=LOSS))
    rows.append(Row(key="left_out", label="warm-up", value=figures.left_out,
                    text=f"{figures.left_out} of {figures.reported}; {WARMUP_RULE}"))  # fmt: skip
    if figures.restarts:
        steps = ", ".join(f"{step:g}" for step in figures.restarts[:10])
        rows.append(Row(key="restarts", label="began again", value=len(figures.restarts), text=f"at step {steps}"))
    if figures.stalls:
        stalls = ", ".join(f"{stall.seconds:.3g} s before step {stall.step or 0:g}" for stall in figures.stalls[:5])
        rows.append(Row(key="stalls", label="pauses", value=len(figures.stalls), text=stalls))
    if (seen := watched.sampled) is not None:
        rows.append(Row(key="memory_peak_bytes", label="largest memory in use on a device of this machine, GiB",
                        value=seen.memory_peak_bytes, rounding=GIB))  # fmt: skip
        rows.append(
            Row(
                key="power_watts",
                label="power of all devices of this machine, W",
                value=seen.power_watts,
                rounding=WATTS,
            )
        )
    if watched.exit_status is not None:
        rows.append(Row(key="exit_status", label="exit status", value=watched.exit_status))
    for card in (True, False):
        yield Section(key="figures", title="Self-reported figures", rows=tuple(rows), card=card)
    yield Section(
        key="printed",
        title="Printed by the program",
        rows=tuple(_spread_row(name, spread) for name, spread in figures.printed.items()),
    )
    facts = [
        Row(key=key, label=key.replace("_", " "), value=fact.value, text=f"{_fact(watched, key)} ({fact.source})")
        for key, fact in watched.facts.items()
    ]
    yield Section(key="facts", title="Facts and who states them", rows=tuple(facts))


def _spread_row(name: str, spread: Spread) -> Row:
    label, unit, rounding = LABELS[name]
    mean, middle, low, high = (
        shown(Row(key=name, label="", value=value, rounding=rounding or AMOUNT))
        for value in (spread.mean, spread.median, spread.p5, spread.p95)
    )
    text = (
        f"{mean}; by line, median {middle}, 5th to 95th percentile {low} to {high} of {spread.count}; {spread.source}"
    )
    return Row(key=name, label=label, value=spread.mean, unit=unit, text=text)
