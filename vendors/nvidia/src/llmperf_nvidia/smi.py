"""The `nvidia-smi` command, for machines where NVML cannot be loaded from Python."""

from __future__ import annotations

import re
from collections.abc import Sequence

from llmperf_vendorkit import tool_output

SECONDS = 20
NO_SUCH_FIELD = "not a valid field"
NOT_SHOWN = ("", "N/A", "ERR!", "Not Supported", "Unknown Error")
SHOWN_OF_A_ROW = 240
WHOLE = re.compile(r"[0-9]{1,9}")
NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
SHAPES = {
    "index": re.compile(r"0|[1-9][0-9]{0,3}"),
    "memory.total": WHOLE,
    "memory.used": WHOLE,
    "compute_cap": re.compile(r"[0-9]{1,3}\.[0-9]{1,3}"),
    "power.limit": NUMBER,
    "power.default_limit": NUMBER,
    "pcie.link.gen.max": WHOLE,
    "pcie.link.width.max": WHOLE,
}
"""Pattern of a field that is shown; other fields hold any text."""

Row = dict[str, str | None]


def query(fields: Sequence[str], newer: Sequence[str] = ()) -> list[Row]:
    """One row for each GPU, in NVML's order; None for unknown fields, and all of `newer` if one is unknown."""
    try:
        return _query([*fields, *newer])
    except OSError as error:
        if not newer or NO_SUCH_FIELD not in str(error):
            raise
        return [{**dict.fromkeys(newer), **row} for row in _query(fields)]


def _query(fields: Sequence[str]) -> list[Row]:
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    lines = [line for line in tool_output(command, seconds=SECONDS).splitlines() if line.strip()]
    if not lines:
        raise OSError("nvidia-smi: expected one row for each GPU, found an empty output")
    rows: dict[str, Row] = {}
    for line in lines:
        row = _row(fields, line)
        index = row["index"] or ""
        if index in rows:
            raise _misfit(line, f"index {index} again")
        rows[index] = row
    return list(rows.values())


def _row(fields: Sequence[str], line: str) -> Row:
    """One line's fields by name; OSError that shows the line if they do not fit."""
    texts = line.split(",")
    if len(texts) != len(fields):
        raise _misfit(line, f"expected {len(fields)} fields, found {len(texts)}")
    row = dict(zip(fields, map(_known, texts), strict=True))
    odd = [name for name, text in row.items() if text and name in SHAPES and not SHAPES[name].fullmatch(text)]
    if row["index"] is None or odd:
        raise _misfit(line, f"{odd[0] if odd else 'index'} cannot be so")
    return row


def _misfit(line: str, reason: str) -> OSError:
    return OSError(f"nvidia-smi: a row that does not fit: {reason}: {line.strip()[:SHOWN_OF_A_ROW]!r}")


def _known(text: str) -> str | None:
    text = text.strip()
    return None if text.startswith("[") or text in NOT_SHOWN else text


def number(text: str | None) -> float | None:
    """A field as a number; None if it is unknown or no number."""
    return None if text is None or not NUMBER.fullmatch(text) else float(text)


def mebibytes(text: str | None) -> int | None:
    """A field in MiB as bytes."""
    value = number(text)
    return None if value is None else int(value) * 2**20


def mask(text: str | None) -> int | None:
    """A field such as `0x0000000000000004`."""
    try:
        return None if text is None else int(text, 16)
    except ValueError:
        return None
