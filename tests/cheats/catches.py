"""The lowest level of verification that catches each cheat, as the table of `docs/trust.md` says it."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "trust.md"
CATCHES = dict(re.findall(r"^\| `(\w+)` \|.*\| (\S+) \|[^|]*\|$", DOCUMENT.read_text(), re.MULTILINE))
CLAIMS = {
    "times_four_fifths": "speed", "times_halved": "speed", "fastest_step_everywhere": "speed",
    "two_devices_sold_as_one": "speed", "cpu_sold_as_two_gpus": "speed", "cpu_peak_lowered": "peak",
    "energy_invented": "energy", "memory_halved": "memory", "clock_slowed_by_a_preloaded_library": "speed",
    "clock_slowed_by_sitecustomize": "speed",
}  # fmt: skip
"""Of the level `rerun`: those whose losses are right, and what a rerun on the same device model warns of (LP677)."""
