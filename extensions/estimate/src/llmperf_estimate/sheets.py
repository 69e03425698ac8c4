"""An estimate as a sheet, so that reports show it beside measured and published runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from llmperf.reporting import AMOUNT, PERCENT, THROUGHPUT, contract_parts, devices, layout, model_text, settings
from llmperf.types import Finding, Row, Section, Sheet, Source, Text

from llmperf_estimate.text import facts
from llmperf_estimate.types import Estimate

COSTS = ("cost_per_million_tokens", "train_device_hours", "train_seconds", "train_cost")


def estimate_sheets(
    estimate: Estimate, path: Path, findings: Sequence[Finding] = (), foreword: tuple[str, ...] = ()
) -> list[Sheet]:
    """The sheet of one estimate."""
    spec, device = estimate.spec, estimate.device_model
    where = devices(estimate.layout.nodes, estimate.layout.devices_per_node, device, 1.0)
    rows = tuple(Row(key="", label=name, value=value) for name, value in facts(estimate))  # what the command prints
    return [
        Sheet(
            name=path.stem,
            title=f"{spec.model.title} by {spec.tuning.framework}: {where}",
            source=Source(kind="estimate", path=path, document=estimate),
            overview=tuple(_overview(estimate, where, path)),
            sections=lambda: (
                Section(key="estimate", title="Estimate", rows=rows, card=card) for card in (True, False)
            ),
            findings=tuple(findings),
            contract=contract_parts(spec),
            setting={"device": device, "framework": spec.tuning.framework, "layout": layout(estimate.layout)},
            measured=False,
            foreword=foreword,
        )
    ]


def _overview(estimate: Estimate, where: str, path: Path) -> Iterator[Row]:
    spec, error = estimate.spec, estimate.expected_error
    named, framework = model_text(spec.model.name, spec.contract.lora is not None), spec.tuning.framework
    mfu = next((mfu.value for mfu in estimate.mfu if mfu.headline), None)
    memory = max(stage.total_bytes for stage in estimate.memory)
    sure = Text("estimated")
    if estimate.time_problem is not None:
        sure = Text("estimated: {}", estimate.time_problem)
    elif error is not None:
        sure = Text("estimated +-{}", f"{error.throughput_largest:.0%}")
    yield Row(key="model", label="model", value=named)
    yield Row(key="case", label="case", value=spec.case)
    part = Row(key="device_model", label="device", value=estimate.device_model)
    yield Row(key="device", label="device", value=None, text=where, parts=(part,))
    yield Row(key="layout", label="layout", value=framework, text=f"{framework} {layout(estimate.layout)}")
    speed = estimate.tokens_per_second_per_device
    yield Row(key="tokens_per_second_per_device", label="token/p/s", value=speed, rounding=THROUGHPUT)
    if speed is not None and error is not None:
        least, most = error.throughputs(speed)
        yield Row(key="tokens_per_second_least", label="", value=least)
        yield Row(key="tokens_per_second_most", label="", value=most if most < inf else None)
    yield Row(key="mfu_nominal", label="MFU (nominal)", value=mfu, rounding=PERCENT)
    yield Row(key="device_memory", label="mem, GiB", value=memory, text=f"{memory / 2**30:.1f}")
    yield Row(key="fix_hp", label="fix_hp", value=settings((change.path, change.value) for change in spec.changes))
    yield Row(key="status", label="status", value="estimated", text=sure, own_words=True)
    yield Row(key="run_id", label="run", value=path.stem)
    yield Row(key="provenance", label="provenance", value="estimated", own_words=True)
    yield Row(key="vendor", label="vendor", value=estimate.vendor)
    if (cost := estimate.cost) is not None:
        units = {"train_device_hours": "h", "train_seconds": "s"}
        for key in COSTS:
            unit = units.get(key, cost.price_currency or "")
            rounding = replace(AMOUNT, divisor=86400) if key == "train_seconds" else AMOUNT
            yield Row(key=key, label=key.replace("_", " "), value=getattr(cost, key), unit=unit, rounding=rounding)
