"""Choose the files of a run folder that `llmperf pack` puts into a submission; it has no others."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from llmperf.errors import UserError
from llmperf.files.json_files import read_bytes
from llmperf.runfolder import filenames
from llmperf.validation.reading import parse_json

README = "README.md"
MANIFEST = "manifest.json"
SINGLE = (*filenames.SOURCES, filenames.RESULT, filenames.REPORT)
_RECORD = re.compile(r"rank-[0-9]{5,9}\.jsonl|memory-[0-9]{3,9}\.jsonl|(?:agent|host)-[0-9]{3,9}\.json")
_LOG = re.compile(r"(?:rank-[0-9]{5,9}|agent-[0-9]{3,9})\.log")


def is_packed(name: str, configured: Collection[str]) -> bool:
    """Check whether a file belongs to a run, by its path in the run folder; `configured` are the names in its plan."""
    folder, _, inner = name.partition("/")
    if not inner:
        return name in SINGLE
    if folder == filenames.FILES:
        return inner in configured
    pattern = {filenames.RECORDS: _RECORD, filenames.LOGS: _LOG}.get(folder)
    return pattern is not None and pattern.fullmatch(inner) is not None


def configured_files(run: Path) -> frozenset[str]:
    """Names of the configuration files that the plan asks for; none where there is no plan that can be read."""
    plan = run / filenames.PLAN
    try:
        value = parse_json(read_bytes(plan), str(plan)).value if plan.is_file() else None
    except UserError:
        return frozenset()
    worker = value.get("worker") if isinstance(value, dict) else None
    files = worker.get("files") if isinstance(worker, dict) else None
    return frozenset(files) if isinstance(files, dict) else frozenset()
