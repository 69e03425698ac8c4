"""How far estimates were from published figures: `data/estimate_error.toml`, from the calibration benchmark."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from llmperf.files.json_files import convert
from llmperf.files.user_files import read_toml
from llmperf.types.estimate import ExpectedError

FILE = Path(__file__).parents[1] / "data" / "estimate_error.toml"


@cache
def expected_error() -> ExpectedError | None:
    """The errors of the last calibration; None if there was none."""
    return convert(read_toml(FILE), ExpectedError, str(FILE)) if FILE.exists() else None
