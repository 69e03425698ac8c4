"""What will run: the frozen whole that a worker reads, and the parts that plugins hand in for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmperf.types.devices import PeakFlops, Precision, Probe
from llmperf.types.flops import FlopCount
from llmperf.types.launching import Interpreter, Node
from llmperf.types.layout import Batch, Layout
from llmperf.types.problems import Problem
from llmperf.types.result import PluginInfo
from llmperf.types.spec import RunSpec
from llmperf.types.units import Count, NonNegative


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a framework asks of the devices; matched against the vendor's `Offers`."""

    precision: Precision
    """The dtype that matrix products are computed in."""
    runtime: str
    """`torch` or `paddle`."""
    features: tuple[str, ...] = ()
    """Names that must be among the vendor's features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """An external training script that the ranks run in the place of a trainer, watched from outside by its output."""

    command: tuple[str, ...]
    """The argv of one rank; `{run_dir}` and what `rank_env` may hold are filled in."""
    step_rank: Count
    """The rank whose output tells of every step. A line there speaks for all ranks, with the whole step's tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """A framework's part of the plan."""

    layout: Layout
    """How ranks share the model."""
    needs: Needs
    """What the devices must offer."""
    agent: tuple[str, ...]
    """The argv that starts the ranks of one node; `llmperf.agent_argv()` unless the framework has its own."""
    rank_env: Mapping[str, str] = field(default_factory=dict)
    """Variables of each rank; `{rank}`, `{local_rank}`, `{world_size}`, `{local_world_size}`, `{node_rank}`,
    `{master_addr}` and `{master_port}` are filled in by the agent."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Configuration files it wants in the run folder: name to text."""
    script: Script | None = None
    """What the ranks run, if that is an external script; `llmperf_parse_log` then reads what it prints."""
    padding: bool = False
    """Whether it leaves padding out of losses and tokens; where it does not, a padded contract is refused."""
    update_bytes_per_parameter: NonNegative = 0.0
    """Bytes that the update holds for a moment beside weights, gradients and optimiser states, such as float32 copies
    of 16-bit gradients: for each trained parameter in a rank's shard of the optimiser states."""
    notes: tuple[str, ...] = ()
    """What a reader of the result should know of how it was made."""
    problems: tuple[Problem, ...] = ()
    """Why it cannot run, all of it."""


LOWEST_UTILISATION = 0.05
"""No run is taken for a hung one as long as this share of the peak would explain why no step has ended. The published
rows have 21 % and more; the first step also compiles kernels and fills caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The frozen whole, `runs/<id>/plan.json`: the only thing a worker reads."""

    schema: str
    """Name and version of this document's schema."""
    run_id: str
    """Name of the run folder."""
    created: str
    """UTC, ISO 8601."""
    llmperf_version: str
    """Of the controller."""
    spec: RunSpec
    """What is measured and how it was tuned."""
    vendor: str
    """Name of the vendor plugin."""
    probe: Probe
    """What the vendor plugin saw."""
    device_share: NonNegative
    """Part of one probed device that one rank has: 1, or 1/ranks where a divisible device is shared."""
    batch: Batch
    """Batch arithmetic."""
    flops: FlopCount
    """The numerator of MFU under every convention."""
    peak: PeakFlops | None
    """Of the whole probed device."""
    peak_problem: str | None = None
    """Why there is no peak, and so no MFU."""
    state_bytes_per_stage: tuple[Count, ...] = ()
    """Weights, gradients, optimiser states and what the update holds beside them, of one rank of each pipeline stage,
    estimated; activations not counted. Empty where there is no estimate."""
    launcher: str
    """Name of what brings the agent to each node."""
    nodes: tuple[Node, ...] = ()
    """The nodes of the run, in the order of their ranks; empty for a machine that is only planned for."""
    interpreter: Interpreter | None = None
    """The Python that runs the ranks; None: the one that runs llmperf."""
    worker: WorkerPlan
    """The framework's part: layout, needs, how ranks are started, and its notes."""
    notes: tuple[str, ...] = ()
    """What else a reader of the result should know of how it was made, such as extensions that were skipped."""
    env: Mapping[str, str]
    """Variables that all ranks share."""
    stall_seconds: NonNegative
    """A run in which no rank finishes a step for this long has hung, unless its own steps take as long."""
    startup_seconds: NonNegative
    """Timeout before the first step and during evaluation."""
    plugins: tuple[PluginInfo, ...]
    """What was loaded."""
    problems: tuple[Problem, ...] = ()
    """Why this plan cannot run; none when it can."""

    @property
    def layout(self) -> Layout:
        """How ranks share the model: the framework's layout."""
        return self.worker.layout

    @property
    def rank_peak_flops(self) -> float | None:
        """Dense peak of what one rank has, FLOP/s."""
        return None if self.peak is None else self.peak.flops_per_second * self.device_share

    @property
    def slow_step_seconds(self) -> float | None:
        """What a step takes at LOWEST_UTILISATION of the peak, by the nominal FLOP count; None without a peak."""
        peak = self.rank_peak_flops
        if not peak:
            return None
        flops = self.flops.of("nominal").flops * self.batch.tokens_per_step
        return flops / (LOWEST_UTILISATION * peak * self.layout.world_size)

    @property
    def first_step_seconds(self) -> float:
        """Timeout before the first step: `startup_seconds`, or a slow step where that takes longer."""
        return max(self.startup_seconds, self.slow_step_seconds or 0.0)
