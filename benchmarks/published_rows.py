"""The published rows as requests of `llmperf estimate`, with their figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from llmperf.files import json_files
from llmperf.files.user_files import read_toml
from llmperf.planning.states import Request, Selection, Site
from llmperf_published.types.document import Published
from llmperf_published.types.document import PublishedRow as Row

HELD_OUT = Path(__file__).with_name("held_out_rows.toml")
PUBLISHED = Path(__file__).parents[1] / "extensions/published/src/llmperf_published/data"
MODELS = {"H800": "H800", "R300": "R300"}
"""Part of a printed device name, and the model that `--on` takes; others are A100 by their memory."""
NETWORK_BYTES_PER_SECOND = 25e9
"""All documents print `InfiniBand, 200Gb/s` for a node."""
EXTRA = {("llama2_7b_lora_a100", 64): ("precision=tf32",)}
"""Line 64 says fp32, but is four times faster than the fp32 peak of an A100 allows."""


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """One row of a published table."""

    document: str
    line: int
    request: Request
    throughput: float | None
    """token/p/s."""
    memory_gib: tuple[float, ...]
    """Memory of each pipeline stage, or one for all; empty if it is not printed or not compared."""
    network_bytes_per_second: float = NETWORK_BYTES_PER_SECOND
    """Network bandwidth of each node."""
    bandwidth_share: float = 1.0
    """Memory bandwidth of the row's devices as a share of the model's."""
    power_share: float = 1.0
    """Power limit of the row's devices as a share of the model's."""
    fitted: bool = True
    """True if it is part of the fit."""

    @property
    def name(self) -> str:
        """Short, for tables."""
        return f"{self.document}:{self.line}"


def published_rows() -> Iterator[PublishedRow]:
    """All rows of the repository's published documents."""
    for path in sorted(PUBLISHED.glob("*/published.json")):
        document = json_files.load(path, Published)
        for row in document.rows:
            yield _published_row(path.parent.name, row)


def held_out_rows() -> Iterator[PublishedRow]:
    """Published throughput, and memory, on devices that nothing was fitted to."""
    for document, table in read_toml(HELD_OUT).items():
        for number, row in enumerate(table["rows"], 1):
            request = Request(Selection(row["case"], settings=tuple(row["settings"])), Site(on=row["on"]))
            network = row.get("network_gbit", NETWORK_BYTES_PER_SECOND * 8e-9) * 1e9 / 8
            bandwidth, datasheet = table.get("memory_gb_per_second", (1, 1))
            watts, rated_watts = table.get("power_watts", (1, 1))
            throughput = row.get("throughput")
            yield PublishedRow(
                document=document,
                line=number,
                request=request,
                throughput=None if throughput is None else float(throughput),
                memory_gib=(row["memory_gib"],) if "memory_gib" in row else (),
                network_bytes_per_second=network,
                bandwidth_share=bandwidth / datasheet,
                power_share=watts / rated_watts,
                fitted=False,
            )


def _published_row(document: str, row: Row) -> PublishedRow:
    metrics = row.metrics
    assert row.case is not None
    assert metrics.memory is not None
    throughput = metrics.tokens_per_second_per_device
    settings = (*_settings(row), *EXTRA.get((document, row.line), ()))
    hardware = row.hardware
    printed = hardware.device_model or ""
    model = next((model for part, model in MODELS.items() if part in printed), None)
    model = model or ("A100-SXM4-80GB" if hardware.device_memory == 80 else "A100-SXM4-40GB")
    return PublishedRow(
        document=document,
        line=row.line,
        request=Request(
            Selection(row.case, settings=settings), Site(on=f"{model}:{hardware.nodes}x{hardware.devices_per_node}")
        ),
        throughput=None if throughput is None else throughput.value,
        memory_gib=tuple(used.each.value for used in metrics.memory.used if used.each.value is not None),
    )


def _settings(row: Row) -> Iterator[str]:
    """Settings that the row changes, without the accumulation, which follows from the global batch."""
    for change in row.fix_hp:
        if change.path == "tuning.gradient_accumulation":
            continue
        value = "[]" if change.value == "" else str(change.value).lower()
        yield f"{change.path}={value}"
