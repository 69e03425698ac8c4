"""What a FlagPerf configuration says, read as syntax: nothing of it is executed.

Configurations lie at `training/VENDOR/MODEL-FRAMEWORK/config/config_DEVICExNODESxDEVICES.py`. A `ds_config.json` beside
one, and the defaults of `training/benchmarks/MODEL/FRAMEWORK/config/_base.py`, fill in what it leaves out.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmperf import decode
from llmperf.errors import UserError

FILE = re.compile(r"config_(\w[\w.+-]*?)x(\d{1,5})x(\d{1,5})\.py")
MAX_BYTES = 2**16
MAX_DEPTH = 20
"""Of an expression."""
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One configuration; `values` by FlagPerf's names."""

    path: Path
    model: str
    framework: str
    device: str
    nodes: int
    devices: int
    values: Mapping[str, Value]
    unread: tuple[str, ...] = ()
    """Names whose values are computed in ways that are not read."""
    exports: Mapping[str, str] = field(default_factory=dict)
    """What `environment_variables.sh` beside it exports."""


def is_configuration(path: Path) -> bool:
    """Check whether a path has the name and the place of a configuration."""
    return FILE.fullmatch(path.name) is not None and path.parent.name == "config"


def read_configuration(path: Path) -> Configuration:
    """A configuration, with what lies beside it; UserError for a file that is no Python, or too large."""
    found = FILE.fullmatch(path.name)
    assert found is not None
    place = path.resolve().parent.parent
    model, _, framework = place.name.partition("-")
    device, nodes, devices = found[1], int(found[2]), int(found[3])
    values, unread = assignments(path)
    base = place.parent.parent / "benchmarks" / model / framework / "config" / "_base.py"
    beside = (path.parent / "config_common.py", base)
    deepspeed = path.parent / "ds_config.json"
    others = [assignments(other)[0] for other in beside if other.is_file()]
    others += [_of_deepspeed(deepspeed)] if deepspeed.is_file() else []
    for more in others:  # what the configuration itself sets in a way that is not read is not that of another file
        values |= {name: value for name, value in more.items() if name not in values and name not in unread}
    exports = _exports(path.parent / "environment_variables.sh")
    return Configuration(path=path, model=model, framework=framework, device=device, nodes=nodes, devices=devices,
                         values=values, unread=tuple(unread), exports=exports)  # fmt: skip


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UserError(f"{path}: expected at most {MAX_BYTES} bytes of a configuration, found more")
    return data.decode("utf-8", "replace")


def assignments(path: Path) -> tuple[dict[str, Value], list[str]]:
    """The constants that a Python file assigns at its top level, and the names that it assigns in other ways."""
    try:
        tree = ast.parse(_text(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{path}: expected a configuration in Python, found {error}") from None
    values: dict[str, Value] = {}
    unread: list[str] = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        for name in [target.id for target in targets if isinstance(target, ast.Name)]:
            try:
                values[name] = _constant(value, values)
            except (ValueError, TypeError, OverflowError, ZeroDivisionError):
                values.pop(name, None)
                unread.append(name)
    return values, unread


def _constant(node: ast.expr, known: Mapping[str, Value], depth: int = 0) -> Value:
    """A constant, or arithmetic of constants and of names assigned before; ValueError for anything else."""
    if depth < MAX_DEPTH:
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, int, float, bool, type(None))):
            return node.value
        if isinstance(node, ast.Name) and node.id in known:
            return known[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -_constant(node.operand, known, depth + 1)  # type: ignore[operator]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            left, right = (_constant(side, known, depth + 1) for side in (node.left, node.right))
            texts = isinstance(left, str) or isinstance(right, str)
            if not texts or (type(node.op) is ast.Add and len(f"{left}{right}") < MAX_BYTES):
                made: Value = OPERATORS[type(node.op)](left, right)
                return made
    raise ValueError


def _of_deepspeed(path: Path) -> dict[str, Value]:
    """The settings of DeepSpeed's own file, under the names of a configuration."""
    document: dict[str, Any] = decode(_text(path).encode(), dict[str, Any], str(path))

    def inside(name: str, key: str) -> Any:
        part = document.get(name)
        return part.get(key) if isinstance(part, dict) else None

    on = [name for name in ("fp16", "bf16") if inside(name, "enabled") is True]
    stage = inside("zero_optimization", "stage")
    adam = inside("optimizer", "params")
    adam = adam if isinstance(adam, dict) else {}
    beta1, beta2 = betas if isinstance(betas := adam.get("betas"), list) and len(betas) == 2 else (None, None)
    found: dict[str, Any] = {
        "batchsize": document.get("train_micro_batch_size_per_gpu"),
        "accumulate_steps": document.get("gradient_accumulation_steps"),
        "gbs": document.get("train_batch_size"),
        "max_grad_norm": document.get("gradient_clipping"),
        "learning_rate": adam.get("lr"),
        "adam_beta1": beta1,
        "adam_beta2": beta2,
        "adam_eps": adam.get("eps"),
        "weight_decay": adam.get("weight_decay"),
        "sharding": f"stage{stage}" if stage in (0, 1, 2, 3) else None,
        "precision": on[0] if len(on) == 1 else None,
    }
    return {name: value for name, value in found.items() if isinstance(value, (str, int, float)) and value != "auto"}


def _exports(path: Path) -> dict[str, str]:
    """`export NAME=VALUE` of a shell file, without expansion; lines that would be expanded are left out."""
    if not path.is_file():
        return {}
    lines = re.findall(r"^\s*export\s+([A-Za-z_]\w*)=[\"']?([^\s\"'$`\\]*)[\"']?\s*(?:#.*)?$", _text(path), re.M)
    return dict(lines)


def cases_of(path: Path) -> dict[str, str]:
    """The `CASES` of a `test_conf.py`: `MODEL:FRAMEWORK:DEVICE:NODES:DEVICES:REPEATS` -> folder of the data."""
    try:
        tree = ast.parse(_text(path))
        found = [node.value for node in tree.body if isinstance(node, ast.Assign)
                 and any(isinstance(target, ast.Name) and target.id == "CASES" for target in node.targets)]  # fmt: skip
        cases = ast.literal_eval(found[-1]) if found else {}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{path}: expected a test_conf.py in Python, found {error}") from None
    if not isinstance(cases, dict) or not all(isinstance(one, str) for pair in cases.items() for one in pair):
        raise UserError(f"{path}: CASES: expected texts by texts, found {type(cases).__name__}")
    return cases
