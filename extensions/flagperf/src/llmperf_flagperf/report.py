"""Runs as the result sections of FlagPerf's READMEs: one section for each model, framework, device and precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from llmperf.errors import UserError
from llmperf.reporting import markdown_text, sheet_values
from llmperf.types import Sheet

Values = Mapping[str, str | int | float | bool | None]
GROUP = ("vendor", "device_model", "framework", "model", "precision")
SPEED = "tokens_per_second_per_device"
FRAMEWORKS = {"zero": "deepspeed", "megatron_deepspeed": "megatron-deepspeed", "megatron_core": "megatron"}
"""FlagPerf's names of frameworks that have another one here."""
GIB = 2**30


def readme(sheets: Sequence[Sheet]) -> str:
    """The document. UserError if no sheet is of a complete run with a device for each rank: the table has no others."""
    groups: dict[tuple[str, ...], list[Values]] = {}
    for sheet in sheets:
        values = sheet_values(sheet)
        if values.get("status") == "complete" and values.get("device_share") in (None, 1) and values.get(SPEED):
            groups.setdefault(tuple(str(values.get(name)) for name in GROUP), []).append(values)
    if not groups:
        raise UserError("--format flagperf: expected complete runs with throughput, a device for each rank, found none")
    return "\n".join(map(_section, groups.values()))


def _section(runs: Sequence[Values]) -> str:
    first = runs[0]
    vendor, device, framework, model, precision = (_plain(first.get(name)) for name in GROUP)
    version = first.get(f"version_{'torch' if framework == 'pytorch' else framework}") or first.get("version_llmperf")
    rows = "\n".join(f"| {' | '.join(_row(values))} |" for values in runs)
    text = Path(__file__).with_name("section.md").read_text(encoding="utf-8")
    return text.format(vendor=vendor, device=device, framework=FRAMEWORKS.get(framework, framework),
                       version=_plain(version), model=model, precision=precision, rows=rows)  # fmt: skip


def _row(values: Values) -> Sequence[str]:
    degrees = {name: int(values.get(f"{name}_parallel") or 1) for name in ("tensor", "pipeline", "data")}
    parallel = f"TP{degrees['tensor']}PP{degrees['pipeline']}DP{degrees['data']}"
    if stage := values.get("sharding_stage"):
        parallel = f"TP{degrees['tensor']}PP{degrees['pipeline']}SH{stage}SP{values.get('sharding_degree')}"
    names = {"LBS": "micro_batch", "MPE": "seq_len", "GAS": "gradient_accumulation", "GBS": "global_batch"}
    changes = ",".join(f"{short}={values[name]}" for short, name in names.items() if values.get(name))
    used, total = values.get("device_memory_used_bytes"), values.get("device_memory_total_bytes")
    memory = f"{float(used) / GIB:.1f}/{float(total) / GIB:.0f}" if used and total else "/"
    loss, mfu, speed = (values.get(name) for name in ("final_loss", "mfu_nominal", SPEED))
    machine = f"{_plain(values.get('device_model'))} ({values.get('nodes')}x{values.get('devices_per_node')})"
    return (
        *(machine, parallel, changes, f"{float(speed or 0):.1f}"),
        *("/" if loss is None else f"{loss:.3f}", memory, "/" if mfu is None else f"{100 * float(mfu):.1f}%"),
    )


def _plain(value: object) -> str:
    return "/" if value is None else markdown_text(str(value))
