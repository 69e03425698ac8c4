"""What plugins may rest on, held against a record, so that a break is deliberate.

`python core/tests/plugins/test_public_surface.py` re-records it; a new name gets the present version as its `since`.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llmperf
import llmperf_testing as testing
import llmperf_vendorkit as vendorkit
from llmperf import hookspecs, types
from llmperf_testing.running import checks_of

RECORD = Path(__file__).parent / "public_surface" / "surface.json"


def hook_shape(name: str) -> dict[str, Any]:
    """A hook's arguments in order, who may answer it, and whether all answers count."""
    arguments = list(inspect.signature(getattr(hookspecs, name)).parameters)
    return {"arguments": arguments, "owners": list(hookspecs.OWNERS[name]), "collecting": hookspecs.collecting(name)}


def parameters(function: Any) -> list[str]:
    """Its parameters in order; a `?` follows one with a default."""
    unset = inspect.Parameter.empty
    return [p.name + "?" * (p.default is not unset) for p in inspect.signature(function).parameters.values()]


def methods(kind: type) -> dict[str, list[str]]:
    """A class's own public methods and properties, each with its parameters."""
    found = {name: getattr(value, "__func__", getattr(value, "fget", value)) for name, value in vars(kind).items()}
    return {name: parameters(one) for name, one in sorted(found.items()) if name[0] != "_" and inspect.isfunction(one)}


def type_shape(kind: Any) -> dict[str, Any]:
    """A class's fields (of a dataclass as its constructor takes them) and methods, or the target of an alias."""
    if not isinstance(kind, type):
        return {"value": str(kind)}
    declared = sorted(name for name in inspect.get_annotations(kind) if name[0] != "_")
    return {"fields": parameters(kind) if is_dataclass(kind) else declared, "methods": methods(kind)}


def name_shape(value: Any) -> dict[str, Any]:
    """A function's parameters or a class's shape; other values have none."""
    if isinstance(value, type):
        return type_shape(value)
    return {"arguments": parameters(value)} if inspect.isfunction(value) else {}


def contract_shape(kind: Any) -> dict[str, Any]:
    """What a subclass sets, and the checks that it gets."""
    attributes = sorted(name for one in kind.__mro__ for name in inspect.get_annotations(one) if name != "role")
    return {"attributes": attributes, "checks": [one.name for one in checks_of(kind.role)]}


def present_surface() -> dict[str, dict[str, dict[str, Any]]]:
    """Hooks, types and names of `llmperf`, `llmperf_vendorkit` and `llmperf_testing`, by their names."""
    return {
        "hooks": {name: hook_shape(name) for name in hookspecs.OWNERS},
        "types": {name: type_shape(getattr(types, name)) for name in sorted(types.__all__)},
        "names": {name: name_shape(getattr(llmperf, name)) for name in sorted(llmperf.__all__)},
        "vendorkit": {name: name_shape(getattr(vendorkit, name)) for name in sorted(vendorkit.__all__)},
        "testing": {name: contract_shape(getattr(testing, name)) for name in sorted(testing.__all__)},
    }


def recorded() -> dict[str, Any]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def with_since(surface: dict[str, Any], old: dict[str, Any], now: str) -> dict[str, Any]:
    """The surface with each name's first version: the record's where it has one, the present one otherwise."""
    return {
        group: {
            name: {"since": old.get(group, {}).get(name, {}).get("since", now), **shape}
            for name, shape in members.items()
        }
        for group, members in surface.items()
    }


def without_since(record: dict[str, Any]) -> dict[str, Any]:
    return {
        group: {name: {key: value for key, value in entry.items() if key != "since"} for name, entry in members.items()}
        for group, members in record.items()
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One line for each name that went, came or changed its shape."""
    found = []
    for group in sorted({*old, *new}):
        before, after = old.get(group, {}), new.get(group, {})
        for name in sorted({*before, *after}):
            if before.get(name) != after.get(name):
                found.append(f"{group}: {name}: recorded {before.get(name)}, found {after.get(name)}")
    return found


def test_the_surface_is_the_recorded_one() -> None:
    changed = differences(without_since(recorded()), present_surface())
    assert not changed, "\n".join([*changed, f"if this is meant, run: python core/tests/plugins/{Path(__file__).name}"])


def test_every_public_name_has_a_since() -> None:
    missing = [name for group in recorded().values() for name, entry in group.items() if not entry.get("since")]
    assert not missing


if __name__ == "__main__":
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(with_since(present_surface(), recorded(), version("llmperf-core")), indent=1) + "\n")
