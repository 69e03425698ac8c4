"""Nodes and their devices: memory, utilisation, throttling, other programs, waits, stragglers; and divergence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmperf.results.disturbances import all_disturbed, clock_fall, costly_stragglers, lacks_memory, other_programs
from llmperf.types import Model, Result, Text, Violation
from llmperf.types.hosts import FAULTS
from llmperf.types.result import CLOCK_FALL, OTHER_CPU_SHARE
from llmperf.validation.reading import shown
from llmperf.validation.violations import figure, rule


@rule("LP405", "warning", "No device was slowed by heat or by its power supply")
def slowed(result: Result) -> Iterator[Violation]:
    for reason, share in _shares(result, faults=True):
        message = Text("expected none, found {} in {} % of the readings", reason, figure(100 * share))
        yield "/metrics/throttling", message


@rule("LP406", "note", "No device was held back by its power limit, a clock setting or the like")
def held_back(result: Result) -> Iterator[Violation]:
    for reason, share in _shares(result, faults=False):
        yield "/metrics/throttling", Text("{} held a device back in {} % of the readings", reason, figure(100 * share))


@rule("LP409", "warning", "Nothing else computed on the host and its devices")
def undisturbed(result: Result) -> Iterator[Violation]:
    share, others = result.metrics.other_cpu_share, result.metrics.other_processes
    if share is not None and share > OTHER_CPU_SHARE:
        message = Text(
            "other processes used {:.0f} % of the host's cores during the run{}, expected at most {:.0f} %",
            *(100 * share, other_programs(result), 100 * OTHER_CPU_SHARE),
        )
        if all_disturbed(result) and (stragglers := costly_stragglers(result)) is not None:
            message = Text("{}; the others waited for {} there, which may have cost {}", message, *stragglers)
        yield "/metrics/other_cpu_share", Text("{}; run again when the host is idle: --wait-until-idle", message)
    if others:
        message = Text("{} other processes used the devices during the run, expected none", others)
        yield "/metrics/other_processes", message


@rule("LP410", "warning", "The hosts had memory enough")
def memory_enough(result: Result) -> Iterator[Violation]:
    for index, node in enumerate(result.conditions):
        if (lack := lacks_memory(node)) is not None:
            yield f"/conditions/{index}", Text("{} during the run, expected at most {}", lack[0], lack[1])


@rule("LP414", "note", "The clocks of the devices do not fall")
def steady_clocks(result: Result) -> Iterator[Violation]:
    for index, node in enumerate(result.conditions):
        if (fall := clock_fall(node)) is not None:
            first, last = node.clock_hertz[0] or 0.0, node.clock_hertz[-1] or 0.0
            message = Text(
                "the clocks fell by {:.0f} % ({:,.0f} MHz in the first tenth of the measured window, {:,.0f} MHz in the"
                " last), expected at most {:.0f} %",
                *(100 * fall, first / 1e6, last / 1e6, 100 * CLOCK_FALL),
            )
            yield f"/conditions/{index}/clock_hertz", message


def _shares(result: Result, faults: bool) -> Iterator[tuple[str, float]]:
    for reason, share in (result.metrics.throttling or {}).items():
        if share and (reason in FAULTS) == faults:
            yield shown(reason), share


@rule("LP222", "note", "No rank made the others wait for long")
def no_stragglers(result: Result) -> Iterator[Violation]:
    stragglers = costly_stragglers(result)
    if stragglers is not None and not all_disturbed(result):
        who, cost = stragglers
        message = Text("expected none, found {}: the others waited, which may have cost {}", who, cost)
        yield "/waiting/stragglers", message


LOSS_OVER_UNTRAINED = 3.0
"""Nats above an untrained model's loss; a rate of learning that is too high may cost a few for a while."""


def untrained_loss(model: Model) -> float:
    """Loss of fresh weights, in nats per token: guessing among all tokens alike gets ln(vocabulary).

    Half the variance of the output is added: hidden size x std^2, or 1 if the head's rows have unit length.
    """
    variance = 1.0 if model.normalized_head else model.hidden_size * model.initializer_std * model.initializer_std
    return math.log(model.vocab_size) + variance / 2


@rule("LP506", "error", "A complete run did not diverge")
def not_diverged(result: Result) -> Iterator[Violation]:
    found, most = result.metrics.final_loss, untrained_loss(result.model) + LOSS_OVER_UNTRAINED
    if result.status == "complete" and found is not None and found > most:
        limit = Text("{} ({:g} nats above an untrained model)", figure(most), LOSS_OVER_UNTRAINED)
        yield "/metrics/final_loss", Text("expected at most {}, found {}: training diverged", limit, figure(found))
