"""llmperf extension: runs compared with each other, ranked, aligned, and what a training costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf_compare.loaded_results import load_results as load_results

__all__, __getattr__ = lazily(globals())
