"""Times at which a node's agent saw each phase of a rank, by clocks that the rank's code cannot reach."""

from __future__ import annotations

import time
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.runfolder.endings import SeenPhase
from llmperf.types.records import Phase, PhaseRecord

PHASE = b'{"kind":"phase"'
"""Beginning of the line of a phase; of a file with a million steps, no other line is decoded."""
READ_BYTES = 2**20
UPTIME = Path("/proc/uptime")


class RankPhases:
    """The phases of one rank, in the order in which its records have them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self.seen: tuple[SeenPhase, ...] = ()
        """The first entry into each phase."""
        self.latest: Phase = "starting"
        """The phase that the rank is in."""
        self.readable = True
        """Whether all records could be read so far."""
        self._looks = (time.monotonic(), time.monotonic())
        """When the look before the latest began, and when the latest did."""

    def look(self) -> None:
        """Read what the rank has written since the last look."""
        if not self.readable:
            return
        self._looks = self._looks[1], time.monotonic()
        try:
            with json_files.open_regular(self._path) as file:
                file.seek(self._offset)
                while block := file.read(READ_BYTES):
                    self._offset += len(block)
                    self._take(block)
        except FileNotFoundError:
            pass
        except (OSError, UserError):  # the result reports the unreadable records
            self.readable = False

    def _take(self, block: bytes) -> None:
        if b"\n" not in block:
            self._rest += block
            self.readable = len(self._rest) <= READ_BYTES
            return
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            if line.startswith(PHASE):
                phase = json_files.decode(line, PhaseRecord, str(self._path)).phase
                self.latest = phase
                if all(phase != seen.phase for seen in self.seen):
                    now = time.monotonic()
                    late = now - self._looks[0]
                    self.seen += (SeenPhase(phase=phase, monotonic=now, uptime=uptime(), late=late),)


def uptime() -> float | None:
    """Seconds since the host started, as its kernel writes them; None if the system does not.

    A library that replaces the clocks' functions does not change this text.
    """
    try:
        return float(UPTIME.read_bytes().split()[0])
    except (OSError, ValueError, IndexError):
        return None
