"""Limits on sizes: planning refuses values far beyond those of real runs, since work on them might not end."""

from __future__ import annotations

from collections.abc import Iterator

from llmperf.types.problems import Problem
from llmperf.types.spec import Contract, Tuning

MOST_TOKENS = 2**24
MOST_SEQUENCES = 65_536
MOST_MICRO_BATCHES = 65_536
MOST_DEVICES = 1024
MOST_RANKS = 2**20

REASONS = {
    "contract.seq_len": (MOST_TOKENS, "tokens in a sequence; the longest published contexts have 10 million"),
    "tuning.micro_batch": (MOST_SEQUENCES, "sequences in one forward pass; real runs have one to some hundred"),
    "tuning.gradient_accumulation": (MOST_MICRO_BATCHES, "micro batches in a step; published runs have up to 512"),
    "tuning.devices": (MOST_DEVICES, "ranks on a node; the largest nodes have 576 devices"),
}
"""The largest value of each setting, what it counts, and what real runs have of it."""


def size_problems(contract: Contract, tuning: Tuning) -> list[Problem]:
    """Settings beyond the limits; call it before anything is computed from the settings."""
    values = {
        "contract.seq_len": contract.seq_len,
        "tuning.micro_batch": tuning.micro_batch,
        "tuning.gradient_accumulation": tuning.gradient_accumulation or 1,
        "tuning.devices": tuning.devices,
    }
    return [*_too_large(values), *_too_many_ranks(tuning)]


def _too_large(values: dict[str, int]) -> Iterator[Problem]:
    for path, value in values.items():
        most, why = REASONS[path]
        if value > most:
            name = path.split(".")[1]
            message = f"expected at most {most} {why}; found {value}, the nearest is --set {name}={most}"
            yield Problem(code="value_too_large", where=path, message=message)


def _too_many_ranks(tuning: Tuning) -> Iterator[Problem]:
    if tuning.nodes * tuning.devices > MOST_RANKS:
        nearest = max(1, MOST_RANKS // tuning.devices)
        message = (
            f"expected at most {MOST_RANKS} ranks, several times the largest clusters; found {tuning.nodes} nodes x"
            f" {tuning.devices} devices = {tuning.nodes * tuning.devices}, the nearest is {nearest} nodes"
        )
        yield Problem(code="value_too_large", where="tuning.nodes", message=message)


def accumulation_problems(contract: Contract, tuning: Tuning, data_parallel: int) -> list[Problem]:
    """A global batch that gives each rank more micro batches per step than any real run has."""
    accumulation, per_round = tuning.gradient_accumulation or 1, tuning.micro_batch * data_parallel
    if accumulation <= MOST_MICRO_BATCHES:
        return []
    most, why = REASONS["tuning.gradient_accumulation"]
    message = (
        f"expected at most {most} {why}; found {accumulation}, which is global batch {contract.global_batch} /"
        f" (micro batch {tuning.micro_batch} x data parallel {data_parallel}); the nearest is"
        f" --set global_batch={most * per_round}"
    )
    return [Problem(code="value_too_large", where="contract.global_batch", message=message)]
