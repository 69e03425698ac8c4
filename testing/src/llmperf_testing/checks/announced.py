"""Checks of every plugin: its entry point, the cost of its import, the hooks that it answers and its overlays."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from llmperf import hookspecs
from llmperf.cases.library import library, whole_library
from llmperf.cases.overlays import check_readable
from llmperf.errors import unknown
from llmperf.hookspecs import OWNERS, PROJECT
from llmperf.plugins.discovery import names
from llmperf.plugins.loading import Plugins
from llmperf.plugins.own_packages import published
from llmperf.plugins.requirements import unmet_requirements

from llmperf_testing.check import ContractError, Skip, check, require
from llmperf_testing.subject import Subject
from llmperf_testing.vendor import VendorSubject

NAME = re.compile(r"[a-z][a-z0-9_]*")
EXTENSION_NAME = re.compile(r"[a-z][a-z0-9_-]*")
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

IMPORT_SECONDS = 0.5
IMPORT_TIMES = 15
"""An import may take this much CPU time, or so many times what an interpreter takes that does nothing."""


@check()
def neither_hangs_nor_exits(subject: Subject) -> None:
    """Found, imported and first asked in a fresh process, it comes to an end and leaves the process alive."""
    assert subject.tried_fresh


@check()
def found_by_metadata(subject: Subject) -> None:
    """Its entry point names a plain module, and looking for plugins does not import it."""
    found = subject.found
    plain, signs = (
        (EXTENSION_NAME, ", underscores and dashes") if found.role == "extension" else (NAME, " and underscores")
    )
    letters = f"lower-case letters, digits{signs}, a letter first"
    require(plain.fullmatch(found.name), f"name {found.name!r}: expected {letters}")
    require(MODULE.fullmatch(found.module), f"entry point {found.module!r}: expected a module, as package.plugin")
    require(not subject.fresh.imported_by_discovery, f"discovery imported {found.module.split('.')[0]}")


@check()
def distribution_needs_llmperf(subject: Subject) -> None:
    """Its distribution has a version and says that it needs llmperf-core."""
    distribution = metadata.distribution(subject.found.distribution)
    require(distribution.version, f"{subject.found.distribution} has no version")
    needs = [re.split(r"[^A-Za-z0-9._-]", one.strip(), maxsplit=1)[0] for one in distribution.requires or ()]
    plain = {re.sub(r"[-_.]+", "-", one).lower() for one in needs}
    listed = ", ".join(needs) or "nothing"
    require("llmperf-core" in plain, f"{subject.found.distribution} requires {listed}; expected llmperf-core among it")


@check()
def requirements_are_met(subject: Subject) -> None:
    """Everything that its distribution requires is installed here, in a version that fits."""
    unmet = unmet_requirements(subject.found.distribution)
    require(not unmet, f"{subject.found.distribution} needs {', '.join(map(str, unmet))}")


@check()
def can_be_imported(subject: Subject) -> None:
    """Importing its module raises nothing."""
    try:
        assert subject.module
    except Skip:
        raise
    except Exception as error:
        raise ContractError(f"importing {subject.found.module} raised {type(error).__name__}: {error}") from error


@check(can_be_imported)
def imports_nothing_heavy(subject: Subject) -> None:
    """Importing its module brings in no tensor library: `llmperf plugins` imports it."""
    heavy = subject.fresh.heavy_imports
    require(not heavy, f"importing {subject.found.module} brings in {', '.join(heavy)}; import them in the hooks")


@check(can_be_imported, imports_nothing_heavy)
def quick_to_import(subject: Subject) -> None:
    """Importing its module takes little CPU time."""
    fresh = subject.fresh
    limit = max(IMPORT_SECONDS, IMPORT_TIMES * fresh.bare_cpu_seconds)
    took = fresh.import_cpu_seconds
    require(took is not None, f"importing {subject.found.module} failed in a fresh interpreter")
    assert took is not None
    require(took < limit, f"importing {subject.found.module} takes {took:.2f} s of CPU; expected less than {limit:.2f}")


MUST = {
    "vendor": (("llmperf_probe",), ("llmperf_setup_device",)),
    "framework": (("llmperf_plan_workers",), ("llmperf_build_trainer", "llmperf_parse_log")),
}
"""Hooks that a role has to answer: one of each group."""


def functions(subject: Subject) -> Iterator[tuple[str, Callable[..., Any], Mapping[str, Any] | None]]:
    """The module's functions whose names begin as hooks do, each with the options of its `@hookimpl`, None without."""
    for name, value in vars(subject.module).items():
        if name.startswith(f"{PROJECT}_") and inspect.isroutine(value):
            yield name, value, getattr(value, f"{PROJECT}_impl", None)


@check(can_be_imported)
def hooks_are_spelled_right(subject: Subject) -> None:
    """Each function whose name begins with `llmperf_` has the name of a hook, or is marked `optionalhook=True`."""
    for name, _, marked in functions(subject):
        known = name in OWNERS or (marked or {}).get("optionalhook")
        require(known, str(unknown(subject.found.module, "hook", name, OWNERS)))


@check(can_be_imported)
def hooks_are_marked(subject: Subject) -> None:
    """Each function with the name of a hook is marked with `@llmperf.hookimpl`; others are never called."""
    for name, _, marked in functions(subject):
        require(name not in OWNERS or marked is not None, f"{name} is not marked with @llmperf.hookimpl")


@check(can_be_imported)
def hooks_take_their_arguments(subject: Subject) -> None:
    """Each hook takes arguments of its specification, by name and without defaults."""
    for name, function, marked in functions(subject):
        if name not in OWNERS or marked is None:
            continue
        specified = list(inspect.signature(getattr(hookspecs, name)).parameters)
        for parameter in inspect.signature(function).parameters.values():
            where = f"{name}({', '.join(specified)}): {parameter}"
            require(parameter.name in specified, f"{where}: no such argument")
            require(parameter.kind is parameter.POSITIONAL_OR_KEYWORD, f"{where}: expected a plain argument")
            require(parameter.default is parameter.empty, f"{where}: arguments with a default are never given")


@check(can_be_imported)
def answers_for_its_role_only(subject: Subject) -> None:
    """It answers hooks of its own role and nobody's FLOP count."""
    for name, _, marked in functions(subject):
        owners = OWNERS.get(name, (subject.role,))
        require(
            subject.role in owners or marked is None,
            f"a {subject.role} may not answer {name}; {' or '.join(owners)} may",
        )


@check(hooks_are_spelled_right, hooks_are_marked)
def answers_what_its_role_must(subject: Subject) -> None:
    """It answers the hooks that a run cannot do without."""
    here = {name for name, *_ in functions(subject)}
    for group in MUST.get(subject.role, ()):
        require(here & set(group), f"a {subject.role} must answer {' or '.join(group)}")


@check(hooks_are_spelled_right, hooks_are_marked, hooks_take_their_arguments, answers_for_its_role_only)
def is_loaded(subject: Subject) -> None:
    """llmperf loads it beside its own answers."""
    Plugins([subject.found])


@check(is_loaded)
def resources_can_be_read(subject: Subject) -> None:
    """Every model, case and tuning overlay that it ships can be read."""
    for _, given in subject.plugins.collect_items("llmperf_resources"):
        require(Path(given).is_dir(), f"llmperf_resources names {given}, which is no folder")
    check_readable(subject.plugins)


@check(resources_can_be_read)
def overlays_name_what_there_is(subject: Subject) -> None:
    """Each case, model, framework and kind in the conditions of its overlays is one; so is each of its own devices."""
    shelf = whole_library()
    known: dict[str, Collection[Any]] = {
        "case": set(shelf.paths("cases")),
        "model": set(shelf.paths("models")),
        "framework": {*names("framework"), *(name for role, name in published() if role == "framework")},
        "kind": ("accelerator", "cpu"),
    }
    if isinstance(subject, VendorSubject):
        known["device"] = subject.known_models()
    for path, tables in library(subject.plugins).overlays():
        for condition, value in tables["when"].items():
            for one in value if isinstance(value, list) else [value]:
                if one not in (valid := known.get(condition, (one,))):
                    raise ContractError(str(unknown(f"{path.name}: when", condition, str(one), valid)))
