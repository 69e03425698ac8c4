"""`--set path=value`: finds the field by its path or the end of it, and converts the value to the field's type."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from llmperf.cases.fields import check_bound, hints, leaves
from llmperf.errors import UserError, unknown
from llmperf.files.json_files import builtins, convert
from llmperf.files.user_files import parse_value
from llmperf.types.frozen import dataclass
from llmperf.types.models import Model
from llmperf.types.spec import Contract, DataSource, Scalar, Tuning

FREE = "framework."
"""Prefix of the framework plugin's options, which the plugin checks."""
LISTING = "llmperf cases default"
"""The command that lists the paths."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value for a field, and its origin: an option of the command line or an overlay."""

    path: str
    value: Any
    origin: str


@lru_cache(maxsize=1)
def known_paths() -> dict[str, Any]:
    """Every path that can be set, with the annotation of its field."""
    return leaves(Contract, "contract.") | leaves(Tuning, "tuning.") | leaves(DataSource, "data.")


def full_path(given: str, where: str) -> str:
    """The full path for one whose beginning may be left out, the least nested of several; UserError if none ends so."""
    if given in known_paths() or (given.startswith(FREE) and given != FREE):
        return given
    if ending := _ending(given):
        return ending[0]
    if given.removeprefix("model.") in hints(Model):
        from llmperf.cases.library import whole_library

        names = ", ".join(sorted(whole_library().paths("models")))
        advice = f"choose another model with --set model=NAME ({names}) or your own with --set model=./FILE.toml"
        raise UserError(f"{where}: {given!r} is a fact of the model; {advice}")
    last = {path.split(".", 1)[1] for path in known_paths()}
    choices = {*known_paths(), *last, *(path.rsplit(".")[-1] for path in last)}
    error = unknown(where, "path", given, choices, listing=LISTING)
    if "." in given:
        raise error
    raise UserError(f"{error}; an option of the framework is set as {FREE}{given}")


def _ending(given: str) -> list[str]:
    """The paths that end so, the least nested first."""
    return sorted((path for path in known_paths() if path.endswith(f".{given}")), key=lambda path: path.count("."))


def choices_made(texts: Iterable[str]) -> Iterator[str]:
    """The chosen path, for each `--set` whose path several end with."""
    for given in dict.fromkeys(text.partition("=")[0].strip() for text in texts):
        if given not in known_paths() and len(ending := _ending(given)) > 1:
            yield f"--set {given}: sets {ending[0]} (also: {', '.join(ending[1:])})"


def typed(path: str, value: Any, where: str) -> Any:
    """The value converted to the type of its field; UserError with what was expected and found."""
    if path.startswith(FREE):
        return convert(value, typing.cast("type[Scalar]", Scalar), f"{where}: {path}")
    annotation = known_paths()[path]
    if value == "none" and type(None) in typing.get_args(annotation):
        return None
    if isinstance(value, str) and not _takes_text(annotation):
        raise UserError(f"{where}: {path}: expected {describe(annotation)}, found {value!r}")
    try:
        converted = convert(value, annotation, where)
    except UserError:
        raise UserError(f"{where}: {path}: expected {describe(annotation)}, found {value!r}") from None
    check_bound(converted, annotation, f"{where}: {path}")
    return converted


def _takes_text(annotation: Any) -> bool:
    options = typing.get_args(annotation) or (annotation,)
    return any(
        option is str
        or isinstance(option, str)
        or (typing.get_origin(option) is typing.Literal and _takes_text(option))
        for option in options
    )


def describe(annotation: Any) -> str:
    """A type as error messages describe it, such as `a whole number`."""
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return describe(annotation.__origin__)
    if origin is typing.Literal:
        return "one of " + ", ".join(str(option) for option in options)
    if origin is tuple and typing.get_origin(options[0]) is typing.Literal:
        return "a list of " + ", ".join(str(option) for option in typing.get_args(options[0]))
    if origin is tuple:
        lists = {"a whole number": "a list, such as [1, 2]", "a table of options": "a list of tables"}
        return lists.get(describe(options[0]), 'a list, such as ["a", "b"]')
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a table of options"
    if options:
        return " or ".join("none" if option is type(None) else describe(option) for option in options)
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(
        annotation, str(annotation)
    )


def read_setting(given: str, value: Any, where: str) -> tuple[str, Any]:
    """A setting's full path, whose beginning may be left out, and converted value; UserError names `where`."""
    path = full_path(given, where)
    return path, typed(path, value, where)


def setting_text(path: str, value: Any) -> str:
    """A setting as `--set` takes it."""
    return f"{path}={'none' if value is None else json.dumps(builtins(value), ensure_ascii=False)}"


def from_command_line(texts: Iterable[str]) -> list[Setting]:
    """The settings of `--set path=value` options, in order."""
    settings = []
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise UserError(f"--set {text}: expected path=value, such as --set micro_batch=4")
        full, value = full_path(path.strip(), "--set"), value.strip()
        if value.lower() in ("true", "false") and (full.startswith(FREE) or not _takes_text(known_paths()[full])):
            parsed: Any = value.lower() == "true"  # `True` and `FALSE` are booleans too, unless the field takes text
        else:
            parsed = parse_value(value)
        settings.append(Setting(full, typed(full, parsed, "--set"), "--set"))
    return settings


def from_tables(tables: Mapping[str, Any], where: str) -> list[Setting]:
    """The settings of an overlay file's tables `contract`, `tuning`, `framework` and `data`."""
    settings = []
    for path, value in flattened(tables):
        if not path.startswith(FREE) and path not in known_paths():
            raise unknown(where, "path", path, known_paths(), listing=LISTING)
        settings.append(Setting(path, typed(path, value, where), where))
    return settings


def flattened(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and values: `"tuning.micro_batch" = 4` and `tuning.micro_batch = 4` are the same."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
