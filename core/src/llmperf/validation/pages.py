"""The page of each rule."""

from __future__ import annotations

from pathlib import Path

from llmperf.files.json_files import read_bytes
from llmperf.validation.codes import whole

FOLDER = Path(__file__).parents[1] / "data" / "rules"


def page(code: str) -> str:
    """What a rule means, with a wrong and a right example, as Markdown; UserError for a code that is none."""
    return read_bytes(FOLDER / f"{whole(code, '--explain')}.md").decode()
