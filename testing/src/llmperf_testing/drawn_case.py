"""The case that the kit trains, drawn from a seed: no framework can know it, and the seed repeats it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from llmperf.types import Plan
from numpy.typing import NDArray

LARGEST_SEED = 999_999_999
DATASETS = ("books", "encyclopedia", "forum", "letters", "manuals", "news", "papers", "stories")
SENTENCES = 400
WORDS = (
    *("amber", "basket", "copper", "dolphin", "engine", "feather", "garden", "hammer", "island", "jacket", "kettle"),
    *("lantern", "marble", "needle", "orchard", "pepper", "quarry", "ribbon", "saddle", "thunder", "umbrella"),
    *("velvet", "window", "yellow", "zephyr"),
)
MICRO_BATCHES = ((1, 4), (2, 2), (2, 4), (4, 2))
"""Micro batch and micro steps of two data-parallel ranks: at least two, so that leaving one out shows."""
LEARNING_RATES = ("1e-3", "1.5e-3", "2e-3")
"""High enough for the loss to fall by a fifth in twelve steps. From 4e-3 on, some contracts are chaotic once their text
is nearly learnt: rounding to float32 alone changed losses by up to 8.5e-3 nats within eleven steps."""
ALPHABET = 24
"""Ids that are drawn: so few that the loss falls again."""
MODEL = Path(__file__).with_name("drawn_model.toml").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCase:
    """A model, a text and a contract, all functions of one seed."""

    seed: int
    """The seed they were drawn from."""
    model: str
    """The model's file, as TOML."""
    model_name: str
    """The model's name."""
    text: str
    """The training data: one sentence over and over, which any model learns within a few steps."""
    settings: tuple[str, ...]
    """`PATH=VALUE` of the contract, without model and data."""
    late_tokens_from: int
    """The step, early, from which the kit draws tokens: new text amplifies rounding of a model that has learnt."""


def drawn_case(seed: int) -> DrawnCase:
    """The case of a seed."""
    draw = random.Random(f"llmperf check-plugin {seed}")
    micro_batch, micro_steps = draw.choice(MICRO_BATCHES)
    steps = draw.randint(12, 18)
    name = f"llama_{draw.choice(WORDS)}"
    hidden, vocabulary, layers = draw.choice((64, 96)), draw.choice((320, 448, 512)), draw.choice((2, 4))
    intermediate = draw.choice((128, 160, 192))
    model = MODEL.format(
        name=name,
        nominal=2 * vocabulary * hidden + layers * hidden * (3 * hidden + 3 * intermediate),
        vocabulary=vocabulary,
        hidden=hidden,
        intermediate=intermediate,
        layers=layers,
    )
    settings = (
        f"dataset={draw.choice(DATASETS)}-{draw.randint(1, 99)}",
        f"seed={draw.randint(1, 9_999)}",
        f"seq_len={draw.choice((32, 48, 64, 80))}",
        f"global_batch={2 * micro_batch * micro_steps}",
        f"micro_batch={micro_batch}",
        f"steps={steps}",
        f"warmup_steps={draw.randint(1, 3)}",
        f"lr={draw.choice(LEARNING_RATES)}",
    )
    return DrawnCase(
        seed=seed,
        model=model,
        model_name=name,
        text=f"{' '.join(draw.sample(WORDS, 7))}. " * SENTENCES,
        settings=settings,
        late_tokens_from=draw.randint(2, 3),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTokens:
    """Tokens that the kit draws while the ranks train: what nobody knows before the step, nobody computes before."""

    seed: int
    """The kit's."""
    first_step: int
    """The first step that has them."""

    def micro_batch(self, plan: Plan, rank: int, index: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Micro batch `index`, from 0, of a data-parallel rank: the plan's `rows`, or others of that shape."""
        if index < (self.first_step - 1) * plan.batch.gradient_accumulation:
            return rows
        place = rank * 2**32 + index
        words = np.random.Philox(key=np.array([self.seed, place], dtype=np.uint64)).random_raw(rows.size)
        return (words % min(ALPHABET, plan.spec.model.vocab_size)).astype(rows.dtype).reshape(rows.shape)
