"""Notes for a reader of the result; imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from llmperf_lora.options import read_options

if TYPE_CHECKING:
    from llmperf.types import RunSpec


def notes(spec: RunSpec) -> Iterator[str]:
    """Where the base weights come from, and how MMLU is measured."""
    options = read_options(spec)
    if options.base_weights is None:
        yield (
            "base weights: deterministic initialisation from the seed, not pretrained; throughput and memory do not"
            " depend on them, losses and accuracies do"
        )
    else:
        yield f"base weights: read from {options.base_weights}"
    if options.mmlu is not None:
        share = "all questions" if options.mmlu_limit is None else f"at most {options.mmlu_limit} questions"
        yield (
            f"MMLU: {options.mmlu_split} split, {options.mmlu_shots} shots, {share} of each subject, by the likelihood"
            " of A to D; mmlu_before is measured after the training too, with the adapters switched off: the base"
            " weights are frozen, so it is the figure before the training"
        )
