"""Reading profiles: TOML that says how the columns of documents are read and what their rows leave out.

Its tables are `[columns]` (title in the document to a title that llmperf knows), `[constants]` (statements about all
rows) and `[rows]` (statements about the rows that have a cell, or a heading above their table, with this text).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llmperf import from_table, read_toml
from llmperf.errors import UserError, unknown
from llmperf.types import Lora

from llmperf_published.reading.markdown import plain, withheld
from llmperf_published.reading.vocabulary import column_meaning, squeezed, throughput_words, vocabulary
from llmperf_published.types.document import Column, Published

STATEMENTS = ("vendor", "device", "devices", "precision", "sequence_length", "model", "lora")
SHIPPED = Path(__file__).parents[1] / "profiles"
"""Profiles of known documents: each has all columns of their tables."""
IGNORED = "ignored"
"""The title of a column that is kept and not read."""
TITLES = ("tokens/s/device", "tokens/s/node", "tokens/s", "MFU (%)", IGNORED)


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile as its file has it; statements are text, but for adapters, and not checked."""

    path: Path
    columns: Mapping[str, str]
    constants: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]]

    @property
    def models(self) -> list[Path]:
        """Model files beside the profile that it names."""
        named = (values.get("model", "") for values in (self.constants, *self.rows.values()))
        return [self.path.with_name(name) for name in dict.fromkeys(named) if name.endswith(".toml")]

    @property
    def titles(self) -> Mapping[str, str]:
        """Squeezed headers to the titles by which they are read."""
        return {squeezed(header): title for header, title in self.columns.items()}

    @classmethod
    def read(cls, path: Path) -> Profile:
        """The profile in a file. UserError for an unknown key, title or statement."""
        content = read_toml(path)
        parts = {name: _table(content.get(name, {}), f"{path}: {name}") for name in ("columns", "constants", "rows")}
        if odd := next((name for name in content if name not in parts), None):
            raise unknown(str(path), "table", odd, parts)
        for header, title in parts["columns"].items():
            if not isinstance(title, str) or (title != IGNORED and column_meaning(title) is None):
                names = [*TITLES, *vocabulary("labels")]
                raise unknown(f"{path}: columns.{header}", "title", str(title), names)
        rows = {text: _statements(values, f"{path}: rows.{text}") for text, values in parts["rows"].items()}
        if odd := next((text for text, values in rows.items() if "vendor" in values), None):
            raise UserError(f"{path}: rows.{odd}: expected the vendor under constants, found it here")
        return cls(path, parts["columns"], _statements(parts["constants"], f"{path}: constants"), rows)


def named(text: str) -> Path:
    """The file of a profile: one with this path, or the shipped one of this name. UserError for neither."""
    known = {path.stem: path for path in SHIPPED.glob("*.toml")}
    if text not in known and not Path(text).is_file():
        raise unknown("--profile", "file or profile", text, known)
    return known.get(text, Path(text))


@cache
def fitting(headers: frozenset[str]) -> Profile | None:
    """The shipped profile with exactly these squeezed headers."""
    profiles = map(Profile.read, sorted(SHIPPED.glob("*.toml")))
    return next((profile for profile in profiles if profile.titles.keys() == headers), None)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{where}: expected a table, found {value!r}")
    return value


def _statements(values: Any, where: str) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for name, value in _table(values, where).items():
        if name not in STATEMENTS:
            raise unknown(where, "statement", name, STATEMENTS)
        if name == "lora":
            place = f"{where}.{name}"
            found[name] = from_table(_table(value, place), Lora, place)  # type: ignore[type-var]
            continue
        if not isinstance(value, (str, int)) or isinstance(value, bool) or not str(value).strip():
            raise UserError(f"{where}.{name}: expected text or a number, found {value!r}")
        if name == "model" and str(value).endswith(".toml") and Path(str(value)).name != value:
            raise UserError(f"{where}.{name}: expected the name of a file beside the profile, found {value!r}")
        found[name] = str(value)
    return found


def proposal(published: Published) -> str:
    """A profile for a document as it is read without one; what is missing is marked by `?` in a comment."""
    lines = [f"# {published.source.name}: replace each ?, and remove the # before it", "[columns]"]
    tables = [table for table in published.tables if table.kind != "general" and (table.measures_speed or table.rows)]
    measured = [table for table in tables if table.measures_speed] or tables
    headers: dict[str, Column] = {}
    for column in (column for table in measured for column in table.columns if plain(column.header)):
        headers.setdefault(squeezed(column.header), column)
    for column in headers.values():
        header, name = plain(column.header), column.name
        unclear = name is None or (name == "throughput" and throughput_words(header).scope in (None, "unclear"))
        known = None if unclear else header if name == "throughput" or "(" in header else name  # with its unit
        title = column.read_as or known
        key, value = (json.dumps(text, ensure_ascii=False) for text in (header, title or "?"))
        lines.append(f"{key} = {value}" if title else f"# {key} = {value}")
    rows = published.rows
    missing = {
        "device": any(row.hardware.device is None and row.hardware.device_model is None for row in rows),
        "devices": any(row.hardware.world_size is None for row in rows),
        "precision": any(row.precision is None and row.precision_text is None for row in rows),
        "sequence_length": any(row.batch.seq_len is None for row in rows),
        "model": any(row.model is None and withheld(row.model_text or "") for row in rows),
    }
    lines += ["", "[constants]", *(f'# {name} = "?"' for name, absent in missing.items() if absent or not rows)]
    if unread := dict.fromkeys(row.model_text for row in rows if row.model is None and row.model_text):
        lines += ["", "[rows]", *(f'# {json.dumps(text, ensure_ascii=False)} = {{ model = "?" }}' for text in unread)]
    return "\n".join(lines)
