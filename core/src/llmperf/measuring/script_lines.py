"""What a framework plugin finds in the lines of its external script, held to what it may say."""

from __future__ import annotations

import math

from llmperf.errors import PluginError
from llmperf.plugins.faults import blaming, of_kind, who
from llmperf.plugins.loading import Plugins
from llmperf.types.records import LoggedFacts, LoggedFailure, LoggedStep

HOOK = "llmperf_parse_log"
Told = LoggedStep | LoggedFacts | LoggedFailure
KINDS: tuple[type[Told], ...] = (LoggedStep, LoggedFacts, LoggedFailure)
MAX_SHOWN = 80


class ScriptLines:
    """Asks the plugin about one line after another."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._owner = plugins.owner(HOOK)
        self.count = 0
        """Lines so far."""
        self.who = who(self._owner)
        """The plugin, as errors name it."""

    def read(self, line: str) -> Told | None:
        """What a line tells; PluginError if the plugin raises, or answers what it may not."""
        self.count += 1
        with blaming(self._owner, HOOK):
            given = self._plugins.ask(HOOK, line=line)
        if given is None:
            return None
        kind = next((one for one in KINDS if isinstance(given, one)), None)
        if kind is None:
            names = ", ".join(one.__name__ for one in KINDS)
            raise PluginError(f"{self.who}: {HOOK}: expected one of {names} or None, found {repr(given)[:MAX_SHOWN]}")
        told: Told = of_kind(self._owner, HOOK, given, kind)
        self._check_numbers(told)
        return told

    def _check_numbers(self, told: Told) -> None:
        """PluginError for a step, a time or a memory that cannot be. A loss may be no number: that is told of."""
        for name, least in (("step", 1), ("seconds", 0), ("peak_memory_bytes", 0)):
            value = getattr(told, name, None)
            if value is not None and not (math.isfinite(value) and value >= least):
                expected = "steps counted from 1" if name == "step" else "a number of at least 0"
                where = f"{self.who}: {HOOK}: {type(told).__name__}.{name}"
                raise PluginError(f"{where}: expected {expected}, found {value}")
