"""FLOPs per token of published rows: by every convention whose inputs are known, and what the others lack."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.types import Workload
from llmperf.validation.rules.shipped import shipped_case, shipped_model

from llmperf_published.types.document import PublishedRow

CONVENTIONS = ("nominal", "exact", "palm", "causal", "hfu")
WITHOUT_LENGTH = ("nominal", "exact")
"""They leave attention out, so that the length of a sequence does not enter."""
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

    def unknown(self, low: float, high: float) -> str | None:
        """Why FLOPs per token within these bounds, which no known convention gives, are not wrong for certain."""
        if self.recomputed is not None and low <= self.recomputed <= high:
            return "it would be that of hfu with the forward recomputed, which is not said"
        return "the sequence length is not known" if not self.length_known and high >= self.least else None


def row_flops(row: PublishedRow) -> RowFlops:
    """The sequence length is the one that the row or its document prints; the model's facts are the library's."""
    from llmperf.accounting.flops import count_flops
    from llmperf.accounting.parameters import lora_parameters
    from llmperf.errors import UserError

    model = shipped_model(row.model) if row.model else None
    case = shipped_case(row.case) if row.case else None
    lora = None if case is None else case.contract.lora
    if model is None or (row.framework == "lora") != (lora is not None):
        return RowFlops({})
    try:
        adapters = None if lora is None else lora_parameters(model, lora)
    except UserError:
        return RowFlops({})

    def counted(seq_len: int, recomputed: bool) -> dict[str, float]:
        workload = Workload(seq_len=seq_len, gradient_checkpointing=recomputed, lora_parameters=adapters)
        found = count_flops(model, workload)
        return {name: float(found.of(name).flops) for name in CONVENTIONS}

    said = next((bool(one.value) for one in row.fix_hp if one.path == _CHECKPOINTING), None)
    recomputed = said if said is not None else case is not None and case.tuning.gradient_checkpointing
    length = row.batch.seq_len
    known, least = counted(length or 1, recomputed), min(counted(1, False).values())
    if length is None:
        return RowFlops({name: known[name] for name in WITHOUT_LENGTH}, least, length_known=False)
    other = None if recomputed or said is not None else counted(length, True)["hfu"]
    return RowFlops(known, least, other)
