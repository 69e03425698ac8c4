"""Whether a loss curve can be that of a model that trains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from llmperf.accounting.schedule import learning_rate
from llmperf.types import Result
from llmperf.validation.catalogue import Violation, rule
from llmperf.validation.comparing import figure
from llmperf.validation.rules.loss import STANDARD_ERRORS, TOKEN_SPREAD, untrained_loss

FEWEST_POINTS = 4
"""Fewer losses show no pattern."""
GUESSING_NATS = 1e-4
"""Between a loss and ln(vocabulary). Each batch moves the loss of real logits: by 6e-4 nats for a 7B model and a batch
of four million tokens, by more for smaller batches. Logits that are all alike give ln(vocabulary) to rounding."""
FEWEST_DIGITS = 4
"""Decimals from which equal losses are no rounding of a script's output."""
LEARNING_RATES = 0.005
"""Sum of the learning rates of all steps from which a model has learnt something: AdamW moves a weight by about its
rate in each step, and fresh weights are about 0.02. A tiny Llama on a CPU falls by 0.09 nats at a sum of 0.003."""
LEARNT_NATS = 0.02
"""Less than a hundredth of what there is to learn, and about what one small batch differs from another by."""
RISE_NATS = 0.1
"""What a learning rate without warm-up may cost in the first steps."""


def _losses(result: Result) -> list[float]:
    return [point.loss for point in result.loss_curve if point.loss is not None]


@rule("LP509", "error", "The loss differs from step to step")
def losses_differ(result: Result) -> Iterator[Violation]:
    """Each step has other tokens, so that even a model that learns nothing has another loss in each."""
    losses = _losses(result)
    if result.status != "complete" or len(losses) < FEWEST_POINTS:
        return
    loss, count = Counter(losses).most_common(1)[0]
    whole = count == len(losses)
    if whole or (count > len(losses) / 2 and round(loss, FEWEST_DIGITS) != loss):
        yield "/loss_curve", f"expected another loss in each step, found {loss!r} in {count} of {len(losses)}"


@rule("LP510", "error", "A model does more than guess")
def more_than_guessing(result: Result) -> Iterator[Violation]:
    """A loss that stays at ln(vocabulary) is that of a model whose output says nothing, such as after it diverged."""
    losses, guess = _losses(result), math.log(result.model.vocab_size)
    if result.status != "complete" or len(losses) < FEWEST_POINTS:
        return
    guessed = sum(abs(loss - guess) < GUESSING_NATS for loss in losses)
    if guessed > len(losses) / 2:
        what = f"ln {result.model.vocab_size} = {figure(guess)} within {GUESSING_NATS:g}"
        yield "/loss_curve", f"expected losses of logits that differ, found {what} in {guessed} of {len(losses)} steps"


@rule("LP512", "warning", "The loss does not end above where it began")
def ends_lower(result: Result) -> Iterator[Violation]:
    """The mean of the last quarter against the first loss, and against that of an untrained model."""
    losses = _losses(result)
    if result.status != "complete" or len(losses) < FEWEST_POINTS:
        return
    last = losses[-max(1, len(losses) // 4) :]
    began = losses[0] if result.contract.lora is not None else max(losses[0], untrained_loss(result.model))
    most = began + RISE_NATS + STANDARD_ERRORS * TOKEN_SPREAD / math.sqrt(result.batch.tokens_per_step)
    if (found := sum(last) / len(last)) > most:
        expected = (
            f"expected a mean of the last {len(last)} losses of at most {figure(most)} (begun at {figure(began)})"
        )
        yield "/loss_curve", f"{expected}, found {figure(found)}: training diverged"


@rule("LP513", "warning", "A model that is trained from fresh weights learns")
def learns(result: Result) -> Iterator[Violation]:
    """Given steps enough, the loss falls; adapters on frozen weights and small learning rates are not judged."""
    losses, contract = _losses(result), result.contract
    if result.status != "complete" or len(losses) < FEWEST_POINTS or contract.lora is not None:
        return
    rates = sum(learning_rate(contract.optimizer, step, contract.steps) for step in range(1, len(losses) + 1))
    last = losses[-max(1, len(losses) // 4) :]
    found, began = sum(last) / len(last), losses[0]
    if rates >= LEARNING_RATES and began - LEARNT_NATS < found <= began + RISE_NATS:
        expected = f"at most {figure(began - LEARNT_NATS)} (first loss {figure(began)} less {LEARNT_NATS:g})"
        because = f"after {len(losses)} steps whose learning rates sum to {figure(rates)}"
        yield (
            "/loss_curve",
            f"expected a mean of the last {len(last)} losses of {expected} {because}, found {figure(found)}",
        )
