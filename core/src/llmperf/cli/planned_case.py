"""A case planned to be looked at, for plugins: its plan, its problems, and what else could run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from llmperf.cases.library import whole_library
from llmperf.cases.overlays import Facts, on_other_devices
from llmperf.cases.settings import from_command_line
from llmperf.cli.output import print_json, print_text
from llmperf.cli.plan_text import plan_document, refusals
from llmperf.cli.request import request, say_what_was_left_out
from llmperf.planning.build import plan_only
from llmperf.planning.ready import ready
from llmperf.planning.states import Outcome, Request
from llmperf.running.suggestions import smaller, with_suggestions
from llmperf.types.commands import PlannedCase

NAMED_DEVICES = 2
"""Other devices that a line of settings elsewhere names."""


def planned_case(options: dict[str, Any], on: str | None = None) -> PlannedCase:
    """The case that the options of `request_options` ask for, on this machine or on the one that `--on` names.

    Plugins that were left out of planning are named on standard error.
    """
    return case_of(request(options, on))


def case_of(asked: Request) -> PlannedCase:
    """The case of a request."""
    outcome = ready(plan_only(*asked))
    say_what_was_left_out(outcome)

    def refuse(as_json: bool) -> int:
        advised = with_suggestions(outcome, asked)
        if as_json:
            print_json(plan_document(advised))
        else:
            print_text("\n".join(refusals(advised)))
        return 2

    return PlannedCase(
        plan=outcome.plan,
        problems=outcome.problems,
        assumed_rates=outcome.plugins.rates(outcome.machine.probe.devices[0].model),
        tuned_elsewhere=tuple(_tuned_elsewhere(asked, outcome)),
        smaller=partial(smaller, outcome, asked),
        refuse=refuse,
    )


def _tuned_elsewhere(asked: Request, outcome: Outcome) -> Iterator[str]:
    device, spec = outcome.machine.probe.devices[0], outcome.spec
    actual = Facts(
        case=spec.case,
        device=device.model,
        framework=spec.tuning.framework,
        model=spec.contract.model,
        kind=device.kind,
        ranks=spec.tuning.nodes * spec.tuning.devices,
    )
    given = {setting.path for setting in from_command_line(asked.selection.settings)}
    for devices, settings in on_other_devices(whole_library(), actual, asked.selection.read_case().contract.model):
        named, more = ", ".join(devices[:NAMED_DEVICES]), len(devices) - NAMED_DEVICES
        changed = ", ".join(setting.path.removeprefix("tuning.") for setting in settings if setting.path not in given)
        if changed:
            yield f"{changed} on {named}{f' and {more} more' if more > 0 else ''}"
