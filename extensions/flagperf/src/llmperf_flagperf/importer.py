"""`llmperf import` of FlagPerf's configurations and `test_conf.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from llmperf import planned_case, print_json, print_table, printable, write_bytes
from llmperf.errors import LlmperfError, UserError

from llmperf_flagperf.configuration import FILE, cases_of, is_configuration, read_configuration

MAX_FILES = 2000


class FlagPerfImporter:
    """Reads configurations, folders of them, and `test_conf.py`."""

    title = "FlagPerf configurations"

    def claims(self, path: Path) -> bool:
        """Check whether it reads a path by its name; a folder with Markdown files is one of tables."""
        if path.is_dir():
            return bool(_below(path)) and next(path.glob("**/*.md"), None) is None
        return is_configuration(path) or path.name == "test_conf.py"

    def read(
        self, paths: Sequence[Path], out: Path, stated: Mapping[str, str | None], *, force: bool, as_json: bool
    ) -> None:
        """Write a case file for each configuration below `out`, and say what became of it.

        UserError if a configuration that was named cannot be read, or if none of a folder can.
        """
        from llmperf.validation import known_library

        from llmperf_flagperf.case import case_of

        models = tuple(known_library().paths("models"))
        made: list[dict[str, Any]] = []
        refused: list[str] = []
        for path in _files(paths):
            try:
                configuration = read_configuration(path)
                case = case_of(configuration, models, stated)
            except LlmperfError as error:
                if path in paths or (len(paths) == 1 and path.parent in paths):
                    raise
                refused.append(str(error))
                continue
            target = out / f"{case.name}.toml"
            if target.exists() and not force:
                raise UserError(f"{target}: expected no file of that name, found one; --force replaces it")
            document = {key: value for key, value in asdict(case).items() if key != "text"}
            made.append({**document, "configuration": str(path), "written_to": str(target), "text": case.text,
                         "environment": dict(configuration.exports)})  # fmt: skip
        if not made:
            raise UserError(refused[0] if refused else f"{paths[0]}: expected configurations of FlagPerf, found none")
        out.mkdir(parents=True, exist_ok=True)
        for one in made:
            write_bytes(Path(one["written_to"]), one.pop("text").encode())
        for one in made:
            one["plan"] = _plan(one)
        if as_json:
            print_json({"cases": made, "refused": refused})
            return
        headers = ("case file", "machine", "plan", "taken, as it does not say", "without a meaning here")
        print_table(headers, [_row(one) for one in made])
        for line in refused:
            click.echo(printable(f"skipped: {line}"), err=True)
        count = f"{len(made)} case{'s' * (len(made) != 1)} written"
        click.echo(f"{count}, {len(refused)} skipped; run one with: llmperf run {printable(made[0]['written_to'])}")


def _below(folder: Path) -> list[Path]:
    return sorted(found for found in folder.glob("**/config_*x*x*.py") if is_configuration(found))


def _files(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += _below(path)
        elif path.name == "test_conf.py":
            files += _of_test_conf(path)
        else:
            files.append(path)
    if len(files) > MAX_FILES:
        raise UserError(f"{paths[0]}: expected at most {MAX_FILES} configurations, found {len(files)}")
    return files


def _of_test_conf(path: Path) -> list[Path]:
    """The configurations that `CASES` names, below the `training` folder that a `test_conf.py` lies in."""
    training = path.resolve().parents[2]
    found = []
    for name in cases_of(path):
        model, framework, device, nodes, devices = (*name.split(":"), *[""] * 5)[:5]
        configurations = [
            one for one in training.glob("*/*/config/config_*x*x*.py")
            if one.parents[1].name == f"{model}-{framework}" and one.name == f"config_{device}x{nodes}x{devices}.py"
        ]  # fmt: skip
        if FILE.fullmatch(f"config_{device}x{nodes}x{devices}.py") is None or not configurations:
            raise UserError(f"{path}: CASES: expected configurations below {training}, found none for {name!r}")
        found += configurations
    return found


def _plan(made: dict[str, Any]) -> str:
    """`ok`, or the first reason why the case cannot run on its machine."""
    try:
        planned = planned_case({"case": made["written_to"]}, made["machine"])
    except LlmperfError as error:
        return str(error).splitlines()[0]
    return planned.problems[0].message if planned.problems else "ok"


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    names = ("assumed", "meaningless")
    cells = (one["written_to"], one["machine"], one["plan"], *(", ".join(one[name]) for name in names))
    return tuple(printable(cell) for cell in cells)
