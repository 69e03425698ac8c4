"""Makes a plan, in the states Request -> Resolved -> Planned | Refused."""

from __future__ import annotations

import datetime
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from llmperf.accounting.flops import flops_of, workload_of
from llmperf.accounting.layout import standard_layout
from llmperf.accounting.optimiser_step import batch_of
from llmperf.cases.library import Library, library
from llmperf.cases.overlays import Facts, overlay_settings
from llmperf.cases.resolve import Available, resolve
from llmperf.cases.settings import Setting
from llmperf.errors import PluginError, UserError
from llmperf.planning.checks import Checked, checked
from llmperf.planning.fitting import nearest_fitting
from llmperf.planning.injection import injecting
from llmperf.planning.measured_rates import rates_of
from llmperf.planning.nodes import LOCAL, by_interpreter, installed_problem, machine_of, packages_problem
from llmperf.planning.peak import NOT_ASKED, peaks_of
from llmperf.planning.problems import (
    data_problems,
    machine_problems,
    memory_problems,
    need_problems,
    padding_problems,
    precision_problems,
    routing_problems,
    setting_problems,
    size_problems,
    state_bytes,
    worker_problems,
)
from llmperf.planning.requested_nodes import node_request
from llmperf.planning.states import Arithmetic, Outcome, Planned, Refused, Request, Resolved
from llmperf.planning.vendors import Machine, machine_elsewhere
from llmperf.plugins.discovery import names
from llmperf.plugins.loading import Plugins, load_for
from llmperf.plugins.own_packages import published_package
from llmperf.tokens.preflight import data_fingerprint
from llmperf.types import Case, Plan, Problem, Script, WorkerPlan


def plan_run(request: Request) -> Outcome:
    """The plan of a run, or every reason why it cannot be started.

    Raises UserError if the request itself is invalid: an unknown case, path, vendor or model, or no device.
    """
    resolved = resolve_request(request)
    try:
        return _planned(resolved)
    except BaseException:
        give_back(resolved.machine, request)
        raise


def plan_only(request: Request) -> Outcome:
    """The same for a run that is not started from this plan: what its launcher has taken is given back."""
    outcome = plan_run(request)
    give_back(outcome.machine, request)
    return outcome


def give_back(machine: Machine, request: Request) -> None:
    """Give back what the launcher has taken for a request, unless other runs use the same nodes."""
    if request.nodes_in_use is None:
        machine.close()


def _planned(resolved: Resolved) -> Outcome:
    draft, problems = _draft(resolved)
    if draft is None:
        return Refused(resolved=resolved, problems=tuple(problems), plan=None)
    plan, problems = draft.plan, [*problems, *_memory_problems(resolved, draft, search=not problems)]
    if problems:
        return Refused(resolved=resolved, problems=tuple(problems), plan=replace(plan, problems=tuple(problems)))
    return Planned(resolved=resolved, plan=plan)


def _draft(resolved: Resolved) -> tuple[Checked | None, list[Problem]]:
    """The checked plan, None if there is no layout, and all its problems but those of memory and of checks."""
    worker, framework_problems = _framework_answer(resolved)
    problems = [*resolved.problems, *framework_problems]
    if worker is None or resolved.arithmetic is None:
        return None, problems
    draft = Checked(_plan(resolved, resolved.arithmetic, worker), [], True)
    faulty = any(problem.code == "framework_fault" for problem in problems)
    return draft if faulty else checked(draft.plan, resolved.plugins), problems


def _memory_problems(resolved: Resolved, draft: Checked, search: bool) -> list[Problem]:
    """Model states beyond the memory of the devices, or what checks found; with the nearest that fits if `search`."""
    plan = draft.plan
    states = memory_problems(plan.state_bytes_per_stage, plan.probe, plan.device_share)
    problems = states or (draft.problems if resolved.request.preflight else [])
    of_memory = all(problem.code.startswith("memory_") for problem in problems)
    if not (problems and search and of_memory) or resolved.request.skip_peak_and_env:
        return problems
    nearest = nearest_fitting(plan, lambda settings: _fits_with(resolved, settings))
    suggestion = "" if nearest is None else f"; nearest that fits: {nearest}"
    return [replace(problem, message=problem.message + suggestion) for problem in problems]


def _fits_with(resolved: Resolved, settings: Sequence[str]) -> bool:
    """Whether the same request with further settings has no problems and fits."""
    request = replace(resolved.request, settings=(*resolved.request.settings, *settings), skip_peak_and_env=True)
    try:
        draft, problems = _draft(_resolved(request.read_case(), resolved.machine, request))
    except (UserError, PluginError):
        return False
    return draft is not None and not problems and draft.fits


def resolve_request(request: Request) -> Resolved:
    """The case, the machine and the plugins of a request, with their problems.

    Raises UserError as `plan_run` does.
    """
    case = request.read_case()
    machine = _machine(case, request)
    try:
        return _resolved(case, machine, request)
    except BaseException:
        give_back(machine, request)
        raise


def _resolved(case: Case, machine: Machine, request: Request) -> Resolved:
    settings = request.command_line(machine)
    framework = _last(settings, "tuning.framework", case.tuning.framework)
    plugins, missing = _load(machine, framework, request)
    shelf = library(plugins)
    model = _last(settings, "contract.model", case.contract.model)
    facts = _facts(case, machine, framework, model, settings)
    models, overlays = request.models(shelf, model), Library() if request.given else shelf
    overlaid = overlay_settings(overlays, facts, case.contract.model, request.overlays)
    spec, contract_problems = resolve(case, models, [*overlaid, *settings], _available(machine), request.challenge)
    unmet = installed_problem(machine, "vendor", machine.vendor) if machine.here else None
    problems = [Problem(code="vendor_unusable", where="--vendor", message=unmet)] if unmet else []
    problems += [*missing, *machine_problems(spec, machine), *size_problems(spec), *contract_problems]
    arithmetic = None
    if not contract_problems:
        layout = standard_layout(spec)
        arithmetic = Arithmetic(layout=layout, batch=batch_of(spec.contract, spec.tuning, layout.data_parallel))
        problems += data_problems(spec, arithmetic.batch, machine)
    return Resolved(
        request=request,
        spec=spec,
        machine=machine,
        plugins=plugins,
        flops=flops_of(plugins, spec.model, workload_of(spec.model, spec.contract, spec.tuning)),
        arithmetic=arithmetic,
        problems=tuple(problems),
    )


def _machine(case: Case, request: Request) -> Machine:
    """The machine that `--on` names, or else the nodes that the launcher offers."""
    if request.on is not None:
        return machine_elsewhere(request.on, request.vendor)
    asked = (request.vendor, request.launcher, node_request(case, request), request.python)
    if request.nodes_in_use is not None:
        return request.nodes_in_use.machine_of(*asked, request.interface, request.containers)
    return machine_of(*asked, request.opened, request.interface, request.containers)


def _last(settings: Sequence[Setting], path: str, otherwise: object) -> str:
    """The last setting of a path as text; `otherwise` without a setting."""
    return str(next((setting.value for setting in reversed(settings) if setting.path == path), otherwise))


def _facts(case: Case, machine: Machine, framework: str, model: str, settings: Sequence[Setting]) -> Facts:
    device = machine.probe.devices[0]
    return Facts(
        case=case.name,
        device=device.model,
        kind=device.kind,
        framework=framework,
        model=Path(model).stem if model.endswith(".toml") else model,
        ranks=_ranks(case, settings, machine),
    )


def _ranks(case: Case, settings: Sequence[Setting], machine: Machine) -> int:
    """Ranks on all nodes, before any overlay: as the user asks, otherwise as the case says and the machine has."""
    here, total = _available(machine), 1
    for name, most in (("nodes", here.nodes), ("devices", here.devices)):
        planned = getattr(case.tuning, name)
        total *= int(_last(settings, f"tuning.{name}", planned if most is None else min(planned, most)))
    return total


def _load(machine: Machine, framework: str, request: Request) -> tuple[Plugins, list[Problem]]:
    """The plugins of the run. If the framework cannot be used: the others, and a problem with the reason."""
    reason = installed_problem(machine, "framework", framework) if machine.here else None
    if reason is None:
        try:
            return load_for(machine.vendor, framework), []
        except PluginError as error:
            reason = str(error)
    if machine.here:
        reason += _others_that_plan(
            framework,
            lambda other: installed_problem(machine, "framework", other) is None and _plans(request, other),
        )
    problem = Problem(code="framework_unusable", where="tuning.framework", message=reason)
    return load_for(machine.vendor, None), [problem]


def _plans(request: Request, framework: str) -> bool:
    """Whether a request has no problems with another framework."""
    changed = replace(request, settings=(*request.settings, f"tuning.framework={framework}"), skip_peak_and_env=True)
    try:
        return isinstance(plan_run(changed), Planned)
    except UserError:
        return False


def _others_that_plan(framework: str, plans: Callable[[str], bool]) -> str:
    """Text on other installed frameworks with which the same run could start; empty if there are none.

    `plans` returns whether the run has no problems with a framework. Alternatives are offered only for a known
    framework that is not installed or misses packages; for a misspelt name, the error suggests the closest name.
    """
    installed = names("framework")
    if framework not in installed and published_package("framework", framework) is None:
        return ""
    candidates = [name for name in installed if name != framework and packages_problem(name) is None]
    working = [f"--framework {name}" for name in candidates if plans(name)]
    return f"; what is installed can run it by {' or '.join(working)}" if working else ""


def _available(machine: Machine) -> Available:
    return Available(machine.nodes, None if machine.divisible else len(machine.probe.devices))


def _framework_answer(resolved: Resolved) -> tuple[WorkerPlan | None, list[Problem]]:
    """The framework's part of the plan, with its problems and the core's objections to it.

    A framework is also asked about a contract that has problems, so that all are shown at once. An error that it raises
    then is ignored: it may rely on figures that fit together.
    """
    spec, plugins, probe = resolved.spec, resolved.plugins, resolved.machine.probe
    if not plugins.answers("llmperf_plan_workers") or not resolved.bounded:
        return None, []
    try:
        worker = plugins.answer("llmperf_plan_workers", WorkerPlan, spec=spec, probe=probe)
    except PluginError:
        if resolved.arithmetic is None:
            return None, []
        raise
    faults = worker_problems(spec, worker, plugins) if resolved.arithmetic is not None else []
    reported = {problem.where for problem in worker.problems}
    core = [
        *precision_problems(spec, worker, probe),
        *need_problems(worker.needs, probe, spec.tuning.framework),
        *padding_problems(spec, worker),
        *routing_problems(spec, worker),
        *setting_problems(spec, worker),
    ]
    return worker, [*faults, *(problem for problem in core if problem.where not in reported), *worker.problems]


def _plan(resolved: Resolved, arithmetic: Arithmetic, worker: WorkerPlan) -> Plan:
    from llmperf_schemas import PLAN_SCHEMA

    from llmperf import __version__

    request, spec, machine, plugins = resolved.request, resolved.spec, resolved.machine, resolved.plugins
    skip = request.skip_peak_and_env
    peaks = NOT_ASKED if skip else peaks_of(spec, machine, plugins, request.refused_peaks)
    rates, rate_notes = (None, ()) if skip else rates_of(machine, request.launcher, plugins)
    plan = Plan(
        schema=PLAN_SCHEMA,
        run_id=run_id(spec.case, machine.vendor, spec.tuning.framework),
        created=now(),
        llmperf_version=__version__,
        spec=spec,
        vendor=machine.vendor,
        probe=machine.probe,
        device_share=1 / spec.tuning.devices if machine.divisible else 1.0,
        batch=arithmetic.batch,
        data_fingerprint=None if skip or not machine.here else data_fingerprint(spec, arithmetic.batch),
        flops=resolved.flops,
        peak=peaks.products,
        rest_peak=peaks.rest,
        peak_problem=peaks.problem,
        rates=rates,
        state_bytes_per_stage=state_bytes(spec, worker, machine.probe),
        launcher=request.launcher,
        nodes=machine.node_list[: worker.layout.nodes],
        interpreter=machine.interpreter,
        worker=replace(worker, agent=_agent(worker, machine, request), script=_script(worker, machine)),
        env={},
        notes=(*(f"left out: {line}" for line in plugins.left_out), *machine.concerns, *rate_notes),
        stall_seconds=request.stall_seconds,
        startup_seconds=request.startup_seconds,
        plugins=plugins.infos(),
    )
    return plan if skip else replace(plan, env=worker_env(plan, plugins))


def _agent(worker: WorkerPlan, machine: Machine, request: Request) -> tuple[str, ...]:
    """The argv of the agent: with this Python on this machine, with the workers' Python for other launchers."""
    return worker.agent if request.launcher == LOCAL else by_interpreter(worker.agent, machine.interpreter)


def _script(worker: WorkerPlan, machine: Machine) -> Script | None:
    """The external script, run by the workers' Python."""
    script = worker.script
    return None if script is None else replace(script, command=by_interpreter(script.command, machine.interpreter))


def worker_env(plan: Plan, plugins: Plugins) -> dict[str, str]:
    """The variables that all plugins set for the ranks.

    PluginError if two set one name differently, or one sets a variable of the loader or the interpreter.
    """
    joined: dict[str, str] = {}
    owners: dict[str, str] = {}
    for owner, answer in plugins.collect("llmperf_worker_env", plan=plan):
        if not isinstance(answer, Mapping):
            kind = type(answer).__name__
            raise PluginError(f"{plugins.who(owner)}: expected names and values of llmperf_worker_env, found {kind}")
        if problem := injecting(name for name in answer if isinstance(name, str)):
            raise PluginError(f"{plugins.who(owner)}: llmperf_worker_env: {problem}")
        for name, value in answer.items():
            if not isinstance(value, str):
                raise PluginError(f"{owner} sets {name} to {value!r}; expected text")
            if joined.get(name, value) != value:
                raise PluginError(f"{owners[name]} and {owner} disagree on {name}: {joined[name]!r} against {value!r}")
            joined[name] = value
            owners[name] = owner
    return dict(sorted(joined.items()))


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def run_id(case: str, vendor: str, framework: str) -> str:
    """A name for the run folder that sorts by time and names the run; safe on any file system."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{case}-{vendor}-{framework}")[:80]
    return f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%d-%H%M%S}-{plain}-{secrets.token_hex(2)}"
