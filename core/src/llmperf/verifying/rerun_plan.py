"""A submission's run as this machine can train it: the same contract and model, in its own layout or one that fits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from llmperf.cases.fields import check_table
from llmperf.cases.model_facts import check_model
from llmperf.errors import UserError, unknown
from llmperf.files.json_files import builtins
from llmperf.planning.build import plan_only, plan_run
from llmperf.planning.ready import ready
from llmperf.planning.states import Planned, Request, Selection, Site
from llmperf.planning.user_config import UserConfig, own_config
from llmperf.plugins.discovery import names
from llmperf.types.models import Model
from llmperf.types.precision import Precision
from llmperf.types.result import Result
from llmperf.types.spec import Case, Contract, DataSource, Tuning
from llmperf.verifying.own_data import Impossible, own_data

MOST_RANKS = 8
"""Ranks of a rerun on one machine."""
MEMORY_CODES = ("memory_too_small", "memory_estimate_too_large")
"""Problems of plans that need more memory than there is."""
ADVICE = re.compile(r"^use |\bnearest\b|--set\b")
"""Parts of a problem's message that advise other settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunPlan:
    """A run that can be started."""

    planned: Planned
    """The plan, of purpose `rerun`."""
    precision: Precision
    """The recipe that it trains by: the submission's, or fp32 where this machine does not offer that."""
    other_layout: str | None = None
    """Why it is not in the layout and with the tuning of the submission; None if it is."""


def plan_rerun(result: Result, steps: int, framework: str | None) -> RerunPlan:
    """The plan that trains the first `steps` steps of a submission's contract on this machine.

    Only contract and model are taken from the submission, and on the same device model its layout and tuning, with
    which claims can be compared: nothing of its environment, files, commands, paths and framework options.
    `framework` chooses another than the submission's own.
    Impossible, with the reason, where the run cannot be trained here; UserError for an unknown framework.
    """
    config = own_config()
    contract = _checked(result)
    data = own_data(result, config)
    own = _own_layout(result, framework, contract, data, config)
    if isinstance(own, Request):
        return _stopping(own, steps, contract.precision, result.data_fingerprint, None)
    problems: dict[str, str] = {}
    divisible = False
    for name in _frameworks(result, framework):
        for precision, emulated in _recipes(contract.precision, result.tuning.emulate_precision):
            for ranks, stage, checkpointing in _layouts(contract.global_batch):
                if ranks > 1 and divisible:
                    break  # ranks that share a device share its memory
                tuning = Tuning(
                    framework=name,
                    devices=ranks,
                    sharding_stage=stage,
                    gradient_checkpointing=checkpointing,
                    emulate_precision=emulated,
                )
                request = _request(result, replace(contract, precision=precision), tuning, data, config)
                outcome = plan_only(*request)
                divisible = outcome.machine.divisible
                if isinstance(outcome, Planned) and outcome.plan.worker.script is None:
                    return _stopping(request, steps, precision, result.data_fingerprint, own)
                problem = outcome.problems[0] if outcome.problems else None
                why = "it runs a script, which trains all steps" if problem is None else reason(problem.message)
                problems[name] = why
                if problem is None or not (problem.code in MEMORY_CODES or problem.where.startswith("tuning.")):
                    break  # another layout would not help
    first, *others = problems
    neither = f"; nor can {', '.join(others)}" if others else ""
    raise Impossible(f"framework {first} cannot train it: {problems[first]}{neither}")


def reason(message: str) -> str:
    """A problem's message without the settings that it advises, which whoever verifies a result cannot choose."""
    parts = message.split("; ")
    return "; ".join(part for part in parts if not ADVICE.search(part)) or message


def _own_layout(
    result: Result, framework: str | None, contract: Contract, data: DataSource, config: UserConfig
) -> Request | str:
    """The submission's own layout and tuning, if it was on devices of this machine's model; otherwise why not."""
    tuning, hardware = result.tuning, result.hardware
    if framework not in (None, tuning.framework):
        return f"it trained by {tuning.framework}, the rerun by {framework}"
    if tuning.framework not in names("framework"):
        return f"it trained by {tuning.framework}, which is not installed"
    if tuning.nodes > 1:
        return f"it ran on {tuning.nodes} nodes"
    request = _request(result, contract, tuning, data, config)
    if request.site.vendor is None and hardware.vendor in names("vendor"):
        own = replace(request.site, vendor=hardware.vendor)  # not the best device of a machine that has others
        request = request._replace(site=own)
    try:
        outcome = plan_only(*request)
    except UserError as error:
        return f"it ran on {hardware.device_model} ({hardware.vendor}), and here: {error}"
    model = outcome.machine.probe.devices[0].model
    if model != hardware.device_model:
        return f"it ran on {hardware.device_model} ({hardware.vendor}), and this machine has {model}"
    if not isinstance(outcome, Planned):
        return f"its layout cannot run here: {reason(outcome.problems[0].message)}"
    if outcome.machine.divisible and tuning.devices > MOST_RANKS:
        return f"its layout has {tuning.devices} ranks on one device, a rerun at most {MOST_RANKS}"
    return "it runs a script" if outcome.plan.worker.script is not None else request


def _stopping(
    request: Request, steps: int, precision: Precision, fingerprint: str | None, other_layout: str | None
) -> RerunPlan:
    """The plan of a request, with its environment and the expected time, that stops after a number of steps."""
    planned = ready(plan_run(*request))
    if not isinstance(planned, Planned):
        planned.machine.close()
        raise Impossible(reason(planned.problems[0].message))
    plan = replace(planned.plan, purpose="rerun", last_step=steps)
    if fingerprint is not None and plan.data_fingerprint is not None and fingerprint != plan.data_fingerprint:
        planned.machine.close()
        raise Impossible(f"its data set {plan.spec.contract.dataset!r} has other tokens than the one of that name here")
    return RerunPlan(planned=replace(planned, plan=plan), precision=precision, other_layout=other_layout)


def _checked(result: Result) -> Contract:
    """The contract of a submission; Impossible if it or its model exceeds the bounds of cases and models."""
    contract = result.contract
    try:
        check_table(builtins(contract), Contract, "contract")
        check_table(builtins(result.model), Model, "model")
        check_table(builtins(result.tuning), Tuning, "tuning")
        check_model(result.model, "model")
    except UserError as error:
        raise Impossible(str(error)) from None
    if contract.model != result.model.name:
        raise Impossible(f"contract.model is {contract.model!r}, and the facts are those of {result.model.name!r}")
    if contract.lora is not None and contract.lora.dropout > 0:
        dropout = f"contract.lora.dropout is {contract.lora.dropout:g}"
        raise Impossible(f"{dropout}: what it drops depends on framework and layout, and so do the losses")
    return contract


def _frameworks(result: Result, framework: str | None) -> list[str]:
    """The frameworks to try, the submission's own first."""
    installed = sorted(names("framework"))
    if framework is None:
        return sorted(installed, key=lambda name: name != result.tuning.framework)
    if framework not in installed:
        raise unknown("--framework", "framework", framework, installed)
    return [framework]


def _recipes(precision: Precision, emulated: bool) -> Iterator[tuple[Precision, bool]]:
    """Recipes to try, and whether they are emulated: the submission's own first, fp32 last."""
    yield precision, emulated
    if precision.startswith("fp8") and not emulated:
        yield precision, True
    if precision != "fp32":
        yield "fp32", False


def _layouts(global_batch: int) -> Iterator[tuple[int, Literal[0, 1, 3], bool]]:
    """Ranks, sharding stage and gradient checkpointing to try, those that need least memory on a rank last."""
    yield 1, 0, False
    yield 1, 1, False
    yield 1, 0, True
    most = max(ranks for ranks in range(1, MOST_RANKS + 1) if global_batch % ranks == 0)
    if most > 1:
        yield most, 1, False
        yield most, 3, False
        yield most, 3, True


def _request(result: Result, contract: Contract, tuning: Tuning, data: DataSource, config: UserConfig) -> Request:
    case = Case(
        name=result.case, title=result.title, description="", source="", contract=contract, tuning=tuning, data=data
    )
    default = config.tables.default
    python = None if default.environment is None else config.python(default.environment)
    return Request(
        Selection(case.name, given=(case, result.model)),
        Site(vendor=default.vendor, python=None if python is None else (str(python[0]), python[1])),
    )
