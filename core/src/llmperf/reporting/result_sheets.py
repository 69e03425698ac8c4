"""The sheet of a measured result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.errors import PluginError
from llmperf.plugins.faults import blamed_items, blaming
from llmperf.reporting import cells
from llmperf.reporting.cells import expert_rows, labelled, routing_rows, shown, weighted_parts
from llmperf.reporting.node_sections import node_rows
from llmperf.reporting.result_sections import document_sections
from llmperf.reporting.run_setup import Setup, rows_of, setup_of
from llmperf.results.disturbances import disturbances, disturbed
from llmperf.results.sections import known_sections
from llmperf.results.statistics import device_throughput, kind_of
from llmperf.types import Finding, Result, Row, Section, Sheet, Source, Text
from llmperf.validation.catalogue import open_catalogue


def result_sheet(result: Result, path: Path = Path(), findings: Sequence[Finding] | None = None) -> Sheet:
    """The sheet of one result, whose file is `path`; `findings` of a validation replace those that it lists."""
    if findings is not None:
        result = replace(result, findings=tuple(findings))
    variant = " (variant)" if result.variant else ""
    figures, setup, beside = figure_rows(result), setup_of(result), _rows_beside(path)

    def sections() -> Iterator[Section]:
        verdict = Text.joined(", ", _verdict(result, figures))
        yield Section(key="verdict", title="Verdict", lines=(verdict,), card=True)
        rows = tuple(_card(result, figures, setup, beside))
        yield Section(key="performance", title="Performance", rows=rows, card=True)
        yield from document_sections(result, figures, setup)

    return Sheet(
        name=result.run_id,
        title=f"{result.model.title} by {result.tuning.framework}{variant}: {result.hardware.device_model}",
        source=Source(kind="result", path=path, document=result),
        overview=tuple(_overview(result, figures, setup, beside)),
        sections=sections,
        findings=result.findings,
        contract=setup.contract,
        setting=setup.setting,
        repeats=kind_of(result),
    )


def figure_rows(result: Result) -> dict[str, Row]:
    """The figures of a result by key, exact and with their rounding."""
    metrics, steps = result.metrics, result.metrics.step_seconds
    nominal = next((mfu.value for mfu in result.mfu if mfu.headline), None)
    peak = max((rank.peak_bytes for rank in metrics.rank_memory if rank.peak_bytes is not None), default=None)
    speed, whole, per_second = metrics.tokens_per_second_per_device, device_throughput(result), "tokens/s"
    used, total = metrics.device_memory_used_bytes, metrics.device_memory_total_bytes
    energy, known = metrics.energy_joules, metrics.known_entropy
    measured = (
        labelled("tokens_per_second_per_device", "token/p/s", speed, cells.THROUGHPUT, per_second),
        labelled("tokens_per_second", "tokens/s, all devices", metrics.tokens_per_second, cells.THROUGHPUT, "tokens/s"),
        labelled(
            "tokens_per_second_per_whole_device", "tokens/s of a whole device", whole, cells.THROUGHPUT, "tokens/s"
        ),
        *(
            labelled(f"step_seconds_{name}", label, getattr(steps, name, None), cells.STEP_SECONDS, "s")
            for name, label in STEP_FIGURES.items()
        ),
        labelled("measured_steps", "measured steps", metrics.measured_steps),
        labelled("measured_tokens", "measured tokens", metrics.measured_tokens, cells.WHOLE),
        labelled("window_seconds", "measured window, s", metrics.window_seconds, cells.WINDOW_SECONDS, "s"),
        labelled("mfu_nominal", "MFU (nominal)", nominal, cells.PERCENT),
        labelled("first_loss", "first loss", metrics.first_loss, cells.LOSS, "nats/token"),
        labelled("final_loss", "final loss", metrics.final_loss, cells.LOSS, "nats/token"),
        labelled("known_entropy", "known entropy of the data", known, cells.LOSS, "nats/token"),
        labelled("rank_peak_bytes", "memory of a rank, GiB", peak, cells.RANK_GIB, "bytes"),
        labelled("device_memory_used_bytes", "memory of a device, GiB", used, cells.DEVICE_GIB, "bytes"),
        labelled("device_memory_total_bytes", "device memory, GiB", total, cells.DEVICE_GIB, "bytes"),
        labelled("utilisation_percent", "utilisation, %", metrics.utilisation_percent, cells.WATTS, "%"),
        labelled("power_watts", "power of a device, W", metrics.power_watts, cells.WATTS, "W"),
        labelled("energy_joules", "energy, J", energy, cells.SIGNIFICANT, "J"),
        labelled("joules_per_token", "energy, J a token", metrics.joules_per_token, cells.SIGNIFICANT, "J/token"),
        labelled("tokens_per_joule", "tokens a joule", metrics.tokens_per_joule, cells.SIGNIFICANT, "tokens/J"),
    )
    return {row.key: row for row in measured}


STEP_FIGURES = {"median": "step, s", "p5": "step, s, p5", "p95": "step, s, p95", "mean": "step, s, mean"}
"""Labels of the times of a step, by the name of the figure."""


def _overview(result: Result, figures: Mapping[str, Row], setup: Setup, beside: Sequence[Row]) -> Iterator[Row]:
    """The cells of a result in a table of many."""
    yield from (setup.overview[key] for key in ("model", "case", "device", "layout"))
    yield from (figures[key] for key in ("tokens_per_second_per_device", "mfu_nominal", "final_loss"))
    yield _memory(figures, "mem, GiB", "{}")
    yield setup.overview["fix_hp"]
    errors, warnings = (sum(each.severity == severity for each in result.findings) for severity in ("error", "warning"))
    status: str = Text(result.status)  # `failed: hung`, `invalid: 2 errors`, `complete, 1 warning`
    if result.failure is not None:
        status = Text("{}: {}", status, Text(result.failure.reason))
    elif errors and result.status == "complete":
        status = Text("invalid: {}", cells.counted(errors, "error"))
    elif warnings:
        status = Text("{}, {}", status, cells.counted(warnings, "warning"))
    known = [row.text for row in beside if row.text is not None]
    status = Text.joined(", ", (status, *[Text("disturbed")] * disturbed(result), *known))
    yield labelled("status", "status", result.status, text=status)
    yield labelled("run_id", "run", result.run_id)
    yield from (figures[key] for key in ("power_watts", "joules_per_token", "tokens_per_joule", "step_seconds_median"))
    yield labelled("created", "made", result.created, text=result.created[:16].replace("T", " "))
    yield from beside
    yield labelled("disturbed", "disturbed", Text.joined("; ", disturbances(result)) or None, own_words=True)
    yield labelled("errors", "validation errors", errors)
    yield labelled("warnings", "validation warnings", warnings)
    yield from (row for row in _section_rows(result) if row.column is not None)


def _rows_beside(path: Path) -> list[Row]:
    """Statements of other documents about a result, such as who has verified it."""
    catalogue, rows = open_catalogue(), list[Row]()
    for kind in catalogue.kinds.values():
        if kind.result_rows is not None:
            rows += blamed_items(catalogue.owner_of(kind), f"result_rows of kind {kind.name!r}", kind.result_rows(path))
    return rows


def _memory(figures: Mapping[str, Row], label: str, after: str) -> Row:
    """`3.0/8.0`: in use on one whole device, and its total."""
    used, total = figures["device_memory_used_bytes"], figures["device_memory_total_bytes"]
    text = Text(after, f"{shown(used)}/{shown(total)}")
    return labelled("device_memory", label, used.value, text=text, parts=(used, total))


def _card(result: Result, figures: Mapping[str, Row], setup: Setup, beside: Sequence[Row]) -> Iterator[Row]:
    """Rows at the end of `llmperf run`."""
    metrics = result.metrics
    yield replace(setup.overview["case"], parts=rows_of(result, ("case", "variant")))
    yield _status(result)
    yield from (row for row in beside if row.text is not None)
    yield from setup.card
    yield figures["tokens_per_second_per_device"]
    whole = figures["tokens_per_second"]
    yield replace(whole, parts=(whole, figures["tokens_per_second_per_whole_device"]))
    if metrics.step_seconds is not None:
        steps = [figures[f"step_seconds_{name}"] for name in STEP_FIGURES]
        text = Text("{} median, {} p5, {} p95", *map(shown, steps[:3]))
        yield labelled("step_seconds", "step, s", steps[0].value, text=text, parts=steps)
    window = figures["window_seconds"]
    text = Text("{} steps" if window.value is None else "{} steps in {} s", metrics.measured_steps, shown(window))
    measured = figures["measured_steps"], figures["measured_tokens"], window, *rows_of(metrics, ("other_cpu_share",))
    yield labelled("measured", "measured", None, text=text, parts=measured)
    if causes := tuple(disturbances(result)):
        yield labelled("disturbed", "disturbed", Text.joined("; ", causes))
    yield from node_rows(result)
    yield from (*routing_rows(result), *expert_rows(result))
    losses = first, final, entropy = tuple(figures[name] for name in ("first_loss", "final_loss", "known_entropy"))
    template = "{} -> {}" if entropy.value is None else "{} -> {} (entropy of the data {})"
    unknown = first.value is None and final.value is None
    loss = None if unknown else Text(template, *map(shown, losses))
    yield labelled("loss", "loss", final.value, text=loss, parts=losses)
    rank = figures["rank_peak_bytes"]
    most = None if rank.value is None else Text("{} at most", shown(rank))
    yield replace(rank, text=most, parts=(rank,))
    yield _memory(figures, "memory of a device, GiB", "{} in use by all, of total")
    power = figures["power_watts"]
    if power.value is not None:
        parts = power, figures["utilisation_percent"]
        yield replace(power, text=Text("{} on average", shown(power)), parts=parts)
    if metrics.joules_per_token is not None:
        rows = tuple(figures[name] for name in ("energy_joules", "joules_per_token", "tokens_per_joule"))
        text = Text("{} J, {} J a token, {} tokens a joule ({})", *map(shown, rows), metrics.energy_source)
        yield labelled("energy", "energy of the devices", rows[0].value, text=text, parts=rows)
    if metrics.throttling:
        yield labelled("throttling", "throttling", cells.shares(metrics.throttling))
    yield from _utilisation(result)
    yield setup.overview["fix_hp"]
    for name, value in metrics.evaluation.items():
        if "/" not in name:
            yield labelled(f"evaluation_{name}", name, value, cells.SIGNIFICANT)
    yield from (labelled("", "note", note, own_words=True) for note in result.notes)


def _verdict(result: Result, figures: Mapping[str, Row]) -> Iterator[str]:
    """Throughput with the 95 % confidence interval of the mean step, MFU, and what validation says."""
    steps, mfu = result.metrics.step_seconds, figures["mfu_nominal"]
    if (speed := figures["tokens_per_second_per_device"]).value is not None:
        half = None
        if steps is not None and steps.mean and steps.mean_low is not None and steps.mean_high is not None:
            half = (steps.mean_high - steps.mean_low) / 2 / steps.mean
        yield (
            Text("{} token/p/s", shown(speed))
            if half is None
            else Text("{} token/p/s +-{}", shown(speed), cells.percent(half))
        )
    if mfu.value is not None:
        yield Text("MFU {}", shown(mfu))
    counts = {name: sum(each.severity == name for each in result.findings) for name in ("error", "warning", "note")}
    if result.status != "complete":
        yield Text(result.status)
    elif not counts["error"]:
        yield Text("valid")
    yield from (cells.counted(count, name) for name, count in counts.items() if count)
    if disturbed(result):
        yield Text("disturbed")


def _status(result: Result) -> Row:
    """The status, and the failure with its message."""
    failure, text = result.failure, Text(result.status)
    if failure is not None and failure.reason in ("killed", "lost", "interrupted"):  # the message has reason and rank
        text = Text("{}: {}", text, failure.message)
    elif failure is not None:
        rank = "" if failure.rank is None or failure.node_rank is not None else Text(", rank {}", failure.rank)
        text = Text("{}: {}{}: {}", text, Text(failure.reason), rank, cells.failure_text(failure))
    reason = labelled("failure", "failure", None if failure is None else failure.reason)
    return labelled("status", "status", result.status, text=text, parts=(*rows_of(result, ("status",)), reason))


def _utilisation(result: Result) -> Iterator[Row]:
    """MFU by every convention, the peak, MFU of the work-weighted and of the measured peak, and rows of sections."""
    for mfu in result.mfu:
        label = f"{'HFU' if mfu.convention == 'hfu' else 'MFU'} ({mfu.convention}){' *' * mfu.headline}"
        yield labelled(f"mfu_{mfu.convention}", label, mfu.value, cells.PERCENT)
    yield from (row for mfu in result.mfu[:1] for row in cells.counted_by(mfu))
    known = next((mfu for mfu in result.mfu if mfu.peak_flops_per_second is not None), None)
    parts = peak, dtype, source, confidence, date = tuple(
        labelled(name, "peak", getattr(known, name, None), cells.SIGNIFICANT)
        for name in ("peak_flops_per_second", "peak_dtype", "peak_source", "peak_confidence", "peak_date")
    )
    text = None
    if known is not None:
        template, sure = "{} FLOP/s a rank, {}: {} (confidence: {}, {})", Text(shown(confidence))
        text = Text(template, shown(peak), shown(dtype), shown(source), sure, shown(date))
    problem = labelled("peak_problem", "peak", result.peak_problem)
    yield replace(peak, unit="FLOP/s", text=text, parts=(*parts, problem))
    headline = next((mfu for mfu in result.mfu if mfu.headline), None)
    if headline is not None and (weighted := headline.weighted_peak) is not None:
        key, label = "weighted_peak_flops_per_second", "work-weighted peak"
        share = labelled("mfu_of_weighted_peak", f"MFU of the {label}", headline.of_weighted_peak, cells.PERCENT)
        peak = labelled(key, label, weighted.flops_per_second, cells.SIGNIFICANT)
        text = Text("{} of {} FLOP/s a rank: {}", shown(share), shown(peak), weighted_parts(weighted))
        yield replace(share, text=text, parts=(share, peak))
    if (measured := result.measured_peak) is not None:
        value = None if headline is None else headline.of_measured_peak
        share = labelled("mfu_of_measured_peak", "MFU of the measured peak", value, cells.PERCENT)
        peak = labelled("measured_peak_flops_per_second", "measured peak", measured.flops_per_second, cells.SIGNIFICANT)
        values = shown(share), shown(peak), measured.dtype, measured.source, measured.date
        yield replace(share, text=Text("{} of {} FLOP/s a rank, {}: {}, {}", *values), parts=(share, peak))
    yield from _section_rows(result)


def _section_rows(result: Result) -> Iterator[Row]:
    """The rows of each section that a result has; a note in place of those that fail."""
    for section, owner in known_sections().by_name.values():
        if (figures := section.of(result)) is not None:
            what = f"rows of the section {section.name!r}"
            try:
                with blaming(owner, what):
                    rows = list(blamed_items(owner, what, section.rows(figures, result)))
            except PluginError as error:
                rows = [labelled("", "note", Text("left out: {}", error))]
            yield from rows
