"""The recorded losses of the sequences of step 1 against the loss of that step, and against one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf.accounting.layout import reports_loss
from llmperf.runfolder import filenames
from llmperf.types import Finding, SequencesRecord
from llmperf.validation.reading import pointer
from llmperf.validation.rules.reading import SEQUENCES
from llmperf.validation.violations import figure

if TYPE_CHECKING:
    from llmperf.runfolder.contents import RunRecords

ROUNDING = 1e-5
"""Relative, in every recipe: losses are float32, added up in another order. Over the frameworks here at most 2e-7."""
FEWEST_SEQUENCES = 3
"""Two sequences may have equal losses by chance: in float32 about once in 10,000 pairs."""
FEWEST_OF_A_RANK = 2
"""The same of ranks, which have one sequence each at least."""
RANDOM_DATA = "synthetic"
"""The dataset of which no two sequences are equal."""


def sequence_findings(records: RunRecords) -> Iterator[Finding]:
    """Problems of the losses of sequences; nothing if no rank has recorded them."""
    for rank, message in _messages(records):
        path = pointer(["files", f"{filenames.RECORDS}/{filenames.records_path(records.run, rank).name}"])
        yield SEQUENCES.finding(path, message)


def _messages(records: RunRecords) -> Iterator[tuple[int, str]]:
    """Rank and message."""
    for record in records.sequences.values():
        message = _wrong(records, record)
        if message is not None:
            yield record.rank, message
    if records.sequences:
        yield from _missing(records)
    if records.plan.spec.contract.dataset == RANDOM_DATA:
        yield from _repeated(records)


def _wrong(records: RunRecords, record: SequencesRecord) -> str | None:
    plan, losses, tokens = records.plan, record.losses, record.tokens
    batch = plan.batch
    if record.rank >= plan.layout.world_size or not reports_loss(plan.layout, record.rank):
        return f"expected no losses of sequences of rank {record.rank}, which reports no loss, found {len(losses)}"
    expected = batch.micro_batch * batch.gradient_accumulation
    if len(losses) != expected:
        return f"expected the losses of {expected} sequences of step 1, found {len(losses)}"
    padded = plan.spec.contract.packing == "padded"
    if padded != (tokens is not None):
        return (
            f"expected {'the' if padded else 'no'} learnt tokens of each sequence ({plan.spec.contract.packing} data)"
        )
    totals = records.by_rank.get(record.rank)
    first = totals.first if totals is not None else None
    if first is None:
        return None
    if tokens is not None and (len(tokens) != expected or sum(tokens) != first.tokens):
        return f"expected learnt tokens of {expected} sequences that add up to {first.tokens} (step 1), found others"
    weights = tokens or (1,) * expected
    mean = sum(loss * weight for loss, weight in zip(losses, weights, strict=True)) / sum(weights)
    if first.loss is None or abs(mean - first.loss) <= ROUNDING * abs(first.loss):
        return None
    because = f"the loss of step 1 of rank {record.rank}"
    return f"expected losses of sequences with the mean {figure(first.loss)} ({because}), found {figure(mean)}"


def _missing(records: RunRecords) -> Iterator[tuple[int, str]]:
    """A framework that knows the losses knows them on every rank that reports one."""
    layout = records.plan.layout
    for rank in records.ranks:
        if rank.rank < layout.world_size and reports_loss(layout, rank.rank) and rank.rank not in records.sequences:
            yield rank.rank, "expected losses of sequences of step 1, as other ranks have recorded, found none"


def _repeated(records: RunRecords) -> Iterator[tuple[int, str]]:
    """Ranks whose losses are those of another rank, or losses that are all the same."""
    seen: dict[tuple[float, ...], int] = {}
    losses = [loss for record in records.sequences.values() for loss in record.losses]
    if len(losses) >= FEWEST_SEQUENCES and len(set(losses)) == 1:
        yield min(records.sequences), f"expected losses that differ by sequence, found {losses[0]!r} in all"
        return
    for rank, record in records.sequences.items():
        first = seen.setdefault(record.losses, rank)
        if first != rank and len(record.losses) >= FEWEST_OF_A_RANK:
            yield rank, f"expected losses of rank {rank}'s own sequences, found those of rank {first}"
