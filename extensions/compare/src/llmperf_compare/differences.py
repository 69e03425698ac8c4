"""Differences between the runs of two sides: settings, environment, versions, kernels, machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from llmperf.reporting import printable, result_sheet, sentence
from llmperf.types import Result

from llmperf_compare.page import MAX_LINE, Line

MOST_PACKAGES = 3
"""Packages that are named, the framework's first; of others only the number."""
MAX_VALUE = 60
"""Characters of a value in a line."""

PLACES = re.compile(r".*_(DIR|CACHE_PATH|LOG_PATH|DEBUG_FILE)")


def is_place(name: str, value: object) -> bool:
    """A variable says where caches or logs are kept, which makes no run faster: it is recorded, but no difference."""
    return PLACES.fullmatch(name) is not None and str(value).startswith(("/", "~"))


def difference_lines(sides: Mapping[str, Sequence[Result]], language: str = "en") -> Iterator[Line]:
    """For each side but the first one line with all in which its runs differ from those of the first."""
    reference = next(iter(sides))
    first = [_known(result) for result in sides[reference]]
    for name, results in sides.items():
        if name == reference or not results or not first:
            continue
        found = list(_differing(first, [_known(result) for result in results]))
        text = "{name} differs from {reference} in: {parts}" if found else "{name} and {reference} differ in no setting"
        yield Line(
            text=printable(sentence(text, language, name=name, reference=reference, parts="; ".join(found)), MAX_LINE)
        )


def _known(result: Result) -> dict[str, dict[str, str]]:
    """What explains a figure, by kind and name; what is left out has its default."""
    software, hardware = result.software, result.hardware
    notable = {name: software.packages[name] for name in software.notable_packages if name in software.packages}
    return {
        "": dict(result_sheet(result).setting),
        "variable": {name: value for name, value in software.environment.items() if not is_place(name, value)},
        "notable": notable | {"python": software.python, "driver": str(hardware.driver), "kernel": software.kernel},
        "host": {"processor": str(hardware.host_cpu), "system": software.os},
        "kernels": {f"kernel of {name}": kernel for name, kernel in result.kernels.items()},
        "packages": {name: version for name, version in software.packages.items() if name not in notable},
    }


def _differing(
    theirs: Sequence[Mapping[str, Mapping[str, str]]], ours: Sequence[Mapping[str, Mapping[str, str]]]
) -> Iterator[str]:
    """`micro_batch 2 -> 4`; several values of one side are joined by `/`."""
    for kind in ours[0]:
        names = dict.fromkeys(name for known in (*theirs, *ours) for name in known[kind])
        differing = []
        for name in names:
            values = [list(dict.fromkeys(known[kind].get(name, "unset") for known in side)) for side in (theirs, ours)]
            if set(values[0]) != set(values[1]):
                texts = ["/".join(value[:MAX_VALUE] for value in side) for side in values]
                differing.append(f"{name} {texts[0]} -> {texts[1]}")
        if kind == "packages":
            yield from islice(differing, MOST_PACKAGES)
            if len(differing) > MOST_PACKAGES:
                yield f"{len(differing) - MOST_PACKAGES} more packages"
        else:
            yield from differing
