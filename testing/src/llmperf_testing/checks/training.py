"""How a framework plugin trains: a real run on a tiny model, and how its ranks leave it."""

from __future__ import annotations

from llmperf.types.result import Failure

from llmperf_testing.check import Skip, require
from llmperf_testing.checks.environment import environment_is_text
from llmperf_testing.checks.planning import agent_is_an_argv, files_stay_in_the_run_folder, plans_the_default_case
from llmperf_testing.framework import FrameworkSubject
from llmperf_testing.trials import Ends

LEAVING_SECONDS = 15.0
BEFORE_A_RUN = (plans_the_default_case, agent_is_an_argv, files_stay_in_the_run_folder, environment_is_text)


def run_ends_complete(subject: FrameworkSubject) -> None:
    """A run as `llmperf run` makes it, from plan.json in processes of its own, ends with a complete result."""
    subject.rests_on(*BEFORE_A_RUN)
    result = subject.trained.result
    require(result.status in ("complete", "ok"), f"the run ended {result.status}: {failure_text(result.failure)}")


def failure_text(failure: Failure | None) -> str:
    """A run's failure and the last line of the rank's log, in one line; empty if there is none."""
    if failure is None:
        return ""
    last = next((line.strip() for line in reversed(failure.log_tail) if line.strip()), "")
    text = f"{failure.reason}: {failure.exception or ''} {failure.message}"
    return f"{text}; the last line of its log: {last!r}" if last and last not in failure.message else text


def tokens_add_up(subject: FrameworkSubject) -> None:
    """The tokens that the ranks report for a step are together the step's."""
    subject.rests_on(*BEFORE_A_RUN)
    if not subject.trained.steps:
        raise Skip("the run made no step")
    expected = subject.trained.plan.batch.tokens_per_step
    for step, records in subject.trained.steps.items():
        found = sum(one.tokens for one in records)
        require(found == expected, f"step {step}: {found} tokens over all ranks; expected {expected}")


def losses_are_told(subject: FrameworkSubject) -> None:
    """Each step has a loss on one rank at least."""
    subject.rests_on(run_ends_complete)
    missing = [step for step in subject.trained.steps if step not in subject.losses()]
    require(not missing, f"no rank tells the loss of steps {missing}")


def ends_of(subject: FrameworkSubject) -> Ends:
    """How its ranks left; ContractError if building or stepping raised."""
    subject.rests_on(run_ends_complete)
    ends = subject.ends
    for one in ends.ranks:
        require(one.error is None, f"rank {one.rank}: building or stepping again raised {one.error}")
    return ends


def builds_again_from_the_plan(subject: FrameworkSubject) -> None:
    """A second training of the same plan.json, in other processes, takes steps."""
    if subject.worker.script is None:
        assert ends_of(subject)
        return
    subject.rests_on(run_ends_complete)
    result = subject.again.result
    require(result.failure is None, f"run again, it ended {result.status}: {failure_text(result.failure)}")


def errors_come_through(subject: FrameworkSubject) -> None:
    """Left with an error as a context manager, a trainer does not hide the error or raise another."""
    subject.rests_on(builds_again_from_the_plan)
    for one in subject.ends.ranks:
        require(one.leaving_error is None, f"rank {one.rank}: leaving with an error raised {one.leaving_error}")
        require(not one.hides_errors, f"rank {one.rank}: __exit__ returns true, which hides the error; expected None")


def an_error_waits_for_nobody(subject: FrameworkSubject) -> None:
    """A rank that leaves with an error does not wait for the others, which may never come."""
    subject.rests_on(builds_again_from_the_plan)
    for one in subject.ends.ranks:
        took = one.leaving_seconds
        require(took < LEAVING_SECONDS, f"rank {one.rank}: leaving with an error took {took:.0f} s")


def closes_after_an_error_and_twice(subject: FrameworkSubject) -> None:
    """`close()` can be called after an error, and again."""
    subject.rests_on(errors_come_through, an_error_waits_for_nobody)
    for one in subject.ends.ranks:
        require(one.close_error is None, f"rank {one.rank}: closing raised {one.close_error}")


def evaluation_is_figures(subject: FrameworkSubject) -> None:
    """`evaluate()` gives finite numbers by name, or an iterator of such; none at all is fine."""
    subject.rests_on(builds_again_from_the_plan)
    for one in subject.ends.ranks:
        require(one.evaluation_error is None, f"rank {one.rank}: evaluate() {one.evaluation_error}")


TRAINING = (run_ends_complete, tokens_add_up, losses_are_told, builds_again_from_the_plan)
LEAVING = (errors_come_through, an_error_waits_for_nobody, closes_after_an_error_and_twice, evaluation_is_figures)
