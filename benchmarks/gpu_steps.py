"""Steps of the acceptance on a GPU, the most informative first; `gpu_acceptance.py` runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from llmperf import read_toml

Settings = Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the acceptance."""

    name: str
    """Purpose of the step."""
    kind: Literal[
        "doctor", "tests", "run", "estimate", "waits", "out of memory", "peak", "profile", "tune", "attention"
    ]
    """How it is done."""
    expected_seconds: float
    """So much time must be left for it to start."""
    limit_seconds: float
    """It has failed if it takes longer."""
    case: str = "default"
    """Of a run."""
    framework: str = "pytorch"
    """Of a run."""
    settings: Settings = field(default_factory=dict)
    """Of a run."""
    argv: tuple[str, ...] = ()
    """For tests: words after `pytest`. For a measurement: further options."""
    of: str | None = None
    """For an estimate: the step whose run is estimated. For a run: the step that it is compared with."""


def steps(*, small: bool) -> list[Step]:
    """All steps in their order; with `small` the same on the CPU, with a tiny model and few steps."""
    table = read_toml(Path(__file__).with_suffix(".toml"))
    return [_step(entry, table, small) for entry in table["small" if small else "full"]]


def _step(entry: dict[str, Any], table: dict[str, Any], small: bool) -> Step:
    """A step of the file, with the defaults of its kind and the settings of its base."""
    base, own = entry.pop("base", None), entry.pop("settings", {})
    settings = (
        {} if base is None else {**table["settings"][base], **(table["settings"]["small"] if small else {}), **own}
    )
    for name in entry.pop("without", ()):
        del settings[name]
    if settings.get("model", "").endswith(".toml"):  # a mixture with sinks and windows that one device can train
        settings["model"] = str(Path(__file__).with_name(settings["model"]))
    words = tuple(entry.pop("argv", ()))
    return Step(**{**table["defaults"].get(entry["kind"], {}), **entry}, settings=settings, argv=words)
