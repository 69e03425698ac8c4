"""The model's answers: of A, B, C, D the one it holds the likeliest to come next."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

import torch

from llmperf_lora.mmlu.prompts import Prompt

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
