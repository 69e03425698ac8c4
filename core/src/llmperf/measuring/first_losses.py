"""The losses of the sequences of step 1, as a trainer knows them, recorded before the measured steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llmperf.accounting.layout import reports_loss
from llmperf.errors import PluginError
from llmperf.runfolder.recorder import Recorder
from llmperf.types.plan import Plan
from llmperf.types.records import DeferredScalar, SequencesRecord, Trainer

MOST_SEQUENCES = 2**15
"""Most sequences of a rank in one step. More are not recorded: a record is one line, of bounded length."""


class FirstLosses:
    """Reads a trainer's `first_losses` once and records them."""

    def __init__(self, trainer: Trainer, plan: Plan, recorder: Recorder, rank: int) -> None:
        batch = plan.batch
        self._expected = batch.micro_batch * batch.gradient_accumulation
        self._recorder, self._rank = recorder, rank
        query: Callable[[], object] | None = getattr(trainer, "first_losses", None)
        recorded = plan.spec.contract.warmup_steps > 0 and self._expected <= MOST_SEQUENCES
        self._query = query if recorded and reports_loss(plan.layout, rank) else None
        padded = self._query is not None and plan.spec.contract.packing == "padded"
        self._tokens = learnt_tokens(plan, rank) if padded else None

    def record(self, step_1: float | DeferredScalar | None) -> None:
        """Between the warm-up steps and the measured ones. Does nothing if the trainer does not know the losses.

        `step_1` is the loss of step 1. PluginError if the answer is not one number for each sequence, or one of them is
        not finite though the loss of the step is.
        """
        answer: Any = None if self._query is None else self._query()
        if answer is None:
            return
        whole = isinstance(answer, Sequence) and not isinstance(answer, (str, bytes))
        if not whole or not all(isinstance(loss, (float, int)) and not isinstance(loss, bool) for loss in answer):
            raise self._wrong(" ".join(repr(answer).split())[:80])
        if len(answer) != self._expected:
            raise self._wrong(f"{len(answer)} values")
        infinite = [(index, float(loss)) for index, loss in enumerate(answer) if not math.isfinite(loss)]
        if infinite and step_1 is not None and math.isfinite(float(step_1)):
            index, loss = infinite[0]
            raise self._wrong(f"{loss} for sequence {index}, with a loss of {float(step_1):g} of the step")
        if not infinite:  # otherwise the loss of step 1 ends the run
            losses = tuple(float(loss) for loss in answer)
            self._recorder.write(SequencesRecord(rank=self._rank, losses=losses, tokens=self._tokens))

    def _wrong(self, found: str) -> PluginError:
        expected = f"{self._expected} Python floats, the loss of each sequence of step 1, as first_losses()"
        return PluginError(f"the trainer of llmperf_build_trainer: expected {expected}, found {found}")


def learnt_tokens(plan: Plan, rank: int) -> tuple[int, ...]:
    """The tokens of each sequence of step 1 that a rank learns, by micro step, then row."""
    from llmperf.tokens.draws import position
    from llmperf.tokens.sources import open_samples

    batch, data_parallel_rank = plan.batch, plan.layout.data_parallel_rank(rank)
    samples = open_samples(plan.spec, batch)
    return tuple(
        samples.learnt(position(batch, 0, micro_step, data_parallel_rank, row))
        for micro_step in range(batch.gradient_accumulation)
        for row in range(batch.micro_batch)
    )
