"""llmperf extension: runs compared with each other, ranked, aligned, and what a training costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llmperf_compare.loaded_results import load_results as load_results

__all__ = ["load_results"]


def __getattr__(name: str) -> Any:
    if name == "load_results":
        from llmperf_compare.loaded_results import load_results

        return load_results
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
