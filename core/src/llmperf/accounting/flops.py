"""FLOPs of one trained token under the five conventions that MFU figures are published in, and MFU.

One multiply-add is two FLOPs. A weight in a matrix product costs 2 in the forward pass, 2 for the gradient of
its input and 2 for its own gradient (Kaplan et al. 2020, table 1). Attention over a sequence of S costs 4 H S
a layer forward (scores and weighted values, no half saved by the causal mask) and 8 H S backward (Chowdhery
et al. 2022, PaLM, appendix B). A frozen weight needs no gradient: 4 FLOPs instead of 6.

Padded records have fewer than S tokens, and only these are counted. Attention over S would credit each of them with
work on padding, so every convention leaves attention out for padded contracts: a lower bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llmperf.accounting.parameters import ParameterCount, count_parameters, lora_parameters
from llmperf.hookspecs import hookimpl
from llmperf.types import Contract, FlopCount, FlopsPerToken, Model, PeakFlops, Tuning, Workload
from llmperf.types.result import Mfu

if TYPE_CHECKING:
    from llmperf.plugins.loading import Plugins
    from llmperf.types import FlopCount, Model, Workload

HEADLINE = "nominal"
"""The convention of the published tables."""
PADDED = "attention, and all work on padding: the tokens of each record are not known"
ELEMENTWISE = "element-wise work: norms, softmax, positions, activations, residuals, loss, optimiser"


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
    """The FLOP count of a loaded extension, otherwise of the core; `counted_by` names the owner.

    To repeat the count of a document, load the plugins it names with `plugins_for` and compare `counted_by`: if it
    differs, the extension that counted is not installed here, and the figures cannot be checked.

    PluginError if an extension fails.
    """
    count, owner = plugins.first_answer("llmperf_count_flops", FlopCount, model=model, workload=workload)
    return replace(count, counted_by=owner.name)


def count_flops(model: Model, workload: Workload) -> FlopCount:
    """FLOPs per trained token of `model` under every convention; `nominal` is the headline."""
    count = count_parameters(model)
    per_token = (
        _nominal(count, model, workload),
        _exact(count, model, workload),
        _palm(count, model, workload),
        _causal(count, model, workload),
        _hfu(count, model, workload),
    )
    return FlopCount(
        parameters=count.total,
        embedding_parameters=count.looked_up,
        nominal_parameters=model.nominal_parameters,
        per_token=per_token,
    )


def utilisation(
    flops: FlopCount,
    tokens_per_second_per_device: float | None,
    peak: PeakFlops | None,
    share: float,
    measured: float | None = None,
) -> tuple[Mfu, ...]:
    """MFU under every convention: token/p/s x FLOPs per token / (peak x share).

    `share` is the part of one probed device that one rank has; `tokens_per_second_per_device` and the `measured` peak
    are of a rank. The value is None without a peak or a throughput: there is no default for either. Chowdhery et al.
    2022, appendix B.
    """
    available = None if peak is None else peak.flops_per_second * share
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
        )
        for entry in flops.per_token
    )


def _value(flops_per_token: float, throughput: float | None, available: float | None) -> float | None:
    if throughput is None or not available:
        return None
    return throughput * flops_per_token / available


def attention_forward(model: Model, workload: Workload) -> int:
    """FLOPs per token of all layers' attention scores and weighted values: forward, all of S x S; 0 if padded."""
    return 0 if workload.padded else 4 * model.layers * model.hidden_size * workload.seq_len


def _nominal(count: ParameterCount, model: Model, workload: Workload) -> FlopsPerToken:
    factor, size = _weight_factor(workload), model.nominal_parameters
    left_out = [_attention_text(12, model, workload)]
    if count.total > size:
        left_out.insert(0, f"parameters beyond the nominal size: {factor} x {count.total - size:,}")
    if workload.lora_parameters is not None:
        left_out.append(f"adapters: 6 x {workload.lora_parameters:,}")
    return FlopsPerToken(
        convention="nominal",
        flops=factor * size,
        formula=f"{factor} x {size:,}{_frozen_note(workload)}",
        leaves_out=(*left_out, *_recompute(workload), ELEMENTWISE),
    )


def _exact(count: ParameterCount, model: Model, workload: Workload) -> FlopsPerToken:
    flops, formula = _weights(count.total, workload)
    return FlopsPerToken(
        convention="exact",
        flops=flops,
        formula=formula + _frozen_note(workload),
        leaves_out=(_attention_text(12, model, workload), *_recompute(workload), ELEMENTWISE),
    )


def _palm(count: ParameterCount, model: Model, workload: Workload) -> FlopsPerToken:
    flops, formula = _weights(count.total, workload)
    return FlopsPerToken(
        convention="palm",
        flops=flops + 3 * attention_forward(model, workload),
        formula=f"{formula}{_added_attention(12, model, workload)}{_frozen_note(workload)}",
        leaves_out=(*_padded(workload), *_recompute(workload), ELEMENTWISE),
    )


def _causal(count: ParameterCount, model: Model, workload: Workload) -> FlopsPerToken:
    shown = f"({count.total:,} - {count.looked_up:,})"
    flops, formula = _weights(count.total - count.looked_up, workload, shown)
    half = f"the masked half of attention, where a kernel computes it: {_product(6, model, workload)}"
    return FlopsPerToken(
        convention="causal",
        flops=flops + 3 * attention_forward(model, workload) / 2,
        formula=f"{formula}{_added_attention(6, model, workload)}{_frozen_note(workload)}",
        leaves_out=(*(_padded(workload) or (half,)), *_recompute(workload), ELEMENTWISE),
    )


def _hfu(count: ParameterCount, model: Model, workload: Workload) -> FlopsPerToken:
    forwards = workload.recomputed_share if workload.gradient_checkpointing else 0
    flops, formula = _weights(count.total, workload, extra=2 * forwards)
    note = f"; {_recomputed_text(forwards, model, workload)} recomputed"
    return FlopsPerToken(
        convention="hfu",
        flops=flops + (3 + forwards) * attention_forward(model, workload),
        formula=f"{formula}{_added_attention(12 + 4 * forwards, model, workload)}{_frozen_note(workload)}{note}",
        leaves_out=(*_padded(workload), ELEMENTWISE),
    )


def _recomputed_text(forwards: float, model: Model, workload: Workload) -> str:
    if not forwards:
        return "only element-wise work" if workload.gradient_checkpointing else "nothing"
    part = f" of {round(forwards * model.layers)} of {model.layers} blocks" if forwards != 1 else ""
    return f"the forward{part}"


def _padded(workload: Workload) -> tuple[str, ...]:
    return (PADDED,) if workload.padded else ()


def _added_attention(factor: float, model: Model, workload: Workload) -> str:
    return "" if workload.padded else f" + {_product(factor, model, workload)}"


def _weight_factor(workload: Workload) -> int:
    return 6 if workload.lora_parameters is None else 4


def _weights(size: int, workload: Workload, shown: str | None = None, extra: float = 0) -> tuple[float, str]:
    factor = _weight_factor(workload) + extra
    flops, text = factor * size, f"{factor:g} x {shown or f'{size:,}'}"
    if workload.lora_parameters is not None:
        flops += (6 + extra) * workload.lora_parameters
        text += f" + {6 + extra:g} x {workload.lora_parameters:,}"
    return flops, text


def _product(factor: float, model: Model, workload: Workload) -> str:
    return f"{factor:g} x {model.layers} x {model.hidden_size:,} x {workload.seq_len:,}"


def _attention_text(factor: int, model: Model, workload: Workload) -> str:
    return PADDED if workload.padded else f"attention scores and values: {_product(factor, model, workload)}"


def _frozen_note(workload: Workload) -> str:
    return "" if workload.lora_parameters is None else "; frozen weights take no gradient"


def _recompute(workload: Workload) -> tuple[str, ...]:
    recomputed = workload.gradient_checkpointing and workload.recomputed_share
    return ("the forward recomputed by gradient checkpointing",) if recomputed else ()


@hookimpl(trylast=True)
def llmperf_count_flops(model: Model, workload: Workload) -> FlopCount | None:
    """The core's own count, used when no extension answers."""
    return count_flops(model, workload)
