"""FLOPs per token of published rows: by every convention whose inputs are known, and what the others lack."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from llmperf.accounting import (
    attention_shapes,
    flops_by,
    known_conventions,
    lora_parameters,
    mixture_layers,
    shared_width,
)
from llmperf.errors import UserError, unknown
from llmperf.types import Lora, Model, Workload
from llmperf.validation import flops_of, known_case, known_model

from llmperf_published.reading.markdown import normal
from llmperf_published.types.document import Published, PublishedRow

WITHOUT_LENGTH = ("nominal", "exact")
"""They leave attention out, so that the length of a sequence does not enter."""
_FROZEN = re.compile(r"(?<![a-z])(?:frozen|freez(?:e|es|ing))(?![a-z])|冻结")
_ADAPTERS = re.compile(r"(?<![a-z])q?lora(?![a-z])")
_FIRST_TRAINING = re.compile(r"pre-?train|预训练")
_CHECKPOINTING = "tuning.gradient_checkpointing"


@dataclass(frozen=True, slots=True)
class RowFlops:
    """FLOPs per token of a row's model, as far as its facts are known."""

    known: dict[str, float]
    """By convention; empty where the model or the way it is trained is unknown."""
    least: float = 0.0
    """By no convention is it less, whatever the sequence length."""
    recomputed: float | None = None
    """By `hfu`, were the forward recomputed; None where that is counted already, or is known not to be so."""
    length_known: bool = True
    frozen: bool = False
    """Part of the model is not trained, so that the backward pass is shorter by an unknown amount."""
    adapters: bool = False
    """Only adapters are trained."""
    problem: str = ""
    """The reason why the adapters that were stated cannot be counted."""


def model_of(published: Published, row: PublishedRow) -> Model | None:
    """The facts of a row's model: those of the library, otherwise those that the importer added."""
    if row.model is None:
        return None
    own = published.own.models if published.own else ()
    return known_model(row.model) or next((one.model for one in own if one.model.name == row.model), None)


def adapters_passed(model: Model, lora: Lora) -> int:
    """Parameters of the adapters that a token passes; UserError for a target that the model does not have.

    `gate_proj`, `up_proj` and `down_proj` are those of dense layers and of shared experts, `experts` the three of each
    routed expert, of which a token passes `top_k`.
    """
    mixture, hidden, inner = model.mixture, model.hidden_size, model.intermediate_size
    if mixture is None:
        projections = tuple(name for name in lora.target_modules if name != "experts")
        return lora_parameters(model, replace(lora, target_modules=projections))
    with_experts = len(mixture_layers(model))
    own = [name for name in lora.target_modules if name in attention_shapes(model)]
    dense = [name for name in lora.target_modules if name in ("gate_proj", "up_proj", "down_proj")]
    if odd := set(lora.target_modules) - {*own, *dense, "experts"}:
        raise unknown("lora.target_modules", "projection", min(odd), [*attention_shapes(model), "experts"])
    shared = shared_width(model)
    each = model.dense_layers * (hidden + inner) + (with_experts * (hidden + shared) if shared else 0)
    routed = with_experts * 3 * mixture.top_k * (hidden + mixture.expert_width)
    attention = lora_parameters(model, replace(lora, target_modules=tuple(own)))
    return attention + lora.rank * (len(dense) * each + ("experts" in lora.target_modules) * routed)


def row_flops(published: Published, row: PublishedRow) -> RowFlops:
    """The sequence length is what the row or its document prints."""
    model = model_of(published, row)
    case = known_case(row.case) if row.case else None
    lora = None if case is None else case.contract.lora
    if model is None or (row.lora is None and (row.framework == "lora") != (lora is not None)):
        return RowFlops({})
    try:
        adapters = adapters_passed(model, row.lora) if row.lora else lora_parameters(model, lora) if lora else None
    except UserError as error:
        return RowFlops({}, problem=str(error))

    def counted(seq_len: int, recomputed: bool) -> dict[str, float]:
        count = flops_of(model, adapters, seq_len=seq_len, gradient_checkpointing=recomputed)
        if count is None:
            return {}
        work = Workload(seq_len=seq_len, gradient_checkpointing=recomputed, lora_parameters=adapters)
        others = (one for one in known_conventions().values() if not one.in_results)
        known = {entry.convention: float(entry.flops) for entry in count.per_token}
        return known | {one.name: flops_by(one, model, work).flops for one in others}

    stated = next((bool(change.value) for change in row.fix_hp if change.path == _CHECKPOINTING), None)
    recomputed = stated if stated is not None else case is not None and case.tuning.gradient_checkpointing
    length = row.batch.seq_len
    table = published.tables[row.table] if row.table in range(len(published.tables)) else None
    cells = table.rows[row.row].cells if table and row.row in range(len(table.rows)) else ()  # also of unknown columns
    texts = (table and table.heading, row.group, row.hardware.configuration, row.model_text, *cells)
    words = normal(" ".join(text for text in texts if text)).lower()
    frozen = bool(_FROZEN.search(words) or (model.stated_parts and _FIRST_TRAINING.search(words)))
    known = counted(length or 1, recomputed)
    if not known or (adapters is None and _ADAPTERS.search(words)):  # of adapters that no case describes
        return RowFlops({})
    least = min(counted(1, False).values())
    if length is None:
        return RowFlops(
            {name: known[name] for name in WITHOUT_LENGTH},
            least,
            length_known=False,
            frozen=frozen,
            adapters=bool(adapters),
        )
    other = None if recomputed or stated is not None else counted(length, True)["hfu"]
    return RowFlops(known, least, other, frozen=frozen, adapters=bool(adapters))
