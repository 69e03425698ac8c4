"""MMLU's questions from its published CSV layout: `dev/`, `val/`, `test/` with a file for each subject.

Hendrycks et al. 2021, "Measuring Massive Multitask Language Understanding", arXiv:2009.03300; 57 subjects.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from llmperf import open_regular
from llmperf.errors import UserError

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
