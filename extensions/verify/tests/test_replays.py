"""LP648 and LP649: step times that nobody measured."""

from __future__ import annotations

import json

import pytest
from llmperf.validation.run_folder import recorded_findings


def with_steps(run, times_of_rank):
    """Codes after the measured steps of each rank were replaced by steps of other times."""
    for rank, path in enumerate(sorted((run / "records").glob("rank-*.jsonl"))):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        step = next(line for line in lines if line.get("measured"))
        others = [line for line in lines if line["kind"] != "step"]
        steps = [{**step, "step": 100 + place, "step_seconds": seconds}
                 for place, seconds in enumerate(times_of_rank(rank))]  # fmt: skip
        path.write_text("".join(json.dumps(line) + "\n" for line in [*steps, *others]))
    return {finding.code for finding in recorded_findings(run)}


def uneven(rank, steps):
    return [0.1 + 0.001 * ((7919 * (step + 1) * (rank + 3)) % 1009) / 1009 for step in range(steps)]


@pytest.mark.parametrize(
    ("times_of_rank", "expected"),
    [
        (lambda rank: uneven(rank, 40), set()),
        (lambda rank: [0.1] * 40, {"LP648", "LP649"}),
        (lambda rank: uneven(0, 40), {"LP649"}),
        (lambda rank: uneven(rank, 12) * 4, {"LP648"}),
        (lambda rank: [seconds * (1 + 0.07 * rank) for seconds in uneven(0, 40)], {"LP649"}),
    ],
    ids=["honest", "equal", "copied", "played back", "scaled"],
)
def test_step_times_that_nobody_measured_are_found(run_folder, times_of_rank, expected):
    assert with_steps(run_folder, times_of_rank) & {"LP648", "LP649"} == expected
