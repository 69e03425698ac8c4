"""The losses of the sequences of step 1: how ranks record them, and LP235, which holds them against one another."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from llmperf.errors import PluginError, UserError
from llmperf.files import json_files
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import read_run
from llmperf.types import Plan
from llmperf.validation.run_folder import recorded_findings
from llmperf_verify.first_losses import SequencesRecord, first_losses

FIRST = math.log(4096)
"""The loss of step 1 of both ranks of the run folder, each of which has two sequences."""
HONEST = {0: [FIRST - 0.02, FIRST + 0.02], 1: [FIRST + 0.01, FIRST - 0.01]}


class Trainer:
    def __init__(self, losses=(5.5, 6.5)):
        self.losses = losses

    def first_losses(self):
        return self.losses


def test_ranks_record_them_once_after_the_warm_up(stub_plan):
    (part,) = first_losses(stub_plan(warmup_steps=2), 0, Trainer())
    assert (part.kind, part.end()) == ("sequences", None)
    assert part.warmed_up(6.0) == SequencesRecord(rank=0, losses=(5.5, 6.5), tokens=None)


def test_ranks_record_none_without_a_warm_up_or_where_nobody_knows_them(stub_plan):
    assert list(first_losses(stub_plan(warmup_steps=0), 0, Trainer())) == []
    assert list(first_losses(stub_plan(warmup_steps=2), 0, object())) == []
    (part,) = first_losses(stub_plan(warmup_steps=2), 1, Trainer(None))
    assert part.warmed_up(6.0) is None


@pytest.mark.parametrize("answer", [(5.5,), 5.5, "ab", (5.5, "6.5"), (5.5, None), (True, False), np.zeros(2)])
def test_other_answers_are_the_frameworks_fault_in_one_line(stub_plan, answer):
    expected = r"expected 2 Python floats, the loss of each sequence of step 1, as first_losses\(\), found .*$"
    (part,) = first_losses(stub_plan(warmup_steps=2), 0, Trainer(answer))
    with pytest.raises(PluginError, match=expected):
        part.warmed_up(6.0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_beside_a_finite_loss_of_the_step_is_the_frameworks_fault(stub_plan, wrong):
    (part,) = first_losses(stub_plan(warmup_steps=2), 0, Trainer((5.5, wrong)))
    with pytest.raises(PluginError, match=rf"found {wrong} for sequence 1, with a loss of 6 of the step"):
        part.warmed_up(6.0)
    assert part.warmed_up(float("nan")) is None  # the loss of the step ends the run


def found(run, losses, tokens=None):
    """Ranks and messages of LP235 after these losses are recorded."""
    for path in (run / "records").glob("rank-*.jsonl"):
        kept = [line for line in path.read_text().splitlines() if '"sequences"' not in line]
        path.write_text("\n".join(kept) + "\n")
    for rank, values in losses.items():
        record = {"kind": "sequences", "rank": rank, "losses": values, "tokens": tokens}
        with filenames.records_path(run, rank).open("a") as file:
            file.write(json.dumps(record) + "\n")
    findings = [finding for finding in recorded_findings(read_run(run)) if finding.code == "LP235"]
    return [(int(finding.path[-7]), finding.message) for finding in findings]


def test_honest_losses_have_no_finding(run_folder):
    assert found(run_folder, {}) == []
    assert found(run_folder, HONEST) == []
    assert read_run(run_folder).further["sequences"][1].rank == 1
    rounded = {rank: [loss * (1 + 4e-6) for loss in losses] for rank, losses in HONEST.items()}
    assert found(run_folder, rounded) == []


EQUAL = f"expected losses that differ by sequence, found {FIRST!r} in all"
NUMBER = "expected the losses of 2 sequences of step 1, found {}"


@pytest.mark.parametrize(
    ("losses", "told"),
    [
        (HONEST | {1: [FIRST, FIRST - 0.01]}, (1, "expected losses of sequences with the mean 8.31777 (the loss of"
                                                  " step 1 of rank 1), found 8.31277")),
        (HONEST | {0: []}, (0, NUMBER.format(0))),
        (HONEST | {0: [FIRST]}, (0, NUMBER.format(1))),
        (HONEST | {0: [FIRST - 0.02, FIRST, FIRST + 0.02]}, (0, NUMBER.format(3))),
        ({0: [FIRST, FIRST], 1: [FIRST, FIRST]}, (0, EQUAL)),
        (HONEST | {1: HONEST[0]}, (1, "expected losses of rank 1's own sequences, found those of rank 0")),
        ({0: HONEST[0]}, (1, "expected losses of sequences of step 1, as other ranks have recorded, found none")),
    ],
)  # fmt: skip
def test_losses_that_contradict_the_run(run_folder, losses, told):
    assert found(run_folder, losses) == [told]


def test_losses_of_a_rank_that_reports_none(run_folder):
    path = run_folder / filenames.PLAN
    plan = json_files.load(path, Plan)
    layout = replace(plan.layout, tensor_parallel=2, data_parallel=1)
    json_files.save(path, replace(plan, worker=replace(plan.worker, layout=layout)))
    assert (1, "expected no losses of sequences of rank 1, which reports no loss, found 2") in found(run_folder, HONEST)


def test_padded_sequences_are_weighted_by_the_tokens_that_are_learnt(run_folder):
    path = run_folder / filenames.PLAN
    plan = json_files.load(path, Plan)
    contract = replace(plan.spec.contract, packing="padded")
    json_files.save(path, replace(plan, spec=replace(plan.spec, contract=contract)))
    unequal = {0: [FIRST - 0.03, FIRST + 0.01], 1: [FIRST - 0.06, FIRST + 0.02]}
    assert found(run_folder, unequal, [128, 384]) == []
    ((_, message),) = found(run_folder, unequal, [256, 256])  # of both ranks
    assert message.endswith("; and 1 more of this kind")
    assert "add up to 512 (step 1)" in found(run_folder, unequal, [128, 128])[0][1]
    assert found(run_folder, HONEST)[0][1].startswith("expected the learnt tokens of each sequence (padded data)")


def test_two_records_of_a_rank_are_refused(run_folder):
    path = filenames.records_path(run_folder, 0)
    line = json.dumps({"kind": "sequences", "rank": 0, "losses": HONEST[0]}) + "\n"
    path.write_text(path.read_text() + line + line)
    with pytest.raises(UserError, match="rank 0: sequences: expected one record, found several"):
        read_run(run_folder)


def test_losses_that_cannot_be_read(run_folder):
    assert "found an unreadable record" in found(run_folder, HONEST | {1: ["no number"]})[0][1]
