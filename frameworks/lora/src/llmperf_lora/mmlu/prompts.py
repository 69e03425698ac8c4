"""Questions as prompts, word for word as lm-evaluation-harness puts them, as token ids, and checked before a run."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llmperf import setting_problem
from llmperf.errors import UserError
from llmperf.types import Problem
from llmperf_datasets.text import open_encoder

from llmperf_lora.mmlu.questions import LETTERS, Question, Subject, read_subjects

if TYPE_CHECKING:
    from llmperf.types import Model, RunSpec
    from llmperf_datasets.text import Encoder

    from llmperf_lora.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A question as the model sees it."""

    subject: str
    ids: array[int]
    """Up to just before the letter, the last of them at most as many as the model has positions."""
    letters: tuple[int, ...]
    """Ids of A, B, C, D in this place."""
    answer: int
    """Index of the right letter."""


def read_prompts(options: Options, tokenizer: str, model: Model) -> list[Prompt]:
    """Every question of a folder as a prompt; UserError for files or a tokenizer that will not do."""
    assert options.mmlu_folder is not None
    subjects = read_subjects(options.mmlu_folder, options.mmlu_split, options.mmlu_shots, options.mmlu_limit)
    encoder = open_encoder(tokenizer)
    return [prompt for subject in subjects for prompt in prompts_of(subject, encoder, model)]


def prompts_of(subject: Subject, encoder: Encoder, model: Model) -> Iterator[Prompt]:
    """The prompts of one subject; too long ones lose their beginning, as in lm-evaluation-harness."""
    start = introduction(subject)
    context = start + asked(subject.questions[0])
    ways: list[Sequence[int]] = [_encoded(f"{context} {letter}", encoder) for letter in LETTERS]
    same = all(way[:-1] == ways[0][:-1] for way in ways)
    letters = tuple(way[-1] for way in ways)
    if not same or len(set(letters)) != len(LETTERS):
        raise _unfit("' A' to ' D' must end in one token each")
    for question in subject.questions:
        *ids, last = _encoded(f"{start}{asked(question)} {LETTERS[0]}", encoder)
        if last != letters[0]:
            raise _unfit(f"{LETTERS[0]!r} is not the same token after every question")
        highest = max(*ids, *letters)
        if highest >= model.vocab_size:
            raise _unfit(f"token id {highest} is outside the vocabulary of {model.name}, 0 to {model.vocab_size - 1}")
        cut = array("I", ids[-model.max_positions :])  # a tuple of all of MMLU's would take hundreds of MiB
        yield Prompt(subject=subject.name, ids=cut, letters=letters, answer=question.answer)


def introduction(subject: Subject) -> str:
    """Prefix of all questions of a subject: a sentence, and examples with their answers."""
    topic = subject.name.replace("_", " ")
    examples = (f"{asked(one)} {LETTERS[one.answer]}\n\n" for one in subject.shots)
    return f"The following are multiple choice questions (with answers) about {topic}.\n\n{''.join(examples)}"


def asked(question: Question) -> str:
    """One question, up to its answer."""
    choices = "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, question.choices, strict=True))
    return f"{question.text.strip()}\n{choices}\nAnswer:"


def _encoded(text: str, encoder: Encoder) -> list[int]:
    return [*encoder.begin, *encoder.encode(text).tolist()]


def _unfit(why: str) -> UserError:
    return UserError(f"data.tokenizer: MMLU cannot be answered with it: {why}")


def mmlu_problems(options: Options, spec: RunSpec) -> Iterator[Problem]:
    """All files are read, and a question of each subject is turned into tokens."""
    assert options.mmlu_folder is not None
    try:
        subjects = read_subjects(options.mmlu_folder, options.mmlu_split, options.mmlu_shots, options.mmlu_limit)
    except UserError as error:
        yield setting_problem("lora", "framework.mmlu", str(error))
        return
    try:
        encoder = open_encoder(spec.data.tokenizer)
        for subject in subjects:
            list(prompts_of(replace(subject, questions=subject.questions[:1]), encoder, spec.model))
    except UserError as error:
        yield setting_problem("lora", "data.tokenizer", str(error).removeprefix("data.tokenizer: "))
