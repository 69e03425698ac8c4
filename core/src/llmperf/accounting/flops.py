"""FLOPs of one trained token under the conventions that MFU figures are published in, and MFU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, get_args

from llmperf.accounting.counting import flops_by, known_conventions
from llmperf.accounting.parameters import count_parameters, lora_parameters
from llmperf.errors import UserError
from llmperf.hookspecs import hookimpl
from llmperf.types import Contract, FlopCount, FlopsPerToken, Model, PeakFlops, Tuning, Workload
from llmperf.types.flop_counts import ConventionName, Mfu, WeightedPeak

if TYPE_CHECKING:
    from llmperf.plugins.loading import Plugins

HEADLINE = "nominal"
"""The convention of the published tables."""
NO_ATTENTION = frozenset(
    ["bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "lfm2", "mamba", "mamba2", "nemotron_h",
     "recurrent_gemma", "retnet", "rwkv", "xlstm", "zamba", "zamba2"]
)  # fmt: skip
"""Families of state-space, recurrent and hybrid models, as transformers names them."""


def workload_of(model: Model, contract: Contract, tuning: Tuning) -> Workload:
    """The facts besides the model that FLOPs depend on; UserError for adapters on modules that the model lacks."""
    return Workload(
        seq_len=contract.seq_len,
        gradient_checkpointing=tuning.gradient_checkpointing,
        recomputed_share=recomputed_share(model, tuning),
        padded=contract.packing == "padded",
        lora_parameters=None if contract.lora is None else lora_parameters(model, contract.lora),
    )


def recomputed_share(model: Model, tuning: Tuning) -> float:
    """The share of the blocks whose matrix products gradient checkpointing computes again.

    Block 1 of every `recompute_every` is recomputed in each pipeline stage; by `recompute = operations` no products.
    """
    if tuning.recompute == "operations":
        return 0
    stages = tuning.pipeline_parallel * tuning.virtual_stages
    here = max(1, model.layers // stages)
    every = tuning.recompute_every
    return 1 if every == 1 else -(-here // every) / here


def flops_of(plugins: Plugins, model: Model, workload: Workload) -> FlopCount:
    """The FLOP count of a loaded extension, otherwise of the core; `counted_by` names the owner."""
    count, owner = plugins.first_answer("llmperf_count_flops", FlopCount, model=model, workload=workload)
    return replace(count, counted_by=owner.name)


def count_flops(model: Model, workload: Workload) -> FlopCount:
    """FLOPs per trained token of `model` under the conventions of results, `windowed` only of models with windows.

    UserError for a family whose layers are no attention: the facts of a model have no place for their sizes.
    """
    if model.family in NO_ATTENTION and model.counted is None:
        expected = "expected a transformer with attention in every layer, or an extension that counts the model"
        raise UserError(f"model {model.name}: family: {expected}, found {model.family!r}")
    count = count_parameters(model)
    per_token = []
    for name in get_args(ConventionName):
        if name == "windowed" and not model.windowed_layers:
            continue
        counted = flops_by(known_conventions()[name], model, workload)
        per_token.append(
            FlopsPerToken(convention=name, flops=counted.flops, formula=counted.formula, leaves_out=counted.leaves_out)
        )
    return FlopCount(
        parameters=count.total,
        active_parameters=count.active,
        embedding_parameters=count.looked_up,
        nominal_parameters=model.nominal_parameters,
        per_token=tuple(per_token),
    )


def utilisation(
    flops: FlopCount,
    tokens_per_second_per_device: float | None,
    peak: PeakFlops | None,
    share: float,
    measured: float | None = None,
    weighted: Mapping[str, WeightedPeak] = MappingProxyType({}),
) -> tuple[Mfu, ...]:
    """MFU under every convention: token/p/s x FLOPs per token / (peak x share).

    `share` is the part of one probed device that one rank has; `tokens_per_second_per_device`, the `measured` peak and
    `weighted` peaks, by convention, are of a rank. The value is None without a
    peak or a throughput: there is no default for either. Chowdhery et al. 2022, appendix B.
    """
    available = None if peak is None else peak.flops_per_second * share
    weighted_flops = {convention: peak.flops_per_second for convention, peak in weighted.items()}
    return tuple(
        Mfu(
            convention=entry.convention,
            headline=entry.convention == HEADLINE,
            flops_per_token=entry.flops,
            formula=entry.formula,
            leaves_out=entry.leaves_out,
            peak_flops_per_second=available,
            peak_dtype=None if peak is None else peak.dtype,
            peak_source=None if peak is None else peak.source,
            peak_confidence=None if peak is None else peak.confidence,
            peak_date=None if peak is None else peak.date,
            counted_by=flops.counted_by,
            value=_value(entry.flops, tokens_per_second_per_device, available),
            of_measured_peak=_value(entry.flops, tokens_per_second_per_device, measured),
            weighted_peak=weighted.get(entry.convention),
            of_weighted_peak=_value(entry.flops, tokens_per_second_per_device, weighted_flops.get(entry.convention)),
        )
        for entry in flops.per_token
    )


def _value(flops_per_token: float, throughput: float | None, available: float | None) -> float | None:
    if throughput is None or not available:
        return None
    return throughput * flops_per_token / available


@hookimpl(trylast=True)
def llmperf_count_flops(model: Model, workload: Workload) -> FlopCount | None:
    """The core's own count, used when no extension answers."""
    return count_flops(model, workload)
