"""Readings through the `nvidia-smi` command, for machines where NVML cannot be loaded from Python."""

from __future__ import annotations

import csv
import subprocess

TIMEOUT_SECONDS = 20


def query(*fields: str) -> list[dict[str, str | None]]:
    """One row for each GPU, in NVML's order; a field that is not shown is None. OSError if there is no answer."""
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except FileNotFoundError:
        raise OSError("nvidia-smi is not installed") from None
    except subprocess.TimeoutExpired:
        raise OSError(f"nvidia-smi gave no answer in {TIMEOUT_SECONDS} s") from None
    if done.returncode:
        lines = (done.stdout or done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
        raise OSError(f"nvidia-smi: {lines[0]}")
    rows = csv.reader(done.stdout.splitlines(), skipinitialspace=True)
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
