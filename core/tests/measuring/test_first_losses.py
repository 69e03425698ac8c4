"""The losses of the sequences of step 1: one record, before the measured steps, of the ranks that report a loss."""

import pytest
from llmperf.accounting.layout import reports_loss
from llmperf.errors import PluginError
from llmperf.measuring.first_losses import FirstLosses
from llmperf.measuring.loop import MeasuredLoop
from llmperf.runfolder.reader import read_records
from llmperf.runfolder.recorder import Recorder
from llmperf.types import Layout, SequencesRecord, StepOutput


class Trainer:
    def __init__(self, losses=(5.5, 6.5)):
        self.losses, self.steps, self.asked_after = losses, 0, []

    def train_step(self):
        self.steps += 1
        return StepOutput(loss=6.0, tokens=16)

    def first_losses(self):
        self.asked_after.append(self.steps)
        return self.losses


def recorded(folder, plan, trainer, rank=0):
    """The records of a loop of six steps."""
    from llmperf_stub.device import StubDevice

    path = folder / f"{rank}.jsonl"
    warmup_steps = plan.spec.contract.warmup_steps
    with Recorder(path) as recorder:
        first = FirstLosses(trainer, plan, recorder, rank)
        loop = MeasuredLoop(trainer, StubDevice(), recorder, rank, None, first)
        loop.run(6, warmup_steps, lambda phase, moment: None)
    return read_records(path)


def test_they_are_recorded_once_after_the_warm_up(tmp_path, stub_plan):
    trainer = Trainer()
    records = recorded(tmp_path, stub_plan(warmup_steps=2), trainer)
    assert trainer.asked_after == [2]
    assert [record for record in records if record.kind == "sequences"] == [
        SequencesRecord(rank=0, losses=(5.5, 6.5), tokens=None)
    ]
    assert not any(record.measured for record in records[: records.index(SequencesRecord(rank=0, losses=(5.5, 6.5)))])


def test_without_a_warm_up_nobody_asks(tmp_path, stub_plan):
    trainer = Trainer()
    assert {record.kind for record in recorded(tmp_path, stub_plan(warmup_steps=0), trainer)} == {"step"}
    assert trainer.asked_after == []


@pytest.mark.parametrize("trainer", [Trainer(None), object()])
def test_a_trainer_may_not_know_them(tmp_path, stub_plan, trainer):
    path = tmp_path / "r.jsonl"
    with Recorder(path) as recorder:
        FirstLosses(trainer, stub_plan(), recorder, 0).record(6.0)
    assert read_records(path) == []


@pytest.mark.parametrize("answer", [(5.5,), (5.5, 6.5, 7.5), 5.5, "ab", (5.5, "6.5"), (5.5, None), (True, False)])
def test_other_answers_are_the_frameworks_fault(tmp_path, stub_plan, answer):
    expected = r"expected 2 Python floats, the loss of each sequence of step 1, as first_losses\(\), found "
    with Recorder(tmp_path / "r.jsonl") as recorder, pytest.raises(PluginError, match=expected):
        FirstLosses(Trainer(answer), stub_plan(), recorder, 0).record(6.0)


def test_a_loss_that_is_no_number_is_left_to_the_loss_of_the_step(tmp_path, stub_plan):
    path = tmp_path / "r.jsonl"
    with Recorder(path) as recorder:
        FirstLosses(Trainer((5.5, float("nan"))), stub_plan(), recorder, 0).record(float("nan"))
    assert read_records(path) == []


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_beside_a_finite_loss_of_the_step_is_the_frameworks_fault(tmp_path, stub_plan, wrong):
    with pytest.raises(PluginError, match=rf"found {wrong} for sequence 1, with a loss of 6 of the step"):
        recorded(tmp_path, stub_plan(warmup_steps=2), Trainer((5.5, wrong)))


def test_a_tensor_is_the_frameworks_fault_in_one_line(tmp_path, stub_plan):
    numpy = pytest.importorskip("numpy")
    with pytest.raises(PluginError, match=r"expected 2 Python floats, .* found array\(\[0., 0.\]\)"):
        recorded(tmp_path, stub_plan(warmup_steps=2), Trainer(numpy.zeros(2)))


def test_one_rank_for_each_data_parallel_rank_records_them():
    layout = Layout(nodes=1, devices_per_node=8, tensor_parallel=2, pipeline_parallel=2, data_parallel=2)
    assert [rank for rank in range(8) if reports_loss(layout, rank)] == [4, 6]
