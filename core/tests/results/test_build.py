"""Results as pure functions of a run folder, on folders made by hand."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from llmperf.cli.run import show_repeats
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.results.run_result import build_result
from llmperf.results.statistics import spread
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import read_run
from llmperf.runfolder.endings import AgentReport, Ending, RankExit
from llmperf.runfolder.reader import Recorder
from llmperf.types import DeviceSample, FailureRecord, Layout, MemorySample, PhaseRecord, RankRecord, Script, StepRecord
from llmperf.validation.check import findings
from llmperf.validation.run_folder import recorded_findings


class Folder:
    """A run folder of two ranks that take 0.1 s and 0.2 s a step; what a test changes, it changes before `build`."""

    def __init__(self, run, plan):
        self.run, self.plan = run, plan
        self.steps = plan.spec.contract.steps
        self.warmup = plan.spec.contract.warmup_steps
        self.world = plan.layout.world_size
        self.tokens = plan.batch.tokens_per_step // self.world
        self.ending = Ending(cause="ended", at="2026-01-01T00:01:00+00:00", agents=(0,))
        self.exits = {}
        self.extra = {}
        self.finished = set(range(self.world))

    def step(self, rank, step):
        return StepRecord(
            rank=rank,
            step=step,
            measured=step > self.warmup,
            at=1e9,
            monotonic=99.0 + step,
            step_seconds=0.1 * (rank + 1),
            tokens=self.tokens,
            loss=9.0 - step + rank,
            grad_norm=2.0,
        )

    def build(self):
        for name in (filenames.RECORDS, filenames.LOGS):
            (self.run / name).mkdir(parents=True)
        json_files.save(self.run / filenames.PLAN, self.plan)
        if self.ending:
            json_files.save(self.run / filenames.ENDING, self.ending)
        for rank in range(self.world):
            filenames.log_path(self.run, rank).write_text(f"\x1b[1mlog of rank {rank}\n")
            with Recorder(filenames.records_path(self.run, rank)) as recorder:
                for one in [*self.of(rank), *self.extra.get(rank, [])]:
                    recorder.write(one)
        ranks = tuple(
            self.exits.get(rank, RankExit(rank=rank, pid=1, exit_code=0, at=1.0)) for rank in range(self.world)
        )
        json_files.save(filenames.agent_report_path(self.run, 0), AgentReport(node_rank=0, pid=1, ranks=ranks))
        return build_result(self.run)

    def of(self, rank):
        yield PhaseRecord(rank=rank, phase="measuring", at=1e9, monotonic=100.0 + rank)
        yield from (self.step(rank, step) for step in range(1, self.steps + 1))
        yield PhaseRecord(rank=rank, phase="evaluating", at=1e9, monotonic=110.0 + rank)
        if rank in self.finished:
            measured = self.steps - self.warmup
            yield RankRecord(
                rank=rank,
                measured_steps=measured,
                measured_tokens=measured * self.tokens,
                window_seconds=4.0 + rank,
                peak_memory_bytes=1000 + rank,
                evaluation={},
                packages={"python": "3.12.1", "numpy": "2.4.6"},
            )


@pytest.fixture
def folder(tmp_path, stub_plan):
    return Folder(tmp_path / "run", stub_plan(steps=6, warmup_steps=1))


def test_figures_follow_from_the_records(folder):
    result = folder.build()
    figures = result.metrics
    assert result.status == "complete"
    assert figures.measured_tokens == 5 * folder.plan.batch.tokens_per_step
    assert figures.window_seconds == 5.0  # of the slower rank
    assert figures.tokens_per_second == figures.measured_tokens / 5.0
    assert figures.tokens_per_second_per_device == figures.tokens_per_second / 2
    assert figures.step_seconds.median == pytest.approx(0.2)
    assert (figures.first_loss, figures.final_loss) == (8.5, 3.5)
    assert figures.known_entropy == pytest.approx(1.984375 * 0.6931472, rel=1e-6)
    assert result.mfu[0].value == pytest.approx(figures.tokens_per_second_per_device * 6000 / 5e11)
    assert result.software.packages == {"numpy": "2.4.6"}
    assert result.software.python == "3.12.1"
    assert result.finished == "2026-01-01T00:01:00+00:00"


def test_losses_near_the_largest_float_have_a_mean(folder):
    whole = folder.step
    folder.step = lambda rank, step: replace(whole(rank, step), loss=1.7976931348623157e308, grad_norm=1.7e308)
    result = folder.build()
    assert (result.metrics.final_loss, result.loss_curve[0].grad_norm) == (1.7976931348623157e308, 1.7e308)


def test_the_entropy_of_data_that_nobody_saw_a_script_read_is_unknown(folder):
    worker = replace(folder.plan.worker, script=Script(command=("train",), step_rank=0))
    folder.plan = replace(folder.plan, worker=worker)
    assert folder.build().metrics.known_entropy is None


def test_skipped_steps_are_counted_apart(folder):
    """What the loss scaler leaves out trained nothing, but took its time."""
    whole, tokens = folder.step, folder.plan.batch.tokens_per_step
    folder.step = lambda rank, step: replace(whole(rank, step), skipped=step in (1, 3, 4))
    ended = folder.of
    folder.of = lambda rank: (
        replace(one, measured_tokens=3 * folder.tokens) if isinstance(one, RankRecord) else one for one in ended(rank)
    )
    result = folder.build()
    figures = result.metrics
    assert (figures.measured_steps, figures.skipped_steps, figures.measured_tokens) == (5, 2, 3 * tokens)
    assert figures.window_seconds == 5.0
    assert figures.tokens_per_second == 3 * tokens / 5.0
    (note,) = [one for one in result.notes if "no update" in one]
    assert note.startswith("2 of the measured steps had gradients that were not finite")
    assert [one.code for one in findings("result", result) if one.code == "LP202"] == []
    wrong = replace(result, metrics=replace(figures, skipped_steps=0))
    assert [one.code for one in findings("result", wrong) if one.code == "LP202"] == ["LP202"]
    assert not [one for one in recorded_findings(read_run(folder.run)) if "measured_tokens" in one.message]


def test_skipped_steps_are_unknown_where_nobody_tells(folder):
    assert folder.build().metrics.skipped_steps is None


def test_the_same_folder_gives_the_same_result_elsewhere(folder, tmp_path):
    result = folder.build()
    shutil.copytree(folder.run, tmp_path / "copy")
    assert build_result(tmp_path / "copy") == result


def test_a_changed_record_changes_its_hash(folder):
    before = folder.build().files
    path = filenames.records_path(folder.run, 1)
    path.write_bytes(path.read_bytes().replace(b'"tokens":', b'"tokens": '))
    changed = {name for name, digest in build_result(folder.run).files.items() if before[name] != digest}
    assert changed == {"records/rank-00001.jsonl"}


def test_without_a_peak_there_is_no_mfu_and_the_reason_is_told(folder):
    folder.plan = replace(folder.plan, peak=None, peak_problem="nobody knows the peak of a stub")
    result = folder.build()
    assert [one.value for one in result.mfu] == [None]
    assert result.notes == ("no MFU: nobody knows the peak of a stub",)


def sample(folder, readings):
    """Record readings: when, and what is known of each device then."""
    with Recorder(folder.run / filenames.MEMORY) as recorder:
        for at, *devices in readings:
            nothing = {"memory_used_bytes": None, "memory_total_bytes": None}
            samples = tuple(DeviceSample(index=index, **(nothing | known)) for index, known in enumerate(devices))
            recorder.write(MemorySample(at=1e9, monotonic=float(at), query_seconds=0.0, devices=samples))


def sampled(folder, readings):
    """The figures of the folder with these readings."""
    folder.build()
    sample(folder, readings)
    return build_result(folder.run).metrics


def test_power_is_the_mean_of_the_measured_window(folder):
    read = ((99.0, 1.0, 50), (102.0, 100.0, 70), (104.0, 200.0, 60), (111.0, 1.0, 10))
    known = {"memory_total_bytes": 99}
    figures = sampled(folder, [(at, {"power_watts": watts, "memory_used_bytes": used} | known)
                               for at, watts, used in read])  # fmt: skip
    assert figures.power_watts == 150.0
    assert figures.utilisation_percent is None
    assert (figures.device_memory_used_bytes, figures.device_memory_total_bytes) == (70, 99)


def test_power_is_energy_over_time_where_the_energy_is_known(folder):
    readings = [(at, {"energy_joules": 50.0 * at, "power_watts": 60.0}) for at in (99.5, 102.0, 104.0, 108.0, 111.0)]
    figures = sampled(folder, readings)
    devices = figures.energy_joules / (figures.power_watts * figures.window_seconds)
    assert (figures.power_watts, devices) == (pytest.approx(50.0), pytest.approx(1.0))


@pytest.mark.parametrize(("last", "noted"), [(111.0, []), (104.0, ["33 %"])])
def test_readings_that_end_before_the_window_are_noted(folder, last, noted):
    sampled(folder, [(at, {"power_watts": 60.0}) for at in (99.5, 102.0, 103.0, last)])
    notes = [one for one in build_result(folder.run).notes if "were read over" in one]
    assert len(notes) == len(noted)
    assert all(share in note for share, note in zip(noted, notes, strict=True))


def test_energy_is_what_the_counters_say_between_the_edges_of_the_window(folder):
    figures = sampled(folder, [(at, {"energy_joules": 7e6 + 50.0 * at}) for at in (99.5, 102.0, 104.0, 108.0, 111.0)])
    assert figures.energy_joules == pytest.approx(50 * 5.0)  # 50 W over the 5 s of the slower rank's window
    assert figures.energy_source == "counter"
    assert figures.joules_per_token == pytest.approx(250 / figures.measured_tokens)
    assert figures.tokens_per_joule * figures.joules_per_token == pytest.approx(1)


def test_without_a_counter_power_is_integrated(folder):
    readings = [(100.0, 0.0), (102.0, 100.0), (104.0, 200.0), (106.0, 200.0), (110.0, 200.0)]
    figures = sampled(folder, [(at, {"power_watts": watts}) for at, watts in readings])
    # trapezoids from 101 s, where the slower rank's window begins, to 110 s; half of the first one
    assert figures.energy_joules == pytest.approx((100 / 2 + 300 + 400 + 800) / 9 * 5.0)
    assert figures.energy_source == "power readings"


@pytest.mark.parametrize(
    "times",
    [(101.5, 109.5), (101.0, 102.0, 104.0, 106.0), (99.0, 112.0), ()],
    ids=["too few", "not to the end", "none inside", "none"],
)
def test_energy_is_unknown_where_the_readings_do_not_cover_the_window(folder, times):
    figures = sampled(folder, [(at, {"energy_joules": at, "power_watts": 1.0}) for at in times])
    assert (figures.energy_joules, figures.energy_source, figures.joules_per_token) == (None, None, None)


def test_energy_is_unknown_where_a_device_was_not_read(folder):
    folder.plan = replace(folder.plan, device_share=1.0)  # two devices, of which the samples have one
    figures = sampled(folder, [(float(at), {"energy_joules": at, "power_watts": 1.0}) for at in range(99, 112)])
    assert figures.energy_joules is None
    assert figures.power_watts is None


ON_BOTH = {"memory_used_bytes": 60, "memory_total_bytes": 99, "utilisation_percent": 90.0, "power_watts": 300.0,
           "throttle_reasons": ("heat",)}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "figure", "value", "said"),
    [
        ("power_watts", "power_watts", 300.0, "power"),
        ("memory_used_bytes", "device_memory_used_bytes", 60, "memory in use"),
        ("utilisation_percent", "utilisation_percent", 90.0, "utilisation"),
        ("throttle_reasons", "throttling", {"heat": 1.0}, "throttling"),
    ],
)
def test_what_one_of_two_devices_showed_is_not_taken_for_both(folder, name, figure, value, said):
    """As a card of two chips that shows its power on one of them."""
    folder.plan = replace(folder.plan, device_share=1.0)
    folder.build()
    for known, expected in ((ON_BOTH, value), ({**ON_BOTH, name: None}, None)):
        (folder.run / filenames.MEMORY).unlink(missing_ok=True)
        sample(folder, [(at, ON_BOTH, known) for at in range(99, 112)])
        result = build_result(folder.run)
        assert getattr(result.metrics, figure) == expected
        told = [one for one in result.notes if "of 2 devices" in one]
        one = f"{said}: shown by 1 of 2 devices, so that it is not known of all: null"
        assert told == ([] if expected is not None else [one])


def test_power_that_the_tool_does_not_show_is_unknown_and_a_note_says_why(folder):
    problem = "tool: power_watts of a card with several chips is left out"
    folder.plan = replace(folder.plan, device_share=1.0, probe=replace(folder.plan.probe, problems=(problem,)))
    folder.build()
    devices = [{"memory_used_bytes": used * 2**30, "memory_total_bytes": 9 * 2**30} for used in (8, 7)]
    sample(folder, [(at, *devices) for at in range(99, 112)])
    result = build_result(folder.run)
    assert (result.metrics.power_watts, result.metrics.energy_joules) == (None, None)
    assert result.metrics.device_memory_used_bytes == 8 * 2**30
    assert [note for note in result.notes if problem in note]


def test_a_counter_that_was_set_back_is_not_used(folder):
    counts = {99: 500.0, 102: 510.0, 105: 4.0, 108: 8.0, 111: 12.0}
    known = [(float(at), {"energy_joules": count, "power_watts": 2.0}) for at, count in counts.items()]
    figures = sampled(folder, known)
    assert (figures.energy_joules, figures.energy_source) == (pytest.approx(2 * 5.0), "power readings")


def test_throttling_is_the_share_of_readings_in_the_window(folder):
    slowed = [(99.0, ("heat",)), (102.0, ()), (103.0, ("heat", "power limit")), (104.0, ("heat",)), (105.0, None)]
    figures = sampled(folder, [(at, {"throttle_reasons": reasons}) for at, reasons in slowed])
    assert figures.throttling == {"heat": pytest.approx(2 / 3), "power limit": pytest.approx(1 / 3)}


def test_throttling_is_unknown_where_no_device_tells(folder):
    assert sampled(folder, [(102.0, {})]).throttling is None
    assert build_result(folder.run).metrics.throttling is None


def test_memory_comes_with_the_pipeline_stage(folder):
    layout = Layout(nodes=1, devices_per_node=2, tensor_parallel=1, pipeline_parallel=2, data_parallel=1)
    folder.plan = replace(folder.plan, worker=replace(folder.plan.worker, layout=layout))
    assert [(one.rank, one.pipeline_stage, one.peak_bytes) for one in folder.build().metrics.rank_memory] == [
        (0, 0, 1000),
        (1, 1, 1001),
    ]


@pytest.mark.parametrize(("tokens", "reported"), [(17, 34), (0, 0), (-1, -2)])
def test_more_tokens_than_planned_or_none_fail_the_run(folder, tokens, reported):
    folder.tokens = tokens
    result = folder.build()
    assert (result.status, result.failure.rank, result.failure.reason) == ("failed", None, "exception")
    assert result.failure.message == (
        f"framework 'stub' (llmperf-stub): the ranks report {reported} tokens in step 1, the first of 6 such, the plan"
        " has 32; each token is counted once, by one rank"
    )


def test_fewer_tokens_than_planned_are_noted(folder):
    folder.tokens -= 1
    result = folder.build()
    assert result.status == "complete"
    assert result.notes == (
        "6 of 6 steps trained on fewer than the planned 32 tokens, the first of them step 1;"
        " the throughput counts what was trained on",
    )


def test_padding_is_said_with_its_share(folder):
    contract = replace(folder.plan.spec.contract, packing="padded")
    folder.plan = replace(folder.plan, spec=replace(folder.plan.spec, contract=contract))
    folder.tokens //= 2
    (note,) = folder.build().notes
    assert note.startswith("padded sequences: 50.0 % of their places hold tokens that were trained on; throughput")


def test_the_loss_is_the_mean_of_the_tokens_not_of_the_ranks(folder):
    """Ranks have unequally many tokens where sequences are padded."""
    steps = [replace(folder.step(rank, 1), tokens=tokens) for rank, tokens in ((0, 24), (1, 8))]
    folder.steps, folder.extra, folder.finished = 0, {0: steps[:1], 1: steps[1:]}, set()
    (point,) = folder.build().loss_curve
    assert point.loss == pytest.approx((24 * 8.0 + 8 * 9.0) / 32)


def test_a_rank_without_an_end_fails_the_run(folder):
    folder.finished = {0}
    result = folder.build()
    assert (result.status, result.failure.rank, result.failure.reason) == ("failed", 1, "exited")
    assert result.failure.log_tail == (" [1mlog of rank 1",)
    assert result.metrics.tokens_per_second_per_device is None
    assert result.metrics.final_loss == 3.5


def left(rank, at, **how):
    return RankExit(rank=rank, pid=1, at=at, **how)


@pytest.mark.parametrize(
    ("exits", "failed_at", "rank", "message"),
    [
        ([left(1, 50.02, signal="SIGSEGV"), left(0, 51.0, exit_code=1)], 50.01, 1, "rank 1 was killed by SIGSEGV"),
        ([left(1, 50.1, exit_code=0), left(0, 51.0, exit_code=1)], 50.0, 1,
         "rank 1 ended with status 0 before its last step"),
        ([left(1, 60.0, signal="SIGABRT")], 50.0, 0, "connection reset"),
        ([left(0, 50.0, signal="SIGTERM", stopped=True), left(1, 50.1, exit_code=3)], None, 1,
         "rank 1 ended with status 3"),
    ],
    ids=["killed, its peer complained", "left, its peer complained", "raised, its peer aborted", "its peer was told"],
)  # fmt: skip
def test_a_failure_is_that_of_the_rank_it_began_with(folder, exits, failed_at, rank, message):
    folder.ending, folder.exits = replace(folder.ending, agents=(1,)), {one.rank: one for one in exits}
    if failed_at is not None:
        known = {"exception": "RuntimeError", "message": "connection reset", "traceback": ""}
        folder.extra = {0: [FailureRecord(rank=0, at=failed_at, **known)]}
    if exits[0].exit_code == 0:
        folder.finished = set()
    failure = folder.build().failure
    assert (failure.rank, failure.message) == (rank, message)


def test_a_controller_that_is_gone_leaves_a_failed_run(folder):
    folder.ending = None
    result = folder.build()
    assert (result.status, result.failure.reason) == ("failed", "controller")


def test_a_folder_without_a_plan_is_told(tmp_path):
    with pytest.raises(UserError, match=r"plan\.json: No such file"):
        build_result(tmp_path)


def test_the_spread_of_repeated_runs(folder):
    result = folder.build()
    metrics = [replace(result.metrics, tokens_per_second_per_device=value) for value in (90.0, 100.0, 120.0)]
    results = [replace(result, metrics=one) for one in metrics]
    found = spread([*results, replace(results[0], status="failed")])
    assert (found.runs, found.median, found.minimum, found.maximum) == (3, 100.0, 90.0, 120.0)
    assert found.relative == pytest.approx(0.3)
    assert spread([]) is None


def test_one_complete_run_of_several_has_no_spread(folder, capsys):
    result = folder.build()
    show_repeats([(Path("a"), result), (Path("b"), replace(result, status="failed"))])
    assert "no spread: 1 of 2 runs complete" in capsys.readouterr().out
