"""Settings of random cases: the values that each may have, the draw for a seed, and simpler cases."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

Settings = Mapping[str, Any]
"""A value for every path of a space."""
SIMPLE, MIXTURES, STEPS = 0.6, 0.4, 3
"""Probability that a setting has its simplest value, so that a case departs from the simplest one in a few settings;
probability of a mixture of experts, if dense models are possible too; steps of a case."""
OFTEN = ("tuning.gradient_accumulation", "tuning.sequence_parallel", "tuning.sharding_stage")
"""Settings of which each value is as probable as the next: faults of layouts show with them."""
VALUES: dict[str, tuple[Any, ...]] = {
    "model.layers": (2, 1, 3, 4), "model.hidden_size": (32, 48, 64), "model.attention_heads": (2, 4, 3, 6, 5),
    "model.kv_heads": (None, 2, 1, 3), "model.head_width": (None, 16, 8, 32), "model.intermediate_size": (64, 96, 100),
    "model.vocab_size": (512, 640, 515), "model.tied_embeddings": (None, True, False),
    "model.qk_norm": (None, "none", "head"),
    "model.attention_bias": (None, (), ("q", "k", "v"), ("q", "k", "v", "o")),
    "model.mixture.experts": (4, 8, 6), "model.mixture.top_k": (2, 1, 3), "model.mixture.expert_width": (32, 48),
    "model.mixture.shared_experts": (None, 0, 1, 2), "model.mixture.normalized_scores": (None, True, False),
    "contract.seq_len": (32, 16, 48), "contract.precision": ("fp32", "bf16"),
    "contract.routing": ("learned", "balanced", "skewed"), "contract.optimizer.clip_norm": (1.0, None, 0.1),
    "contract.optimizer.weight_decay": (0.1, 0.0), "contract.optimizer.schedule": ("constant", "cosine"),
    "tuning.sequence_parallel": (False, True), "tuning.sharding_stage": (0, 1, 2, 3),
    "tuning.gradient_checkpointing": (False, True), "tuning.recompute": ("block", "operations"),
    "tuning.recompute_every": (1, 2), "tuning.pipeline_schedule": ("1f1b", "interleaved", "zero_bubble"),
    "tuning.virtual_stages": (1, 2), "tuning.micro_batch": (1, 2, 3), "tuning.gradient_accumulation": (1, 2, 3, 4),
    "tuning.accumulation_dtype": ("auto", "fp32"), "tuning.attention": ("auto", "eager", "sdpa"),
}  # fmt: skip
"""The simplest first. A fact of the model that is None: as in the published model of its family, but as many key heads
as query heads, and heads that share the hidden size or are 16 wide."""
SIZES = ("model.layers", "model.attention_heads", "model.kv_heads", "model.intermediate_size", "model.vocab_size")
WAYS = ("tuning.tensor_parallel", "tuning.pipeline_parallel", "tuning.context_parallel")
EXPERTS, RANKS = "tuning.expert_parallel", "tuning.devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The values of every setting, the simplest first; those of a smaller case come before those of a larger one."""

    values: Mapping[str, tuple[Any, ...]]
    mixtures: frozenset[str] = frozenset()
    """Values of `model` that are mixtures of experts."""

    @classmethod
    def of(cls, models: Mapping[str, bool], devices: int, fixed: Settings) -> Space:
        """The space of some published models, of which true ones are mixtures; `fixed` settings have one value."""
        parts = tuple(part for part in range(1, devices + 1) if devices % part == 0)
        values = {"contract.steps": (), "model": tuple(models), RANKS: parts[1:], **dict.fromkeys(WAYS, parts)}
        values |= {EXPERTS: parts, **VALUES, **{path: (value,) for path, value in fixed.items()}}
        values["contract.steps"] = tuple(range(1, fixed.get("contract.steps", STEPS) + 1))
        return cls(values=values, mixtures=frozenset(name for name in models if models[name]))

    def draw(self, source: random.Random) -> Settings:
        """Random settings, most of them simple; they need not be a case that can run."""
        drawn = {path: values[0] if path not in OFTEN and source.random() < SIMPLE else source.choice(values)
                 for path, values in self.values.items()}  # fmt: skip
        drawn["contract.steps"], models = self.values["contract.steps"][-1], self.values["model"]
        kind = source.choice(sorted(self.mixtures) or models) if source.random() < MIXTURES else models[0]
        drawn["model"] = self.draw_model(source, kind)
        drawn |= {path: self.values[path][0] for path in WAYS}
        free, left, data = [path for path in WAYS if len(self.values[path]) > 1], drawn[RANKS], 1
        for path in WAYS:
            left //= drawn[path]
        while left > 1:  # each prime factor of the ranks goes to one way to divide a model, or to data parallelism
            factor = next(part for part in range(2, left + 1) if left % part == 0)
            path, left = source.choice([*free, ""]), left // factor
            if path:
                drawn[path] *= factor
            else:
                data *= factor
        drawn[EXPERTS] = source.choice([part for part in self.values[EXPERTS] if data % part == 0] or [1])
        return self.fitted(drawn)

    def draw_model(self, source: random.Random, like: str) -> str:
        """A mixture if `like` is one, else a dense model; another model if there is none."""
        models = self.values["model"]
        alike = [one for one in models if (one in self.mixtures) == (like in self.mixtures)]
        return str(source.choice(alike or models))

    def without(self, model: str) -> Space:
        """The space without a model, unless there is no other."""
        rest = tuple(one for one in self.values["model"] if one != model)
        return replace(self, values={**self.values, "model": rest or (model,)})

    def mended(self, settings: Settings, refused: Collection[str]) -> Settings | None:
        """The settings with others for those for which a plan is refused; None if the published model is the reason."""
        away, simplest = self.departures(settings), {path: values[0] for path, values in self.values.items()}
        blamed = {path: [one for one in away if f"{one}.".startswith(f"{path}.")] for path in refused}
        if any(path.startswith("model.") and not found for path, found in blamed.items()):
            return None
        layout = any(path.startswith("tuning.") for path in refused)
        sizes, ways = [path for path in SIZES if layout], [path for path in away if path.startswith("tuning.")]
        others = {path: self.values[path][1] for path in refused if len(self.values.get(path, ())) > 1}
        for paths in (sizes, [one for found in blamed.values() for one in found], () if others else ways):
            if changed := {path: simplest[path] for path in paths if path in away}:
                return self.fitted({**settings, **changed})
        return self.fitted({**settings, **others}) if others else None

    def fitted(self, settings: Settings) -> Settings:
        """The same without settings that do nothing, so that two settings that mean the same case are equal."""
        value = dict(settings)
        dense, whole = value["model"] not in self.mixtures, not value["tuning.gradient_checkpointing"]
        idle = {
            "tuning.sequence_parallel": value["tuning.tensor_parallel"] == 1,
            "tuning.pipeline_schedule": value["tuning.pipeline_parallel"] == 1,
            **dict.fromkeys(("tuning.recompute", "tuning.recompute_every"), whole),
            **dict.fromkeys((EXPERTS, "contract.routing"), dense),
            **{path: dense for path in value if path.startswith("model.mixture.")},
        }
        value |= {path: self.values[path][0] for path, without in idle.items() if without}
        interleaved = value["tuning.pipeline_schedule"] == "interleaved"
        value["tuning.virtual_stages"] = self.values["tuning.virtual_stages"][-1 if interleaved else 0]
        return value

    def departures(self, settings: Settings) -> dict[str, Any]:
        """The settings that do not have their simplest value, without the number of steps."""
        return {path: value for path, value in settings.items()
                if path != "contract.steps" and value != self.values[path][0]}  # fmt: skip

    def simpler(self, settings: Settings) -> Iterator[Settings]:
        """Simpler cases: only the layout kept, only one departure kept, then each setting alone by earlier values."""
        away = self.departures(settings)
        for kept in ([path for path in away if path.startswith("tuning.")], *([path] for path in away)):
            simple = {path: self.values[path][0] for path in away if path not in kept}
            if len(simple) > 1:
                yield self.fitted({**settings, **simple})
        for path, value in settings.items():
            for earlier in self.values[path][: self.values[path].index(value)]:
                yield self.fitted({**settings, path: earlier})
