"""The sections of a result's sheet, in the order of the published READMEs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from llmperf.reporting import cells
from llmperf.reporting.cells import joined, number, shown, significant
from llmperf.types import Result, Row, Section
from llmperf.types.result import Failure, Software

LOG_LINES = 50
"""Last lines of the log of a failed run."""


def document_sections(result: Result, figures: Mapping[str, Row]) -> Iterator[Section]:
    """Everything about a run in sections; `figures` are its figures by key."""
    if result.failure is not None:
        yield _failure(result, result.failure)
    yield from _environment(result)
    yield from _strategy(result)
    yield _batch(result)
    yield _general(result)
    yield _performance(result, figures)
    yield from _evaluation(result)
    yield _utilisation(result)
    yield _changes(result)
    yield from _rank_memory(result)
    yield Section(key="notes", title="How the figures were made", rows=tuple(_making(result, figures)))


def _text(label: str, value: str | None, key: str = "") -> Row:
    return Row(key=key, label=label, value=value)


def _failure(result: Result, failure: Failure) -> Section:
    rank = cells.text(failure.rank)
    text = f"{result.status}: {failure.reason}, rank {rank}: {cells.failure_text(failure)}"
    return Section(key="failure", title="Failure", rows=(_text("", text),), lines=failure.log_tail[-LOG_LINES:])


def _environment(result: Result) -> Iterator[Section]:
    hardware, software = result.hardware, result.software
    devices = Row(key="nodes", label="nodes x devices", value=hardware.nodes,
                  text=f"{hardware.nodes} x {hardware.devices_per_node}")  # fmt: skip
    yield Section(key="environment", title="Environment")
    yield Section(key="hardware", title="Hardware", level=3, rows=(
        Row(key="device_model", label="accelerator", value=hardware.device_model,
            text=hardware.device_model + " (simulated)" * hardware.simulated),
        devices,
        Row(key="device_share", label="share of a device per rank", value=hardware.device_share,
            rounding=cells.PERCENT),
        Row(key="device_memory_bytes", label="device memory, GiB", value=hardware.device_memory_bytes, unit="bytes",
            rounding=cells.DEVICE_GIB),
        _text("CPU", hardware.host_cpu, "host_cpu"),
        Row(key="host_memory_bytes", label="host memory, GiB", value=hardware.host_memory_bytes, unit="bytes",
            rounding=cells.DEVICE_GIB),
        _text("interconnect", hardware.interconnect, "interconnect"),
    ))  # fmt: skip
    plugins = [f"{plugin.role} {plugin.name} ({plugin.distribution} {plugin.version})" for plugin in result.plugins]
    variables = tuple(_text(name, value, f"environment_{name}") for name, value in software.environment.items())
    yield Section(key="software", title="Software", level=3, rows=(
        _text("OS", software.os, "os"),
        _text("kernel", software.kernel, "kernel"),
        _text("driver", hardware.driver, "driver"),
        _dependencies(software),
        _text("plugins", joined(plugins), "plugins"),
        Row(key="environment", label="environment variables", value=None, parts=variables,
            text=joined([f"{name}={value}" for name, value in software.environment.items()])),
    ))  # fmt: skip


def _dependencies(software: Software) -> Row:
    """The notable packages, and how many more the result records."""
    versions = {"python": software.python, **software.packages}
    named = {"python", *software.notable_packages}
    notable = [f"{name} {version}" for name, version in versions.items() if name in named]
    rest = len(versions) - len(notable)
    more = [f"{rest} more in result.json"] if rest else []
    parts = tuple(_text(name, version, f"version_{name}") for name, version in versions.items())
    return Row(key="dependencies", label="dependencies", value=None, text=joined([*notable, *more]), parts=parts)


def _strategy(result: Result) -> Iterator[Section]:
    tuning, layout = result.tuning, result.parallelism
    degrees = {
        "tensor parallel": layout.tensor_parallel,
        "pipeline parallel": layout.pipeline_parallel,
        "data parallel": layout.data_parallel,
        "context parallel": layout.context_parallel,
        "expert parallel": layout.expert_parallel,
    }
    used = [name for name, degree in degrees.items() if degree > 1]
    used += ["sequence parallel"] * layout.sequence_parallel
    used += [f"sharding stage {layout.sharding_stage}"] * bool(layout.sharding_stage)
    yield Section(key="parallelism", title="Parallelism", rows=(
        _text("technique", joined(used)),
        _text("implemented by", tuning.framework, "framework"),
        _text("details", f"{cells.layout(layout)} = {layout.world_size} ranks"),
    ))  # fmt: skip
    options = {
        "gradient_checkpointing": cells.text(tuning.gradient_checkpointing),
        "attention": tuning.attention,
        "fused_ops": joined(tuning.fused_ops),
        "lora": cells.UNKNOWN,
        **{name: cells.text(value) for name, value in result.framework.items()},
    }
    if (lora := result.contract.lora) is not None:
        modules = joined(lora.target_modules)
        options["lora"] = f"rank {lora.rank}, alpha {lora.alpha}, dropout {lora.dropout}, on {modules}"
    rows = tuple(_text(name, value, f"option_{name}") for name, value in options.items())
    yield Section(key="optimisation", title="Optimisation strategy", rows=rows)


def _batch(result: Result) -> Section:
    batch = result.batch
    product = f"{batch.micro_batch} x {batch.gradient_accumulation} x {batch.data_parallel}"
    tokens = Row(key="tokens_per_step", label="tokens per step", value=batch.tokens_per_step, rounding=cells.WHOLE)
    return Section(key="batch", title="Batch", rows=(
        Row(key="micro_batch", label="micro batch (LBS)", value=batch.micro_batch),
        Row(key="seq_len", label="sequence length (MPE)", value=batch.seq_len),
        Row(key="gradient_accumulation", label="gradient accumulation (GAS)", value=batch.gradient_accumulation),
        Row(key="global_batch", label="global batch (GBS)", value=batch.global_batch,
            text=f"{batch.global_batch} = LBS x GAS x data parallel = {product}"),
        replace(tokens, text=f"{shown(tokens)} = GBS x MPE"),
    ))  # fmt: skip


def _general(result: Result) -> Section:
    contract, optimizer = result.contract, result.contract.optimizer
    return Section(key="general", title="General", rows=(
        _text("case", result.case, "case"),
        Row(key="variant", label="variant of the case", value=result.variant),
        _text("status", result.status, "status"),
        _text("provenance", result.provenance, "provenance"),
        Row(key="model", label="model", value=result.model.name,
            text=f"{result.model.title}, {number(result.parameters)} parameters"),
        _text("dataset", contract.dataset, "dataset"),
        _text("precision", contract.precision, "precision"),
        Row(key="optimizer", label="optimiser", value=optimizer.name,
            text=f"{optimizer.name}, lr {optimizer.lr:g}, {optimizer.schedule}"),
        Row(key="steps", label="steps", value=contract.steps,
            text=f"{contract.steps}, {contract.warmup_steps} of them warm-up"),
        Row(key="seed", label="seed", value=contract.seed),
    ))  # fmt: skip


def _performance(result: Result, figures: Mapping[str, Row]) -> Section:
    hardware, used = result.hardware, figures["device_memory_used_bytes"]
    whole = {name: value for name, value in result.metrics.evaluation.items() if "/" not in name}
    record = (
        _text("configuration", f"{hardware.device_model} {hardware.nodes}x{hardware.devices_per_node}"),
        _text("fix_hp", cells.fix_hp(result.fix_hp), "fix_hp"),
        figures["tokens_per_second_per_device"],
        replace(figures["final_loss"], label="loss"),
        replace(used, label="mem, GiB", text=f"{shown(used)}/{shown(figures['device_memory_total_bytes'])}"),
        figures["mfu_nominal"],
        *(_text("evaluation", f"{name}={significant(value)}") for name, value in whole.items()),
    )
    return Section(key="performance", title="Performance", records=(record,))


def _evaluation(result: Result) -> Iterator[Section]:
    """The parts of the evaluation, such as `mmlu/anatomy`: a record for each part, a cell for each whole."""
    named = {tuple(name.split("/", 1)): value for name, value in result.metrics.evaluation.items() if "/" in name}
    columns = list(dict.fromkeys(whole for whole, _ in named))
    records = tuple(
        (_text("part", part), *(_text(whole, significant(named.get((whole, part)))) for whole in columns))
        for part in dict.fromkeys(part for _, part in named)
    )
    if records:
        yield Section(key="evaluation", title="Evaluation in parts", records=records)


def _utilisation(result: Result) -> Section:
    records = tuple(
        (
            _text("convention", mfu.convention + (" (headline)" if mfu.headline else "")),
            Row(key=f"mfu_{mfu.convention}", label="MFU", value=mfu.value, rounding=cells.PERCENT),
            Row(key="flops_per_token", label="FLOPs per token", value=mfu.flops_per_token, rounding=cells.SIGNIFICANT),
            _text("formula", mfu.formula),
            _text("leaves out", "; ".join(mfu.leaves_out) or None),
            _text("peak, FLOP/s", f"{significant(mfu.peak_flops_per_second)} {mfu.peak_dtype or ''}".strip()),
            _text("peak's source", mfu.peak_source),
        )
        for mfu in result.mfu
    )
    return Section(key="mfu", title="MFU under every convention", records=records)


def _changes(result: Result) -> Section:
    records = tuple(
        (
            _text("parameter", change.path),
            Row(key="case_value", label="in the case", value=change.case_value),
            Row(key="value", label="here", value=change.value),
            _text("origin", change.origin),
        )
        for change in result.fix_hp
    )
    none = () if records else (_text("", "/"),)
    return Section(key="fix_hp", title="Changes from the case (fix_hp)", records=records, rows=none)


def _rank_memory(result: Result) -> Iterator[Section]:
    records = tuple(
        (
            Row(key="rank", label="rank", value=rank.rank),
            Row(key="pipeline_stage", label="pipeline stage", value=rank.pipeline_stage),
            Row(key="peak_bytes", label="peak, GiB", value=rank.peak_bytes, rounding=cells.RANK_GIB),
            Row(key="reserved_bytes", label="reserved, GiB", value=rank.reserved_bytes, rounding=cells.RANK_GIB),
        )
        for rank in result.metrics.rank_memory
    )
    if records:
        yield Section(key="rank_memory", title="Memory of each rank", records=records)


def _making(result: Result, figures: Mapping[str, Row]) -> Iterator[Row]:
    metrics, text = result.metrics, {key: shown(row) for key, row in figures.items()}
    if metrics.tokens_per_second_per_device is not None:
        yield _text("", f"token/p/s = {text['measured_tokens']} tokens of {metrics.measured_steps} measured steps"
                        f" / {text['window_seconds']} s / {result.parallelism.world_size} devices")  # fmt: skip
    if metrics.step_seconds is not None:
        median, p5, p95, mean = (text[f"step_seconds_{name}"] for name in ("median", "p5", "p95", "mean"))
        yield _text("", f"step: median {median} s, p5 {p5} s, p95 {p95} s, mean {mean} s")
    if metrics.joules_per_token is not None:
        joules = f"{text['energy_joules']} J of all devices, by {metrics.energy_source}, / tokens"
        each = f"{text['joules_per_token']} J a token, {text['tokens_per_joule']} tokens a joule"
        yield _text("", f"energy: {each} = {joules}")
    if metrics.throttling:
        yield _text("", f"throttling, share of the readings: {cells.shares(metrics.throttling)}")
    if metrics.known_entropy is not None:
        yield _text("", f"known entropy of the data: {text['known_entropy']} nats per token; no loss gets below it")
    yield from (_text("", note) for note in result.notes)
    yield Row(key="created", label="", value=result.created, text=f"run {result.run_id}, {result.created} to"
              f" {result.finished}", parts=(_text("made", result.created, "created"),
                                            _text("finished", result.finished, "finished")))  # fmt: skip
