"""One run for the HTML report: its row, its sections, its curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llmperf.reporting import cells
from llmperf.reporting.ranking import model_text
from llmperf.reporting.table import result_rows
from llmperf.results.series import MAX_POINTS, read_series
from llmperf.runfolder import filenames
from llmperf.types import Finding, Result

Section = tuple[str, Sequence[str], list[list[str]]]
"""Title, headers, rows."""


def finding_text(one: Finding) -> dict[str, str]:
    """A finding as the page shows it."""
    text = cells.printable(f"{one.code} {one.severity} {one.path}: {one.message}")
    return {"severity": one.severity, "text": text}


def run_row(result: Result, findings: Sequence[Finding]) -> dict[str, Any]:
    """The run in the table: text made harmless for a line, figures as numbers, unknown ones None."""
    metrics, hardware, mfu = result.metrics, result.hardware, cells.headline_mfu(result)
    memory = metrics.device_memory_used_bytes
    variant = " (variant)" if result.variant else ""
    model = f"{hardware.device_model}{' (simulated)' * hardware.simulated}"
    text = {
        "model": model_text(result.model.name, result.contract.lora is not None),
        "run": result.run_id,
        "case": f"{result.case}{variant}",
        "device": cells.devices(hardware.nodes, hardware.devices_per_node, model, hardware.device_share),
        "layout": f"{result.tuning.framework} {cells.layout(result.parallelism)}",
        "fix_hp": cells.fix_hp(result.fix_hp),
        "status": result.status if result.failure is None else f"{result.status}: {result.failure.reason}",
        "provenance": result.provenance,
        "created": result.created[:16].replace("T", " "),
    }
    return {
        **{name: cells.printable(value) for name, value in text.items()},
        "throughput": metrics.tokens_per_second_per_device,
        "mfu": None if mfu is None else 100 * mfu,
        "loss": metrics.final_loss,
        "memory": None if memory is None else memory / 2**30,
        "power": metrics.power_watts,
        "errors": sum(one.severity == "error" for one in findings),
    }


def sections(result: Result) -> Iterator[Section]:
    """What stands below the curves, in the order of the Markdown report."""
    yield "Performance", (), _shown(result_rows(result))
    headers = ("convention", "MFU", "FLOPs per token", "formula", "leaves out")
    yield "MFU under every convention", headers, _shown(
        (one.convention, cells.percent(one.value), cells.significant(one.flops_per_token), one.formula,
         cells.joined(one.leaves_out))
        for one in result.mfu
    )  # fmt: skip
    if result.fix_hp:
        heads = ("parameter", "in the case", "here", "origin")
        yield (
            "Changes from the case (fix_hp)",
            heads,
            _shown((one.path, cells.text(one.case_value), cells.text(one.value), one.origin) for one in result.fix_hp),
        )
    yield "Environment", (), _shown(_environment(result))
    if result.notes:
        yield "How the figures were made", (), _shown((note,) for note in result.notes)


def _shown(rows: Any) -> list[list[str]]:
    return [[cells.printable(str(cell)) for cell in row] for row in rows]


def _environment(result: Result) -> Iterator[tuple[str, str]]:
    hardware, software = result.hardware, result.software
    yield "accelerator", hardware.device_model
    yield "driver", cells.text(hardware.driver)
    yield "interconnect", cells.text(hardware.interconnect)
    yield "CPU", cells.text(hardware.host_cpu)
    yield "host memory, GiB", cells.gib(hardware.host_memory_bytes)
    yield "OS", software.os
    yield "kernel", software.kernel
    yield "python", software.python
    yield from software.packages.items()
    yield from software.environment.items()
    for one in result.plugins:
        yield f"{one.role} {one.name}", f"{one.distribution} {one.version}"


def curves(folder: Path | None, result: Result) -> Mapping[str, Any] | None:
    """The loss of the result, and what the records beside it show; None where there is neither."""
    found: dict[str, Any] = {}
    points = [point for point in result.loss_curve if point.loss is not None]
    if points:
        every = max(1, -(-len(points) // MAX_POINTS))
        kept = points[::every]
        found["loss"] = {"x": [point.step for point in kept], "middle": [point.loss for point in kept]}
    if folder is not None and (folder / filenames.PLAN).is_file():
        series = asdict(read_series(folder))
        found["window_seconds"] = series.pop("window_seconds")
        found |= {name: _rounded(band) for name, band in series.items() if band["x"]}
    limits = {"entropy": result.metrics.known_entropy, "warmup_steps": result.contract.warmup_steps}
    return found | limits if found else None


def _rounded(band: Mapping[str, Any]) -> dict[str, Any]:
    """To six digits, which is more than a screen shows."""
    curves = {name: [float(f"{value:.6g}") for value in band[name]] for name in ("x", "low", "middle", "high")}
    return curves | {"of": band["of"]}
