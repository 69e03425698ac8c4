"""The table that `npu-smi info` prints: two rows for each NPU, the columns named by its head."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llmperf import tool_output

SECONDS = 20.0
VERSION = re.compile(r"npu-smi\s+\S+\s+Version:\s*(?P<version>[\w.]{1,40})")
NUMBER = r"(\d{1,9}(?:\.\d{1,9})?|-|NA|N/A)"
PAIR = r"(\d{1,9})\s*/\s*(\d{1,9})"
NAMED = re.compile(r"(\d{1,4})\s+(\S{1,40})")
STATE = re.compile(rf"{NUMBER}\s+{NUMBER}(?:\s+{PAIR})?")
USE = re.compile(rf"{NUMBER}\s+{PAIR}(?:\s+{PAIR})?")
HEAD, PROCESSES = "Health", "Process id"
LIKELY_CELSIUS = 120
LIKELY_WATTS = 2000
SHOWN = 160
MOST_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Npu:
    """One chip as the table shows it now; None is what is not shown."""

    index: int
    """Its place in the table, which is how the runtime counts."""
    number: str
    """NPU id of the table."""
    name: str
    """Such as `910B3`."""
    health: str
    """`OK`, or what the driver says else."""
    bus: str
    """PCI address."""
    memory_used_mb: int
    """Of HBM where there is any, in MiB whatever the table calls it."""
    memory_total_mb: int
    """The same."""
    utilisation_percent: float | None
    """Of the AI cores."""
    power_watts: float | None
    """Of the NPU."""
    temperature_celsius: float | None
    """Of the chip."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the table tells."""

    driver: str | None
    """Version."""
    npus: tuple[Npu, ...]
    """Those whose rows can be believed."""
    problems: tuple[str, ...]
    """One line for each whose rows cannot, with the rows."""


class Unlikely(ValueError):
    """Rows that are not what they should be, and why."""


def read_table() -> Seen:
    """The NPUs of this node; OSError, one line, where `npu-smi` gives no answer or prints no such table."""
    text = tool_output(["npu-smi", "info"], seconds=SECONDS)
    version = VERSION.search(text)
    rows = list(_rows(text))
    if not rows:
        raise OSError(f"npu-smi: expected a table of NPUs, found {text.strip()[:SHOWN]!r}")
    npus, problems = [], []
    for index, (above, below) in enumerate(zip(rows[::2], [*rows[1::2], []], strict=False)):
        try:
            npus.append(_npu(index, above, below))
        except Unlikely as error:
            shown = " / ".join(" | ".join(row) for row in (above, below))
            problems.append(f"rows of `npu-smi info` that do not fit: {error} in {shown[:SHOWN]!r}")
    left = len(problems) - MOST_SHOWN
    more = [f"and {left} more rows that do not fit"] if left > 0 else []
    return Seen(version["version"] if version else None, tuple(npus), (*problems[:MOST_SHOWN], *more))


def _rows(text: str) -> Iterator[list[str]]:
    """The cells below the head of the first table."""
    inside = False
    for line in text.splitlines():
        if PROCESSES in line:
            return
        if line.strip().startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if inside and not cells[0].startswith("Chip"):
                yield cells
            inside = inside or (HEAD in line and "NPU" in line)


def _npu(index: int, above: Sequence[str], below: Sequence[str]) -> Npu:
    if len(above) != 3 or len(below) != 3:
        raise Unlikely(f"{len(above)} and {len(below)} cells where 3 and 3 are expected")
    named, state, use = NAMED.fullmatch(above[0]), STATE.fullmatch(above[2]), USE.fullmatch(below[2])
    if named is None or state is None or use is None:
        raise Unlikely("no NPU, name, power, temperature, use and memory")
    used, total = _memory(use)
    return Npu(
        index=index,
        number=named[1],
        name=named[2],
        health=above[1][:40],
        bus=below[1][:40],
        memory_used_mb=used,
        memory_total_mb=total,
        utilisation_percent=_number(use[1], 100, "AICore(%)"),
        power_watts=_number(state[1], LIKELY_WATTS, "Power(W)"),
        temperature_celsius=_number(state[2], LIKELY_CELSIUS, "Temp(C)"),
    )


def _memory(use: re.Match[str]) -> tuple[int, int]:
    """HBM where the table has it, else the memory beside it."""
    pair = (use[4], use[5]) if use[5] not in (None, "0") else (use[2], use[3])
    used, total = int(pair[0]), int(pair[1])
    if total == 0 or used > total:
        raise Unlikely(f"{used} MB in use of {total}")
    return used, total


def _number(text: str, most: float, name: str) -> float | None:
    if text in ("-", "NA", "N/A"):
        return None
    value = float(text)
    if value > most:
        raise Unlikely(f"{name} is {text}, expected at most {most:g}")
    return value
