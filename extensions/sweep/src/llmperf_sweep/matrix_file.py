"""Matrix files: cases x vendors x frameworks x devices x settings x repeats, expanded into cells."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

from llmperf import flattened, read_case, read_options, read_setting, read_toml
from llmperf.errors import UserError, unknown
from llmperf.types import RunChoice
from llmperf.types.units import Count, Positive

MOST_CELLS = 10_000
"""Combinations of a matrix file, and runs, that are accepted."""
AXES = {"case": "cases", "vendor": "vendors", "framework": "frameworks", "devices": "devices"}
"""Axes other than settings: the key in `exclude` and `include`, and the key of the list of values."""
OWN_LISTS = {"tuning.framework": "frameworks", "tuning.devices": "devices"}
"""Settings that have a list of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixFile:
    """A matrix file as read: every combination of the values of its lists is one cell."""

    cases: tuple[str, ...] = ("default",)
    """Names of cases, or paths of case files, relative to the matrix file."""
    vendors: tuple[str, ...] = ()
    """As `--vendor`; without any, the best one of the machine."""
    frameworks: tuple[str, ...] = ()
    """As `--framework`; without any, the case's own."""
    devices: tuple[Positive, ...] = ()
    """Ranks on each node, as `--devices`; without any, as the case says."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """A value or a list of values by the path of a setting, as `--set` takes it."""
    exclude: tuple[Mapping[str, Any], ...] = ()
    """Combinations that are left out: tables with `case`, `vendor`, `framework`, `devices` and paths of settings, each
    with a value or a list of values. A combination is left out if it fits all entries of a table."""
    include: tuple[Mapping[str, Any], ...] = ()
    """Further cells: a table with the same keys, one value each. What it does not name is as the case says."""
    repeats: Positive = 1
    """Runs of each cell."""
    retries: Count = 0
    """Further attempts for each run that fails, after all others."""
    order: Literal["cheapest", "file"] = "cheapest"
    """`cheapest`: small cells first, by FLOPs x steps; `file`: in the order of the file. Repeats come last."""
    tasks: Positive = 1
    """Parts that a launcher with a queue may run at the same time, such as the tasks of a Slurm array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination: what a run is asked for, without its number of repeats."""

    case: str
    """As the file names it."""
    vendor: str | None = None
    """None: the best one of the machine."""
    framework: str | None = None
    """None: the case's own."""
    devices: int | None = None
    """None: as the case says."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Value by full path."""

    @property
    def identity(self) -> str:
        """A digest of the content, equal for equal cells."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]

    def choice(self, folder: Path = Path()) -> RunChoice:
        """One run of the cell; paths of files start from `folder`."""

        def placed(path: str, value: Any) -> Any:
            own_model = path == "contract.model" and str(value).endswith(".toml")
            return str(folder / value) if own_model or (path == "data.path" and value is not None) else value

        return RunChoice(
            case=str(folder / self.case) if self.case.endswith(".toml") else self.case,
            vendor=self.vendor,
            framework=self.framework,
            devices=self.devices,
            settings={path: placed(path, value) for path, value in self.settings.items()},
        )

    @property
    def text(self) -> str:
        """Such as `default --framework zero --devices 2 tuning.micro_batch=4`."""
        named = [(key, self.value(key)) for key in ("vendor", "framework", "devices")]
        words = [f"--{key} {value}" for key, value in named if value is not None]
        return " ".join([self.case, *words, *(f"{path}={_toml(value)}" for path, value in self.settings.items())])

    def value(self, key: str) -> Any:
        """The value on one axis: a key of AXES, or the full path of a setting; None if it has none."""
        return getattr(self, key) if key in AXES else self.settings.get(key)


def _toml(value: Any) -> str:
    """A value as TOML; strings of JSON and of TOML are written alike."""
    return "none" if value is None else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A matrix with its cells."""

    name: str
    """The name of the file without its ending."""
    folder: Path
    """Folder that paths of case and model files start from."""
    cells: tuple[Cell, ...]
    """In the order of the file, without duplicates."""
    repeats: int
    retries: int = 0
    """Further attempts for each run that fails."""
    order: Literal["cheapest", "file", "shuffled"] = "cheapest"
    """`shuffled`: each repeat in another random order."""
    tasks: int = 1
    """Parts that a launcher with a queue may run at the same time."""


def read_matrix(path: Path) -> Matrix:
    """A matrix from its file; UserError for the first invalid key or value, with the closest valid one."""
    where = str(path)
    table = read_toml(path)
    table |= {key: [table[key]] for key in AXES.values() if not isinstance(table.get(key, []), list)}
    for key in ("repeats", "retries", "tasks"):
        value = table.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int):
            raise UserError(f"{where}: {key}: expected a whole number, found {value!r}")
    content = read_options(table, MatrixFile, where)
    for name in content.cases:
        _check_case(name, path)
    axes = _axes(content, where)
    combinations = prod(len(values) for values in axes.values())
    if combinations > MOST_CELLS:
        sizes = " x ".join(f"{len(values)} {key}" for key, values in axes.items() if len(values) > 1)
        raise UserError(f"{where}: expected at most {MOST_CELLS:,} combinations, found {combinations:,} ({sizes})")
    excluded = [_exclusion(rule, axes, f"{where}: exclude[{number}]") for number, rule in enumerate(content.exclude)]
    cells = [
        _cell(values)
        for values in (dict(zip(axes, chosen, strict=True)) for chosen in product(*axes.values()))
        if not any(all(values[key] in wanted for key, wanted in rule.items()) for rule in excluded)
    ]
    cells += [_included(extra, content, path, f"include[{number}]") for number, extra in enumerate(content.include)]
    distinct = tuple({cell.identity: cell for cell in cells}.values())
    if not distinct:
        raise UserError(f"{where}: exclude: expected to leave at least one cell, found that it leaves none")
    if len(distinct) * content.repeats > MOST_CELLS:
        runs = f"{len(distinct):,} cells x {content.repeats:,} repeats"
        raise UserError(f"{where}: repeats: expected at most {MOST_CELLS:,} runs, found {runs}")
    return Matrix(
        name=path.stem,
        folder=path.parent,
        cells=distinct,
        repeats=content.repeats,
        retries=content.retries,
        order=content.order,
        tasks=content.tasks,
    )


def _check_case(name: str, path: Path) -> None:
    own = name.endswith(".toml")
    try:
        read_case(str(path.parent / name) if own else name)
    except UserError as error:
        raise UserError(f"{path}: cases: {error}") from None


def _axes(content: MatrixFile, where: str) -> dict[str, list[Any]]:
    """The values of each axis; a list of vendors, frameworks or devices that is empty has the one value None."""
    axes: dict[str, list[Any]] = {key: list(getattr(content, name)) or [None] for key, name in AXES.items()}
    if axes["case"] == [None]:
        raise UserError(f"{where}: cases: expected at least one, found an empty list")
    for count in content.devices:
        _typed("devices", count, where)
    for given, value in flattened(content.settings):
        if value == []:
            raise UserError(f"{where}: settings.{given}: expected at least one value, found an empty list")
        pairs = [_setting(given, one, f"{where}: settings") for one in (value if isinstance(value, list) else [value])]
        if pairs[0][0] in axes:
            raise UserError(f"{where}: settings: {pairs[0][0]} is there twice")
        axes[pairs[0][0]] = [one for _, one in pairs]
    for key, values in axes.items():
        repeated = next((value for number, value in enumerate(values) if value in values[:number]), None)
        if repeated is not None:
            raise UserError(f"{where}: {AXES.get(key, f'settings.{key}')}: {repeated!r} is there twice")
    return axes


def _setting(given: str, value: Any, where: str) -> tuple[str, Any]:
    path, typed = read_setting(given, value, where)
    if path in OWN_LISTS:
        raise UserError(f"{where}: {given}: expected under {OWN_LISTS[path]!r}, outside of settings")
    return path, typed


def _exclusion(rule: Mapping[str, Any], axes: Mapping[str, list[Any]], where: str) -> dict[str, list[Any]]:
    """The values that a rule leaves out, by axis; UserError for an axis or a value that the matrix does not have."""
    wanted: dict[str, list[Any]] = {}
    if not rule:
        raise UserError(f"{where}: expected at least one of {', '.join(axes)}, found an empty table")
    for given, value in flattened(rule):
        ending = [key for key in axes if key == given or (given not in AXES and key.endswith(f".{given}"))]
        if given not in AXES and len(ending) != 1:
            raise unknown(where, "axis", given, axes)
        key = given if given in AXES else ending[0]
        if axes.get(key, [None]) == [None]:
            raise unknown(where, "axis", given, [name for name, values in axes.items() if values != [None]])
        wanted[key] = [_typed(key, one, where) for one in (value if isinstance(value, list) else [value])]
        missing = next((one for one in wanted[key] if one not in axes[key]), None)
        if missing is not None:
            listed = ", ".join(map(_toml, axes[key]))
            raise UserError(f"{where}: {given}: expected one of {listed}, as in the matrix; found {_toml(missing)}")
    return wanted


def _typed(key: str, value: Any, where: str) -> Any:
    if key not in AXES:
        return read_setting(key, value, where)[1]
    if key == "devices":
        valid, expected = isinstance(value, int) and not isinstance(value, bool) and value > 0, "a number of at least 1"
    else:
        valid, expected = isinstance(value, str), "text"
    if not valid:
        raise UserError(f"{where}: {key}: expected {expected}, found {value!r}")
    return value


def _included(extra: Mapping[str, Any], content: MatrixFile, path: Path, name: str) -> Cell:
    """The cell of an `include` table."""
    where, values = f"{path}: {name}", {}
    for given, value in flattened(extra):
        key, typed = (given, _typed(given, value, where)) if given in AXES else _setting(given, value, where)
        values[key] = typed
    if "case" not in values and len(content.cases) > 1:
        raise UserError(f"{where}: expected a case, as the matrix has several; found none")
    cell = _cell({"case": content.cases[0]} | values)
    _check_case(cell.case, path)
    return cell


def _cell(values: Mapping[str, Any]) -> Cell:
    named = {key: values.get(key) for key in AXES}
    settings = {path: json.loads(json.dumps(value)) for path, value in sorted(values.items()) if path not in AXES}
    return Cell(**named, settings=settings)  # type: ignore[arg-type]
