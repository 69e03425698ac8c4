"""Loads plugins, calls their hooks, and enforces the rules of the hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pluggy

from llmperf import API_VERSION, hookspecs
from llmperf.errors import Interrupted, LlmperfError, PluginError, PluginImportError, Terminated
from llmperf.hookspecs import OWNERS, PROJECT, Role
from llmperf.plugins.asking import asking
from llmperf.plugins.discovery import Found, discover, find, names, upgrade
from llmperf.plugins.faults import MAX_ANSWERS, blamed_items, blaming, named, of_kind, printing_aside, who
from llmperf.plugins.hook_names import HookManager, announcing, unasked
from llmperf.plugins.installed import source_hash
from llmperf.plugins.installed import version as installed_version
from llmperf.plugins.requirements import unmet_requirements

if TYPE_CHECKING:
    from llmperf.types import PluginInfo, RankTask
    from llmperf.types.devices import Dtype, PeakFlops
    from llmperf.types.rates import DeviceRates

T = TypeVar("T")

CORE_HOOKS: Mapping[str, tuple[str, ...]] = {
    "llmperf_resources": ("llmperf.cases.library",),
    "llmperf_facts": ("llmperf.plugins.facts",),
    "llmperf_count_flops": ("llmperf.accounting.flops",),
    "llmperf_observers": ("llmperf.cli.progress_line",),
    "llmperf_rank_records": ("llmperf.measuring.expert_counts",),
    "llmperf_rules": ("llmperf.validation.core_rules",),
    "llmperf_document_kinds": ("llmperf.validation.core_rules", "llmperf.reporting.core_formats"),
    "llmperf_reporters": ("llmperf.reporting.core_formats",),
}
"""The modules with the core's own answers to each hook, by dotted name, as in an entry point; imported when asked."""

CORE = Found("core", "core", "llmperf", f"{PROJECT}-core", "")
"""The core as a plugin: the name under which its answers are given and recorded."""


def load(found: Found) -> ModuleType:
    """Import a plugin's module; PluginError with the cause if that fails."""
    try:
        with asking(who(found), "import"), printing_aside():
            return import_module(found.module)
    except (Interrupted, Terminated, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit, which would end the command without a message
        raise PluginImportError(f"{who(found)} cannot be imported: {named(error)}") from error


class Plugins:
    """Loaded plugins; each hook is called through here.

    Registering refuses hooks that the role may not answer, misspelt hooks, and a second answer to a hook that has one
    owner, unless there may be `several_owners`, such as all vendors whose results are reported.
    """

    def __init__(self, chosen: Iterable[Found] = (), *, several_owners: bool = False) -> None:
        self._manager = HookManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._found: dict[str, Found] = {}
        self._core: dict[str, ModuleType] = {}
        self._several_owners = several_owners
        self.left_out: list[str] = []
        """One line for each plugin that was skipped because it is broken."""
        self.absent: list[tuple[Role, str]] = []
        """Plugins that `plugins_for` was asked for and that are not installed."""
        for found in chosen:
            self.register(load(found), found)

    def register(self, plugin: object, found: Found) -> None:
        """Add one plugin; PluginError if it breaks a rule, and then it is not added."""
        if found.api_version != API_VERSION:
            problem = f"{found.role} {found.name!r} is for plugin API v{found.api_version}, not v{API_VERSION}"
            raise PluginError(f"{problem}; {upgrade(found)}")
        if (unknown := unasked(who(found), plugin)) is not None:
            raise PluginError(unknown)
        key = f"{found.role}:{found.name}"
        try:
            with announcing(who(found)):
                self._manager.register(plugin, name=key)
                self._manager.check_pending()
        except (ValueError, pluggy.PluginValidationError) as error:
            self._forget(key)
            raise PluginError(f"{who(found)}: {error}") from None
        self._found[key] = found
        try:
            for hook, roles in OWNERS.items():
                answering = [impl.plugin_name for impl in getattr(self._manager.hook, hook).get_hookimpls()]
                if key in answering and found.role not in roles:
                    raise PluginError(f"{who(found)} answers {hook}, which only {' or '.join(roles)} may answer")
                if self._several_owners and found.role in ("vendor", "framework"):
                    continue
                rivals = sorted(name for name in answering if not name.startswith("core:"))  # the core answers last
                if not hookspecs.collecting(hook) and len(rivals) > 1:
                    raise PluginError(f"{hook} is answered by {' and '.join(rivals)}; only one plugin may answer it")
        except PluginError:
            self._forget(key)
            raise

    def check(self, found: Found) -> None:
        """PluginError if a plugin cannot be imported or breaks a rule; it is not added."""
        self.register(load(found), found)
        self._forget(f"{found.role}:{found.name}")

    def are_current(self) -> bool:
        """Check that the modules of these plugins are still the imported ones."""
        named = {key: found.module for key, found in self._found.items() if found is not CORE}
        return all(sys.modules.get(module) is self._manager.get_plugin(key) for key, module in named.items())

    def _forget(self, key: str) -> None:
        self._found.pop(key, None)
        if self._manager.has_plugin(key):
            self._manager.unregister(name=key)

    def _caller(self, hook: str) -> pluggy.HookCaller:
        """The caller of a hook, after the core's own answers to it have been registered."""
        for dotted in CORE_HOOKS.get(hook, ()):
            if dotted not in self._core:
                module = self._core[dotted] = import_module(dotted)
                self._manager.register(module, name=f"core:{dotted}")
                self._found[f"core:{dotted}"] = CORE
        return cast(pluggy.HookCaller, getattr(self._manager.hook, hook))

    def ask(self, hook: str, **arguments: Any) -> Any:
        """The answer to a hook that a single plugin owns; PluginError if no loaded plugin implements it."""
        self.owner(hook)
        return self._caller(hook)(**arguments)

    def answer(self, hook: str, kind: type[T], **arguments: Any) -> T:
        """Ask like `ask`, for the controller: PluginError names a plugin that raises or returns another type."""
        return of_kind(self.owner(hook), hook, self._asked(hook, arguments), kind)

    def several(self, hook: str, kinds: tuple[type[T], ...], **arguments: Any) -> tuple[T, ...]:
        """The answers to a hook that may give one, several or None, checked as in `answer` to be of one of `kinds`."""
        found, given = self.owner(hook), self._asked(hook, arguments)
        alone = isinstance(given, (*kinds, str, bytes, dict)) or not isinstance(given, Iterable)
        answers: list[T] = []
        for answer in [] if given is None else [given] if alone else blamed_items(found, hook, given, MAX_ANSWERS):
            kind = next((kind for kind in kinds if isinstance(answer, kind)), None)
            if kind is None:
                expected = f"one of {', '.join(kind.__name__ for kind in kinds)}, several of them, or None"
                raise PluginError(f"{who(found)}: {hook}: expected {expected}, found {answer!r:.80}")
            answers.append(of_kind(found, hook, answer, kind))
        return tuple(answers)

    def optional(self, hook: str, kind: type[T], **arguments: Any) -> T | None:
        """The answer to a hook, checked as in `answer`; None if no plugin answers, or if the answer is None."""
        given = self._asked(hook, arguments) if self.answers(hook) else None
        return None if given is None else of_kind(self.owner(hook), hook, given, kind)

    def rank_task(self, name: str) -> tuple[RankTask, Found] | None:
        """The task of ranks with that name, and the loaded extension that has it; None if there is none."""
        from llmperf.types.rank_tasks import RankTask

        for key, task in self.collect_items("llmperf_rank_tasks"):
            if isinstance(task, RankTask) and task.name == name:
                return task, self._found[key]
        return None

    def first_answer(self, hook: str, kind: type[T], **arguments: Any) -> tuple[T, Found]:
        """The first answer other than None and its owner; plugins are asked before the core. Checked as in `answer`."""
        self.owner(hook)
        implementations = self._caller(hook).get_hookimpls()
        for implementation in sorted(implementations, key=lambda item: item.plugin_name.startswith("core:")):
            found = self._found[implementation.plugin_name]
            call = cast(Callable[..., Any], implementation.function)
            with blaming(found, hook):
                given = call(**{name: arguments[name] for name in implementation.argnames})
            if given is not None:
                return of_kind(found, hook, given, kind), found
        raise PluginError(f"{who(self.owner(hook))}: {hook} gave no answer")

    def peak(self, device_model: str, dtype: Dtype) -> PeakFlops | str | None:
        """The checked answer to `llmperf_peak_flops`; a text is the reason, in one line, why the peak is missing."""
        from llmperf.types.devices import PeakFlops

        hook = "llmperf_peak_flops"
        given = self._asked(hook, {"device_model": device_model, "dtype": dtype})
        if isinstance(given, str):
            return " ".join(given.split())[:1000] or None
        return None if given is None else of_kind(self.owner(hook), hook, given, PeakFlops)

    def rates(self, device_model: str) -> DeviceRates | None:
        """The checked answer to `llmperf_device_rates`; None if the vendor knows none or does not answer."""
        from llmperf.types.rates import DeviceRates, wrong_rate

        hook = "llmperf_device_rates"
        rates = self.optional(hook, DeviceRates, device_model=device_model)
        if rates is not None and (wrong := wrong_rate(rates)) is not None:
            raise PluginError(f"{who(self.owner(hook))}: {hook}: {wrong}")
        return rates

    def _asked(self, hook: str, arguments: dict[str, Any]) -> Any:
        with blaming(self.owner(hook), hook):
            return self.ask(hook, **arguments)

    def owner(self, hook: str) -> Found:
        """The plugin that answers a hook with a single owner, otherwise the core; PluginError if there is no answer."""
        keys = [implementation.plugin_name for implementation in self._caller(hook).get_hookimpls()]
        if not keys:
            loaded = ", ".join(sorted(self._found)) or "none"
            raise PluginError(f"no loaded plugin answers {hook}; loaded: {loaded}")
        owners = sorted(key for key in keys if not key.startswith("core:"))
        if len(owners) > 1:
            raise PluginError(f"{hook} is answered by {' and '.join(owners)}; expected one of them to be chosen")
        return self._found[owners[0] if owners else keys[0]]

    def answers(self, hook: str) -> bool:
        """Check whether a loaded plugin, or the core, implements a hook."""
        return bool(self._caller(hook).get_hookimpls())

    def answering(self, hook: str, role: Role) -> tuple[str, ...]:
        """Names of the loaded plugins of a role that implement a hook, sorted."""
        found = [self._found[implementation.plugin_name] for implementation in self._caller(hook).get_hookimpls()]
        return tuple(sorted(plugin.name for plugin in found if plugin.role == role))

    def collect(self, hook: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Every answer to a collecting hook with the key of its owner: the core first, then by key."""
        for key, call in self._calls(hook, arguments):
            with blaming(self._found[key], hook):
                answer = call()
            yield key, answer

    def collect_sound(self, hook: str, faults: list[str], **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Collect like `collect_items`, but a plugin that fails ends only its own answer, with a line in `faults`."""
        for key, call in self._calls(hook, arguments):
            try:
                with blaming(self._found[key], hook):
                    answer = call()
                yield from ((key, item) for item in blamed_items(self._found[key], hook, answer))
            except LlmperfError as error:
                faults.append(str(error))

    def _calls(self, hook: str, arguments: Mapping[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
        """The key of each plugin that answers a collecting hook, and the call: the core's first, `trylast` last."""
        implementations = self._caller(hook).get_hookimpls()
        for implementation in sorted(implementations, key=lambda item: (item.trylast, item.plugin_name)):
            given = {name: arguments[name] for name in implementation.argnames}
            yield implementation.plugin_name, partial(cast(Callable[..., Any], implementation.function), **given)

    def collect_items(self, hook: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Each item in the answers to a collecting hook, with the key of its owner."""
        for owner, answer in self.collect(hook, **arguments):
            yield from ((owner, item) for item in blamed_items(self._found[owner], hook, answer))

    def found(self, owner: str) -> Found:
        """The plugin that gave an answer, by the key that `collect` gives."""
        return self._found[owner]

    def who(self, owner: str) -> str:
        """The plugin that gave an answer, as errors name it."""
        return who(self._found[owner])

    def infos(self) -> tuple[PluginInfo, ...]:
        """The core and each loaded plugin with its version and the hash of its source, for plans and results."""
        from llmperf.types import PluginInfo

        loaded = {f"{found.role}:{found.name}": found for found in [CORE, *self._found.values()]}
        return tuple(
            PluginInfo(
                name=found.name,
                role=found.role,
                distribution=found.distribution,
                version=found.version or installed_version(found.distribution) or "",
                source_hash=source_hash(found.module),
            )
            for _, found in sorted(loaded.items())
        )


def load_for(vendor: str | None, framework: str | None, installed: Iterable[Found] | None = None) -> Plugins:
    """The plugins of one run: the chosen vendor and framework, and every extension that can be imported."""
    known = list(discover() if installed is None else installed)
    chosen: list[tuple[Role, str | None]] = [("vendor", vendor), ("framework", framework)]
    plugins = Plugins(find(role, name, known) for role, name in chosen if name is not None)
    for extension in [find("extension", name, known) for name in names("extension", known)]:
        try:
            module = _usable(extension)
        except PluginError as error:
            plugins.left_out.append(str(error))
        else:
            plugins.register(module, extension)
    return plugins


def plugins_for(named_plugins: Iterable[tuple[Role, str]] = (), installed: Iterable[Found] | None = None) -> Plugins:
    """Every extension, and the vendors and frameworks that documents name: for their rules, reporters and facts.

    `named_plugins` are pairs of role and name. Those not installed are listed in `Plugins.absent`, broken ones in
    `Plugins.left_out`. Only collecting hooks can be asked.
    """
    known = list(discover() if installed is None else installed)
    wanted: set[tuple[Role, str]] = {("extension", name) for name in names("extension", known)}
    wanted |= {(role, name) for role, name in named_plugins if role in ("vendor", "framework")}
    key = (frozenset(wanted), tuple(known))
    if key in _loaded and _loaded[key].are_current():
        return _loaded[key]
    plugins = _loaded[key] = Plugins(several_owners=True)
    for role, name in sorted(wanted):
        if not any((found.role, found.name) == (role, name) for found in known):
            plugins.absent.append((role, name))
            continue
        try:
            found = find(role, name, known)
            plugins.register(_usable(found), found)
        except PluginError as error:
            plugins.left_out.append(str(error))
    return plugins


_loaded: dict[tuple[frozenset[tuple[Role, str]], tuple[Found, ...]], Plugins] = {}
"""The answers of `plugins_for`: loading and checking all extensions takes a fifth of `llmperf validate FILE`."""


def _usable(found: Found) -> ModuleType:
    """The imported module of a plugin; PluginError if its requirements are not met or it cannot be imported."""
    if found in _usable_modules and sys.modules.get(found.module) is _usable_modules[found]:
        return _usable_modules[found]
    if unmet_requirements(found.distribution):
        from llmperf.plugins.mending import unmet_problem

        raise PluginError(str(unmet_problem(found)))
    module = _usable_modules[found] = load(found)
    return module


_usable_modules: dict[Found, ModuleType] = {}
