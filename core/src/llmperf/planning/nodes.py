"""The machine of a run: this machine, or the nodes that a launcher reaches, as the workers' Python sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmperf.errors import PluginError, UserError
from llmperf.hookspecs import Role
from llmperf.links.link import this_interpreter
from llmperf.planning.containers import NO_CONTAINERS, Containers, container_of
from llmperf.planning.interfaces import compact, resolved, with_interface
from llmperf.planning.launchers import CheckedLauncher, installed_launcher
from llmperf.planning.node_differences import concerns, differences, refuse_one_machine, usual_report
from llmperf.planning.node_report import NodeReport, node_reports
from llmperf.planning.vendors import Machine, chosen_machine, this_machine
from llmperf.plugins.discovery import discover, find
from llmperf.plugins.facts import required_problem
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
    interface: str | None = None,
    containers: Containers = NO_CONTAINERS,
) -> Machine:
    """The devices that a run can use, on the nodes that the launcher offers, up to the requested number.

    `python` is the path of the workers' interpreter and the name of its environment, if it is another than this one;
    `opened` is the launcher, if it was asked something already;
    `interface` is the network interface that all nodes shall use;
    `containers` says how the request's image is started if the launcher starts none.
    UserError if nodes differ in what a run depends on.
    """
    if launcher_name == LOCAL and python is None and not request.hosts:
        return replace(this_machine(vendor), node_list=local_nodes())
    launcher = opened or installed_launcher(launcher_name, vendor)
    if request.image is not None and not launcher.starts_containers:
        launcher.container = container_of(request.image, containers, launcher_name)
        request, python = replace(request, image=None), python or (containers.python, None)
    nodes = launcher.nodes(request)
    try:
        return _reached(vendor, launcher, nodes, python, interface)
    except BaseException:
        launcher.close()
        raise


class NodesInUse:
    """The nodes of several runs in a row: a launcher is asked for others only if a run needs others.

    At most one set of nodes is held at a time, since an engine may grant them to one run only.
    """

    def __init__(self, opened: CheckedLauncher | None = None) -> None:
        """`opened` is the launcher, if it was asked something already; it is used for the first nodes."""
        self._opened = opened
        self._asked: tuple[object, ...] | None = None
        self._machine: Machine | None = None

    def machine_of(
        self,
        vendor: str | None,
        launcher_name: str,
        request: NodeRequest,
        python: tuple[str, str | None] | None,
        interface: str | None = None,
        containers: Containers = NO_CONTAINERS,
    ) -> Machine:
        """As the function of that name; the same machine as last time if the same is asked for."""
        asked = (vendor, launcher_name, request, python, interface, containers)
        if self._machine is None or self._asked != asked:
            self.close()
            opened, self._opened = self._opened, None
            self._machine = machine_of(vendor, launcher_name, request, python, opened, interface, containers)
            self._asked = asked
        return self._machine

    def close(self) -> None:
        """Give back what the launcher has taken from its engine; the next run asks for nodes again."""
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()


def _reached(
    vendor: str | None,
    launcher: CheckedLauncher,
    offered: Sequence[Node],
    python: tuple[str, str | None] | None,
    interface: str | None,
) -> Machine:
    path, environment = python or (this_interpreter(), None)
    reached = node_reports(launcher, offered, path, vendor)
    reports = tuple(reached.reports.values())
    usual = usual_report(reports)
    machine = chosen_machine(vendor, usual.probes, usual.left_out)
    nodes = placed_nodes(offered, reports, interface)
    refuse_one_machine(nodes, reports)
    unlike = differences(machine.vendor, nodes, reports)
    if lines := [f"nodes differ in {difference}" for difference in unlike if difference.refuses]:
        raise UserError("; ".join(lines))
    interpreter = None
    if python is not None:
        interpreter = Interpreter(path=path, version=usual.python_version, environment=environment)
    return replace(
        machine,
        nodes=len(nodes),
        node_list=nodes,
        reports=reports,
        interpreter=interpreter,
        launcher=launcher,
        concerns=(
            *(f"nodes differ in {difference}" for difference in unlike),
            *concerns(machine.vendor, nodes, reports, reached.clocks),
        ),
    )


def placed_nodes(offered: Sequence[Node], reports: Sequence[NodeReport], interface: str | None) -> tuple[Node, ...]:
    """The nodes with their network interfaces and numeric addresses; UserError if one lacks the named interface."""
    return tuple(
        with_interface(node, report.host.interfaces, (*report.host.known_as, *resolved(node.address)), interface)
        for node, report in zip(offered, reports, strict=True)
    )


def local_nodes() -> tuple[Node, ...]:
    """This machine as the only node."""
    return (Node(host="localhost", address="127.0.0.1"),)


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
    """One line if a plugin cannot run in the workers' environment of a machine; None if it can.

    Nodes with the same problem are named together.
    """
    if not machine.reports:
        return packages_problem(name, "vendor" if role == "vendor" else "framework")
    hosts: dict[str, list[str]] = {}
    for node, report in zip(machine.node_list, machine.reports, strict=True):
        problem = _problem_there(report, role, name)
        if problem is not None:
            hosts.setdefault(problem, []).append(node.host)
    if len(machine.node_list) == 1:
        path = machine.interpreter.path if machine.interpreter else machine.node_list[0].host
        return next((f"{path}: {problem}" for problem in hosts), None)
    return "; ".join(f"node {compact(names)}: {problem}" for problem, names in hosts.items()) or None


def _problem_there(report: NodeReport, role: str, name: str) -> str | None:
    plugin = report.plugin(role, name)
    here = next((found for found in discover() if (found.role, found.name) == (role, name)), None)
    if plugin is None:
        wanted = f"; install {here.distribution} there" if here else ""
        return f"{role} {name!r} is not installed{wanted}"
    if here is not None and (here.distribution, here.version) != (plugin.distribution, plugin.version):
        other = f"{plugin.distribution} {plugin.version}"
        return f"{role} {name!r}: expected {here.distribution} {here.version} as here, found {other}"
    return plugin.problem


def packages_problem(name: str, role: Role = "framework") -> str | None:
    """One line on the unmet requirements of an installed plugin, with which ranks would only end in a traceback.

    None if nothing is missing, and for a plugin that is not installed or cannot be loaded.
    """
    try:
        found = find(role, name)
        return unmet_problem(found) or required_problem(found)
    except PluginError:
        return None
