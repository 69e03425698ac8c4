"""The learning rate as a pure function of the step: the core's, which frameworks without torch share."""

from __future__ import annotations

from llmperf import learning_rate

__all__ = ["learning_rate"]
