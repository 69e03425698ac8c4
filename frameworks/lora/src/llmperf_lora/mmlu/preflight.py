"""MMLU's files and the tokenizer, looked at before anything is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import llmperf
from llmperf.errors import UserError
from llmperf.types import Problem

from llmperf_lora.mmlu.prompts import prompts_of
from llmperf_lora.mmlu.questions import read_subjects

if TYPE_CHECKING:
    from llmperf.types import RunSpec

    from llmperf_lora.options import Options


def mmlu_problems(options: Options, spec: RunSpec) -> Iterator[Problem]:
    """All files are read, and a question of each subject is turned into tokens."""
    assert options.mmlu_folder is not None
    try:
        subjects = read_subjects(options.mmlu_folder, options.mmlu_split, options.mmlu_shots, options.mmlu_limit)
    except UserError as error:
        yield Problem(code="lora.mmlu", where="framework.mmlu", message=str(error))
        return
    try:
        encoder = llmperf.open_encoder(spec.data.tokenizer)
        for subject in subjects:
            list(prompts_of(replace(subject, questions=subject.questions[:1]), encoder, spec.model))
    except UserError as error:
        yield Problem(
            code="lora.tokenizer", where="data.tokenizer", message=str(error).removeprefix("data.tokenizer: ")
        )
