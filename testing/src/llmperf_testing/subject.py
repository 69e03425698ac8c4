"""The plugin under check: found, imported and loaded once for all checks, and the kit's processes that try it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from llmperf.errors import PluginError
from llmperf.files import json_files
from llmperf.hookspecs import Role
from llmperf.launching.agent import python_module
from llmperf.measuring.processes import end_with_parent, send_group
from llmperf.plugins.discovery import Found, find
from llmperf.plugins.faults import described
from llmperf.plugins.loading import Plugins

from llmperf_testing.check import ContractError, Function, Skip
from llmperf_testing.observations import Fresh

T = TypeVar("T")

FRESH_SECONDS = 120.0
"""Enough for a plugin that imports everything there is."""
MAX_OBSERVATION_BYTES = 2**20


def kept(make: Callable[[Any], T]) -> T:
    """A property of a subject that is found out once: its value, or the exception."""
    return property(lambda self: self.once(make.__name__, lambda: make(self)), doc=make.__doc__)  # type: ignore[return-value]


class Subject:
    """One installed plugin, the `vendor` whose devices it is tried on, and its `settings`; PluginError without it."""

    seed: int | None = None
    """Seed of the case that a framework trains; None for other plugins."""

    def __init__(self, role: Role, name: str, vendor: str | None = None, settings: tuple[str, ...] = ()) -> None:
        self.found: Found = find(role, name)
        self.role, self.name = self.found.role, self.found.name
        self.vendor = vendor
        self.settings = settings
        self._kept: dict[Any, tuple[Any, BaseException | None]] = {}

    @property
    def tried_on(self) -> str | None:
        """Name of the vendor on whose devices a framework is tried; None for other plugins, and if there is none."""
        return None

    def close(self) -> None:
        """Release what was made for the checks."""

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Value or exception of the first call of `make` for this key."""
        if key not in self._kept:
            try:
                self._kept[key] = (make(), None)
            except Exception as error:
                self._kept[key] = (None, error)
        value, failure = self._kept[key]
        if failure is not None:
            raise failure
        return value  # type: ignore[no-any-return]

    def run(self, check: Function) -> None:
        """Run a check once; later calls repeat its outcome."""
        self.once(check, lambda: check(self))

    def rests_on(self, *checks: Function) -> None:
        """Skip if one of these checks fails, so that each fault is reported by one check."""
        for check in checks:
            try:
                self.run(check)
            except Skip:
                raise
            except Exception:
                raise Skip(f"rests on {check.__name__.replace('_', '-')}, which fails") from None

    @kept
    def module(self) -> ModuleType:
        """The plugin's module; whatever importing it raises."""
        assert self.fresh
        try:
            return import_module(self.found.module)
        except SystemExit as error:
            raise ImportError(f"it calls sys.exit({error.code!r})") from error

    @cached_property
    def plugins(self) -> Plugins:
        """The plugin as llmperf loads it; Skip if it refuses to."""
        assert self.fresh
        try:
            return Plugins([self.found])
        except PluginError as error:
            raise Skip(f"llmperf does not load it: {error}") from None

    def ask(self, hook: str, **arguments: Any) -> Any:
        """Its answer to a hook; Skip if it does not answer this one."""
        if not self.plugins.answers(hook):
            raise Skip(f"it does not answer {hook}")
        return self.plugins.ask(hook, **arguments)

    def answered(self, key: Any, hook: str, **arguments: Any) -> Any:
        """The same, asked once for this key; ContractError in a line if it raises."""

        def ask() -> Any:
            assert self.fresh
            try:
                return self.ask(hook, **arguments)
            except (Skip, ContractError):
                raise
            except Exception as error:
                raise ContractError(f"{hook} raised {described(error)}") from error

        return self.once((hook, key), ask)

    @kept
    def tried_fresh(self) -> Fresh:
        """Observations of a fresh interpreter that loads the plugin; ContractError if it hangs or dies."""
        given = {"role": self.role, "name": self.name, "settings": self.settings}
        return observe("fresh", given, Fresh, seconds=FRESH_SECONDS, env={})

    @property
    def fresh(self) -> Fresh:
        """As `tried_fresh`; Skip if the interpreter hangs or dies. Asked first, so that this process does not."""
        try:
            return self.tried_fresh
        except ContractError:
            raise Skip("a fresh process that asks it hangs or dies") from None


def observe(program: str, given: Mapping[str, Any], kind: type[T], *, seconds: float, env: Mapping[str, str]) -> T:
    """The document that a program of the kit writes, as `kind`; ContractError if it fails or takes too long."""
    with tempfile.TemporaryDirectory(prefix="llmperf-check-") as folder:
        process = Child(program, given, Path(folder) / "seen.json", Path(folder) / "log", env)
        process.wait(time.monotonic() + seconds)
        return process.seen(kind)


class Child:
    """A process of the kit in a session of its own, which ends with its children and writes what it saw to `out`."""

    def __init__(self, program: str, given: Mapping[str, Any], out: Path, log: Path, env: Mapping[str, str]) -> None:
        self._out, self._log = out, log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [*python_module("llmperf_testing.programs"), program, json.dumps(given), str(out)],
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent(signal.SIGKILL),
            )

    def wait(self, deadline: float) -> None:
        """Wait until it ends, by `time.monotonic()`; ContractError if it ends badly or not in time."""
        try:
            code = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise ContractError(f"the process that tries it did not end in time; {self._last_line()}") from None
        finally:
            self.kill()
        if code:
            how = f"with status {code}" if code > 0 else f"by {signal.Signals(-code).name}"
            raise ContractError(f"the process that tries it ended {how}; {self._last_line()}")

    def seen(self, kind: type[T]) -> T:
        """What it wrote, once it has ended."""
        if not self._out.exists():
            raise ContractError("the process that tries it ended without a word")
        return json_files.decode(json_files.read_bytes(self._out, MAX_OBSERVATION_BYTES), kind, self._out.name)

    def kill(self) -> None:
        """End it and all its children."""
        send_group(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)

    def _last_line(self) -> str:
        with self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - 4096))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return f"its last line: {lines[-1][:300]}" if lines else "it printed nothing"
