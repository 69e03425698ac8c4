"""Loading the plugins that a run asks for, holding each to its role."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pluggy

from llmperf import API_VERSION, hookspecs
from llmperf.errors import Interrupted, PluginError, PluginImportError, Terminated, unknown
from llmperf.hookspecs import OWNERS, PROJECT
from llmperf.plugins.asking import asking, fault_of, supervised
from llmperf.plugins.discovery import Found, discover, find, names, upgrade
from llmperf.plugins.faults import blamed_items, blaming, named, of_kind, printing_aside, who

if TYPE_CHECKING:
    from llmperf.types import PluginInfo
    from llmperf.types.devices import PeakFlops, Precision, Probe

T = TypeVar("T")

CORE_MODULES = ("llmperf.plugins.builtin",)
"""What the core answers itself, through the same door."""


def load(found: Found) -> ModuleType:
    """Import a plugin's module; PluginError with the cause if that fails."""
    if (fault := fault_of(who(found))) is not None:
        raise PluginError(fault)
    try:
        with asking(who(found), "import"), printing_aside():
            return import_module(found.module)
    except (Interrupted, Terminated):
        raise
    except BaseException as error:  # one that calls sys.exit() must not end us without a word
        if isinstance(error, KeyboardInterrupt) and not supervised():
            raise
        raise PluginImportError(f"{who(found)} cannot be imported: {named(error)}") from error


class Plugins:
    """The plugins of one run, loaded and checked; each hook is called through here.

    Registering refuses hooks that the role may not answer, misspelt hooks, and a second answer to a hook that one
    subject owns. The order of registering never matters.
    """

    def __init__(self, chosen: Iterable[Found] = ()) -> None:
        self._manager = pluggy.PluginManager(PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._found: dict[str, Found] = {}
        self.left_out: list[str] = []
        for module in CORE_MODULES:
            self.register(import_module(module), Found(module, "core", module, "llmperf-core", ""))
        for found in chosen:
            self.register(load(found), found)

    def register(self, plugin: object, found: Found) -> None:
        """Add one plugin; PluginError if it breaks a rule."""
        if found.api_version != API_VERSION:
            told = f"{found.role} {found.name!r} is for plugin API v{found.api_version}, not v{API_VERSION}"
            raise PluginError(f"{told}; {upgrade(found)}")
        self._check_spelling(plugin, found)
        key = f"{found.role}:{found.name}"
        try:
            self._manager.register(plugin, name=key)
            self._manager.check_pending()
        except (ValueError, pluggy.PluginValidationError) as error:
            raise PluginError(f"{who(found)}: {error}") from None
        self._found[key] = found
        self._check_owners(found, key)

    def _check_spelling(self, plugin: object, found: Found) -> None:
        for name in dir(plugin):
            if not name.startswith("llmperf_") or name in OWNERS or not callable(function := getattr(plugin, name)):
                continue
            if not getattr(function, f"{PROJECT}_impl", {}).get("optionalhook"):
                raise PluginError(f"{unknown(who(found), 'hook', name, OWNERS)}{_of_a_newer(name)}")

    def _check_owners(self, found: Found, key: str) -> None:
        for hook, roles in OWNERS.items():
            answering = [impl.plugin_name for impl in getattr(self._manager.hook, hook).get_hookimpls()]
            if key in answering and found.role not in roles:
                raise PluginError(f"{who(found)} answers {hook}, which only {' or '.join(roles)} may answer")
            rivals = sorted(name for name in answering if not name.startswith("core:"))  # the core answers last
            if not hookspecs.collecting(hook) and len(rivals) > 1:
                raise PluginError(f"{hook} is answered by {' and '.join(rivals)}; one of them at most may")

    def ask(self, hook: str, **arguments: Any) -> Any:
        """The one answer to a hook that one subject owns; PluginError if no loaded plugin implements it."""
        self._check_answered(hook)
        return getattr(self._manager.hook, hook)(**arguments)

    def _check_answered(self, hook: str) -> None:
        if not self.answers(hook):
            loaded = ", ".join(sorted(self._found)) or "none"
            raise PluginError(f"no loaded plugin answers {hook}; loaded: {loaded}")

    def answer(self, hook: str, kind: type[T], **arguments: Any) -> T:
        """As `ask`, for the controller; PluginError that names the plugin if it raises or gives something else."""
        return of_kind(self.owner(hook), hook, self._asked(hook, arguments), kind)

    def answer_or_none(self, hook: str, kind: type[T], **arguments: Any) -> T | None:
        """As `answer`, of a hook that may answer None."""
        given = self._asked(hook, arguments)
        return None if given is None else of_kind(self.owner(hook), hook, given, kind)

    def peak(self, device_model: str, dtype: Precision) -> PeakFlops | str | None:
        """As `answer_or_none`, of `llmperf_peak_flops`; text is the reason, in one line, why there is none."""
        from llmperf.types.devices import PeakFlops

        hook = "llmperf_peak_flops"
        given = self._asked(hook, {"device_model": device_model, "dtype": dtype})
        if isinstance(given, str):
            return " ".join(given.split()) or None
        return None if given is None else of_kind(self.owner(hook), hook, given, PeakFlops)

    def _asked(self, hook: str, arguments: dict[str, Any]) -> Any:
        with blaming(self.owner(hook), hook):
            return self.ask(hook, **arguments)

    def owner(self, hook: str) -> Found:
        """Who answers a hook that one subject owns: the plugin that does, or else the core; PluginError if nobody."""
        self._check_answered(hook)
        keys = [one.plugin_name for one in getattr(self._manager.hook, hook).get_hookimpls()]
        return self._found[min(keys, key=lambda key: key.startswith("core:"))]

    def answers(self, hook: str) -> bool:
        """Whether a loaded plugin implements a hook."""
        return bool(getattr(self._manager.hook, hook).get_hookimpls())

    def collect(self, hook: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Every answer to a collecting hook with the name of who gave it, in the order of names."""
        for implementation in sorted(
            getattr(self._manager.hook, hook).get_hookimpls(), key=lambda one: one.plugin_name
        ):
            call = cast(Callable[..., Any], implementation.function)
            given = {name: arguments[name] for name in implementation.argnames}
            found = self._found[implementation.plugin_name]
            with blaming(found, hook):
                answer = call(**given)
            yield implementation.plugin_name, answer

    def collect_items(self, hook: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Each thing in the answers to a collecting hook, with the name of who gave it."""
        for owner, answer in self.collect(hook, **arguments):
            yield from ((owner, item) for item in blamed_items(self._found[owner], hook, answer))

    def found(self, owner: str) -> Found:
        """A loaded plugin as it was found, by the name under which it gave an answer."""
        return self._found[owner]

    def who(self, owner: str) -> str:
        """A loaded plugin as errors name it."""
        return who(self._found[owner])

    def infos(self) -> tuple[PluginInfo, ...]:
        """For the record: each loaded plugin with its version and the hash of its source."""
        from llmperf.types import PluginInfo

        return tuple(
            PluginInfo(
                name=found.name,
                role=found.role,
                distribution=found.distribution,
                version=found.version or metadata.version(found.distribution),
                source_hash=source_hash(found.module),
            )
            for _, found in sorted(self._found.items())
        )


def _of_a_newer(hook: str) -> str:
    """What else a name that resembles no hook may be."""
    from difflib import get_close_matches

    if get_close_matches(hook, OWNERS, n=1, cutoff=0.85):
        return ""
    return f"; if a newer {PROJECT}-core has it, upgrade that, or mark the hook optionalhook=True"


def catalogue(found: Found, plugins: Plugins) -> list[Probe]:
    """The models that a loaded vendor plugin knows, if any; PluginError if it raises or an entry has no device."""
    from llmperf.types.devices import Probe

    hook = "llmperf_catalogue"
    if not plugins.answers(hook):
        return []
    with blaming(found, hook):
        given = plugins.ask(hook)
    entries = [of_kind(found, hook, entry, Probe) for entry in blamed_items(found, hook, given)]
    if not all(entry.devices for entry in entries):
        raise PluginError(f"{who(found)}: {hook} has an entry without a device")
    return entries


def catalogue_problems(found: Found, plugins: Plugins) -> list[str]:
    """What a loaded vendor plugin says is wrong with its own catalogue, each once; that it fails, if it does."""
    try:
        entries = catalogue(found, plugins)
    except PluginError as error:
        return [str(error)]
    return list(dict.fromkeys(line for entry in entries for line in entry.problems))


def source_hash(module: str) -> str | None:
    """SHA-256 over the Python files of the module's top-level package, by relative name and content."""
    import hashlib

    package = import_module(module.split(".")[0])
    if not getattr(package, "__file__", None):
        return None
    root = Path(cast(str, package.__file__))
    files = sorted(root.parent.rglob("*.py")) if root.name == "__init__.py" else [root]
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(root.parent)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def load_for(vendor: str | None, framework: str | None, installed: Iterable[Found] | None = None) -> Plugins:
    """The plugins of one run: the chosen vendor and framework, and every extension.

    An extension that cannot be imported is left out and told (`Plugins.left_out`); one that breaks a rule of the
    hooks, or stands against another, is a PluginError as everywhere. `installed` saves looking for them again.
    """
    found, chosen = list(discover() if installed is None else installed), []
    if vendor is not None:
        chosen.append(find("vendor", vendor, found))
    if framework is not None:
        chosen.append(find("framework", framework, found))
    plugins = Plugins(chosen)
    for extension in [find("extension", name, found) for name in names("extension", found)]:
        from llmperf.plugins.mending import unmet_problem

        try:
            if unmet := unmet_problem(extension):
                raise PluginError(unmet)
            module = load(extension)
        except PluginError as error:
            plugins.left_out.append(str(error))
        else:
            plugins.register(module, extension)
    return plugins
