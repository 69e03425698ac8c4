"""Setup that the repeats of a run share: its contract, settings and machine, as rows and sections.

These are most of a sheet. A report of many results makes them once for all repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

from llmperf.files.json_files import ByValue, builtins
from llmperf.reporting import cells
from llmperf.reporting.cells import joined, number, routing_rows, shown, text_row
from llmperf.reporting.overview import model_text
from llmperf.reporting.safe_text import printable
from llmperf.types import OPTIONAL_SETTINGS, Result, Row, Section, Text, Tuning

DESCRIPTIONS = ("title", "source")
"""Fields of a model that only describe it."""


class Setup:
    """The rows and sections of one setup. Each is made when it is first used."""

    def __init__(self, result: Result) -> None:
        self._result = result

    @cached_property
    def contract(self) -> Mapping[str, str]:
        """The contract and the facts of the model by path, as text."""
        return contract_parts(self._result)

    @cached_property
    def setting(self) -> Mapping[str, str]:
        """Settings of the run, by English label."""
        return {row.label: shown(row) for row in _setting(self._result)}

    @cached_property
    def overview(self) -> Mapping[str, Row]:
        """Cells of a table of many runs, by key."""
        return {row.key: row for row in _overview(self._result)}

    @cached_property
    def card(self) -> tuple[Row, ...]:
        """Model, devices, framework and batch, as `llmperf run` shows them."""
        return tuple(_card(self._result))

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Environment, parallelism, optimisation, batch and general facts."""
        result = self._result
        return (*_environment(result), *_strategy(result), _batch(result), _general(result))

    @cached_property
    def changes(self) -> Section:
        """The changes from the case."""
        result = self._result
        records = tuple(
            (
                text_row("parameter", change.path),
                Row(key="case_value", label="in the case", value=change.case_value),
                Row(key="value", label="here", value=change.value),
                text_row("origin", change.origin, own_words=True),
            )
            for change in result.fix_hp
        )
        none = () if records else (text_row("", "/"),)
        return Section(key="fix_hp", title="Changes from the case (fix_hp)", records=records, rows=none)


_setups = ByValue[Setup]()


def setup_of(result: Result) -> Setup:
    """The setup of a result; one object for all results whose setups are equal."""
    of_case = (result.case, result.variant, result.status, result.provenance, result.fix_hp, result.contract)
    of_machine = (result.hardware, result.software, result.plugins)
    of_run = (result.model, result.parameters, result.tuning, result.parallelism, result.framework, result.batch)
    return _setups.get((of_case, of_machine, of_run), lambda: Setup(result))


def _overview(result: Result) -> Iterator[Row]:
    hardware, model = result.hardware, result.hardware.device_model + " (simulated)" * result.hardware.simulated
    devices = cells.devices(hardware.nodes, hardware.devices_per_node, model, hardware.device_share)
    framework = result.tuning.framework
    yield Row(key="model", label="model", value=result.model.name,
              text=model_text(result.model.name, result.contract.lora is not None))  # fmt: skip
    yield Row(
        key="case",
        label="case",
        value=result.case,
        text=Text("{} (variant)", result.case) if result.variant else result.case,
        own_words=result.variant,
    )
    yield Row(
        key="device",
        label="device",
        value=None,
        text=devices,
        parts=rows_of(hardware, ("device_model", "device_share")),
        own_words=True,
    )
    text = Text("{} {}", framework, cells.layout(result.parallelism))
    yield Row(key="layout", label="layout", value=framework, text=text, own_words=True, parts=_layout_rows(result))
    yield Row(key="fix_hp", label="fix_hp", value=cells.fix_hp(result.fix_hp))


def _layout_rows(result: Result) -> tuple[Row, ...]:
    layout, framework = result.parallelism, Row(key="framework", label="framework", value=result.tuning.framework)
    degrees = (
        Row(key=name, label=name.replace("_", " "), value=value)
        for name, value in builtins(layout).items()
        if isinstance(value, int) and name not in ("nodes", "devices_per_node")
    )
    return (framework, *degrees)


def _setting(result: Result) -> Iterator[Row]:
    """Settings that may differ between two runs of one contract, and explain why their figures do."""
    hardware = result.hardware
    model = f"{hardware.device_model}{' (simulated)' * hardware.simulated}"
    yield Row(key="device_model", label="device", value=printable(model))
    ranks = " ranks" * hardware.divided
    yield Row(key="", label="nodes x devices", value=f"{hardware.nodes} x {hardware.devices_per_node}{ranks}")
    yield Row(key="", label="share of a device per rank", value=hardware.device_share, rounding=cells.PERCENT)
    yield Row(key="framework", label="framework", value=printable(result.tuning.framework))
    yield Row(key="", label="layout", value=cells.layout(result.parallelism), own_words=True)
    tuning, batch = result.tuning, result.batch
    for name, text in {
        "micro_batch": str(batch.micro_batch),
        "gradient_accumulation": str(batch.gradient_accumulation),
        "gradient_checkpointing": cells.text(tuning.gradient_checkpointing),
        "attention": tuning.attention,
        "fused_ops": ", ".join(tuning.fused_ops) or "none",
        **_changed_settings(tuning),
        **{f"framework.{name}": cells.text(value) for name, value in result.framework.items()},
    }.items():
        yield Row(key=name, label=name, value=printable(text))


def contract_parts(result: Result) -> dict[str, str]:
    """The contract and the facts of the model by path, as text."""
    facts = {name: value for name, value in builtins(result.model).items() if name not in DESCRIPTIONS}
    return {**dict(_flat("", builtins(result.contract))), **dict(_flat("model.", facts))}


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each scalar by its path as text; equal numbers give equal text, whether they are whole or not."""
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from _flat(f"{prefix}{name}.", part)
            continue
        text = cells.text(int(part) if isinstance(part, float) and part.is_integer() and abs(part) < 1e15 else part)
        yield prefix + name, printable(text, len(text))


def _card(result: Result) -> Iterator[Row]:
    """Model, devices, framework, batch."""
    hardware, batch = result.hardware, result.batch
    parameters = Row(key="parameters", label="parameters", value=result.parameters, rounding=cells.WHOLE)
    yield Row(key="model", label="model", value=result.model.name,
              text=Text("{}, {} parameters", result.model.title, shown(parameters)), own_words=True,
              parts=(Row(key="model", label="model", value=result.model.name), parameters))  # fmt: skip
    names = ("vendor", "device_model", "device_share", "nodes", "devices_per_node")
    devices = f"{hardware.nodes} x {hardware.devices_per_node} {hardware.device_model}"
    devices = Text("{} (simulated)", devices) if hardware.simulated else devices
    if hardware.device_share != 1:
        devices = Text("{}, each rank with {} of one", devices, cells.percent(hardware.device_share))
    yield Row(key="devices", label="devices", value=None, text=devices, parts=rows_of(hardware, names), own_words=True)
    text = Text("{}, {}", result.tuning.framework, cells.layout(result.parallelism))
    yield Row(key="framework", label="framework", value=result.tuning.framework, parts=_layout_rows(result), text=text,
              own_words=True)  # fmt: skip
    names = ("micro_batch", "gradient_accumulation", "global_batch", "seq_len", "tokens_per_step")
    recipe = result.contract.precision + (" (fp8 emulated)" if result.emulated else "")
    precision = Row(key="precision", label="precision", value=result.contract.precision)
    text = Text(
        "{} micro x {} accumulated x {} data parallel = {} sequences of {} tokens, {}",
        *(batch.micro_batch, batch.gradient_accumulation, batch.data_parallel),
        *(batch.global_batch, batch.seq_len, recipe),
    )
    yield Row(key="batch", label="batch", value=None, text=text, own_words=True,
              parts=(*rows_of(batch, names), precision))  # fmt: skip


def rows_of(owner: object, names: Sequence[str]) -> tuple[Row, ...]:
    """A row for each named attribute."""
    return tuple(Row(key=name, label=name.replace("_", " "), value=getattr(owner, name)) for name in names)


def _environment(result: Result) -> Iterator[Section]:
    hardware, software = result.hardware, result.software
    devices = Row(key="nodes", label=f"nodes x {'ranks' if hardware.divided else 'devices'}", value=hardware.nodes,
                  text=f"{hardware.nodes} x {hardware.devices_per_node}")  # fmt: skip
    yield Section(key="environment", title="Environment")
    yield Section(key="hardware", title="Hardware", level=3, rows=(
        Row(key="device_model", label="accelerator", value=hardware.device_model,
            text=Text("{} (simulated)", hardware.device_model) if hardware.simulated else None,
            own_words=hardware.simulated),
        devices,
        Row(key="device_share", label="share of a device per rank", value=hardware.device_share,
            rounding=cells.PERCENT),
        Row(key="device_memory_bytes", label="device memory, GiB", value=hardware.device_memory_bytes, unit="bytes",
            rounding=cells.DEVICE_GIB),
        text_row("CPU", hardware.host_cpu, "host_cpu"),
        Row(key="host_memory_bytes", label="host memory, GiB", value=hardware.host_memory_bytes, unit="bytes",
            rounding=cells.DEVICE_GIB),
        text_row("interconnect", hardware.interconnect, "interconnect"),
    ))  # fmt: skip
    plugins = [f"{plugin.role} {plugin.name} ({plugin.distribution} {plugin.version})" for plugin in result.plugins]
    variables = tuple(text_row(name, value, f"environment_{name}") for name, value in software.environment.items())
    versions = {"python": software.python, **software.packages}
    named = {"python", *software.notable_packages}
    notable = [f"{name} {version}" for name, version in versions.items() if name in named]
    rest = len(versions) - len(notable)
    more = [f"{rest} more in result.json"] if rest else []
    parts = tuple(text_row(name, version, f"version_{name}") for name, version in versions.items())
    yield Section(key="software", title="Software", level=3, rows=(
        text_row("OS", software.os, "os"),
        text_row("kernel", software.kernel, "kernel"),
        text_row("driver", hardware.driver, "driver"),
        Row(key="dependencies", label="dependencies", value=None, text=joined([*notable, *more]), parts=parts),
        text_row("plugins", joined(plugins), "plugins"),
        Row(key="environment", label="environment variables", value=None, parts=variables,
            text=joined([f"{name}={value}" for name, value in software.environment.items()])),
    ))  # fmt: skip


def _strategy(result: Result) -> Iterator[Section]:
    tuning, layout = result.tuning, result.parallelism
    degrees = {
        "tensor parallel": layout.tensor_parallel,
        "pipeline parallel": layout.pipeline_parallel,
        "data parallel": layout.data_parallel,
        "context parallel": layout.context_parallel,
        "expert parallel": layout.expert_parallel,
    }
    used = [Text(name) for name, degree in degrees.items() if degree > 1]
    used += [Text("sequence parallel")] * layout.sequence_parallel
    used += [Text("sharding stage {}", layout.sharding_stage)] * bool(layout.sharding_stage)
    yield Section(key="parallelism", title="Parallelism", rows=(
        text_row("technique", Text.joined(", ", used) or cells.UNKNOWN, own_words=True),
        text_row("implemented by", tuning.framework, "framework"),
        text_row("details", Text("{} = {} ranks", cells.layout(layout), layout.world_size), own_words=True),
    ))  # fmt: skip
    options = {
        "gradient_checkpointing": cells.text(tuning.gradient_checkpointing),
        "attention": tuning.attention,
        "fused_ops": joined(tuning.fused_ops),
        **_changed_settings(tuning),
        "lora": cells.UNKNOWN,
        **{name: cells.text(value) for name, value in result.framework.items()},
    }
    if (lora := result.contract.lora) is not None:
        modules = joined(lora.target_modules)
        options["lora"] = f"rank {lora.rank}, alpha {lora.alpha}, dropout {lora.dropout}, on {modules}"
    rows = tuple(text_row(name, value, f"option_{name}") for name, value in options.items())
    rows += tuple(
        text_row(f"{name} by", kernel, f"kernel_{name}", own_words=True) for name, kernel in result.kernels.items()
    )
    ran = result.precisions.items()
    rows += tuple(text_row(f"{name} in", dtype, f"precision_{name.replace(' ', '_')}") for name, dtype in ran)
    if (compiling := result.metrics.compile_seconds) is not None:
        label = "compiling, s (not measured)"
        rows += (Row(key="compile_seconds", label=label, value=compiling, rounding=cells.SIGNIFICANT),)
    yield Section(key="optimisation", title="Optimisation strategy", rows=rows)


def _batch(result: Result) -> Section:
    batch = result.batch
    product = f"{batch.micro_batch} x {batch.gradient_accumulation} x {batch.data_parallel}"
    tokens = Row(key="tokens_per_step", label="tokens per step", value=batch.tokens_per_step, rounding=cells.WHOLE)
    return Section(key="batch", title="Batch", rows=(
        Row(key="micro_batch", label="micro batch (LBS)", value=batch.micro_batch),
        Row(key="seq_len", label="sequence length (MPE)", value=batch.seq_len),
        Row(key="gradient_accumulation", label="gradient accumulation (GAS)", value=batch.gradient_accumulation),
        Row(key="global_batch", label="global batch (GBS)", value=batch.global_batch,
            text=Text("{} = LBS x GAS x data parallel = {}", batch.global_batch, product), own_words=True),
        replace(tokens, text=f"{shown(tokens)} = GBS x MPE"),
    ))  # fmt: skip


def _general(result: Result) -> Section:
    contract, optimizer = result.contract, result.contract.optimizer
    return Section(key="general", title="General", rows=(
        text_row("case", result.case, "case"),
        Row(key="variant", label="variant of the case", value=result.variant),
        text_row("status", result.status, "status", own_words=True),
        text_row("provenance", result.provenance, "provenance", own_words=True),
        Row(key="model", label="model", value=result.model.name,
            text=Text("{}, {} parameters", result.model.title, number(result.parameters)), own_words=True),
        text_row("dataset", contract.dataset, "dataset"),
        text_row("precision", contract.precision, "precision"),
        Row(key="optimizer", label="optimiser", value=optimizer.name,
            text=f"{optimizer.name}, lr {optimizer.lr:g}, {optimizer.schedule}"),
        Row(key="steps", label="steps", value=contract.steps,
            text=Text("{}, {} of them warm-up", contract.steps, contract.warmup_steps), own_words=True),
        Row(key="seed", label="seed", value=contract.seed, text=_seed(result)),
        *routing_rows(result),
    ))  # fmt: skip


def _seed(result: Result) -> str:
    """The seed, with the beginning of the challenge that it is of."""
    seed = str(result.contract.seed)
    return seed if result.challenge is None else f"{seed} (of challenge {result.challenge[:8]})"


def _changed_settings(tuning: Tuning) -> dict[str, str]:
    """Optional settings that differ from their defaults."""
    defaults = {field.name: field.default for field in fields(Tuning)}
    values = {name: getattr(tuning, name) for name in OPTIONAL_SETTINGS}
    return {name: cells.text(value) for name, value in values.items() if value != defaults[name]}
