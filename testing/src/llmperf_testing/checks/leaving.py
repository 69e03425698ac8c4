"""How a framework's training ends: ranks that leave their trainer with an error, scripts that fail."""

from __future__ import annotations

import time
from pathlib import Path

from llmperf_testing.check import Skip, check, require
from llmperf_testing.checks.training import builds_again_from_the_plan, failure_text, run_ends_complete
from llmperf_testing.framework import FrameworkSubject

LEAVING_SECONDS = 15.0
FAILING_SECONDS = 60.0
"""Limit for a run whose script fails at once, on a slow machine that imports a tensor library first."""


@check(builds_again_from_the_plan)
def errors_come_through(subject: FrameworkSubject) -> None:
    """Left with an error as a context manager, a trainer does not hide the error or raise another."""
    for one in subject.ends.ranks:
        require(one.leaving_error is None, f"rank {one.rank}: leaving with an error raised {one.leaving_error}")
        require(not one.hides_errors, f"rank {one.rank}: __exit__ returns true, which hides the error; expected None")


@check(builds_again_from_the_plan)
def an_error_waits_for_nobody(subject: FrameworkSubject) -> None:
    """A rank that leaves with an error does not wait for the others, which may never come."""
    for one in subject.ends.ranks:
        took = one.leaving_seconds
        require(took < LEAVING_SECONDS, f"rank {one.rank}: leaving with an error took {took:.0f} s")


@check(errors_come_through, an_error_waits_for_nobody)
def closes_after_an_error_and_twice(subject: FrameworkSubject) -> None:
    """`close()` can be called after an error, and again."""
    for one in subject.ends.ranks:
        require(one.close_error is None, f"rank {one.rank}: closing raised {one.close_error}")


@check(builds_again_from_the_plan)
def evaluation_is_figures(subject: FrameworkSubject) -> None:
    """`evaluate()` gives finite numbers by name, or an iterator of such; none at all is fine."""
    for one in subject.ends.ranks:
        require(one.evaluation_error is None, f"rank {one.rank}: evaluate() {one.evaluation_error}")


@check(run_ends_complete)
def a_script_that_cannot_start_fails_the_run(subject: FrameworkSubject) -> None:
    """A script whose run folder is missing ends with an error status, and with it the run."""
    _needs_script(subject)
    if not any("{run_dir}" in word for word in subject.plan().worker.script.command):  # type: ignore[union-attr]
        raise Skip("its script is not given the run folder")
    began = time.monotonic()
    result = subject.failing("no-folder").result
    took = time.monotonic() - began
    require(result.status == "failed", f"the run ended {result.status}: the script needs no file of its run folder?")
    reason = result.failure.reason if result.failure else ""
    expected = reason in ("exited", "killed", "exception")
    require(expected, f"expected an error status of the script, found {failure_text(result.failure)}")
    require(took < FAILING_SECONDS, f"the run ended after {took:.0f} s; expected less than {FAILING_SECONDS:.0f}")


@check(run_ends_complete)
def a_killed_script_ends_the_run(subject: FrameworkSubject) -> None:
    """When one rank's script is killed, the run fails for that reason and nothing of it is left running."""
    _needs_script(subject)
    began = time.monotonic()
    trial = subject.failing("killed")
    took, failure = time.monotonic() - began, trial.result.failure
    killed = trial.result.status == "failed" and failure is not None and failure.reason in ("killed", "exited")
    require(killed, f"the run ended {trial.result.status}: {failure_text(failure)}")
    limit = subject.trained.seconds + LEAVING_SECONDS
    require(took < limit, f"the run ended after {took:.0f} s; expected less than {limit:.0f}")
    mark, left = f"LLMPERF_RUN_ID={trial.plan.run_id}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                left.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:100])
        except OSError:
            continue
    require(not left, f"processes that the script started are left running: {', '.join(left)}")


def _needs_script(subject: FrameworkSubject) -> None:
    if subject.worker.script is None:
        raise Skip("its ranks run a trainer, not an external script")
