"""The report of a Python environment on its plugins and devices: of this one, and of another on this machine."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from contextlib import suppress

from llmperf import __version__
from llmperf.errors import LlmperfError, UserError
from llmperf.files import json_files
from llmperf.files.text import printable
from llmperf.types.remote import EnvironmentReport, InstalledPlugin

LIMIT_SECONDS = 60.0
"""Time limit for the report of another environment, which imports plugins and asks drivers."""
PROGRAM = (
    "import sys; sys.path[:] = [folder for folder in sys.path if folder]; "
    "sys.version_info >= (3, 10) "
    "or sys.exit('Python %d.%d is too old; expected 3.10 or newer' % sys.version_info[:2]); "
    "from importlib.util import find_spec; find_spec('llmperf') or sys.exit('llmperf-core is not installed'); "
)
"""The beginning of a program for any Python, which imports nothing from the current folder."""
START = b'{"llmperf_version":'
"""Beginning of a report; other lines are prints of other programs."""


def environment_report(vendor: str | None) -> EnvironmentReport:
    """The report of this environment. `vendor` names the only vendor plugin to ask for devices; all if it is None."""
    from llmperf.planning.vendors import probe_all
    from llmperf.plugins.discovery import discover
    from llmperf.plugins.facts import required_problem
    from llmperf.plugins.faults import printing_aside
    from llmperf.plugins.mending import unmet_problem

    plugins = []
    with printing_aside():
        for found in discover():
            problem = None
            with suppress(LlmperfError):  # a plugin that cannot be loaded is reported by the run itself
                problem = unmet_problem(found) or required_problem(found)
            plugins.append(InstalledPlugin(role=found.role, name=found.name, distribution=found.distribution,
                                           version=found.version, problem=problem))  # fmt: skip
        probes, left_out = probe_all(vendor)
    return EnvironmentReport(
        llmperf_version=__version__,
        python_version=platform.python_version(),
        plugins=tuple(plugins),
        probes=tuple(probes),
        left_out=tuple(left_out),
    )


def reported_by(python: str, vendor: str | None) -> EnvironmentReport:
    """The report of another Python on this machine; UserError, of one line that names it, if it gives none."""
    where = f"node localhost: {python}"
    argv = [python, "-u", "-c", f"{PROGRAM}from llmperf.planning.environment_report import main; main()", vendor or ""]
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)  # fmt: skip
    except OSError as error:
        raise UserError(f"launcher 'local': cannot start {python}: {error.strerror}") from None
    with process:
        try:
            output, errors = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise UserError(f"{where}: did not answer within {LIMIT_SECONDS:g} s") from None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
    line = next((line for line in reversed(output.splitlines()) if line.startswith(START)), None)
    if line is None:
        lines = [text for text in (output + errors).decode(errors="replace").splitlines() if text.strip()]
        last = " ".join(printable(lines[-1], " ").split())[:500] if lines else "no output"
        raise UserError(f"{where}: {last} (exit status {process.returncode})")
    version = json_files.decode(line, dict[str, object], where).get("llmperf_version")
    if version != __version__:
        raise UserError(f"{where}: has llmperf-core {printable(str(version), ' ')[:50]}, expected {__version__} as "
                        "here; install the same on both")  # fmt: skip
    return json_files.decode(line, EnvironmentReport, where)


def main() -> None:
    """Print the report of this environment for `reported_by`."""
    output = os.dup(1)
    os.dup2(2, 1)  # what plugins and libraries print is no report
    report = environment_report(sys.argv[1] or None)
    with open(output, "wb") as file:
        file.write(json_files.encode(report) + b"\n")
