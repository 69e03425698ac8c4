"""`llmperf run` with `--matrix` or `--scale`: what both share before their first run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llmperf.cli.matrix import run_matrix
from llmperf.cli.scaling import run_scaling

if TYPE_CHECKING:
    import click

    from llmperf.planning.states import Request


def widest_request(common: Request, options: dict[str, Any]) -> tuple[Request, int]:
    """The request of `--matrix` or `--scale` that needs most nodes, and the parts that may run at the same time."""
    from llmperf.cases.matrix import read_matrix
    from llmperf.planning.requested_nodes import nodes_wanted
    from llmperf.running.matrix_cells import request_of
    from llmperf.running.scaling import parse_scale

    if common.launcher == "local":
        return common, 1
    if options["matrix"] is None:
        what, counts = parse_scale(options["scale"])
        nodes = max(counts) if what == "nodes" else -(-max(counts) // (common.devices or max(counts)))
        return replace(common, settings=(*common.settings, f"nodes={nodes}")), 1
    matrix = read_matrix(options["matrix"])
    requests = [request_of(cell, common, matrix.folder) for cell in matrix.cells]
    return max(requests, key=nodes_wanted), 1 if options["part"] else matrix.tasks


def run_many(ctx: click.Context, common: Request, options: dict[str, Any]) -> int:
    """Run `--matrix` or `--scale`; the exit code. `common` is the request that the other options make."""
    from llmperf.errors import UserError
    from llmperf.planning.nodes import NodesInUse

    options = {**ctx.params, **options}
    path = options["matrix"]
    if path is not None and options["scale"] is not None:
        raise UserError("--scale: expected without --matrix, which has numbers of devices of its own")
    nodes = NodesInUse(common.opened)
    common = replace(common, nodes_in_use=nodes)
    try:
        return run_scaling(ctx, common, options) if path is None else run_matrix(ctx, path, common, options)
    finally:
        nodes.close()
