"""Problems of a plan, and the answer of a plugin that checks a planned run before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Literal

from llmperf.types.frozen import dataclass
from llmperf.types.tracing import OperationKind, TracedMemory
from llmperf.types.units import Count, NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedWork:
    """A step of a rank of one pipeline stage, in figures."""

    rank: Count
    """The first rank of the stage; the others are like it."""
    method: Literal["fake tensors", "analytic"]
    """Source of its operations, as in a `StepTrace`."""
    flops: NonNegative
    """FLOPs that are computed, recomputation included."""
    bytes: NonNegative
    """Bytes that operations read and write."""
    seconds: Mapping[OperationKind, NonNegative] = field(default_factory=dict)
    """Seconds by kind of operation; empty without rates of the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    """Problems, notes and expectations of a planned run; each field may be left out."""

    problems: tuple[Problem, ...] = ()
    """Reasons why the run would fail. It is refused, unless the user says `--no-preflight`."""
    notes: tuple[str, ...] = ()
    """One line each, kept in the plan and in its result."""
    memory: tuple[TracedMemory, ...] = ()
    """Expected memory of a rank of each pipeline stage."""
    work: tuple[ExpectedWork, ...] = ()
    """Expected work of each pipeline stage, for the roofline and for profiles."""
    step_seconds: float | None = None
    """Expected duration of a step, above 0; timeouts are longer for slow steps."""
    step_basis: str = ""
    """Assumptions of this duration, or the reason why there is none."""
    fits: bool = True
    """False if the devices may not suffice: the settings of the run are then not suggested in place of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A reason why a run cannot be started, found while planning."""

    where: str
    """The setting, such as `tuning.tensor_parallel`."""
    message: str
    """One line: what was expected, what was found, and the nearest valid choice."""
    code: str = "plugin_problem"
    """A name in `PROBLEM_CODES`, or `PLUGIN.name` for a problem of a plugin, such as `zero.sharding_degree`."""


PROBLEM_CODES: Mapping[str, str] = MappingProxyType(
    {
        "plugin_problem": "A problem to which a plugin gives no code of its own.",
        "vendor_unusable": "The vendor plugin cannot be used here, for example because a package is missing.",
        "framework_unusable": "The framework plugin is not installed, broken, or lacks a package.",
        "framework_fault": "The worker plan of the framework contradicts the contract or cannot be started.",
        "value_too_large": "A setting is larger than any real run has.",
        "steps_too_many": "The contract has more steps than a result can hold.",
        "nodes_too_few": "The run needs more nodes than the machine has.",
        "devices_too_few": "The run needs more devices than the machine has.",
        "devices_mixed": "The devices of the run are of several models.",
        "memory_too_small": "Weights, gradients and optimiser states do not fit into the memory of the devices.",
        "memory_estimate_too_large": "The estimated peak of memory, activations included, is far beyond the devices'.",
        "ranks_not_divisible": "The degrees of parallelism do not divide the number of ranks.",
        "model_not_divisible": "A degree of parallelism does not divide the model's heads or layers.",
        "sequence_not_divisible": "Context parallelism does not divide the sequence.",
        "experts_not_divisible": "Expert parallelism does not divide the ranks that hold experts.",
        "sharding_not_divisible": "The sharding degree does not divide the data-parallel ranks.",
        "sequence_parallel_alone": "Sequence parallelism is set without tensor parallelism.",
        "batch_not_divisible": "The global batch is not a multiple of micro batch x data parallel.",
        "batch_contradiction": "Global batch and gradient accumulation are both set and do not agree.",
        "sequence_too_long": "The sequence is longer than the model's positions.",
        "nothing_measured": "All steps are warm-up.",
        "precision_not_offered": "The devices do not offer the precision.",
        "routing_not_possible": "Balanced or skewed routing is asked for where nothing can be routed so.",
        "routing_not_supported": "The framework routes tokens of a mixture by the router only.",
        "skew_without_use": "A skew is set, but the routing is not skewed.",
        "precision_not_supported": "The framework does not train by the precision recipe.",
        "nothing_emulated": "Emulation is asked for where the devices compute in the precision.",
        "runtime_not_offered": "The vendor does not support the framework's tensor library.",
        "runtime_unusable": "The installed tensor library cannot use the devices.",
        "feature_not_offered": "The devices lack a feature that the framework needs.",
        "setting_not_supported": "The framework does not support an optional setting.",
        "padding_not_supported": "The framework would train on padding and count it.",
        "data_unusable": "The data cannot be read, do not suffice, or do not fit the model.",
    }
)
"""Every code of the core with its meaning. The list is closed: plugins use codes of the form `PLUGIN.name`."""
