"""A submission's run as this machine can train it: the same contract and model, in its own layout or one that fits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Literal

from llmperf import GivenRun
from llmperf.errors import UserError, unknown
from llmperf.types import Case, Contract, DataSource, Plan, Precision, Result, Text, Tuning

from llmperf_verify.documents import Impossible, own_data

MOST_RANKS = 8
"""Ranks of a rerun on one machine."""
MEMORY_CODES = ("memory_too_small", "memory_estimate_too_large")
"""Problems of plans that need more memory than there is."""
ADVICE = re.compile(r"^use |\bnearest\b|--set\b")
"""Parts of a problem's message that advise other settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunPlan:
    """A run that can be started."""

    run: GivenRun
    """The run, prepared."""
    plan: Plan
    precision: Precision
    """The recipe that it trains by: the submission's, or fp32 where this machine does not offer that."""
    other_layout: str | None = None
    """The reason why it is not in the layout and with the tuning of the submission; None if it is."""


def plan_rerun(result: Result, steps: int, framework: str | None) -> RerunPlan:
    """The plan that trains the first `steps` steps of a submission's contract on this machine.

    Only contract and model are taken from the submission, and on the same device model its layout and tuning: no
    environment, files, commands, paths and framework options. Impossible where the run cannot be trained here.
    """
    contract = _checked(result)
    data = own_data(result)
    own = _own_layout(result, framework, contract, data)
    if isinstance(own, GivenRun):
        return _stopping(own, steps, contract.precision, result.data_fingerprint, None)
    known, problems, divisible = installed("framework"), dict[str, str](), False
    if framework is None:
        frameworks = sorted(known, key=lambda name: name != result.tuning.framework)
    elif framework in known:
        frameworks = [framework]
    else:
        raise unknown("--framework", "framework", framework, known)
    for name in frameworks:
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
                run = GivenRun(_case(result, replace(contract, precision=precision), tuning, data), result.model)
                divisible = run.divisible
                if not run.problems and run.plan is not None and run.plan.worker.script is None:
                    return _stopping(run, steps, precision, result.data_fingerprint, own)
                problem = run.problems[0] if run.problems else None
                why = Text("it runs a script, which trains all steps") if problem is None else reason(problem.message)
                problems[name] = why
                if problem is None or not (problem.code in MEMORY_CODES or problem.where.startswith("tuning.")):
                    break  # another layout would not help
    first, *others = problems
    neither = Text("; nor can {}", ", ".join(others)) if others else ""
    raise Impossible(Text("framework {} cannot train it: {}{}", first, problems[first], neither))


def reason(message: str) -> str:
    """A problem's message without the settings that it advises, which whoever verifies a result cannot choose."""
    parts = message.split("; ")
    return "; ".join(part for part in parts if not ADVICE.search(part)) or message


def _own_layout(result: Result, framework: str | None, contract: Contract, data: DataSource) -> GivenRun | str:
    """The submission's own layout and tuning, if it was on devices of this machine's model; otherwise why not."""
    tuning, hardware = result.tuning, result.hardware
    if framework not in (None, tuning.framework):
        return Text("it trained by {}, the rerun by {}", tuning.framework, framework)
    if tuning.framework not in installed("framework"):
        return Text("it trained by {}, which is not installed", tuning.framework)
    if tuning.nodes > 1:
        return Text("it ran on {} nodes", tuning.nodes)
    # not the best device of a machine that has others
    vendor = hardware.vendor if hardware.vendor in installed("vendor") else None
    try:
        run = GivenRun(_case(result, contract, tuning, data), result.model, vendor)
    except UserError as error:
        return Text("it ran on {} ({}), and here: {}", hardware.device_model, hardware.vendor, error)
    if run.device_model != hardware.device_model:
        return Text(
            "it ran on {} ({}), and this machine has {}", hardware.device_model, hardware.vendor, run.device_model
        )
    if run.problems:
        return Text("its layout cannot run here: {}", reason(run.problems[0].message))
    if run.divisible and tuning.devices > MOST_RANKS:
        return Text("its layout has {} ranks on one device, a rerun at most {}", tuning.devices, MOST_RANKS)
    return Text("it runs a script") if run.plan is None or run.plan.worker.script is not None else run


def _stopping(
    run: GivenRun, steps: int, precision: Precision, fingerprint: str | None, other_layout: str | None
) -> RerunPlan:
    """The plan of a run, with its environment and the expected time, that stops after a number of steps."""
    try:
        plan = run.prepare(steps)
    except UserError as error:
        raise Impossible(reason(str(error))) from None
    if fingerprint is not None and plan.data_fingerprint is not None and fingerprint != plan.data_fingerprint:
        run.close()
        message = Text("its data set {!r} has other tokens than the one of that name here", plan.spec.contract.dataset)
        raise Impossible(message)
    return RerunPlan(run=run, plan=plan, precision=precision, other_layout=other_layout)


def _checked(result: Result) -> Contract:
    """The contract of a submission; Impossible if it or its model exceeds all bounds, or no rerun can follow it."""
    contract = result.contract
    try:
        GivenRun.check(_case(result, contract, result.tuning, DataSource()), result.model)
    except UserError as error:
        raise Impossible(str(error)) from None
    if contract.model != result.model.name:
        message = Text("contract.model is {!r}, and the facts are those of {!r}", contract.model, result.model.name)
        raise Impossible(message)
    if contract.lora is not None and contract.lora.dropout > 0:
        template = "contract.lora.dropout is {:g}: what it drops depends on framework and layout, and so do the losses"
        raise Impossible(Text(template, contract.lora.dropout))
    return contract


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


def installed(role: str) -> list[str]:
    """Names of the installed plugins of a role, sorted; none is loaded."""
    return sorted({point.name for point in entry_points(group=f"llmperf.{role}.v1")})


def _case(result: Result, contract: Contract, tuning: Tuning, data: DataSource) -> Case:
    return Case(
        name=result.case, title=result.title, description="", source="", contract=contract, tuning=tuning, data=data
    )
