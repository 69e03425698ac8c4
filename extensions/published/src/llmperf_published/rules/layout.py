"""Rules on published layouts: ranks, batch sizes and the names of configurations."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from llmperf.types import Text, Violation

from llmperf_published.reading.markdown import normal, plain
from llmperf_published.reading.numbers import whole
from llmperf_published.reading.settings import layout_in
from llmperf_published.reading.vocabulary import setting
from llmperf_published.rules import rule
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import Claim, ConfigurationName, Figure

DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "sharding_degree")
MEBI_PER_MILLION = 2**20 / 1e6
"""`4M tokens` is printed for 4 x 10^6 and for 4 x 2^20."""


def place(row: PublishedRow) -> str:
    """The place of a row in the imported document, for a message."""
    return Text("line {}", row.line)


def world_size(row: PublishedRow) -> int | None:
    """Ranks of a row: its nodes x devices; None where it does not say."""
    return row.hardware.world_size


@rule("LP111", "error", "Nodes, devices and ranks of a published row multiply out")
def ranks_multiply_out(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        where, layout, world = row.hardware, row.parallelism, world_size(row)
        if where.devices and where.devices not in (world, where.devices_per_node):
            each = where.devices_per_node
            expected = Text("expected {} ({} x {}) or {} a node", world, where.nodes, each, each)
            yield f"/rows/{index}/hardware/devices", Text("{}, found {}, {}", expected, where.devices, place(row))
        each = where.devices_per_node
        if where.nodes is None and where.devices and each and where.devices > each and where.devices % each:
            expected = Text("expected a multiple of {}, the devices of each node", each)
            yield f"/rows/{index}/hardware/devices", Text("{}, found {}, {}", expected, where.devices, place(row))
        yield from _told_again(published, row, f"/rows/{index}")
        degrees = [layout.tensor_parallel or 1, layout.pipeline_parallel or 1, layout.other.get("CP", 1)]
        if world is None or _in_dies(published, row, prod(degrees)):
            continue
        if world % prod(degrees):
            expected = Text("expected divisors of {} devices", world)
            message = Text("{}, found {} ranks a replica, {}", expected, _product(degrees), place(row))
            yield f"/rows/{index}/parallelism", message
        elif layout.data_parallel and layout.data_parallel * prod(degrees) != world:
            unprinted = None in (layout.tensor_parallel, layout.pipeline_parallel)
            if unprinted and world % (layout.data_parallel * prod(degrees)) == 0:
                continue  # `GPUs` 64, `DP` 1, `PP` 16: a degree that is not printed, such as TP 4
            expected = Text("expected {} ({} devices / ({}))", world // prod(degrees), world, _product(degrees))
            message = Text("{}, found {}, {}", expected, layout.data_parallel, place(row))
            yield f"/rows/{index}/parallelism/data_parallel", message


def _in_dies(published: Published, row: PublishedRow, replica: int) -> bool:
    """Check whether the layout counts dies of cards, such as `..x1x16` for 8 cards of two dies each."""
    where, each = row.hardware, row.hardware.devices_per_node
    names = [*published.configuration_names, *([row.configuration_name] if row.configuration_name else [])]
    ranks = {
        one.nodes * one.devices_per_node
        for one in names
        if each and one.nodes == where.nodes and one.nodes and one.devices_per_node == 2 * each
    }
    data = row.parallelism.data_parallel
    return data is not None and data * replica in ranks


def _told_again(published: Published, row: PublishedRow, path: str) -> Iterator[Violation]:
    """Values that other cells repeat, beside the configuration and the layout."""
    where, layout, world = row.hardware, row.parallelism, world_size(row)
    each = where.devices_per_node
    known = {
        "nodes": (where.nodes,),
        "devices_per_node": (each,),
        "world_size": (world,),
        "device_count": (world, each),
    }
    for name, cell in published.cells(row).items():
        counted = whole(normal(plain(cell))) if name in known else None
        if counted is not None and any(known[name]) and counted not in known[name]:
            expected = " or ".join(str(one) for one in dict.fromkeys(known[name]) if one)
            called = name.replace("_", " ")
            yield f"{path}/hardware", Text("expected {} {}, found {}, {}", called, expected, counted, place(row))
    for name, text in _degrees_set(published, row):
        said, found = getattr(layout, name), whole(normal(text))
        if said is not None and found is not None and said != found:
            called = name.replace("_", " ")
            expected = Text("expected {} {}, as elsewhere in the row", called, said)
            yield f"{path}/parallelism/{name}", Text("{}, found {}, {}", expected, found, place(row))


def _degrees_set(published: Published, row: PublishedRow) -> Iterator[tuple[str, str]]:
    """Degrees that a row has a column for or sets by name."""
    cells = [(name, plain(cell)) for name, cell in published.cells(row).items()]
    options = [(setting(name), text) for name, text in row.options.items()]
    for name, text in (*cells, *options):
        if name in DEGREES:
            yield name, text


def _product(degrees: list[int]) -> str:
    return " x ".join(map(str, degrees[:2] if degrees[2] == 1 else degrees))


@rule("LP112", "error", "A claimed global batch is that of the row")
def claims_hold(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        for number, claim in enumerate(row.claims):
            path = f"/rows/{index}/claims/{number}"
            yield from ((f"{path}/{at}", Text("{}, {}", message, place(row))) for at, message in _claim(row, claim))
    yield from _default_claim(published)


def _default_claim(published: Published) -> Iterator[Violation]:
    """A default of the global batch is that of some row which has the default micro batch and accumulation."""
    stated = published.defaults.global_batch
    computed = [row for row in published.rows if _by_default(row)]
    if stated and computed and all(row.batch.global_batch != stated for row in computed):
        row = computed[0]
        expected = Text("expected {} (micro batch x gradient accumulation x data parallel)", row.batch.global_batch)
        yield "/defaults/global_batch", Text("{}, found {} by default, {}", expected, stated, place(row))


def _by_default(row: PublishedRow) -> bool:
    origins = row.batch.origins
    kept = all(origins.get(name) == "batch defaults" for name in ("micro_batch", "gradient_accumulation"))
    return kept and row.batch.data_parallel is not None and not row.claims


def _claim(row: PublishedRow, claim: Claim) -> Iterator[Violation]:
    batch = row.batch
    factors = (batch.micro_batch, batch.gradient_accumulation, batch.data_parallel)
    sequences = prod(one for one in factors if one) if all(factors) else None
    stated = claim.global_batch
    because = " x ".join(map(str, factors))
    if stated and stated.value is not None and sequences and not stated.admits(sequences):
        yield "global_batch", Text("expected {} ({}), found {!r}", sequences, because, claim.text)
    if sequences is None and stated and stated.value:
        sequences, because = int(stated.value), Text("{} sequences", stated.text)
    if claim.tokens and sequences and batch.seq_len and not _tokens_admit(claim.tokens, sequences * batch.seq_len):
        because = Text("{} x {} tokens", because, batch.seq_len)
        yield "tokens", Text("expected {} ({}), found {!r}", sequences * batch.seq_len, because, claim.text)


def _tokens_admit(told: Figure, tokens: int) -> bool:
    if told.value is None:
        return True
    binary = {1e3: 1.024, 1e6: MEBI_PER_MILLION, 1e9: 2**30 / 1e9}.get(told.scale, 1.0)
    return told.admits(tokens) or told.admits(tokens / binary)


@rule("LP113", "warning", "The document's formula gives the global batch of its rows")
def formula_holds(published: Published) -> Iterator[Violation]:
    if (formula := published.formula) is None:
        return
    for row in published.rows:
        known = _quantities(row)
        names = (*formula.numerator, *formula.denominator)
        given = row.batch.global_batch
        if given is None or any(name not in known for name in names):
            continue
        found = _by(formula.numerator, formula.denominator, known)
        if found != given:
            values = given, row.line, found, formula.text, _meant(formula.numerator, formula.denominator, known, given)
            yield "/formula", Text("expected {}, the global batch of line {}, found {:g} by {!r}{}", *values)
            return


def _quantities(row: PublishedRow) -> dict[str, int]:
    batch, layout = row.batch, row.parallelism
    known = {
        "micro_batch": batch.micro_batch,
        "gradient_accumulation": batch.gradient_accumulation,
        "data_parallel": batch.data_parallel,
        "tensor_parallel": layout.tensor_parallel,
        "pipeline_parallel": layout.pipeline_parallel,
        "seq_len": batch.seq_len,
        "world_size": world_size(row),
    }
    return {name: value for name, value in known.items() if value is not None}


def _by(numerator: tuple[str, ...], denominator: tuple[str, ...], known: dict[str, int]) -> float:
    return prod(known[name] for name in numerator) / prod(known[name] for name in denominator)


def _meant(numerator: tuple[str, ...], denominator: tuple[str, ...], known: dict[str, int], given: int) -> str:
    """Likely meaning of the formula, where it can be recognised."""
    if "data_parallel" not in numerator or "world_size" not in known:
        return ""
    taken = {**known, "data_parallel": known["world_size"]}
    meant = _by(numerator, denominator, taken) == given
    return Text("; it holds with the world size {} for data_parallel", known["world_size"]) if meant else ""


@rule("LP114", "error", "The name of a configuration agrees with its row")
def configuration_agrees(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        if (name := row.configuration_name) is None:
            continue
        for what, expected, found in _named(name, row):
            if expected is not None and found is not None and expected != found:
                message = Text(
                    "expected {} {} as in the row, found {} in {!r}, {}", what, expected, found, name.text, place(row)
                )
                yield f"/rows/{index}/configuration_name", message


def _named(name: ConfigurationName, row: PublishedRow) -> Iterator[tuple[str, int | None, int | None]]:
    """Values that the name repeats: the row's own, and the name's. What only the name says is not compared."""
    said, degrees, where = layout_in(row.parallel_text or ""), name.degrees, row.hardware
    yield "TP", said.tensor_parallel, degrees.get("TP", degrees.get("MP"))
    yield "PP", said.pipeline_parallel, degrees.get("PP")
    yield "DP", said.data_parallel or row.batch.data_parallel, degrees.get("DP")
    yield Text("sharding stage"), said.sharding_stage, degrees.get("SH")
    yield Text("sharding degree"), said.sharding_degree, degrees.get("SP") if "SH" in degrees else None
    yield Text("GB of memory"), where.device_memory, name.memory
    yield "nodes", where.nodes, name.nodes
    yield Text("devices a node"), where.devices_per_node, name.devices_per_node


@rule("LP115", "error", "The sharding degree of a published row divides its data parallel")
def published_sharding(published: Published) -> Iterator[Violation]:
    for index, row in enumerate(published.rows):
        degree, ranks = row.parallelism.sharding_degree, row.batch.data_parallel
        if degree and ranks and ranks % degree:
            expected = Text("expected a divisor of data parallel {}", ranks)
            yield f"/rows/{index}/parallelism/sharding_degree", Text("{}, found {}, {}", expected, degree, place(row))
