"""A framework that runs an external script: how it reads the script's output, and how the script fails."""

from __future__ import annotations

import time
from pathlib import Path

from llmperf.errors import LlmperfError
from llmperf.plugins.faults import who

from llmperf_testing.check import ContractError, Skip, require
from llmperf_testing.checks.hooks import is_loaded
from llmperf_testing.checks.training import LEAVING_SECONDS, failure_text, run_ends_complete
from llmperf_testing.framework import FrameworkSubject

HOOK = "llmperf_parse_log"
ODD_LINES = (
    "",
    " \t ",
    "step",
    "step one | loss two",
    "iteration -1/ 0 | loss: nan | elapsed: inf",
    "loss 1e999 tokens 9999999999999999999999 step 99999999999999999999",
    "[rank0]: Traceback (most recent call last):",
    '{"step": null, "loss": [1, 2], "seconds": "soon"}',
    "\x1b[31mstep 3\x1b[0m \ufffd\x00\x07 \u4e2d\u6587",
    "=" * 65_536,
    "step 1 | " * 7_000,
)
"""Lines that a script may print besides those that the plugin knows."""
FAILING_SECONDS = 60.0
"""Limit for a run whose script fails at once, on a slow machine that imports a tensor library first."""


def odd_lines_are_parsed(subject: FrameworkSubject) -> None:
    """`llmperf_parse_log` raises nothing and gives valid answers, or none, for any line that a script may print."""
    subject.rests_on(is_loaded)
    if not subject.plugins.answers(HOOK):
        raise Skip(f"it does not answer {HOOK}")
    from llmperf_scripts.steps import logged_in

    owner = who(subject.plugins.owner(HOOK))
    for line in ODD_LINES:
        began = time.perf_counter()
        try:
            logged_in(line, subject.plugins.several, owner)
        except LlmperfError as error:
            raise ContractError(f"{line[:60]!r}: {error}") from None
        took = time.perf_counter() - began
        require(took < 1.0, f"{line[:60]!r}: one line took {took:.1f} s to parse")


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
    left = _processes_of(trial.plan.run_id)
    require(not left, f"processes that the script started are left running: {', '.join(left)}")


def _needs_script(subject: FrameworkSubject) -> None:
    subject.rests_on(run_ends_complete)
    if subject.worker.script is None:
        raise Skip("its ranks run a trainer, not an external script")


def _processes_of(run_id: str) -> list[str]:
    """Command lines of the processes whose environment names a run; none where the system does not show them."""
    mark, found = f"LLMPERF_RUN_ID={run_id}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")[:100])
        except OSError:
            continue
    return found


SCRIPT_LINES = (odd_lines_are_parsed,)
SCRIPT_FAILURES = (a_script_that_cannot_start_fails_the_run, a_killed_script_ends_the_run)
