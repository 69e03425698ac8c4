"""The core's own FLOP count, which answers after any extension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.hookspecs import hookimpl

if TYPE_CHECKING:
    from llmperf.types import FlopCount, Model, Workload


@hookimpl(trylast=True)
def llmperf_count_flops(model: Model, workload: Workload) -> FlopCount | None:
    """The five conventions of the core."""
    from llmperf.accounting.flops import count_flops

    return count_flops(model, workload)
