"""`llmperf models import`: model files of configurations, which this extension or another one reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import click
import llmperf
from llmperf.errors import PluginError, UserError
from llmperf.types import CalledCommand, CommandOptions, ImportedModel, Model

HOOK = "llmperf_import_model"
IMPORT = "import"
EXAMPLE = "  llmperf models import config.json -o mine.toml     a model file of a Hugging Face configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A model made of another program's file."""

    model: Model
    not_expressed: tuple[str, ...]
    """Keys with their values that the facts of a model cannot express, or that are not known."""
    notes: tuple[str, ...] = ()
    """Values that are assumed because the file leaves them out, and training settings that are not used."""


def import_config(path: Path, name: str) -> Imported:
    """The model, called `name`, of another program's file; UserError unless one extension reads it."""
    faults: list[str] = []
    answers = list(llmperf.owned_answers(HOOK, "extension", faults, path=path))
    if not answers:
        raise UserError("; ".join(faults))
    owners, given = zip(*answers, strict=True)
    if len(answers) > 1:
        raise PluginError(f"{path}: read by {' and '.join(owners)}; expected one")
    if not isinstance(given[0], ImportedModel):
        raise PluginError(f"{owners[0]}: expected ImportedModel from {HOOK}, found {type(given[0]).__name__}")
    return made(given[0], name, str(path))


def made(given: ImportedModel, name: str, where: str) -> Imported:
    """The model of what an extension has read, checked like a file; nominal figures are its counts, to two digits."""
    table = {**given.facts, "name": name, "title": name, "source": given.source, "nominal_parameters": 1}
    if "mixture" in table:
        table["nominal_active_parameters"] = 1
    count = llmperf.count_parameters(llmperf.from_table(table, Model, where))
    table["nominal_parameters"] = _rounded(count.total)
    if "mixture" in table or count.active < count.total:
        table["nominal_active_parameters"] = min(_rounded(count.active), table["nominal_parameters"])
    model = llmperf.from_table(table, Model, where)
    return Imported(model=model, not_expressed=given.not_expressed, notes=given.notes)


def _rounded(count: int) -> int:
    unit = int(10 ** max(0, len(str(count)) - 2))
    return max(1, round(count / unit)) * unit


def import_options() -> CommandOptions:
    """The options of `llmperf models import`."""
    output = click.Option(["-o", "--out", "output"], type=click.Path(path_type=Path),
                          help="With `import CONFIG`: the model file, which is named after the model.")  # fmt: skip
    force = click.Option(["--force"], is_flag=True, help="With `--out`: replace an existing file.")
    return CommandOptions(options=[output, force], begin=_begin, examples=EXAMPLE)


def _begin(called: CalledCommand) -> int | None:
    """Do the command if it is `models import`."""
    (first, *rest), output, force = called.values["names"] or [""], called.values["output"], called.values["force"]
    if first != IMPORT:
        if output is not None or force:
            option = "--force" if output is None else "--out"
            raise UserError(f"{option}: only with `llmperf models {IMPORT} CONFIG`")
        return None
    if len(rest) != 1:
        found = " ".join(rest) or "none"
        raise UserError(f"import: expected a Hugging Face configuration, such as config.json, found {found}")
    from llmperf_inspect import model_text  # the package whose command this is

    if output is not None:
        _check_output(output, force)
    imported = import_config(Path(rest[0]), "imported" if output is None else output.stem)
    model = imported.model
    count, text = llmperf.count_parameters(model), model_text(model)
    if output is not None:
        llmperf.write_bytes(output, text.encode())
    if called.values["as_json"]:
        llmperf.print_json({"model": model, "not_expressed": imported.not_expressed, "notes": imported.notes})
        return 0
    click.echo(text if output is None else f"wrote {output}", nl=output is not None)
    active = "" if count.active == count.total else f", of which a token passes {count.active:,}"
    note = "nominal figures are counts to two digits: change them if its name says otherwise"
    click.echo(f"{count.total:,} parameters{active}; {note}", err=True)
    for line in (*(f"not expressed: {line}" for line in imported.not_expressed),
                 *(f"note: {line}" for line in imported.notes)):  # fmt: skip
        click.echo(line, err=True)
    return 0


def _check_output(output: Path, force: bool) -> None:
    from llmperf.validation import known_library

    name = output.stem
    if output.suffix != ".toml":
        raise UserError(f"--out: expected a name that ends in .toml, found {str(output)!r}")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        raise UserError(f"--out: expected letters, digits, '_', '.' and '-' before .toml, found {name!r}")
    if name in known_library().paths("models"):
        raise UserError(f"--out: {output}: {name!r} is the name of a shipped model; rename the file")
    if output.is_symlink():
        raise UserError(f"{output}: expected a place for a file, found a link")
    if output.exists() and not force:
        raise UserError(f"{output}: exists already; --force replaces it")
