"""Published rows as baselines: whether a row and a measured result are of one thing, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from llmperf.types import Baseline, Result
from llmperf.types.devices import normalised
from llmperf.validation import vendor_catalogue

from llmperf_published.rules.machine import devices_of, dtypes_of
from llmperf_published.rules.vendors import vendor_of
from llmperf_published.types.document import Published, PublishedRow

SHIPPED = Path(__file__).parent / "data"
"""The documents of this package, which `--baseline published` names."""


def published_baselines(document: Published, path: Path) -> Iterator[Baseline]:
    """One baseline for each row of a document."""
    for row in document.rows:
        yield Baseline(
            place=f"{document.source.name}:{row.line}",
            model=row.model,
            tokens_per_second_per_device=throughput(row),
            global_batch=row.batch.global_batch,
            misfits=partial(misfits, row, vendor_of(document, row)),
            differences=partial(differences, row),
        )


def misfits(row: PublishedRow, vendor: str | None, result: Result) -> tuple[str, ...]:
    """Reasons why a row must not be compared with a result, the row's value first; empty if it can be.

    Model, case, vendor, device, precision, sequence length and number of devices must be the same. What a row does not
    say does not fit, because it is unknown.
    """
    where, contract = row.hardware, result.contract
    device = where.device_model or where.device or where.configuration
    precision = contract.precision in dtypes_of(row)
    # a row without a case counts as one on the same framework; a variant also as the case named after its own
    named_after = row.variant and result.case.startswith(f"{row.case}_")
    same_case = row.case == result.case or (named_after and row.batch.global_batch == result.batch.global_batch)
    same_case = same_case if row.case else row.framework == result.tuning.framework
    # by the names that the vendor's plugin publishes; a row that names only a family fits each device of it
    own, printed = result.hardware.device_model, where.device_model
    vendors = vendor_catalogue(result.hardware.vendor)
    ours = vendors.exact(own) if vendors else None
    same_name = printed and normalised(printed, result.hardware.vendor) == normalised(own, result.hardware.vendor)
    same_device = bool(same_name or (vendors and ours and ours in devices_of(vendors, row)))
    checks = {
        "model": (row.model == result.model.name, row.model or row.model_text, result.model.name),
        "case": (same_case, row.case or row.framework, result.case),
        "vendor": (vendor in (None, result.hardware.vendor), vendor, result.hardware.vendor),
        "device": (same_device, device, result.hardware.device_model),
        "precision": (precision, row.precision or row.precision_text, contract.precision),
        "sequence length": (row.batch.seq_len == result.batch.seq_len, row.batch.seq_len, result.batch.seq_len),
        "devices": (where.world_size == result.parallelism.world_size, where.world_size, result.parallelism.world_size),
    }
    return tuple(_pair(name, theirs, ours) for name, (fits, theirs, ours) in checks.items() if not fits)


def differences(row: PublishedRow, result: Result) -> tuple[str, ...]:
    """In what else the two differ, the row's value first. What a row does not say is left out."""
    layout, published, batch, where = result.parallelism, row.parallelism, row.batch, row.hardware
    family = () if where.device_model else (f"device, which it only calls {where.device}",)
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
    different = {name: (theirs, ours) for name, (theirs, ours) in pairs.items() if theirs not in (None, ours)}
    return (*family, *(_pair(name, theirs, ours) for name, (theirs, ours) in different.items()))


def throughput(row: PublishedRow) -> float | None:
    """token/p/s: as printed, else that of all devices / their number; None if it is withheld."""
    metrics, number = row.metrics, row.hardware.world_size
    each, whole = metrics.tokens_per_second_per_device, metrics.tokens_per_second
    if each is not None and each.value is not None:
        return each.value or None
    return whole.value / number if whole is not None and whole.value and number else None


def _pair(name: str, theirs: object, ours: object) -> str:
    return f"{name} {'not given' if theirs is None else theirs} (here {ours})"
