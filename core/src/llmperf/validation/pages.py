"""The page of each rule."""

from __future__ import annotations

from pathlib import Path

from llmperf.documents import read_bytes
from llmperf.errors import unknown
from llmperf.validation.catalogue import catalogue

FOLDER = Path(__file__).parents[1] / "data" / "rules"


def page(code: str) -> str:
    """What a rule means, with a wrong and a right example, as Markdown; UserError for a code that is none."""
    codes = [rule.code for rule in catalogue()]
    if code not in codes:
        raise unknown("--explain", "rule", code, codes)
    return read_bytes(FOLDER / f"{code}.md").decode()
