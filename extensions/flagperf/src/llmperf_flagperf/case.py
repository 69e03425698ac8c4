"""From a configuration to a case file: what has a meaning here, what was assumed, and what has none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from llmperf import read_toml
from llmperf.errors import UserError, unknown

from llmperf_flagperf.configuration import Configuration, Value

PLACES = re.compile(r"(?:TP\d+)?(?:PP\d+)?(?:SH\d+)?(?:SP\d+)?(.*)")
"""Layouts stand before the device in names such as config_TP2PP1SH2SP4A10080Gx1x8.py."""


def _one_of(*choices: Value) -> Callable[[Value], Value]:
    return lambda value: value if value in choices else None


READERS: Mapping[str, Callable[[Value], Value]] = {
    "number": lambda value: value if type(value) in (int, float) and value == value else None,
    "whole": lambda value: value if type(value) is int and value > 0 else None,
    "stage": lambda value: int(str(value)[-1]) if re.fullmatch(r"(?:stage)?[0-3]", str(value)) else None,
    "precision": _one_of("fp32", "tf32", "bf16", "fp16"),
    "schedule": _one_of("cosine", "constant"),
    "flag": lambda value: bool(value) if value in (0, 1) else None,
}
"""The value of a setting here, by the kind of value there; None for a value that has no meaning here."""


@cache
def names(part: str) -> Mapping[str, Any]:
    """A part of `names.toml`."""
    table: Mapping[str, Any] = read_toml(Path(__file__).with_name("names.toml"))[part]
    return table


@cache
def meanings() -> Mapping[str, tuple[str, Callable[[Value], Value]]]:
    """FlagPerf's name -> the setting here, and what reads its value."""
    settings = [(where, *text.split()) for where, text in names("settings").items()]
    return {name: (where, READERS[kind]) for where, kind, *given in settings for name in given}


FLAGS = ("fp16", "use_fp16", "bf16", "use_flash_attention", "flashattn", "use_fused_rms_norm")
"""Read beside the settings."""
PEAKS = ("theoryflops", "theory_flops", "flops")
"""The peak of a device that FlagPerf computes MFU with; for a case it has no meaning."""


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
    "contract.precision": ("precision", READERS["precision"]),
    "contract.seq_len": ("sequence_length", lambda text: int(text) if text.isdecimal() else None),
}
"""What a user may state of a configuration that leaves it out: FlagPerf has it in scripts."""


def case_of(configuration: Configuration, models: Collection[str], stated: Mapping[str, str | None]) -> Case:
    """The case of a configuration; UserError for a model, a framework or a sequence length that is not known."""
    values, path = configuration.values, configuration.path
    model = _model(configuration, models)
    framework = "lora" if values.get("use_peft") is True else names("frameworks").get(configuration.framework)
    if framework is None:
        raise unknown(f"{path}", "framework", configuration.framework, sorted(names("frameworks")))
    settings: dict[str, Any] = {}
    used: set[str] = set()
    for name, value in values.items():
        where, read = meanings().get(name, ("", READERS["number"]))
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
    taken = {where: value for where, value in names("assumed").items() if where not in settings}
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
    layout = PLACES.fullmatch(configuration.device)
    short = layout[1] if layout else configuration.device
    device = names("devices").get(short.upper(), short)
    name = re.sub(r"\W", "_", f"{configuration.model}_{configuration.framework}_{path.stem.removeprefix('config_')}")
    text = _toml(name.lower(), configuration, settings, assumed)
    machine = f"{device}:{configuration.nodes}x{configuration.devices}"
    return Case(name=name.lower(), text=text, machine=machine, assumed=assumed, meaningless=meaningless,
                stated_peak=peaks[0] if peaks else None)  # fmt: skip


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
    lines = [f"{key} = {json.dumps(value)}" for key, value in {**head, "source": f"FlagPerf, training/{place}"}.items()]
    for table in ("contract", "tuning"):
        lines += ["", f"[{table}]"]
        inside = sorted((where, value) for where, value in settings.items() if where.startswith(f"{table}."))
        lines += [f"{where.removeprefix(table + '.')} = {json.dumps(value)}" for where, value in inside]
    return "\n".join(lines) + "\n"
