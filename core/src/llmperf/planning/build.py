"""Makes a plan: what a user asks for becomes Resolved, then Planned or Refused."""

from __future__ import annotations

import datetime
import math
import re
import secrets
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from llmperf.accounting.flops import flops_of, workload_of
from llmperf.accounting.model_states import stage_state_bytes
from llmperf.accounting.optimiser_step import batch_of
from llmperf.accounting.rank_layout import standard_layout
from llmperf.cases.library import Library, library
from llmperf.cases.overlays import Facts, overlay_settings
from llmperf.cases.resolve import Available, resolve
from llmperf.cases.settings import Setting, from_command_line
from llmperf.errors import PluginError
from llmperf.files.text import utc_time
from llmperf.planning.checks import checked
from llmperf.planning.nodes import by_interpreter, installed_problem, nodes_wanted, reach
from llmperf.planning.problems import (
    HOOK,
    counted_problem,
    framework_problems,
    machine_problems,
    memory_problems,
)
from llmperf.planning.ready import NOT_ASKED
from llmperf.planning.states import (
    HERE,
    LOCAL,
    Outcome,
    Planned,
    Refused,
    Resolved,
    RunOptions,
    Selection,
    Site,
)
from llmperf.planning.vendors import Machine
from llmperf.plugins.loading import load_for
from llmperf.types import Batch, Plan, Problem, WorkerPlan

USUAL = RunOptions()


def plan_run(selection: Selection, site: Site = HERE, options: RunOptions = USUAL) -> Outcome:
    """The plan of a run, or all reasons why it cannot be started; UserError for an unknown case, path or model."""
    machine = reach(site, nodes_wanted(selection, site))
    try:
        return plan_on(machine, selection, site, options)
    except BaseException:
        machine.close()
        raise


def plan_only(selection: Selection, site: Site = HERE, options: RunOptions = USUAL) -> Outcome:
    """The same for a run that is not started from this plan: what its launcher has taken is given back."""
    outcome = plan_run(selection, site, options)
    outcome.machine.close()
    return outcome


def plan_on(machine: Machine, selection: Selection, site: Site = HERE, options: RunOptions = USUAL) -> Outcome:
    """Plan like `plan_run`, on a machine that was reached."""
    resolved = resolve_on(machine, selection, site, options)
    spec, plugins, probe = resolved.spec, resolved.plugins, resolved.machine.probe
    laid_out, worker, problems = resolved.batch is not None, None, [*resolved.problems]
    if plugins.answers(HOOK) and all(problem.code != "value_too_large" for problem in problems):
        try:
            worker = plugins.answer(HOOK, WorkerPlan, spec=spec, probe=probe)
        except PluginError:  # the figures of a contract with problems may not fit together as the framework expects
            if (unbuilt := counted_problem(spec)) is not None:  # it may have read sizes that the model leaves out
                problems.append(unbuilt)
            elif laid_out:
                raise
    if worker is not None:
        problems += framework_problems(spec, worker, probe, plugins, laid_out=laid_out)
    known: dict[str, Any] = {field.name: getattr(resolved, field.name) for field in fields(resolved)}
    if worker is None or resolved.batch is None:
        return Refused(**{**known, "problems": tuple(problems)}, plan=None)
    plan, expected, fits = _drafted(resolved, resolved.batch, worker), list[Problem](), True
    if all(problem.code != "framework_fault" for problem in problems):
        check, expected, fits = checked(plan, resolved.plugins)
        plan = replace(plan, memory=check.memory)  # time and notes depend on rates and peak: `ready` asks again
    states = memory_problems(plan.state_bytes_per_stage, plan.probe, plan.device_share)
    problems += states or (expected if options.preflight else [])
    if problems:
        plan = replace(plan, problems=tuple(problems))
        return Refused(**{**known, "problems": plan.problems}, plan=plan)
    return Planned(**known, plan=plan, fits=fits)


def resolve_on(machine: Machine, selection: Selection, site: Site = HERE, options: RunOptions = USUAL) -> Resolved:
    """The case with all settings, the plugins, and the problems that do not depend on the framework."""
    case = selection.read_case()
    settings = _settings(machine, selection, site)
    chosen = {setting.path: setting.value for setting in settings}
    framework = str(chosen.get("tuning.framework", case.tuning.framework))
    model = str(chosen.get("contract.model", case.contract.model))
    problems = []
    if machine.here and (unmet := installed_problem(machine, "vendor", machine.vendor)):
        problems.append(Problem(code="vendor_unusable", where="--vendor", message=unmet))
    plugins = None
    reason = installed_problem(machine, "framework", framework) if machine.here else None
    if reason is None:
        try:
            plugins = load_for(machine.vendor, framework)
        except PluginError as error:
            reason = str(error)
    if plugins is None:
        problems.append(Problem(code="framework_unusable", where="tuning.framework", message=str(reason)))
        plugins = load_for(machine.vendor, None)
    shelf, device = library(plugins), machine.probe.devices[0]
    here = Available(machine.nodes, None if machine.divisible else len(machine.probe.devices))
    planned = ((chosen.get(f"tuning.{name}"), getattr(case.tuning, name)) for name in ("nodes", "devices"))
    ranks = math.prod(
        int(asked if asked is not None else usual if most is None else min(usual, most))
        for (asked, usual), most in zip(planned, (here.nodes, here.devices), strict=True)
    )
    facts = Facts(
        case=case.name,
        device=device.model,
        kind=device.kind,
        framework=framework,
        model=Path(model).stem if model.endswith(".toml") else model,
        ranks=ranks,
    )
    overlays = Library() if selection.given else shelf
    overlaid = overlay_settings(overlays, facts, case.contract.model, selection.overlays)
    models = selection.models(shelf, model)
    spec, contract_problems = resolve(case, models, [*overlaid, *settings], here, selection.challenge)
    problems += [*machine_problems(spec, machine), *contract_problems]
    batch = None
    if not contract_problems:
        batch = batch_of(spec.contract, spec.tuning, standard_layout(spec).data_parallel)
        if machine.here:
            from llmperf.tokens.sources import check_data

            problems += check_data(spec, batch)
    return Resolved(
        spec=spec,
        site=site,
        options=options,
        machine=machine,
        plugins=plugins,
        flops=flops_of(plugins, spec.model, workload_of(spec.model, spec.contract, spec.tuning)),
        batch=batch,
        problems=tuple(problems),
    )


def _settings(machine: Machine, selection: Selection, site: Site) -> list[Setting]:
    """`--on`, the launcher's nodes and devices, `--framework`, `--devices` and `--set`, in that order."""
    named: list[Setting] = []
    if not machine.here:
        named.append(Setting("tuning.nodes", machine.nodes, "--on"))
        named.append(Setting("tuning.devices", len(machine.probe.devices), "--on"))
    elif site.hosts:
        named.append(Setting("tuning.nodes", len(site.hosts), "--hosts"))
    if selection.framework is not None:
        named.append(Setting("tuning.framework", selection.framework, "--framework"))
    elif selection.default_framework is not None:
        named.append(Setting("tuning.framework", selection.default_framework, "llmperf.toml"))
    offered = [node.devices for node in machine.node_list if node.devices is not None]
    if site.devices is not None:
        named.append(Setting("tuning.devices", site.devices, "--devices"))
    elif offered:
        named.append(Setting("tuning.devices", min(offered), f"--launcher {site.launcher}"))
    return named + from_command_line(selection.settings)


def _drafted(resolved: Resolved, batch: Batch, worker: WorkerPlan) -> Plan:
    from llmperf_schemas import PLAN_SCHEMA

    from llmperf import __version__

    spec, machine, site = resolved.spec, resolved.machine, resolved.site
    agent, script = worker.agent, worker.script
    if site.launcher != LOCAL:
        agent = by_interpreter(agent, machine.interpreter)
    watching: tuple[str, ...] = ()
    if script is not None:
        script = replace(script, command=by_interpreter(script.command, machine.interpreter))
        task = resolved.plugins.rank_task("script")
        watching = () if task is None else (task[1].name,)
    return Plan(
        schema=PLAN_SCHEMA,
        run_id=run_id(spec.case, machine.vendor, spec.tuning.framework),
        created=utc_time(),
        llmperf_version=__version__,
        spec=spec,
        vendor=machine.vendor,
        probe=machine.probe,
        device_share=1 / spec.tuning.devices if machine.divisible else 1.0,
        batch=batch,
        data_fingerprint=None,
        flops=resolved.flops,
        peak=None,
        peak_problem=NOT_ASKED,
        state_bytes_per_stage=stage_state_bytes(spec, worker, machine.probe.on_cpu),
        launcher=site.launcher,
        nodes=machine.node_list[: worker.layout.nodes],
        interpreter=machine.interpreter,
        worker=replace(worker, agent=agent, script=script),
        env={},
        notes=(*(f"left out: {line}" for line in resolved.plugins.left_out), *machine.concerns),
        stall_seconds=resolved.options.stall_seconds,
        startup_seconds=resolved.options.startup_seconds,
        plugins=resolved.plugins.infos(),
        recorders=tuple(sorted({*resolved.plugins.answering("llmperf_rank_records", "extension"), *watching})),
    )


def run_id(case: str, vendor: str, framework: str) -> str:
    """A name for the run folder that sorts by time and names the run; safe on any file system."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{case}-{vendor}-{framework}")[:80]
    return f"{now}-{plain}-{secrets.token_hex(2)}"
