"""Answers of installed plugins: facts, joined with those of any device and library, and catalogues of devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from llmperf.errors import LlmperfError, PluginError
from llmperf.hookspecs import Role, hookimpl
from llmperf.plugins.discovery import Found, discover, find
from llmperf.plugins.faults import blamed_items, blaming, of_kind, who
from llmperf.plugins.loading import Plugins, plugins_for
from llmperf.types.devices import Facts, HostCheck, Probe

HOOK = "llmperf_facts"
T = TypeVar("T")


def plugins_answering(hook: str, role: Role) -> tuple[str, ...]:
    """The names of a role's installed plugins that answer a hook; those that cannot be loaded are skipped."""
    return plugins_for((role, found.name) for found in discover() if found.role == role).answering(hook, role)


def owned_answers(hook: str, role: Role, faults: list[str], **arguments: Any) -> Iterator[tuple[str, Any]]:
    """Each answer of a role's plugins to a collecting hook, with its plugin; faults are added to `faults`."""
    for found in (one for one in discover() if one.role == role):
        try:
            answers = Plugins([found]).collect_sound(hook, faults, **arguments)
            yield from ((who(found), item) for key, item in answers if not key.startswith("core:"))
        except LlmperfError as error:
            faults.append(str(error))


def every_answer(hook: str, role: Role) -> Iterator[Any]:
    """Each answer of a role's plugins to a collecting hook; plugins that fail are skipped."""
    return (item for _, item in owned_answers(hook, role, []))


def framework_answer(framework: str, hook: str, kind: type[T], **arguments: Any) -> T | None:
    """The answer of one framework's plugin to a hook, checked to be of a kind; None if it gives none."""
    return Plugins([find("framework", framework)]).optional(hook, kind, **arguments)


def joined_facts(plugins: Plugins) -> Facts:
    """The facts of the core and every loaded plugin, without duplicates; PluginError for others than Facts."""
    answers = []
    for owner, facts in plugins.collect(HOOK):
        _check(facts, f"{plugins.who(owner)}: {HOOK}")
        answers.append(facts)
    aliases: dict[str, tuple[str, ...]] = {}
    for facts in answers:
        for name, patterns in facts.device_aliases.items():
            aliases[name] = _distinct([aliases.get(name, ()), patterns])
    return Facts(
        environment_names=_distinct(facts.environment_names for facts in answers),
        environment_prefixes=_distinct(facts.environment_prefixes for facts in answers),
        waiting_frames=_distinct(facts.waiting_frames for facts in answers),
        packages=_distinct(facts.packages for facts in answers),
        device_aliases=aliases,
        host_checks=tuple(check for facts in answers for check in facts.host_checks),
        framework_options={name: values for facts in answers for name, values in facts.framework_options.items()},
    )


def device_aliases() -> dict[str, tuple[str, ...]]:
    """Vendor to the names of it and its devices in documents: regular expressions, from vendors that can be asked."""
    aliases: dict[str, tuple[str, ...]] = {}
    for found in discover():
        if found.role == "vendor":
            with suppress(PluginError):
                facts = joined_facts(Plugins([found]))
                aliases[found.name] = _distinct(facts.device_aliases.values())
    return aliases


def required_problem(found: Found) -> str | None:
    """One line if a required check of a plugin fails in this environment; PluginError if it raises."""
    for check in joined_facts(Plugins([find(found.role, found.name)])).host_checks:
        if check.required:
            with blaming(found, f"host check {check.subject!r}"):
                problem = check.problem()
            if problem:
                return f"{who(found)}: {problem}"
    return None


def _distinct(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for group in groups for text in group))


def _check(facts: object, where: str) -> None:
    """PluginError for anything but Facts, and for an empty text, which would match every name."""
    if not isinstance(facts, Facts):
        raise PluginError(f"{where}: expected Facts, found {type(facts).__name__}")
    texts = {
        "environment_names": facts.environment_names,
        "environment_prefixes": facts.environment_prefixes,
        "waiting_frames": facts.waiting_frames,
        "packages": facts.packages,
    }
    if not isinstance(facts.device_aliases, Mapping):
        raise PluginError(f"{where}: device_aliases: expected a mapping of names to texts")
    texts |= {f"device_aliases.{name}": patterns for name, patterns in facts.device_aliases.items()}
    options = facts.framework_options
    if not isinstance(options, Mapping) or not all(
        isinstance(name, str) and isinstance(values, tuple) for name, values in options.items()
    ):
        raise PluginError(f"{where}: framework_options: expected a mapping of names to tuples of values")
    for name, values in texts.items():
        if not isinstance(values, tuple) or not all(isinstance(value, str) and value for value in values):
            raise PluginError(f"{where}: {name}: expected a tuple of texts that are not empty, found {values!r:.80}")
    for check in facts.host_checks:
        if not isinstance(check, HostCheck) or not callable(check.problem):
            raise PluginError(f"{where}: host_checks: expected HostCheck, found {type(check).__name__}")


def catalogue(found: Found, plugins: Plugins) -> list[Probe]:
    """The device models in a vendor plugin's catalogue; PluginError if it raises or an entry has no device."""
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
    """The problems that a loaded vendor plugin reports for its own catalogue, or the reason why the hook fails."""
    try:
        entries = catalogue(found, plugins)
    except PluginError as error:
        return [str(error)]
    return list(dict.fromkeys(line for entry in entries for line in entry.problems))


@hookimpl
def llmperf_facts() -> Facts:
    """Variables of threads, allocators, transports and loaders that any run has, and calls that wait anywhere."""
    return Facts(
        environment_names=(
            "MKL_NUM_THREADS",
            *("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"),
            *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE"),
        ),
        environment_prefixes=("GOMP_", "KMP_", "MALLOC_", "OMP_", "UCX_"),
        waiting_frames=(" in synchronize", " in barrier", " in wait"),
        packages=("numpy",),
    )
