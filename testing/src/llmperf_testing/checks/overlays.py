"""The conditions of a plugin's tuning overlays: a condition with an unknown name would silently never match."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from llmperf.cases.library import library, whole_library
from llmperf.errors import LlmperfError, unknown
from llmperf.plugins.discovery import names
from llmperf.plugins.own_packages import published

from llmperf_testing.check import ContractError
from llmperf_testing.checks.hooks import resources_can_be_read
from llmperf_testing.subject import Subject
from llmperf_testing.vendor import VendorSubject


def overlays_name_what_there_is(subject: Subject) -> None:
    """Each case, model, framework and kind in the conditions of its overlays is one; so is each of its own devices."""
    subject.rests_on(resources_can_be_read)
    known = _known(subject)
    for path, tables in library(subject.plugins).overlays():
        for condition, value in tables["when"].items():
            for one in value if isinstance(value, list) else [value]:
                if condition in known and one not in known[condition]:
                    where = f"{path.name}: when"
                    raise ContractError(str(unknown(where, condition, str(one), known[condition])))


def _known(subject: Subject) -> Mapping[str, Collection[Any]]:
    """Valid values of each condition, as far as they are known here."""
    try:
        shelf = whole_library()
    except LlmperfError as error:
        raise ContractError(str(error)) from None
    frameworks = {*names("framework"), *(name for role, name in published() if role == "framework")}
    known: dict[str, Collection[Any]] = {
        "case": set(shelf.paths("cases")),
        "model": set(shelf.paths("models")),
        "framework": frameworks,
        "kind": ("accelerator", "cpu"),
    }
    return known | {"device": subject.known_models()} if isinstance(subject, VendorSubject) else known


OVERLAYS = (overlays_name_what_there_is,)
