"""The report of a node or of a Python environment on its plugins and devices, printed by a short program there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.types.devices import Probe
from llmperf.types.launching import Launcher, Node, NodeCommand

LIMIT_SECONDS = 60.0
"""Time limit for the reports of all nodes together; each imports plugins and asks its driver."""
MAX_REPORT_BYTES = 4 * 2**20
PROGRAM = """
import sys
sys.path[:] = [folder for folder in sys.path if folder]
if sys.version_info < (3, 10):
    sys.exit("Python %d.%d is too old; expected 3.10 or newer" % sys.version_info[:2])
try:
    from llmperf.planning.node_report import print_report
except ImportError as error:
    sys.exit("llmperf-core cannot be imported: %s" % error)
print_report(sys.argv[1:])
"""
"""Runs on any Python, and prints the reason if llmperf is missing. Nothing is imported from the current folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPlugin:
    """A plugin of an environment."""

    role: str
    name: str
    distribution: str
    version: str
    problem: str | None
    """One line if its requirements are not met there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """The plugins and devices of an environment on a node."""

    llmperf_version: str
    """Version of llmperf-core."""
    python_version: str
    """Such as `3.12.3`."""
    plugins: tuple[InstalledPlugin, ...]
    """The installed vendor, framework and extension plugins."""
    probes: tuple[Probe, ...]
    """The devices that the named vendor plugin sees, or every vendor plugin if none was named."""
    left_out: tuple[str, ...]
    """One line for each vendor plugin that failed."""

    def plugin(self, role: str, name: str) -> InstalledPlugin | None:
        """The plugin of that role and name; None if it is not installed there."""
        return next((plugin for plugin in self.plugins if (plugin.role, plugin.name) == (role, name)), None)


@dataclass(frozen=True, slots=True)
class _Version:
    llmperf_version: str


def print_report(arguments: Sequence[str]) -> None:
    """Print the report of this environment as one line of JSON; the argument, if any, names the vendor."""
    import platform

    from llmperf import __version__
    from llmperf.planning.vendors import probe, probe_all
    from llmperf.plugins.discovery import discover
    from llmperf.plugins.faults import printing_aside
    from llmperf.plugins.mending import unmet_problem

    with printing_aside():
        found = discover()
        if arguments:
            try:
                probes, left_out = [probe(arguments[0])], []
            except LlmperfError as error:
                probes, left_out = [], [str(error)]
        else:
            probes, left_out = probe_all()
    report = NodeReport(
        llmperf_version=__version__,
        python_version=platform.python_version(),
        plugins=tuple(
            InstalledPlugin(
                role=plugin.role,
                name=plugin.name,
                distribution=plugin.distribution,
                version=plugin.version,
                problem=unmet_problem(plugin),
            )
            for plugin in found
        ),
        probes=tuple(probes),
        left_out=tuple(left_out),
    )
    sys.stdout.write("\n" + json_files.encode(report).decode() + "\n")


def report_argv(python: str, vendor: str | None) -> tuple[str, ...]:
    """The command that prints the report of an interpreter's environment."""
    return (python, "-c", PROGRAM, *([] if vendor is None else [vendor]))


def node_reports(launcher: Launcher, nodes: Sequence[Node], python: str, vendor: str | None) -> list[NodeReport]:
    """The report of `python` on each node, started by the launcher; UserError for the first node that fails."""
    argv = report_argv(python, vendor)
    asked = [
        NodeCommand(node_rank=rank, host=node.host, argv=argv, env=dict(node.env)) for rank, node in enumerate(nodes)
    ]
    deadline = time.monotonic() + LIMIT_SECONDS
    reports = []
    # all programs are started before the first report is read: one after the other would take minutes on a cluster
    running = [_Asked(launcher, command, python) for command in asked]
    try:
        for question in running:
            reports.append(question.report(deadline))
    finally:
        for question in running:
            question.close()
    return reports


class _Asked:
    """A running program that reports on one node."""

    def __init__(self, launcher: Launcher, command: NodeCommand, python: str) -> None:
        self._where = f"node {command.host}: {python}"
        (local,) = launcher.commands([command])
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                local.argv,
                env={**os.environ, **local.env},
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"{self._where}: cannot start {local.argv[0]}: {error.strerror}") from None

    def report(self, deadline: float) -> NodeReport:
        """The report; UserError in one line if the program fails or has another version of llmperf."""
        try:
            code = self._process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise UserError(f"{self._where}: did not report within {LIMIT_SECONDS:g} s") from None
        lines = [line for line in self._text(self._output).splitlines() if line.strip()]
        if code != 0 or not lines:
            errors = [line for line in self._text(self._errors).splitlines() if line.strip()]
            reason = " ".join(errors[-1].split())[:500] if errors else "no output"
            raise UserError(f"{self._where}: {reason} (exit status {code})")
        return decode_report(lines[-1], self._where)

    @staticmethod
    def _text(file: IO[bytes]) -> str:
        file.seek(0)
        return file.read(MAX_REPORT_BYTES).decode(errors="replace")

    def close(self) -> None:
        """End the program if it still runs."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()
        self._errors.close()


def decode_report(line: str, where: str) -> NodeReport:
    """The report that a line holds; UserError if another version of llmperf printed it."""
    from llmperf import __version__

    version = json_files.decode(line, _Version, where).llmperf_version
    if version != __version__:
        raise UserError(
            f"{where}: has llmperf-core {version}, expected {__version__} as here; install the same on both"
        )
    return json_files.decode(line, NodeReport, where)


def this_interpreter() -> str:
    """The Python that runs llmperf."""
    return str(Path(sys.executable))
