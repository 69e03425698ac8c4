"""Acceptance on one NVIDIA GPU: what can be shown in 25 minutes, most telling first, as a report and run folders.

Runs in calls of limited length; each continues where the last ended. See docs/acceptance.md.

    python benchmarks/gpu_acceptance.py --out acceptance --seconds 540
    python benchmarks/gpu_acceptance.py --out acceptance-small --small      # on a CPU
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_report import write_report
from gpu_steps import Settings, Step, steps

ROOT = Path(__file__).parents[1]
STATE = "state.json"
MARGIN_SECONDS = 10.0
"""Left at the end of a call, to write the report."""
MOST_ATTEMPTS = 2
"""Calls in which a step may be cut off by the end of the call."""
MAX_REASON = 400
HIGHEST_MEMORY_ERROR, HIGHEST_TIME_ERROR = 0.10, 0.25
"""Of an estimate, against the run that it is of. The time is held against the vendor's assumed rates."""
LOSS_TOLERANCE = {"fp32": 1e-3, "tf32": 5e-3, "bf16": 0.03, "fp16": 0.03}
"""Of the loss of the first step, against another way to compute the same step: relative."""


class StepFailed(Exception):
    """A step did not show what it should; the message is the reason."""


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

    def run(self, step: Step) -> None:
        """Do one step and write down what came of it."""
        result = self.results.setdefault(step.name, {"attempts": 0})
        result["attempts"] += 1
        began = time.monotonic()
        try:
            result["figures"] = DOING[step.kind](self, step)
            status, reason = "passed", None
        except StepFailed as error:
            status, reason = "failed", str(error)
            result["figures"] = getattr(error, "figures", {})
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


def llmperf(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "llmperf", *words]


def words_of(settings: Settings) -> list[str]:
    """The settings as options of the command line."""
    written = {name: str(value).lower() if isinstance(value, bool) else value for name, value in settings.items()}
    return [word for name, value in written.items() for word in ("--set", f"{name}={value}")]


def requested(acceptance: Acceptance, step: Step) -> list[str]:
    """Case, framework, devices and settings of a run."""
    vendor = ("--vendor", "cpu") if acceptance.small else ()
    return [step.case, "--framework", step.framework, "--devices", "1", *vendor, *words_of(step.settings)]


def last_line(text: str) -> str:
    """The line that says why a command failed: of llmperf's output the first that names an error, else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if line.lower().startswith("error")), lines[-1] if lines else "no output")


def doctor(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """`llmperf doctor`, which sees the device and nothing that keeps torch from it."""
    done = acceptance.call(step, llmperf("doctor"))
    lines = done.stdout.splitlines()
    vendor = "cpu" if acceptance.small else "nvidia"
    figures = {"exit code": done.returncode, "printed": lines[:60]}
    about = [line for line in lines if f"vendor {vendor}" in line]
    if not any(line.startswith("ok") for line in about):
        raise failed(about[0] if about else last_line(done.stderr), figures)
    if unusable := next((line for line in about if f"vendor {vendor}, torch" in line), None):
        raise failed(unusable, figures)
    return figures


def tests(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """The tests that need a GPU, with pytest's plugins as they are here."""
    options = ["-o", "addopts=--import-mode=importlib", "-m", "gpu", "-q", "-ra", "-p", "no:cacheprovider"]
    done = acceptance.call(step, [sys.executable, "-m", "pytest", *options, *step.argv])
    lines = done.stdout.splitlines()
    summary = lines[-1] if lines else last_line(done.stderr)
    if done.returncode == 5 or ("passed" not in summary and "skipped" in summary):
        raise Skipped(summary)
    if done.returncode != 0:
        raise failed(summary, {"failures": [line for line in lines if line.startswith(("FAILED", "ERROR"))][:20]})
    return {"summary": summary}


def failed(reason: str, figures: Mapping[str, Any]) -> StepFailed:
    """A failure that has figures all the same."""
    error = StepFailed(reason)
    error.figures = figures  # type: ignore[attr-defined]
    return error


def train(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """A run, complete and without findings that are errors; its first loss is that of the run it is compared with."""
    out = acceptance.folder / "runs"
    done = acceptance.call(step, llmperf("run", *requested(acceptance, step), "--json", "--out", str(out)))
    if not done.stdout.strip().startswith("{"):
        raise StepFailed(last_line(done.stderr))
    document = json.loads(done.stdout)
    figures = figures_of(document)
    if figures["status"] != "complete":
        raise failed((document["result"]["failure"] or {}).get("message", "no reason"), figures)
    if done.returncode != 0:
        raise failed("the result has findings that are errors", figures)
    compared = acceptance.results.get(step.of or "", {}).get("figures", {})
    if theirs := compared.get("first loss"):
        figures["speed against " + str(step.of)] = ratio(figures["tokens/s"], compared.get("tokens/s"))
        within = max(LOSS_TOLERANCE[figures["precision"]], LOSS_TOLERANCE[compared["precision"]])
        if abs(figures["first loss"] - theirs) > within * theirs and same_start(step, acceptance):
            raise failed(f"first loss {figures['first loss']:.4f}, expected {theirs:.4f} as {step.of}", figures)
    return figures


def same_start(step: Step, acceptance: Acceptance) -> bool:
    """Whether the compared step trains on the same first batch."""
    other = next(one for one in steps(small=acceptance.small) if one.name == step.of)
    return all(step.settings.get(name) == other.settings.get(name) for name in ("global_batch", "seq_len", "model"))


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours and theirs else None


def figures_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the report shows of a run."""
    result = document["result"]
    metrics, memory = result["metrics"] or {}, (result["metrics"] or {}).get("rank_memory") or [{}]
    mfu = {entry["convention"]: entry["value"] for entry in result["mfu"]}
    return {
        "status": result["status"],
        "folder": document["folder"],
        "precision": result["contract"]["precision"],
        "tokens/s": metrics.get("tokens_per_second_per_device"),
        "step seconds": (metrics.get("step_seconds") or {}).get("median"),
        "mfu nominal": mfu.get("nominal"),
        "mfu causal": mfu.get("causal"),
        "peak bytes": memory[0].get("peak_bytes"),
        "reserved bytes": memory[0].get("reserved_bytes"),
        "device bytes": metrics.get("device_memory_used_bytes"),
        "first loss": metrics.get("first_loss"),
        "final loss": metrics.get("final_loss"),
        "skipped steps": metrics.get("skipped_steps"),
        "watts": metrics.get("power_watts"),
    }


def estimate(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """An estimate of a run that is over, against it: memory of tensors, and time of a step."""
    run = next(other for other in steps(small=acceptance.small) if other.name == step.of)
    measured = acceptance.results.get(run.name, {}).get("figures", {})
    if measured.get("status") != "complete":
        raise Skipped(f"there is no complete run {run.name!r}")
    done = acceptance.call(step, llmperf("estimate", *requested(acceptance, run), "--json"))
    if not done.stdout.strip().startswith("{"):
        raise StepFailed(last_line(done.stderr))
    document = json.loads(done.stdout)
    stage = document["memory"][0]
    time_of_step = (document["time"] or {}).get("seconds")
    figures = {
        "method": stage["method"],
        "peak bytes": stage["peak_bytes"],
        "measured peak bytes": measured["peak bytes"],
        "memory ratio": ratio(stage["peak_bytes"], measured["peak bytes"]),
        "step seconds": time_of_step,
        "measured step seconds": measured["step seconds"],
        "time ratio": ratio(time_of_step, measured["step seconds"]),
        "device bytes beside tensors": beside(measured),
    }
    if acceptance.small:
        return figures  # the CPU's allocator counts otherwise, and its peak is of the whole process
    for name, most in (("memory ratio", HIGHEST_MEMORY_ERROR), ("time ratio", HIGHEST_TIME_ERROR)):
        if figures[name] is None or abs(figures[name] - 1) > most:
            raise failed(f"{name} {figures[name] and round(figures[name], 3)}, expected 1 within {most:.0%}", figures)
    return figures


def beside(measured: Mapping[str, Any]) -> int | None:
    """Memory of the device that no tensor has at the peak: context, libraries, fragmentation."""
    used, peak = measured.get("device bytes"), measured.get("peak bytes")
    return used - peak if used and peak else None


def waits(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """Where a step of each trainer makes the host wait, by torch's own warnings."""
    report = acceptance.folder / "host_waits.json"
    device = "cpu" if acceptance.small else "cuda:0"
    program = str(Path(__file__).with_name("gpu_waits.py"))
    done = acceptance.call(step, [sys.executable, program, device, str(report)])
    if done.returncode != 0:
        raise StepFailed(last_line(done.stderr))
    found: dict[str, dict[str, int]] = json.loads(report.read_text())
    unexpected = [name for name, places in found.items() if places and not name.startswith("zero 3")]
    if unexpected:
        raise failed(f"the host waits in {', '.join(unexpected)}", found)
    return found


def out_of_memory(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """A batch that cannot fit: refused while planning, and if that is overridden, a failed run that says so."""
    out = acceptance.folder / "runs"
    words = llmperf("run", *requested(acceptance, step), "--json", "--out", str(out))
    refused = acceptance.call(step, words)
    figures: dict[str, Any] = {"refused": None}
    done = refused
    if refused.returncode == 2:
        figures["refused"] = last_line(refused.stderr)
        done = acceptance.call(step, [*words, "--no-preflight"])
    if not done.stdout.strip().startswith("{"):
        raise failed(last_line(done.stderr), figures)
    result = json.loads(done.stdout)["result"]
    failure = result["failure"] or {}
    figures |= {"status": result["status"], "exception": failure.get("exception"), "message": failure.get("message")}
    if result["status"] == "complete" or "memory" not in f"{failure.get('exception')} {failure.get('message')}".lower():
        raise failed("expected a failed run that names memory", figures)
    return figures


DOING: Mapping[str, Callable[[Acceptance, Step], Mapping[str, Any]]] = {
    "doctor": doctor,
    "tests": tests,
    "run": train,
    "estimate": estimate,
    "waits": waits,
    "out of memory": out_of_memory,
}
OVER = ("passed", "failed", "skipped")


def main() -> int:
    """0 if all steps are over and none has failed, 1 if one has, 3 if steps are left for another call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("acceptance"), help="folder of state, report and runs")
    parser.add_argument("--seconds", type=float, default=1500.0, help="length of this call")
    parser.add_argument("--small", action="store_true", help="on the CPU, with a tiny model")
    parser.add_argument("--only", action="append", metavar="STEP", help="this step alone; may be repeated")
    parser.add_argument("--again", action="append", default=[], metavar="STEP", help="even if it is over")
    parser.add_argument("--new", action="store_true", help="forget what an earlier call left")
    options = parser.parse_args()
    began = time.monotonic()
    folder = options.out.absolute()
    if options.new and (folder / STATE).is_file():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    state = json.loads((folder / STATE).read_text()) if (folder / STATE).is_file() else {"steps": {}}
    ends = began + options.seconds - MARGIN_SECONDS
    acceptance = Acceptance(folder=folder, small=options.small, ends=ends, results=state["steps"])
    planned = [step for step in steps(small=options.small) if options.only is None or step.name in options.only]
    if unknown := {*(options.only or ()), *options.again} - {step.name for step in steps(small=options.small)}:
        names = ", ".join(step.name for step in steps(small=options.small))
        parser.error(f"no step {min(unknown)!r}; expected one of {names}")
    for step in planned:
        over = acceptance.results.get(step.name, {}).get("status") in OVER
        if over and step.name not in options.again:
            continue
        if time.monotonic() + step.expected_seconds > ends:
            break  # in order: the next call begins with this step
        acceptance.run(step)
    write_report(folder, planned, acceptance.results)
    states = [acceptance.results.get(step.name, {}).get("status") for step in planned]
    print(f"{folder / 'report.md'}: " + ", ".join(f"{states.count(state)} {state}" for state in OVER), flush=True)
    left = sum(state not in OVER for state in states)
    print(f"{left} steps left" if left else "all steps are over")
    return 3 if left else 1 if "failed" in states else 0


if __name__ == "__main__":
    sys.exit(main())
