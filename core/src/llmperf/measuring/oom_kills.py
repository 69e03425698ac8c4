"""Counts of processes that the kernel has killed for lack of memory, on this host and in this control group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


class OomKills(NamedTuple):
    """Counters of the kernel; None where it does not show them."""

    group: int | None
    """Processes of this control group that were killed, whoever's limit was reached."""
    host: int | None
    """Processes of the whole host, those of other containers too."""

    def risen_since(self, before: OomKills) -> bool:
        """Whether a process was killed since; the count of the host decides only where the group has none."""
        now, earlier = (self.host, before.host) if self.group is None else (self.group, before.group)
        return now is not None and earlier is not None and now > earlier


def oom_kills(proc: Path = PROC, cgroups: Path = CGROUPS) -> OomKills:
    """The counters now."""
    groups = (_counter(file) for file in _files(proc, cgroups))
    return OomKills(next((count for count in groups if count is not None), None), _counter(proc / "vmstat"))


def _files(proc: Path, cgroups: Path) -> Iterator[Path]:
    """Files with counts of this process's control group, in versions 1 and 2; a container sees its group as `/`."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        below = path.strip("/")
        if "memory" in controllers.split(","):
            yield from (cgroups / "memory" / part / "memory.oom_control" for part in dict.fromkeys((below, "")))
        elif number == "0":
            yield from (cgroups / part / "memory.events" for part in dict.fromkeys((below, "")))


def _counter(file: Path) -> int | None:
    """The number behind `oom_kill` in a file with a name and a number on each line."""
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return None
