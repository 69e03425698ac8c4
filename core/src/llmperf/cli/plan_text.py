"""A plan, or the problems that prevent it, as text and as a JSON document."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from llmperf.accounting.flops import HEADLINE
from llmperf.accounting.layout import coordinates_text, range_text, rank_order_text
from llmperf.accounting.layout import layout_text as degrees_text
from llmperf.accounting.precisions import weighted_peaks
from llmperf.accounting.routing import routing_text
from llmperf.cases.library import whole_library
from llmperf.cases.overlays import Facts, on_other_devices
from llmperf.cases.settings import from_command_line
from llmperf.cli.output import print_json, print_text
from llmperf.cli.request import request, say_what_was_left_out
from llmperf.files.text import WITHHELD, without_secrets
from llmperf.planning.build import plan_only
from llmperf.planning.interfaces import compact_hosts
from llmperf.planning.ready import ready
from llmperf.planning.states import LOCAL, Outcome, Planned, Request
from llmperf.reporting.cells import weighted_parts
from llmperf.runfolder.create import fill
from llmperf.running.suggestions import smaller, with_suggestions
from llmperf.types.commands import PlannedCase
from llmperf.types.layout import Batch, Layout
from llmperf.types.plan import Plan

NODES_SHOWN = 3
"""Launch lines that a plan shows; those of further nodes differ by the node's rank only."""


def plan_document(outcome: Outcome) -> dict[str, Any]:
    """Everything that is known about a plan; `plan` is what a worker would read, null if there is no layout."""
    return {
        "case": outcome.spec.case,
        "variant": outcome.spec.variant,
        "fix_hp": outcome.spec.changes,
        "problems": outcome.problems,
        "runnable": isinstance(outcome, Planned) and outcome.machine.here,
        "launch": launch(outcome, _nodes(outcome)),
        "plan": outcome.plan and replace(outcome.plan, env=without_secrets(outcome.plan.env)),
    }


def _nodes(outcome: Outcome) -> range:
    return range(outcome.plan.layout.nodes if outcome.plan else 0)


def launch(outcome: Outcome, nodes: Iterable[int]) -> list[dict[str, Any]]:
    """The ranks and the argv of some nodes; the run folder and the port are chosen when it starts."""
    plan = outcome.plan
    if plan is None or not plan.worker.agent:
        return []
    address = plan.nodes[0].address if plan.nodes else "ADDRESS"
    later = {"run_dir": f"runs/{plan.run_id}", "master_addr": address, "master_port": "PORT"}
    each = plan.layout.devices_per_node
    return [
        {
            "node_rank": node,
            "host": plan.nodes[node].host if node < len(plan.nodes) else None,
            "first_rank": node * each,
            "last_rank": (node + 1) * each - 1,
            "coordinates": plan.layout.node_coordinates(node),
            "argv": [fill(word, {**later, "node_rank": node}) for word in plan.worker.agent],
        }
        for node in nodes
    ]


def plan_text(outcome: Outcome) -> str:
    """The plan for a terminal, one fact per line."""
    known = list(facts(outcome))
    width = max(len(name) for name, _ in known)
    lines = [*refusals(outcome), *[""] * bool(outcome.problems)]
    lines += [f"{name:<{width}}  {value}" for name, value in known]
    if outcome.spec.changes:
        lines += ["", *(f"changed from the case: {change}" for change in outcome.spec.changes)]
    if outcome.plan is not None and (notes := (*outcome.plan.worker.notes, *outcome.plan.notes)):
        lines += ["", *(f"note: {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def refusals(outcome: Outcome) -> list[str]:
    """Reasons why a plan cannot run, a line each below a heading; empty if it can."""
    problems = [f"  {problem.where}: {problem.message} [{problem.code}]" for problem in outcome.problems]
    return ["does not fit together:", *problems] if problems else []


def facts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Name and value of each line."""
    spec, probe = outcome.spec, outcome.machine.probe
    yield "case", spec.case + (" (a variant: the contract is changed)" if spec.variant else "")
    yield "model", f"{spec.model.name}, {outcome.resolved.flops.parameters:,} parameters"
    yield "framework", spec.tuning.framework
    here = f"simulated {_place(outcome)}" if probe.simulated else _place(outcome)
    where = here if outcome.machine.here else "from the catalogue, nothing can be started"
    yield ("devices", f"{spec.tuning.nodes} x {spec.tuning.devices} {probe.devices[0].model} ({probe.vendor}, {where})")
    yield from ((f"{probe.vendor} says", line) for line in probe.problems)
    yield "precision", spec.contract.precision
    if arithmetic := outcome.resolved.arithmetic:
        yield "layout", layout_text(outcome.plan.layout if outcome.plan else arithmetic.layout)
        yield "batch", batch_text(arithmetic.batch)
    if spec.model.mixture is not None:
        yield "routing", routing_text(spec.contract)
    yield "steps", f"{spec.contract.steps}, the first {spec.contract.warmup_steps} not measured"
    for entry in outcome.resolved.flops.per_token:
        yield f"FLOPs per token, {entry.convention}", f"{entry.flops:.6g} = {entry.formula}"
    yield from _plan_facts(outcome)


def _place(outcome: Outcome) -> str:
    """Location of the devices: this machine, or the nodes that a launcher reaches."""
    if outcome.resolved.site.launcher == LOCAL:
        return "on this machine"
    nodes = outcome.machine.node_list[: outcome.spec.tuning.nodes]
    return f"on {compact_hosts(node.host for node in nodes)}"


def layout_text(layout: Layout) -> str:
    """The layout as text, such as `8 ranks = TP4 x PP1 x DP2, ZeRO-style sharding stage 1 over 2`."""
    parts = degrees_text(layout)
    sharding = (
        f", sharding stage {layout.sharding_stage} over {layout.sharding_degree}" if layout.sharding_stage else ""
    )
    ranks = "1 rank" if layout.world_size == 1 else f"{layout.world_size} ranks"
    return f"{ranks} = {parts}{sharding}"


def batch_text(batch: Batch) -> str:
    """The batch arithmetic with its figures."""
    return (
        f"micro {batch.micro_batch} x accumulation {batch.gradient_accumulation} x DP {batch.data_parallel}"
        f" = {batch.global_batch} sequences x {batch.seq_len} = {batch.tokens_per_step:,} tokens a step"
    )


def _plan_facts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    plan = outcome.plan
    if plan is None:
        return
    if plan.peak is None:
        yield "peak", f"unknown, so MFU will be null: {plan.peak_problem}"
    else:
        rank = plan.rank_peak_flops
        origin = f"{plan.peak.source}; confidence: {plan.peak.confidence}, {plan.peak.date}"
        yield "peak", f"{rank:.4g} FLOP/s {plan.peak.dtype} a rank ({origin})"
        weighted = weighted_peaks(plan).get(HEADLINE)
        if weighted is not None:
            yield "work-weighted peak", f"{weighted.flops_per_second:.4g} FLOP/s a rank: {weighted_parts(weighted)}"
    if plan.state_bytes_per_stage:
        stages = ", ".join(f"{size / 2**30:.2f}" for size in plan.state_bytes_per_stage)
        each = "a rank" if plan.layout.pipeline_parallel == 1 else "a rank of each pipeline stage"
        yield "model states", f"{stages} GiB {each}, activations not counted"
    yield "fused operations", ", ".join(plan.worker.fused_ops) or "none"
    for stage, memory in enumerate(plan.memory):
        which = f", stage {stage}" if len(plan.memory) > 1 else ""
        total = f"{memory.peak_bytes / 2**30:.2f} GiB a rank, analytic: {memory.largest_parts()}"
        yield f"memory of tensors{which}", f"{total}; highest at: {memory.operation}"
    if plan.expected_step_seconds is not None:
        yield "expected step", f"{plan.expected_step_seconds:.3g} s, analytic, {plan.expected_step_basis}"
    yield from _launch_facts(outcome)
    shown = without_secrets(plan.env)
    for name in plan.env:
        yield "environment", f"{name}={_of_first_node(shown.get(name, WITHHELD), plan)}"


def _of_first_node(value: str, plan: Plan) -> str:
    """The value of a variable on the first node, where it is each node's own."""
    first = plan.nodes[0] if plan.nodes else None
    if first is None or first.interface is None:
        return fill(value, {"interface": "<interface of the node>", "address": "<address of the node>"})
    filled = fill(value, {"interface": first.interface, "address": first.address})
    return filled if filled == value else f"{filled} (on {first.host}; each node has its own)"


def _launch_facts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    plan = outcome.plan
    if plan is not None and plan.nodes:
        hosts = ", ".join(node.host for node in plan.nodes[:NODES_SHOWN])
        more = f" and {len(plan.nodes) - NODES_SHOWN} more" if len(plan.nodes) > NODES_SHOWN else ""
        yield "launcher", f"{plan.launcher}: {hosts}{more}"
    if plan is not None and plan.interpreter is not None:
        name = f" ({plan.interpreter.environment})" if plan.interpreter.environment else ""
        yield "Python of the ranks", f"{plan.interpreter.path}{name}, {plan.interpreter.version}"
    if plan is not None and plan.layout.nodes > 1:
        yield from _node_facts(plan)
    nodes = _nodes(outcome)
    shown = nodes if len(nodes) <= NODES_SHOWN else nodes[: NODES_SHOWN - 1]
    lines = launch(outcome, shown)
    for line in lines:
        yield f"launch, node {line['node_rank']}", shlex.join(line["argv"])
    if lines and len(nodes) > len(shown):
        yield f"launch, nodes {len(shown)} to {nodes[-1]}", "the same, each with its own rank"


def _node_facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """The meeting place of the ranks, their order, and the ranks of each node."""
    layout = plan.layout
    if plan.nodes:
        first = plan.nodes[0]
        interface = f" on {first.interface}" if first.interface else ""
        yield "master address", f"{first.address}{interface} ({first.host}); the port is chosen at the start"
    if order := rank_order_text(layout):
        yield "rank order", f"{order}: neighbouring ranks differ in the first"
    shown = layout.nodes if layout.nodes <= NODES_SHOWN else NODES_SHOWN - 1
    for node in range(shown):
        host = f" ({plan.nodes[node].host})" if node < len(plan.nodes) else ""
        ranks = range_text(node * layout.devices_per_node, (node + 1) * layout.devices_per_node - 1)
        yield f"ranks of node {node}{host}", f"{ranks}: {coordinates_text(layout.node_coordinates(node))}"
    if layout.nodes > shown:
        yield f"ranks of nodes {shown} to {layout.nodes - 1}", f"{layout.devices_per_node} each, in the same order"


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
