"""Lines of an external script: what the plugin may answer, and how steps, times and windows follow from the answers."""

import math
from types import SimpleNamespace

import llmperf
import pytest
from llmperf.errors import PluginError, RunFailed
from llmperf.plugins.discovery import Found
from llmperf.plugins.loading import Plugins
from llmperf.runfolder.reader import Moment, Recorder, RecordFile
from llmperf.types import LoggedFacts, LoggedStep
from llmperf_scripts.steps import ScriptSteps, logged_in

STEP = LoggedStep(step=1, loss=2.0)
FACTS = LoggedFacts(peak_memory_bytes=7)


@pytest.fixture
def steps_of(stub_plan, tmp_path):
    """Steps of a plan on rank 0, whose script started at 100 s; `path` holds what is recorded."""

    def made(steps=6, warmup_steps=1, name="rank"):
        plan = stub_plan(steps=steps, warmup_steps=warmup_steps)
        began, write = Moment(1e9, 100.0), Recorder(tmp_path / f"{name}.jsonl").write
        script = ScriptSteps(plan, 0, write, lambda phase, moment: None, began, "framework 'stub'")
        return script, plan, tmp_path / f"{name}.jsonl"

    return made


def line(at):
    return Moment(1e9 + at, 100.0 + at)


def test_steps_that_a_script_skips_keep_their_time_and_lose_their_tokens(steps_of):
    steps, plan, path = steps_of()
    other, _, other_path = steps_of(name="other")
    for step in range(1, 7):
        steps.take_line(LoggedStep(step=step, seconds=0.5, loss=1.0, skipped=step in (1, 3)), line(step / 2))
    for record in RecordFile(path).new():
        other.take_record(record)
    assert steps.window() == (5, 4 * plan.batch.tokens_per_step, 2.5)
    for written in (path, other_path):
        assert [record.skipped for record in RecordFile(written).new()] == [True, False, True, False, False, False]


def test_step_times_are_those_between_lines_where_the_script_prints_none(steps_of):
    steps, _, path = steps_of(steps=4)
    for step, at in enumerate((3.0, 3.5, 4.5, 5.0), start=1):
        steps.take_line(LoggedStep(step=step, loss=1.0), line(at))
    assert [record.step_seconds for record in RecordFile(path).new()] == [3.0, 0.5, 1.0, 0.5]
    assert (steps.window()[2], steps.clock) == (2.0, "line arrivals")


def test_times_may_be_missing_in_the_warm_up_but_not_without_one(steps_of):
    steps, _, _ = steps_of(steps=3)
    steps.take_line(LoggedStep(step=1, loss=1.0), line(1))
    for step in (2, 3):
        steps.take_line(LoggedStep(step=step, loss=1.0, seconds=1.0), line(step))
    assert steps.clock == "script"
    steps, _, _ = steps_of(warmup_steps=0)
    with pytest.raises(RunFailed, match=r"no step times.*expected at least 1 warm-up step; nearest: --set warmup"):
        steps.take_line(STEP, line(1))


def test_untimed_lines_in_blocks_do_not_pass_for_speed(steps_of):
    steps, _, _ = steps_of(steps=20)
    for step in range(1, 21):
        steps.take_line(LoggedStep(step=step, loss=1.0), line(step // 10))
    with pytest.raises(RunFailed, match=r"17 of 19 measured steps arrived together.*is 2 s; flush each line"):
        steps.window()


@pytest.mark.parametrize("warmup_steps", [0, 5])
@pytest.mark.parametrize(("block", "seconds"), [(20, 0.1), (30, 0.1), (30, 0.0)])
def test_timed_lines_in_blocks_do_not_pass_for_speed(steps_of, block, seconds, warmup_steps):
    steps, _, _ = steps_of(steps=30, warmup_steps=warmup_steps)
    for step in range(1, 31):
        arrives = max(1, -(-step // block)) * block * 0.1
        steps.take_line(LoggedStep(step=step, loss=1.0, seconds=seconds), line(min(3.0, arrives)))
    with pytest.raises(RunFailed, match=r"measured steps arrived together with the step before: .*flush each line"):
        steps.window()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ((1, 2, 3, 5), "reports step 5 after 3 of 6 steps; expected step 4: each step is reported, and the first is"),
        ((2,), "reports step 2 after 0 of 6 steps; expected step 1"),
        ((1, 6), "reports step 6 after 1 of 6 steps; expected step 2"),
        ((1, 2, 3, 4, 5, 6, 7), "framework 'stub': the script continues after the last of 6 steps"),
    ],
)
def test_each_planned_step_is_reported_once_and_in_order(steps_of, told, message):
    steps, _, _ = steps_of()
    *before, last = (LoggedStep(step=step, seconds=0.5, loss=1.0) for step in told)
    for step in before:
        steps.take_line(step, line(step.step / 2))
    with pytest.raises(RunFailed, match=message):
        steps.take_line(last, line(10))


def test_a_step_that_is_reported_again_is_ignored(steps_of):
    steps, _, path = steps_of()
    for step in (1, 2, 1, 2, 3):
        steps.take_line(LoggedStep(step=step, seconds=0.5, loss=1.0), line(step / 2))
    assert [record.step for record in RecordFile(path).new()] == [1, 2, 3]


def test_tokens_are_held_against_the_plan(steps_of):
    steps, plan, _ = steps_of()
    planned = plan.batch.tokens_per_step
    steps.take_line(LoggedStep(step=1, loss=1.0, tokens=planned), line(1))
    with pytest.raises(RunFailed, match=rf"framework 'stub': tokens of step 2: expected {planned} \(global batch"):
        steps.take_line(LoggedStep(step=2, loss=1.0, tokens=planned // 2), line(2))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(None, ()), (STEP, (STEP,)), ((STEP, FACTS), (STEP, FACTS)), ([], ()), (iter([FACTS, FACTS]), (FACTS, FACTS))],
)
def test_a_line_may_have_several_answers(answer, expected):
    assert parsed(answer) == expected


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("step", "expected one of LoggedStep, LoggedFacts, LoggedFailure, several of them, or None, found 'step'"),
        ((STEP, 3), "or None, found 3"),
        ({"step": 1}, "or None, found {'step': 1}"),
        (LoggedStep(step=0, loss=1.0), "LoggedStep.step: expected steps counted from 1, found 0"),
        (LoggedStep(step=1, loss=1.0, seconds=-1.0), "LoggedStep.seconds: expected a number of at least 0, found -1.0"),
        (LoggedStep(step=1, loss=1.0, seconds=math.nan), "LoggedStep.seconds: expected a number of at least 0, found"),
        (LoggedStep(step=1, loss=1.0, tokens=-1), "LoggedStep.tokens: expected a number of at least 0, found -1"),
        (LoggedFacts(parameters=0), "LoggedFacts.parameters: expected a number of at least 1, found 0"),
        ((STEP for _ in range(1000)), "llmperf_parse_log gave more than 100 items"),
    ],
)
def test_an_invalid_answer_names_the_plugin(answer, message):
    with pytest.raises(PluginError) as raised:
        parsed(answer)
    assert str(raised.value).startswith("framework 'example' (llmperf-example)")
    assert message in str(raised.value)


def parsed(answer):
    """What a line holds by a plugin that answers so."""
    plugins = Plugins()
    plugin = SimpleNamespace(llmperf_parse_log=llmperf.hookimpl(lambda line: answer))
    plugins.register(plugin, Found("example", "framework", "example", "llmperf-example", "1.0"))
    return logged_in("step 1", plugins.several, "framework 'example' (llmperf-example)")
