"""Whether a published row and a measured result are of one thing, and in what they still differ."""

from __future__ import annotations

from llmperf.types.published import PublishedRow
from llmperf.types.result import Result

HALF = ("bf16", "fp16")


def misfits(result: Result, row: PublishedRow, same_device: bool) -> tuple[str, ...]:
    """What keeps the two from being held against each other, the row's side first; empty where nothing does.

    Model and case, device, precision, sequence length and the number of devices must be the same. What a row does not
    say is no fit: nobody can tell.
    """
    where = row.hardware
    named = where.device_model or where.device or where.configuration
    checks = {
        "model": (row.model == result.model.name, row.model or row.model_text, result.model.name),
        "case": (_same_case(result, row), row.case or row.framework, result.case),
        "device": (same_device, named, result.hardware.device_model),
        "precision": (_same_precision(result, row), row.precision or row.precision_text, result.contract.precision),
        "sequence length": (row.batch.seq_len == result.batch.seq_len, row.batch.seq_len, result.batch.seq_len),
        "devices": (devices(row) == result.parallelism.world_size, devices(row), result.parallelism.world_size),
    }
    return tuple(_said(name, theirs, ours) for name, (fits, theirs, ours) in checks.items() if not fits)


def differences(result: Result, row: PublishedRow) -> tuple[str, ...]:
    """In what else the two differ, the row's side first: told, but no obstacle. What a row does not say is left out."""
    layout, published, batch = result.parallelism, row.parallelism, row.batch
    pairs = {
        "global batch": (batch.global_batch, result.batch.global_batch),
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
    each, whole, number = row.metrics.tokens_per_second_per_device, row.metrics.tokens_per_second, devices(row)
    if each is not None and each.value is not None:
        return each.value or None
    return whole.value / number if whole is not None and whole.value and number else None


def devices(row: PublishedRow) -> int | None:
    """Accelerators in all; None where the row does not say."""
    where = row.hardware
    return where.nodes * where.devices_per_node if where.nodes and where.devices_per_node else where.devices


def _same_case(result: Result, row: PublishedRow) -> bool:
    """A row without a case of its own is one on the same framework: another trains the same model otherwise."""
    return row.case == result.case if row.case else row.framework == result.tuning.framework


def _same_precision(result: Result, row: PublishedRow) -> bool:
    """`amp` is either dtype of 16 bits."""
    ours = result.contract.precision
    return row.precision == ours or (row.precision is None and "amp" in (row.precision_text or "") and ours in HALF)


def _said(name: str, theirs: object, ours: object) -> str:
    return f"{name} {'not told' if theirs is None else theirs} (here {ours})"
