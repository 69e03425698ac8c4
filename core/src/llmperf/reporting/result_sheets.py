"""The sheet of a measured result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from llmperf.errors import PluginError
from llmperf.plugins.faults import blamed_items, blaming
from llmperf.reporting import cells
from llmperf.reporting.cells import expert_rows, routing_rows, shown, weighted_parts
from llmperf.reporting.node_sections import disturbance_rows, node_rows
from llmperf.reporting.result_sections import document_sections
from llmperf.reporting.run_setup import Setup, rows_of, setup_of
from llmperf.results.curves import read_curves
from llmperf.results.disturbances import disturbances, disturbed
from llmperf.results.sections import known_sections
from llmperf.results.statistics import device_throughput, kind_of
from llmperf.types import Finding, Result, Row, Section, Sheet, Source, Text
from llmperf.validation.catalogue import open_catalogue


def result_sheet(result: Result, path: Path = Path(), findings: Sequence[Finding] | None = None) -> Sheet:
    """The sheet of one result.

    `path` is the file of the result; its curves are read from the run folder around it. `findings` are those of a
    validation, where the findings that the result itself lists are not to be trusted.
    """
    if findings is not None:
        result = replace(result, findings=tuple(findings))
    variant = " (variant)" if result.variant else ""
    figures = figure_rows(result)
    setup = setup_of(result)
    return Sheet(
        name=result.run_id,
        title=f"{result.model.title} by {result.tuning.framework}{variant}: {result.hardware.device_model}",
        source=Source(kind="result", path=path, document=result),
        overview=tuple(_overview(result, figures, setup, path)),
        sections=partial(_sections, result, figures, setup, path),
        findings=result.findings,
        contract=setup.contract,
        setting=setup.setting,
        repeats=kind_of(result),
        curves=lambda: read_curves(path.parent, result),
    )


def _sections(result: Result, figures: Mapping[str, Row], setup: Setup, path: Path) -> Iterator[Section]:
    yield Section(key="performance", title="Performance", rows=tuple(_card(result, figures, setup, path)), card=True)
    yield from document_sections(result, figures, setup)


def figure_rows(result: Result) -> dict[str, Row]:
    """The figures of a result by key, exact and with their rounding."""
    metrics, steps = result.metrics, result.metrics.step_seconds
    headline = next((mfu for mfu in result.mfu if mfu.headline), None)
    known = [rank.peak_bytes for rank in metrics.rank_memory if rank.peak_bytes is not None]
    measured = [
        Row(key="tokens_per_second_per_device", label="token/p/s", value=metrics.tokens_per_second_per_device,
            unit="tokens/s", rounding=cells.THROUGHPUT),
        Row(key="tokens_per_second", label="tokens/s, all devices", value=metrics.tokens_per_second, unit="tokens/s",
            rounding=cells.THROUGHPUT),
        Row(key="tokens_per_second_per_whole_device", label="tokens/s of a whole device",
            value=device_throughput(result), unit="tokens/s", rounding=cells.THROUGHPUT),
        *(Row(key=f"step_seconds_{name}", label="step, s" if name == "median" else f"step, s, {name}",
              value=getattr(steps, name, None), unit="s", rounding=cells.STEP_SECONDS)
          for name in ("median", "p5", "p95", "mean")),
        Row(key="measured_steps", label="measured steps", value=metrics.measured_steps),
        Row(key="measured_tokens", label="measured tokens", value=metrics.measured_tokens, rounding=cells.WHOLE),
        Row(key="window_seconds", label="measured window, s", value=metrics.window_seconds, unit="s",
            rounding=cells.WINDOW_SECONDS),
        Row(key="mfu_nominal", label="MFU (nominal)", value=headline.value if headline else None,
            rounding=cells.PERCENT),
        Row(key="first_loss", label="first loss", value=metrics.first_loss, unit="nats/token", rounding=cells.LOSS),
        Row(key="final_loss", label="final loss", value=metrics.final_loss, unit="nats/token", rounding=cells.LOSS),
        Row(key="known_entropy", label="known entropy of the data", value=metrics.known_entropy, unit="nats/token",
            rounding=cells.LOSS),
        Row(key="rank_peak_bytes", label="memory of a rank, GiB", value=max(known, default=None), unit="bytes",
            rounding=cells.RANK_GIB),
        Row(key="device_memory_used_bytes", label="memory of a device, GiB", value=metrics.device_memory_used_bytes,
            unit="bytes", rounding=cells.DEVICE_GIB),
        Row(key="device_memory_total_bytes", label="device memory, GiB", value=metrics.device_memory_total_bytes,
            unit="bytes", rounding=cells.DEVICE_GIB),
        Row(key="utilisation_percent", label="utilisation, %", value=metrics.utilisation_percent, unit="%",
            rounding=cells.WATTS),
        Row(key="power_watts", label="power of a device, W", value=metrics.power_watts, unit="W", rounding=cells.WATTS),
        Row(key="energy_joules", label="energy, J", value=metrics.energy_joules, unit="J", rounding=cells.SIGNIFICANT),
        Row(key="joules_per_token", label="energy, J a token", value=metrics.joules_per_token, unit="J/token",
            rounding=cells.SIGNIFICANT),
        Row(key="tokens_per_joule", label="tokens a joule", value=metrics.tokens_per_joule, unit="tokens/J",
            rounding=cells.SIGNIFICANT),
    ]  # fmt: skip
    return {row.key: row for row in measured}


def _overview(result: Result, figures: Mapping[str, Row], setup: Setup, path: Path) -> Iterator[Row]:
    """The cells of a result in a table of many."""
    yield from (setup.overview[key] for key in ("model", "case", "device", "layout"))
    yield figures["tokens_per_second_per_device"]
    yield figures["mfu_nominal"]
    yield figures["final_loss"]
    yield _memory(figures, "mem, GiB", "{}")
    yield setup.overview["fix_hp"]
    beside = _rows_beside(path)
    known = [row.text for row in beside if row.text is not None]
    yield Row(
        key="status",
        label="status",
        value=result.status,
        text=Text.joined(", ", (_short_status(result), *[Text("disturbed")] * disturbed(result), *known)),
        own_words=True,
    )
    yield Row(key="run_id", label="run", value=result.run_id)
    yield from (figures[key] for key in ("power_watts", "joules_per_token", "tokens_per_joule", "step_seconds_median"))
    yield Row(key="created", label="made", value=result.created, text=result.created[:16].replace("T", " "))
    yield from beside
    yield Row(key="disturbed", label="disturbed", value=Text.joined("; ", disturbances(result)) or None, own_words=True)
    yield Row(key="errors", label="validation errors", value=_count(result, "error"))
    yield Row(key="warnings", label="validation warnings", value=_count(result, "warning"))


def _rows_beside(path: Path) -> list[Row]:
    """Statements of other documents about a result, such as who has verified it."""
    catalogue, rows = open_catalogue(), list[Row]()
    for kind in catalogue.kinds.values():
        if kind.result_rows is not None:
            rows += blamed_items(catalogue.owner_of(kind), f"result_rows of kind {kind.name!r}", kind.result_rows(path))
    return rows


def _count(result: Result, severity: str) -> int:
    return sum(finding.severity == severity for finding in result.findings)


def _short_status(result: Result) -> str:
    """`failed: hung`; of a complete run with errors or warnings `invalid: 2 errors` or `complete, 1 warning`."""
    if result.failure is not None:
        return Text("{}: {}", Text(result.status), Text(result.failure.reason))
    errors, warnings = _count(result, "error"), _count(result, "warning")
    if errors and result.status == "complete":
        return Text("invalid: {}", cells.counted(errors, "error"))
    return Text("{}, {}", Text(result.status), cells.counted(warnings, "warning")) if warnings else Text(result.status)


def _status(result: Result) -> str:
    status, failure = Text(result.status), result.failure
    if failure is None:
        return status
    if failure.reason in ("killed", "lost", "interrupted"):  # the message names the reason and the rank
        return Text("{}: {}", status, failure.message)
    rank = "" if failure.rank is None or failure.node_rank is not None else Text(", rank {}", failure.rank)
    return Text("{}: {}{}: {}", status, Text(failure.reason), rank, cells.failure_text(failure))


def _memory(figures: Mapping[str, Row], label: str, after: str) -> Row:
    """`3.0/8.0`: in use on one whole device, and its total."""
    used, total = figures["device_memory_used_bytes"], figures["device_memory_total_bytes"]
    return Row(key="device_memory", label=label, value=used.value, text=Text(after, f"{shown(used)}/{shown(total)}"),
               own_words=True,
               parts=(used, total))  # fmt: skip


def _card(result: Result, figures: Mapping[str, Row], setup: Setup, path: Path) -> Iterator[Row]:
    """Rows at the end of `llmperf run`."""
    yield replace(setup.overview["case"], parts=rows_of(result, ("case", "variant")))
    (status,) = rows_of(result, ("status",))
    failure = Row(key="failure", label="failure", value=None if result.failure is None else result.failure.reason)
    yield replace(status, text=_status(result), parts=(status, failure), own_words=True)
    yield from (row for row in _rows_beside(path) if row.text is not None)
    yield from setup.card
    yield figures["tokens_per_second_per_device"]
    whole = figures["tokens_per_second"]
    yield replace(whole, parts=(whole, figures["tokens_per_second_per_whole_device"]))
    steps = [figures[f"step_seconds_{name}"] for name in ("median", "p5", "p95", "mean")]
    if result.metrics.step_seconds is not None:
        texts = Text("{} median, {} p5, {} p95", *map(shown, steps[:3]))
        yield Row(
            key="step_seconds", label="step, s", value=steps[0].value, text=texts, parts=tuple(steps), own_words=True
        )
    window = figures["window_seconds"]
    disturbance = rows_of(result.metrics, ("other_cpu_share",))
    steps_text = "{} steps" if window.value is None else "{} steps in {} s"
    measured = Text(steps_text, result.metrics.measured_steps, shown(window))
    yield Row(key="measured", label="measured", value=None, text=measured,
              parts=(figures["measured_steps"], figures["measured_tokens"], window, *disturbance),
              own_words=True)  # fmt: skip
    yield from disturbance_rows(result)
    yield from node_rows(result)
    yield from (*routing_rows(result), *expert_rows(result))
    yield _loss(figures)
    rank = figures["rank_peak_bytes"]
    most = None if rank.value is None else Text("{} at most", shown(rank))
    yield replace(rank, text=most, parts=(rank,), own_words=True)
    yield _memory(figures, "memory of a device, GiB", "{} in use by all, of total")
    yield from _energy(result, figures)
    yield from _utilisation(result)
    yield setup.overview["fix_hp"]
    for name, value in result.metrics.evaluation.items():
        if "/" not in name:
            yield Row(key=f"evaluation_{name}", label=name, value=value, rounding=cells.SIGNIFICANT)
    yield from (Row(key="", label="note", value=note, own_words=True) for note in result.notes)


def _loss(figures: Mapping[str, Row]) -> Row:
    first, final, entropy = (figures[name] for name in ("first_loss", "final_loss", "known_entropy"))
    template = "{} -> {}" if entropy.value is None else "{} -> {} (entropy of the data {})"
    text = Text(template, shown(first), shown(final), shown(entropy))
    unknown = first.value is None and final.value is None
    return Row(key="loss", label="loss", value=final.value, text=None if unknown else text, own_words=True,
               parts=(first, final, entropy))  # fmt: skip


def _energy(result: Result, figures: Mapping[str, Row]) -> Iterator[Row]:
    """Only what the devices report."""
    metrics, power = result.metrics, figures["power_watts"]
    names = ("energy_joules", "joules_per_token", "tokens_per_joule")
    joules, each, _ = rows = tuple(figures[name] for name in names)
    if power.value is not None:
        parts = power, figures["utilisation_percent"]
        yield replace(power, text=Text("{} on average", shown(power)), parts=parts, own_words=True)
    if each.value is not None:
        text = Text("{} J, {} J a token, {} tokens a joule ({})", *map(shown, rows), metrics.energy_source)
        yield Row(key="energy", label="energy of the devices", value=joules.value, parts=rows, text=text,
                  own_words=True)  # fmt: skip
    if metrics.throttling:
        yield Row(key="throttling", label="throttling", value=cells.shares(metrics.throttling))


def _utilisation(result: Result) -> Iterator[Row]:
    """MFU by every convention, and the peak."""
    for mfu in result.mfu:
        name = f"{'HFU' if mfu.convention == 'hfu' else 'MFU'} ({mfu.convention})"
        yield Row(key=f"mfu_{mfu.convention}", label=name + " *" * mfu.headline, value=mfu.value,
                  rounding=cells.PERCENT)  # fmt: skip
    yield from (row for mfu in result.mfu[:1] for row in cells.counted_by(mfu))
    known = next((mfu for mfu in result.mfu if mfu.peak_flops_per_second is not None), None)
    peak, dtype, source, confidence, date = (
        Row(key=name, label="peak", value=getattr(known, name, None), rounding=cells.SIGNIFICANT)
        for name in ("peak_flops_per_second", "peak_dtype", "peak_source", "peak_confidence", "peak_date")
    )
    problem = Row(key="peak_problem", label="peak", value=result.peak_problem)
    text = None
    if known is not None:
        template, sure = "{} FLOP/s a rank, {}: {} (confidence: {}, {})", Text(shown(confidence))
        text = Text(template, shown(peak), shown(dtype), shown(source), sure, shown(date))
    yield replace(
        peak, unit="FLOP/s", text=text, parts=(peak, dtype, source, confidence, date, problem), own_words=True
    )
    # MFU of the work-weighted and of the measured peak, and the rows of sections
    weighted = next((mfu for mfu in result.mfu if mfu.headline and mfu.weighted_peak is not None), None)
    if weighted is not None and weighted.weighted_peak is not None:
        share = Row(key="mfu_of_weighted_peak", label="MFU of the work-weighted peak", value=weighted.of_weighted_peak,
                    rounding=cells.PERCENT)  # fmt: skip
        peak = Row(key="weighted_peak_flops_per_second", label="work-weighted peak",
                   value=weighted.weighted_peak.flops_per_second, rounding=cells.SIGNIFICANT)  # fmt: skip
        weights = weighted_parts(weighted.weighted_peak)
        text = Text("{} of {} FLOP/s a rank: {}", shown(share), shown(peak), weights)
        yield replace(share, text=text, parts=(share, peak), own_words=True)
    if (measured := result.measured_peak) is not None:
        headline = next((mfu.of_measured_peak for mfu in result.mfu if mfu.headline), None)
        share = Row(key="mfu_of_measured_peak", label="MFU of the measured peak", value=headline,
                    rounding=cells.PERCENT)  # fmt: skip
        peak = Row(key="measured_peak_flops_per_second", label="measured peak", value=measured.flops_per_second,
                   rounding=cells.SIGNIFICANT)  # fmt: skip
        values = shown(share), shown(peak), measured.dtype, measured.source, measured.date
        text = Text("{} of {} FLOP/s a rank, {}: {}, {}", *values)
        yield replace(share, text=text, parts=(share, peak), own_words=True)
    for section, owner in known_sections().by_name.values():
        if (figures := section.of(result)) is not None:
            what = f"rows of the section {section.name!r}"
            try:
                with blaming(owner, what):
                    rows = list(blamed_items(owner, what, section.rows(figures, result)))
            except PluginError as error:
                rows = [Row(key="", label="note", value=Text("left out: {}", error), own_words=True)]
            yield from rows
