"""Bounds of losses, and of loss curves of a model that trains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from llmperf import learning_rate
from llmperf.types import Result, Text, Violation
from llmperf.validation import LOSS_OVER_UNTRAINED, MOST_EVEN_POINTS, deviates, figure, rule, untrained_loss

TOKEN_SPREAD = 2.0
"""Standard deviation of one token's loss in nats, generously: text of known entropy has less."""
STANDARD_ERRORS = 5.0
FIRST_LOSS_SLACK = 0.75
"""Nats; weights of another draw move the first loss by a tenth of that."""
FEWEST_POINTS = 4
"""Fewer losses show no pattern."""
GUESSING_NATS = 1e-4
"""Between a loss and ln(vocabulary). Each batch moves the loss of real logits: by 6e-4 nats for a 7B model and a batch
of four million tokens, by more for smaller batches. Logits that are all alike give ln(vocabulary) to rounding."""
FEWEST_DIGITS = 4
"""Decimals from which equal losses are no rounding of a script's output."""
LEARNING_RATES = 0.0075
"""Sum of the learning rates of all steps from which a model has learnt something: AdamW moves a weight by about its
rate in each step, and fresh weights are about 0.02. At a sum of 0.006, a small Llama on a CPU has fallen by 0.013 nats
and a batch of 64 tokens may still hide it; from 0.0075 on, each of 82 honest runs had fallen by LEARNT_NATS."""
LEARNT_NATS = 0.02
"""Less than a hundredth of what there is to learn, and about what one small batch differs from another by."""
RISE_NATS = 0.1
"""Nats that a learning rate without warm-up may cost in the first steps."""


@rule("LP501", "error", "The losses of a complete run are numbers")
def finite(result: Result) -> Iterator[Violation]:
    if result.status != "complete":
        return
    for index, point in enumerate(result.loss_curve):
        if point.nonfinite is not None or point.loss is None:
            found = point.nonfinite or "null"
            yield f"/loss_curve/{index}/loss", Text("expected a number (status is complete), found {}", found[:20])
            return


@rule("LP502", "error", "No loss is below the entropy of the data")
def above_entropy(result: Result) -> Iterator[Violation]:
    if (entropy := result.metrics.known_entropy) is None:
        return
    tokens = result.batch.tokens_per_step
    slack = STANDARD_ERRORS * TOKEN_SPREAD / math.sqrt(tokens)
    losses = [(f"/loss_curve/{index}/loss", point.loss) for index, point in enumerate(result.loss_curve)]
    losses.append(("/metrics/final_loss", result.metrics.final_loss))
    below = [(loss, path) for path, loss in losses if loss is not None and loss < entropy - slack]
    if below:
        loss, path = min(below)
        because = Text("known entropy {} less {} for {} tokens", figure(entropy), figure(slack), tokens)
        yield path, Text("expected at least {} ({}), found {}", figure(entropy - slack), because, figure(loss))


@rule("LP503", "warning", "The first loss is that of an untrained model")
def first_loss_untrained(result: Result) -> Iterator[Violation]:
    found = result.metrics.first_loss
    if found is None or result.contract.lora is not None:
        return
    expected, vocabulary = untrained_loss(result.model), result.model.vocab_size
    if abs(found - expected) > FIRST_LOSS_SLACK:
        half_variance = figure(expected - math.log(vocabulary))
        because = Text("ln {} + {}, within {}", vocabulary, half_variance, FIRST_LOSS_SLACK)
        yield "/metrics/first_loss", Text("expected about {} ({}), found {}", figure(expected), because, figure(found))


@rule("LP504", "error", "First and final loss are those of the loss curve")
def ends_of_the_curve(result: Result) -> Iterator[Violation]:
    curve, metrics = result.loss_curve, result.metrics
    if not curve:
        return
    for name, point in (("first_loss", curve[0]), ("final_loss", curve[-1])):
        found = getattr(metrics, name)
        if found is not None and point.loss is not None:
            because = Text("step {} of the loss curve", point.step)
            yield from deviates(f"/metrics/{name}", found, point.loss, because)
        elif (found is None) != (point.loss is None) and result.status == "complete":
            expected = "null" if point.loss is None else figure(point.loss)
            message = Text("expected {} (step {} of the curve), found {}", expected, point.step, figure(found))
            yield f"/metrics/{name}", message


def distance(steps: int) -> int:
    """Steps from one even point to the next in a run of so many: a power of two, so that curves have common points."""
    every = 1
    while -(-steps // every) > MOST_EVEN_POINTS:
        every *= 2
    return every


@rule("LP505", "error", "The loss curve has each step once")
def every_step(result: Result) -> Iterator[Violation]:
    curve, steps = result.loss_curve, result.contract.steps
    for index, point in enumerate(curve):
        before = curve[index - 1].step if index else 0
        if point.step <= before or point.step > steps:
            expected = Text("steps from 1 to {} in rising order", steps)
            yield f"/loss_curve/{index}/step", Text("expected {}, found {} after {}", expected, point.step, before)
            return
    every = distance(steps)
    if result.status != "complete":
        return
    if result.loss_curve_every != every:
        yield "/loss_curve_every", Text("expected {} (of {} steps), found {}", every, steps, result.loss_curve_every)
        return
    if every == 1:
        if len(curve) != steps:
            yield "/loss_curve", Text("expected {} points (contract.steps), found {}", steps, len(curve))
        return
    even = {*range(1, steps + 1, every), steps}  # and those without a number
    if missing := even - {point.step for point in curve}:
        message = Text("expected one step in {} and the last, found no step {}", every, min(missing))
        yield "/loss_curve", message
    for index, point in enumerate(curve):
        if point.step not in even and point.nonfinite is None:
            yield f"/loss_curve/{index}/step", Text("expected one step in {}, found step {}", every, point.step)
            return


def _losses(result: Result) -> list[float]:
    """The losses of a complete run that has enough of them to show a pattern; none of any other."""
    losses = [point.loss for point in result.loss_curve if point.loss is not None]
    return losses if result.status == "complete" and len(losses) >= FEWEST_POINTS else []


@rule("LP509", "error", "The loss differs from step to step")
def losses_differ(result: Result) -> Iterator[Violation]:
    if not (losses := _losses(result)):
        return
    loss, count = Counter(losses).most_common(1)[0]
    whole = count == len(losses)
    if whole or (count > len(losses) / 2 and round(loss, FEWEST_DIGITS) != loss):
        message = Text("expected another loss in each step, found {!r} in {} of {}", loss, count, len(losses))
        yield "/loss_curve", message


@rule("LP510", "error", "A model does more than guess")
def more_than_guessing(result: Result) -> Iterator[Violation]:
    losses, guess = _losses(result), math.log(result.model.vocab_size)
    guessed = sum(abs(loss - guess) < GUESSING_NATS for loss in losses)
    if guessed > len(losses) / 2:
        what = Text("ln {} = {} within {:g}", result.model.vocab_size, figure(guess), GUESSING_NATS)
        message = Text("expected losses of logits that differ, found {} in {} of {} steps", what, guessed, len(losses))
        yield "/loss_curve", message


@rule("LP512", "warning", "The loss does not end above where it began")
def ends_lower(result: Result) -> Iterator[Violation]:
    if not (losses := _losses(result)):
        return
    last = losses[-max(1, len(losses) // 4) :]
    began = losses[0] if result.contract.lora is not None else max(losses[0], untrained_loss(result.model))
    most = began + RISE_NATS + STANDARD_ERRORS * TOKEN_SPREAD / math.sqrt(result.batch.tokens_per_step)
    if (found := sum(last) / len(last)) > most:
        message = Text(
            "expected a mean of the last {} losses of at most {} (begun at {}), found {}: training diverged, try a"
            " lower --set optimizer.lr",
            *(len(last), figure(most), figure(began), figure(found)),
        )
        yield "/loss_curve", message


@rule("LP513", "warning", "A model that is trained from fresh weights learns")
def learns(result: Result) -> Iterator[Violation]:
    losses, contract = _losses(result), result.contract
    if not losses or contract.lora is not None:
        return
    known = [point.step for point in result.loss_curve if point.loss is not None]
    rates = sum(learning_rate(contract.optimizer, step, contract.steps) for step in known) * result.loss_curve_every
    last = losses[-max(1, len(losses) // 4) :]
    found, began = sum(last) / len(last), losses[0]
    if rates >= LEARNING_RATES and began - LEARNT_NATS < found <= began + RISE_NATS:
        message = Text(
            "expected a mean of the last {} losses of at most {} (first loss {} less {:g}) after {} steps whose"
            " learning rates sum to {}, found {}",
            *(len(last), figure(began - LEARNT_NATS), figure(began), LEARNT_NATS),
            *(known[-1], figure(rates), figure(found)),
        )
        yield "/loss_curve", message


@rule("LP507", "warning", "No loss is far above that of an untrained model")
def no_wild_loss(result: Result) -> Iterator[Violation]:
    most = untrained_loss(result.model) + LOSS_OVER_UNTRAINED
    for index, point in enumerate(result.loss_curve):
        if point.loss is not None and point.loss > most:
            limit = Text("{} ({:g} nats above an untrained model)", figure(most), LOSS_OVER_UNTRAINED)
            found = Text("found {} at step {}", figure(point.loss), point.step)
            yield f"/loss_curve/{index}/loss", Text("expected at most {}, {}", limit, found)
            return
