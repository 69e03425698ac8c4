"""Facts that only a plugin knows about its devices or libraries, and that the core uses without naming either."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCheck:
    """A check of this machine that `llmperf doctor` runs."""

    subject: str
    """What is checked, such as `host compiler`."""
    problem: Callable[[], str | None]
    """Returns one line that says what is missing, or None."""
    mend: str | None = None
    """The shell command that installs what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a vendor or framework plugin tells the core; the facts of all loaded plugins are joined."""

    environment_names: tuple[str, ...] = ()
    """Environment variables that change how a run goes: results record them."""
    environment_prefixes: tuple[str, ...] = ()
    """Prefixes of such names, such as `ACME_`."""
    waiting_frames: tuple[str, ...] = ()
    """Parts of `FILE in FUNCTION` as a stack trace has them, of calls that wait for other ranks or for the device.

    A rank in such a call is not the one that hangs."""
    packages: tuple[str, ...] = ()
    """Import names of packages whose version affects the training speed: reports show these versions."""
    device_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Other names that documents use, by vendor or by exact device model: regular expressions, case ignored."""
    host_checks: tuple[HostCheck, ...] = ()
    """Checks for what the plugin needs beside Python packages."""
