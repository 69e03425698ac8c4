"""Formulas of steps with compiled blocks and in fp8: what is joined or cast shows in the bytes."""

from __future__ import annotations

from collections import Counter

import pytest
from llmperf.estimating.analytic import analytic_trace
from llmperf.planning.build import plan_only
from llmperf.planning.states import Request


def moved(compiles: bool, precision: str = "bf16", model: str = "qwen3_8b") -> Counter[str]:
    """Bytes of a micro batch by kind of operation."""
    settings = (f"precision={precision}", f"model={model}", f"compile={str(compiles).lower()}", "sharding_stage=2")
    plan = plan_only(
        Request(
            case="default",
            on="H100-SXM5-80GB:1x8",
            settings=(*settings, "framework=pytorch", "seq_len=4096", "global_batch=16", "micro_batch=2"),
        )
    ).plan
    totals: Counter[str] = Counter()
    for operation in analytic_trace(plan, 0).operations:
        totals[operation.kind] += operation.bytes * operation.per_micro_batch
    return totals


@pytest.mark.parametrize("model", ["llama3_8b", "qwen3_8b", "gemma3_12b"])
def test_a_compiler_saves_traffic_of_norms_residuals_and_positions_alone(model):
    separate, compiled = moved(False, model=model), moved(True, model=model)
    joined = ("norm", "elementwise", "rope")
    assert sum(compiled[kind] for kind in joined) < 0.85 * sum(separate[kind] for kind in joined)
    assert {kind: size for kind, size in compiled.items() if kind not in (*joined, "activation")} == {
        kind: size for kind, size in separate.items() if kind not in (*joined, "activation")
    }
    assert compiled["activation"] <= separate["activation"]


@pytest.mark.parametrize(("precision", "least"), [("fp8_tensorwise", 5), ("fp8_rowwise", 9)])
def test_casts_to_fp8_cost_a_fraction_when_compiled(precision, least):
    plain = moved(True)["copy"]
    separate, compiled = (moved(compiles, precision)["copy"] - plain for compiles in (False, True))
    assert separate > least * compiled > 0
