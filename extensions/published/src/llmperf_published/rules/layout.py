"""Rules on published layouts: ranks, batch sizes and the names of configurations."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from llmperf.types import Text, Violation

from llmperf_published.reading.markdown import normal, plain
from llmperf_published.reading.numbers import whole
from llmperf_published.reading.settings import layout_in
from llmperf_published.reading.vocabulary import setting
from llmperf_published.rules import row_rule, rule
from llmperf_published.types.document import Published, PublishedRow

DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "sharding_degree")
BINARY = {1e3: 2**10 / 1e3, 1e6: 2**20 / 1e6, 1e9: 2**30 / 1e9}
"""`4M tokens` is printed for 4 x 10^6 and for 4 x 2^20."""


@row_rule("LP111", "error", "Nodes, devices and ranks of a published row multiply out")
def ranks_multiply_out(published: Published, row: PublishedRow) -> Iterator[Violation]:
    where, layout, world, each = row.hardware, row.parallelism, row.hardware.world_size, row.hardware.devices_per_node
    if where.devices and where.devices not in (world, each):
        expected = Text("expected {} ({} x {}) or {} a node", world, where.nodes, each, each)
        yield "hardware/devices", Text("{}, found {}", expected, where.devices)
    if where.nodes is None and where.devices and each and where.devices > each and where.devices % each:
        expected = Text("expected a multiple of {}, the devices of each node", each)
        yield "hardware/devices", Text("{}, found {}", expected, where.devices)
    known = {
        "nodes": (where.nodes,),
        "devices_per_node": (each,),
        "world_size": (world,),
        "device_count": (world, each),
    }
    cells = [(name, plain(cell)) for name, cell in published.cells(row).items()]
    for name, text in cells:
        counted = whole(normal(text)) if name in known else None
        if counted is not None and any(known[name]) and counted not in known[name]:
            either = " or ".join(str(one) for one in dict.fromkeys(known[name]) if one)
            yield "hardware", Text("expected {} {}, found {}", name.replace("_", " "), either, counted)
    for degree, text in (*cells, *((setting(name), text) for name, text in row.options.items())):
        if degree in DEGREES:
            said, found = getattr(layout, degree), whole(normal(text))
            if said is not None and found is not None and said != found:
                expected = Text("expected {} {}, as elsewhere in the row", degree.replace("_", " "), said)
                yield f"parallelism/{degree}", Text("{}, found {}", expected, found)
    degrees = [layout.tensor_parallel or 1, layout.pipeline_parallel or 1, layout.other.get("CP", 1)]
    replica = prod(degrees)
    product = " x ".join(map(str, degrees[:2] if degrees[2] == 1 else degrees))
    names = [*published.configuration_names, *([row.configuration_name] if row.configuration_name else [])]
    dies = {  # ranks of names such as `..x1x16` for 8 cards of two dies each
        one.nodes * one.devices_per_node
        for one in names
        if each and one.nodes == where.nodes and one.nodes and one.devices_per_node == 2 * each
    }
    if world is None or (layout.data_parallel is not None and layout.data_parallel * replica in dies):
        return
    if world % replica:
        expected = Text("expected divisors of {} devices", world)
        yield "parallelism", Text("{}, found {} ranks a replica", expected, product)
    elif layout.data_parallel and layout.data_parallel * replica != world:
        unprinted = None in (layout.tensor_parallel, layout.pipeline_parallel)
        if unprinted and world % (layout.data_parallel * replica) == 0:
            return  # `GPUs` 64, `DP` 1, `PP` 16: a degree that is not printed, such as TP 4
        expected = Text("expected {} ({} devices / ({}))", world // replica, world, product)
        yield "parallelism/data_parallel", Text("{}, found {}", expected, layout.data_parallel)


@rule("LP112", "error", "A claimed global batch is that of the row")
def claims_hold(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        batch = row.batch
        factors = (batch.micro_batch, batch.gradient_accumulation, batch.data_parallel)
        for number, claim in enumerate(row.claims):
            path, line, stated = f"/rows/{index}/claims/{number}", Text("line {}", row.line), claim.global_batch
            sequences = prod(one for one in factors if one) if all(factors) else None
            because = " x ".join(map(str, factors))
            if stated and stated.value is not None and sequences and not stated.admits(sequences):
                message = Text("expected {} ({}), found {!r}", sequences, because, claim.text)
                yield f"{path}/global_batch", Text("{}, {}", message, line)
            if sequences is None and stated and stated.value:
                sequences, because = int(stated.value), Text("{} sequences", stated.text)
            tokens = sequences * batch.seq_len if sequences and batch.seq_len else 0
            binary = tokens / BINARY.get(claim.tokens.scale, 1.0) if claim.tokens else 0
            if claim.tokens and tokens and not (claim.tokens.admits(tokens) or claim.tokens.admits(binary)):
                because = Text("{} x {} tokens", because, batch.seq_len)
                message = Text("expected {} ({}), found {!r}", tokens, because, claim.text)
                yield f"{path}/tokens", Text("{}, {}", message, line)
    stated_batch = published.defaults.global_batch
    by_default = [
        row for row in published.rows
        if row.batch.data_parallel is not None and not row.claims
        and row.batch.origins.get("micro_batch") == row.batch.origins.get("gradient_accumulation") == "batch defaults"
    ]  # fmt: skip
    if stated_batch and by_default and all(row.batch.global_batch != stated_batch for row in by_default):
        row = by_default[0]
        expected = Text("expected {} (micro batch x gradient accumulation x data parallel)", row.batch.global_batch)
        found = Text("{}, found {} by default, {}", expected, stated_batch, Text("line {}", row.line))
        yield "/defaults/global_batch", found


@rule("LP113", "warning", "The document's formula gives the global batch of its rows")
def formula_holds(published: Published) -> Iterator[Violation]:
    if (formula := published.formula) is None:
        return

    def by_formula(known: dict[str, int]) -> float:
        return prod(known[name] for name in formula.numerator) / prod(known[name] for name in formula.denominator)

    for row in published.rows:
        batch, layout, given, world = row.batch, row.parallelism, row.batch.global_batch, row.hardware.world_size
        quantities = {
            "micro_batch": batch.micro_batch,
            "gradient_accumulation": batch.gradient_accumulation,
            "data_parallel": batch.data_parallel,
            "tensor_parallel": layout.tensor_parallel,
            "pipeline_parallel": layout.pipeline_parallel,
            "seq_len": batch.seq_len,
            "world_size": world,
        }
        known = {name: value for name, value in quantities.items() if value is not None}
        if given is None or not {*formula.numerator, *formula.denominator} <= set(known):
            continue
        found = by_formula(known)
        if found != given:
            meant = ""
            if (
                "data_parallel" in formula.numerator
                and world
                and by_formula({**known, "data_parallel": world}) == given
            ):
                meant = Text("; it holds with the world size {} for data_parallel", world)
            values = given, row.line, found, formula.text, meant
            yield "/formula", Text("expected {}, the global batch of line {}, found {:g} by {!r}{}", *values)
            return


@row_rule("LP114", "error", "The name of a configuration agrees with its row")
def configuration_agrees(_: Published, row: PublishedRow) -> Iterator[Violation]:
    if (name := row.configuration_name) is None:
        return
    said, degrees, where = layout_in(row.parallel_text or ""), name.degrees, row.hardware
    pairs = (
        ("TP", said.tensor_parallel, degrees.get("TP", degrees.get("MP"))),
        ("PP", said.pipeline_parallel, degrees.get("PP")),
        ("DP", said.data_parallel or row.batch.data_parallel, degrees.get("DP")),
        (Text("sharding stage"), said.sharding_stage, degrees.get("SH")),
        (Text("sharding degree"), said.sharding_degree, degrees.get("SP") if "SH" in degrees else None),
        (Text("GB of memory"), where.device_memory, name.memory),
        ("nodes", where.nodes, name.nodes),
        (Text("devices a node"), where.devices_per_node, name.devices_per_node),
    )
    for what, expected, found in pairs:
        if expected is not None and found is not None and expected != found:
            message = Text("expected {} {} as in the row, found {} in {!r}", what, expected, found, name.text)
            yield "configuration_name", message


@row_rule("LP115", "error", "The sharding degree of a published row divides its data parallel")
def published_sharding(_: Published, row: PublishedRow) -> Iterator[Violation]:
    degree, ranks = row.parallelism.sharding_degree, row.batch.data_parallel
    if degree and ranks and ranks % degree:
        expected = Text("expected a divisor of data parallel {}", ranks)
        yield "parallelism/sharding_degree", Text("{}, found {}", expected, degree)
