"""The management tool, which prints one row for each device. Edit COMMAND and COLUMNS to be your tool's."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf import tool_output

COMMAND = ("acme-smi", "--format=csv,noheader")
SECONDS = 5.0
"""The tool may take so long; a reading is taken about once a second."""
COLUMNS = {
    "index": int,
    "model": str,
    "uuid": str,
    "driver": str,
    "memory_total_mib": int,
    "memory_used_mib": int,
    "percent": float,
    "watts": float,
    "celsius": float,
}
"""What the tool prints in a row, in its order."""


@dataclass(frozen=True)
class Row:
    """One device as the tool shows it."""

    index: int
    model: str
    uuid: str
    driver: str
    memory_total_mib: int
    memory_used_mib: int
    percent: float
    """Utilisation, 0 to 100."""
    watts: float
    celsius: float


def rows() -> list[Row]:
    """Every device; OSError, one line, where the tool is missing, fails or shows a row that does not fit."""
    printed = tool_output(COMMAND, seconds=SECONDS)
    return [_row(line) for line in printed.splitlines() if line.strip()]


def _row(line: str) -> Row:
    cells = [cell.strip() for cell in line.split(",")]
    try:
        row = Row(**{name: read(cell) for (name, read), cell in zip(COLUMNS.items(), cells, strict=True)})
    except ValueError:
        raise _misfit(line) from None
    used_of_total = 0 <= row.memory_used_mib <= row.memory_total_mib and row.memory_total_mib > 0
    if not (used_of_total and row.index >= 0 and row.model and 0 <= row.percent <= 100 and row.watts >= 0):
        raise _misfit(line)
    return row


def _misfit(line: str) -> OSError:
    """An error that shows the row: never a guess at what it means."""
    return OSError(f"{COMMAND[0]}: expected {', '.join(COLUMNS)}, found {line.strip()[:200]!r}")
