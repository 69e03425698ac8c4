"""Setup that the repeats of a run share, most of a sheet: its contract, settings and machine, as rows and sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from typing import Any

from llmperf.files.json_files import ByValue, builtins
from llmperf.reporting import cells
from llmperf.reporting.cells import joined, labelled, number, routing_rows, shown
from llmperf.reporting.overview import model_text
from llmperf.reporting.words import printable
from llmperf.types import OPTIONAL_SETTINGS, Result, Row, RunSpec, Section, Text, Tuning

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
        """Settings that may differ between two runs of one contract and explain why their figures do, by label."""
        result, hardware, batch = self._result, self._result.hardware, self._result.batch
        return {
            "device": printable(f"{hardware.device_model}{' (simulated)' * hardware.simulated}"),
            "nodes x devices": f"{hardware.nodes} x {hardware.devices_per_node}{' ranks' * hardware.divided}",
            "share of a device per rank": cells.percent(hardware.device_share),
            "framework": printable(result.tuning.framework),
            "layout": cells.layout(result.parallelism),
        } | {
            name: printable(text)
            for name, text in {
                "micro_batch": str(batch.micro_batch),
                "gradient_accumulation": str(batch.gradient_accumulation),
                "gradient_checkpointing": cells.text(result.tuning.gradient_checkpointing),
                "attention": result.tuning.attention,
                "fused_ops": ", ".join(result.tuning.fused_ops) or "none",
                **_changed_settings(result.tuning),
                **{f"framework.{name}": cells.text(value) for name, value in result.framework.items()},
            }.items()
        }

    @cached_property
    def overview(self) -> Mapping[str, Row]:
        """Cells of a table of many runs, by key."""
        result, hardware = self._result, self._result.hardware
        framework, model = result.tuning.framework, hardware.device_model + " (simulated)" * hardware.simulated
        devices = cells.devices(hardware.nodes, hardware.devices_per_node, model, hardware.device_share)
        name = model_text(result.model.name, result.contract.lora is not None)
        case = Text("{} (variant)", result.case) if result.variant else result.case
        layout = Text("{} {}", framework, cells.layout(result.parallelism))
        rows = (
            labelled("model", "model", result.model.name, text=name),
            labelled("case", "case", result.case, text=case),
            labelled("device", "device", None, text=devices, parts=rows_of(hardware, ("device_model", "device_share")),
                     own_words=True),
            labelled("layout", "layout", framework, text=layout, parts=self._layout),
            labelled("fix_hp", "fix_hp", cells.fix_hp(result.fix_hp)),
        )  # fmt: skip
        return {row.key: row for row in rows}

    @property
    def _layout(self) -> Iterator[Row]:
        """The framework and the degrees of parallelism."""
        yield labelled("framework", "framework", self._result.tuning.framework)
        for name, value in builtins(self._result.parallelism).items():
            if isinstance(value, int) and name not in ("nodes", "devices_per_node"):
                yield labelled(name, name.replace("_", " "), value)

    @cached_property
    def card(self) -> tuple[Row, ...]:
        """Model, devices, framework and batch, as `llmperf run` shows them."""
        result, hardware, batch = self._result, self._result.hardware, self._result.batch
        model, framework, precision = result.model.name, result.tuning.framework, result.contract.precision
        parameters = labelled("parameters", "parameters", result.parameters, cells.WHOLE)
        devices = f"{hardware.nodes} x {hardware.devices_per_node} {hardware.device_model}"
        devices = Text("{} (simulated)", devices) if hardware.simulated else devices
        if hardware.device_share != 1:
            devices = Text("{}, each rank with {} of one", devices, cells.percent(hardware.device_share))
        of_devices = rows_of(hardware, ("vendor", "device_model", "device_share", "nodes", "devices_per_node"))
        of_batch = rows_of(
            batch, ("micro_batch", "gradient_accumulation", "global_batch", "seq_len", "tokens_per_step")
        )
        arithmetic = Text(
            "{} micro x {} accumulated x {} data parallel = {} sequences of {} tokens, {}",
            *(batch.micro_batch, batch.gradient_accumulation, batch.data_parallel, batch.global_batch, batch.seq_len),
            precision + (" (fp8 emulated)" if result.emulated else ""),
        )
        return (
            labelled("model", "model", model, text=Text("{}, {} parameters", result.model.title, shown(parameters)),
                     parts=(labelled("model", "model", model), parameters)),
            labelled("devices", "devices", None, text=devices, parts=of_devices, own_words=True),
            labelled("framework", "framework", framework, parts=self._layout,
                     text=Text("{}, {}", framework, cells.layout(result.parallelism))),
            labelled("batch", "batch", None, text=arithmetic,
                     parts=(*of_batch, labelled("precision", "precision", precision))),
        )  # fmt: skip

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Environment, parallelism, optimisation, batch and general facts."""
        result, batch, contract = self._result, self._result.batch, self._result.contract
        product = f"{batch.micro_batch} x {batch.gradient_accumulation} x {batch.data_parallel}"
        tokens = labelled("tokens_per_step", "tokens per step", batch.tokens_per_step, cells.WHOLE)
        arithmetic = Section(key="batch", title="Batch", rows=(
            labelled("micro_batch", "micro batch (LBS)", batch.micro_batch),
            labelled("seq_len", "sequence length (MPE)", batch.seq_len),
            labelled("gradient_accumulation", "gradient accumulation (GAS)", batch.gradient_accumulation),
            labelled("global_batch", "global batch (GBS)", batch.global_batch,
                     text=Text("{} = LBS x GAS x data parallel = {}", batch.global_batch, product)),
            replace(tokens, text=f"{shown(tokens)} = GBS x MPE"),
        ))  # fmt: skip
        optimizer, seed = contract.optimizer, str(contract.seed)
        of_challenge = "" if result.challenge is None else f" (of challenge {result.challenge[:8]})"
        general = Section(key="general", title="General", rows=(
            labelled("case", "case", result.case),
            labelled("variant", "variant of the case", result.variant),
            labelled("status", "status", result.status, own_words=True),
            labelled("provenance", "provenance", result.provenance, own_words=True),
            labelled("model", "model", result.model.name,
                     text=Text("{}, {} parameters", result.model.title, number(result.parameters))),
            labelled("dataset", "dataset", contract.dataset),
            labelled("precision", "precision", contract.precision),
            labelled("optimizer", "optimiser", optimizer.name,
                     text=f"{optimizer.name}, lr {optimizer.lr:g}, {optimizer.schedule}"),
            labelled("steps", "steps", contract.steps,
                     text=Text("{}, {} of them warm-up", contract.steps, contract.warmup_steps)),
            labelled("seed", "seed", contract.seed, text=seed + of_challenge),
            *routing_rows(result),
        ))  # fmt: skip
        return (*_environment(result), *_strategy(result), arithmetic, general)

    @cached_property
    def changes(self) -> Section:
        """The changes from the case."""
        records = tuple(
            (
                labelled("", "parameter", change.path),
                labelled("case_value", "in the case", change.case_value),
                labelled("value", "here", change.value),
                labelled("", "origin", change.origin, own_words=True),
            )
            for change in self._result.fix_hp
        )
        none = () if records else (labelled("", "", "/"),)
        return Section(key="fix_hp", title="Changes from the case (fix_hp)", records=records, rows=none)


_setups = ByValue[Setup]()


def setup_of(result: Result) -> Setup:
    """The setup of a result; one object for all results whose setups are equal."""
    of_case = (result.case, result.variant, result.status, result.provenance, result.fix_hp, result.contract)
    of_machine = (result.hardware, result.software, result.plugins)
    of_run = (result.model, result.parameters, result.tuning, result.parallelism, result.framework, result.batch)
    of_figures = (result.kernels, result.precisions, result.emulated, result.challenge, result.metrics.compile_seconds)
    return _setups.get((of_case, of_machine, of_run, of_figures), lambda: Setup(result))


def contract_parts(of: Result | RunSpec) -> dict[str, str]:
    """The contract and the facts of the model by path, as text."""
    facts = {name: value for name, value in builtins(of.model).items() if name not in DESCRIPTIONS}
    return {**dict(_flat("", builtins(of.contract))), **dict(_flat("model.", facts))}


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each scalar by its path as text; equal numbers give equal text, whether they are whole or not."""
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from _flat(f"{prefix}{name}.", part)
            continue
        text = cells.text(int(part) if isinstance(part, float) and part.is_integer() and abs(part) < 1e15 else part)
        yield prefix + name, printable(text, len(text))


def rows_of(owner: object, names: Sequence[str]) -> tuple[Row, ...]:
    """A row for each named attribute."""
    return tuple(labelled(name, name.replace("_", " "), getattr(owner, name)) for name in names)


def _environment(result: Result) -> Iterator[Section]:
    hardware, software = result.hardware, result.software
    simulated = Text("{} (simulated)", hardware.device_model) if hardware.simulated else None
    yield Section(key="environment", title="Environment")
    yield Section(key="hardware", title="Hardware", level=3, rows=(
        labelled("device_model", "accelerator", hardware.device_model, text=simulated),
        labelled("nodes", f"nodes x {'ranks' if hardware.divided else 'devices'}", hardware.nodes,
                 text=f"{hardware.nodes} x {hardware.devices_per_node}"),
        labelled("device_share", "share of a device per rank", hardware.device_share, cells.PERCENT),
        labelled("device_memory_bytes", "device memory, GiB", hardware.device_memory_bytes, cells.DEVICE_GIB, "bytes"),
        labelled("host_cpu", "CPU", hardware.host_cpu),
        labelled("host_memory_bytes", "host memory, GiB", hardware.host_memory_bytes, cells.DEVICE_GIB, "bytes"),
        labelled("interconnect", "interconnect", hardware.interconnect),
    ))  # fmt: skip
    plugins = [f"{plugin.role} {plugin.name} ({plugin.distribution} {plugin.version})" for plugin in result.plugins]
    variables = software.environment.items()
    versions = {"python": software.python, **software.packages}
    named = {"python", *software.notable_packages}
    notable = [f"{name} {version}" for name, version in versions.items() if name in named]
    rest = len(versions) - len(notable)
    more = [f"{rest} more in result.json"] if rest else []
    yield Section(key="software", title="Software", level=3, rows=(
        labelled("os", "OS", software.os),
        labelled("kernel", "kernel", software.kernel),
        labelled("driver", "driver", hardware.driver),
        labelled("dependencies", "dependencies", None, text=joined([*notable, *more]),
                 parts=(labelled(f"version_{name}", name, version) for name, version in versions.items())),
        labelled("plugins", "plugins", joined(plugins)),
        labelled("environment", "environment variables", None,
                 text=joined([f"{name}={value}" for name, value in variables]),
                 parts=(labelled(f"environment_{name}", name, value) for name, value in variables)),
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
        labelled("", "technique", Text.joined(", ", used) or cells.UNKNOWN),
        labelled("framework", "implemented by", tuning.framework),
        labelled("", "details", Text("{} = {} ranks", cells.layout(layout), layout.world_size)),
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
    rows = [labelled(f"option_{name}", name, value) for name, value in options.items()]
    for name, kernel in result.kernels.items():
        rows.append(labelled(f"kernel_{name}", f"{name} by", kernel, own_words=True))
    for name, dtype in result.precisions.items():
        rows.append(labelled(f"precision_{name.replace(' ', '_')}", f"{name} in", dtype))
    if (compiling := result.metrics.compile_seconds) is not None:
        rows.append(labelled("compile_seconds", "compiling, s (not measured)", compiling, cells.SIGNIFICANT))
    yield Section(key="optimisation", title="Optimisation strategy", rows=tuple(rows))


def _changed_settings(tuning: Tuning) -> dict[str, str]:
    """Optional settings that differ from their defaults."""
    defaults = {field.name: field.default for field in fields(Tuning)}
    values = {name: getattr(tuning, name) for name in OPTIONAL_SETTINGS}
    return {name: cells.text(value) for name, value in values.items() if value != defaults[name]}
