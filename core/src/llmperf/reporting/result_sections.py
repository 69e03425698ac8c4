"""The sections of a result's sheet, in the order of the published READMEs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from llmperf.reporting import cells
from llmperf.reporting.cells import expert_rows, labelled, routing_rows, shown, significant, weighted_parts
from llmperf.reporting.node_sections import condition_sections, node_sections
from llmperf.reporting.run_setup import Setup
from llmperf.types import Result, Row, Section, Text

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
        log = failure.log_tail[-LOG_LINES:]
        yield Section(key="failure", title="Failure", rows=(labelled("", "", text),), lines=log)
    yield from setup.sections
    hardware, used, evaluation = result.hardware, figures["device_memory_used_bytes"], result.metrics.evaluation
    record = (
        labelled("", "configuration", f"{hardware.device_model} {hardware.nodes}x{hardware.devices_per_node}"),
        setup.overview["fix_hp"],
        figures["tokens_per_second_per_device"],
        replace(figures["final_loss"], label="loss"),
        replace(used, label="mem, GiB", text=f"{shown(used)}/{shown(figures['device_memory_total_bytes'])}"),
        figures["mfu_nominal"],
        *(
            labelled("", "evaluation", f"{name}={significant(value)}")
            for name, value in evaluation.items()
            if "/" not in name
        ),
    )
    yield Section(key="performance", title="Performance", records=(record,))
    # the parts of the evaluation, such as `mmlu/anatomy`
    named = {tuple(name.split("/", 1)): value for name, value in evaluation.items() if "/" in name}
    columns = list(dict.fromkeys(whole for whole, _ in named))
    records = tuple(
        (labelled("", "part", part), *(labelled("", whole, significant(named.get((whole, part)))) for whole in columns))
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
    ranks, lines = result.metrics.rank_memory, tuple[str, ...]()
    if len(ranks) > MAX_RANKS:
        lines = (f"of each stage the rank with the highest peak; result.json has all {len(ranks)}",)
        largest = {rank.pipeline_stage: rank for rank in sorted(ranks, key=lambda rank: rank.peak_bytes or 0)}
        ranks = tuple(largest[stage] for stage in sorted(largest))
    records = tuple(
        (
            labelled("rank", "rank", rank.rank),
            labelled("pipeline_stage", "pipeline stage", rank.pipeline_stage),
            labelled("peak_bytes", "peak, GiB", rank.peak_bytes, cells.RANK_GIB),
            labelled("reserved_bytes", "reserved, GiB", rank.reserved_bytes, cells.RANK_GIB),
        )
        for rank in ranks
    )
    if records:
        yield Section(key="rank_memory", title="Memory of each rank", records=records, lines=lines)
    yield Section(key="notes", title="How the figures were made", rows=tuple(_making(result, figures)))


def _utilisation(result: Result) -> Section:
    records = []
    for mfu in result.mfu:
        peak = f"{significant(mfu.peak_flops_per_second)} {mfu.peak_dtype or ''}".strip()
        record = [
            labelled("", "convention", Text("{} (headline)" if mfu.headline else "{}", Text(mfu.convention))),
            labelled(f"mfu_{mfu.convention}", "MFU", mfu.value, cells.PERCENT),
            labelled("flops_per_token", "FLOPs per token", mfu.flops_per_token, cells.SIGNIFICANT),
            labelled("", "formula", mfu.formula, own_words=True),
            labelled("", "leaves out", "; ".join(mfu.leaves_out) or None, own_words=True),
            *cells.counted_by(mfu),
            labelled("", "peak, FLOP/s", peak),
            labelled("", "peak's source", mfu.peak_source),
        ]
        if (weighted := mfu.weighted_peak) is not None:  # products have two dtypes
            text = f"{significant(weighted.flops_per_second)}: {weighted_parts(weighted)}"
            record.append(labelled("", "work-weighted peak, FLOP/s", text))
            key = f"mfu_{mfu.convention}_of_weighted_peak"
            record.append(labelled(key, "MFU of it", mfu.of_weighted_peak, cells.PERCENT))
        record += [
            labelled("", "confidence", mfu.peak_confidence, own_words=True),
            labelled("", "date", mfu.peak_date),
        ]
        records.append(tuple(record))
    return Section(key="mfu", title="MFU under every convention", records=tuple(records))


def _making(result: Result, figures: Mapping[str, Row]) -> Iterator[Row]:
    metrics, text = result.metrics, {key: shown(row) for key, row in figures.items()}
    if metrics.tokens_per_second_per_device is not None:
        ranks = Text("ranks, which share a device" if result.hardware.divided else "devices")
        values = text["measured_tokens"], metrics.measured_steps, text["window_seconds"], result.parallelism.world_size
        yield labelled("", "", Text("token/p/s = {} tokens of {} measured steps / {} s / {} {}", *values, ranks))
    if metrics.step_seconds is not None:
        steps = (text[f"step_seconds_{name}"] for name in ("median", "p5", "p95", "mean"))
        yield labelled("", "", Text("step: median {} s, p5 {} s, p95 {} s, mean {} s", *steps))
    if metrics.joules_per_token is not None:
        energy = text["joules_per_token"], text["tokens_per_joule"], text["energy_joules"], metrics.energy_source
        template = "energy: {} J a token, {} tokens a joule = {} J of all devices, by {}, / tokens"
        yield labelled("", "", Text(template, *energy))
    if metrics.throttling:
        yield labelled("", "", f"throttling, share of the readings: {cells.shares(metrics.throttling)}")
    if metrics.known_entropy is not None:
        template = "known entropy of the data: {} nats per token; no loss gets below it"
        yield labelled("", "", Text(template, text["known_entropy"]))
    yield from (labelled("", "", note, own_words=True) for note in result.notes)
    parts = labelled("created", "made", result.created), labelled("finished", "finished", result.finished)
    run = Text("run {}, {} to {}", result.run_id, result.created, result.finished)
    yield labelled("created", "", result.created, text=run, parts=parts)
