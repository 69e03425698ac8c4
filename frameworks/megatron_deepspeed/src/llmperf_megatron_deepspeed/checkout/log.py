"""The output of `pretrain_gpt.py`, parsed by its key/value pairs, never by their positions.

Its line of a step, from the last rank, whose pairs differ from one version to another:

    iteration        2/      10 | consumed samples: 8 | elapsed time per iteration (ms): 385.4 | lm loss: 5.15E+00 | ...

and of each rank's memory, once: `[Rank 0] (after 1 iterations) memory (MB) | allocated: 9.1 | max allocated: 9.8 | ...`
"""

from __future__ import annotations

import json
import math
import re

from llmperf.types import LoggedFacts, LoggedFailure, LoggedStep

ITERATION = re.compile(r"\biteration\s+(\d{1,9})/\s*\d{1,9}\s*\|(.*)")
MEMORY = re.compile(r"\[Rank \d{1,6}\] \(after \d{1,9} iterations\) memory \(MB\)(.*)")
PAIR = re.compile(
    r"^\s*([^:|\s][^:|]{0,59}?)\s*:\s*([-+]?(?:\d[\d.]{0,30}(?:e[-+]?\d{1,3})?|nan|inf))\s*$", re.IGNORECASE
)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")

ELAPSED = "elapsed time per iteration (ms)"
LOSS = "lm loss"
SCALE = "loss scale"
SKIPPED = "number of skipped iterations"
NAN = "number of nan iterations"
NORM = "grad norm"
PEAK = "max allocated"
PACKAGES = "llmperf packages: "
FAILURE = "llmperf failure: "
"""Begin the lines that our own start of the script prints at its end, with JSON behind them."""


def parse_log(line: str) -> LoggedStep | LoggedFacts | LoggedFailure | None:
    """A step, a rank's memory, its versions or its failure; None for any other line."""
    if line.startswith(PACKAGES):
        return LoggedFacts(packages=_texts(line.removeprefix(PACKAGES)))
    if line.startswith(FAILURE):
        values = _texts(line.removeprefix(FAILURE))
        return LoggedFailure(**values) if set(values) == {"exception", "message", "traceback"} else None
    line = ESCAPE.sub("", line)
    if found := ITERATION.search(line):
        return _step(int(found.group(1)), pairs(found.group(2)))
    if found := MEMORY.search(line):
        peak = pairs(found.group(1)).get(PEAK)
        return LoggedFacts(peak_memory_bytes=round(peak * 2**20)) if peak and math.isfinite(peak) else None
    return None


def pairs(text: str) -> dict[str, float]:
    """The `key: number` parts between bars; what is none is passed over."""
    found = {}
    for part in text.split("|"):
        if pair := PAIR.match(part):
            try:
                found[pair.group(1).lower()] = float(pair.group(2))
            except ValueError:  # such as 1.2.3
                continue
    return found


def _step(iteration: int, values: dict[str, float]) -> LoggedStep | None:
    """None for a line without a time: no other line of the script has one."""
    elapsed = values.get(ELAPSED)
    if iteration < 1 or elapsed is None or not 0 <= elapsed < math.inf:
        return None
    skipped = values[SKIPPED] > 0 if SKIPPED in values else None
    return LoggedStep(
        step=iteration, seconds=elapsed / 1000, loss=_loss(values), grad_norm=values.get(NORM), skipped=skipped
    )


def _loss(values: dict[str, float]) -> float | None:
    """The loss, in nats per token; NaN where the script prints none because it was NaN.

    The script prints no loss that is not above 0, which is only NaN, and none of a step that it skipped because its
    gradients were not finite. While a loss scale is being found, a skipped step says nothing about the loss: None.
    """
    if values.get(NAN, 0) > 0:
        return math.nan
    scaled = values.get(SCALE, 1.0) > 1.0
    if LOSS not in values and not (scaled and values.get(SKIPPED, 0) > 0):
        return math.nan
    return values.get(LOSS)


def _texts(text: str) -> dict[str, str]:
    """A JSON object as text by name; nothing where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}
