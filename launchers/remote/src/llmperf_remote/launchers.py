"""Launchers of plugins by name, with every call into one checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from llmperf import printable
from llmperf.errors import PluginError, UserError, unknown
from llmperf.launching import this_interpreter
from llmperf.planning import Found, Plugins, blamed_items, blaming, discover, injecting, load_for, names, of_kind, who
from llmperf.types import Interpreter, Node, NodeCommand, NodeRequest, Submission
from llmperf.types.remote import Container

from llmperf_remote.nodes import Nodes

HOOK = "llmperf_launchers"
METHODS = ("nodes", "commands")
MAX_REASON_CHARACTERS = 500


class CheckedLauncher:
    """A launcher whose exceptions and wrong answers are PluginErrors that name plugin, hook and method."""

    def __init__(self, launcher: Any, owner: Found) -> None:
        """PluginError for an object without the name and the methods of a Launcher."""
        self._launcher = launcher
        self._owner = owner
        if isinstance(launcher, type):
            made = f"{launcher.__name__}()"
            raise PluginError(f"{who(owner)}: {HOOK} gave a class, {launcher.__name__}; expected an instance: {made}")
        with blaming(owner, HOOK):
            name: Any = getattr(launcher, "name", None)
            missing = [method for method in METHODS if not callable(getattr(launcher, method, None))]
        if not isinstance(name, str) or not name:
            raise PluginError(f"{who(owner)}: {HOOK} gave {launcher!r:.200}, which has no name")
        self.name = name
        self.starts_containers = getattr(launcher, "starts_containers", False) is True
        self.container: Container | None = None
        self._close: Callable[[], object] | None = getattr(launcher, "close", None)
        if missing:
            raise PluginError(f"{who(owner)}: {HOOK}: launcher {name!r} has no method {missing[0]}")

    def remote(self, python: str | Interpreter | None) -> Nodes:
        """The way to its nodes, whose `python` is this one by default."""
        path = python.path if isinstance(python, Interpreter) else python or this_interpreter()
        return Nodes(self, path, self.container)

    def nodes(self, request: NodeRequest) -> tuple[Node, ...]:
        """The first `request.nodes` nodes that it offers; UserError if it offers none."""
        try:
            nodes = self._answer("nodes", Node, request)[: request.nodes]
        except BaseException:
            self.close()
            raise
        if problem := injecting(name for node in nodes for name in node.env):
            self.close()
            raise PluginError(f"{self._at('nodes')}: env: {problem}")
        if not nodes:
            self.close()
            raise PluginError(f"{self._at('nodes')}: offers no node; expected 1 to {request.nodes}")
        return nodes

    def commands(self, nodes: Sequence[NodeCommand]) -> tuple[NodeCommand, ...]:
        """The processes to start on this machine: at least one, and at most one for each given command."""
        commands = self._answer("commands", NodeCommand, nodes)
        at = self._at("commands")
        if not 1 <= len(commands) <= len(nodes):
            raise PluginError(f"{at}: expected at least 1 and at most {len(nodes)} commands, found {len(commands)}")
        known, ranks = {node.node_rank for node in nodes}, [command.node_rank for command in commands]
        if len(set(ranks)) < len(ranks) or not known.issuperset(ranks):
            raise PluginError(f"{at}: expected node_rank to be one of {sorted(known)}, each once, found {ranks}")
        for command in commands:
            words = [*command.argv, *command.env, *command.env.values()]
            if not command.argv or not command.argv[0] or any("\0" in word for word in words):
                raise PluginError(f"{at}: expected a program and its arguments, found {command.argv!r:.200}")
            if name := next((name for name in command.env if not name or "=" in name), None):
                raise PluginError(f"{at}: expected names of environment variables, found {name!r:.200}")
        return commands

    def explain(self, host: str, exit_code: int, errors: str) -> str | None:
        """The reason why a process to a host has ended, in one line; None if the launcher does not say."""
        method = getattr(self._launcher, "explain", None)
        if not callable(method):
            return None
        with blaming(self._owner, self._call("explain")):
            reason = method(host, exit_code, errors)
        return printable(reason, " ")[:MAX_REASON_CHARACTERS] or None if isinstance(reason, str) else None

    def hand_over(self, submission: Submission, say: Callable[[str], None]) -> int | None:
        """The exit code of a command that the launcher has had run elsewhere; None if it is to be run here."""
        if not hasattr(self._launcher, "hand_over"):
            return None
        with blaming(self._owner, self._call("hand_over"), limited=False, prints=True):
            code = self._launcher.hand_over(self._without_image(submission), say)
        if code is not None and (isinstance(code, bool) or not isinstance(code, int)):
            raise PluginError(f"{self._at('hand_over')}: expected an exit code or None, found {code!r:.200}")
        return code

    def preview(self, submission: Submission) -> str | None:
        """Text that the launcher would submit to its engine; None if nothing."""
        if not hasattr(self._launcher, "preview"):
            return None
        with blaming(self._owner, self._call("preview")):
            text = self._launcher.preview(self._without_image(submission))
        if text is not None and not isinstance(text, str):
            raise PluginError(f"{self._at('preview')}: expected text or None, found {text!r:.200}")
        return text

    def close(self) -> None:
        """Give back what `nodes` has taken from the engine, once."""
        close, self._close = self._close, None
        if close is not None:
            with blaming(self._owner, self._call("close")):
                close()

    def _without_image(self, submission: Submission) -> Submission:
        """A launcher that starts no containers gets no image."""
        if self.starts_containers:
            return submission
        return replace(submission, request=replace(submission.request, image=None))

    def _at(self, method: str) -> str:
        return f"{who(self._owner)}: {self._call(method)}"

    def _call(self, method: str) -> str:
        return f"{HOOK}: launcher {self.name!r}: {method}()"

    def _answer(self, method: str, kind: Any, argument: Any) -> tuple[Any, ...]:
        call = self._call(method)
        limited = method != "nodes" or "LLMPERF_PLUGIN_SECONDS" in os.environ  # a cluster's queue takes its time
        with blaming(self._owner, call, limited=limited):
            answer = getattr(self._launcher, method)(argument)
        return tuple(of_kind(self._owner, call, item, kind) for item in blamed_items(self._owner, call, answer))


def installed_launcher(name: str, vendor: str | None) -> CheckedLauncher:
    """The launcher of that name from an extension, or the named vendor, or any vendor if none is named."""
    installed = discover()
    known = {"local"}
    for candidate in (None, *([vendor] if vendor is not None else names("vendor", installed))):
        try:
            plugins = load_for(candidate, None, installed)
        except PluginError:
            if vendor is not None:
                raise
            continue
        launchers = _launchers(plugins)
        if len(offers := launchers.get(name, [])) > 1:
            owners = sorted({owner for owner, _ in offers})
            if len(owners) == 1:
                raise PluginError(f"{plugins.who(owners[0])}: {HOOK} gave two launchers named {name!r}")
            raise UserError(f"launcher {name!r} comes from {' and '.join(map(plugins.who, owners))}; uninstall one")
        if offers:
            return offers[0][1]
        known.update(launchers)
    if others := ", ".join(_offering(name)):
        raise UserError(f"--launcher: launcher {name!r} is offered by {others} only; expected --vendor of that name")
    raise unknown("--launcher", "launcher", name, known)


def _launchers(plugins: Plugins) -> dict[str, list[tuple[str, CheckedLauncher]]]:
    """Every launcher by name, with the key of the plugin that provides it."""
    providers: dict[str, list[tuple[str, CheckedLauncher]]] = {}
    for owner, item in plugins.collect_items(HOOK):
        launcher = CheckedLauncher(item, plugins.found(owner))
        providers.setdefault(launcher.name, []).append((owner, launcher))
    return providers


def _offering(name: str) -> Iterator[str]:
    """The installed vendors that have a launcher of that name."""
    installed = discover()
    for vendor in names("vendor", installed):
        try:
            if name in _launchers(load_for(vendor, None, installed)):
                yield f"vendor {vendor!r}"
        except PluginError:
            continue
