"""Checks of what a plugin adds to every run: launchers, observers, reporters, rules."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import llmperf_schemas
from llmperf.cli.main import cli
from llmperf.errors import UserError, unknown
from llmperf.files import json_files
from llmperf.plugins.loading import Plugins
from llmperf.plugins.own_packages import of_this_project
from llmperf.reporting.result_sheets import result_sheet
from llmperf.types import (
    CommandOptions,
    Logger,
    Node,
    NodeCommand,
    NodeRequest,
    Plan,
    Progress,
    Result,
    ResultSection,
    Row,
    StepProgress,
)
from llmperf.validation.catalogue import OURS, Catalogue, open_catalogue

from llmperf_testing.check import ContractError, Skip, check, require
from llmperf_testing.checks.announced import is_loaded
from llmperf_testing.subject import Subject

HOSTS = ("node0", "node1")
"""Hosts that a launcher is asked for."""
OPEN_COMMANDS = ("run", "plan", "models", "validate", "report", "doctor")
"""Commands to which extensions add options."""
POINTER = re.compile(r"(/([^~/]|~[01])*)*")
PROGRESS = Progress(
    phase="measuring", step=1, steps=2, loss=8.5, tokens_per_second_per_device=1000.0, mfu=None, memory_used_bytes=None,
    seconds_left=1.0,
)  # fmt: skip
STEP = StepProgress(step=1, measured=False, loss=8.5, step_seconds=0.5, tokens_per_second_per_device=1000.0)


@cache
def _taken(hook: str) -> frozenset[str]:
    """The names that the core has for its own."""
    return frozenset(one.name for _, one in Plugins().collect_items(hook))


def _added(subject: Subject, hook: str, *methods: str) -> Iterator[Any]:
    """Objects that a plugin adds by a hook, each checked for a unique name and for its methods."""
    names = set(_taken(hook))
    for one in _items(subject, hook):
        name: Any = getattr(one, "name", None)
        require(isinstance(name, str) and name, f"{hook}: expected a name of {one!r}, found {name!r}")
        require(name not in names, f"{hook}: {name!r} is the name of another")
        for method in methods:
            require(callable(getattr(one, method, None)), f"{hook}: {name!r} has no method {method}")
        names.add(name)
        yield one


def _items(subject: Subject, hook: str) -> list[Any]:
    """Its own answers to a collecting hook; PluginError if it raises or gives no list."""
    return [item for owner, item in subject.plugins.collect_items(hook) if not owner.startswith("core:")]


@check(is_loaded)
def reporters_give_text(subject: Subject) -> None:
    """Each reporter that it adds has a name of its own and makes text of a run's sheet, in either language."""
    sheet = result_sheet(_example(), Path("runs/example/result.json"))
    for one in _added(subject, "llmperf_reporters", "render"):
        for language in ("en", "zh"):
            try:
                text = one.render((sheet,), language)
            except UserError as error:  # such as a table without rows for runs on shared devices
                raise Skip(f"reporter {one.name!r} refuses the kit's run: {error}") from None
            except Exception as error:
                raise ContractError(f"reporter {one.name!r} raised {error!r} ({language})") from error
            require(isinstance(text, str) and text, f"reporter {one.name!r}: expected text, found {text!r}")


@check(is_loaded)
def rules_give_findings(subject: Subject) -> None:
    """Its rules are valid, have codes and pages, and yield violations, with JSON pointers, of a kind that exists."""
    catalogue = Catalogue(subject.plugins)
    known = {*catalogue.kinds, *open_catalogue().kinds, "run"}
    for owned in [owned for owned in catalogue.all_rules() if owned.owner.role != "core"]:
        code = owned.rule.code
        own = not code.startswith(OURS) or of_this_project(subject.found)
        require(own, f"{code}: expected a prefix of the package's own, found {OURS}, which is llmperf's")
        require(owned.page(), f"{code}: expected a page, found an empty one")
        for kind in owned.rule.kinds:
            require(kind in known, str(unknown(code, "kind of document", kind, known)))
        for pointer, message in owned.violations(_example()) if "result" in owned.rule.kinds else ():
            found = f"such as '/metrics/mfu', found {pointer!r} for {message!r}"
            require(POINTER.fullmatch(pointer), f"{code}: expected a JSON pointer, {found}")
    failed = [finding for finding in catalogue.applied("result", _example())[0] if finding.code == "LP901"]
    require(not failed, failed[0].message if failed else "")


@check(is_loaded, hook="llmperf_launchers")
def launchers_give_commands(subject: Subject) -> None:
    """Each launcher that it adds has a name of its own, offers nodes and gives commands to start on them, as argv."""
    for launcher in _added(subject, "llmperf_launchers", "nodes", "commands"):
        who = f"launcher {launcher.name!r}"
        nodes = _nodes(who, launcher)
        reached = [(node.host, node.env) for node in nodes] or [(host, {}) for host in HOSTS]
        commands = [
            NodeCommand(node_rank=rank, host=host, argv=("python", "-m", "agent", str(rank)), env=env)
            for rank, (host, env) in enumerate(reached)
        ]
        try:
            given = _called(who, "commands", launcher.commands, commands)
        except UserError as error:
            if nodes:
                raise
            raise Skip(f"{who} offers no nodes here: {error}") from None
        listed = isinstance(given, Sequence) and given and all(isinstance(each, NodeCommand) for each in given)
        require(listed, f"{who}: commands: expected NodeCommands, found {given!r}")
        for command in given:
            argv = command.argv
            words = isinstance(argv, tuple) and argv and all(isinstance(word, str) for word in argv)
            require(words, f"{who}: commands: expected an argv of text, found {argv!r}")


def _nodes(who: str, launcher: Any) -> Sequence[Node]:
    """The nodes that a launcher offers for a small request; none if it refuses the request with a UserError."""
    request = NodeRequest(nodes=len(HOSTS), devices=None, hosts=HOSTS, options={})
    try:
        nodes = _called(who, "nodes", launcher.nodes, request)
    except UserError:
        return ()
    listed = isinstance(nodes, Sequence) and all(isinstance(node, Node) for node in nodes)
    require(listed, f"{who}: nodes: expected Nodes, found {nodes!r}")
    require(len(nodes) <= len(HOSTS), f"{who}: nodes: expected {len(HOSTS)} Nodes at most, found {len(nodes)}")
    for node in nodes:
        texts = all(isinstance(text, str) and text for text in (node.host, node.address))
        require(texts, f"{who}: nodes: expected a host and an address, found {node!r}")
    return nodes  # type: ignore[no-any-return]


def _called(who: str, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return value of a method; UserError passes, any other exception becomes a ContractError."""
    try:
        return function(*arguments)
    except UserError:
        raise
    except Exception as error:
        raise ContractError(f"{who}: {name} raised {error!r}") from error


@check(is_loaded, hook="llmperf_observers")
def observers_follow_a_run(subject: Subject) -> None:
    """Each observer that it adds has a name of its own and all methods, and follows a short run without an error."""
    methods = ("started", "progress", "steps", "ended")
    plan = json_files.convert(llmperf_schemas.example("plan"), Plan, "the example plan")
    for result in (_example(), None):  # None: llmperf itself failed
        for observer in _added(subject, "llmperf_observers", *methods):
            who = f"observer {observer.name!r}"
            with tempfile.TemporaryDirectory(prefix="llmperf-check-") as folder:
                for method, arguments in zip(methods, ((plan, Path(folder)), (PROGRESS,), ((STEP,),)), strict=False):
                    _called(who, method, getattr(observer, method), *arguments)
                _called(who, f"ended with {'a result' if result else 'None'}", observer.ended, result, Path(folder))


@check(hook="llmperf_loggers")
def loggers_follow_a_run(subject: Subject) -> None:
    """Each logger that it adds has a name, and opens an observer that follows a short run, or says why it cannot."""
    plan = json_files.convert(llmperf_schemas.example("plan"), Plan, "the example plan")
    names: list[str] = []
    for logger in _items(subject, "llmperf_loggers"):
        require(isinstance(logger, Logger), f"llmperf_loggers: expected Loggers, found {logger!r}")
        who = f"logger {logger.name!r}"
        require(logger.name and "=" not in logger.name, f"{who}: expected a name without =")
        require(logger.name not in names, f"{who}: expected each name once")
        names.append(logger.name)
        with tempfile.TemporaryDirectory(prefix="llmperf-check-") as folder:
            try:
                observer = _called(who, "open", logger.open, str(Path(folder) / "logged"))
            except UserError:  # such as a library that is not installed
                continue
            run = Path(folder)
            for method, argument in (("started", (plan, run)), ("steps", ((STEP,),)), ("ended", (_example(), run))):
                _called(who, method, getattr(observer, method), *argument)


@check(is_loaded, hook="llmperf_result_sections")
def sections_have_figures(subject: Subject) -> None:
    """Each section that it adds has a name of its own, and figures and rows of a run where it has any."""
    plan = json_files.convert(llmperf_schemas.example("plan"), Plan, "the example plan")
    for section in _added(subject, "llmperf_result_sections"):
        who = f"section {section.name!r}"
        require(isinstance(section, ResultSection), f"{who}: expected a ResultSection, found {section!r}")
        require(
            re.fullmatch("[a-z][a-z0-9_]{0,63}", section.name),
            f"{who}: expected lower-case letters, digits and underscores",
        )
        require(is_dataclass(section.figures), f"{who}: expected a dataclass of figures, found {section.figures!r}")
        with tempfile.TemporaryDirectory(prefix="llmperf-check-") as folder:
            figures = _called(who, "compute", section.compute, plan, _example(), Path(folder))
        if figures is None:
            continue
        require(isinstance(figures, section.figures), f"{who}: compute: expected its figures, found {figures!r}")
        rows = _called(who, "rows", _listed, section.rows, figures, _example())
        require(all(isinstance(row, Row) for row in rows), f"{who}: rows: expected Rows, found {rows!r}")


@check(is_loaded, hook="llmperf_command_options")
def options_are_its_own(subject: Subject) -> None:
    """No option that it adds to a command is one of the command's own."""
    for name in OPEN_COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        taken = {text for one in command.params for text in (*one.opts, *one.secondary_opts)} if command else set()
        for owner, group in subject.plugins.collect_items("llmperf_command_options", command=name):
            if owner.startswith("core:"):
                continue
            require(isinstance(group, CommandOptions), f"options of {name}: expected CommandOptions, found {group!r}")
            rivals = [text for one in group.options for text in one.opts if text in taken]
            require(not rivals, f"options of {name}: {', '.join(rivals)} is the command's own")


def _listed(function: Callable[..., Iterable[Any]], *arguments: Any) -> list[Any]:
    return list(function(*arguments))


def _example() -> Result:
    return json_files.convert(llmperf_schemas.example("result"), Result, "the example result")
