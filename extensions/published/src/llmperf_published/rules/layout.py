"""Rules on published layouts: ranks, batch sizes and the names of configurations."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from llmperf.types import Violation

from llmperf_published.reading.markdown import normal, plain
from llmperf_published.reading.numbers import whole
from llmperf_published.reading.settings import layout_in
from llmperf_published.reading.vocabulary import setting
from llmperf_published.rules import rule
from llmperf_published.types.document import Claim, ConfigurationName, Figure, Published, PublishedRow

DEGREES = ("tensor_parallel", "pipeline_parallel", "data_parallel", "sharding_degree")
MEBI_PER_MILLION = 2**20 / 1e6
"""`4M tokens` is printed for 4 x 10^6 and for 4 x 2^20."""


def place(row: PublishedRow) -> str:
    """The place of a row in the imported document, for a message."""
    return f"line {row.line}"


def world_size(row: PublishedRow) -> int | None:
    """Ranks of a row: its nodes x devices; None where it does not say."""
    return row.hardware.world_size


@rule("LP111", "error", "Nodes, devices and ranks of a published row multiply out")
def ranks_multiply_out(published: Published) -> Iterator[Violation]:
    """`2x8` are 16 devices, and tensor x pipeline x data parallel are as many ranks."""
    for index, row in enumerate(published.rows):
        where, layout, world = row.hardware, row.parallelism, world_size(row)
        if where.devices and where.devices not in (world, where.devices_per_node):
            expected = f"expected {world} ({where.nodes} x {where.devices_per_node}) or {where.devices_per_node} a node"
            yield f"/rows/{index}/hardware/devices", f"{expected}, found {where.devices}, {place(row)}"
        each = where.devices_per_node
        if where.nodes is None and where.devices and each and where.devices > each and where.devices % each:
            expected = f"expected a multiple of {each}, the devices of each node"
            yield f"/rows/{index}/hardware/devices", f"{expected}, found {where.devices}, {place(row)}"
        yield from _told_again(published, row, f"/rows/{index}")
        degrees = [layout.tensor_parallel or 1, layout.pipeline_parallel or 1, layout.other.get("CP", 1)]
        if world is None or _in_dies(published, row, prod(degrees)):
            continue
        if world % prod(degrees):
            expected = f"expected divisors of {world} devices"
            yield f"/rows/{index}/parallelism", f"{expected}, found {_product(degrees)} ranks a replica, {place(row)}"
        elif layout.data_parallel and layout.data_parallel * prod(degrees) != world:
            unprinted = None in (layout.tensor_parallel, layout.pipeline_parallel)
            if unprinted and world % (layout.data_parallel * prod(degrees)) == 0:
                continue  # `GPUs` 64, `DP` 1, `PP` 16: a degree that is not printed, such as TP 4
            expected = f"expected {world // prod(degrees)} ({world} devices / ({_product(degrees)}))"
            yield (
                f"/rows/{index}/parallelism/data_parallel",
                f"{expected}, found {layout.data_parallel}, {place(row)}",
            )


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
            yield f"{path}/hardware", f"expected {called} {expected}, found {counted}, {place(row)}"
    for name, text in _degrees_set(published, row):
        said, found = getattr(layout, name), whole(normal(text))
        if said is not None and found is not None and said != found:
            called = name.replace("_", " ")
            expected = f"expected {called} {said}, as elsewhere in the row"
            yield f"{path}/parallelism/{name}", f"{expected}, found {found}, {place(row)}"


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
    """`GBS=1024=4M tokens`: sequences are micro batch x accumulation x data parallel, tokens that x their length."""
    for index, row in enumerate(published.rows):
        for number, claim in enumerate(row.claims):
            path = f"/rows/{index}/claims/{number}"
            yield from ((f"{path}/{at}", f"{message}, {place(row)}") for at, message in _claim(row, claim))
    yield from _default_claim(published)


def _default_claim(published: Published) -> Iterator[Violation]:
    """A default of the global batch is that of some row which has the default micro batch and accumulation."""
    stated = published.defaults.global_batch
    computed = [row for row in published.rows if _by_default(row)]
    if stated and computed and all(row.batch.global_batch != stated for row in computed):
        row = computed[0]
        expected = f"expected {row.batch.global_batch} (micro batch x gradient accumulation x data parallel)"
        yield "/defaults/global_batch", f"{expected}, found {stated} by default, {place(row)}"


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
        yield "global_batch", f"expected {sequences} ({because}), found {claim.text!r}"
    if sequences is None and stated and stated.value:
        sequences, because = int(stated.value), f"{stated.text} sequences"
    if claim.tokens and sequences and batch.seq_len and not _tokens_admit(claim.tokens, sequences * batch.seq_len):
        because = f"{because} x {batch.seq_len} tokens"
        yield "tokens", f"expected {sequences * batch.seq_len} ({because}), found {claim.text!r}"


def _tokens_admit(told: Figure, tokens: int) -> bool:
    if told.value is None:
        return True
    binary = {1e3: 1.024, 1e6: MEBI_PER_MILLION, 1e9: 2**30 / 1e9}.get(told.scale, 1.0)
    return told.admits(tokens) or told.admits(tokens / binary)


@rule("LP113", "warning", "The document's formula gives the global batch of its rows")
def formula_holds(published: Published) -> Iterator[Violation]:
    """A formula that takes the world size for the data-parallel size gives another batch wherever TP or PP is not 1."""
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
            yield (
                "/formula",
                f"expected {given}, the global batch of line {row.line}, found {found:g} by {formula.text!r}"
                f"{_meant(formula.numerator, formula.denominator, known, given)}",
            )
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
    return f"; it holds with the world size {known['world_size']} for data_parallel" if meant else ""


@rule("LP114", "error", "The name of a configuration agrees with its row")
def configuration_agrees(published: Published) -> Iterator[Violation]:
    """`config_TP2PP4SH1SP1A10080Gx1x8` says layout, device, memory, nodes and devices, as other columns do."""
    for index, row in enumerate(published.rows):
        if (name := row.configuration_name) is None:
            continue
        for what, expected, found in _named(name, row):
            if expected is not None and found is not None and expected != found:
                message = f"expected {what} {expected} as in the row, found {found} in {name.text!r}, {place(row)}"
                yield f"/rows/{index}/configuration_name", message


def _named(name: ConfigurationName, row: PublishedRow) -> Iterator[tuple[str, int | None, int | None]]:
    """Values that the name repeats: the row's own, and the name's. What only the name says is not compared."""
    said, degrees, where = layout_in(row.parallel_text or ""), name.degrees, row.hardware
    yield "TP", said.tensor_parallel, degrees.get("TP", degrees.get("MP"))
    yield "PP", said.pipeline_parallel, degrees.get("PP")
    yield "DP", said.data_parallel or row.batch.data_parallel, degrees.get("DP")
    yield "sharding stage", said.sharding_stage, degrees.get("SH")
    yield "sharding degree", said.sharding_degree, degrees.get("SP") if "SH" in degrees else None
    yield "GB of memory", where.device_memory, name.memory
    yield "nodes", where.nodes, name.nodes
    yield "devices a node", where.devices_per_node, name.devices_per_node


@rule("LP115", "error", "The sharding degree of a published row divides its data parallel")
def published_sharding(published: Published) -> Iterator[Violation]:
    """States are shared among ranks that see different data."""
    for index, row in enumerate(published.rows):
        degree, ranks = row.parallelism.sharding_degree, row.batch.data_parallel
        if degree and ranks and ranks % degree:
            expected = f"expected a divisor of data parallel {ranks}"
            yield f"/rows/{index}/parallelism/sharding_degree", f"{expected}, found {degree}, {place(row)}"
