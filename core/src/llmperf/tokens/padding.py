"""Sequences of one record each, cut at seq_len or padded with places that are neither predicted nor counted; SAMSum.

SAMSum (Gliwa et al. 2019) is read from a local file in one of its published formats. The prompt is that of
llama-recipes: `Summarize this dialog: ... --- Summary: ...` and the tokenizer's end token.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes
from llmperf.tokens.arrays import npy_tokens
from llmperf.tokens.cache import cached_tokens, file_digest
from llmperf.tokens.data_sets import DataError, local_path
from llmperf.tokens.draws import SampleOrder
from llmperf.tokens.encoders import Encoder, open_encoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llmperf.types import Batch, RunSpec

IGNORED = -100
"""Marks a padded place; the cross entropy of torch and of Paddle ignores labels with this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaddedSamples:
    """Samples of one record each."""

    where: str
    tokens: NDArray[np.integer]
    starts: NDArray[np.int64]
    """Index of the first token of each record, and the number of all tokens."""
    seq_len: int
    order: SampleOrder
    repeat: bool

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all records."""
        digest = hashlib.sha256(f"records/v1/{len(self.starts)}".encode())
        digest.update(self.starts.astype("<i8").tobytes())
        digest.update(self.tokens.astype("<i8").tobytes())
        return digest.hexdigest()

    def at(self, place: int) -> NDArray[np.int64]:
        """The sample at a place of the global order, int64 [seq_len + 1]; `IGNORED` after the end of the record."""
        start, stop = self._bounds(place)
        row = np.full(self.seq_len + 1, IGNORED, dtype=np.int64)
        row[: stop - start] = self.tokens[start:stop]
        return row

    def learnt(self, place: int) -> int:
        """Predicted tokens of that sample: all but its first."""
        start, stop = self._bounds(place)
        return stop - start - 1

    def _bounds(self, place: int) -> tuple[int, int]:
        if place >= self.order.samples and not self.repeat:
            raise DataError(self.where, f"its {self.order.samples} records have been used up; --set data.repeat=true")
        record = self.order[place]
        start, stop = int(self.starts[record]), int(self.starts[record + 1])
        return start, min(stop, start + self.seq_len + 1)


def open_padded(spec: RunSpec, batch: Batch | None) -> PaddedSamples:
    """The records of a run; DataError if the data set has no records, or too few for its steps."""
    path = None if spec.data.path is None else samsum_file(local_path(spec.data.path))
    if spec.contract.dataset != SAMSUM or spec.data.format != "auto" or path is None:
        raise DataError(
            "contract.packing",
            f"padded sequences need a data set of records: {SAMSUM!r} with --set data.path=train.json (or .jsonl,"
            " .csv); the nearest is packed",
        )
    encoder = open_encoder(spec.data.tokenizer)

    def parts() -> Iterator[NDArray[np.integer]]:
        for record in read_dialogues(path):
            yield np.array([len(encoder.encode(record.text)) + len(encoder.end)], dtype=np.int64)

    lengths = npy_tokens(cached_tokens([*_key(path), encoder.identity, "lengths"], "<u4", parts)).astype(np.int64)
    if lengths.min() < 2:
        raise DataError("data.tokenizer", "it turns a record into fewer than two tokens, so that nothing is predicted")
    records = len(lengths)
    wanted = 1 if batch is None or spec.data.repeat else spec.contract.steps * batch.global_batch
    if records < wanted:
        raise DataError(
            "data.path",
            f"too short: {records} records; {spec.contract.steps} steps need {wanted}; --set data.repeat=true",
        )
    return PaddedSamples(
        where="data.path",
        tokens=npy_tokens(record_tokens(path, encoder)),
        starts=np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)]),
        seq_len=spec.contract.seq_len,
        order=SampleOrder(len(lengths), spec.contract.seed),
        repeat=spec.data.repeat,
    )


def record_tokens(path: Path, encoder: Encoder) -> Path:
    """The tokens of SAMSum's records, joined, each followed by the tokenizer's end token."""

    def parts() -> Iterator[NDArray[np.integer]]:
        for record in read_dialogues(path):
            yield encoder.encode(record.text)
            yield np.array(encoder.end, dtype=np.int64)

    return cached_tokens([*_key(path), encoder.identity], encoder.dtype, parts)


def _key(path: Path) -> list[str]:
    try:
        return [SAMSUM, path.suffix, file_digest(path)]
    except OSError as error:
        raise DataError("data.path", f"{path}: {error.strerror or error}") from None


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
