"""What stands in the way of a plan on its machine."""

from __future__ import annotations

from llmperf.planning.vendors import Machine
from llmperf.types.layout import Batch
from llmperf.types.plan import Plan, WorkerPlan
from llmperf.types.problems import Problem
from llmperf.types.spec import RunSpec

MOST_STEPS = 300_000
"""A result holds the loss of each step, and stays below what `documents` reads."""


def size_problems(spec: RunSpec) -> list[Problem]:
    """More steps than a result can hold."""
    if spec.contract.steps <= MOST_STEPS:
        return []
    message = f"a result holds the loss of each step, of {MOST_STEPS} at most; found {spec.contract.steps}"
    return [Problem(code="steps_too_many", where="contract.steps", message=message)]


def machine_problems(spec: RunSpec, machine: Machine) -> list[Problem]:
    """More nodes or devices asked for than there are, or devices of several models."""
    problems = []
    devices = len(machine.probe.devices)
    if spec.tuning.nodes > machine.nodes:
        message = f"{spec.tuning.nodes} nodes asked for, {machine.nodes} here; nearest: --set nodes={machine.nodes}"
        problems.append(Problem(code="nodes_too_few", where="tuning.nodes", message=message))
    if not machine.divisible and spec.tuning.devices > devices:
        message = f"{spec.tuning.devices} devices asked for, {devices} here; nearest: --devices {devices}"
        problems.append(Problem(code="devices_too_few", where="tuning.devices", message=message))
    models = [one.model for one in machine.probe.devices[: spec.tuning.devices]]
    if len(set(models)) > 1:
        alike = next(place for place, model in enumerate(models) if model != models[0])
        found = ", ".join(dict.fromkeys(models))
        message = (
            f"a run measures devices of one model, the first {len(models)} are {found}; nearest: --devices {alike}"
        )
        problems.append(Problem(code="devices_mixed", where="tuning.devices", message=message))
    return problems


def data_problems(spec: RunSpec, batch: Batch, machine: Machine) -> list[Problem]:
    """Token files that are missing, too short or not for this model. Not asked for a machine elsewhere."""
    if not machine.here:
        return []
    from llmperf.tokens.preflight import check_data

    return list(check_data(spec, batch))


def memory_problems(plan: Plan) -> list[Problem]:
    """Model states that cannot be on the device, whatever the activations take."""
    total = plan.probe.devices[0].memory_bytes
    needed = max(plan.state_bytes_per_stage, default=None)
    if total is None or needed is None or needed <= total * plan.device_share:
        return []
    have = total * plan.device_share / 2**30
    message = (
        f"weights, gradients and optimiser states need {needed / 2**30:.1f} GiB a rank, {have:.1f} GiB are there;"
        " use more devices, a higher sharding_stage or a smaller model"
    )
    return [Problem(code="memory_too_small", where="tuning.sharding_stage", message=message)]


def padding_problems(spec: RunSpec, worker: WorkerPlan) -> list[Problem]:
    """Padding for a framework that would train on it and count it."""
    if spec.contract.packing == "packed" or worker.padding:
        return []
    message = f"{spec.tuning.framework} trains on packed sequences only: expected packed, found padded"
    return [Problem(code="padding_not_supported", where="contract.packing", message=message)]
