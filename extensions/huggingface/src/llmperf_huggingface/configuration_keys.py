"""The keys of a Hugging Face configuration: checked when they are taken, listed when nothing takes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llmperf import printable, read_options, read_toml
from llmperf.errors import UserError

LARGEST_INTEGER = 2**53 - 1
"""The largest that every reader of JSON keeps exactly."""
SHOWN = 60
"""Characters of a value in a message."""


class NotExpressedError(UserError):
    """The facts of a model have no place for what a configuration says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationTypes:
    """Facts about types of configurations."""

    types: Mapping[str, Mapping[str, Any]]
    """Facts of a model by `model_type`, before the keys of the configuration."""
    ignored: frozenset[str]
    """Keys that say nothing of the architecture, or that the type implies."""
    without_meaning: Mapping[str, Any]
    """Values of keys that are as in the facts."""
    required: Mapping[str, Any]
    """Values of keys that decide which parameters a model has; others cannot be expressed."""
    not_used: Mapping[str, str]
    """Keys of training settings that are not used, with the reason."""
    activations: Mapping[str, str]
    """`hidden_act` by the activation of a model."""
    rope_keys: Mapping[str, Mapping[str, str]]
    """Fields of `RopeScaling` by keys, for each method."""
    class_defaults: Mapping[str, Mapping[str, Any]]
    """Values of keys that a configuration leaves out, by its type, as transformers' classes have them."""
    nested_defaults: Mapping[str, Mapping[str, Any]]
    """Values that transformers leaves out of the language part of a larger configuration, by its type."""


@cache
def configuration_types() -> ConfigurationTypes:
    """The types that this package knows."""
    path = Path(__file__).parent / "data" / "configuration_types.toml"
    return read_options(read_toml(path), ConfigurationTypes, str(path))


class Configuration:
    """The keys of a configuration; each is taken once, and what is left is reported."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where
        self._taken: set[str] = set()
        self.parts: list[Configuration] = []
        """Tables of the configuration."""

    def take(self, *names: str) -> Any:
        """The value of the first of these keys that is given; None if none is."""
        found = [name for name in names if self._values.get(name) is not None]
        self._taken.update(names)
        return self._values[found[0]] if found else None

    def whole(self, *names: str, default: int | None = None) -> int:
        """A whole number of at least 1; UserError if it is missing or something else."""
        value = self.take(*names)
        if value is None:
            value = default
        return self._checked(names[0], value, 1)

    def count(self, name: str, default: int = 0) -> int:
        """A whole number of at least 0."""
        value = self.take(name)
        return self._checked(name, default if value is None else value, 0)

    def _checked(self, name: str, value: Any, least: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LARGEST_INTEGER:
            found = "none" if value is None else shown(value)
            expected = f"a whole number from {least} to {LARGEST_INTEGER}"
            raise UserError(f"{self._where}: {name}: expected {expected}, found {found}")
        return int(value)

    def optional(self, *names: str) -> int | None:
        """The same, or None if it is not given."""
        given = [name for name in names if self._values.get(name) is not None]
        self._taken.update(names)
        return self.whole(given[0]) if given else None

    def number(self, name: str, default: float) -> float:
        """A number that is not negative."""
        value = self.take(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise UserError(f"{self._where}: {name}: expected a number of at least 0, found {shown(value)}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise UserError(f"{self._where}: {name}: expected true or false, found {shown(value)}")
        return default if value is None else value

    def table(self, name: str) -> Mapping[str, Any]:
        """A table; empty if it is not given."""
        value = self.take(name)
        if value is not None and not isinstance(value, Mapping):
            raise UserError(f"{self._where}: {name}: expected a table, found {shown(value)}")
        return value or {}

    def check_required(self) -> None:
        """NotExpressedError for a key whose value means parameters that the facts cannot express."""
        for key, expected in configuration_types().required.items():
            value = self.take(key)
            if value is not None and value != expected:
                only = f"expected {shown(expected)}, since the facts of a model cannot express another value"
                raise NotExpressedError(f"{self._where}: {key}: {only}, found {shown(value)}")

    def left(self) -> list[str]:
        """Keys that nothing has taken and that mean something, each with its value."""
        known, lines = configuration_types(), []
        for key, value in self._values.items():
            plain = (known.without_meaning[key],) if key in known.without_meaning else (False, [], {})
            if key not in self._taken | known.ignored | known.not_used.keys() and value not in (None, *plain):
                lines.append(f"{printable(str(key)[:SHOWN])} = {shown(value)}")
        return lines

    def not_used(self) -> list[str]:
        """Training settings that are not used, each with its value and the reason."""
        return [
            f"{key} = {shown(self._values[key])}: a training setting that is not used, {reason}"
            for key, reason in configuration_types().not_used.items()
            if self._values.get(key)
        ]


def shown(value: object) -> str:
    """A value as messages show it, shortened and safe for a terminal."""
    try:
        text = printable(repr(value))
    except (RecursionError, ValueError):  # nested deeply, or an integer of thousands of digits
        return "a value that is too long"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
