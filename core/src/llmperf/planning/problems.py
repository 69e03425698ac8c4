"""The problems that the core finds in a run: machine, memory, data, and the needs and the plan of the framework."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from llmperf.accounting.precisions import precision_recipe
from llmperf.accounting.rank_layout import standard_layout
from llmperf.planning.host_facts import injecting
from llmperf.planning.vendors import Machine
from llmperf.plugins.faults import who
from llmperf.plugins.loading import Plugins
from llmperf.plugins.mending import install_own
from llmperf.plugins.own_packages import project_packages
from llmperf.types.devices import Probe
from llmperf.types.layout import Layout
from llmperf.types.plan import Needs, WorkerPlan
from llmperf.types.plan_checks import Problem
from llmperf.types.spec import OPTIONAL_SETTINGS, RunSpec, Tuning

HOOK = "llmperf_plan_workers"
SIZES = (
    "nodes",
    "devices_per_node",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "context_parallel",
    "expert_parallel",
    "sequence_parallel",
)
"""Fields of a framework's layout that must be as the user asked."""

MOST_STEPS = 10_000_000
"""With more steps, the records of a rank might exceed the largest file that is read."""


def machine_problems(spec: RunSpec, machine: Machine) -> list[Problem]:
    """Too few nodes or devices, devices of several models, or more steps than a file of records can hold."""
    problems = []
    devices = len(machine.probe.devices)
    if spec.tuning.nodes > machine.nodes:
        message = f"{spec.tuning.nodes} nodes asked for, {machine.nodes} here; nearest: --set nodes={machine.nodes}"
        problems.append(Problem(code="nodes_too_few", where="tuning.nodes", message=message))
    if not machine.divisible and spec.tuning.devices > devices:
        message = f"{spec.tuning.devices} devices asked for, {devices} here; nearest: --devices {devices}"
        problems.append(Problem(code="devices_too_few", where="tuning.devices", message=message))
    models = [device.model for device in machine.probe.devices[: spec.tuning.devices]]
    if len(set(models)) > 1:
        alike = next(place for place, model in enumerate(models) if model != models[0])
        found = ", ".join(dict.fromkeys(models))
        message = (
            f"a run measures devices of one model, the first {len(models)} are {found}; nearest: --devices {alike}"
        )
        problems.append(Problem(code="devices_mixed", where="tuning.devices", message=message))
    if spec.contract.steps > MOST_STEPS:
        message = f"expected at most {MOST_STEPS} steps, which a file of records can hold, found {spec.contract.steps}"
        problems.append(Problem(code="steps_too_many", where="contract.steps", message=message))
    return problems


def memory_problems(state_bytes_per_stage: Sequence[int], probe: Probe, device_share: float) -> list[Problem]:
    """Model states that do not fit into the part of a device that each rank has, whatever the activations take."""
    total = probe.devices[0].memory_bytes
    needed = max(state_bytes_per_stage, default=None)
    if total is None or needed is None or needed <= total * device_share:
        return []
    available = total * device_share / 2**30
    message = (
        f"weights, gradients and optimiser states need {needed / 2**30:.1f} GiB a rank, {available:.1f} GiB are there;"
        " use more devices, a higher sharding_stage or a smaller model"
    )
    return [Problem(code="memory_too_small", where="tuning.sharding_stage", message=message)]


def unsupported_problems(spec: RunSpec, worker: WorkerPlan) -> Iterator[Problem]:
    """Padding that a framework would train on and count, routing that its router overrides, settings that it lacks."""
    contract, tuning = spec.contract, spec.tuning
    if contract.packing != "packed" and not worker.padding:
        message = f"{tuning.framework} trains on packed sequences only: expected packed, found padded"
        yield Problem(code="padding_not_supported", where="contract.packing", message=message)
    if contract.routing != "learned" and spec.model.mixture is not None and not worker.routing_tables:
        message = f"{tuning.framework} routes by the router only: expected learned, found {contract.routing}"
        message = f"{message}; nearest: --set routing=learned"
        yield Problem(code="routing_not_supported", where="contract.routing", message=message)
    defaults = {field.name: field.default for field in fields(Tuning)}
    for name in OPTIONAL_SETTINGS:
        value = getattr(tuning, name)
        if name in worker.settings or value == defaults[name]:
            continue
        expected = str(defaults[name]).lower() if isinstance(value, bool) else defaults[name]
        message = f"{tuning.framework} does not support it: expected {expected}, found {str(value).lower()}"
        message = f"{message}; nearest: --set {name}={expected}"
        yield Problem(code="setting_not_supported", where=f"tuning.{name}", message=message)


def precision_problems(spec: RunSpec, worker: WorkerPlan, probe: Probe) -> list[Problem]:
    """A recipe that the framework does not train by or the devices do not compute in, unless that is emulated."""
    recipe, offered = precision_recipe(spec.contract.precision), probe.offers.precisions
    emulates, device = spec.tuning.emulate_precision, probe.devices[0].model
    missing = [dtype for dtype in dict.fromkeys((worker.needs.precision, recipe.rest)) if dtype not in offered]
    trained = [name for name in ("bf16", "fp16", "fp32") if name in offered and name in worker.precisions]
    nearest = next(iter(trained), offered[0])
    nearest = f"nearest: --set precision={nearest} (a variant)"
    problems = []
    if recipe.name not in worker.precisions:
        message = f"{spec.tuning.framework} trains in {', '.join(worker.precisions)}, found {recipe.name}; {nearest}"
        problems.append(Problem(code="precision_not_supported", where="contract.precision", message=message))
    elif emulates and (recipe.products != "fp8" or "fp8" in offered):
        reason = f"{device} computes in fp8" if recipe.products == "fp8" else f"{recipe.name} has no products in fp8"
        message = f"nothing is emulated, {reason}: expected false, found true"
        problems.append(Problem(code="nothing_emulated", where="tuning.emulate_precision", message=message))
    elif missing and not (emulates and missing == ["fp8"]):
        message = f"{device} ({probe.vendor}) offers {', '.join(offered)}, found {worker.needs.precision}; {nearest}"
        if missing == ["fp8"]:
            message += ", or --set emulate_precision=true (losses as on fp8 devices, no MFU)"
        problems.append(Problem(code="precision_not_offered", where="contract.precision", message=message))
    return problems


def counted_problem(spec: RunSpec) -> Problem | None:
    """The problem of a framework that builds models from facts with a counted model."""
    counted, framework = spec.model.counted, spec.tuning.framework
    if counted is None or framework == counted.built_by:
        return None
    message = f"{framework} builds models from facts, and {spec.model.name} is a counted model"
    message = f"{message}; nearest: --framework {counted.built_by}"
    return Problem(code=f"{framework}.architecture", where="model.counted", message=message)


def need_problems(needs: Needs, probe: Probe, framework: str) -> list[Problem]:
    """One problem for each need that the vendor does not offer."""
    offers, device = probe.offers, probe.devices[0].model
    problems = []
    if needs.runtime not in offers.runtimes:
        offered = ", ".join(offers.runtimes) or "none"
        message = f"{framework} runs on {needs.runtime}; {device} ({probe.vendor}) offers {offered}"
        problems.append(Problem(code="runtime_not_offered", where="tuning.framework", message=message))
    elif (reason := offers.runtime_problems.get(needs.runtime)) is not None:
        problems.append(Problem(code="runtime_unusable", where="tuning.framework", message=f"{framework}: {reason}"))
    for feature in needs.features:
        if feature not in offers.features:
            offered = ", ".join(offers.features) or "none"
            message = f"{framework} needs {feature}; {device} ({probe.vendor}) offers {offered}"
            problems.append(Problem(code="feature_not_offered", where="tuning", message=message))
    return problems


def framework_problems(
    spec: RunSpec, worker: WorkerPlan, probe: Probe, plugins: Plugins, *, laid_out: bool
) -> list[Problem]:
    """Mistakes in a framework's plan, which is compared with the core's layout if it is `laid_out`; then what the core
    objects to, unless the framework has a problem with the same setting; then the framework's own problems."""
    name = who(plugins.owner(HOOK))
    faults = [
        Problem(code="framework_fault", where="tuning.framework", message=f"{name}: {HOOK}: {fault}")
        for fault in (_faults(standard_layout(spec), worker, plugins) if laid_out else ())
    ]
    if worker.script is not None and plugins.rank_task("script") is None:
        package = project_packages()["tasks"]["script"]
        mend = f"runs an external script, which takes {package}; install it with: {install_own(package)}"
        message = f"{spec.tuning.framework} {mend}"
        faults.append(Problem(code="framework_unusable", where="tuning.framework", message=message))
    own, unbuilt = worker.problems, counted_problem(spec)
    if unbuilt is not None and any(problem.where.startswith("model.") for problem in own):
        own = (unbuilt,)
    reported = {problem.where for problem in own}
    core = [
        *precision_problems(spec, worker, probe),
        *need_problems(worker.needs, probe, spec.tuning.framework),
        *unsupported_problems(spec, worker),
    ]
    return [*faults, *(problem for problem in core if problem.where not in reported), *own]


def _faults(expected: Layout, worker: WorkerPlan, plugins: Plugins) -> Iterator[str]:
    """Mistakes in a framework's worker plan, which otherwise would appear in the run only, or never."""
    for size in SIZES:
        wanted, given = getattr(expected, size), getattr(worker.layout, size)
        if wanted != given:
            yield f"layout.{size}: expected {wanted}, as llmperf.standard_layout(spec) gives, found {given}"
    if sorted(worker.layout.rank_order) != sorted(expected.rank_order):
        order = worker.layout.rank_order
        yield f"layout.rank_order: expected each of {', '.join(expected.rank_order)} once, found {order}"
    if not worker.agent:
        yield "agent: expected the argv that starts a node's ranks, such as llmperf.agent_argv(), found none"
    if problem := injecting(worker.rank_env):
        yield f"rank_env: {problem}"
    hook = "llmperf_build_trainer" if worker.script is None else "llmperf_parse_log"
    if not plugins.answers(hook):
        what = "ranks without a script need" if worker.script is None else "a script needs"
        yield f"{what} {hook}, which it does not answer"
    if worker.script is not None and not worker.script.command:
        yield "script.command: expected the argv of one rank, found none"
    if worker.script is not None and not 0 <= worker.script.step_rank < worker.layout.world_size:
        ranks = f"0 to {worker.layout.world_size - 1}"
        yield f"script.step_rank: expected one of the ranks {ranks}, found {worker.script.step_rank}"
