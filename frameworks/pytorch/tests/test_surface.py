"""What frameworks of other people import from this package, held against a record.

`python frameworks/pytorch/tests/test_surface.py` adds new names and parameters to the record, and takes none away.
"""

import ast
import inspect
import json
from pathlib import Path

import llmperf_pytorch
import pytest
from llmperf_testing.scaffold import PackageName, rendered

pytestmark = pytest.mark.slow

RECORD, OURS = Path(__file__).parent / "surface.json", ("llmperf_pytorch", "llmperf_torchkit")


def parameters(function):
    """Names in order; a `?` follows those with a default."""
    unset = inspect.Parameter.empty
    return [p.name + "?" * (p.default is not unset) for p in inspect.signature(function).parameters.values()]


def shape(value):
    """Parameters of a function; of a class those of its public methods and of the constructor."""
    if not inspect.isclass(value):
        return {"()": parameters(value)}
    methods = {
        name: getattr(member, "__func__", member)
        for name, member in inspect.getmembers(value)
        if inspect.isroutine(member) and name[0] != "_" and (member.__module__ or "").startswith(OURS)
    }
    return {"()": parameters(value), **{name: parameters(method) for name, method in methods.items()}}


def surface():
    return {name: shape(getattr(llmperf_pytorch, name)) for name in llmperf_pytorch.__all__}


def broken(record, now):
    """One line for each recorded name that is gone without a pointer, or is called in another way."""
    lines = []
    for name, before in record.items():
        if name not in now:
            lines += [] if name in llmperf_pytorch._MOVED else [f"{name} is gone"]
            continue
        for method, old in before.items():
            new = now[name].get(method, [])
            kept = [parameter.removesuffix("?") for parameter in old]
            lost = method not in now[name] or [one.removesuffix("?") for one in new[: len(old)]] != kept
            needed = {one for one in new if not one.endswith("?")} - {one for one in old if not one.endswith("?")}
            lines += [f"{name}{method}: recorded {old}, found {new}"] * bool(lost or needed)
    return lines


def test_every_name_is_recorded_recorded_names_stay_and_new_parameters_have_defaults():
    assert broken(json.loads(RECORD.read_text()), surface()) == []
    unrecorded = set(llmperf_pytorch.__all__) - set(json.loads(RECORD.read_text()))
    assert not unrecorded, "run: python frameworks/pytorch/tests/test_surface.py"


def test_a_lost_name_a_lost_parameter_and_a_needed_one_are_seen():
    now = surface()
    changed = json.loads(json.dumps(now))
    del changed["Feed"]
    changed["build_model"]["()"].remove("device")
    changed["deferred"]["()"].append("when")
    changed["joined"]["()"].append("group?")
    assert [line.partition(":")[0] for line in broken(now, changed)] == ["Feed is gone", "build_model()", "deferred()"]


@pytest.mark.parametrize("kind", ["framework", "script"])
def test_generated_frameworks_import_names_of_the_surface_only(kind):
    for file, text in rendered(kind, PackageName("acme"), "0.1.0").items():
        for node in ast.walk(ast.parse(text)) if file.endswith(".py") else ():
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(OURS):
                assert node.module == "llmperf_pytorch", f"{file} imports {node.module}"
                assert {alias.name for alias in node.names} <= set(llmperf_pytorch.__all__), file
            elif isinstance(node, ast.Import):
                assert not any(alias.name.startswith(OURS) for alias in node.names), file


if __name__ == "__main__":
    old = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    RECORD.write_text(json.dumps({**old, **surface()}, indent=1) + "\n")
