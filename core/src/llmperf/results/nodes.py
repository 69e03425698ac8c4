"""The hosts of a run: what most of them have, and what is different on each node."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import islice

from llmperf.runfolder.contents import RunRecords
from llmperf.types.node_results import MAX_DIFFERENCES, NodeResult

Facts = Mapping[str, str | int | None]
"""Facts of a host, by field of `Hardware` and `Software`; `packages.NAME`, `environment.NAME` and
`startup_modules.NAME`."""

PACKAGES = "packages"
"""Among the facts of a node whose ranks have recorded their packages."""
SAME_MEMORY = 0.01
"""Hosts with equal memory differ by less, in what their firmware and kernels reserve."""


def node_facts(records: RunRecords) -> dict[int, Facts]:
    """Recorded facts of each node; without nodes of which nothing is."""
    packages: dict[int, Mapping[str, str]] = {}
    modules: dict[int, dict[str, str]] = defaultdict(dict)
    for rank in records.ranks:
        packages.setdefault(records.plan.layout.node_of(rank.rank), rank.packages)
        modules[records.plan.layout.node_of(rank.rank)].update(rank.startup_modules)
    facts: dict[int, Facts] = {}
    for node in sorted(records.hosts.keys() | packages.keys()):
        host, versions = records.hosts.get(node), dict(packages.get(node, {}))
        known: dict[str, str | int | None] = {}
        if host is not None:
            known |= {"os": host.os, "kernel": host.kernel, "host_cpu": host.cpu, "driver": host.driver}
            known["host_memory_bytes"] = host.memory_bytes
            known |= {f"environment.{name}": value for name, value in host.environment.items()}
        known["python"] = versions.pop("python", None) or (None if host is None else host.python)
        if node in packages:
            known[PACKAGES] = None
        known |= {f"startup_modules.{name}": file for name, file in modules[node].items()}
        facts[node] = {**known, **{f"packages.{name}": version for name, version in versions.items()}}
    return facts


def common_facts(facts: Mapping[int, Facts]) -> Facts:
    """Facts that most nodes share; of equally frequent values that of the first node."""
    names = dict.fromkeys(name for known in facts.values() for name in known)
    common = {}
    for name in names:
        values = (known.get(name) for known in facts.values() if _recorded(name, known))
        value = Counter(values).most_common(1)[0][0]
        if value is not None:
            common[name] = value
    return common


def node_results(records: RunRecords) -> tuple[NodeResult, ...]:
    """Each node of a run through a launcher."""
    if not records.nodes:
        return ()
    facts, layout = node_facts(records), records.plan.layout
    common = common_facts(facts)
    results = []
    for node in range(layout.nodes):
        reached, first = records.nodes.get(node), node * layout.devices_per_node
        differences = _differences(facts[node], common) if node in facts else {}
        results.append(
            NodeResult(
                node_rank=node,
                host=records.plan.nodes[node].host if node < len(records.plan.nodes) else "unknown",
                interface=reached.interface if reached else None,
                first_rank=first,
                last_rank=first + layout.devices_per_node - 1,
                coordinates=layout.node_coordinates(node),
                clock_offset_seconds=reached.clock_offset_seconds if reached else None,
                clock_error_seconds=reached.clock_error_seconds if reached else None,
                lost_seconds=reached.lost_seconds if reached else None,
                differs=dict(islice(differences.items(), MAX_DIFFERENCES)),
                more_differences=max(0, len(differences) - MAX_DIFFERENCES),
            )
        )
    return tuple(results)


def _differences(known: Facts, common: Facts) -> dict[str, str | int | None]:
    return {
        name: known.get(name)
        for name in dict.fromkeys([*common, *known])
        if _recorded(name, known) and not _same(name, known.get(name), common.get(name))
    }


def _recorded(name: str, known: Facts) -> bool:
    """Check whether anything of that kind is recorded of a node: packages by its ranks, the rest by its host."""
    return PACKAGES in known if name.startswith(("packages.", "startup_modules.")) else name in known or "os" in known


def _same(name: str, value: str | int | None, usual: str | int | None) -> bool:
    if name == "host_memory_bytes" and isinstance(value, int) and isinstance(usual, int):
        return abs(value - usual) <= SAME_MEMORY * usual
    return value == usual
