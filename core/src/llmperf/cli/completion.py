"""The values that a shell offers for arguments and options: each function is a `shell_complete` of click."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING

import click

from llmperf.errors import LlmperfError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

MAX_RUNS = 30
"""Folders of runs and runs that are offered, the newest runs first."""
RUN_PATTERNS = ("runs/*/plan.json", "runs/*/*/plan.json", "runs/*/runs/*/plan.json")
"""Patterns of run folders without and with `--out runs/NAME`, and in the folder of a matrix."""

Complete = Callable[[click.Context, click.Parameter, str], "list[str] | list[CompletionItem]"]


def _names(find: Callable[[click.Parameter], Iterable[str]]) -> Complete:
    """A completion by names; none where a plugin or a file is broken, which the command itself reports."""

    @wraps(find)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in find(param) if name.startswith(incomplete)]
        except LlmperfError:
            return []

    return complete


@_names
def case_names(param: click.Parameter) -> Iterable[str]:
    """Shell completion for CASE."""
    from llmperf.cases.library import whole_library

    return whole_library().paths("cases")


@_names
def model_names(param: click.Parameter) -> Iterable[str]:
    """Shell completion for the name of a model."""
    from llmperf.cases.library import whole_library

    return whole_library().paths("models")


@_names
def plugin_names(param: click.Parameter) -> Iterable[str]:
    """Shell completion for --vendor and --framework."""
    from llmperf.plugins.discovery import discover

    return [plugin.name for plugin in discover() if plugin.role == param.name]


@_names
def launcher_names(param: click.Parameter) -> Iterable[str]:
    """Shell completion for --launcher: those of the core and of installed extensions."""
    from llmperf.plugins.loading import plugins_for

    offered = plugins_for().collect_sound("llmperf_launchers", [])
    return sorted({"local", *(str(getattr(launcher, "name", "")) for _, launcher in offered)})


@_names
def device_names(param: click.Parameter) -> Iterable[str]:
    """Shell completion for the model in --on, which goes on with `:NODESxDEVICES`: without blanks and vendor."""
    from llmperf.planning.vendors import catalogues
    from llmperf.types.devices import device_names as names_of

    known, _ = catalogues(None)
    words = [(owner, name.split()) for owner, probe in known for name in names_of(probe.devices[0])]
    short = ("-".join(parts[parts[0].lower() == owner :]) for owner, parts in words)
    return dict.fromkeys(f"{name}:" for name in short if name)


@_names
def report_formats(param: click.Parameter) -> Iterable[str]:
    """Shell completion for --format of reports."""
    from llmperf.validation.catalogue import open_catalogue

    return sorted(
        {str(getattr(each, "name", "")) for _, each in open_catalogue().plugins.collect_sound("llmperf_reporters", [])}
    )


@_names
def rule_codes(param: click.Parameter) -> Iterable[str]:
    """Shell completion for --explain, --select and --ignore: the codes of rules."""
    from llmperf.validation.catalogue import whole_catalogue

    return sorted({owned.rule.code for owned in whole_catalogue().all_rules()})


def run_folders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Shell completion for paths of runs: folders of runs, then runs, by their path or their name, else any file."""
    from pathlib import Path

    from click.shell_completion import CompletionItem

    runs = {plan.parent for pattern in RUN_PATTERNS for plan in Path().glob(pattern)}
    folders = [*sorted({run.parent for run in runs}), *sorted(runs, key=lambda run: run.name, reverse=True)]
    fitting = [folder for folder in folders if f"{folder}".startswith(incomplete) or folder.name.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file"), *(CompletionItem(str(folder)) for folder in fitting[:MAX_RUNS])]


def settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion for --set, up to the `=`: whole paths where a dot was typed, otherwise their shortest names."""
    from llmperf.cases.settings import full_path, known_paths

    lasts = {path: path.rpartition(".")[2] for path in known_paths()}
    shortest = {path if "." in incomplete or full_path(last, "--set") != path else last for path, last in lasts.items()}
    return [f"{name}=" for name in sorted(shortest) if name.startswith(incomplete)]
