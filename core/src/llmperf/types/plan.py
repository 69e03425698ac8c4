"""The plan that workers read, and the parts of it that plugins provide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from llmperf.types.devices import Dtype, PeakFlops, Probe
from llmperf.types.flop_counts import FlopCount, Precision
from llmperf.types.frozen import dataclass
from llmperf.types.launching import Interpreter, Node
from llmperf.types.layout import Batch, Layout
from llmperf.types.plan_checks import Problem
from llmperf.types.rates import DeviceRates
from llmperf.types.result import PluginInfo
from llmperf.types.spec import RunSpec
from llmperf.types.tracing import TracedMemory
from llmperf.types.units import Count, NonNegative, Positive

ModelState = Literal["parameters", "gradients", "optimizer"]
"""Parts of the model states; float32 master weights belong to `optimizer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Requirements of a framework on the devices; compared with the vendor's `Offers`."""

    precision: Dtype
    """The dtype that matrix products are computed in: `llmperf.precision_recipe(spec.contract.precision).products`."""
    runtime: str
    """`torch` or `paddle`."""
    features: tuple[str, ...] = ()
    """Names that must be among the vendor's features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """An external training script that the ranks run in place of a trainer; llmperf follows it by its output."""

    command: tuple[str, ...]
    """The argv of one rank. `{python}` (the interpreter of the ranks), `{run_dir}` and the placeholders of
    `WorkerPlan.rank_env` are filled in."""
    step_rank: Count
    """The rank whose output reports every step. Its lines hold the figures of all ranks, such as the step's tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """A framework's part of the plan."""

    layout: Layout
    """Layout of the ranks."""
    needs: Needs
    """Requirements on the devices."""
    agent: tuple[str, ...]
    """The argv that starts the ranks of one node; `llmperf.agent_argv()` unless the framework has its own."""
    rank_env: Mapping[str, str] = field(default_factory=dict)
    """Variables of each rank; `{rank}`, `{local_rank}`, `{world_size}`, `{local_world_size}`, `{node_rank}`,
    `{master_addr}`, `{master_port}`, `{interface}` and `{address}` (the node's own) are filled in by the agent."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Configuration files that the framework needs in the run folder: name to text."""
    script: Script | None = None
    """The external script that the ranks run, if any; `llmperf_parse_log` then reads its output."""
    padding: bool = False
    """The framework leaves padding out of losses and tokens. Otherwise a padded contract is refused."""
    routing_tables: bool = False
    """The framework routes tokens by `llmperf.routing_table`. Otherwise balanced and skewed routing are refused."""
    settings: tuple[str, ...] = ()
    """The settings of `llmperf.types.OPTIONAL_SETTINGS` that the framework supports. Others are refused unless they
    have their defaults."""
    fused_ops: tuple[str, ...] = ()
    """Operations that are one kernel each, such as `rms_norm`, `rope`, `swiglu`, `cross_entropy`: `tuning.fused_ops`
    with `auto` expanded, and those that are always fused."""
    update_bytes_per_parameter: NonNegative = 0.0
    """Bytes that the update needs temporarily besides weights, gradients and optimiser states, such as float32 copies
    of 16-bit gradients, for each trained parameter in a rank's shard of the optimiser states."""
    update_parameters: Positive | None = None
    """Most parameters of a shard that are updated at a time; None: the whole shard."""
    buffer_bytes: Count = 0
    """Size of buffers in which gradients are communicated, such as buckets, on each rank; free before the update."""
    gathered_blocks: Count = 0
    """Transformer blocks whose sharded weights are gathered at once, at sharding stage 3, on each rank; 0 if
    `buffer_bytes` counts them."""
    offloaded: tuple[ModelState, ...] = ()
    """Model states that are in the memory of the host and not of the device."""
    weights_in_fp32: bool = False
    """Weights are held in float32 and cast to 16-bit precisions where they are used (autocast)."""
    input_copies: bool = False
    """Each tensor-parallel projection keeps a copy of its input of its own for the backward pass."""
    precisions: tuple[Precision, ...] = ("fp32", "tf32", "bf16", "fp16")
    """The recipes that the framework trains by; others are refused."""
    notes: tuple[str, ...] = ()
    """Facts about the run that a reader of the result should know."""
    problems: tuple[Problem, ...] = ()
    """Every reason why it cannot run."""


SLOWEST_STEP = 10
"""Factor of the expected duration that a step may take: a run has not hung before such a step would have ended. The
first step also compiles kernels and fills caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole plan, `runs/<id>/plan.json`: the only file that a worker reads."""

    schema: str
    """Name and version of this document's schema."""
    run_id: str
    """Name of the run folder."""
    created: str
    """UTC, ISO 8601."""
    llmperf_version: str
    """Version of the controller."""
    spec: RunSpec
    """Contract and tuning."""
    vendor: str
    """Name of the vendor plugin."""
    probe: Probe
    """Devices that the vendor plugin saw."""
    device_share: NonNegative
    """Part of one probed device that one rank has: 1, or 1/ranks if the ranks share a divisible device."""
    batch: Batch
    """Batch arithmetic."""
    data_fingerprint: str | None = None
    """SHA-256 that identifies the data, as the controller read them: of synthetic data over the figures that define
    them, else over tokens. None if the controller did not read them."""
    flops: FlopCount
    """The numerator of MFU under every convention."""
    peak: PeakFlops | None
    """Peak of the whole probed device."""
    rest_peak: PeakFlops | None = None
    """Peak of products that are not in the dtype of `peak`, in a recipe with two dtypes, such as fp8 and bf16. None
    otherwise, and where it is not known."""
    peak_problem: str | None = None
    """The reason why the peak, and so MFU, is unknown."""
    rates: DeviceRates | None = None
    """Rates of one whole device: measured on this machine, otherwise assumed by its vendor."""
    state_bytes_per_stage: tuple[Count, ...] = ()
    """Estimated bytes of weights, gradients, optimiser states and temporary memory of the update, on one rank of each
    pipeline stage, without activations. Empty without an estimate."""
    memory: tuple[TracedMemory, ...] = ()
    """Estimated memory of a rank of each pipeline stage, with activations. Empty without an estimate."""
    expected_step_seconds: NonNegative | None = None
    """Estimated duration of a step, by formulas; None if neither peak nor rates of the device are known."""
    expected_step_basis: str = ""
    """Assumptions of the expected duration, or the reason why there is none."""
    launcher: str
    """Name of the launcher, which starts the agent on each node."""
    nodes: tuple[Node, ...] = ()
    """The nodes of the run, in the order of their ranks; empty for a machine named with `--on`."""
    interpreter: Interpreter | None = None
    """The Python that runs the ranks; None for llmperf's own."""
    worker: WorkerPlan
    """The framework's part: layout, needs, how ranks are started, and its notes."""
    notes: tuple[str, ...] = ()
    """Further facts that a reader of the result should know, such as extensions that were skipped."""
    env: Mapping[str, str]
    """Variables that all ranks share. `{interface}` and `{address}` are filled in by the agent of each node; it leaves
    variables with `{interface}` out if it does not know the interface."""
    stall_seconds: NonNegative
    """A run in which no rank finishes a step for this long has hung, unless its own steps take as long."""
    startup_seconds: NonNegative
    """Timeout before the first step and during evaluation."""
    plugins: tuple[PluginInfo, ...]
    """The plugins that were loaded."""
    recorders: tuple[str, ...] = ()
    """Extensions that are loaded in each rank (`llmperf_rank_records`, `llmperf_rank_tasks`), where installed."""
    problems: tuple[Problem, ...] = ()
    """Reasons why this plan cannot run; empty if it can."""
    purpose: str = "run"
    """Task of the ranks: `run`: train and be measured; `rerun`: train the first steps of a submitted run again;
    otherwise a task of an extension, by its name. Only a `run` can become a result."""
    traced_steps: tuple[Positive, ...] = ()
    """Numbers of the steps of which rank 0 keeps a trace, in order. They are above `contract.steps`, trained after the
    measured ones and the evaluation: no figure of the result includes them."""
    last_step: Positive | None = None
    """The step after which the ranks of a `rerun` stop, while learning rates remain those of a run of
    `contract.steps`; None: all steps are trained."""

    @property
    def task(self) -> str | None:
        """Name of the task that the ranks do in place of building a trainer and training with it; None if they train.

        `script` runs an external script.
        """
        if self.worker.script is not None:
            return "script"
        return None if self.purpose in ("run", "rerun") else self.purpose

    @property
    def steps(self) -> int:
        """Optimiser steps that are trained, warm-up included."""
        return self.spec.contract.steps if self.last_step is None else self.last_step

    @property
    def layout(self) -> Layout:
        """Layout of the framework."""
        return self.worker.layout

    @property
    def rank_peak_flops(self) -> float | None:
        """Dense peak of the part of the device that one rank has, in FLOP/s."""
        return None if self.peak is None else self.peak.flops_per_second * self.device_share

    @property
    def slow_step_seconds(self) -> float | None:
        """Duration of a step as slow as can be expected: SLOWEST_STEP times the expected one; None if it is unknown."""
        return None if self.expected_step_seconds is None else SLOWEST_STEP * self.expected_step_seconds

    @property
    def first_step_seconds(self) -> float:
        """Timeout before the first step: `startup_seconds` or the duration of a slow step, whichever is longer."""
        return max(self.startup_seconds, self.slow_step_seconds or 0.0)
