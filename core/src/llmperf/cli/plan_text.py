"""A plan, or the problems that prevent it, as text and as a JSON document."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from llmperf.accounting.flops import HEADLINE
from llmperf.accounting.precisions import weighted_peaks
from llmperf.accounting.rank_layout import coordinates_text, layout_text, range_text, rank_order_text, standard_layout
from llmperf.accounting.routing import routing_text
from llmperf.cli.output import print_facts, print_text
from llmperf.files.text import WITHHELD, without_secrets
from llmperf.planning.host_facts import compact_hosts
from llmperf.planning.states import LOCAL, Outcome, Planned
from llmperf.reporting.cells import weighted_parts
from llmperf.reporting.language import reader_language
from llmperf.reporting.words import sentence, word
from llmperf.runfolder.create import fill
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
        "launch": launch(outcome),
        "plan": outcome.plan and replace(outcome.plan, env=without_secrets(outcome.plan.env)),
    }


def launch(outcome: Outcome, most: int | None = None) -> list[dict[str, Any]]:
    """The ranks and the argv of the first nodes; the run folder and the port are chosen when it starts."""
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
        for node in range(plan.layout.nodes)[:most]
    ]


def print_plan(outcome: Outcome) -> None:
    """The plan for a terminal, one fact per line."""
    language = reader_language()
    if outcome.problems:
        print_text("\n".join(refusals(outcome)) + "\n")
    print_facts(list(facts(outcome)))
    if changes := [sentence("changed from the case: {change}", language, change=each) for each in outcome.spec.changes]:
        print_text("\n" + "\n".join(changes))
    if outcome.plan is not None and (notes := (*outcome.plan.worker.notes, *outcome.plan.notes)):
        print_text("\n" + "\n".join(f"{word('note', language)}{word(': ', language)}{note}" for note in notes))


def refusals(outcome: Outcome) -> list[str]:
    """Reasons why a plan cannot run, a line each below a heading; empty if it can."""
    problems = [f"  {problem.where}: {problem.message} [{problem.code}]" for problem in outcome.problems]
    return ["does not fit together:", *problems] if problems else []


def facts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Name and value of each line."""
    spec, probe = outcome.spec, outcome.machine.probe
    yield "case", spec.case + (" (a variant: the contract is changed)" if spec.variant else "")
    yield "model", f"{spec.model.name}, {outcome.flops.parameters:,} parameters"
    yield "framework", spec.tuning.framework
    where = "from the catalogue, nothing can be started"
    if outcome.machine.here:
        nodes = outcome.machine.node_list[: spec.tuning.nodes]
        remote = f"on {compact_hosts(node.host for node in nodes)}"
        where = "on this machine" if outcome.site.launcher == LOCAL else remote
        where = f"simulated {where}" if probe.simulated else where
    yield ("devices", f"{spec.tuning.nodes} x {spec.tuning.devices} {probe.devices[0].model} ({probe.vendor}, {where})")
    yield from ((f"{probe.vendor} says", line) for line in probe.problems)
    yield "precision", spec.contract.precision
    if batch := outcome.batch:
        layout = outcome.plan.layout if outcome.plan else standard_layout(spec)
        ranks = "1 rank" if layout.world_size == 1 else f"{layout.world_size} ranks"
        sharding = f", sharding stage {layout.sharding_stage} over {layout.sharding_degree}"
        yield "layout", f"{ranks} = {layout_text(layout)}{sharding if layout.sharding_stage else ''}"
        yield (
            "batch",
            f"micro {batch.micro_batch} x accumulation {batch.gradient_accumulation} x DP {batch.data_parallel}"
            f" = {batch.global_batch} sequences x {batch.seq_len} = {batch.tokens_per_step:,} tokens a step",
        )
    if spec.model.mixture is not None:
        yield "routing", routing_text(spec.contract)
    yield "steps", f"{spec.contract.steps}, the first {spec.contract.warmup_steps} not measured"
    for entry in outcome.flops.per_token:
        yield f"FLOPs per token, {entry.convention}", f"{entry.flops:.6g} = {entry.formula}"
    if outcome.plan is not None:
        yield from _plan_facts(outcome, outcome.plan)


def _plan_facts(outcome: Outcome, plan: Plan) -> Iterator[tuple[str, str]]:
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
    yield from _launch_facts(plan, launch(outcome, NODES_SHOWN))
    shown = without_secrets(plan.env)
    own = {"interface": "<interface of the node>", "address": "<address of the node>"}
    where, first = "", plan.nodes[0] if plan.nodes else None
    if first is not None and first.interface is not None:
        own = {"interface": first.interface, "address": first.address}
        where = f" (on {first.host}; each node has its own)"
    for name in plan.env:
        value = shown.get(name, WITHHELD)
        filled = fill(value, own)
        yield "environment", f"{name}={filled}{where if filled != value else ''}"


def _launch_facts(plan: Plan, lines: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The launcher, the meeting place of the ranks, their order, the ranks of each node, and the lines of the first."""
    layout, nodes = plan.layout, plan.layout.nodes
    shown = nodes if nodes <= NODES_SHOWN else NODES_SHOWN - 1
    if plan.nodes:
        hosts = ", ".join(node.host for node in plan.nodes[:NODES_SHOWN])
        more = f" and {len(plan.nodes) - NODES_SHOWN} more" if len(plan.nodes) > NODES_SHOWN else ""
        yield "launcher", f"{plan.launcher}: {hosts}{more}"
    if plan.interpreter is not None:
        name = f" ({plan.interpreter.environment})" if plan.interpreter.environment else ""
        yield "Python of the ranks", f"{plan.interpreter.path}{name}, {plan.interpreter.version}"
    if nodes > 1:
        if plan.nodes:
            first = plan.nodes[0]
            interface = f" on {first.interface}" if first.interface else ""
            yield "master address", f"{first.address}{interface} ({first.host}); the port is chosen at the start"
        if order := rank_order_text(layout):
            yield "rank order", f"{order}: neighbouring ranks differ in the first"
        for node in range(shown):
            host = f" ({plan.nodes[node].host})" if node < len(plan.nodes) else ""
            ranks = range_text(node * layout.devices_per_node, (node + 1) * layout.devices_per_node - 1)
            yield f"ranks of node {node}{host}", f"{ranks}: {coordinates_text(layout.node_coordinates(node))}"
        if nodes > shown:
            yield f"ranks of nodes {shown} to {nodes - 1}", f"{layout.devices_per_node} each, in the same order"
    for line in lines[:shown]:
        yield f"launch, node {line['node_rank']}", shlex.join(line["argv"])
    if lines and nodes > shown:
        yield f"launch, nodes {shown} to {nodes - 1}", "the same, each with its own rank"
