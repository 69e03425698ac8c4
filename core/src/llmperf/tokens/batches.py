"""Micro batches of token ids for one data-parallel rank, on which every framework trains."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from llmperf.errors import UserError
from llmperf.tokens import known_entropy
from llmperf.tokens.draws import position
from llmperf.tokens.sources import Samples, check_ids, open_samples
from llmperf.types import Batch, Plan

opened: list[str] = []
"""Fingerprints of the data that this process has opened, in order: a rank records the first."""


class TokenBatches:
    """The micro batches of one data-parallel rank, in the order of the run; a context manager.

    Over all ranks, a step has the same samples in every layout, with every micro batch, and in every framework.
    """

    def __init__(self, samples: Samples, batch: Batch, data_parallel_rank: int, vocab_size: int, entropy: float | None):
        self._samples = samples
        self._batch = batch
        self._rank = data_parallel_rank
        self._vocab_size = vocab_size
        self._taken = 0
        self._step_learnt = (-1, 0)
        samples.at(0)  # shuffles the first epoch now, not within the first step
        self.known_entropy = entropy
        """Lower bound of any model's expected loss, in nats per token; None if unknown."""
        self.fingerprint = samples.fingerprint
        """SHA-256 that identifies the data."""
        opened.append(self.fingerprint)
        self.learnt = 0
        """Predicted tokens of the last micro batch: micro_batch x seq_len without padding."""
        self.weight = 1.0
        """Weight of the last micro batch's mean loss in the mean over all micro batches of its step, on all ranks: its
        predicted tokens / the mean of theirs. 1 without padding."""

    def next_micro_batch(self) -> NDArray[np.int64]:
        """The next micro batch, int64 [micro_batch, seq_len + 1]: inputs are [:, :-1], labels [:, 1:].

        After the end of a padded record, ids are `IGNORED` (-100): any id may replace it as input; labels with it do
        not count. UserError for an id outside the model's vocabulary, or if the data are used up.
        """
        steps_before, micro_step = divmod(self._taken, self._batch.gradient_accumulation)
        self._taken += 1
        rows = range(self._batch.micro_batch)
        places = [position(self._batch, steps_before, micro_step, self._rank, row) for row in rows]
        tokens = np.stack([self._samples.at(place) for place in places])
        self.learnt = sum(self._samples.learnt(place) for place in places)
        if self._step_learnt[0] != steps_before:  # predicted tokens of the whole step, over all ranks
            first = steps_before * self._batch.global_batch
            step = range(first, first + self._batch.global_batch)
            self._step_learnt = steps_before, sum(self._samples.learnt(place) for place in step)
        self.weight = self.learnt * self._batch.global_batch / (self._step_learnt[1] * len(places))
        if self.learnt == tokens[:, 1:].size:  # padded records were checked when they were opened
            check_ids(self._samples.where, tokens.reshape(-1), self._vocab_size)
        return tokens

    def close(self) -> None:
        """Close the files; calling it again does nothing."""
        with suppress(AttributeError):
            del self._samples

    def __enter__(self) -> TokenBatches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_batches(plan: Plan, data_parallel_rank: int) -> TokenBatches:
    """The data of a plan for one data-parallel rank, `plan.layout.data_parallel_rank(rank)`.

    UserError if a file is missing or damaged, if there are too few tokens for the plan's steps, or if an id is outside
    the vocabulary.
    """
    if not 0 <= data_parallel_rank < plan.batch.data_parallel:
        raise UserError(f"data-parallel rank {data_parallel_rank} of {plan.batch.data_parallel}")
    samples = open_samples(plan.spec, plan.batch)
    entropy = known_entropy(plan.spec.contract.dataset)
    return TokenBatches(samples, plan.batch, data_parallel_rank, plan.spec.model.vocab_size, entropy)
