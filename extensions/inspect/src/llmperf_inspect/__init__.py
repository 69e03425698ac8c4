"""llmperf extension `inspect`: commands that show cases, models, plugins and devices, and what is missing here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf_inspect.model_file import model_text as model_text

__all__, __getattr__ = lazily(globals())
