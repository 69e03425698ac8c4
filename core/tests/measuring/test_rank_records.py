"""What extensions record of a rank: the kinds that they may use, and the records that they may write."""

from types import SimpleNamespace

import pytest
from llmperf import hookimpl
from llmperf.errors import PluginError
from llmperf.measuring.loop import MeasuredLoop
from llmperf.measuring.worker import further_records
from llmperf.plugins.discovery import Found
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.reader import Recorder
from llmperf.types import FurtherRecord, RankRecords, StepOutput


def recorders(plan, *parts):
    """What the core and an extension for each of the parts record of rank 0."""
    plugins = Plugins()
    for number, part in enumerate(parts):
        answer = hookimpl(lambda part=part: [part], specname="llmperf_rank_records")
        plugins.register(SimpleNamespace(answer=answer), Found(f"acme{number}", "extension", "acme", "acme", "1.0"))
    return further_records(plugins, plan, 0, object())


def test_extensions_record_under_kinds_of_their_own(stub_plan):
    faults, waits = RankRecords(kind="acme_faults"), RankRecords(kind="acme_waits")
    assert recorders(stub_plan(), faults, waits) == [faults, waits]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["acme"], "expected RankRecords, found str"),
        ([RankRecords(kind="step")], "expected a kind of its own, found 'step', which is that of core"),
        ([RankRecords(kind="Acme")], "expected a kind of its own, found 'Acme'"),
        ([RankRecords(kind="acme"), RankRecords(kind="acme")], "found 'acme', which is that of .*'acme0'"),
    ],
)
def test_other_kinds_are_errors_that_name_the_package(stub_plan, parts, message):
    with pytest.raises(PluginError, match=f"extension 'acme{len(parts) - 1}'.*: llmperf_rank_records: .*{message}"):
        recorders(stub_plan(), *parts)


class Trainer:
    steps = 0

    def train_step(self):
        self.steps += 1
        return StepOutput(loss=float(self.steps), tokens=4)


@pytest.mark.parametrize(("warmup", "expected"), [(2, [("warm", 2, 1.0), ("begin", 2), ("end", 6)]),
                                                  (0, [("begin", 0), ("end", 6)])])  # fmt: skip
def test_each_function_is_called_once_in_its_place(tmp_path, stub_site, warmup, expected):
    from llmperf_stub.device import StubDevice

    trainer, called = Trainer(), []
    part = RankRecords(
        kind="acme",
        warmed_up=lambda loss: called.append(("warm", trainer.steps, loss)),
        begin=lambda: called.append(("begin", trainer.steps)),
        end=lambda: called.append(("end", trainer.steps)),
    )
    with Recorder(tmp_path / "r.jsonl") as recorder:
        MeasuredLoop(trainer, StubDevice(), recorder, 0, [part]).run(6, warmup, lambda phase, moment: None)
        for record in (7, FurtherRecord(kind="acme", rank=1, line=b""), RankRecords(kind="acme")):
            wrong = RankRecords(kind="acme", end=lambda record=record: record)
            with pytest.raises(PluginError, match="expected a record of kind 'acme' of rank 0, found "):
                MeasuredLoop(trainer, StubDevice(), recorder, 0, [wrong]).run(1, 0, lambda phase, moment: None)
    assert called == expected
