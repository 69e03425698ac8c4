"""Kinds of steps of the acceptance on a GPU, what each must show, and one call with its commands and its state."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_steps import Step, steps

ROOT = Path(__file__).parents[1]
STATE = "state.json"
MOST_ATTEMPTS = 2
"""Calls in which a step may be cut off by the end of the call."""
MAX_REASON = 400
HIGHEST_MEMORY_ERROR, HIGHEST_TIME_ERROR = 0.10, 0.25
"""Largest errors of an estimate against its run. Time is at the rates that `llmperf peak` measured, if it did."""
LOSS_TOLERANCE = {"fp32": 1e-3, "tf32": 5e-3}
"""Relative tolerance of the first step's loss against another way to compute the same step."""
ATTENTION = re.compile("flash|fmha|cudnn|attention|flex", re.IGNORECASE)
"""Part of the names of kernels that compute attention."""
LOOSE = 0.03
"""The same of precisions with fewer bits."""


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
        path = self.folder / STATE  # whole or not at all
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
                for number, seconds in ((signal.SIGINT, 20), (signal.SIGKILL, 5)):  # as a user would, then for good
                    with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                        os.killpg(running.pid, number)
                        running.wait(timeout=seconds)
                        break
                if limit < step.limit_seconds:
                    raise CallEnds from None
                raise StepFailed(f"took longer than {step.limit_seconds:g} s") from None
        return subprocess.CompletedProcess(argv, code, out.read_text(errors="replace"), err.read_text(errors="replace"))


def llmperf(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "llmperf", *words]


def requested(acceptance: Acceptance, step: Step) -> list[str]:
    """Case, framework, devices and settings of a run."""
    return [*requested_run(step), *(("--vendor", "cpu") if acceptance.small else ())]


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
        raise StepFailed(about[0] if about else last_line(done.stderr), figures)
    if unusable := next((line for line in about if f"vendor {vendor}, torch" in line), None):
        raise StepFailed(unusable, figures)
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
        raise StepFailed(summary, {"failures": [line for line in lines if line.startswith(("FAILED", "ERROR"))][:20]})
    return {"summary": summary}


def train(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """A run, complete and without findings that are errors; its first loss is that of the run it is compared with."""
    out = acceptance.folder / "runs"
    done = acceptance.call(step, llmperf("run", *requested(acceptance, step), "--json", "--out", str(out)))
    if not done.stdout.strip().startswith("{"):
        raise StepFailed(last_line(done.stderr))
    document = json.loads(done.stdout)
    result = document["result"]
    metrics, memory = result["metrics"] or {}, (result["metrics"] or {}).get("rank_memory") or [{}]
    mfu = {entry["convention"]: entry["value"] for entry in result["mfu"]}
    figures = {
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
    if figures["status"] != "complete":
        raise StepFailed((document["result"]["failure"] or {}).get("message", "no reason"), figures)
    if done.returncode != 0:
        raise StepFailed("the result has findings that are errors", figures)
    compared = acceptance.results.get(step.of or "", {}).get("figures", {})
    if theirs := compared.get("first loss"):
        figures["speed against " + str(step.of)] = ratio(figures["tokens/s"], compared.get("tokens/s"))
        within = max(LOSS_TOLERANCE.get(run["precision"], LOOSE) for run in (figures, compared))
        other = next(one for one in steps(small=acceptance.small) if one.name == step.of)
        batch = ("global_batch", "seq_len", "model", "routing")
        same_start = all(step.settings.get(name) == other.settings.get(name) for name in batch)
        if abs(figures["first loss"] - theirs) > within * theirs and same_start:
            raise StepFailed(f"first loss {figures['first loss']:.4f}, expected {theirs:.4f} as {step.of}", figures)
    return figures


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours and theirs else None


def estimate(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """An estimate of a run that is over, against it: memory of tensors, and time of a step."""
    run = next(other for other in steps(small=acceptance.small) if other.name == step.of)
    measured = acceptance.results.get(run.name, {}).get("figures", {})
    if measured.get("status") != "complete":
        raise Skipped(f"there is no complete run {run.name!r}")
    rates = rates_file(acceptance)
    measured_rates = ("--rates", str(rates)) if rates.is_file() else ()
    done = acceptance.call(step, llmperf("estimate", *requested(acceptance, run), *measured_rates, "--json"))
    if not done.stdout.strip().startswith("{"):
        raise StepFailed(last_line(done.stderr))
    document = json.loads(done.stdout)
    stage = document["memory"][0]
    used, peak_bytes = measured.get("device bytes"), measured.get("peak bytes")
    time_of_step = (document["time"] or {}).get("seconds")
    figures = {
        "method": stage["method"],
        "peak bytes": stage["peak_bytes"],
        "measured peak bytes": measured["peak bytes"],
        "memory ratio": ratio(stage["peak_bytes"], measured["peak bytes"]),
        "step seconds": time_of_step,
        "measured step seconds": measured["step seconds"],
        "time ratio": ratio(time_of_step, measured["step seconds"]),
        "device bytes beside tensors": used - peak_bytes if used and peak_bytes else None,
    }
    if acceptance.small:
        return figures  # the CPU's allocator counts otherwise, and its peak is of the whole process
    for name, most in (("memory ratio", HIGHEST_MEMORY_ERROR), ("time ratio", HIGHEST_TIME_ERROR)):
        if figures[name] is None or abs(figures[name] - 1) > most:
            value = figures[name] and round(figures[name], 3)
            raise StepFailed(f"{name} {value}, expected 1 within {most:.0%}", figures)
    return figures


def rates_file(acceptance: Acceptance) -> Path:
    """File of the rates that the step `peak` measured; the archive brings it to another machine of the same kind."""
    return acceptance.folder / "rates.json"


def probed(acceptance: Acceptance, step: Step, report: str) -> dict[str, Any]:
    """The report of `gpu_probes.py` on what the step's kind names."""
    device, path = "cpu" if acceptance.small else "cuda:0", acceptance.folder / report
    program = str(Path(__file__).with_name("gpu_probes.py"))
    done = acceptance.call(step, [sys.executable, program, step.kind, device, str(path)])
    if done.returncode != 0:
        raise StepFailed(last_line(done.stderr))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def waits(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """Where a step of each trainer makes the host wait, by torch's own warnings."""
    found = probed(acceptance, step, "host_waits.json")
    unexpected = [name for name, places in found.items() if places and not name.startswith("zero 3")]
    if unexpected:
        raise StepFailed(f"the host waits in {', '.join(unexpected)}", found)
    return found


def attention(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """Record the kernels that torch's attention chooses for shapes of known models, as `attention=auto` does."""
    return probed(acceptance, step, "attention_kernels.json")


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
        raise StepFailed(last_line(done.stderr), figures)
    result = json.loads(done.stdout)["result"]
    failure = result["failure"] or {}
    figures |= {"status": result["status"], "exception": failure.get("exception"), "message": failure.get("message")}
    if result["status"] == "complete" or "memory" not in f"{failure.get('exception')} {failure.get('message')}".lower():
        raise StepFailed("expected a failed run that names memory", figures)
    return figures


def answered(acceptance: Acceptance, step: Step, *words: str) -> Mapping[str, Any]:
    """The JSON of a command that must succeed."""
    vendor = ("--vendor", "cpu") if acceptance.small else ()
    done = acceptance.call(step, llmperf(*words, *vendor, *step.argv, "--json"))
    if done.returncode != 0 or not done.stdout.strip().startswith("{"):
        raise StepFailed(last_line(done.stderr))
    document: Mapping[str, Any] = json.loads(done.stdout)
    return document


def peak(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """Measure the device's rates, with verified outputs; estimates of later steps use them."""
    rates = answered(acceptance, step, "peak", "--devices", "1", "--out", str(rates_file(acceptance)))
    return {
        "TFLOP/s of products": {dtype: rate / 1e12 for dtype, rate in rates["matmul_flops_per_second"].items()},
        "TFLOP/s of attention": {dtype: rate / 1e12 for dtype, rate in rates["attention_flops_per_second"].items()},
        "GB/s of memory": (rates["memory_bytes_per_second"] or 0) / 1e9 or None,
        "launch microseconds": (rates["launch_seconds"] or 0) * 1e6 or None,
    }


def profile(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """Where the time of a step goes, beside the estimate."""
    out = ("--out", str(acceptance.folder / "runs"))
    document = answered(acceptance, step, "profile", *requested_run(step), *out)
    kinds = {each["kind"]: [each["seconds"], each["estimated_seconds"]] for each in document["kinds"]}
    if not kinds:
        raise StepFailed("the profile names no operation")
    names = [each["name"] for each in document["operations"] if ATTENTION.search(each["name"])]
    return {
        "folder": document["folder"],
        "seconds and estimated seconds": kinds,
        "attention kernels": list(dict.fromkeys(names)),
    }


def tune(acceptance: Acceptance, step: Step) -> Mapping[str, Any]:
    """A short search, which must end with the fastest of its trials as an overlay."""
    folder = acceptance.folder / "tune"
    again = ("--resume",) if (folder / "tune.json").exists() else ()
    words = ("--out", str(folder), "--confirm", "0", *again)
    document = answered(acceptance, step, "tune", *requested_run(step), *words)
    best = document["best"][0]
    return {"trials": len(document["trials"]), "best": best["values"], "figures": best["figures"]}


def requested_run(step: Step) -> list[str]:
    """Case, framework and settings of a run on one device; the vendor is an option of its own."""
    written = {name: str(value).lower() if isinstance(value, bool) else value for name, value in step.settings.items()}
    return [
        step.case,
        "--framework",
        step.framework,
        "--devices",
        "1",
        *[word for name, value in written.items() for word in ("--set", f"{name}={value}")],
    ]


CHECKS: Mapping[str, Callable[[Acceptance, Step], Mapping[str, Any]]] = {
    "doctor": doctor,
    "tests": tests,
    "run": train,
    "estimate": estimate,
    "waits": waits,
    "out of memory": out_of_memory,
    "peak": peak,
    "profile": profile,
    "tune": tune,
    "attention": attention,
}
"""By the kind of the step."""
