"""Whether a published row and a measured result are of one thing, and in what they still differ."""

from __future__ import annotations

from collections.abc import Sequence

from llmperf_published.types.document import PublishedRow

from llmperf.types.devices import Precision
from llmperf.types.result import Result


def misfits(result: Result, row: PublishedRow, same_device: bool, dtypes: Sequence[Precision]) -> tuple[str, ...]:
    """What keeps the two from being held against each other, the row's side first; empty where nothing does.

    `same_device` and `dtypes` are what the vendor's catalogue says of the row: its device, the dtypes it may mean.
    Model and case, device, precision, sequence length and the number of devices must be the same. What a row does not
    say is no fit: nobody can tell.
    """
    where, contract = row.hardware, result.contract
    named = where.device_model or where.device or where.configuration
    checks = {
        "model": (row.model == result.model.name, row.model or row.model_text, result.model.name),
        "case": (_same_case(result, row), row.case or row.framework, result.case),
        "device": (same_device, named, result.hardware.device_model),
        "precision": (contract.precision in dtypes, row.precision or row.precision_text, contract.precision),
        "sequence length": (row.batch.seq_len == result.batch.seq_len, row.batch.seq_len, result.batch.seq_len),
        "devices": (where.world_size == result.parallelism.world_size, where.world_size, result.parallelism.world_size),
    }
    return tuple(_said(name, theirs, ours) for name, (fits, theirs, ours) in checks.items() if not fits)


def differences(result: Result, row: PublishedRow) -> tuple[str, ...]:
    """In what else the two differ, the row's side first: told, but no obstacle. What a row does not say is left out."""
    layout, published, batch = result.parallelism, row.parallelism, row.batch
    pairs = {
        "global batch": (batch.global_batch, result.batch.global_batch),
        "precision": (row.precision, result.contract.precision),
        "framework": (row.framework, result.tuning.framework),
        "data set": (row.dataset, result.contract.dataset),
        "TP": (published.tensor_parallel, layout.tensor_parallel),
        "PP": (published.pipeline_parallel, layout.pipeline_parallel),
        "sharding stage": (published.sharding_stage, layout.sharding_stage),
        "micro batch": (batch.micro_batch, result.batch.micro_batch),
    }
    return tuple(
        _said(name, theirs, ours) for name, (theirs, ours) in pairs.items() if theirs is not None and theirs != ours
    )


def throughput(row: PublishedRow) -> float | None:
    """token/p/s: as printed, else that of all devices / their number; None where it is withheld."""
    metrics, number = row.metrics, row.hardware.world_size
    each, whole = metrics.tokens_per_second_per_device, metrics.tokens_per_second
    if each is not None and each.value is not None:
        return each.value or None
    return whole.value / number if whole is not None and whole.value and number else None


def _same_case(result: Result, row: PublishedRow) -> bool:
    """A row without a case of its own is one on the same framework: another trains the same model otherwise."""
    return row.case == result.case if row.case else row.framework == result.tuning.framework


def _said(name: str, theirs: object, ours: object) -> str:
    return f"{name} {'not told' if theirs is None else theirs} (here {ours})"
