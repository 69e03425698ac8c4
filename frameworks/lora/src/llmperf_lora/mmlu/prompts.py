"""MMLU's questions from its published CSV layout (`dev/`, `val/`, `test/`, a file for each subject), as prompts.

Hendrycks et al. 2021, "Measuring Massive Multitask Language Understanding", arXiv:2009.03300; 57 subjects. Prompts are
word for word those of lm-evaluation-harness, as token ids, and checked before a run.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf import open_regular, setting_problem
from llmperf.errors import UserError
from llmperf.types import Problem
from llmperf_datasets.text import open_encoder

LETTERS = "ABCD"
COLUMNS = 2 + len(LETTERS)
MAX_FILE_BYTES = 16 * 2**20
"""The largest published file has 1 MB."""
MAX_SUBJECTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One row."""

    text: str
    choices: tuple[str, ...]
    """For A, B, C, D."""
    answer: int
    """Index of the right one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The questions of one subject, and the examples that precede each of them."""

    name: str
    """As in the files' names."""
    shots: tuple[Question, ...]
    questions: tuple[Question, ...]


def read_subjects(folder: Path, split: str, shots: int, limit: int | None) -> tuple[Subject, ...]:
    """All subjects of a folder, by name; UserError that names the file and line of what is not as it should be.

    `folder` may also be what holds the published archive's `data` folder.
    """
    root = folder / "data" if (folder / "data" / split).is_dir() else folder
    names = subject_names(root, split)
    return tuple(
        Subject(
            name=name,
            shots=_shots(root / "dev" / f"{name}_dev.csv", shots),
            questions=read_questions(root / split / f"{name}_{split}.csv")[:limit],
        )
        for name in names
    )


def subject_names(root: Path, split: str) -> list[str]:
    """The subjects that a split has files for."""
    ending = f"_{split}.csv"
    try:
        files = [path.name for path in (root / split).iterdir() if path.name.endswith(ending)]
    except OSError as error:
        wanted = "expected the folders dev, val, test of MMLU's CSV layout"
        raise UserError(f"{root / split}: {error.strerror or error}; {wanted}") from None
    found = sorted(name.removesuffix(ending) for name in files)
    if not 0 < len(found) <= MAX_SUBJECTS:
        raise UserError(f"{root / split}: expected files SUBJECT{ending}, 1 to {MAX_SUBJECTS}, found {len(found)}")
    return found


def _shots(path: Path, shots: int) -> tuple[Question, ...]:
    if shots == 0:
        return ()
    found = read_questions(path)
    if len(found) < shots:
        nearest = f"--set framework.mmlu_shots={len(found)}"
        raise UserError(f"{path}: expected {shots} examples, found {len(found)}; {nearest}")
    return found[:shots]


def read_questions(path: Path) -> tuple[Question, ...]:
    """The rows of one file: question, four choices, the letter of the right one; no header."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    if len(content) > MAX_FILE_BYTES:
        raise UserError(f"{path}: larger than the {MAX_FILE_BYTES // 2**20} MiB that are read")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text ({error.reason})") from None
    rows, found = csv.reader(io.StringIO(text, newline="")), []
    try:
        for row in rows:
            if row:
                found.append(_question(row, f"{path}, line {rows.line_num}"))
    except csv.Error as error:
        raise UserError(f"{path}, line {rows.line_num}: {error}") from None
    if not found:
        raise UserError(f"{path}: expected questions, found none")
    return tuple(found)


def _question(row: list[str], where: str) -> Question:
    if len(row) != COLUMNS:
        raise UserError(f"{where}: expected a question, four choices and a letter, found {len(row)} columns")
    text, *choices, letter = row
    if letter.strip() not in tuple(LETTERS):
        raise UserError(f"{where}: expected A, B, C or D as answer, found {letter[:20]!r}")
    return Question(text=text, choices=tuple(choices), answer=LETTERS.index(letter.strip()))


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
