"""The machine of a run: this machine, or the nodes that a launcher reaches, as the workers' Python sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from llmperf.errors import PluginError, UserError
from llmperf.hookspecs import Role
from llmperf.links.link import this_interpreter
from llmperf.planning.launchers import CheckedLauncher, installed_launcher
from llmperf.planning.node_report import NodeReport, node_reports
from llmperf.planning.vendors import Machine, chosen_machine, this_machine
from llmperf.plugins.discovery import discover, find
from llmperf.plugins.mending import unmet_problem
from llmperf.types.launching import Interpreter, Node, NodeRequest

LOCAL = "local"
"""The launcher of this machine, which runs use unless they name another."""


def machine_of(
    vendor: str | None,
    launcher_name: str,
    request: NodeRequest,
    python: tuple[str, str | None] | None,
    opened: CheckedLauncher | None = None,
) -> Machine:
    """The devices that a run can use, on the nodes that the launcher offers, up to the requested number.

    `python` is the path of the workers' interpreter and the name of its environment, if it is another than this one;
    `opened` is the launcher, if it was asked something already.
    """
    if launcher_name == LOCAL and python is None and not request.hosts:
        return replace(this_machine(vendor), node_list=local_nodes())
    launcher = opened or installed_launcher(launcher_name, vendor)
    nodes = launcher.nodes(request)
    try:
        return _reached(vendor, launcher, nodes, python)
    except BaseException:
        launcher.close()
        raise


def _reached(
    vendor: str | None, launcher: CheckedLauncher, nodes: Sequence[Node], python: tuple[str, str | None] | None
) -> Machine:
    path, environment = python or (this_interpreter(), None)
    reports = node_reports(launcher, nodes, path, vendor)
    machine = chosen_machine(vendor, reports[0].probes, reports[0].left_out)
    _check_alike(machine, nodes, reports)
    interpreter = None
    if python is not None:
        interpreter = Interpreter(path=path, version=reports[0].python_version, environment=environment)
    return replace(
        machine,
        nodes=len(nodes),
        node_list=tuple(nodes),
        report=reports[0],
        interpreter=interpreter,
        launcher=launcher,
    )


def local_nodes() -> tuple[Node, ...]:
    """This machine as the only node."""
    return (Node(host="localhost", address="127.0.0.1"),)


def _check_alike(machine: Machine, nodes: Sequence[Node], reports: Sequence[NodeReport]) -> None:
    """UserError with one line for each node that differs from the first in what a run depends on."""
    lines = [line for node, report in zip(nodes[1:], reports[1:], strict=True)
             for line in _differences(machine.vendor, nodes[0], reports[0], node, report)]  # fmt: skip
    if lines:
        raise UserError("; ".join(lines))


def _differences(vendor: str, first: Node, expected: NodeReport, node: Node, report: NodeReport) -> Iterator[str]:
    if report.python_version != expected.python_version:
        yield _difference(node, first, "Python", report.python_version, expected.python_version)
    for plugin in expected.plugins:
        other = report.plugin(plugin.role, plugin.name)
        version = "not installed" if other is None else other.version
        if version != plugin.version:
            yield _difference(node, first, f"{plugin.role} {plugin.name!r}", version, plugin.version)
    models = [_models(vendor, node_report) for node_report in (report, expected)]
    if models[0] != models[1]:
        yield _difference(node, first, "devices", *models)


def _models(vendor: str, report: NodeReport) -> str:
    models = [device.model for probe in report.probes if probe.vendor == vendor for device in probe.devices]
    return ", ".join(f"{models.count(model)} x {model}" for model in dict.fromkeys(models)) or "none"


def _difference(node: Node, first: Node, what: str, found: str, expected: str) -> str:
    return f"node {node.host}: {what}: expected {expected} as on {first.host}, found {found}"


RANK_PYTHON = "{python}"
"""In the command of a script: the interpreter that runs the rank, which fills it in."""


def by_interpreter(argv: tuple[str, ...], interpreter: Interpreter | None) -> tuple[str, ...]:
    """A command of this Python as a command of the workers' Python, which may be too old for the option `-P`."""
    if interpreter is None or argv[:1] not in ((this_interpreter(),), (RANK_PYTHON,)):
        return argv
    rest = argv[1:]
    if rest[:1] == ("-P",) and not interpreter.knows_safe_path:
        rest = rest[1:]
    return (RANK_PYTHON if argv[0] == RANK_PYTHON else interpreter.path, *rest)


def installed_problem(machine: Machine, role: str, name: str) -> str | None:
    """One line if a plugin cannot run in the workers' environment of a machine; None if it can."""
    report = machine.report
    if report is None:
        return packages_problem(name, "vendor" if role == "vendor" else "framework")
    path = machine.interpreter.path if machine.interpreter else machine.node_list[0].host
    plugin = report.plugin(role, name)
    here = next((found for found in discover() if (found.role, found.name) == (role, name)), None)
    if plugin is None:
        wanted = f"; install {here.distribution} there" if here else ""
        return f"{path}: {role} {name!r} is not installed{wanted}"
    if here is not None and (here.distribution, here.version) != (plugin.distribution, plugin.version):
        found = f"{plugin.distribution} {plugin.version}"
        return f"{path}: {role} {name!r}: expected {here.distribution} {here.version} as here, found {found}"
    return None if plugin.problem is None else f"{path}: {plugin.problem}"


def packages_problem(name: str, role: Role = "framework") -> str | None:
    """One line on the unmet requirements of an installed plugin, with which ranks would only end in a traceback.

    None if nothing is missing, and for a plugin that is not installed.
    """
    try:
        found = find(role, name)
    except PluginError:
        return None
    return unmet_problem(found)
