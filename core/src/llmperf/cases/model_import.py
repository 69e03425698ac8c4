"""Models of other programs' files, which extensions read: completed and checked as any model file is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmperf.accounting.parameters import count_parameters
from llmperf.cases.fields import check_table
from llmperf.cases.library import document
from llmperf.errors import PluginError, UserError
from llmperf.files.json_files import convert
from llmperf.files.text import printable
from llmperf.files.user_files import parse_toml
from llmperf.plugins.faults import of_kind
from llmperf.plugins.loading import plugins_for
from llmperf.types.models import ImportedModel, Model

HOOK = "llmperf_import_model"
READER = "llmperf-huggingface"
"""The package of this project that answers it; it takes every file for a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A model made of another program's file."""

    model: Model
    not_expressed: tuple[str, ...]
    """Keys with their values that the facts of a model cannot express, or that are not known."""
    notes: tuple[str, ...] = ()
    """Values that are assumed because the file leaves them out, and training settings that are not used."""


def import_config(path: Path, name: str) -> Imported:
    """The model, called `name`, of another program's file, such as a Hugging Face configuration.

    UserError if no installed extension reads the file, if several do, or if it has values that do not fit.
    """
    plugins, faults = plugins_for(), list[str]()
    answers = list(plugins.collect_sound(HOOK, faults, path=path))
    if faults and not answers:
        raise UserError("; ".join(faults))
    if not answers:
        from llmperf.plugins.mending import install_own

        missing = f"{path}: {READER} reads configurations of Hugging Face; install it with: {install_own(READER)}"
        raise UserError("; ".join([missing, *plugins.left_out]))  # it may be among those that are broken
    if len(answers) > 1:
        raise PluginError(f"{path}: read by {' and '.join(plugins.who(owner) for owner, _ in answers)}; expected one")
    ((owner, given),) = answers
    return made(of_kind(plugins.found(owner), HOOK, given, ImportedModel), name, str(path))


def made(given: ImportedModel, name: str, where: str) -> Imported:
    """The model of what an extension has read; its nominal figures are its counts, to two digits."""
    table = {**given.facts, "name": name, "title": name, "source": given.source, "nominal_parameters": 1}
    if "mixture" in table:
        table["nominal_active_parameters"] = 1
    check_table(table, Model, where)
    model: Model = convert(table, Model, where)
    count = count_parameters(model)
    model = replace(model, nominal_parameters=_rounded(count.total))
    if model.mixture is not None:
        model = replace(model, nominal_active_parameters=min(_rounded(count.active), model.nominal_parameters))
    checked = document(parse_toml(model_text(model).encode(), where), Model, where)  # as its file is read
    return Imported(model=checked, not_expressed=given.not_expressed, notes=given.notes)


def _rounded(count: int) -> int:
    unit = int(10 ** max(0, len(str(count)) - 2))
    return max(1, round(count / unit)) * unit


LARGE = 10**7
"""Whole numbers from here on are written with digit groups."""


def model_text(model: Model) -> str:
    """The model file of a model; reading it gives the same model."""
    values = dict(_given(model))
    lines, tables = [], {}
    for key, value in values.items():
        if dataclasses.is_dataclass(value[0] if isinstance(value, tuple) and value else value):
            tables[key] = value
        else:
            lines.append(f"{key} = {_value(value)}")
    for key, value in tables.items():
        many = isinstance(value, tuple)
        for table in value if many else (value,):
            lines += ["", f"[[{key}]]" if many else f"[{key}]"]
            lines += [f"{name} = {_value(entry)}" for name, entry in _given(table)]
    return "\n".join(lines) + "\n"


def _given(facts: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a dataclass that are required or not the default."""
    for field in dataclasses.fields(facts):
        value = getattr(facts, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            yield field.name, value


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = printable(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{text}"'
    return f"{value:_}" if isinstance(value, int) and value >= LARGE else repr(value)
