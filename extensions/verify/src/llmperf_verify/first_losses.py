"""The losses of the sequences of step 1: recorded before the measured steps, and held against the loss of that step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from llmperf import decode
from llmperf.errors import PluginError, UserError
from llmperf.types import DeferredScalar, Layout, Plan, RankRecords, Text, Trainer, Violation
from llmperf.types.units import Count, Positive
from llmperf.validation import RunRecords, figure, pointer, rule

MOST_SEQUENCES = 2**15
"""Most sequences of a rank in one step. More are not recorded: a record is one line, of bounded length."""
IGNORED = -100
"""The id after the end of a padded record."""
ROUNDING = 1e-5
"""Relative, in every recipe: losses are float32, added up in another order. Over the frameworks here at most 2e-7."""
FEWEST_SEQUENCES = 3
"""Two sequences may have equal losses by chance: in float32 about once in 10,000 pairs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencesRecord:
    """The losses of a rank's sequences of step 1, written once, before the measured steps.

    Anyone can compute them from the plan alone: the initial weights and the data of step 1 follow from it. Entry i of
    data-parallel rank d is place `position(batch, 0, i // micro_batch, d, i % micro_batch)` of the global order.
    Written only by ranks that report a loss: one for each data-parallel rank.
    """

    kind: Literal["sequences"] = "sequences"
    """Kind of the record."""
    rank: Count
    """The rank."""
    losses: tuple[float, ...]
    """Mean cross entropy of each sequence in nats per token, by micro step, then row."""
    tokens: tuple[Positive, ...] | None = None
    """Tokens of each sequence that are learnt, of padded data; None if each is `contract.seq_len`."""


def reports_loss(layout: Layout, rank: int) -> bool:
    """Check whether a rank reports a loss: the first of those that share its sequences, on the last pipeline stage."""
    shared = layout.coordinate(rank, "tensor") or layout.coordinate(rank, "context")
    return not shared and layout.coordinate(rank, "pipeline") == layout.pipeline_parallel - 1


def first_losses(plan: Plan, rank: int, trainer: Trainer) -> Iterator[RankRecords]:
    """Reads a trainer's `first_losses` once, between the warm-up steps and the measured ones."""
    query: Callable[[], object] | None = getattr(trainer, "first_losses", None)
    batch, contract = plan.batch, plan.spec.contract
    expected = batch.micro_batch * batch.gradient_accumulation
    wanted = contract.warmup_steps > 0 and expected <= MOST_SEQUENCES and reports_loss(plan.layout, rank)
    if query is None or not wanted:
        return
    tokens = None
    if contract.packing == "padded":
        from llmperf import open_batches

        with open_batches(plan, plan.layout.data_parallel_rank(rank)) as batches:
            parts = [batches.next_micro_batch() for _ in range(batch.gradient_accumulation)]
        tokens = tuple(int(count) for part in parts for count in (part[:, 1:] != IGNORED).sum(axis=1))

    def record(step_1: float | DeferredScalar | None) -> SequencesRecord | None:
        """PluginError if the answer is not one number per sequence, finite if the loss of the step is."""
        answer: Any = query()
        if answer is None:
            return None
        whole = isinstance(answer, Sequence) and not isinstance(answer, (str, bytes))
        if not whole or not all(isinstance(loss, (float, int)) and not isinstance(loss, bool) for loss in answer):
            raise wrong(" ".join(repr(answer).split())[:80])
        if len(answer) != expected:
            raise wrong(f"{len(answer)} values")
        infinite = [(index, float(loss)) for index, loss in enumerate(answer) if not math.isfinite(loss)]
        if infinite and step_1 is not None and math.isfinite(float(step_1)):
            index, loss = infinite[0]
            raise wrong(f"{loss} for sequence {index}, with a loss of {float(step_1):g} of the step")
        if infinite:  # the loss of step 1 ends the run
            return None
        return SequencesRecord(rank=rank, losses=tuple(map(float, answer)), tokens=tokens)

    def wrong(found: str) -> PluginError:
        losses = f"{expected} Python floats, the loss of each sequence of step 1, as first_losses()"
        return PluginError(f"the trainer of llmperf_build_trainer: expected {losses}, found {found}")

    yield RankRecords(kind="sequences", warmed_up=record)


@rule("LP235", "error", "The losses of sequences are those of step 1", "run")
def sequences(records: RunRecords) -> Iterator[Violation]:
    """Yields what is wrong with the losses of sequences; nothing if no rank has recorded them."""
    of_ranks: dict[int, SequencesRecord] = {}
    found: list[tuple[int, str]] = []
    for rank, record in records.further.get("sequences", {}).items():
        try:
            of_ranks[rank] = decode(record.line, SequencesRecord, "sequences")
        except UserError:
            unread = Text("expected the losses of sequences, found an unreadable record of losses of sequences")
            found.append((rank, unread))
        else:
            found += [(rank, message) for message in _wrong(records, of_ranks[rank])]
    if of_ranks:  # a framework that knows the losses knows them on every rank that reports one
        layout = records.plan.layout
        ranks = [rank.rank for rank in records.ranks if rank.rank not in of_ranks and rank.rank < layout.world_size]
        none = Text("expected losses of sequences of step 1, as other ranks have recorded, found none")
        found += [(rank, none) for rank in ranks if reports_loss(layout, rank)]
    if records.plan.spec.contract.dataset == "synthetic":  # no two sequences are equal
        found += _repeated(of_ranks)
    for rank, message in found:
        yield pointer(["files", f"records/rank-{rank:05}.jsonl"]), message


def _wrong(records: RunRecords, record: SequencesRecord) -> Iterator[str]:
    """Yields the first thing that is wrong with the losses of one rank."""
    plan, losses, tokens = records.plan, record.losses, record.tokens
    batch, packing = plan.batch, plan.spec.contract.packing
    expected = batch.micro_batch * batch.gradient_accumulation
    first = totals.first if (totals := records.by_rank.get(record.rank)) is not None else None
    if record.rank >= plan.layout.world_size or not reports_loss(plan.layout, record.rank):
        yield Text(
            "expected no losses of sequences of rank {}, which reports no loss, found {}", record.rank, len(losses)
        )
    elif len(losses) != expected:
        yield Text("expected the losses of {} sequences of step 1, found {}", expected, len(losses))
    elif (packing == "padded") != (tokens is not None):
        some = "expected the learnt tokens of each sequence ({} data)"
        none = "expected no learnt tokens of each sequence ({} data)"
        yield Text(none if tokens else some, packing)
    elif first is None:
        return
    elif tokens is not None and (len(tokens) != expected or sum(tokens) != first.tokens):
        yield Text(
            "expected learnt tokens of {} sequences that add up to {} (step 1), found others", expected, first.tokens
        )
    elif first.loss is not None:
        weights = tokens or (1,) * expected
        mean = sum(loss * weight for loss, weight in zip(losses, weights, strict=True)) / sum(weights)
        if not abs(mean - first.loss) <= ROUNDING * abs(first.loss):
            because = Text("the loss of step 1 of rank {}", record.rank)
            yield Text(
                "expected losses of sequences with the mean {} ({}), found {}",
                *(figure(first.loss), because, figure(mean)),
            )


def _repeated(records: dict[int, SequencesRecord]) -> Iterator[tuple[int, str]]:
    """Ranks whose losses are those of another rank, or losses that are all the same."""
    seen: dict[tuple[float, ...], int] = {}
    losses = [loss for record in records.values() for loss in record.losses]
    if len(losses) >= FEWEST_SEQUENCES and len(set(losses)) == 1:
        yield min(records), Text("expected losses that differ by sequence, found {!r} in all", losses[0])
        return
    for rank, record in records.items():
        first = seen.setdefault(record.losses, rank)
        if first != rank and len(record.losses) > 1:
            yield rank, Text("expected losses of rank {}'s own sequences, found those of rank {}", rank, first)
