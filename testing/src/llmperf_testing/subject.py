"""The plugin under check: found, imported and loaded once for all checks, each of which may depend on others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

from llmperf.errors import PluginError
from llmperf.hookspecs import Role
from llmperf.plugins.discovery import Found, find
from llmperf.plugins.loading import Plugins

from llmperf_testing.check import ContractError, Skip
from llmperf_testing.children import observe
from llmperf_testing.observations import Fresh

T = TypeVar("T")

FRESH_SECONDS = 120.0
"""Enough for a plugin that imports everything there is."""


class Subject:
    """One installed plugin. PluginError if there is none of that role and name.

    `vendor` names whose devices a framework is tried on, the best here by default; `settings` are `--set PATH=VALUE`
    that the default case needs for this plugin.
    """

    def __init__(self, role: Role, name: str, vendor: str | None = None, settings: tuple[str, ...] = ()) -> None:
        self.found: Found = find(role, name)
        self.vendor = vendor
        self.settings = settings
        self._kept: dict[Any, tuple[Any, BaseException | None]] = {}

    @property
    def tried_on(self) -> str | None:
        """Name of the vendor on whose devices a framework is tried; None for other plugins, and if there is none."""
        return None

    @property
    def seed(self) -> int | None:
        """Seed of the case that a framework trains; None for other plugins."""
        return None

    def close(self) -> None:
        """Release what was made for the checks."""

    def __enter__(self) -> Subject:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def role(self) -> Role:
        """The plugin's."""
        return self.found.role

    @property
    def name(self) -> str:
        """The plugin's."""
        return self.found.name

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

    def run(self, check: Callable[[Any], None]) -> None:
        """Run a check once; later calls repeat its outcome."""
        self.once(check, lambda: check(self))

    def rests_on(self, *checks: Callable[[Any], None]) -> None:
        """Skip if one of these checks fails, so that each fault is reported by one check."""
        for check in checks:
            try:
                self.run(check)
            except Skip:
                raise
            except Exception:
                raise Skip(f"rests on {check.__name__.replace('_', '-')}, which fails") from None

    @property
    def module(self) -> ModuleType:
        """The plugin's module; whatever importing it raises."""
        return self.once("module", self._import)

    def _import(self) -> ModuleType:
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

    def try_fresh(self) -> Fresh:
        """Observations of a fresh interpreter that loads the plugin; ContractError if it hangs or dies."""
        words = [self.role, self.name, *(word for one in self.settings for word in ("--set", one))]
        return self.once("fresh", lambda: observe("fresh", words, Fresh, seconds=FRESH_SECONDS, env={}))

    @property
    def fresh(self) -> Fresh:
        """As `try_fresh`; Skip if the interpreter hangs or dies. Asked first, so that this process does not."""
        try:
            return self.try_fresh()
        except ContractError:
            raise Skip("a fresh process that asks it hangs or dies") from None


def answered(subject: Subject, key: Any, hook: str, **arguments: Any) -> Any:
    """The plugin's answer to a hook, asked once; ContractError in a line if it raises."""

    def ask() -> Any:
        assert subject.fresh
        try:
            return subject.ask(hook, **arguments)
        except (Skip, ContractError):
            raise
        except Exception as error:
            raise ContractError(f"{hook} raised {type(error).__name__}: {error}") from error

    return subject.once((hook, key), ask)
