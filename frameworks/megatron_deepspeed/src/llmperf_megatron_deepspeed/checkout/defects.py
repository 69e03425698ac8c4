"""Defects of some versions of the checkout, recognised by their source text: runs that would fail are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from llmperf.types import Problem

if TYPE_CHECKING:
    from llmperf.types import Layout, RunSpec

THIRDS = ("megatron/model/transformer.py", "mixed_x_layer.shape[-1] // 3")
"""Queries, keys and values are taken to be equally wide (since commit 676a482c)."""

ROTARY_LIST = ("megatron/model/rotary_pos_embedding.py", "rope = [base.cos(), base.sin()]")
"""The rotary embedding gives cosines and sines in a list (since commit 676a482c)."""

PIPELINE_TENSOR = ("megatron/utils.py", "(seq_length).to(")
"""The pipeline takes that list for a tensor, and fails (upstream issue 456)."""

ANGLE_TWICE = ("megatron/model/transformer.py", "query_layer = apply_rotary_pos_emb(query_layer, q_pos_emb)")
"""Attention takes the cosines for angles, and rotates by these."""

NEAREST = "the nearest that does is commit 6acc370a, or --set framework.engine=builtin"

WRONG_ANGLES = (
    "this checkout rotates queries and keys by the cosine of the angle, not by the angle (since commit 676a482c):"
    " the same work, but another model, whose losses are not comparable"
)


def defect_problems(home: Path, spec: RunSpec, layout: Layout) -> Iterator[Problem]:
    """Defects of this checkout that affect this run."""
    if spec.model.kv_heads != spec.model.attention_heads and _has(home, THIRDS):
        message = f"this checkout trains no grouped keys: expected {spec.model.attention_heads} key/value heads,"
        where = "model.kv_heads"
        yield Problem(
            code="megatron_deepspeed.checkout",
            where=where,
            message=f"{message} {spec.model.name} has {spec.model.kv_heads}; {NEAREST}",
        )
    if layout.pipeline_parallel > 1 and _has(home, ROTARY_LIST) and _has(home, PIPELINE_TENSOR):
        message = f"this checkout has no rotary positions in a pipeline: expected 1, found {layout.pipeline_parallel}"
        yield Problem(
            code="megatron_deepspeed.pipeline_parallel",
            where="tuning.pipeline_parallel",
            message=f"{message}; {NEAREST}",
        )


def defect_notes(home: Path) -> tuple[str, ...]:
    """Notes for the result on what this checkout computes wrongly."""
    return (WRONG_ANGLES,) if _has(home, ROTARY_LIST) and _has(home, ANGLE_TWICE) else ()


def _has(home: Path, mark: tuple[str, str]) -> bool:
    name, text = mark
    try:
        return text in (home / name).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
