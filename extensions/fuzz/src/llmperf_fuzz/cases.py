"""Settings to cases: the model and contract that they mean, on several ranks and on one."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Literal, NamedTuple

import llmperf
from llmperf.types import Case, Contract, Model, Optimizer, Tuning
from llmperf_inspect import model_text

from llmperf_fuzz.drawing import Settings

NAME, SOURCE = "fuzzed", "drawn by llmperf fuzz"
"""Name of drawn models and cases, and their source."""
ABOUT: dict[str, Any] = {"name": NAME, "title": "Fuzzed", "description": SOURCE, "source": SOURCE}
OPTIMIZER = {"lr": 3e-3, "eps": 1e-6}
"""AdamW's epsilon is above the rounding of gradients, so that no update depends on the sign of that rounding."""
ALWAYS = ("dataset", "seq_len", "global_batch", "precision", "steps", "warmup_steps", "seed", "micro_batch",
          "sharding_stage", "optimizer.lr", "optimizer.eps")  # fmt: skip
"""Settings in which the case `default` may differ from the defaults of contracts."""


class DrawnCase(NamedTuple):
    """A case on some ranks; the same contract on one, the whole batch in one pass, other tuning as by default."""

    model: Model
    layout: Case
    alone: Case


def templates() -> dict[str, Model]:
    """The model of each family with the fewest facts of its own, by name, the plainest family first."""
    shelf, plainest = llmperf.library(), dict[str, Model]()

    def facts(model: Model) -> tuple[int, str]:
        return len(model_text(replace(model, name="", title="", source=""))), model.name

    for name in shelf.paths("models"):
        model = shelf.model(name)
        if not model.multi_token_layers and facts(model) <= facts(plainest.get(model.family, model)):
            plainest[model.family] = model
    return {model.name: model for model in sorted(plainest.values(), key=facts)}


def model_of(settings: Settings, template: Model) -> Model:
    """The small model of these settings; UserError if its facts contradict one another."""
    chosen = {name: value for name, value in _below("model.", settings).items() if value is not None}
    heads, layers = chosen["attention_heads"], chosen["layers"]
    facts: dict[str, Any] = {"kv_heads": heads, "head_width": None if template.head_width is None else 16, **chosen}
    if template.latent is not None:
        q_rank = None if template.latent.q_rank is None else 24
        widths = {"kv_rank": 16, "rope_width": 8, "nope_width": 8, "value_width": 16}
        facts |= {"head_width": None, "kv_heads": heads, "latent": replace(template.latent, q_rank=q_rank, **widths)}
    if template.window is not None:
        facts |= {"window": 8, "window_pattern": template.window_pattern[:layers]}
    if template.mixture is not None:
        chosen = {name: value for name, value in _below("model.mixture.", settings).items() if value is not None}
        mixture = replace(template.mixture, shared_width=None, **chosen)
        groups, dense = min(2, mixture.groups), min(mixture.dense_layers, layers - 1)
        gate = mixture.shared_gate and mixture.shared_experts > 0
        facts["mixture"] = replace(mixture, shared_gate=gate, dense_layers=dense, groups=groups, top_groups=groups)
    facts |= {"name": NAME, "title": "Fuzzed", "source": f"{SOURCE}, shaped as {template.name}", "stated_parts": ()}
    model: Model = replace(template, **facts, max_positions=1024)
    count = llmperf.count_parameters(model)
    active = None if model.mixture is None else count.total - count.idle_experts - count.idle_others
    model = replace(model, nominal_parameters=count.total, nominal_active_parameters=active)
    llmperf.check_model(model, NAME)
    return model


def case_of(
    settings: Settings, template: Model, framework: str, reference: str, seed: int, stage: Literal[0, 1, 2, 3] = 0
) -> DrawnCase:
    """The case of these settings; UserError if the facts of its model contradict one another."""
    tuning, options = _below("tuning.", settings), _below("framework.", settings)
    ways = tuning["tensor_parallel"] * tuning["pipeline_parallel"] * tuning["context_parallel"]
    batch = tuning["micro_batch"] * tuning["gradient_accumulation"] * max(1, tuning["devices"] // ways)
    given = {"dataset": "synthetic", "warmup_steps": 0, "global_batch": batch, **_below("contract.", settings)}
    optimizer = Optimizer(**{**OPTIMIZER, **_below("contract.optimizer.", settings)})
    contract = Contract(**{"seed": seed, **given}, model=NAME, optimizer=optimizer)
    alone = Tuning(framework=reference, micro_batch=contract.global_batch, sharding_stage=stage)
    layout = Case(**ABOUT, contract=contract, tuning=Tuning(framework=framework, **tuning), framework=options)
    model, shared = model_of(settings, template), options if framework == reference else {}
    return DrawnCase(model, layout, Case(**ABOUT, contract=contract, tuning=alone, framework=shared))


def _below(prefix: str, settings: Settings) -> dict[str, Any]:
    """The settings directly below a prefix, by the rest of their paths."""
    parts = {path.removeprefix(prefix): value for path, value in settings.items() if path.startswith(prefix)}
    return {name: value for name, value in parts.items() if "." not in name}


def options_of(case: Case, model_file: str) -> list[str]:
    """The words by which a user runs a case, of the model in a file, as a variant of `llmperf run default`."""
    texts: dict[str, Any] = {"model": model_file}
    for prefix, part in (("", case.contract), ("optimizer.", case.contract.optimizer), ("", case.tuning)):
        for field in fields(part):
            name, value = f"{prefix}{field.name}", getattr(part, field.name)
            if name in ALWAYS or (
                value != field.default and name not in ("model", "optimizer", "framework", "devices")
            ):
                texts[name] = value
    texts |= {f"framework.{name}": value for name, value in case.framework.items()}
    words = ["run", "default", "--framework", case.tuning.framework, "--devices", str(case.tuning.devices)]
    for name, value in texts.items():
        text = "none" if value is None else value if isinstance(value, str) else repr(value).lower()
        words += ["--set", f"{name}={text}"]
    return words
