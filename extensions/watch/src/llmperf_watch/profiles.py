"""Log profiles: how the output of a training program names its figures, as TOML files.

A profile holds no regular expressions. A field is a text with `{}` in place of the number, and is found by searching
for the text before `{}`, so that the time to read a line grows with its length alone, whoever wrote the profile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llmperf import printable, read_toml
from llmperf.errors import UserError, unknown

FOLDER = Path(__file__).parent / "profiles"
UNITS: Mapping[str, float] = {
    "": 1, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "%": 0.01,
    "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
    "FLOP/s": 1, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15,
    "1/s": 1, "1/min": 1 / 60, "1/ms": 1e3,
}  # fmt: skip
"""Factors of units to seconds, bytes, FLOP/s, shares of 1, and per second."""
OF_STEP = (
    *("step", "loss", "step_seconds", "tokens", "tokens_per_second", "tokens_per_second_per_device"),
    *("samples_per_second", "flops_per_second_per_device", "mfu", "memory_bytes", "time"),
)
"""Fields of a step; `time` is when it was printed, by the program's clock."""
WHOLE_RUN = ("run_seconds", "run_steps_per_second", "run_samples_per_second", "run_tokens")
"""Fields of the whole run, start-up included."""
OF_RUN = ("seq_len", "global_batch", "devices", "total_steps", *WHOLE_RUN)
"""Fields that hold for the whole run: the last printed value counts."""
TURNED = ("steps_per_second", "epoch", "tokens_seen", "samples_seen")
"""Fields that are turned into others: time, number and tokens of a step. What was seen is counted from the start."""
FIELDS = (*OF_STEP, *OF_RUN, *TURNED)
MAX_LINE = 4096
"""Characters of a line that are read."""
MAX_TEXT = 200
"""Characters of a text in a profile."""
KEYS = ("title", "source", "date", "note", "redrawn", "line")
"""Of a profile."""
MAX_ITEMS = 40
"""Kinds of line in a profile, fields and marks of a line."""
MAX_PLACES = 32
"""Places of a text in one line that are tried."""
NUMBER = re.compile(
    r"[ \t]*[\"']?([+-]?(?:\d{1,3}(?:,\d{3}){1,6}(?!\d)|\d{1,25}(?!\d))?(?:\.\d{0,25})?(?:[eE][+-]?\d{1,3})?)"
    r"([KMGBT](?![A-Za-z\d]))?"
)
SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
DOTS, SPACES = re.compile(r"[. ]*"), re.compile("[ \"']*")


@dataclass(frozen=True, slots=True)
class Field:
    """One number of a line."""

    name: str
    before: str
    """Text directly before the number, spaces and a quotation mark left out."""
    after: str
    """Text directly after it; empty where any may follow."""
    factor: float
    dotted: bool
    """Any number of dots may stand between the text and the number."""

    def value(self, line: str) -> float | None:
        """The number in a line in base units; None if the line does not have it."""
        place, before = -1, self.before
        for _ in range(MAX_PLACES):
            place = line.find(before, place + 1)
            if place < 0:
                return None
            if place and before[:1].isalnum() and (line[place - 1].isalnum() or line[place - 1] == "_"):
                continue
            start = place + len(before)
            if self.dotted:
                start = DOTS.match(line, start).end()  # type: ignore[union-attr]
            match = NUMBER.match(line, start)
            if match is None or not match[1]:
                continue
            if self.after:
                end = SPACES.match(line, match.end()).end()  # type: ignore[union-attr]
                if not line.startswith(self.after, end):
                    continue
            number, letter = match.groups()
            try:
                value = float(number.replace(",", "") if "," in number else number)
            except ValueError:  # such as a sign alone
                continue
            return value * self.factor * (SCALE[letter] if letter else 1)
        return None


@dataclass(frozen=True, slots=True)
class LineKind:
    """One kind of line of a program."""

    marks: tuple[str, ...]
    """Texts that are all in such a line."""
    without: tuple[str, ...]
    """Texts that are not in it."""
    fields: tuple[Field, ...]
    bar: bool = False
    """A progress bar without a title: the percentage comes first. Of several bars, the first one counts the steps."""

    def values(self, line: str) -> dict[str, float] | None:
        """Its figures by field; None for another kind of line."""
        for mark in self.marks:
            if mark not in line:
                return None
        for text in self.without:
            if text in line:
                return None
        if self.bar and not line.lstrip()[:1].isdigit():
            return None
        found: dict[str, float] = {}
        for field in self.fields:
            value = field.value(line) if field.name not in found and field.before in line else None
            if value is not None and (value > 0 or field.name != "memory_bytes"):
                found[field.name] = value
        if (rate := found.pop("steps_per_second", 0)) > 0:
            found.setdefault("step_seconds", 1 / rate)
        return found or None


@dataclass(frozen=True, slots=True)
class Profile:
    """How one program's output is read."""

    name: str
    title: str
    source: str
    kinds: tuple[LineKind, ...]
    note: str = ""
    """What a reader of the figures should know."""
    redrawn: bool = False
    """The lines of a step are drawn again with its figures: the last one's count, the first one's time."""

    def values(self, line: str) -> dict[str, float] | None:
        """The figures of a line, by the first kind that fits; None for a line without figures."""
        for kind in self.kinds:
            if (found := kind.values(line)) is not None:
                return found
        return None


def profile_files() -> dict[str, Path]:
    """Files by name, the user's own before those of this package."""
    from os import environ

    chosen = Path(environ.get("XDG_CONFIG_HOME", ""))
    own = (chosen if chosen.is_absolute() else Path.home() / ".config") / "llmperf" / "log-profiles"
    return {path.stem: path for folder in (FOLDER, own) for path in sorted(folder.glob("*.toml"))[999::-1]}


def find_profile(chosen: str) -> Profile:
    """The profile of a name, or in a file; UserError for an unknown name and for a file that is no profile."""
    if chosen.endswith(".toml") or "/" in chosen:
        return read_profile(Path(chosen))
    paths = profile_files()
    if chosen not in paths:
        raise unknown("--profile", "log profile", chosen, sorted(paths))
    return read_profile(paths[chosen])


def all_profiles() -> list[Profile]:
    """Every profile, the user's own before those of this package."""
    return [read_profile(path) for path in profile_files().values()]


@cache
def read_profile(path: Path) -> Profile:
    """The profile in a file; UserError that says where it is wrong."""
    table = read_toml(path)
    for key in table:
        if key not in KEYS:
            raise unknown(str(path), "key", key, KEYS)
    title, source = (_text(table.get(key, path.stem), f"{path}: {key}") for key in ("title", "source"))
    kinds = table.get("line")
    if not isinstance(kinds, list) or not 0 < len(kinds) <= MAX_ITEMS:
        raise UserError(f"{path}: expected 1 to {MAX_ITEMS} tables [[line]], found {_seen(kinds)}")
    lines = tuple(_kind(kind, f"{path}: line[{number}]") for number, kind in enumerate(kinds))
    if not any(field.name in (*OF_STEP, *TURNED) for kind in lines for field in kind.fields):
        raise UserError(f"{path}: expected a field of a step, such as step or loss, found none")
    note = _text(table["note"], f"{path}: note") if "note" in table else ""
    return Profile(path.stem, title, source, lines, note, _switch(table, "redrawn", str(path)))


def _kind(table: Any, where: str) -> LineKind:
    if not isinstance(table, dict) or not 0 < len(table) <= MAX_ITEMS:
        raise UserError(f"{where}: expected a table of fields, found {_seen(table)}")
    texts = {key: _texts(table.get(key, []), f"{where}.{key}") for key in ("marks", "without")}
    fields = []
    for name, given in table.items():
        if name in texts or name == "bar":
            continue
        if name not in FIELDS:
            raise unknown(where, "field", name, (*FIELDS, "marks", "without", "bar"))
        for item in given if isinstance(given, list) else [given]:
            fields.append(profile_field(name, item, f"{where}.{name}"))
    if not fields or len(fields) > MAX_ITEMS:
        raise UserError(f"{where}: expected 1 to {MAX_ITEMS} fields, found {len(fields)}")
    marks = texts["marks"] or (fields[0].before,)
    return LineKind(marks, texts["without"], tuple(fields), _switch(table, "bar", where))


def _switch(table: Mapping[str, Any], key: str, where: str) -> bool:
    if not isinstance(value := table.get(key, False), bool):
        raise UserError(f"{where}.{key}: expected true or false, found {_seen(value)}")
    return value


def profile_field(name: str, given: Any, where: str) -> Field:
    """The field of a text, or of a table of text and unit; UserError for what is neither."""
    unit = ""
    if isinstance(given, dict):
        if set(given) - {"text", "unit"}:
            raise unknown(where, "key", min(set(given) - {"text", "unit"}), ("text", "unit"))
        unit, given = given.get("unit", ""), given.get("text")
        if unit not in UNITS:
            raise unknown(f"{where}.unit", "unit", str(unit), UNITS)
    text = _text(given, where)
    before, hole, after = text.partition("{}")
    dotted = before.endswith("...")
    before = before.removesuffix("...").rstrip(" ")
    if not hole or "{}" in after or len(before.strip()) < 1:
        raise UserError(f"{where}: expected a text with one {{}} and something before it, found {given!r}")
    return Field(name, before, after.strip(), UNITS[unit], dotted)


def _texts(given: Any, where: str) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > MAX_ITEMS:
        raise UserError(f"{where}: expected a list of at most {MAX_ITEMS} texts, found {_seen(given)}")
    return tuple(_text(item, where) for item in given)


def _text(given: Any, where: str) -> str:
    if not isinstance(given, str) or not 0 < len(given) <= MAX_TEXT:
        raise UserError(f"{where}: expected a text of 1 to {MAX_TEXT} characters, found {_seen(given)}")
    return given


def _seen(given: object) -> str:
    return printable(f"{given!r:.60}") if not isinstance(given, (dict, list)) else f"{len(given)} items"
