"""Problems of a plan, each with a code that programs can rely on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from llmperf.types.frozen import dataclass


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
