"""Checks of a distribution's entry points, and of the import cost of its modules."""

from __future__ import annotations

import re
from importlib import metadata

from llmperf.plugins.requirements import unmet_requirements

from llmperf_testing.check import ContractError, Skip, require
from llmperf_testing.subject import Subject

NAME = re.compile(r"[a-z][a-z0-9_]*")
EXTENSION_NAME = re.compile(r"[a-z][a-z0-9_-]*")
MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")

IMPORT_SECONDS = 0.5
IMPORT_TIMES = 15
"""An import may take this much CPU time, or so many times what an interpreter takes that does nothing."""


def found_by_metadata(subject: Subject) -> None:
    """Its entry point names a plain module, and looking for plugins does not import it."""
    found = subject.found
    dashes = found.role == "extension"
    letters = (
        f"lower-case letters, digits{', underscores and dashes' if dashes else ' and underscores'}, a letter first"
    )
    require((EXTENSION_NAME if dashes else NAME).fullmatch(found.name), f"name {found.name!r}: expected {letters}")
    require(MODULE.fullmatch(found.module), f"entry point {found.module!r}: expected a module, as package.plugin")
    require(not subject.fresh.imported_by_discovery, f"discovery imported {found.module.split('.')[0]}")


def neither_hangs_nor_exits(subject: Subject) -> None:
    """Found, imported and first asked in a fresh process, it comes to an end and leaves the process alive."""
    assert subject.try_fresh()


def distribution_needs_llmperf(subject: Subject) -> None:
    """Its distribution has a version and says that it needs llmperf-core."""
    distribution = metadata.distribution(subject.found.distribution)
    require(distribution.version, f"{subject.found.distribution} has no version")
    needs = [re.split(r"[^A-Za-z0-9._-]", one.strip(), maxsplit=1)[0] for one in distribution.requires or ()]
    plain = {re.sub(r"[-_.]+", "-", one).lower() for one in needs}
    listed = ", ".join(needs) or "nothing"
    require("llmperf-core" in plain, f"{subject.found.distribution} requires {listed}; expected llmperf-core among it")


def requirements_are_met(subject: Subject) -> None:
    """Everything that its distribution requires is installed here, in a version that fits."""
    unmet = unmet_requirements(subject.found.distribution)
    require(not unmet, f"{subject.found.distribution} needs {', '.join(map(str, unmet))}")


def can_be_imported(subject: Subject) -> None:
    """Importing its module raises nothing."""
    try:
        assert subject.module
    except Skip:
        raise
    except Exception as error:
        raise ContractError(f"importing {subject.found.module} raised {type(error).__name__}: {error}") from error


def imports_nothing_heavy(subject: Subject) -> None:
    """Importing its module brings in no tensor library: `llmperf plugins` imports it."""
    subject.rests_on(can_be_imported)
    heavy = subject.fresh.heavy_imports
    require(not heavy, f"importing {subject.found.module} brings in {', '.join(heavy)}; import them in the hooks")


def quick_to_import(subject: Subject) -> None:
    """Importing its module takes little CPU time."""
    subject.rests_on(can_be_imported, imports_nothing_heavy)
    fresh = subject.fresh
    limit = max(IMPORT_SECONDS, IMPORT_TIMES * fresh.bare_cpu_seconds)
    took = fresh.import_cpu_seconds
    require(took is not None, f"importing {subject.found.module} failed in a fresh interpreter")
    assert took is not None
    require(took < limit, f"importing {subject.found.module} takes {took:.2f} s of CPU; expected less than {limit:.2f}")


ANNOUNCED = (
    neither_hangs_nor_exits,
    found_by_metadata,
    distribution_needs_llmperf,
    requirements_are_met,
    can_be_imported,
    imports_nothing_heavy,
    quick_to_import,
)
