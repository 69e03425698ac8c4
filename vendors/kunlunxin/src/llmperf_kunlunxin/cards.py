"""The vendor's tool: what it says of itself, and the lines it prints for machines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from llmperf import tool_output

NAMES = ("xpu_smi", "xpu-smi")
"""Older and newer drivers' name of it. Intel has an `xpu-smi` too, which shows no driver version in these places."""
SECONDS = 10.0
DRIVER = re.compile(r"Driver Version\s*:\s*(?P<version>(?P<major>\d{1,4})(\.\w+){0,5})")
STAND_IN = "llmperf stand-in"
"""What a tool that only plays a machine prints beside its driver version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What the tool's table for people tells."""

    name: str
    """Of the command."""
    driver: str
    """Version."""
    major: int
    """The first number of it, by which a layout is chosen."""
    models: Mapping[int, str]
    """By device number, where the table has a column for it."""
    stand_in: bool
    """Whether it says that it only plays a machine."""


def about() -> About:
    """The installed tool; OSError, one line, where there is none that answers or tells its driver."""
    missing = None
    for name in NAMES:
        try:
            return _about(name, tool_output([name], seconds=SECONDS))
        except OSError as error:
            missing = missing or error
            if "is not installed" not in str(error):
                raise
    raise OSError(f"{missing}; it comes with Kunlunxin's driver (XRE), and must be on PATH")


def _about(name: str, text: str) -> About:
    found = DRIVER.search(text) or DRIVER.search(_queried(name))
    if found is None:
        raise OSError(f"{name} shows no driver version; is it Kunlunxin's? Intel's xpu-smi has the same name")
    return About(
        name=name,
        driver=found["version"],
        major=int(found["major"]),
        models=_models(text),
        stand_in=STAND_IN in text,
    )


def _queried(name: str) -> str:
    """Where newer drivers tell their version, should their table not; nothing from a tool that does not know it."""
    try:
        return tool_output([name, "-q"], seconds=SECONDS)
    except OSError:
        return ""


def machine_lines(name: str) -> list[str]:
    """What the tool prints for machines, one line for each card; OSError where it gives no answer."""
    return [line for line in tool_output([name, "-m"], seconds=SECONDS).splitlines() if line.strip()]


def _models(text: str) -> dict[int, str]:
    """The Model column of the table whose head names DevID and Model."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if "|" in line]
    heads = [place for place, row in enumerate(rows) if "DevID" in row and "Model" in row]
    if not heads:
        return {}
    head = rows[heads[0]]
    index, model = head.index("DevID"), head.index("Model")
    cards = [row for row in rows[heads[0] + 1 :] if len(row) == len(head)]
    return {int(row[index]): row[model] for row in cards if row[index].isdecimal() and row[model]}
