"""Files of records: a JSON document a line, the last of which may be cut off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes
from llmperf.types import Finding
from llmperf.validation.reading import parse_json
from llmperf.validation.rules.documents import CUT_OFF
from llmperf.validation.schema import MAX_FINDINGS, schema_findings


def record_file_findings(path: Path) -> list[Finding]:
    """What is wrong with each line, with its index from 0 before the pointer; UserError for what is no JSON."""
    lines = read_bytes(path).split(b"\n")
    told: list[Finding] = []
    for number, line in enumerate(lines):
        told += _line_findings(line, number, number < len(lines) - 1, path)
        if len(told) >= MAX_FINDINGS and number < len(lines) - 1:
            last = f"{told[-1].message}; the lines after this one are not judged"
            return [*told[:-1], replace(told[-1], message=last)]
    return told


def _line_findings(line: bytes, number: int, whole: bool, path: Path) -> Iterator[Finding]:
    if not line.strip():
        return
    try:
        parsed = parse_json(line, str(path))
    except UserError as error:
        if whole:
            raise UserError(f"{path}: line {number + 1}: {str(error).removeprefix(f'{path}: ')}") from None
        yield CUT_OFF.finding(f"/{number}", "the last line is cut off")
        return
    for finding in schema_findings("record", parsed.value):
        yield Finding(
            code=finding.code,
            severity=finding.severity,
            path=f"/{number}{finding.path}",
            message=finding.message,
        )
