"""SAMSum (Gliwa et al. 2019) from a local file in one of its published formats, each record in the usual prompt.

The prompt is that of llama-recipes: `Summarize this dialog: ... --- Summary: ...` and the tokenizer's end token.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes
from llmperf.tokens.data_sets import DataError

SAMSUM = "samsum"
PROMPT = "Summarize this dialog:\n{dialog}\n---\nSummary:\n{summary}"
MAX_BYTES = 64 * 2**20
"""The published file has 10 MB; larger files are refused without reading them."""
NAMES = ("train.json", "train.jsonl", "train.csv")
"""Names of the file in a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """The fields of a record that are used; its id is not read."""

    dialogue: str
    summary: str

    @property
    def text(self) -> str:
        """The text of the sample, without the end token."""
        return PROMPT.format(dialog=self.dialogue, summary=self.summary)


def samsum_file(path: Path) -> Path | None:
    """The file of records for a path: the path itself, or `train.*` in a folder; None for other kinds of data."""
    if path.is_dir():
        return next((path / name for name in NAMES if (path / name).is_file()), None)
    return path if path.suffix in _READERS else None


def read_dialogues(path: Path) -> tuple[Dialogue, ...]:
    """The records of a `.json` list, a `.jsonl` file or a `.csv` with a header; DataError that names the line."""
    try:
        content = read_bytes(path, MAX_BYTES)
    except UserError as error:
        raise DataError("data.path", str(error)) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError("data.path", f"{path}, line {line}: not UTF-8 text ({error.reason})") from None
    records = tuple(_READERS[path.suffix](text, path))
    if not records:
        raise DataError("data.path", f"{path} holds no records")
    return records


def _json(text: str, path: Path) -> Sequence[Dialogue]:
    try:
        rows = msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DataError("data.path", f"{path}: expected a list of records: {error}") from None
    return [_decoded(row, f"{path}, record {number}") for number, row in enumerate(rows, 1)]


def _jsonl(text: str, path: Path) -> Iterator[Dialogue]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _decoded(line, f"{path}, line {number}")


def _decoded(row: Any, where: str) -> Dialogue:
    try:
        return msgspec.json.decode(row, type=Dialogue)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DataError("data.path", f"{where}: expected texts 'dialogue' and 'summary': {error}") from None


def _csv(text: str, path: Path) -> Iterator[Dialogue]:
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        columns = rows.fieldnames or ()
        if missing := [name for name in ("dialogue", "summary") if name not in columns]:
            found = ", ".join(columns)[:200] or "none"
            raise DataError("data.path", f"{path}, line 1: expected columns {' and '.join(missing)}, found: {found}")
        for row in rows:
            if row["dialogue"] is None or row["summary"] is None or None in row:
                raise DataError("data.path", f"{path}, line {rows.line_num}: expected {len(columns)} columns")
            yield Dialogue(dialogue=row["dialogue"], summary=row["summary"])
    except csv.Error as error:
        raise DataError("data.path", f"{path}, line {rows.reader.line_num}: {error}") from None


_READERS: dict[str, Callable[[str, Path], Sequence[Dialogue] | Iterator[Dialogue]]] = {
    ".json": _json,
    ".jsonl": _jsonl,
    ".csv": _csv,
}
