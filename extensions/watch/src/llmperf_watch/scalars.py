"""Scalars of TensorBoard, Weights & Biases and `trainer_state.json` as lines: `{'step': 10, 'train/loss': 2.5}`."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from llmperf import decode
from llmperf.errors import UserError

from llmperf_watch.profiles import all_profiles

EVENTS, STATE = "events.out.tfevents.", "trainer_state.json"
NAMES = (STATE, "wandb-history.jsonl", "wandb-summary.json")
SHARED = (EVENTS, *NAMES)
"""Begins of names that every run has: its folder names it."""
STEPS = ("train/global_step", "trainer/global_step", "global_step", "iteration_step", "step", "_step", "Step")
"""Columns of the step, the best first: `_step` of Weights & Biases counts calls of `log`."""
MAX_BYTES, MAX_ROWS = 2**26, 1_000_000
MAX_EVENT_BYTES = 2**24
Row = Mapping[str, Any]


@dataclass(frozen=True)
class _State:
    log_history: list[dict[str, Any]]


def are_scalars(path: Path) -> bool:
    """Check by its name, or by the header of a CSV file, whether a file has scalars of steps."""
    if path.name.startswith(EVENTS) or path.name in NAMES:
        return True
    if path.suffix.lower() != ".csv":
        return False
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        header = {_plain(name) for name in next(csv.reader([file.readline(2**20)]), [])}
    return not header.isdisjoint(STEPS) and not header.isdisjoint(_known())


def scalar_lines(path: Path) -> Iterator[str]:
    """One line for each record with a step, of the columns that a log profile reads. UserError for another file."""
    source: Iterable[Row]
    if path.stat().st_size > MAX_BYTES:
        raise UserError(f"{path}: expected at most {MAX_BYTES} bytes, found more")
    if path.name.startswith(EVENTS):
        source = _events(path)
    elif path.suffix.lower() == ".csv":
        source = _table(path)
    elif path.name == STATE:
        source = decode(path.read_bytes(), _State, str(path)).log_history
    else:
        texts = path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]
        source = (decode(text, dict[str, Any], f"{path}: record {number}") for number, text in enumerate(texts, 1))
    known = _known()
    wanted = known.union(STEPS)
    rows = [{name: value for name, value in row.items() if name in wanted} for row in islice(source, MAX_ROWS + 1)]
    if len(rows) > MAX_ROWS:
        raise UserError(f"{path}: expected at most {MAX_ROWS} records, found more")
    step = next((name for name in STEPS if any(name in row for row in rows)), None)
    if step is None:
        raise UserError(f"{path}: expected records with a step ({', '.join(STEPS)}), found none")
    for row in rows:
        numbers = {name: float(value) for name, value in row.items()
                   if type(value) in (int, float) and abs(value) < 1e300}  # fmt: skip
        if step in numbers:
            yield str({"step": numbers.pop(step), **{name: numbers[name] for name in numbers if name in known}})


def _known() -> set[str]:
    fields = (field for profile in all_profiles() for kind in profile.kinds for field in kind.fields)
    return {field.before.strip("' :") for field in fields} - {"step"}


def _plain(header: str) -> str:
    """The column of a chart's export, which begins with the name of the run: `run-7 - train/loss`."""
    return header.rpartition(" - ")[2].strip()


def _table(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        try:
            records = csv.reader(file)
            names = [_plain(name) for name in next(records, [])]
            if len({*names} & _known()) < sum(name in _known() for name in names):
                raise UserError(f"{path}: expected the columns of one run, found those of several")
            for record in records:
                yield {name: _number(cell) for name, cell in zip(names, record, strict=False)}
        except csv.Error as error:
            raise UserError(f"{path}: expected CSV, found {error}") from None


def _number(cell: str) -> float | None:
    try:
        return float(cell[:40])
    except ValueError:
        return None


def _events(path: Path) -> Iterator[Row]:
    """One row for successive scalars of a step, with the time of the first; a record that was cut off ends the file."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        raise UserError(f"{path}: expected the package tensorboard to read it: pip install tensorboard") from None
    row: dict[str, Any] = {}
    with path.open("rb") as file:
        while len(head := file.read(12)) == 12:
            size = int.from_bytes(head[:8], "little")
            if size > MAX_EVENT_BYTES:
                raise UserError(f"{path}: expected events of at most {MAX_EVENT_BYTES} bytes, found {size}")
            if len(data := file.read(size + 4)) < size + 4:
                break
            try:
                event = Event.FromString(data[:-4])
                found = {value.tag: value for value in event.summary.value if not value.tensor.tensor_shape.dim}
                values = {tag: value.simple_value if value.HasField("simple_value") else
                          make_ndarray(value.tensor).item() for tag, value in found.items()
                          if value.WhichOneof("value") in ("simple_value", "tensor")}  # fmt: skip
            except Exception as error:
                raise UserError(f"{path}: expected events of TensorBoard, found {error}") from None
            if row and values and event.step != row["step"]:
                yield row
                row = {}
            if values:
                row |= {**values, "step": event.step, "wall_time": row.get("wall_time", event.wall_time)}
    if row:
        yield row
