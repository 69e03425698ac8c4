"""Steps, tokens, time, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.results.disturbances import drift, drift_text
from llmperf.types import Result, Text, Violation
from llmperf.types.result import DRIFT, MEAN_UNCERTAINTY, UNEVEN_MEAN, UNEVEN_QUANTILES
from llmperf.validation.violations import deviates, differs, figure, rule

STEP_TIME_SLACK = 0.1
"""Each step counts with its slowest rank, so that the mean is longer than any rank's own by as much as the ranks take
turns in being late; an external script states its steps itself. What a rank's own records say is held to 1 %."""
FEWEST_STEPS = 5
"""Fewest steps that are judged."""


@rule("LP201", "error", "token/p/s is tokens / window / devices")
def throughput_per_device(result: Result) -> Iterator[Violation]:
    metrics, devices = result.metrics, result.parallelism.world_size
    found, tokens, window = metrics.tokens_per_second_per_device, metrics.measured_tokens, metrics.window_seconds
    if found is not None and window:
        because = Text("{} tokens / {} s / {} devices", tokens, figure(window), devices)
        path = "/metrics/tokens_per_second_per_device"
        yield from deviates(path, found, tokens / window / devices, because)


@rule("LP202", "error", "Measured tokens are measured steps x tokens per step")
def measured_tokens(result: Result) -> Iterator[Violation]:
    metrics, batch = result.metrics, result.batch
    if result.status == "complete":
        found, path = metrics.measured_tokens, "/metrics/measured_tokens"
        skipped = metrics.skipped_steps or 0
        left = Text("({} - {} skipped)", metrics.measured_steps, skipped) if skipped else metrics.measured_steps
        because = Text("{} steps x {} tokens", left, batch.tokens_per_step)
        expected = (metrics.measured_steps - skipped) * batch.tokens_per_step
        if result.contract.packing == "packed":
            yield from differs(path, found, expected, because)
        elif not 0 < found <= expected:
            yield path, Text("expected 1 to {} ({}, padding not counted), found {}", expected, because, found)


@rule("LP203", "error", "Measured steps are those after the warm-up")
def measured_steps(result: Result) -> Iterator[Violation]:
    contract, found = result.contract, result.metrics.measured_steps
    expected = max(contract.steps - contract.warmup_steps, 0)
    because = Text("{} steps, {} of them warm-up", contract.steps, contract.warmup_steps)
    if result.status == "complete":
        yield from differs("/metrics/measured_steps", found, expected, because)
    elif found > expected:
        yield "/metrics/measured_steps", Text("expected at most {} ({}), found {}", expected, because, found)


@rule("LP204", "error", "tokens/s of all devices is token/p/s x devices")
def throughput_together(result: Result) -> Iterator[Violation]:
    metrics, devices = result.metrics, result.parallelism.world_size
    each, found = metrics.tokens_per_second_per_device, metrics.tokens_per_second
    if each is not None and found is not None:
        because = Text("{} x {} devices", figure(each), devices)
        yield from deviates("/metrics/tokens_per_second", found, each * devices, because)


@rule("LP206", "warning", "The window is as long as its steps")
def window_holds_steps(result: Result) -> Iterator[Violation]:
    metrics = result.metrics
    if metrics.step_seconds is None or metrics.window_seconds is None or not metrics.measured_steps:
        return
    expected = metrics.step_seconds.mean * metrics.measured_steps
    because = Text("{} steps x mean {} s, within 10 %", metrics.measured_steps, figure(metrics.step_seconds.mean))
    yield from deviates("/metrics/window_seconds", metrics.window_seconds, expected, because, STEP_TIME_SLACK)


UNEVEN_STEPS = Text("the steps are very uneven; run again when the host is idle: --wait-until-idle")


@rule("LP209", "warning", "The steps take about the same time")
def even_steps(result: Result) -> Iterator[Violation]:
    steps = result.metrics.step_seconds
    if steps is None or result.metrics.measured_steps < FEWEST_STEPS:
        return
    if steps.mean > UNEVEN_MEAN * steps.median:
        because = Text("{:g} x median {} s", UNEVEN_MEAN, figure(steps.median))
        message = Text("expected at most {}, found {} s: {}", because, figure(steps.mean), UNEVEN_STEPS)
        yield "/metrics/step_seconds/mean", message
    elif steps.p95 > UNEVEN_QUANTILES * steps.p5:
        because = Text("{:g} x 5 % quantile {} s", UNEVEN_QUANTILES, figure(steps.p5))
        message = Text("expected at most {}, found {} s: {}", because, figure(steps.p95), UNEVEN_STEPS)
        yield "/metrics/step_seconds/p95", message


@rule("LP237", "warning", "The steps do not become slower or faster")
def no_drift(result: Result) -> Iterator[Violation]:
    if (change := drift(result)) is not None and result.metrics.step_seconds is not None:
        first, last = result.metrics.step_seconds.quarters[0], result.metrics.step_seconds.quarters[-1]
        medians = Text("median {} s in the first quarter, {} s in the last", figure(first.median), figure(last.median))
        message = Text("{} ({}), expected at most {:.0f} %", drift_text(change), medians, 100 * DRIFT)
        yield "/metrics/step_seconds/quarters", Text("{}; measure longer: --set warmup_steps, --set steps", message)


@rule("LP238", "note", "The mean step is known well")
def mean_known_well(result: Result) -> Iterator[Violation]:
    steps = result.metrics.step_seconds
    if steps is None or steps.mean_low is None or steps.mean_high is None or not steps.mean:
        return
    half = (steps.mean_high - steps.mean_low) / 2 / steps.mean
    if half > MEAN_UNCERTAINTY:
        why = Text(
            "the mean step, and so the throughput, is known to within {:.0f} % only (95 % confidence)", 100 * half
        )
        yield "/metrics/step_seconds", Text("{}, expected at most {:.0f} %", why, 100 * MEAN_UNCERTAINTY)


FEWEST_MEASURED_STEPS = 5
"""Fewer steps say little of the others."""
SHORTEST_SECONDS = 1.0
"""Shortest window that is judged."""


@rule("LP236", "note", "The measured window is long enough")
def long_enough(result: Result) -> Iterator[Violation]:
    steps, seconds = result.metrics.measured_steps, result.metrics.window_seconds
    if result.status != "complete":
        return
    if steps < FEWEST_MEASURED_STEPS:
        yield "/metrics/measured_steps", Text("expected at least {}, found {}", FEWEST_MEASURED_STEPS, steps)
    if seconds is not None and seconds < SHORTEST_SECONDS:
        message = Text("expected at least {} s, found {} s", figure(SHORTEST_SECONDS), figure(seconds))
        yield "/metrics/window_seconds", message
