"""The report of the acceptance on a GPU: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from gpu_steps import Step

PACKAGES = ("torch", "transformers", "deepspeed", "peft", "triton", "llmperf-core")
GIB = 2**30


def write_report(folder: Path, planned: Sequence[Step], results: Mapping[str, Mapping[str, Any]]) -> None:
    """`report.md` and `report.json` in a folder."""
    machine = machine_facts()
    document = {"machine": machine, "steps": {step.name: results.get(step.name, {}) for step in planned}}
    (folder / "report.json").write_text(json.dumps(document, indent=1) + "\n")
    (folder / "report.md").write_text("\n".join(_lines(machine, planned, results)) + "\n")


def machine_facts() -> dict[str, str]:
    """GPU, driver and versions."""
    facts = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,power.limit", "--format=csv,noheader"]
    try:
        facts["gpu"] = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        facts["gpu"] = "none"
    return facts


def _lines(machine: Mapping[str, str], planned: Sequence[Step], results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = ["# Acceptance on a GPU", "", *(f"- {name}: {value}" for name, value in machine.items()), ""]
    lines += ["| Step | Outcome | Seconds | Reason |", "|---|---|---|---|"]
    for step in planned:
        result = results.get(step.name, {})
        seconds = f"{result['seconds']:.0f}" if "seconds" in result else ""
        reason = (result.get("reason") or "").replace("|", "\\|").replace("\n", " ")
        lines.append(f"| {step.name} | {result.get('status', 'not run')} | {seconds} | {reason} |")
    figures = [(step, results.get(step.name, {}).get("figures") or {}) for step in planned]
    lines += ["", "## Runs", ""]
    lines += ["| Step | Precision | token/p/s | Step, s | MFU nominal | MFU causal | Tensors, GiB | Loss |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    lines += [_run(step, found) for step, found in figures if step.kind == "run" and "tokens/s" in found]
    lines += ["", "## Estimates against measurements", ""]
    lines += ["| Run | Method | Peak, GiB | Measured | Ratio | Step, s | Measured | Ratio | Beside tensors, GiB |"]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    lines += [_estimate(step, found) for step, found in figures if step.kind == "estimate" and found]
    lines += ["", "## Other figures", ""]
    for step, found in figures:
        if found and step.kind not in ("run", "estimate"):
            lines += [f"### {step.name}", "", "```json", json.dumps(found, indent=1), "```", ""]
    return lines


def _run(step: Step, found: Mapping[str, Any]) -> str:
    cells = (
        step.name,
        found["precision"],
        _number(found["tokens/s"], ".1f"),
        _number(found["step seconds"], ".4f"),
        _number(found["mfu nominal"], ".1%"),
        _number(found["mfu causal"], ".1%"),
        _number(found["peak bytes"], ".2f", GIB),
        f"{_number(found['first loss'], '.4f')} -> {_number(found['final loss'], '.4f')}",
    )
    return "| " + " | ".join(cells) + " |"


def _estimate(step: Step, found: Mapping[str, Any]) -> str:
    cells = (
        str(step.of),
        str(found["method"]),
        _number(found["peak bytes"], ".2f", GIB),
        _number(found["measured peak bytes"], ".2f", GIB),
        _number(found["memory ratio"], ".3f"),
        _number(found["step seconds"], ".4f"),
        _number(found["measured step seconds"], ".4f"),
        _number(found["time ratio"], ".3f"),
        _number(found["device bytes beside tensors"], ".2f", GIB),
    )
    return "| " + " | ".join(cells) + " |"


def _number(value: float | None, form: str, unit: float = 1.0) -> str:
    return "" if value is None else format(value / unit, form)
