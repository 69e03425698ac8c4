"""The sections of a result's sheet, in the order of the published READMEs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from llmperf.reporting import cells
from llmperf.reporting.cells import expert_rows, routing_rows, shown, significant, text_row, weighted_parts
from llmperf.reporting.node_sections import condition_sections, node_sections
from llmperf.reporting.run_setup import Setup
from llmperf.types import Result, Row, Section, Text
from llmperf.types.flop_counts import Mfu

MAX_RANKS = 256
"""Ranks whose memory a table lists."""
LOG_LINES = 50
"""Last lines of the log of a failed run."""


def document_sections(result: Result, figures: Mapping[str, Row], setup: Setup) -> Iterator[Section]:
    """Everything about a run in sections; `figures` are its figures by key, `setup` is what its repeats share."""
    if result.failure is not None:
        failure = result.failure
        rank = "" if failure.node_rank is not None else f", rank {cells.text(failure.rank)}"
        text = f"{result.status}: {failure.reason}{rank}: {cells.failure_text(failure)}"
        yield Section(key="failure", title="Failure", rows=(text_row("", text),), lines=failure.log_tail[-LOG_LINES:])
    yield from setup.sections
    hardware, used = result.hardware, figures["device_memory_used_bytes"]
    whole = {name: value for name, value in result.metrics.evaluation.items() if "/" not in name}
    record = (
        text_row("configuration", f"{hardware.device_model} {hardware.nodes}x{hardware.devices_per_node}"),
        text_row("fix_hp", cells.fix_hp(result.fix_hp), "fix_hp"),
        figures["tokens_per_second_per_device"],
        replace(figures["final_loss"], label="loss"),
        replace(used, label="mem, GiB", text=f"{shown(used)}/{shown(figures['device_memory_total_bytes'])}"),
        figures["mfu_nominal"],
        *(text_row("evaluation", f"{name}={significant(value)}") for name, value in whole.items()),
    )
    yield Section(key="performance", title="Performance", records=(record,))
    # the parts of the evaluation, such as `mmlu/anatomy`
    named = {tuple(name.split("/", 1)): value for name, value in result.metrics.evaluation.items() if "/" in name}
    columns = list(dict.fromkeys(whole for whole, _ in named))
    records = tuple(
        (text_row("part", part), *(text_row(whole, significant(named.get((whole, part)))) for whole in columns))
        for part in dict.fromkeys(part for _, part in named)
    )
    if records:
        yield Section(key="evaluation", title="Evaluation in parts", records=records)
    yield _utilisation(result)
    if rows := tuple(expert_rows(result)):
        listed = "result.json has the tokens of each expert"
        yield Section(key="expert_load", title="Expert load", rows=(*routing_rows(result), *rows), lines=(listed,))
    yield setup.changes
    yield from node_sections(result)
    yield from condition_sections(result)
    yield from _rank_memory(result)
    yield Section(key="notes", title="How the figures were made", rows=tuple(_making(result, figures)))


def _utilisation(result: Result) -> Section:
    records = tuple(
        (
            text_row(
                "convention", Text("{} (headline)" if mfu.headline else "{}", Text(mfu.convention)), own_words=True
            ),
            Row(key=f"mfu_{mfu.convention}", label="MFU", value=mfu.value, rounding=cells.PERCENT),
            Row(key="flops_per_token", label="FLOPs per token", value=mfu.flops_per_token, rounding=cells.SIGNIFICANT),
            text_row("formula", mfu.formula, own_words=True),
            text_row("leaves out", "; ".join(mfu.leaves_out) or None, own_words=True),
            *cells.counted_by(mfu),
            text_row("peak, FLOP/s", f"{significant(mfu.peak_flops_per_second)} {mfu.peak_dtype or ''}".strip()),
            text_row("peak's source", mfu.peak_source),
            *_weighted(mfu),
            text_row("confidence", mfu.peak_confidence, own_words=True),
            text_row("date", mfu.peak_date),
        )
        for mfu in result.mfu
    )
    return Section(key="mfu", title="MFU under every convention", records=records)


def _weighted(mfu: Mfu) -> Iterator[Row]:
    """The work-weighted peak and MFU by it, where products have two dtypes."""
    if (peak := mfu.weighted_peak) is not None:
        text = f"{significant(peak.flops_per_second)}: {weighted_parts(peak)}"
        yield text_row("work-weighted peak, FLOP/s", text)
        key = f"mfu_{mfu.convention}_of_weighted_peak"
        yield Row(key=key, label="MFU of it", value=mfu.of_weighted_peak, rounding=cells.PERCENT)


def _rank_memory(result: Result) -> Iterator[Section]:
    ranks = result.metrics.rank_memory
    lines: tuple[str, ...] = ()
    if len(ranks) > MAX_RANKS:
        largest = {rank.pipeline_stage: rank for rank in sorted(ranks, key=lambda rank: rank.peak_bytes or 0)}
        ranks = tuple(largest[stage] for stage in sorted(largest))
        lines = (
            f"of each stage the rank with the highest peak; result.json has all {len(result.metrics.rank_memory)}",
        )
    records = tuple(
        (
            Row(key="rank", label="rank", value=rank.rank),
            Row(key="pipeline_stage", label="pipeline stage", value=rank.pipeline_stage),
            Row(key="peak_bytes", label="peak, GiB", value=rank.peak_bytes, rounding=cells.RANK_GIB),
            Row(key="reserved_bytes", label="reserved, GiB", value=rank.reserved_bytes, rounding=cells.RANK_GIB),
        )
        for rank in ranks
    )
    if records:
        yield Section(key="rank_memory", title="Memory of each rank", records=records, lines=lines)


def _making(result: Result, figures: Mapping[str, Row]) -> Iterator[Row]:
    metrics, text = result.metrics, {key: shown(row) for key, row in figures.items()}
    if metrics.tokens_per_second_per_device is not None:
        ranks = Text("ranks, which share a device" if result.hardware.divided else "devices")
        values = text["measured_tokens"], metrics.measured_steps, text["window_seconds"], result.parallelism.world_size
        figure = Text("token/p/s = {} tokens of {} measured steps / {} s / {} {}", *values, ranks)
        yield text_row("", figure, own_words=True)
    if metrics.step_seconds is not None:
        median, p5, p95, mean = (text[f"step_seconds_{name}"] for name in ("median", "p5", "p95", "mean"))
        steps = Text("step: median {} s, p5 {} s, p95 {} s, mean {} s", median, p5, p95, mean)
        yield text_row("", steps, own_words=True)
    if metrics.joules_per_token is not None:
        each = Text(
            "energy: {} J a token, {} tokens a joule = {} J of all devices, by {}, / tokens",
            *(text["joules_per_token"], text["tokens_per_joule"], text["energy_joules"], metrics.energy_source),
        )
        yield text_row("", each, own_words=True)
    if metrics.throttling:
        yield text_row("", f"throttling, share of the readings: {cells.shares(metrics.throttling)}")
    if metrics.known_entropy is not None:
        entropy = Text("known entropy of the data: {} nats per token; no loss gets below it", text["known_entropy"])
        yield text_row("", entropy, own_words=True)
    yield from (text_row("", note, own_words=True) for note in result.notes)
    parts = text_row("made", result.created, "created"), text_row("finished", result.finished, "finished")
    run = Text("run {}, {} to {}", result.run_id, result.created, result.finished)
    yield Row(key="created", label="", value=result.created, text=run, parts=parts, own_words=True)
