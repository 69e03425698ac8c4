"""Evaluation after the measured window: saves adapters, measures MMLU without and with them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from llmperf_pytorch.processes import own_rank

from llmperf_lora.adapters import save_adapters
from llmperf_lora.options import Options, read_options

if TYPE_CHECKING:
    from llmperf.types import Plan
    from peft import PeftModel

FOLDER = "adapter"


class Afterwards(ABC):
    """For a trainer of adapters: `evaluate()` runs after its last step, when time and memory are on record."""

    _plan: Plan
    _device: torch.device
    _adapted: PeftModel

    @abstractmethod
    def _logits(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits [batch, tokens, vocab_size] of ids [batch, tokens]; all ranks call it equally often."""

    @abstractmethod
    def _whole_adapters(self) -> AbstractContextManager[object]:
        """While it is entered, this rank has the adapters whole."""

    def evaluate(self) -> Iterator[Mapping[str, float]]:
        """Accuracies `mmlu_before`, `mmlu_after` and `.../subject`; nothing where no MMLU was asked for."""
        options = read_options(self._plan.spec)
        if options.save_adapter:
            self._save(options)
        yield {}
        if options.mmlu is not None:
            self._adapted.eval()
            yield from self._mmlu(options)
            self._adapted.train()  # steps may follow, of which a trace is kept

    def _save(self, options: Options) -> None:
        with self._whole_adapters():
            if own_rank() == 0:
                folder = Path(os.environ["LLMPERF_RUN_DIR"]) / FOLDER
                save_adapters(self._adapted, folder, options.base_weights)

    def _mmlu(self, options: Options) -> Iterator[Mapping[str, float]]:
        """The frozen weights without adapters are the model before training: B was 0, and they have not changed."""
        from llmperf_lora.mmlu.prompts import read_prompts
        from llmperf_lora.mmlu.scoring import Ranks, answers, figures

        spec = self._plan.spec
        prompts = read_prompts(options, spec.data.tokenizer, spec.model)
        ranks = Ranks(own_rank(), self._plan.layout.world_size)
        for name, switched in (("mmlu_before", self._adapted.disable_adapter), ("mmlu_after", nullcontext)):
            with switched():
                given = yield from answers(self._logits, prompts, options.mmlu_batch, self._device, ranks)
            yield figures(name, prompts, given)
