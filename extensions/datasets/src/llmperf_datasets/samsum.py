"""SAMSum (Gliwa et al. 2019), from a local file in one of its published formats, with the prompt of llama-recipes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from llmperf import read_bytes
from llmperf.errors import DataError, UserError
from numpy.typing import NDArray

from llmperf_datasets.text import Encoder, encoded
from llmperf_datasets.token_cache import cached_tokens, file_digest

SAMSUM = "samsum"
PROMPT = "Summarize this dialog:\n{dialog}\n---\nSummary:\n{summary}"
MAX_BYTES = 64 * 2**20
"""The published file has 10 MB; larger files are refused without reading them."""
NAMES = ("train.json", "train.jsonl", "train.csv")
"""Names of the file in a folder."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """The fields of a record that are used; its id is not read."""

    dialogue: str
    summary: str


def samsum_file(path: Path) -> Path | None:
    """The file of records for a path: the path itself, or `train.*` in a folder; None for other kinds of data."""
    if path.is_dir():
        return next((path / name for name in NAMES if (path / name).is_file()), None)
    return path if path.suffix in (".json", ".jsonl", ".csv") else None


def record_tokens(
    path: Path, encoder: Encoder, with_lengths: bool
) -> tuple[NDArray[np.integer], NDArray[np.integer] | None]:
    """The tokens of all records, joined, each followed by the tokenizer's end token; the number of these of each."""
    try:
        key = [SAMSUM, path.suffix, file_digest(path), encoder.identity]
    except OSError as error:
        raise DataError("data.path", f"{path}: {error.strerror or error}") from None

    def lengths() -> Iterator[NDArray[np.integer]]:
        for text in read_dialogues(path):
            yield np.array([len(encoder.encode(text)) + len(encoder.end)], dtype=np.int64)

    tokens = cached_tokens(key, encoder.dtype, lambda: encoded(read_dialogues(path), encoder))
    return tokens, cached_tokens([*key, "lengths"], "<u4", lengths) if with_lengths else None


def read_dialogues(path: Path) -> list[str]:
    """The texts of a `.json` list, a `.jsonl` file or a `.csv` with a header; DataError that names the line."""
    try:
        content = read_bytes(path, MAX_BYTES)
    except UserError as error:
        raise DataError("data.path", str(error)) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError("data.path", f"{path}, line {line}: not UTF-8 text ({error.reason})") from None
    records = list(_csv(text, path) if path.suffix == ".csv" else _json(text, path))
    if not records:
        raise DataError("data.path", f"{path} holds no records")
    return [PROMPT.format(dialog=record.dialogue, summary=record.summary) for record in records]


def _json(text: str, path: Path) -> Iterator[Dialogue]:
    rows: list[tuple[str, str | msgspec.Raw]]
    if path.suffix == ".jsonl":
        rows = [(f"line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    else:
        try:
            items = msgspec.json.decode(text, type=list[msgspec.Raw])
        except (msgspec.MsgspecError, RecursionError) as error:
            raise DataError("data.path", f"{path}: expected a list of records: {error}") from None
        rows = [(f"record {number}", item) for number, item in enumerate(items, 1)]
    for place, row in rows:
        try:
            yield msgspec.json.decode(row, type=Dialogue)
        except (msgspec.MsgspecError, RecursionError) as error:
            message = f"{path}, {place}: expected texts 'dialogue' and 'summary': {error}"
            raise DataError("data.path", message) from None


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
            yield Dialogue(row["dialogue"], row["summary"])
    except csv.Error as error:
        raise DataError("data.path", f"{path}, line {rows.reader.line_num}: {error}") from None
