"""What a user asks for on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmperf.cases.settings import Setting, from_command_line
from llmperf.planning.vendors import Machine


@dataclass(frozen=True)
class Request:
    """One `llmperf plan` or `llmperf run`."""

    case: str
    vendor: str | None = None
    framework: str | None = None
    default_framework: str | None = None
    """From the user's configuration file, where the command line names none."""
    devices: int | None = None
    settings: tuple[str, ...] = ()
    on: str | None = None
    launcher: str = "local"
    hosts: tuple[str, ...] = ()
    """Hosts for the launcher."""
    launcher_options: Mapping[str, Any] = field(default_factory=dict)
    """The launcher's table in the user's configuration file."""
    python: tuple[str, str | None] | None = None
    """Path of the workers' Python and the name of its environment, if it is another than this one."""
    stall_seconds: float = 300.0
    startup_seconds: float = 1800.0
    skip_peak_and_env: bool = False
    """Leave out the peak, which some vendors have to measure, and the variables of the ranks: to try a plugin with."""

    def command_line(self, machine: Machine) -> list[Setting]:
        """`--on`, `--framework`, `--devices` and `--set` as settings, in that order; UserError for a bad one."""
        named: list[Setting] = []
        if not machine.here:
            named.append(Setting("tuning.nodes", machine.nodes, "--on"))
            named.append(Setting("tuning.devices", len(machine.probe.devices), "--on"))
        elif self.hosts:
            named.append(Setting("tuning.nodes", len(self.hosts), "--hosts"))
        if self.framework is not None:
            named.append(Setting("tuning.framework", self.framework, "--framework"))
        elif self.default_framework is not None:
            named.append(Setting("tuning.framework", self.default_framework, "llmperf.toml"))
        if self.devices is not None:
            named.append(Setting("tuning.devices", self.devices, "--devices"))
        return named + from_command_line(self.settings)
