"""One call of the acceptance on a GPU: its state on disk, and commands that end with the step or the call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_steps import Step

ROOT = Path(__file__).parents[1]
STATE = "state.json"
MOST_ATTEMPTS = 2
"""Calls in which a step may be cut off by the end of the call."""
MAX_REASON = 400


class StepFailed(Exception):
    """A step did not show what it should; the message is the reason. It may have figures all the same."""

    def __init__(self, reason: str, figures: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.figures = figures or {}


class Skipped(Exception):
    """A step does not apply here; the message is the reason."""


class CallEnds(Exception):
    """The call's time is over; the step runs again in the next."""


@dataclass
class Acceptance:
    """The steps, what is known of them, and the folder of both."""

    folder: Path
    small: bool
    ends: float
    """When this call ends, by the monotonic clock."""
    results: dict[str, dict[str, Any]]
    """By step: status, seconds, reason, figures."""

    def run(self, step: Step, check: Callable[[Acceptance, Step], Mapping[str, Any]]) -> None:
        """Do one step and write down what came of it."""
        result = self.results.setdefault(step.name, {"attempts": 0})
        result["attempts"] += 1
        began = time.monotonic()
        try:
            result["figures"] = check(self, step)
            status, reason = "passed", None
        except StepFailed as error:
            status, reason = "failed", str(error)
            result["figures"] = error.figures
        except Skipped as error:
            status, reason = "skipped", str(error)
        except CallEnds:
            over = result["attempts"] >= MOST_ATTEMPTS
            status, reason = ("failed" if over else "cut off"), "the call ended before the step did"
        except Exception as error:  # what it reads may have any form: one step must not end the others
            status, reason = "failed", f"{type(error).__name__}: {error}"
        result |= {"status": status, "reason": reason and reason[:MAX_REASON], "seconds": time.monotonic() - began}
        print(f"{result['status']:8} {result['seconds']:6.1f} s  {step.name}  {reason or ''}"[:200], flush=True)
        self.save()

    def save(self) -> None:
        """Write the state, whole or not at all."""
        path = self.folder / STATE
        path.with_suffix(".new").write_text(json.dumps({"small": self.small, "steps": self.results}, indent=1))
        path.with_suffix(".new").replace(path)

    def call(self, step: Step, argv: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command with its output in `logs/`, ended with all its processes when the step or the call is over."""
        name = "".join(letter if letter.isalnum() else "-" for letter in step.name)
        out, err = (self.folder / "logs" / f"{name}.{end}" for end in ("out", "err"))
        out.parent.mkdir(exist_ok=True)
        left = self.ends - time.monotonic()
        limit = min(step.limit_seconds, left)
        with out.open("w") as stdout, err.open("w") as stderr:
            env = {**os.environ, "LLMPERF_SCREENING": "0", **variables}
            running = subprocess.Popen(argv, stdout=stdout, stderr=stderr, cwd=ROOT, env=env, start_new_session=True)
            try:
                code = running.wait(timeout=max(1.0, limit))
            except subprocess.TimeoutExpired:
                end_group(running)
                if limit < step.limit_seconds:
                    raise CallEnds from None
                raise StepFailed(f"took longer than {step.limit_seconds:g} s") from None
        return subprocess.CompletedProcess(argv, code, out.read_text(errors="replace"), err.read_text(errors="replace"))


def end_group(running: subprocess.Popen[Any]) -> None:
    """Interrupt a command as a user would, and kill what does not end."""
    for number, seconds in ((signal.SIGINT, 20), (signal.SIGKILL, 5)):
        try:
            os.killpg(running.pid, number)
            running.wait(timeout=seconds)
            return
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
