"""Request -> Draft -> Plan."""

from __future__ import annotations

import datetime
import math
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace

from llmperf.accounting.batch import batch_of
from llmperf.accounting.layout import standard_layout
from llmperf.cases.library import Library, library, library_with_case, whole_library_for
from llmperf.cases.overlays import Facts, matching
from llmperf.cases.resolve import Available, resolve
from llmperf.cases.settings import Setting, from_command_line
from llmperf.errors import PluginError, UserError
from llmperf.planning.checks import data_problems, machine_problems, memory_problems, padding_problems, size_problems
from llmperf.planning.draft import Draft
from llmperf.planning.environment import worker_env
from llmperf.planning.frameworks import others_that_plan
from llmperf.planning.needs import unmet
from llmperf.planning.nodes import LOCAL, by_interpreter, installed_problem, machine_of
from llmperf.planning.request import Request
from llmperf.planning.vendors import Machine, machine_elsewhere
from llmperf.planning.workers import worker_problems
from llmperf.plugins.discovery import Found
from llmperf.plugins.faults import who
from llmperf.plugins.loading import Plugins, catalogue_problems, load_for
from llmperf.types.devices import PeakFlops
from llmperf.types.launching import NodeRequest
from llmperf.types.layout import Layout
from llmperf.types.plan import FlopCount, Plan, Script, WorkerPlan, Workload
from llmperf.types.problems import Problem
from llmperf.types.spec import Case, RunSpec


def draft(request: Request) -> Draft:
    """Everything about the run that was asked for, with what does not fit together.

    Raises UserError where the request itself makes no sense: an unknown case, path, vendor or model, no device.
    """
    case = library_with_case(request.case).case(request.case)
    machine = _machine(case, request)
    settings = request.command_line(machine)
    framework = _last(settings, "tuning.framework", case.tuning.framework)
    plugins, missing = _load(machine, framework, request)
    shelf = library(plugins)
    model = _last(settings, "contract.model", case.contract.model)
    overlaid = matching(shelf, _facts(case, machine, framework, model, settings))
    models = _shelf_with(shelf, model)
    spec, problems = resolve(case, models, [*overlaid, *settings], _available(machine))
    flops = plugins.answer("llmperf_count_flops", FlopCount, model=spec.model, workload=workload(spec))
    unmet = installed_problem(machine, "vendor", machine.vendor) if machine.here else None
    told = [Problem(code="vendor_unusable", where="--vendor", message=unmet)] if unmet else []
    told += [*missing, *machine_problems(spec, machine), *size_problems(spec), *problems]
    sketch = Draft(spec, machine, flops, told, plugins=plugins)
    if not problems:
        _complete(sketch, plugins, request)
    return sketch


def _machine(case: Case, request: Request) -> Machine:
    """The machine that `--on` names, or else the nodes that the launcher offers."""
    if request.on is not None:
        return machine_elsewhere(request.on, request.vendor)
    wanted = NodeRequest(
        nodes=_wanted_nodes(case, request),
        devices=request.devices,
        hosts=request.hosts,
        options=request.launcher_options,
    )
    return machine_of(request.vendor, request.launcher, wanted, request.python)


def _wanted_nodes(case: Case, request: Request) -> int:
    """Nodes as the user asks with `--set` or names with `--hosts`, otherwise as the case says."""
    settings = from_command_line(request.settings)
    value = next((setting.value for setting in reversed(settings) if setting.path == "tuning.nodes"), None)
    if isinstance(value, int) and value > 0:
        return value
    return len(request.hosts) or case.tuning.nodes


def _last(settings: Sequence[Setting], path: str, otherwise: object) -> str:
    """What was asked for last, as text; without that, what holds otherwise."""
    return str(next((setting.value for setting in reversed(settings) if setting.path == path), otherwise))


def _facts(case: Case, machine: Machine, framework: str, model: str, settings: Sequence[Setting]) -> Facts:
    device = machine.probe.devices[0]
    return Facts(
        case=case.name,
        device=device.model,
        kind=device.kind,
        framework=framework,
        model=model,
        ranks=_ranks(case, settings, machine),
    )


def _ranks(case: Case, settings: Sequence[Setting], machine: Machine) -> int:
    """On all nodes, before any overlay: as asked for, else as the case says and the machine has."""
    here, total = _available(machine), 1
    for name, most in (("nodes", here.nodes), ("devices", here.devices)):
        planned = getattr(case.tuning, name)
        total *= int(_last(settings, f"tuning.{name}", planned if most is None else min(planned, most)))
    return total


def _load(machine: Machine, framework: str, request: Request) -> tuple[Plugins, list[Problem]]:
    """The plugins of the run; without the framework, and with the reason, where it cannot be used."""
    reason = installed_problem(machine, "framework", framework) if machine.here else None
    if reason is None:
        try:
            return load_for(machine.vendor, framework), []
        except PluginError as error:
            reason = str(error)
    if machine.here:
        reason += others_that_plan(
            framework,
            lambda other: installed_problem(machine, "framework", other) is None and _plans(request, other),
        )
    return load_for(machine.vendor, None), [
        Problem(code="framework_unusable", where="tuning.framework", message=reason)
    ]


def _plans(request: Request, framework: str) -> bool:
    """Whether a request has no problems with another framework."""
    changed = replace(request, settings=(*request.settings, f"tuning.framework={framework}"), sketch=True)
    try:
        return not draft(changed).problems
    except UserError:
        return False


def _shelf_with(shelf: Library, model: str) -> Library:
    return shelf if model in shelf.paths("models") else whole_library_for("models", model)


def _available(machine: Machine) -> Available:
    return Available(machine.nodes, None if machine.divisible else len(machine.probe.devices))


def workload(spec: RunSpec) -> Workload:
    """What the FLOP count of a spec depends on besides its model."""
    from llmperf.accounting.lora import lora_parameters

    lora = spec.contract.lora
    return Workload(
        seq_len=spec.contract.seq_len,
        gradient_checkpointing=spec.tuning.gradient_checkpointing,
        lora_parameters=None if lora is None else lora_parameters(spec.model, lora),
    )


def _complete(sketch: Draft, plugins: Plugins, request: Request) -> None:
    """Add layout, batch and plan to a sketch whose spec fits together."""
    spec, machine = sketch.spec, sketch.machine
    layout = standard_layout(spec)
    batch = batch_of(spec.contract, spec.tuning, layout.data_parallel)
    sketch.problems += data_problems(spec, batch, machine)
    worker: WorkerPlan | None = None
    if plugins.answers("llmperf_plan_workers"):
        worker = plugins.answer("llmperf_plan_workers", WorkerPlan, spec=spec, probe=machine.probe)
        sketch.problems += [*worker_problems(spec, worker, plugins), *_framework_problems(worker, sketch)]
    sketch.layout, sketch.batch = worker.layout if worker else layout, batch
    plan = _plan(sketch, worker, plugins, request)
    plan = replace(plan, env={} if request.sketch else worker_env(plan, plugins))
    sketch.problems += memory_problems(plan)
    sketch.plan = replace(plan, problems=tuple(sketch.problems))


def _framework_problems(worker: WorkerPlan, sketch: Draft) -> list[Problem]:
    told = {problem.where for problem in worker.problems}
    core = unmet(worker.needs, sketch.machine.probe, sketch.spec.tuning.framework)
    core += padding_problems(sketch.spec, worker)
    return [*(one for one in core if one.where not in told), *worker.problems]


def _plan(sketch: Draft, worker: WorkerPlan | None, plugins: Plugins, request: Request) -> Plan:
    from llmperf_schemas import PLAN_SCHEMA

    from llmperf import __version__

    spec, machine, layout, batch = sketch.spec, sketch.machine, sketch.layout, sketch.batch
    assert layout is not None
    assert batch is not None
    peak, peak_problem = (None, "not asked for") if request.sketch else _peak(spec, machine, plugins)
    return Plan(
        schema=PLAN_SCHEMA,
        run_id=run_id(spec.case, machine.vendor, spec.tuning.framework),
        created=now(),
        llmperf_version=__version__,
        spec=spec,
        vendor=machine.vendor,
        probe=machine.probe,
        device_share=1 / spec.tuning.devices if machine.divisible else 1.0,
        layout=layout,
        batch=batch,
        flops=sketch.flops,
        peak=peak,
        peak_problem=peak_problem,
        state_bytes_per_stage=_state_bytes(sketch, layout, worker.update_bytes_per_parameter if worker else 0.0),
        needs=worker.needs if worker else None,
        launcher=request.launcher,
        nodes=machine.node_list[: layout.nodes],
        interpreter=machine.interpreter,
        agent=_agent(worker, machine, request) if worker else (),
        rank_env=worker.rank_env if worker else {},
        env={},
        files=worker.files if worker else {},
        script=_script(worker, machine) if worker else None,
        notes=(*(worker.notes if worker else ()), *(f"left out: {line}" for line in plugins.left_out)),
        stall_seconds=request.stall_seconds,
        startup_seconds=request.startup_seconds,
        plugins=plugins.infos(),
    )


def _agent(worker: WorkerPlan, machine: Machine, request: Request) -> tuple[str, ...]:
    """The argv of the agent: by this Python on this machine, by the workers' Python where a launcher brings it."""
    return worker.agent if request.launcher == LOCAL else by_interpreter(worker.agent, machine.interpreter)


def _script(worker: WorkerPlan, machine: Machine) -> Script | None:
    """The external script, run by the workers' Python."""
    script = worker.script
    return None if script is None else replace(script, command=by_interpreter(script.command, machine.interpreter))


def _peak(spec: RunSpec, machine: Machine, plugins: Plugins) -> tuple[PeakFlops | None, str | None]:
    model, dtype = machine.probe.devices[0].model, spec.contract.precision
    peak = None
    if plugins.answers("llmperf_peak_flops"):
        answer = plugins.peak(model, dtype)
        if isinstance(answer, str):
            return None, answer
        peak = answer
        _check_peak(peak, plugins.owner("llmperf_peak_flops"))
    if peak is not None:
        return peak, None
    problem = f"{machine.vendor} gives no {dtype} peak for {model!r}: its plugin lacks one with a source"
    skipped = catalogue_problems(plugins.found(f"vendor:{machine.vendor}"), plugins)
    return None, "; ".join([problem, *(line for line in skipped if f"({model})" in line or dtype in line)])


def _check_peak(peak: PeakFlops | None, owner: Found) -> None:
    """PluginError for a peak that nothing can be held against."""
    if peak is not None and not (math.isfinite(peak.flops_per_second) and peak.flops_per_second > 0):
        found = f"expected a finite number of FLOP/s above 0, found {peak.flops_per_second!r}"
        raise PluginError(f"{who(owner)}: llmperf_peak_flops: {found}")


def _state_bytes(sketch: Draft, layout: Layout, update_bytes: float) -> tuple[int, ...]:
    from llmperf.accounting.memory import stage_state_bytes

    trainable = workload(sketch.spec).lora_parameters
    return stage_state_bytes(sketch.spec.model, layout, sketch.spec.contract.precision, trainable, update_bytes)


def now() -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def run_id(case: str, vendor: str, framework: str) -> str:
    """A folder name that sorts by time and says what ran; safe on any file system."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{case}-{vendor}-{framework}")[:80]
    return f"{now}-{plain}-{secrets.token_hex(2)}"
