"""The machine of a run: this machine, or the nodes that a launcher reaches, as the workers' Python sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from llmperf.cases.settings import from_command_line
from llmperf.errors import PluginError, UserError
from llmperf.hookspecs import Role
from llmperf.planning.environment_report import reported_by
from llmperf.planning.host_facts import compact_hosts, this_interpreter
from llmperf.planning.states import LOCAL, Selection, Site
from llmperf.planning.vendors import Machine, chosen_machine, machine_elsewhere, this_machine
from llmperf.plugins.discovery import discover, find, names
from llmperf.plugins.facts import required_problem
from llmperf.plugins.loading import plugins_for
from llmperf.plugins.mending import install_own, unmet_problem
from llmperf.plugins.own_packages import project_packages, published
from llmperf.types.launching import Interpreter, Node, NodeRequest
from llmperf.types.remote import Chooser, Container, NodesReached, OpenLauncher

NODES_HERE = (Node(host="localhost", address="127.0.0.1"),)
"""This machine as the only node."""


def nodes_wanted(selection: Selection, site: Site) -> int:
    """The number of nodes: by `--set` or `--hosts`, otherwise as the case says."""
    value = {setting.path: setting.value for setting in from_command_line(selection.settings)}.get("tuning.nodes")
    if isinstance(value, int) and value > 0:
        return value
    return len(site.hosts) or selection.read_case().tuning.nodes


def node_request(site: Site, nodes: int) -> NodeRequest:
    """The request to the launcher; UserError for an image on this machine."""
    if site.image is not None and site.launcher == LOCAL:
        raise UserError(f"--container-image {site.image}: launcher {LOCAL!r} starts no containers; expected "
                        "another --launcher, such as ssh with --hosts localhost")  # fmt: skip
    return NodeRequest(
        nodes=nodes, devices=site.devices, hosts=site.hosts, options=site.launcher_options, image=site.image
    )


def reach(site: Site, nodes: int) -> Machine:
    """The devices of `--on` or of a launcher's nodes; UserError if nodes differ in what a run depends on."""
    vendor = site.vendor
    if site.on is not None:
        return machine_elsewhere(site.on, vendor)
    request, python = node_request(site, nodes), site.python
    if site.launcher == LOCAL and not request.hosts:
        if python is None:
            return replace(this_machine(vendor), node_list=NODES_HERE)
        report = reported_by(python[0], vendor)
        here = NodesReached(nodes=NODES_HERE, reports=(report,), usual=report, concerns=())
        return _machine(vendor, here, python)
    if site.launcher == LOCAL:
        hosts = ", ".join(request.hosts)
        raise UserError(f"--hosts {hosts}: launcher 'local' reaches this machine only; choose one with --launcher")
    launcher = site.opened or open_launcher(site.launcher, vendor)
    if request.image is not None and not launcher.starts_containers:
        launcher.container = Container(image=request.image, table=site.containers)
        request, python = replace(request, image=None), python or (site.containers.python, None)
    remote = launcher.remote(python[0] if python else None)
    offered = launcher.nodes(request)
    try:
        reached = remote.reach(offered, vendor, site.interface, vendor_chooser(vendor))
        return replace(_machine(vendor, reached, python), launcher=launcher)
    except BaseException:
        launcher.close()
        raise


def open_launcher(name: str, vendor: str | None) -> OpenLauncher:
    """The launcher of that name, by the package that brings runs to nodes; UserError that names a missing package."""
    package = published().get(("extension", name))
    known = package is not None and project_packages()["folders"][package].startswith("launchers/")
    if package is not None and known and name not in names("extension", discover()):
        raise UserError(f"--launcher: {name!r} is a launcher of {package}; install it with: {install_own(package)}")
    plugins, hook, package = plugins_for(), "llmperf_open_launcher", "llmperf-remote"
    if plugins.answers(hook):
        return cast(OpenLauncher, plugins.ask(hook, name=name, vendor=vendor))
    trouble = [line for line in plugins.left_out if package in line] or [f"install it with: {install_own(package)}"]
    raise UserError(f"launcher {name!r}: {package} brings runs to its nodes; {trouble[0]}")


def vendor_chooser(vendor: str | None) -> Chooser:
    """A function that gives the vendor whose devices a run uses where an environment has reported."""
    return lambda report: chosen_machine(vendor, report.probes, report.left_out).vendor


def _machine(vendor: str | None, reached: NodesReached, python: tuple[str, str | None] | None) -> Machine:
    usual, interpreter = reached.usual, None
    if python is not None:
        interpreter = Interpreter(path=python[0], version=usual.python_version, environment=python[1])
    return replace(
        chosen_machine(vendor, usual.probes, usual.left_out),
        nodes=len(reached.nodes),
        node_list=reached.nodes,
        reports=reached.reports,
        interpreter=interpreter,
        concerns=reached.concerns,
    )


RANK_PYTHON = "{python}"
"""Placeholder in the command of a script: the interpreter that runs the rank, which fills it in."""


def by_interpreter(argv: tuple[str, ...], interpreter: Interpreter | None) -> tuple[str, ...]:
    """A command of this Python as a command of the workers' Python, which may be too old for the option `-P`."""
    if interpreter is None or argv[:1] not in ((this_interpreter(),), (RANK_PYTHON,)):
        return argv
    rest = argv[1:]
    if rest[:1] == ("-P",) and not interpreter.knows_safe_path:
        rest = rest[1:]
    return (RANK_PYTHON if argv[0] == RANK_PYTHON else interpreter.path, *rest)


def installed_problem(machine: Machine, role: str, name: str) -> str | None:
    """One line if a plugin cannot run in the workers' environment of a machine, with all such nodes; None if it can."""
    if not machine.reports:
        return packages_problem(name, "vendor" if role == "vendor" else "framework")
    hosts: dict[str, list[str]] = {}
    here = next((found for found in discover() if (found.role, found.name) == (role, name)), None)
    for node, report in zip(machine.node_list, machine.reports, strict=True):
        plugin = report.plugin(role, name)
        problem = None if plugin is None else plugin.problem
        if plugin is None:
            problem = f"{role} {name!r} is not installed" + (f"; install {here.distribution} there" if here else "")
        elif here is not None and (here.distribution, here.version) != (plugin.distribution, plugin.version):
            other = f"{plugin.distribution} {plugin.version}"
            problem = f"{role} {name!r}: expected {here.distribution} {here.version} as here, found {other}"
        if problem is not None:
            hosts.setdefault(problem, []).append(node.host)
    if len(machine.node_list) == 1:
        path = machine.interpreter.path if machine.interpreter else machine.node_list[0].host
        return next((f"{path}: {problem}" for problem in hosts), None)
    return "; ".join(f"node {compact_hosts(names)}: {problem}" for problem, names in hosts.items()) or None


def packages_problem(name: str, role: Role = "framework") -> str | None:
    """One line on the unmet requirements of an installed plugin, if any: ranks would end in a traceback."""
    try:
        found = find(role, name)
        return unmet_problem(found) or required_problem(found)
    except PluginError:
        return None
