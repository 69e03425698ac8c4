"""The records of many ranks, brought together step by step."""

from statistics import fmean

import pytest
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.runfolder import contents, filenames, reader, totals
from llmperf.runfolder.contents import read_run
from llmperf.runfolder.reader import Recorder, by_step
from llmperf.runfolder.totals import LossCurve
from llmperf.types import FailureRecord, PhaseRecord, StepRecord


def record(rank, step, **known):
    figures = {"measured": True, "at": 1.0, "monotonic": float(step), "step_seconds": 0.5, "tokens": 4, "loss": 1.0}
    return StepRecord(rank=rank, step=step, **{**figures, **known})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / filenames.RECORDS).mkdir()

    def write(rank, records):
        with Recorder(filenames.records_path(tmp_path, rank)) as recorder:
            for written in records:
                recorder.write(written)

    write.run = tmp_path
    return write


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(reader, "LEAST_BLOCK_BYTES", 700)
    monkeypatch.setattr(reader, "MERGED_BYTES", 0)


def merged(run, others=None):
    parts = reader.merged(filenames.record_files(run), (others if others is not None else []).append)
    return [(step, ranks) for part in parts for step, ranks in by_step(part).items()]


def test_each_step_comes_once_with_all_its_ranks_whatever_the_size_of_a_line(folder, small_blocks):
    others = []
    for rank in range(3):
        first = PhaseRecord(rank=rank, phase="measuring", at=1.0, monotonic=1.0)
        steps = [record(rank, step, loss=None if rank else 10.0**step) for step in range(1, 101 - rank)]
        folder(rank, [first, *steps])
    failure = FailureRecord(rank=1, at=1.0, exception="E", message="x" * 4000, traceback="")
    folder(1, [failure])
    steps = merged(folder.run, others)
    assert [step for step, _ in steps] == list(range(1, 101))
    assert [len(ranks) for _, ranks in steps] == [3] * 98 + [2, 1]
    assert failure in others
    assert len(others) == 4


def test_a_rank_that_ends_early_does_not_hold_the_others_up(folder, small_blocks):
    folder(0, [record(0, 1)])
    folder(1, [record(1, step) for step in range(1, 51)])
    assert [(step, len(ranks)) for step, ranks in merged(folder.run)] == [(1, 2), *((n, 1) for n in range(2, 51))]


def test_steps_out_of_order_are_all_read(folder, small_blocks):
    folder(0, [record(0, step) for step in (3, 1, 9, 2, 9)])
    folder(1, [record(1, step) for step in range(1, 10)])
    assert sum(len(ranks) for _, ranks in merged(folder.run)) == 14


@pytest.mark.parametrize(("first", "expected"), [((1, 1), "the rank in the file's name, found"), ((0, 1), "one rank")])
def test_a_record_of_another_rank_is_refused(folder, stub_plan, first, expected):
    json_files.save(folder.run / filenames.PLAN, stub_plan())
    folder(0, [record(*first), record(1, 2)])
    with pytest.raises(UserError, match=rf"rank-00000\.jsonl: expected records of {expected}"):
        read_run(folder.run)


def test_the_marks_of_a_long_evaluation_are_one(folder, stub_plan):
    json_files.save(folder.run / filenames.PLAN, stub_plan())
    marks = [PhaseRecord(rank=0, phase="evaluating", at=1.0, monotonic=float(time)) for time in range(9)]
    folder(0, [*marks, PhaseRecord(rank=0, phase="done", at=1.0, monotonic=9.0)])
    assert [(phase.phase, phase.monotonic) for phase in read_run(folder.run).phases] == [
        ("evaluating", 0.0),
        ("done", 9),
    ]


def points(count, **nonfinite):
    curve = LossCurve()
    for step in range(1, count + 1):
        what = nonfinite.get(f"step{step}")
        curve.add(step, [record(0, step, loss=None if what else float(step), nonfinite=what)], what)
    return curve


def test_a_short_curve_has_all_steps():
    curve = points(10_000)
    assert curve.every == 1
    assert [point.step for point in curve.points()] == list(range(1, 10_001))


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "every"), [(10_001, 2), (20_000, 2), (20_001, 4), (99_999, 16), (123_456, 16)])
def test_a_long_curve_has_even_steps_and_the_last_and_those_without_a_number(steps, every):
    curve = points(steps, step4="nan", step9000="inf")
    assert curve.every == every
    found = [point.step for point in curve.points()]
    assert found == sorted({*range(1, steps + 1, every), 4, 9000, steps})
    assert len(found) <= 10_003
    assert {point.nonfinite for point in curve.points()} == {None, "nan", "inf"}


def test_a_long_run_has_a_bounded_result_that_says_so(folder, stub_plan, monkeypatch):
    monkeypatch.setattr(totals, "MOST_EVEN_POINTS", 10)
    plan = stub_plan(steps=100, warmup_steps=10)
    json_files.save(folder.run / filenames.PLAN, plan)
    (folder.run / filenames.LOGS).mkdir()
    for rank in range(2):
        steps = [
            record(rank, step, loss=100.0 - step, measured=step > 10, step_seconds=step / 7) for step in range(1, 101)
        ]
        folder(rank, steps)
    result = build_result(folder.run)
    assert result.loss_curve_every == 16
    assert [point.step for point in result.loss_curve] == [1, 17, 33, 49, 65, 81, 97, 100]
    assert any(note.startswith("the loss curve has one step in 16, the last one") for note in result.notes)
    assert (result.metrics.first_loss, result.metrics.final_loss) == (99.0, 0.0)
    assert result.metrics.measured_steps == 90
    assert result.metrics.step_seconds.mean == pytest.approx(fmean(step / 7 for step in range(11, 101)))


def test_the_content_is_read_with_few_files_open(folder, stub_plan, monkeypatch):
    resource = pytest.importorskip("resource")
    json_files.save(folder.run / filenames.PLAN, stub_plan())
    for rank in range(100):
        folder(rank, [record(rank, 1)])
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, before[1]))
    try:
        assert len(contents.read_run(folder.run).by_rank) == 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.slow
def test_curves_of_runs_of_different_lengths_have_common_steps():
    long, short = ({point.step for point in points(steps).points()} for steps in (45_000, 25_000))
    assert len(long & short) > 3_000
