"""Content of a site: every run once, with its address and its search keys."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from llmperf import catalogued_names, encode_pretty
from llmperf.reporting import sheet_values
from llmperf.types import Result, Sheet
from llmperf_compare.prices import one_model
from llmperf_compare.ranking import Standing, standings

from llmperf_html.bars import arranged, differing_parts

Value = str | int | float | bool | None
MOST_SLUG = 48
"""Characters of a name in an address, before its hash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRun:
    """One run, or one imported row."""

    sheet: Sheet
    values: Mapping[str, Value]
    """Its exact values by key."""
    address: str
    """Address of its page, from the top of the site: `runs/NAME-HASH.html`."""

    def text(self, key: str) -> str | None:
        """A value by its key, such as `device_model` or `created` (ISO 8601, UTC); None where it is not a text."""
        value = self.values.get(key)
        return value if isinstance(value, str) and value else None


class Content:
    """All runs of a site."""

    def __init__(self, sheets: Sequence[Sheet], priced: Sequence[Sheet]) -> None:
        """`priced` are the same sheets with their cost, or the sheets themselves."""
        documents: dict[int, bytes] = {}
        self._runs: dict[int, SiteRun] = {}
        addresses: set[str] = set()
        for sheet, shown in zip(sheets, priced, strict=True):
            source = sheet.source
            if id(source) not in documents:
                lasting: object = source.document
                if isinstance(lasting, Result):  # its files and times are stable
                    times = [lasting.run_id, lasting.created, lasting.finished]
                    lasting = [*times, dict(sorted(lasting.files.items()))]
                documents[id(source)] = hashlib.sha256(encode_pretty(lasting)).digest()
            identity = documents[id(source)] + sheet.name.encode()
            while (address := f"runs/{slug(sheet.name, identity)}.html") in addresses:  # of another run's identity
                identity += b"~"
            addresses.add(address)
            self._runs[id(shown)] = SiteRun(sheet=shown, values=sheet_values(shown), address=address)
        self._name_devices()
        self.standings: list[Standing] = arranged(standings(list(priced)))

    def _name_devices(self) -> None:
        """Gives a device with several names one: the catalogue's, else that of the first run or row with it."""
        names: dict[str, str] = {}
        aliases = catalogued_names()
        for place, run in sorted(self._runs.items(), key=lambda item: not item[1].sheet.measured):
            if (device := run.text("device_model")) is None:
                continue
            if device not in names:
                seen = [*(entry[0] for entry in aliases), *names.values()]
                names[device] = next((name for name in seen if one_model(name, device, aliases)), device)
            if (name := names[device]) != device:
                self._runs[place] = replace(run, values={**run.values, "device_model": name})

    @property
    def runs(self) -> list[SiteRun]:
        """All runs."""
        return list(self._runs.values())

    def run_of(self, sheet: Sheet) -> SiteRun:
        """The run of a sheet of the standings."""
        return self._runs[id(sheet)]

    @cached_property
    def by_model(self) -> dict[str, list[Standing]]:
        """Standings by model, in their order."""
        named: dict[str, list[Standing]] = {}
        for standing in self.standings:
            named.setdefault(standing.model, []).append(standing)
        return named

    @cached_property
    def differing(self) -> dict[str, list[str]]:
        """For each model the paths in which its contracts differ."""
        return differing_parts(self.standings)

    def by(self, key: str) -> dict[str, list[SiteRun]]:
        """Runs by the text of a value, sorted by it; those without one are left out."""
        named: dict[str, list[SiteRun]] = {}
        for run in self.runs:
            if (name := run.text(key)) is not None:
                named.setdefault(name, []).append(run)
        return dict(sorted(named.items()))

    def by_day(self) -> list[tuple[str | None, list[SiteRun]]]:
        """Runs by the day they were made, the newest first; imported rows, which have no date, last."""
        days: dict[str, list[SiteRun]] = {}
        dated = sorted(((run.text("created") or "", run.address, run) for run in self.runs), reverse=True)
        for created, _, run in dated:
            days.setdefault(created[:10], []).append(run)
        return [(day or None, runs) for day, runs in sorted(days.items(), reverse=True)]


def slug(name: str, identity: bytes | None = None) -> str:
    """A name for an address: letters, digits and hyphens, and a hash that tells names apart which look alike."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower())[:MOST_SLUG].strip("-")
    digest = hashlib.sha256(identity if identity is not None else name.encode("utf-8", "backslashreplace"))
    return f"{words or 'x'}-{digest.hexdigest()[:10]}"
