"""The process that holds the placement group of a run: `python -m llmperf_ray.reservation`.

It reads one line of JSON with what is wanted, prints one line with the nodes or the problem, and keeps the placement
group until its standard input ends.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from llmperf_ray.cluster import connect, problem_of, stdout_for_answers

CONNECT_SECONDS = 45.0
LOOK_SECONDS = 0.5
SILENT_SECONDS = 3.0
"""A shorter wait is not worth a line."""
REPORT_SECONDS = 15.0


def main() -> int:
    """Reserve, answer, wait."""
    answers = stdout_for_answers()
    wanted = json.loads(sys.stdin.readline())
    watchdog = threading.Timer(CONNECT_SECONDS, _give_up, (wanted["address"], answers))
    watchdog.daemon = True
    watchdog.start()
    try:
        connect(wanted)
        watchdog.cancel()
        answer = _reserve(wanted)
    except Exception as error:  # Ray raises many kinds; each is the answer
        answer = {"problem": problem_of(error)}
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()
    if "problem" not in answer:
        while sys.stdin.readline():
            pass
    return 0


def _give_up(address: str, answers: BinaryIO) -> None:
    """Ray itself would try for minutes."""
    problem = f"address: the Ray cluster {address!r} did not answer within {CONNECT_SECONDS:.0f} s"
    answers.write(json.dumps({"problem": problem}).encode() + b"\n")
    answers.flush()
    os._exit(1)


def _reserve(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The addresses of the reserved nodes in the order of their bundles."""
    from ray.util.placement_group import placement_group, placement_group_table

    nodes = _nodes()
    bundle = dict(wanted["bundle"])
    if wanted["chooses_gpus"] and (gpus := _gpus(nodes, wanted["nodes"], wanted["devices"])):
        bundle["GPU"] = gpus
    if not bundle:
        return {"problem": "expected at least one resource to take on each node, found cpus = 0 and no GPUs"}
    group = placement_group([bundle] * wanted["nodes"], strategy=wanted["strategy"], name=wanted["group"])
    began = time.monotonic()
    said = began + SILENT_SECONDS - REPORT_SECONDS
    while not group.wait(LOOK_SECONDS):
        now = time.monotonic()
        if select.select([0], [], [], 0)[0]:
            return {"problem": "the run has ended before the nodes were free"}
        if now - began > wanted["timeout_seconds"]:
            return {"problem": f"{_missing(wanted, bundle)}; waited {now - began:.0f} s (timeout_seconds)"}
        if now - said > REPORT_SECONDS:
            said = now
            print(f"ray: waiting for nodes: {_missing(wanted, bundle)}", file=sys.stderr, flush=True)
    placed = placement_group_table(group)["bundles_to_node_id"]
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in _nodes()}
    return {"bundle": bundle, "addresses": [addresses[placed[index]] for index in range(wanted["nodes"])]}


def _nodes() -> list[Mapping[str, Any]]:
    """The nodes of the cluster that are alive."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def _gpus(nodes: Sequence[Mapping[str, Any]], wanted: int, devices: int | None) -> float:
    """GPUs to take on each node: as many as asked for, otherwise all that each of enough nodes has."""
    amounts = sorted((node["Resources"].get("GPU", 0) for node in nodes), reverse=True)
    if not amounts or not amounts[0]:
        return 0
    return devices if devices is not None else amounts[min(wanted, len(amounts)) - 1] or amounts[0]


def _missing(wanted: Mapping[str, Any], bundle: Mapping[str, float]) -> str:
    """Resources that the cluster lacks."""
    from ray._private import state

    nodes = _nodes()
    free: Mapping[str, Any] = state.available_resources_per_node()  # type: ignore[no-untyped-call]
    large = [node for node in nodes if _fits(bundle, node["Resources"])]
    idle = [node for node in large if _fits(bundle, free.get(node["NodeID"], {}))]
    listed = ", ".join(
        f"{node['NodeManagerAddress']} ({_amounts({name: node['Resources'].get(name, 0) for name in bundle})})"
        for node in nodes[:8]
    )
    more = f" and {len(nodes) - 8} more" if len(nodes) > 8 else ""
    return (
        f"expected {wanted['nodes']} nodes with {_amounts(bundle)} each ({wanted['strategy']}), found {len(large)} of"
        f" that size, {len(idle)} of them free: {listed}{more}"
    )


def _fits(bundle: Mapping[str, float], resources: Mapping[str, float]) -> bool:
    return all(resources.get(name, 0) >= amount for name, amount in bundle.items())


def _amounts(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in resources.items())


if __name__ == "__main__":
    sys.exit(main())
