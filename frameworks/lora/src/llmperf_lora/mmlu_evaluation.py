"""Evaluation after the measured window: saves adapters; MMLU without and with them, by the likeliest letter"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from llmperf.types import Plan
from llmperf_torchkit.processes import own_rank
from peft import PeftModel

from llmperf_lora.adapters import save_adapters
from llmperf_lora.mmlu.prompts import Prompt, read_prompts
from llmperf_lora.options import read_options

Logits = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Ranks:
    """Who this rank is among how many."""

    own: int
    world: int


def answers(
    logits: Logits, prompts: Sequence[Prompt], batch: int, device: torch.device, ranks: Ranks
) -> Generator[Mapping[str, float], None, list[int]]:
    """The index of the letter given to each prompt; an empty mapping is yielded after each forward pass.

    Batches of prompts of like length are dealt out to the ranks. All make equally many passes, as sharded weights ask
    for: who has none left repeats the last.
    """
    by_length = sorted(range(len(prompts)), key=lambda one: len(prompts[one].ids))
    chunks = [by_length[start : start + batch] for start in range(0, len(by_length), batch)]
    found = torch.full((len(prompts),), -1, dtype=torch.int64, device=device)
    for first in range(0, len(chunks), ranks.world):
        chunk = chunks[min(first + ranks.own, len(chunks) - 1)]
        found[torch.tensor(chunk, device=device)] = _likeliest(logits, [prompts[one] for one in chunk], device)
        yield {}
    if ranks.world > 1:
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX)
    return found.tolist()


@torch.no_grad()
def _likeliest(logits: Logits, prompts: Sequence[Prompt], device: torch.device) -> torch.Tensor:
    """The letters of one batch, int64 [batch]. Rows are filled up at their end, which no token before attends to."""
    longest = max(len(prompt.ids) for prompt in prompts)
    ids = torch.zeros(len(prompts), longest, dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt.ids)] = torch.tensor(prompt.ids)
    last = torch.tensor([len(prompt.ids) - 1 for prompt in prompts], device=device)
    letters = torch.tensor([prompt.letters for prompt in prompts], device=device)
    rows = torch.arange(len(prompts), device=device)
    at_last = logits(ids.to(device))[rows, last].float()
    return at_last.gather(1, letters).argmax(dim=1)


def figures(name: str, prompts: Sequence[Prompt], given: Sequence[int]) -> dict[str, float]:
    """Share of right answers: `name` over all questions, `name/subject` for each subject."""
    right: dict[str, list[bool]] = {}
    for prompt, answer in zip(prompts, given, strict=True):
        right.setdefault(prompt.subject, []).append(answer == prompt.answer)
    every = [one for part in right.values() for one in part]
    parts = {f"{name}/{subject}": sum(part) / len(part) for subject, part in right.items()}
    return {name: sum(every) / len(every), **parts}


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
            with self._whole_adapters():
                if own_rank() == 0:
                    folder = Path(os.environ["LLMPERF_RUN_DIR"]) / FOLDER
                    save_adapters(self._adapted, folder, options.base_weights)
        yield {}
        if options.mmlu is not None:
            self._adapted.eval()
            spec = self._plan.spec
            prompts = read_prompts(options, spec.data.tokenizer, spec.model)
            # the frozen weights without adapters are the model before training: B was 0
            ranks = Ranks(own_rank(), self._plan.layout.world_size)
            for name, switched in (("mmlu_before", self._adapted.disable_adapter), ("mmlu_after", nullcontext)):
                with switched():
                    given = yield from answers(self._logits, prompts, options.mmlu_batch, self._device, ranks)
                yield figures(name, prompts, given)
            self._adapted.train()  # steps may follow, of which a trace is kept
