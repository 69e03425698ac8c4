"""What a trainer counts of its experts: the measured window alone, in the shape of the model."""

from dataclasses import replace

import pytest
from llmperf.accounting.parameters import mixture_layers
from llmperf.accounting.routing import mixture_layers_of
from llmperf.errors import PluginError
from llmperf.measuring.expert_counts import ExpertCounts, llmperf_rank_records
from llmperf.measuring.loop import MeasuredLoop
from llmperf.runfolder.reader import Recorder, RecordFile
from llmperf.types import Layout, Mixture, RankRecords, StepOutput


class Trainer:
    """Two layers of three experts; each step the first takes 5 tokens of the first layer."""

    def __init__(self):
        self.steps, self.asked_after = 0, []

    def train_step(self):
        self.steps += 1
        return StepOutput(loss=1.0, tokens=10)

    def expert_tokens(self):
        self.asked_after.append(self.steps)
        return [[5 * self.steps, 0, 0], [0, self.steps, 2 * self.steps]]


def test_tokens_of_the_warm_up_are_left_out(tmp_path, stub_site):
    from llmperf_stub.device import StubDevice

    trainer = Trainer()
    counts = ExpertCounts(trainer.expert_tokens, 0, 2, 3)
    with Recorder(tmp_path / "r.jsonl") as recorder:
        further = [RankRecords(kind="experts", begin=counts.begin, end=counts.end)]
        MeasuredLoop(trainer, StubDevice(), recorder, 0, further).run(10, 4, lambda phase, moment: None)
    assert RecordFile(tmp_path / "r.jsonl").new()[-1].layers == ((30, 0, 0), (0, 6, 12))
    assert trainer.asked_after == [4, 10]


@pytest.mark.parametrize("answer", [5, "ab", [[1, 2]], [[1, 2, -1], [0, 0, 0]], [[1, 2, 0.5], [0, 0, 0]], [None, None]])
def test_counts_of_another_shape_are_the_frameworks_fault(answer):
    with pytest.raises(PluginError, match=r"expected 2 layers of 3 token counts each as expert_tokens\(\)"):
        ExpertCounts(lambda: answer, 0, 2, 3).begin()


def test_counts_that_fall_are_refused():
    trainer = Trainer()
    counts = ExpertCounts(trainer.expert_tokens, 0, 2, 3)
    trainer.steps = 4
    counts.begin()
    trainer.steps = 3
    with pytest.raises(PluginError, match=r"expected counts that never fall as .* found 15 after 20"):
        counts.end()


def test_a_trainer_may_have_no_counts(stub_plan):
    assert list(llmperf_rank_records(stub_plan(), 0, object())) == []
    counts = ExpertCounts(lambda: None, 0, 2, 3)
    counts.begin()
    assert counts.end() is None


def test_each_rank_counts_the_layers_of_its_stages(stub_plan):
    model = replace(
        stub_plan().spec.model, layers=8, mixture=Mixture(experts=4, top_k=2, expert_width=8, dense_layers=1)
    )
    model = replace(model, multi_token_layers=1)
    layout = Layout(nodes=1, devices_per_node=2, tensor_parallel=1, pipeline_parallel=2, data_parallel=1)
    assert list(mixture_layers(model)) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [mixture_layers_of(model, layout, 1, rank) for rank in (0, 1)] == [(1, 2, 3), (4, 5, 6, 7, 8)]
    assert [mixture_layers_of(model, layout, 2, rank) for rank in (0, 1)] == [(1, 4, 5), (2, 3, 6, 7, 8)]
    assert list(mixture_layers(replace(model, mixture=None))) == []
