"""One published result as cells: of the terminal's table, of CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from llmperf.reporting import cells
from llmperf.reporting.ranking import Ranked, model_text

from llmperf_published.rules.verdicts import Verdict
from llmperf_published.types.document import Figure, PublishedLayout, PublishedRow


def terminal_row(row: PublishedRow, verdict: Verdict, document: str = "", whole: bool = False) -> Sequence[str]:
    """One published result in the columns of the comparison table; figures in the digits that were printed.

    `document` is what the row is from. With `whole`, a cell that has a formula or a unit besides keeps it, and the
    verdict its reasons.
    """
    metrics = row.metrics
    shown = _figure if whole else _digits_or_unknown
    return (
        model(row),
        f"{row.case or cells.UNKNOWN}{' (variant)' * (row.variant and row.case is not None)}",
        device(row),
        f"{row.framework or ''} {layout(row.parallelism)}".strip() or cells.UNKNOWN,
        shown(metrics.tokens_per_second_per_device),
        shown(metrics.mfu),
        shown(metrics.loss),
        cells.UNKNOWN if metrics.memory is None else metrics.memory.text or cells.UNKNOWN,
        cells.UNKNOWN if row.fix_hp_text is None else row.fix_hp_text or "/",
        f"imported: {verdict.outcome}" + (f" ({'; '.join(verdict.why)})" if whole else ""),
        f"{document} line {row.line}".strip(),
    )


def model(row: PublishedRow) -> str:
    """Name of the model, of an adapter case with that said; as printed where the library does not have it."""
    return model_text(row.model or row.model_text or cells.UNKNOWN, _trains_adapters(row.case))


def _trains_adapters(case: str | None) -> bool:
    if case is None:
        return False
    from llmperf.cases.library import library

    shelf = library()
    return case in shelf.paths("cases") and shelf.case(case).contract.lora is not None


T = TypeVar("T")


def ranked_row(row: PublishedRow, line: T) -> Ranked[T]:
    """A line that stands for a published result, which has a contract as far as the document tells it."""
    batch = row.batch
    data, precision = row.dataset or row.dataset_text, row.precision or row.precision_text
    contract = ("published", data, precision, batch.seq_len, batch.global_batch)
    return Ranked(
        model=model(row), contract=contract, figure=value(row.metrics.tokens_per_second_per_device), line=line
    )


def device(row: PublishedRow) -> str:
    """`1x8 NVIDIA_A100-SXM4-40GB`, as far as it is known."""
    where = row.hardware
    grid = f"{where.nodes}x{where.devices_per_node} " if where.nodes and where.devices_per_node else ""
    return f"{grid}{where.device_model or where.device or where.configuration or cells.UNKNOWN}"


def layout(parallelism: PublishedLayout) -> str:
    """`TP4 x PP1 x DP2, sharding stage 1`, as far as it is known."""
    named = {"TP": parallelism.tensor_parallel, "PP": parallelism.pipeline_parallel, "DP": parallelism.data_parallel}
    degrees = [f"{name}{degree}" for name, degree in {**named, **parallelism.other}.items() if degree is not None]
    stage = parallelism.sharding_stage
    sharded = [] if stage is None else [f"sharding stage {stage}"]
    return ", ".join([" x ".join(degrees)] * bool(degrees) + sharded)


def _figure(figure: Figure | None) -> str:
    return cells.UNKNOWN if figure is None else figure.text or cells.UNKNOWN


def digits(figure: Figure) -> str:
    """The digits as printed; the whole cell where they do not stand for themselves or for percent."""
    if figure.printed is None or figure.scale not in (1.0, 0.01):
        return figure.text
    return figure.printed if figure.scale == 1.0 else f"{figure.printed} %"


def _digits_or_unknown(figure: Figure | None) -> str:
    return cells.UNKNOWN if figure is None else digits(figure) or cells.UNKNOWN


def csv_cells(path: Path, row: PublishedRow, verdict: Verdict) -> Iterator[tuple[str, Any]]:
    """Column and value in the columns of measured results, as far as the document gives them."""
    metrics, where, memory = row.metrics, row.hardware, row.metrics.memory
    yield from (("path", str(path)), ("line", row.line), ("case", row.case), ("variant", row.variant))
    yield from (("provenance", "imported"), ("fix_hp", row.fix_hp_text), ("model", row.model or row.model_text))
    yield from (("device_model", where.device_model or where.device), ("framework", row.framework))
    yield from (("precision", row.precision or row.precision_text), ("nodes", where.nodes))
    yield "devices_per_node", where.devices_per_node
    names = "tensor_parallel pipeline_parallel sharding_stage sharding_degree"
    yield from ((name, getattr(row.parallelism, name)) for name in names.split())
    names = "data_parallel micro_batch gradient_accumulation global_batch seq_len"
    guessed = _follows_from_unknown_degrees(row)
    yield from ((name, None if name in guessed else getattr(row.batch, name)) for name in names.split())
    yield "tokens_per_second_per_device", value(metrics.tokens_per_second_per_device)
    yield "tokens_per_second", value(metrics.tokens_per_second)
    yield "final_loss", value(metrics.loss)
    yield from (("mfu_nominal", value(metrics.mfu)), ("hfu", value(metrics.hfu)))
    yield "memory", None if memory is None else memory.text
    yield from (("verdict", verdict.outcome), ("verdict_why", "; ".join(verdict.why)))
    yield from ((f"evaluation_{name}", value(figure)) for name, figure in metrics.evaluation.items())


def _follows_from_unknown_degrees(row: PublishedRow) -> tuple[str, ...]:
    """Names of batch settings that hold only if the degrees that the document does not print are 1."""
    layout, origins = row.parallelism, row.batch.origins
    if layout.tensor_parallel and layout.pipeline_parallel:
        return ()
    if not origins.get("data_parallel", "").startswith("nodes x devices"):
        return ()
    computed = origins.get("global_batch", "").endswith("x data parallel")
    return ("data_parallel", "global_batch") if computed else ("data_parallel",)


def value(figure: Figure | None) -> float | None:
    """The number of a figure; None where there is none or it is withheld."""
    return None if figure is None else figure.value
