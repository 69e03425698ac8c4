"""How types and keys of configurations become facts of models: `data/configuration_types.toml` as read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llmperf import read_options, read_toml


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
