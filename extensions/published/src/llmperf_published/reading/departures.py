"""What a row changes: in the case it is on or, without a case, in its document's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from llmperf.accounting.batch import settle
from llmperf.accounting.layout import data_parallel_of
from llmperf.types.spec import Case, Change, Scalar

from llmperf_published.types.document import PublishedBatch, PublishedHardware, PublishedLayout


@dataclass(frozen=True)
class Said:
    """What a row is known to have been run with."""

    batch: PublishedBatch
    layout: PublishedLayout
    hardware: PublishedHardware
    free: Mapping[str, Scalar]
    """Path to value of all else: `contract.precision`, `tuning.attention`, ..."""


def paths_of(said: Said) -> dict[str, Scalar]:
    """Path, as `--set` takes it, to value; what is not known is left out."""
    batch, layout, hardware = said.batch, said.layout, said.hardware
    found: dict[str, Scalar | None] = {
        "contract.seq_len": batch.seq_len,
        "contract.global_batch": batch.global_batch,
        "tuning.micro_batch": batch.micro_batch,
        "tuning.gradient_accumulation": batch.gradient_accumulation,
        "tuning.nodes": hardware.nodes,
        "tuning.devices": hardware.devices_per_node,
        "tuning.tensor_parallel": layout.tensor_parallel,
        "tuning.pipeline_parallel": layout.pipeline_parallel,
        "tuning.sharding_stage": layout.sharding_stage,
        **said.free,
    }
    return {path: value for path, value in found.items() if value is not None}


def departures(said: Said, case: Case | None, defaults: Mapping[str, Scalar]) -> tuple[Change, ...]:
    """What differs from the case or, without one, from the document's defaults."""
    here = paths_of(said)
    before: Mapping[str, Any] = defaults if case is None else _settings_of(case)
    origins = said.batch.origins
    return tuple(
        Change(path=path, case_value=before[path], value=value, origin=origins.get(path.rpartition(".")[2], "document"))
        for path, value in sorted(here.items())
        if path in before and before[path] != value
    )


def _settings_of(case: Case) -> dict[str, Scalar | None]:
    contract, tuning = case.contract, case.tuning
    settled = settle(contract, tuning, data_parallel_of(tuning), set())
    tuning = replace(tuning, gradient_accumulation=settled.gradient_accumulation)
    names = "seq_len global_batch precision dataset steps seed"
    found = {f"contract.{name}": getattr(contract, name) for name in names.split()}
    names = (
        "micro_batch gradient_accumulation nodes devices tensor_parallel pipeline_parallel sharding_stage"
        " gradient_checkpointing attention"
    )
    found |= {f"tuning.{name}": getattr(tuning, name) for name in names.split()}
    return found | {"tuning.fused_ops": ", ".join(tuning.fused_ops)}
