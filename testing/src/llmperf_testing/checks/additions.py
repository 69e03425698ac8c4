"""What a plugin may add for every run: launchers, reporters, rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import llmperf_schemas
from llmperf.errors import PluginError
from llmperf.files.json_files import convert
from llmperf.plugins.loading import Plugins
from llmperf.types import NodeCommand, Result
from llmperf.validation.catalogue import OURS, Catalogue
from llmperf.validation.rules.reading import RULE_FAILED

from llmperf_testing.check import ContractError, require
from llmperf_testing.checks.hooks import is_loaded
from llmperf_testing.subject import Subject

AGENTS = tuple(
    NodeCommand(node_rank=node, host=f"node{node}", argv=("python", "-m", "agent", str(node)), env={"NODE": str(node)})
    for node in range(2)
)
"""What a launcher is given to bring to two nodes."""


@cache
def _taken(hook: str) -> frozenset[str]:
    """The names that the core has for its own."""
    return frozenset(one.name for _, one in Plugins().collect_items(hook))


def _added(subject: Subject, hook: str, method: str) -> Iterator[Any]:
    """What it adds by a hook, each with a name that nobody has and with the method that is called."""
    subject.rests_on(is_loaded)
    names = set(_taken(hook))
    for one in _items(subject, hook):
        name: Any = getattr(one, "name", None)
        require(isinstance(name, str) and name, f"{hook}: expected a name of {one!r}, found {name!r}")
        require(name not in names, f"{hook}: {name!r} is the name of another")
        require(callable(getattr(one, method, None)), f"{hook}: {name!r} has no method {method}")
        names.add(name)
        yield one


def _items(subject: Subject, hook: str, **arguments: Any) -> list[Any]:
    """Its own answers to a collecting hook; ContractError if it raises or gives no list."""
    try:
        answers = subject.plugins.collect_items(hook, **arguments)
        return [item for owner, item in answers if not owner.startswith("core:")]
    except PluginError as error:
        raise ContractError(str(error)) from None


def launchers_give_commands(subject: Subject) -> None:
    """Each launcher that it adds has a name of its own and gives commands to start, as argv."""
    for one in _added(subject, "llmperf_launchers", "commands"):
        require(callable(getattr(one, "nodes", None)), f"llmperf_launchers: {one.name!r} has no method nodes")
        try:
            given = one.commands(AGENTS)
        except Exception as error:
            raise ContractError(f"launcher {one.name!r} raised {error!r}") from error
        listed = isinstance(given, Sequence) and given and all(isinstance(each, NodeCommand) for each in given)
        require(listed, f"launcher {one.name!r}: expected NodeCommands, found {given!r}")
        for each in given:
            argv = isinstance(each.argv, tuple) and each.argv and all(isinstance(word, str) for word in each.argv)
            require(argv, f"launcher {one.name!r}: expected an argv of text, found {each.argv!r}")


def reporters_give_text(subject: Subject) -> None:
    """Each reporter that it adds has a name of its own and makes text of a result, in either language."""
    for one in _added(subject, "llmperf_reporters", "render"):
        for language in ("en", "zh"):
            try:
                text = one.render(((Path("runs/example/result.json"), _example()),), language)
            except Exception as error:
                raise ContractError(f"reporter {one.name!r} raised {error!r} ({language})") from error
            require(isinstance(text, str) and text, f"reporter {one.name!r}: expected text, found {text!r}")


def rules_give_findings(subject: Subject) -> None:
    """Its rules are valid, have codes of their own and pages, and yield violations of a document of their kind."""
    subject.rests_on(is_loaded)
    catalogue = Catalogue(subject.plugins)
    for owned in [owned for owned in catalogue.all_rules() if not owned.by_core]:
        code = owned.rule.code
        own = not code.startswith(OURS) or subject.found.distribution.startswith("llmperf-")
        require(own, f"{code}: expected a prefix of the package's own, found {OURS}, which is llmperf's")
        require(owned.page(), f"{code}: expected a page, found an empty one")
    failed = [finding for finding in catalogue.applied("result", _example())[0] if finding.code == RULE_FAILED.code]
    require(not failed, failed[0].message if failed else "")


def _example() -> Result:
    return convert(llmperf_schemas.example("result"), Result, "the example result")


ADDITIONS = (reporters_give_text, rules_give_findings)
LAUNCHING = (launchers_give_commands,)
"""For roles that may add launchers."""
