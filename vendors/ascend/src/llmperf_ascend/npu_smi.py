"""The table that `npu-smi info` prints: two lines for each chip, of three cells each.

As public recordings show it (versions 22 to 26):

    | NPU   Name      | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |
    | Chip  Phy-ID    | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)         |
    | 0     910B3     | OK            | 88.9        36                0    / 0              |
    | 0     0         | 0000:C1:00.0  | 0           0    / 0          3161 / 65536          |

Not all versions have Phy-ID, and not all chips HBM. A table of processes, of other widths, follows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from llmperf import tool_output

SECONDS = 30.0
"""It asks chip after chip, some seconds on a whole node."""
MAX_CHIPS = 256
VERSION = re.compile(r"npu-smi \S+\s+Version:\s*(?P<version>[\w.]{1,40})")
HEAD = re.compile(r"NPU\s+Name\b")
NPU = re.compile(r"(?P<npu>\d{1,4})\s+(?P<name>\S.{0,39})")
CHIP = re.compile(r"(?P<chip>\d{1,3})(\s+(?P<physical>\d{1,4}|-))?")
BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]|NA")
AMOUNT = r"\d{1,7}(?:\.\d{1,3})?"
SENSORS = re.compile(rf"(?P<power>{AMOUNT}|-|NA)\s+(?P<temperature>{AMOUNT}|-|NA)\b.*")
USE = re.compile(rf"(?P<cores>{AMOUNT}|-|NA)\s+(?P<pairs>\d{{1,7}}\s*/\s*\d{{1,7}}(?:\s+\d{{1,7}}\s*/\s*\d{{1,7}})?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One chip; None is what is not shown."""

    index: int
    """Its place in the list, which is how the runtime counts."""
    npu: str
    """Of the NPU it is part of, as the tool counts."""
    chip: str
    """Within its NPU."""
    model: str
    """As the tool names it."""
    health: str
    """`OK`, or what the tool says."""
    pci_bus: str
    """Address."""
    memory_used_mib: int
    """HBM; DDR of a chip without."""
    memory_total_mib: int
    """Of the chip."""
    utilisation_percent: float | None
    """Of the AI cores."""
    power_watts: float | None
    """Of the NPU; shown on its first chip."""
    temperature_celsius: float | None
    """Of the chip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A whole table."""

    driver: str | None
    """Version."""
    readings: tuple[Reading, ...]
    """Chips whose rows are believed."""
    problems: tuple[str, ...]
    """One line for each that is not, with its rows."""


def seen() -> Seen:
    """What the tool shows now; OSError, one line, where it gives no answer or prints no such table."""
    return read_table(tool_output(["npu-smi", "info"], seconds=SECONDS))


def read_table(printed: str) -> Seen:
    """What a printed table says; OSError if there is none."""
    rows = [row for row in map(_cells, printed.splitlines()) if len(row) == 3]
    heads = [place for place, row in enumerate(rows) if HEAD.fullmatch(row[0])]
    if not heads:
        raise OSError(f"npu-smi: expected its table of NPUs, found {printed[:80]!r}")
    body = rows[heads[0] + 2 :][: 2 * MAX_CHIPS]
    readings, problems = [], []
    for index, (upper, lower) in enumerate(zip(body[::2], body[1::2], strict=False)):
        found = _reading(index, upper, lower)
        if found is None:
            problems.append(f"NPU left out: its rows do not fit the table's head: {_shown(upper)} / {_shown(lower)}")
        else:
            readings.append(found)
    if len(body) % 2:
        problems.append(f"NPU left out: its second row is missing: {_shown(body[-1])}")
    version = VERSION.search(printed)
    return Seen(driver=version and version["version"], readings=tuple(readings), problems=tuple(problems))


def _cells(line: str) -> list[str]:
    line = line.strip()
    return [cell.strip() for cell in line[1:-1].split("|")] if line.startswith("|") and line.endswith("|") else []


def _shown(row: Sequence[str]) -> str:
    return repr(" | ".join(" ".join(cell.split()) for cell in row)[:120])


def _reading(index: int, upper: Sequence[str], lower: Sequence[str]) -> Reading | None:
    """A chip, where all cells fit and what they say can be."""
    npu, sensors = NPU.fullmatch(upper[0]), SENSORS.fullmatch(upper[2])
    chip, use = CHIP.fullmatch(lower[0]), USE.fullmatch(lower[2])
    if not (npu and sensors and chip and use and BUS.fullmatch(lower[1])):
        return None
    used, total = _memory(use["pairs"])
    if not 0 <= used <= total or not total:
        return None
    return Reading(
        index=index,
        npu=npu["npu"],
        chip=chip["chip"],
        model=npu["name"],
        health=upper[1],
        pci_bus=lower[1],
        memory_used_mib=used,
        memory_total_mib=total,
        utilisation_percent=_amount(use["cores"], most=100),
        power_watts=_amount(sensors["power"], most=5000),
        temperature_celsius=_amount(sensors["temperature"], most=150),
    )


def _memory(pairs: str) -> tuple[int, int]:
    """Used and total of the last kind of memory that there is: HBM stands after DDR."""
    numbers = [int(one) for one in re.findall(r"\d+", pairs)]
    found = [pair for pair in zip(numbers[::2], numbers[1::2], strict=True) if pair[1]]
    return found[-1] if found else (0, 0)


def _amount(text: str, most: float) -> float | None:
    return float(text) if text[0].isdigit() and float(text) <= most else None
