"""The promise to authors: a package written for an earlier edition of the contract finds what it was written for.

`public_surface/editions.json` has for each edition its hooks, its public names, and the fields of the types that
plugins construct, with a `?` after those that had a default. `python core/tests/plugins/test_promise.py` adds one when
a version is released; an edition is never changed.
"""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import llmperf
import pytest
from llmperf import hookspecs, types

EDITIONS = Path(__file__).parent / "public_surface" / "editions.json"
SURFACE = EDITIONS.with_name("surface.json")

CONSTRUCTED = {
    *("DeviceInfo", "DeviceSample", "Facts", "HostCheck", "Offers", "PeakFlops", "Probe"),
    *("CollectiveRate", "DeviceRates", "LinkRate", "MatmulRate"),
    *("DocumentKind", "FileFindings", "Fingerprint", "Rule", "Verdict"),
    *("Layout", "Needs", "Problem", "Script", "WorkerPlan"),
    *("FlopCount", "FlopsPerToken", "Node", "NodeCommand", "LoggedFacts", "LoggedFailure", "LoggedStep", "Logger"),
    *("ProfiledOperation", "ScreeningCheck", "StepOutput", "StepProfile"),
    *("HostWait", "StepTrace", "TracedCollective", "TracedMemory", "TracedOperation"),
    *("CommandOptions", "RunChoice"),
    *("Baseline", "Curve", "Curves", "Row", "Section", "Sheet", "Source"),
}
"""Dataclasses that plugins make. All others are made by the core alone."""


def edition_of(surface: dict[str, Any]) -> dict[str, Any]:
    """What of a recorded surface the promise is about."""
    return {
        **{group: sorted(surface[group]) for group in ("hooks", "names", "vendorkit") if group in surface},
        "types": {name: [*shape["fields"]] for name, shape in surface["types"].items() if name in CONSTRUCTED},
    }


def broken_by(edition: dict[str, Any], surface: dict[str, Any]) -> list[str]:
    """One line for each thing of an edition that is gone without a pointer or needs more than it did."""
    pointers = {"hooks": hookspecs.REMOVED, "names": llmperf._MOVED, "vendorkit": {}}
    broken = [
        f"{group}: {name} is gone, and no error says what replaces it"
        for group in pointers
        for name in edition.get(group, ())
        if name not in surface[group] and name not in pointers[group]
    ]
    for name, before in edition["types"].items():
        now = surface["types"].get(name, {"fields": []})["fields"]
        for field in (one.removesuffix("?") for one in before):
            if field not in {one.removesuffix("?") for one in now}:
                broken.append(f"types: {name} no longer takes {field}")
        for field in now:
            if not field.endswith("?") and field not in before:
                broken.append(f"types: {name} requires {field}; expected a default")
    return broken


EVERY = json.loads(EDITIONS.read_text()) if EDITIONS.exists() else {}


@pytest.mark.parametrize("edition", EVERY)
def test_packages_of_an_earlier_edition_find_what_they_were_written_for(edition: str) -> None:
    assert broken_by(EVERY[edition], json.loads(SURFACE.read_text())) == []


def test_a_lost_hook_a_lost_name_and_a_new_required_field_break_the_promise() -> None:
    surface = json.loads(SURFACE.read_text())
    edition = edition_of(surface)
    del surface["hooks"]["llmperf_probe"], surface["names"]["standard_layout"], surface["vendorkit"]["PeakTable"]
    surface["types"]["Problem"]["fields"].append("colour")
    surface["types"]["Needs"]["fields"].append("colour?")
    surface["types"]["Script"]["fields"].remove("command")
    assert [line.partition(";")[0].partition(", and")[0] for line in broken_by(edition, surface)] == [
        "hooks: llmperf_probe is gone",
        "names: standard_layout is gone",
        "vendorkit: PeakTable is gone",
        "types: Problem requires colour",
        "types: Script no longer takes command",
    ]


def test_what_plugins_construct_are_dataclasses_of_the_contract() -> None:
    assert all(is_dataclass(getattr(types, name)) for name in CONSTRUCTED)


if __name__ == "__main__":
    name, surface = llmperf.__version__, json.loads(SURFACE.read_text())
    EDITIONS.write_text(json.dumps({**EVERY, name: EVERY.get(name, edition_of(surface))}, indent=1) + "\n")
