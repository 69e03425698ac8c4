"""The process that measures on a node: `python -m llmperf.screening.measure` answers lines of JSON.

The checks of plugins import their libraries here, so that the node program stays small and survives them.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator

from llmperf.errors import LlmperfError
from llmperf.files import json_files
from llmperf.plugins.discovery import discover
from llmperf.plugins.faults import blaming
from llmperf.plugins.loading import Plugins
from llmperf.screening.messages import CheckRequest, Figure
from llmperf.types.screening import ScreeningCheck

HOOK = "llmperf_screening"


def checks() -> list[ScreeningCheck]:
    """The checks of the core and of every installed framework, each name once; plugins that fail are skipped."""
    known: dict[tuple[str, str], ScreeningCheck] = {}
    frameworks = [found for found in discover() if found.role == "framework"]
    for chosen in ([], *([found] for found in frameworks)):
        try:
            plugins = Plugins(chosen)
            for owner, check in plugins.collect_items(HOOK):
                with blaming(plugins.found(owner), HOOK):
                    known.setdefault((check.scope, check.name), check)
        except LlmperfError:
            continue
    return list(known.values())


def figures(known: list[ScreeningCheck], request: CheckRequest) -> Iterator[Figure]:
    """The figures of all checks of one scope; a check that raises gives a figure with the reason."""
    for check in known:
        if check.scope != request.scope:
            continue
        for device in request.devices if check.scope == "device" else (None,):
            arguments = {"host": (), "device": (device,), "pair": (request.pair,)}[check.scope]
            value, problem, timed_out = None, None, False
            try:
                value = float(check.measure(*arguments))
                if not (math.isfinite(value) and value >= 0):
                    value, problem = None, f"measured {value}"
            except Exception as error:  # of a plugin's library
                timed_out = isinstance(error, TimeoutError)
                lines = str(error).strip().splitlines()
                problem = f"{type(error).__name__}: {lines[0][:300] if lines else ''}"
            yield Figure(
                check=check.name,
                unit=check.unit,
                device=device,
                value=value,
                problem=problem,
                timed_out=timed_out,
                tolerance=check.tolerance,
            )


def main() -> None:
    """Answer each line of standard input with one line."""
    output = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    known = checks()
    for line in sys.stdin.buffer:
        request = json_files.decode(line, CheckRequest, "request of the node program")
        os.write(output, json_files.encode(tuple(figures(known, request))) + b"\n")


if __name__ == "__main__":
    main()
