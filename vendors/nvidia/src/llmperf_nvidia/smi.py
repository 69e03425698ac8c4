"""Readings through the `nvidia-smi` command, for machines where NVML cannot be loaded from Python."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import llmperf

TIMEOUT_SECONDS = 20
NO_SUCH_FIELD = "not a valid field"

Row = dict[str, str | None]


def query(fields: Sequence[str], newer: Sequence[str] = ()) -> list[Row]:
    """One row for each GPU, in NVML's order; a field that is not shown is None.

    `newer` fields are left out, all of them, where the driver's tool does not know one. OSError if there is no answer.
    """
    try:
        return _query([*fields, *newer])
    except OSError as error:
        if not newer or NO_SUCH_FIELD not in str(error):
            raise
        return [{**dict.fromkeys(newer), **row} for row in _query(fields)]


def _query(fields: Sequence[str]) -> list[Row]:
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    rows = csv.reader(llmperf.tool_output(command, seconds=TIMEOUT_SECONDS).splitlines(), skipinitialspace=True)
    return [dict(zip(fields, map(_known, row), strict=True)) for row in rows if len(row) == len(fields)]


def _known(text: str) -> str | None:
    text = text.strip()
    return None if text.startswith("[") or text in ("", "N/A") else text


def number(text: str | None) -> float | None:
    """A field as a number; None where it is unknown or no number."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


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
