"""Case + overlays + command line -> RunSpec, with every departure from the case on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmperf.accounting.optimiser_step import settle
from llmperf.accounting.rank_layout import data_parallel_of, layout_problems
from llmperf.accounting.routing import DEFAULT_SKEW, MOST_EXPERTS
from llmperf.cases.library import Library
from llmperf.cases.settings import FREE, Setting, flattened
from llmperf.files.json_files import builtins, convert
from llmperf.types.frozen import dataclass
from llmperf.types.models import Model
from llmperf.types.plan_checks import Problem
from llmperf.types.spec import Case, Change, Contract, DataSource, RunSpec, Tuning
from llmperf.types.texts import Text

SEED = "contract.seed"
MOST_TOKENS = 2**24
MOST_SEQUENCES = 65_536
MOST_MICRO_BATCHES = 65_536
MOST_DEVICES = 1024
MOST_RANKS = 2**20

IN_A_STEP = Text("micro batches in a step; published runs have up to 512")
REASONS = {
    "contract.seq_len": (MOST_TOKENS, Text("tokens in a sequence; the longest published contexts have 10 million")),
    "tuning.micro_batch": (MOST_SEQUENCES, Text("sequences in one forward pass; real runs have one to some hundred")),
    "tuning.gradient_accumulation": (MOST_MICRO_BATCHES, IN_A_STEP),
    "tuning.devices": (MOST_DEVICES, Text("ranks on a node; the largest nodes have 576 devices")),
}
"""The largest value of each setting, what it counts, and what real runs have of it: work on more might not end."""


@dataclass(frozen=True, slots=True)
class Available:
    """Number of devices of the machine; None where a device can be divided at will."""

    nodes: int | None
    devices: int | None


def resolve(
    case: Case, library: Library, settings: Sequence[Setting], available: Available, challenge: str | None = None
) -> tuple[RunSpec, list[Problem]]:
    """The spec and what does not fit in it; later settings win. A challenge is given by its nonce."""
    parts = {"contract": case.contract, "tuning": case.tuning, "framework": case.framework, "data": case.data}
    tables: dict[str, Any] = builtins(parts)
    for setting in settings:
        free = setting.path.startswith(FREE)
        *folders, leaf = ("framework", setting.path[len(FREE) :]) if free else setting.path.split(".")
        table = tables
        for folder in folders:
            if table.get(folder) is None:
                table[folder] = {}
            table = table[folder]
        table[leaf] = builtins(setting.value)
    origins = {setting.path: setting.origin for setting in settings}
    contract = convert(tables["contract"], Contract, f"case {case.name}: contract")
    if challenge is not None:
        contract = replace(contract, seed=challenge_seed(challenge))
    for name, here in (("nodes", available.nodes), ("devices", available.devices)):  # unless a setting asks for more
        if here is not None and here < tables["tuning"][name] and f"tuning.{name}" not in origins:
            tables["tuning"][name] = here
            origins[f"tuning.{name}"] = f"this machine has {here}"
    tuning = convert(tables["tuning"], Tuning, f"case {case.name}: tuning")
    model = library.model(contract.model, f"{origins.get('contract.model', f'case {case.name}')}: contract.model")
    contract = replace(contract, model=model.name)
    too_large = size_problems(contract, tuning)
    problems = too_large or layout_problems(contract, tuning, model)
    if not too_large:
        global_batch, accumulation, problem = settle(contract, tuning, data_parallel_of(tuning), set(origins))
        if global_batch != contract.global_batch:
            origins["contract.global_batch"] = "follows from gradient_accumulation"
        if accumulation != tuning.gradient_accumulation:
            origins.setdefault("tuning.gradient_accumulation", "follows from global_batch")
        contract = replace(contract, global_batch=global_batch)
        tuning = replace(tuning, gradient_accumulation=accumulation)
        most, why = REASONS["tuning.gradient_accumulation"]
        if problem is None and accumulation > most:
            micro, ranks = tuning.micro_batch, data_parallel_of(tuning)
            too_many = Text(
                "expected at most {} {}; found {}, which is global batch {} / (micro batch {} x data parallel {}); the"
                " nearest is --set global_batch={}",
                *(most, why, accumulation, global_batch, micro, ranks, most * micro * ranks),
            )
            problem = Problem(code="value_too_large", where="contract.global_batch", message=too_many)
        if problem is not None and all(other.code != "ranks_not_divisible" for other in problems):
            problems.append(problem)
    if contract.seq_len > (model.max_positions or contract.seq_len):
        message = (
            f"{contract.model} has {model.max_positions} positions, found {contract.seq_len};"
            f" the nearest is --set seq_len={model.max_positions}"
        )
        problems.append(Problem(code="sequence_too_long", where="contract.seq_len", message=message))
    if contract.warmup_steps >= contract.steps:
        message = f"expected fewer than steps = {contract.steps}, found {contract.warmup_steps}; nothing is measured"
        problems.append(Problem(code="nothing_measured", where="contract.warmup_steps", message=message))
    problems += _routing_problems(contract, model)
    spec = RunSpec(
        case=case.name,
        title=case.title,
        contract=contract,
        tuning=tuning,
        model=model,
        framework=tables["framework"],
        data=convert(tables["data"], DataSource, f"case {case.name}: data"),
        challenge=challenge,
    )
    return replace(spec, changes=changes_from(flat_case(case), spec, origins)), problems


def size_problems(contract: Contract, tuning: Tuning) -> list[Problem]:
    """Settings beyond the limits; call it before anything is computed from the settings."""
    problems = []
    for path, (most, why) in REASONS.items():
        name = path.split(".")[1]
        value = getattr(contract if path.startswith("contract.") else tuning, name) or 1
        if value > most:
            message = Text("expected at most {} {}; found {}, the nearest is --set {}={}", most, why, value, name, most)
            problems.append(Problem(code="value_too_large", where=path, message=message))
    if tuning.nodes * tuning.devices > MOST_RANKS:
        nearest = max(1, MOST_RANKS // tuning.devices)
        message = Text(
            "expected at most {} ranks, several times the largest clusters; found {} nodes x {} devices = {}, the"
            " nearest is {} nodes",
            *(MOST_RANKS, tuning.nodes, tuning.devices, tuning.nodes * tuning.devices, nearest),
        )
        problems.append(Problem(code="value_too_large", where="tuning.nodes", message=message))
    return problems


def _routing_problems(contract: Contract, model: Model) -> list[Problem]:
    """Routing other than learned for a model without experts, or a skew that nothing uses."""
    routing, experts = contract.routing, 0 if model.mixture is None else model.mixture.experts
    if routing != "learned" and not 0 < experts <= MOST_EXPERTS:
        has = f"has {experts} experts, more than the {MOST_EXPERTS} of routing tables" if experts else "is dense"
        message = f"{model.name} {has}: expected learned, found {routing}; nearest: --set routing=learned"
        return [Problem(code="routing_not_possible", where="contract.routing", message=message)]
    if routing != "skewed" and contract.routing_skew != DEFAULT_SKEW:
        message = f"expected {DEFAULT_SKEW} with {routing} routing, found {contract.routing_skew}"
        message = f"{message}; nearest: --set routing_skew={DEFAULT_SKEW}" + ", or --set routing=skewed" * bool(experts)
        return [Problem(code="skew_without_use", where="contract.routing_skew", message=message)]
    return []


def changes_from(before: Mapping[str, Any], spec: RunSpec, origins: Mapping[str, str]) -> tuple[Change, ...]:
    """Every leaf of contract, tuning and framework options that differs from the leaves of a case (`flat_case`): this
    is `fix_hp`."""
    after = _flatten({"contract": spec.contract, "tuning": spec.tuning, "framework": spec.framework})
    return tuple(
        Change(path=path, case_value=before.get(path), value=after.get(path), origin=origins.get(path, "follows"))
        for path in sorted({**before, **after})
        if before.get(path) != after.get(path) and not (path == SEED and spec.challenge is not None)
    )


def flat_case(case: Case) -> dict[str, Any]:
    """Every leaf of a case's contract, tuning and framework options by its path."""
    _, accumulation, _ = settle(case.contract, case.tuning, data_parallel_of(case.tuning), set())
    tuning = replace(case.tuning, gradient_accumulation=accumulation)
    return _flatten({"contract": case.contract, "tuning": tuning, "framework": case.framework})


def _flatten(parts: Mapping[str, Any]) -> dict[str, Any]:
    leaves = flattened(builtins(parts))
    return {path: ", ".join(map(str, leaf)) if isinstance(leaf, (list, tuple)) else leaf for path, leaf in leaves}


def challenge_seed(nonce: str) -> int:
    """The seed of a challenged run: the first 31 bits of SHA-256 over `llmperf/challenge/v1/NONCE`."""
    import hashlib  # takes 3 ms

    digest = hashlib.sha256(f"llmperf/challenge/v1/{nonce}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
