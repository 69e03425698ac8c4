"""Finding plugins by metadata, loading the ones a run asks for, holding each to its role."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module, metadata
from io import StringIO
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import pluggy

from llmperf import API_VERSION, hookspecs
from llmperf.errors import LlmperfError, PluginError, UserError, unknown
from llmperf.hookspecs import OWNERS, PROJECT, Role

if TYPE_CHECKING:
    from llmperf.types import PluginInfo
    from llmperf.types.devices import Probe

T = TypeVar("T")

ROLES: tuple[Role, ...] = ("vendor", "framework", "extension")
CORE_MODULES = ("llmperf.builtin",)
"""What the core answers itself, through the same door."""


@dataclass(frozen=True)
class Found:
    """A plugin as its distribution's metadata announces it; nothing of it is imported."""

    name: str
    role: Role
    module: str
    distribution: str
    version: str
    api_version: int = API_VERSION


def discover() -> list[Found]:
    """Every plugin installed in this environment, of any API version, by role and name."""
    found = {one for distribution in metadata.distributions() for one in _announced(distribution)}
    return sorted(found, key=lambda one: (ROLES.index(one.role), one.name, one.distribution))


def _announced(distribution: metadata.Distribution) -> Iterator[Found]:
    """The plugins of one distribution. Most have none, and are not parsed, which takes most of the time."""
    if f"{PROJECT}." not in (distribution.read_text("entry_points.txt") or ""):
        return
    name, version = _name_and_version(distribution)
    for entry in distribution.entry_points:
        if (parsed := _group(entry.group)) is not None:
            role, api_version = parsed
            yield Found(entry.name, role, entry.value, name, version, api_version)


def _name_and_version(distribution: metadata.Distribution) -> tuple[str, str]:
    """From the head of its metadata; parsing all of it, description included, takes ten times as long."""
    head = (distribution.read_text("METADATA") or "").partition("\n\n")[0]
    told = dict(line.split(": ", 1) for line in head.splitlines() if line.startswith(("Name: ", "Version: ")))
    if len(told) == 2:
        return told["Name"].strip(), told["Version"].strip()
    return distribution.metadata["Name"], distribution.version


def _group(group: str) -> tuple[Role, int] | None:
    parts = group.split(".")
    if len(parts) != 3 or parts[0] != PROJECT or parts[1] not in ROLES or parts[2][:1] != "v":
        return None
    return (parts[1], int(parts[2][1:])) if parts[2][1:].isdigit() else None


def names(role: Role, among: Iterable[Found] | None = None) -> list[str]:
    """Names of the installed plugins of one role that speak this API version."""
    found = discover() if among is None else among
    return sorted({one.name for one in found if one.role == role and one.api_version == API_VERSION})


def find(role: Role, name: str, among: Iterable[Found] | None = None) -> Found:
    """The one installed plugin of that name; PluginError if there is none, two, or only one for another API."""
    of_role = [one for one in (discover() if among is None else among) if one.role == role]
    same = [one for one in of_role if one.name == name]
    current = [one for one in same if one.api_version == API_VERSION]
    if len(current) > 1:
        both = " and ".join(f"{one.distribution} {one.version}" for one in current)
        raise PluginError(f"{role} {name!r} is claimed by {both}; uninstall one of them")
    if current:
        return current[0]
    if same:
        raise PluginError(
            f"{role} {name!r} ({same[0].distribution} {same[0].version}) is for plugin API v{same[0].api_version};"
            f" this llmperf speaks v{API_VERSION}"
        )
    if (package := published_package(role, name)) is not None:
        raise PluginError(f"{role} {name!r} is not installed; install it with: uv pip install {package}")
    known = {one.name for one in of_role} | {published for kind, published in PUBLISHED if kind == role}
    raise PluginError(str(unknown("", role, name, known)))


PUBLISHED = {
    ("vendor", "cpu"): "llmperf-cpu",
    ("vendor", "nvidia"): "llmperf-nvidia",
    ("vendor", "kunlunxin"): "llmperf-kunlunxin",
    ("vendor", "rocm"): "llmperf-rocm",
    ("vendor", "ascend"): "llmperf-ascend",
    ("framework", "pytorch"): "llmperf-pytorch",
    ("framework", "zero"): "llmperf-zero",
    ("framework", "megatron_deepspeed"): "llmperf-megatron-deepspeed",
    ("framework", "lora"): "llmperf-lora",
    ("framework", "paddle"): "llmperf-paddle",
}
"""The project's own plugins, so that a missing one can be named."""


def published_package(role: str, name: str) -> str | None:
    """The distribution of the project that carries a plugin, installed or not."""
    return PUBLISHED.get((role, name))


def load(found: Found) -> ModuleType:
    """Import a plugin's module; PluginError with the cause if that fails."""
    try:
        with _printing_aside():
            return import_module(found.module)
    except (Exception, SystemExit) as error:  # one that calls sys.exit() must not end us without a word
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise PluginError(f"{found.role} {found.name!r} ({found.distribution}) cannot be imported: {cause}") from error


def _printing_aside() -> redirect_stdout[IO[str]]:
    """What a plugin prints in here goes to standard error, so that standard output holds our document alone."""
    return redirect_stdout(sys.stderr or StringIO())


@contextmanager
def blaming(found: Found, hook: str) -> Iterator[None]:
    """PluginError in one line for whatever a plugin's hook raises in here; what the core's raises stays as it is.

    What it prints goes to standard error.
    """
    try:
        with _printing_aside():
            yield
    except LlmperfError:
        raise
    except (Exception, SystemExit) as error:
        if found.role == "core":
            raise
        raise PluginError(f"{who(found)}: {hook} raised {_told(error)}") from error


def who(found: Found) -> str:
    """A plugin as errors name it: `vendor 'acme' (llmperf-acme)`."""
    return f"{found.role} {found.name!r} ({found.distribution})"


def _told(error: BaseException) -> str:
    """What a plugin raised, in one line: `ValueError: no such thing (their_module.py, line 7)`."""
    place = extract_tb(error.__traceback__)[-1]
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{said} ({Path(place.filename).name}, line {place.lineno})"


def blamed_items(found: Found, hook: str, given: Iterable[Any]) -> Iterator[Any]:
    """What a hook's answer holds, one by one; PluginError if it holds nothing, or raises half way."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise PluginError(f"{who(found)}: expected a list of {hook}, found {type(given).__name__}")
    items = iter(given)
    while True:
        with blaming(found, hook):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def of_kind(found: Found, hook: str, given: Any, kind: type[T]) -> T:
    """What a hook gave, if it is of a kind all the way down; PluginError if not."""
    from llmperf.documents import reshaped

    if not isinstance(given, kind):
        raise PluginError(f"{who(found)}: expected a {kind.__name__} of {hook}, found {type(given).__name__}")
    try:
        return reshaped(given, kind, hook)
    except UserError as error:
        raise PluginError(f"{who(found)}: {error}") from None


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
            raise PluginError(f"{found.role} {found.name!r} is for plugin API v{found.api_version}, not v{API_VERSION}")
        self._check_spelling(plugin, found)
        key = f"{found.role}:{found.name}"
        try:
            self._manager.register(plugin, name=key)
            self._manager.check_pending()
        except (ValueError, pluggy.PluginValidationError) as error:
            raise PluginError(f"{found.role} {found.name!r} ({found.distribution}): {error}") from None
        self._found[key] = found
        self._check_owners(found, key)

    def _check_spelling(self, plugin: object, found: Found) -> None:
        for name in dir(plugin):
            if name.startswith("llmperf_") and name not in OWNERS and callable(getattr(plugin, name)):
                where = f"{found.role} {found.name!r} ({found.distribution})"
                raise PluginError(str(unknown(where, "hook", name, OWNERS)))

    def _check_owners(self, found: Found, key: str) -> None:
        for hook, roles in OWNERS.items():
            answering = [impl.plugin_name for impl in getattr(self._manager.hook, hook).get_hookimpls()]
            if key in answering and found.role not in roles:
                raise PluginError(
                    f"{found.role} {found.name!r} ({found.distribution}) answers {hook}, which only"
                    f" {' or '.join(roles)} may answer"
                )
            rivals = sorted(name for name in answering if not name.startswith("core:"))  # the core answers last
            if not hookspecs.collecting(hook) and len(rivals) > 1:
                raise PluginError(f"{hook} is answered by {' and '.join(rivals)}; one of them at most may")

    def ask(self, hook: str, **arguments: Any) -> Any:
        """The one answer to a hook that one subject owns; PluginError if no loaded plugin implements it."""
        caller = getattr(self._manager.hook, hook)
        implementations = caller.get_hookimpls()
        if not implementations:
            loaded = ", ".join(sorted(self._found)) or "none"
            raise PluginError(f"no loaded plugin answers {hook}; loaded: {loaded}")
        return caller(**arguments)

    def answer(self, hook: str, kind: type[T], **arguments: Any) -> T:
        """As `ask`, for the controller; PluginError that names the plugin if it raises or gives something else."""
        return of_kind(self.owner(hook), hook, self._asked(hook, arguments), kind)

    def answer_or_none(self, hook: str, kind: type[T], **arguments: Any) -> T | None:
        """As `answer`, of a hook that may answer None."""
        given = self._asked(hook, arguments)
        return None if given is None else of_kind(self.owner(hook), hook, given, kind)

    def _asked(self, hook: str, arguments: dict[str, Any]) -> Any:
        with blaming(self.owner(hook), hook):
            return self.ask(hook, **arguments)

    def owner(self, hook: str) -> Found:
        """Who answers a hook that one subject owns: the plugin that does, or else the core."""
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


def load_for(vendor: str | None, framework: str | None) -> Plugins:
    """The plugins of one run: the chosen vendor and framework, and every extension.

    An extension that cannot be imported is left out and told (`Plugins.left_out`); one that breaks a rule of the
    hooks, or stands against another, is a PluginError as everywhere.
    """
    found, chosen = discover(), []
    if vendor is not None:
        chosen.append(find("vendor", vendor, found))
    if framework is not None:
        chosen.append(find("framework", framework, found))
    plugins = Plugins(chosen)
    for extension in [find("extension", name, found) for name in names("extension", found)]:
        try:
            module = load(extension)
        except PluginError as error:
            plugins.left_out.append(str(error))
        else:
            plugins.register(module, extension)
    return plugins
