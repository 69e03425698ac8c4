"""Faults and lies of plugins, from the tables of `faults.toml` and `training_faults.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import llmperf


@dataclass(frozen=True)
class Fault:
    """`puts` replaces text of the module, `metadata` text of the distribution's; `also` are checks that fail too."""

    puts: tuple[tuple[str, str], ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    overlay: str = ""
    name: str = ""
    also: tuple[str, ...] = ()
    caught: str = ""
    """Of the plugin's own data or optimiser: what the check of the losses says."""
    check: str = ""
    """Of a lie: the check of the kit that catches it."""
    level: Literal["run", "consistent", "spot-checked", "rerun"] | None = None
    """Of a lie: what catches a run with it; `run` where the run itself fails, None where nothing does."""
    tried: bool = True
    """Whether the level can be tried in a run of a second: clocks are compared over longer ones."""


FOLDER = Path(__file__).parent
TABLES = llmperf.read_toml(FOLDER / "faults.toml") | llmperf.read_toml(FOLDER / "training_faults.toml")


def faults(group: str) -> dict[str, Fault]:
    """The faults of a group by their names."""
    return {name: fault_of(table) for name, table in TABLES[group].items()}


def fault_of(table: dict[str, Any]) -> Fault:
    """What a table and its parts put in the place of what."""
    puts: list[tuple[str, str]] = []
    for part in (table, *(TABLES["part"][name] for name in table.get("parts", ()))):
        puts += [(old, new) for old, new in part.get("puts", ())]
        for function, text in part.get("begin", {}).items():
            indent = "    " * ("(self" in function)
            puts.append((f"{indent}def {function}:\n", f"{indent}def {function}:\n{indent}    {text}\n"))
        if "end" in part:
            puts.append(("\n# END", f"\n{part['end']}\n"))
    fields = {name: value for name, value in table.items() if name not in ("parts", "puts", "begin", "end")}
    return Fault(puts=tuple(puts), **fields)


VENDOR, FRAMEWORK = (faults("any") | faults(role) for role in ("vendor", "framework"))
TRAINING, KERNELS, LIES = faults("training"), faults("kernels"), faults("lie")

NEEDS_MORE = {
    "losses-are-those-of-the-reference",  # a reference
    "a-script-that-cannot-start-fails-the-run",  # a script
    "a-killed-script-ends-the-run",
    "attention-ran-as-claimed",  # torch
    "eager-attention-is-separate-operations",
    "fused-operations-ran-as-claimed",
}
"""Checks that are skipped for the good framework, which has no torch and no script."""
