"""From a configuration to a case file: what has a meaning here, what was assumed, and what has none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from llmperf.errors import UserError, unknown

from llmperf_flagperf.configuration import Configuration, Value

FRAMEWORKS = {
    "deepspeed": "zero",
    "deepspeed-torch": "zero",
    "megatron-deepspeed": "megatron_deepspeed",
    "megatron": "megatron_core",
    "flagscale": "megatron_core",
    "paddle": "paddle",
    "pytorch": "pytorch",
}
"""FlagPerf's frameworks and those that train the same way here. FlagScale drives Megatron-Core."""
DEVICES = {"A10040G": "A100-SXM4-40GB", "A10080G": "A100-SXM4-80GB", "A100": "A100-SXM4-80GB", "R300P": "R300"}
"""FlagPerf's short names that are no prefix of one device of a vendor."""
PLACES = re.compile(r"(?:TP\d+)?(?:PP\d+)?(?:SH\d+)?(?:SP\d+)?(.*)")
"""Layouts stand before the device in names such as config_TP2PP1SH2SP4A10080Gx1x8.py."""


def _number(value: Value) -> Value:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value else None


def _whole(value: Value) -> Value:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _stage(value: Value) -> Value:
    found = re.fullmatch(r"(?:stage)?([0-3])", str(value))
    return int(found[1]) if found else None


def _precision(value: Value) -> Value:
    return value if value in ("fp32", "tf32", "bf16", "fp16") else None


def _schedule(value: Value) -> Value:
    return value if value in ("cosine", "constant") else None


def _flag(value: Value) -> Value:
    return bool(value) if value in (0, 1) else None


MEANINGS: dict[str, tuple[str, Callable[[Value], Value]]] = {
    **dict.fromkeys(("seqlength", "seq_length", "max_seq_length"), ("contract.seq_len", _whole)),
    **dict.fromkeys(("gbs", "global_batch_size"), ("contract.global_batch", _whole)),
    **dict.fromkeys(("max_steps", "train_steps", "steps"), ("contract.steps", _whole)),
    "precision": ("contract.precision", _precision),
    "seed": ("contract.seed", _whole),
    **dict.fromkeys(("learning_rate", "lr"), ("contract.optimizer.lr", _number)),
    "min_learning_rate": ("contract.optimizer.min_lr", _number),
    "weight_decay": ("contract.optimizer.weight_decay", _number),
    "adam_beta1": ("contract.optimizer.beta1", _number),
    "adam_beta2": ("contract.optimizer.beta2", _number),
    **dict.fromkeys(("adam_epsilon", "adam_eps"), ("contract.optimizer.eps", _number)),
    "max_grad_norm": ("contract.optimizer.clip_norm", _number),
    "lr_scheduler_type": ("contract.optimizer.schedule", _schedule),
    **dict.fromkeys(("warmup_steps", "warmup"), ("contract.optimizer.warmup_steps", _whole)),
    **dict.fromkeys(
        ("batchsize", "localbs", "train_batch_size", "per_device_train_batch_size", "batch_size_training"),
        ("tuning.micro_batch", _whole),
    ),
    **dict.fromkeys(("accumulate_steps", "gradient_accumulation_steps"), ("tuning.gradient_accumulation", _whole)),
    **dict.fromkeys(("tensor_parallel", "tensor_parallel_degree"), ("tuning.tensor_parallel", _whole)),
    **dict.fromkeys(("pipeline_parallel", "pipeline_parallel_degree"), ("tuning.pipeline_parallel", _whole)),
    "virtual_pp_degree": ("tuning.virtual_stages", _whole),
    "sharding": ("tuning.sharding_stage", _stage),
    "sharding_parallel_degree": ("tuning.sharding_degree", _whole),
    "recompute": ("tuning.gradient_checkpointing", _flag),
}
"""FlagPerf's name -> the setting here, and what reads its value; None for a value that has no meaning here."""
FLAGS = ("fp16", "use_fp16", "bf16", "use_flash_attention", "flashattn", "use_fused_rms_norm")
"""Read beside MEANINGS."""
PEAKS = ("theoryflops", "theory_flops", "flops")
"""The peak of a device that FlagPerf computes MFU with; for a case it has no meaning."""
ASSUMED = {
    "contract.steps": 30,
    "contract.optimizer.lr": 3e-4,
    "tuning.gradient_accumulation": 1,
    "tuning.tensor_parallel": 1,
    "tuning.pipeline_parallel": 1,
    "tuning.micro_batch": 1,
}
"""What a case needs and a configuration may leave out. Each that was taken is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case file, and what became of the configuration."""

    name: str
    text: str
    machine: str
    """For `--on`: DEVICE:NODESxDEVICES."""
    assumed: tuple[str, ...]
    """`setting=value` of what the configuration leaves out."""
    meaningless: tuple[str, ...]
    """Names of the configuration that have no meaning here."""
    stated_peak: float | None


STATED: dict[str, tuple[str, Callable[[str], Value]]] = {
    "contract.precision": ("precision", _precision),
    "contract.seq_len": ("sequence_length", lambda text: int(text) if text.isdecimal() else None),
}
"""What a user may state of a configuration that leaves it out: FlagPerf has it in scripts."""


def case_of(configuration: Configuration, models: Collection[str], stated: Mapping[str, str | None]) -> Case:
    """The case of a configuration; UserError for a model, a framework or a sequence length that is not known."""
    values, path = configuration.values, configuration.path
    model = _model(configuration, models)
    framework = "lora" if values.get("use_peft") is True else FRAMEWORKS.get(configuration.framework)
    if framework is None:
        raise unknown(f"{path}", "framework", configuration.framework, sorted(FRAMEWORKS))
    settings: dict[str, Any] = {}
    used: set[str] = set()
    for name, value in values.items():
        where, read = MEANINGS.get(name, ("", _number))
        if where and where not in settings and (meant := read(value)) is not None:
            settings[where] = meant
            used.add(name)
    for name in FLAGS:
        if not values.get(name):
            continue
        used.add(name)
        if name.endswith("16"):
            settings.setdefault("contract.precision", name[-4:])
        elif name == "use_fused_rms_norm":
            settings["tuning.fused_ops"] = ["rms_norm"]
        else:
            settings["tuning.attention"] = "flash"
    said: dict[str, Any] = {}
    for needed, (option, read_text) in STATED.items():
        if needed not in settings and not (found := read_text(stated.get(option) or "")):
            advice = f"; state it: --{option.replace('_', '-')}" if option in stated else ""
            lacking = f"expected a value of {needed}, found none in the configuration or beside it"
            raise UserError(f"{path}: {lacking}{advice}")
        if needed not in settings:
            said[needed] = found
    settings |= said
    taken = {where: value for where, value in ASSUMED.items() if where not in settings}
    settings = taken | settings
    ranks = configuration.nodes * configuration.devices
    split = settings["tuning.tensor_parallel"] * settings["tuning.pipeline_parallel"]
    if ranks % split:
        raise UserError(f"{path}: expected a multiple of {split} ranks, tensor x pipeline parallel, found {ranks}")
    each = settings["tuning.micro_batch"] * (ranks // split)
    if "contract.global_batch" not in settings:
        settings["contract.global_batch"] = each * settings["tuning.gradient_accumulation"]
    elif settings["contract.global_batch"] % each == 0:
        settings["tuning.gradient_accumulation"] = settings["contract.global_batch"] // each
        taken.pop("tuning.gradient_accumulation", None)
    else:
        batch = settings["contract.global_batch"]
        raise UserError(f"{path}: expected a global batch that is a multiple of {each} sequences, found {batch}")
    if framework == "zero":
        settings.setdefault("tuning.sharding_stage", 0)
    if not settings.get("tuning.sharding_stage"):
        settings.pop("tuning.sharding_degree", None)
    if framework == "lora":
        taken["contract.lora.rank"] = settings["contract.lora.rank"] = 8
    if configuration.nodes > 1:
        settings["tuning.nodes"] = configuration.nodes
    settings |= {"tuning.devices": configuration.devices, "tuning.framework": framework, "contract.model": model}
    settings |= {"contract.dataset": "synthetic", "contract.warmup_steps": min(5, settings["contract.steps"] - 1)}
    assumed = (*(f"{where}={value}" for where, value in {**said, **taken}.items()), "contract.dataset=synthetic")
    meaningless = tuple(sorted({*values, *configuration.unread} - used - set(PEAKS)))
    peaks = [float(value) for name in PEAKS if isinstance(value := values.get(name), (int, float)) and value > 1e9]
    device = PLACES.fullmatch(configuration.device)
    short = device[1] if device else configuration.device
    name = re.sub(r"\W", "_", f"{configuration.model}_{configuration.framework}_{path.stem.removeprefix('config_')}")
    return Case(
        name=name.lower(),
        text=_toml(name.lower(), configuration, settings, assumed),
        machine=f"{DEVICES.get(short.upper(), short)}:{configuration.nodes}x{configuration.devices}",
        assumed=assumed,
        meaningless=meaningless,
        stated_peak=peaks[0] if peaks else None,
    )


def _model(configuration: Configuration, models: Collection[str]) -> str:
    """The name here of a model of FlagPerf, such as llama3_8b of llama3_8B_continuetrain."""
    wanted = re.sub(r"[^a-z0-9]", "", re.sub(r"_?(continuetrain|finetune)$", "", configuration.model).lower())
    plain = {re.sub(r"[^a-z0-9]", "", name): name for name in models}
    near = [name for short, name in plain.items() if short == wanted or short.startswith(wanted + "a")]
    if len(near) != 1:
        raise unknown(f"{configuration.path}", "model", configuration.model, sorted(models))
    return near[0]


def _toml(name: str, configuration: Configuration, settings: Mapping[str, Any], assumed: tuple[str, ...]) -> str:
    place = "/".join(configuration.path.resolve().parts[-4:])
    described = f"From a configuration of FlagPerf. It does not say, and these were taken: {', '.join(assumed)}."
    title = f"{configuration.model}, {configuration.framework}, on {configuration.nodes}x{configuration.devices}"
    head = {"name": name, "title": f"{title} {configuration.device}", "description": described}
    lines = [f"{key} = {_value(value)}" for key, value in {**head, "source": f"FlagPerf, training/{place}"}.items()]
    for table in ("contract", "tuning"):
        lines += ["", f"[{table}]"]
        lines += [f"{where.removeprefix(table + '.')} = {_value(value)}" for where, value in sorted(settings.items())
                  if where.startswith(f"{table}.")]  # fmt: skip
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)
