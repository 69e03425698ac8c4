"""Checks of a framework plugin's plans and refusals, and of how it reads a script's output."""

from __future__ import annotations

import time
from dataclasses import replace
from math import prod
from pathlib import PurePosixPath
from typing import get_args

import llmperf
from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.planning.problems import precision_problems
from llmperf.plugins.faults import who
from llmperf.types import Precision, Problem, RunSpec, WorkerPlan

from llmperf_testing.check import ContractError, Skip, check, require
from llmperf_testing.checks.announced import answers_what_its_role_must, is_loaded
from llmperf_testing.checks.probe import RUNTIMES, require_line
from llmperf_testing.framework import FrameworkSubject

OPTION = "no_such_option_9000"
ODD_LINES = (
    "",
    " \t ",
    "step",
    "step one | loss two",
    "iteration -1/ 0 | loss: nan | elapsed: inf",
    "loss 1e999 tokens 9999999999999999999999 step 99999999999999999999",
    "[rank0]: Traceback (most recent call last):",
    '{"step": null, "loss": [1, 2], "seconds": "soon"}',
    "\x1b[31mstep 3\x1b[0m \ufffd\x00\x07 \u4e2d\u6587",
    "=" * 65_536,
    "step 1 | " * 7_000,
)
"""Lines that a script may print besides those that the plugin knows."""


@check(is_loaded, answers_what_its_role_must)
def plan_has_its_shape(subject: FrameworkSubject) -> None:
    """`llmperf_plan_workers` raises nothing and gives a WorkerPlan that a plan can hold."""
    worker = subject.answer()
    if not isinstance(worker, WorkerPlan):
        raise ContractError(f"expected a WorkerPlan, found {type(worker).__name__}")
    try:
        same = json_files.decode(json_files.encode(worker), WorkerPlan, "WorkerPlan") == worker
    except (UserError, TypeError, ValueError) as error:
        raise ContractError(f"plan.json cannot hold it: {error}") from None
    require(same, "read back from plan.json it is another; expected tuples, texts and whole numbers as in the types")


@check(plan_has_its_shape)
def plans_the_default_case(subject: FrameworkSubject) -> None:
    """The default case on a tiny model, with adapters if it trains nothing else, can be planned without a problem."""
    problems = subject.draft.problems
    require(not problems, "; ".join(f"{one.where}: {one.message}" for one in problems))


@check(plan_has_its_shape)
def layout_is_what_was_asked_for(subject: FrameworkSubject) -> None:
    """Its layout has as many ranks as the case asks for, and they fit together."""
    layout, tuning = subject.worker.layout, subject.draft.spec.tuning
    asked = tuning.nodes * tuning.devices
    require(layout.world_size == asked, f"{asked} ranks were asked for, the layout has {layout.world_size}")
    product = prod(layout.degrees.values())
    require(product == asked, f"{' x '.join(layout.degrees)} parallel is {product}; expected {asked}")


@check(plan_has_its_shape)
def agent_is_an_argv(subject: FrameworkSubject) -> None:
    """The agent command is a list of words, never a shell line."""
    script = subject.worker.script
    for what, argv in (("agent", subject.worker.agent), ("script.command", script.command if script else ("-",))):
        require(argv, f"{what} is empty; expected llmperf.agent_argv() or the framework's own")
        bad = [word for word in argv if not isinstance(word, str) or "\0" in word]
        require(not bad, f"{what}: {bad!r}: expected words")
        shell = PurePosixPath(argv[0]).name in ("sh", "bash", "zsh") and "-c" in argv
        require(not shell and (len(argv) > 1 or " " not in argv[0]), f"{what}: {list(argv)!r} is a shell's line")


@check(plan_has_its_shape)
def files_stay_in_the_run_folder(subject: FrameworkSubject) -> None:
    """Its configuration files have names inside the run folder."""
    for name in subject.worker.files:
        path = PurePosixPath(name)
        inside = path.parts and not path.is_absolute() and ".." not in path.parts and "\\" not in name
        require(inside and "\0" not in name, f"file {name!r}: expected a name inside the run folder")


@check(plan_has_its_shape)
def rank_variables_are_names(subject: FrameworkSubject) -> None:
    """The variables of each rank have names and values that an environment can hold."""
    for name, value in subject.worker.rank_env.items():
        require(name.isidentifier() and name.isascii(), f"rank_env {name!r}: expected letters, digits and _")
        require("\0" not in value, f"rank_env {name}: expected text, found {value!r}")


@check(plan_has_its_shape)
def plans_the_same_twice(subject: FrameworkSubject) -> None:
    """The same case on the same devices gives the same plan."""
    require(subject.answer("again") == subject.answer(), "asked again, it plans otherwise")


@check(plan_has_its_shape)
def planning_loads_no_tensor_library(subject: FrameworkSubject) -> None:
    """Planning happens in the controller, which imports no tensor library."""
    fresh = subject.fresh
    require(fresh.hook_error is None, f"in a fresh process planning raised {fresh.hook_error}")
    brought = sorted(set(fresh.heavy_after_hook) - set(fresh.heavy_imports))
    require(not brought, f"after llmperf_plan_workers {', '.join(brought)} is loaded")


@check(plan_has_its_shape)
def unknown_option_is_refused(subject: FrameworkSubject) -> None:
    """An option that it does not have is a Problem that names it, not passed over."""
    spec = subject.draft.spec
    changed = replace(spec, framework={**spec.framework, OPTION: 1})
    problems = _problems(subject, "option", changed)
    named = [one for one in problems if OPTION in one.where or OPTION in one.message]
    found = "; ".join(f"{one.where}: {one.message}" for one in problems) or "none"
    require(named, f"framework.{OPTION}=1: expected a Problem at framework.{OPTION}, found {found}")


@check(plan_has_its_shape)
def unsupported_precision_is_refused(subject: FrameworkSubject) -> None:
    """A precision that the devices do not offer is refused; one that they offer is the one it computes in."""
    spec, probe = subject.draft.spec, subject.draft.machine.probe
    for precision in get_args(Precision):
        recipe = llmperf.precision_recipe(precision)
        asked = replace(spec, contract=replace(spec.contract, precision=recipe.name))
        worker = subject.answer(precision, asked)
        refused = [*precision_problems(asked, worker, probe), *worker.problems]
        names_precision = any("precision" in one.where for one in refused)
        needs = f"without a Problem it needs {worker.needs.precision}, expected {recipe.products}"
        same = worker.needs.precision == recipe.products
        require(names_precision or same, f"{precision} was asked for; {needs}")
        offered = recipe.products in probe.offers.precisions
        require(names_precision or offered, f"{precision}, which {probe.vendor} does not offer: expected a Problem")


@check(plan_has_its_shape)
def needs_a_known_runtime(subject: FrameworkSubject) -> None:
    """It names the runtime that it runs on, which a vendor may offer."""
    runtime = subject.worker.needs.runtime
    require_line(runtime, "needs.runtime")
    if runtime not in RUNTIMES:
        raise Skip(f"runtime {runtime!r} is none of {', '.join(RUNTIMES)}; no vendor here may offer it")


@check(plan_has_its_shape)
def ranks_that_do_not_divide_are_refused(subject: FrameworkSubject) -> None:
    """Ranks that the batch or the model cannot be divided over are refused in a line; the plugin raises nothing."""
    spec = subject.draft.spec
    for name, tuning in (
        ("7 ranks", replace(spec.tuning, devices=7)),
        ("tensor parallel 3", replace(spec.tuning, devices=3, tensor_parallel=3)),
        ("pipeline parallel 3", replace(spec.tuning, devices=3, pipeline_parallel=3)),
    ):
        _problems(subject, name, replace(spec, tuning=tuning))
    refused = subject.drafted("devices=7", "tensor_parallel=1", "pipeline_parallel=1")
    require(refused.problems, "7 ranks for a batch of 4: expected a Problem")


@check(plan_has_its_shape, unknown_option_is_refused)
def refusals_are_lines(subject: FrameworkSubject) -> None:
    """Each Problem says in one line what was expected and where."""
    spec = subject.draft.spec
    asked = replace(spec, framework={**spec.framework, OPTION: 1}, tuning=replace(spec.tuning, attention="flash"))
    for one in _problems(subject, "lines", asked):
        require_line(one.where, "Problem.where")
        require_line(one.message, f"the message of the Problem at {one.where}")
        first = one.where.split(".")[0]
        parts = ("contract", "tuning", "framework", "data", "model")
        require(first in parts, f"Problem.where {one.where!r}: expected a path that begins with {', '.join(parts)}")


def _problems(subject: FrameworkSubject, change: str, spec: RunSpec) -> tuple[Problem, ...]:
    worker = subject.answer(change, spec)
    require(isinstance(worker, WorkerPlan), f"{change}: expected a WorkerPlan, found {type(worker).__name__}")
    return tuple(worker.problems)


@check(is_loaded)
def odd_lines_are_parsed(subject: FrameworkSubject) -> None:
    """`llmperf_parse_log` raises nothing and gives valid answers, or none, for any line that a script may print."""
    if not subject.plugins.answers("llmperf_parse_log"):
        raise Skip("it does not answer llmperf_parse_log")
    from llmperf_scripts.steps import logged_in

    owner = who(subject.plugins.owner("llmperf_parse_log"))
    for line in ODD_LINES:
        began = time.perf_counter()
        try:
            logged_in(line, subject.plugins.several, owner)
        except LlmperfError as error:
            raise ContractError(f"{line[:60]!r}: {error}") from None
        took = time.perf_counter() - began
        require(took < 1.0, f"{line[:60]!r}: one line took {took:.1f} s to parse")
