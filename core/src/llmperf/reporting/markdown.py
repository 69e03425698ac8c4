"""One result as a Markdown document, in the order of the published READMEs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from llmperf.reporting import cells
from llmperf.reporting.cells import gib, joined, markdown, number, percent, significant, text
from llmperf.reporting.evaluation import parts, wholes
from llmperf.reporting.words import word
from llmperf.types import Result
from llmperf.types.result import Software

Row = tuple[str, str]
Line = str | tuple[str, ...]
"""A line as it stands, or a format and the words that are put into it translated."""


def render_markdown(result: Result, language: str = "en") -> str:
    """The report of one run; headings in `en` or `zh`. What comes from the result is escaped."""
    sections = (
        _head(result),
        _findings(result),
        _environment(result),
        _strategy(result),
        _batch(result),
        _general(result),
        _performance(result),
        _evaluation(result),
        _utilisation(result),
        _changes(result),
        _rank_memory(result),
        _making(result),
    )
    lines = [_translated(line, language) for section in sections for line in section]
    apart = [line for line, after in zip(lines, [*lines[1:], "end"], strict=True) if line or after]
    return "\n".join(apart) + "\n"


def _translated(line: Line, language: str) -> str:
    if isinstance(line, str):
        return line
    mark, *words = line
    return mark.format(*(word(one, language) for one in words))


def heading(level: int, english: str) -> list[Line]:
    """A heading between empty lines."""
    return ["", (f"{'#' * level} {{0}}", english), ""]


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[Line]:
    """A table; headers are translated, cells are escaped."""
    slots = " | ".join(f"{{{index}}}" for index in range(len(headers)))
    yield (f"| {slots} |", *headers)
    yield "|" + " --- |" * len(headers)
    for row in rows:
        yield "| " + " | ".join(markdown(cell) for cell in row) + " |"


def items(rows: Iterable[Row]) -> Iterator[Line]:
    """A list of labels, which are translated, and values, which are escaped."""
    for label, value in rows:
        yield ("- {0}: " + _literal(markdown(value)), label)


def _literal(value: str) -> str:
    return value.replace("{", "{{").replace("}", "}}")


def _head(result: Result) -> Iterator[Line]:
    variant = " (variant)" if result.variant else ""
    trained = f"{result.model.title} by {result.tuning.framework}{variant}: {result.hardware.device_model}"
    yield (f"# {_literal(markdown(trained))}, {{0}}, {_literal(markdown(result.run_id))}", "Configuration and results")
    if result.failure is not None:
        yield from heading(2, "Failure")
        failure = result.failure
        rank = cells.UNKNOWN if failure.rank is None else failure.rank
        yield f"{result.status}: {failure.reason}, rank {rank}: {markdown(cells.said(failure))}"
        yield ""
        for line in failure.log_tail[-50:]:
            indent = min(len(line) - len(line.lstrip(" ")), 40)
            yield f"    {' ' * indent}{cells.printable(line)}"


def _environment(result: Result) -> Iterator[Line]:
    hardware, software = result.hardware, result.software
    yield from heading(2, "Environment")
    yield from heading(3, "Hardware")
    rows = [
        ("accelerator", hardware.device_model + (" (simulated)" if hardware.simulated else "")),
        ("nodes x devices", f"{hardware.nodes} x {hardware.devices_per_node}"),
        ("share of a device per rank", percent(hardware.device_share)),
        ("device memory, GiB", gib(hardware.device_memory_bytes)),
        ("CPU", text(hardware.host_cpu)),
        ("host memory, GiB", gib(hardware.host_memory_bytes)),
        ("interconnect", text(hardware.interconnect)),
    ]
    yield from items(rows)
    yield from heading(3, "Software")
    plugins = [f"{one.role} {one.name} ({one.distribution} {one.version})" for one in result.plugins]
    rows = [
        ("OS", software.os),
        ("kernel", software.kernel),
        ("driver", text(hardware.driver)),
        ("dependencies", joined(_dependencies(software))),
        ("plugins", joined(plugins)),
        ("environment variables", joined(_pairs(software.environment.items(), "="))),
    ]
    yield from items(rows)


def _dependencies(software: Software) -> list[str]:
    """The notable packages, and how many more the result records."""
    told = {name: version for name, version in software.packages.items() if name in software.notable_packages}
    rest = len(software.packages) - len(told)
    more = [f"{rest} more in result.json"] if rest else []
    return [f"python {software.python}", *_pairs(told.items(), " "), *more]


def _pairs(pairs: Iterable[tuple[str, object]], between: str) -> list[str]:
    return [f"{name}{between}{text(value)}" for name, value in pairs]


def _strategy(result: Result) -> Iterator[Line]:
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
    used += [f"sharding stage {layout.sharding_stage}"] if layout.sharding_stage else []
    yield from heading(2, "Parallelism")
    yield from items([("technique", joined(used)), ("implemented by", tuning.framework)])
    yield from items([("details", f"{cells.layout(layout)} = {layout.world_size} ranks")])
    yield from heading(2, "Optimisation strategy")
    rows = {
        "gradient_checkpointing": text(tuning.gradient_checkpointing),
        "attention": tuning.attention,
        "fused_ops": joined(tuning.fused_ops),
        "lora": cells.UNKNOWN,
        **{name: text(value) for name, value in result.framework.items()},
    }
    if (lora := result.contract.lora) is not None:
        modules = joined(lora.target_modules)
        rows["lora"] = f"rank {lora.rank}, alpha {lora.alpha}, dropout {lora.dropout}, on {modules}"
    yield from (f"- {markdown(name)}: {markdown(value)}" for name, value in rows.items())


def _batch(result: Result) -> Iterator[Line]:
    batch = result.batch
    product = f"{batch.micro_batch} x {batch.gradient_accumulation} x {batch.data_parallel}"
    yield from heading(2, "Batch")
    rows = [
        ("micro batch (LBS)", str(batch.micro_batch)),
        ("sequence length (MPE)", str(batch.seq_len)),
        ("gradient accumulation (GAS)", str(batch.gradient_accumulation)),
        ("global batch (GBS)", f"{batch.global_batch} = LBS x GAS x data parallel = {product}"),
        ("tokens per step", f"{number(batch.tokens_per_step)} = GBS x MPE"),
    ]
    yield from items(rows)


def _general(result: Result) -> Iterator[Line]:
    contract, optimizer = result.contract, result.contract.optimizer
    yield from heading(2, "General")
    rows = [
        ("case", result.case),
        ("variant of the case", text(result.variant)),
        ("status", result.status),
        ("provenance", result.provenance),
        ("model", f"{result.model.title}, {number(result.parameters)} parameters"),
        ("dataset", contract.dataset),
        ("precision", contract.precision),
        ("optimiser", f"{optimizer.name}, lr {optimizer.lr:g}, {optimizer.schedule}"),
        ("steps", f"{contract.steps}, {contract.warmup_steps} of them warm-up"),
        ("seed", str(contract.seed)),
    ]
    yield from table(("item", "value"), ())
    yield from (("| {0} | " + _literal(markdown(value)) + " |", label) for label, value in rows)


def _performance(result: Result) -> Iterator[Line]:
    metrics, hardware = result.metrics, result.hardware
    yield from heading(2, "Performance")
    named = f"{hardware.device_model} {hardware.nodes}x{hardware.devices_per_node}"
    row = [named, cells.fix_hp(result.fix_hp), number(metrics.tokens_per_second_per_device)]
    row += [number(metrics.final_loss, 4), cells.device_memory(result), percent(cells.headline_mfu(result))]
    figures = wholes(metrics.evaluation)
    row += [f"{name}={significant(value)}" for name, value in figures.items()]
    headers = ["configuration", "fix_hp", "token/p/s", "loss", "mem, GiB", "MFU (nominal)"]
    yield from table(headers + ["evaluation"] * len(figures), [row])


def _evaluation(result: Result) -> Iterator[Line]:
    headers, rows = parts(result.metrics.evaluation)
    if rows:
        yield from heading(2, "Evaluation in parts")
        yield from table([markdown(header) for header in headers], rows)


def _utilisation(result: Result) -> Iterator[Line]:
    yield from heading(2, "MFU under every convention")
    headers = ("convention", "MFU", "FLOPs per token", "formula", "leaves out", "peak, FLOP/s", "peak's source")
    rows = [
        (
            mfu.convention + (" (headline)" if mfu.headline else ""),
            percent(mfu.value),
            significant(mfu.flops_per_token),
            mfu.formula,
            "; ".join(mfu.leaves_out) or cells.UNKNOWN,
            f"{significant(mfu.peak_flops_per_second)} {mfu.peak_dtype or ''}".strip(),
            text(mfu.peak_source),
        )
        for mfu in result.mfu
    ]
    yield from table(headers, rows)


def _changes(result: Result) -> Iterator[Line]:
    yield from heading(2, "Changes from the case (fix_hp)")
    if not result.fix_hp:
        yield "/"
        return
    rows = [(one.path, text(one.case_value), text(one.value), one.origin) for one in result.fix_hp]
    yield from table(("parameter", "in the case", "here", "origin"), rows)


def _rank_memory(result: Result) -> Iterator[Line]:
    if result.metrics.rank_memory:
        yield from heading(2, "Memory of each rank")
        rows = [
            (str(one.rank), str(one.pipeline_stage), gib(one.peak_bytes, 2), gib(one.reserved_bytes, 2))
            for one in result.metrics.rank_memory
        ]
        yield from table(("rank", "pipeline stage", "peak, GiB", "reserved, GiB"), rows)


def _making(result: Result) -> Iterator[Line]:
    metrics, devices = result.metrics, result.parallelism.world_size
    yield from heading(2, "How the figures were made")
    window = number(metrics.window_seconds, 3)
    tokens = number(metrics.measured_tokens)
    if metrics.tokens_per_second_per_device is not None:
        made = f"{tokens} tokens of {metrics.measured_steps} measured steps / {window} s / {devices} devices"
        yield f"- token/p/s = {made}"
    if (steps := metrics.step_seconds) is not None:
        spread = f"p5 {steps.p5:.4f} s, p95 {steps.p95:.4f} s"
        yield f"- step: median {steps.median:.4f} s, {spread}, mean {steps.mean:.4f} s"
    yield from _energy(result)
    if metrics.known_entropy is not None:
        yield f"- known entropy of the data: {metrics.known_entropy:.4f} nats per token; no loss gets below it"
    yield from (f"- {markdown(note)}" for note in result.notes)
    yield f"- run {markdown(result.run_id)}, {markdown(result.created)} to {markdown(result.finished)}"


def _energy(result: Result) -> Iterator[Line]:
    metrics = result.metrics
    if metrics.joules_per_token is not None:
        made = f"{significant(metrics.energy_joules)} J of all devices, by {metrics.energy_source}, / tokens"
        per_joule = significant(metrics.tokens_per_joule)
        yield f"- energy: {significant(metrics.joules_per_token)} J a token, {per_joule} tokens a joule = {made}"
    if metrics.throttling:
        yield f"- throttling, share of the readings: {markdown(cells.shares(metrics.throttling))}"


def _findings(result: Result) -> Iterator[Line]:
    yield from heading(2, "Findings")
    if not result.findings:
        yield ("{0}", "No findings." if result.failure is None else "The run failed; nothing else was found.")
    for one in result.findings:
        yield f"- {markdown(one.code)} {one.severity} {markdown(one.path)}: {markdown(one.message)}"
