"""How a published row was run beside its layout, as far as its document says."""

from __future__ import annotations

from llmperf_published.reading.settings import truth
from llmperf_published.reading.vocabulary import meaning
from llmperf_published.types.document import PublishedRow

IN_LAYOUT = ("tensor_parallel", "pipeline_parallel", "data_parallel", "sharding_stage", "sharding_degree")
"""Settings that the text of the layout has."""


def stated_tuning(row: PublishedRow) -> dict[str, str]:
    """Settings by their names in `tuning`; those that the row does not say are absent."""
    known: dict[str, str] = {}
    for printed, text in row.options.items():
        name, switch = meaning(printed), truth(text)
        if name == "gradient_checkpointing" and switch is not None:
            known[name] = _text(switch)
        elif name == "attention" and (switch or "flash" in text.lower()):
            known[name] = "flash"
        elif name == "fused_rms_norm" and switch is not None:
            known["fused_ops"] = "rms_norm" if switch else "none"
    for change in row.fix_hp:
        group, _, name = change.path.partition(".")
        if group == "tuning" and name not in IN_LAYOUT:
            known[name] = _text(change.value)
    guessed = guessed_settings(row)
    for name in ("micro_batch", "gradient_accumulation"):
        value = getattr(row.batch, name)
        if value is not None and name not in guessed:
            known[name] = str(value)
    return known


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or "none"


def guessed_settings(row: PublishedRow) -> tuple[str, ...]:
    """Names of batch settings that hold only if the degrees that the document does not print are 1."""
    origins = row.batch.origins
    if row.parallelism.tensor_parallel and row.parallelism.pipeline_parallel:
        return ()
    if not origins.get("data_parallel", "").startswith("nodes x devices"):
        return ()
    computed = origins.get("global_batch", "").endswith("x data parallel")
    return ("data_parallel", "global_batch") if computed else ("data_parallel",)
