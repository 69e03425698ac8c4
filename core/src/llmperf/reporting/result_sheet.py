"""The rows of a terminal's table: one result in full, or several side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llmperf.reporting import cells
from llmperf.reporting.evaluation import wholes
from llmperf.reporting.ranking import Ranked, model_text, ranked_run
from llmperf.reporting.text_table import Column
from llmperf.types import Result

Row = tuple[str, str]


def result_rows(result: Result) -> Iterator[Row]:
    """One result, label and value."""
    yield "case", f"{result.case}{' (variant)' if result.variant else ''}"
    yield "status", _status(result)
    yield from _what(result)
    yield from _figures(result)
    for mfu in result.mfu:
        name = f"{'HFU' if mfu.convention == 'hfu' else 'MFU'} ({mfu.convention})"
        yield name + (" *" if mfu.headline else ""), cells.percent(mfu.value)
    yield "peak", _peak(result)
    yield "fix_hp", cells.fix_hp(result.fix_hp)
    for name, value in wholes(result.metrics.evaluation).items():
        yield name, cells.significant(value)
    yield from (("note", note) for note in result.notes)


def _status(result: Result) -> str:
    if result.failure is None:
        return result.status
    failure = result.failure
    if failure.reason in failure.message and (failure.rank is None or f"rank {failure.rank} " in failure.message):
        return f"{result.status}: {failure.message}"
    rank = "" if failure.rank is None else f", rank {failure.rank}"
    return f"{result.status}: {failure.reason}{rank}: {cells.said(failure)}"


def _what(result: Result) -> Iterator[Row]:
    hardware = result.hardware
    share = "" if hardware.device_share == 1 else f", each rank with {cells.percent(hardware.device_share)} of one"
    yield "model", f"{result.model.title}, {cells.number(result.parameters)} parameters"
    simulated = " (simulated)" if hardware.simulated else ""
    yield "devices", f"{hardware.nodes} x {hardware.devices_per_node} {hardware.device_model}{simulated}{share}"
    yield "framework", f"{result.tuning.framework}, {cells.layout(result.parallelism)}"
    batch = result.batch
    product = (
        f"{batch.micro_batch} micro x {batch.gradient_accumulation} accumulated x {batch.data_parallel} data parallel"
    )
    total = f"{batch.global_batch} sequences of {batch.seq_len} tokens"
    yield "batch", f"{product} = {total}, {result.contract.precision}"


def _figures(result: Result) -> Iterator[Row]:
    metrics = result.metrics
    yield "token/p/s", cells.number(metrics.tokens_per_second_per_device)
    yield "tokens/s, all devices", cells.number(metrics.tokens_per_second)
    steps = metrics.step_seconds
    if steps is not None:
        yield "step, s", f"{steps.median:.4f} median, {steps.p5:.4f} p5, {steps.p95:.4f} p95"
    window = "" if metrics.window_seconds is None else f" in {metrics.window_seconds:,.2f} s"
    yield "measured", f"{metrics.measured_steps} steps{window}"
    yield "loss", _loss(result)
    peak = cells.rank_peak(result)
    yield "memory of a rank, GiB", cells.UNKNOWN if peak is None else f"{cells.gib(peak, 2)} at most"
    yield "memory of a device, GiB", f"{cells.device_memory(result)} in use by all, of total"
    yield from _energy(result)


def _energy(result: Result) -> Iterator[Row]:
    """Nothing where the devices do not tell."""
    metrics = result.metrics
    if metrics.power_watts is not None:
        yield "power of a device, W", f"{metrics.power_watts:.1f} on average"
    if metrics.joules_per_token is not None:
        per_joule = cells.significant(metrics.tokens_per_joule)
        each = f"{cells.significant(metrics.joules_per_token)} J a token, {per_joule} tokens a joule"
        yield "energy of the devices", f"{cells.significant(metrics.energy_joules)} J, {each} ({metrics.energy_source})"
    if metrics.throttling:
        yield "throttling", cells.shares(metrics.throttling)


def _loss(result: Result) -> str:
    metrics = result.metrics
    if metrics.first_loss is None and metrics.final_loss is None:
        return cells.UNKNOWN
    entropy = "" if metrics.known_entropy is None else f" (entropy of the data {metrics.known_entropy:.4f})"
    return f"{cells.number(metrics.first_loss, 4)} -> {cells.number(metrics.final_loss, 4)}{entropy}"


def _peak(result: Result) -> str:
    known = [mfu for mfu in result.mfu if mfu.peak_flops_per_second is not None]
    if not known:
        return cells.UNKNOWN
    mfu = known[0]
    return f"{cells.significant(mfu.peak_flops_per_second)} FLOP/s a rank, {mfu.peak_dtype}: {mfu.peak_source}"


COLUMNS = (
    Column(title="model", importance=1, wraps=14),
    Column(title="case", importance=3, wraps=12),
    Column(title="device", importance=5, wraps=14),
    Column(title="layout", importance=7, wraps=14),
    Column(title="token/p/s", importance=2, right=True),
    Column(title="MFU (nominal)", importance=4, right=True),
    Column(title="loss", importance=9, right=True),
    Column(title="mem, GiB", importance=10, wraps=8, right=True),
    Column(title="fix_hp", importance=8, wraps=14),
    Column(title="status", importance=6, wraps=12),
    Column(title="run", importance=11, wraps=20),
)
"""Of a table of several results, the published ones among them."""
HEADERS = tuple(column.title for column in COLUMNS)


def comparison_row(result: Result) -> Sequence[str]:
    """One result among several, in the order of COLUMNS."""
    hardware = result.hardware
    device = f"{hardware.device_model}{' (simulated)' * hardware.simulated}"
    return (
        model_text(result.model.name, result.contract.lora is not None),
        f"{result.case}{' (variant)' * result.variant}",
        cells.devices(hardware.nodes, hardware.devices_per_node, device, hardware.device_share),
        f"{result.tuning.framework} {cells.layout(result.parallelism)}",
        cells.number(result.metrics.tokens_per_second_per_device),
        cells.percent(cells.headline_mfu(result)),
        cells.number(result.metrics.final_loss, 4),
        cells.device_memory(result),
        cells.fix_hp(result.fix_hp),
        status_cell(result),
        result.run_id,
    )


def status_cell(result: Result) -> str:
    """The status in a table of several runs; `invalid` for a complete run with errors among its findings."""
    errors = sum(one.severity == "error" for one in result.findings)
    return f"invalid: {cells.counted(errors, 'error')}" if errors and result.status == "complete" else result.status


def ranked_result(result: Result) -> Ranked[Sequence[str]]:
    """The row of a result, with what its place in the table depends on."""
    return ranked_run(result, comparison_row(result), result.metrics.tokens_per_second_per_device)
