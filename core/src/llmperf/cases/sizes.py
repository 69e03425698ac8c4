"""Limits on sizes: planning refuses values far beyond those of real runs, since work on them might not end."""

from __future__ import annotations

from llmperf.types.plan_checks import Problem
from llmperf.types.spec import Contract, Tuning
from llmperf.types.texts import Text

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
"""The largest value of each setting, what it counts, and what real runs have of it."""


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


def accumulation_problems(contract: Contract, tuning: Tuning, data_parallel: int) -> list[Problem]:
    """A global batch that gives each rank more micro batches per step than any real run has."""
    accumulation, per_round = tuning.gradient_accumulation or 1, tuning.micro_batch * data_parallel
    if accumulation <= MOST_MICRO_BATCHES:
        return []
    most, why = REASONS["tuning.gradient_accumulation"]
    message = Text(
        "expected at most {} {}; found {}, which is global batch {} / (micro batch {} x data parallel {}); the nearest"
        " is --set global_batch={}",
        *(most, why, accumulation, contract.global_batch, tuning.micro_batch, data_parallel, most * per_round),
    )
    return [Problem(code="value_too_large", where="contract.global_batch", message=message)]
