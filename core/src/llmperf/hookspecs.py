"""The contract: every hook that a plugin can implement, in the order of a run.

A plugin is a module with functions of these names, marked `@llmperf.hookimpl` and named by an entry point in the group
`llmperf.vendor.v1`, `llmperf.framework.v1` or `llmperf.extension.v1`. It imports nothing heavy at module level.
"""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import pluggy

if TYPE_CHECKING:
    from pathlib import Path

    from llmperf.types import (
        CommandOptions,
        DataSource,
        Device,
        DeviceRates,
        DeviceSample,
        DocumentKind,
        Dtype,
        Facts,
        FlopCount,
        ImportedModel,
        Launcher,
        LoggedFacts,
        LoggedFailure,
        LoggedStep,
        Logger,
        Model,
        NodeTask,
        Observer,
        OpenLauncher,
        PeakFlops,
        Plan,
        PlanCheck,
        Probe,
        RankRecords,
        RankTask,
        ReadTokens,
        Reporter,
        ResultSection,
        Rule,
        RunSpec,
        ScreeningCheck,
        StepProfile,
        StepTrace,
        TimedOperations,
        Trainer,
        WorkerPlan,
        Workload,
    )

    Logged: TypeAlias = LoggedStep | LoggedFacts | LoggedFailure

PROJECT = "llmperf"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Role = Literal["vendor", "framework", "extension", "core"]

OWNERS: dict[str, tuple[Role, ...]] = {}
"""The roles that may answer each hook. A plugin of another role that answers it is refused when it is loaded."""
Function = TypeVar("Function", bound=Callable[..., Any])


def answered_by(*owners: Role, **options: Any) -> Callable[[Function], Function]:
    """Mark the specification of a hook that plugins of these roles may answer, with `options` as pluggy takes them."""

    def mark(function: Function) -> Function:
        OWNERS[function.__name__] = owners
        return hookspec(function, **options)

    return mark


REMOVED: Mapping[str, str] = {
    "llmperf_check_result": "llmperf_rules, which yields a Rule with a code, a severity and the function",
    "llmperf_remote_nodes": "llmperf_open_launcher, whose answer gives the nodes of a launcher",
}
"""Replacement for each hook that plugins could once answer. They stay here as long as the major version of the hooks.

A hook that will go is announced for a minor version before: its specification is marked
`@answered_by("vendor", warn_on_impl=going("llmperf_one", "llmperf_other"))`. Loading a plugin that answers it prints
the warning.
"""


def going(hook: str, instead: str) -> FutureWarning:
    """The warning for plugins that answer a hook which the next minor version lacks."""
    return FutureWarning(f"the next minor version of {PROJECT}-core removes the hook {hook!r}; use {instead}")


@answered_by("vendor", "framework", "extension", "core")
def llmperf_resources() -> Iterable[Path]:
    """Called in the controller first, to find the folders of `models/`, `cases/` and `overlays/` that a plugin ships.

    Any plugin may answer; all answers are collected.

    >>> @llmperf.hookimpl
    ... def llmperf_resources():
    ...     return [Path(__file__).parent / "data"]
    """


@answered_by("vendor", "framework", "extension", "core")
def llmperf_facts() -> Facts:
    """Called in the controller by every command that needs a fact about a vendor's devices or a framework's libraries.

    Any plugin may answer; the facts of all loaded plugins are joined.

    >>> @llmperf.hookimpl
    ... def llmperf_facts():
    ...     return Facts(environment_names=("ACME_VISIBLE_DEVICES",), environment_prefixes=("ACMECL_",),
    ...                  waiting_frames=("acme/distributed/",), packages=("acme",),
    ...                  device_aliases={"acme": ("acme", "roadrunner")})
    """


@answered_by("extension")
def llmperf_import_model(path: Path) -> Iterable[ImportedModel]:
    """Called in the controller by `llmperf models import FILE`, for the model that another program's file describes.

    Extensions may answer; all answers are collected, and exactly one model is expected. An extension that does not know
    the file returns none, or raises UserError, which is shown if no other returns a model. The command is one of
    llmperf-huggingface. The facts are checked like those of a model file.

    >>> @llmperf.hookimpl
    ... def llmperf_import_model(path):
    ...     if path.suffix == ".acme":
    ...         facts = dict(family="llama", layers=2, hidden_size=64, intermediate_size=128, attention_heads=4,
    ...                      kv_heads=4, vocab_size=128, max_positions=64, norm_eps=1e-5, position_encoding="alibi")
    ...         yield ImportedModel(facts=facts, source=path.name)
    """


@answered_by("extension")
def llmperf_read_tokens(dataset: str, data: DataSource, records: bool) -> ReadTokens | None:
    """Called in the controller and in each rank that trains, for data that are not synthetic.

    Extensions may answer; the first answer that is not None is taken. `data.path` is a file, a folder, or None.
    `records` asks for `record_lengths`, for padded sequences. DataError names the setting that is wrong. The package is
    installed in the environment of the ranks too.

    >>> @llmperf.hookimpl
    ... def llmperf_read_tokens(dataset, data, records):
    ...     if dataset == "acme-dna" and data.path is not None and not records:
    ...         letters = np.frombuffer(Path(data.path).read_bytes(), dtype=np.uint8)
    ...         return ReadTokens(setting="data.path", ids=letters - ord("A"))
    """


@answered_by("extension", "core")
def llmperf_command_options(command: str) -> Iterable[CommandOptions]:
    """Called in the controller before arguments of `run`, `plan`, `models`, `validate`, `report`, `doctor` are read.

    The core and extensions may answer; all answers are collected. `command` is the command's name. `begin` receives the
    called command and may change its values or do the whole command: `CalledRun` can plan and start runs,
    `CalledReport` can change sheets. An option that exists already is an error that names both packages.

    >>> @llmperf.hookimpl
    ... def llmperf_command_options(command):
    ...     import click
    ...     def begin(called):
    ...         if called.values["quick"]:
    ...             called.values["settings"] += ("steps=4", "warmup_steps=1")
    ...     quick = click.Option(["--quick"], is_flag=True, help="Run four steps.")
    ...     return [CommandOptions(options=[quick], begin=begin)] if command in ("run", "plan") else []
    """


@answered_by("vendor", firstresult=True)
def llmperf_probe() -> Probe:
    """Called in the controller on each node, to list the vendor's devices by its management library, without torch.

    The vendor owns it. Without a driver it does not raise: it returns no devices, and the reason in `problems`.

    >>> @llmperf.hookimpl
    ... def llmperf_probe():
    ...     offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    ...     device = DeviceInfo(index=0, model="Acme A1", memory_bytes=2**34)
    ...     return Probe(vendor="acme", devices=(device,), offers=offers)
    """


@answered_by("vendor", firstresult=True)
def llmperf_catalogue() -> Iterable[Probe]:
    """Called in the controller for `plan --on MODEL:NODESxDEVICES`, to plan for another machine.

    The vendor owns it. It returns a `Probe` with one device for each model that it knows, with `simulated` set.

    >>> @llmperf.hookimpl
    ... def llmperf_catalogue():
    ...     offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    ...     device = DeviceInfo(index=0, model="Acme A1", memory_bytes=2**34)
    ...     return [Probe(vendor="acme", devices=(device,), offers=offers, simulated=True)]
    """


@answered_by("vendor", firstresult=True)
def llmperf_peak_flops(device_model: str, dtype: Dtype) -> PeakFlops | str | None:
    """Called in the controller while planning, for the dense peak of one whole device, with its source and date.

    The vendor owns it. None means unknown, and MFU is then null. A figure that is derived, such as from a similar
    device, or that is from a secondary source, must have confidence `low`, and its source must say so.
    A line of text, in place of None, is the reason that reports show.

    >>> @llmperf.hookimpl
    ... def llmperf_peak_flops(device_model, dtype):
    ...     if (device_model, dtype) != ("Acme A1", "fp32"):
    ...         return None
    ...     return PeakFlops(device_model=device_model, dtype=dtype, flops_per_second=1e12,
    ...                      source="Acme A1 datasheet, p. 2", date="2026-01-01")
    """


@answered_by("vendor", firstresult=True)
def llmperf_time_peak(device_model: str, dtype: Dtype) -> PeakFlops | None:
    """Called in the controller after a run on its own machine whose peak was measured, to measure the peak anew.

    The vendor owns it, if its `llmperf_peak_flops` measures. It measures again, in a few seconds at most, and may raise
    the figure that the vendor keeps. MFU uses the larger of the two figures. None means that measuring failed.

    >>> @llmperf.hookimpl
    ... def llmperf_time_peak(device_model, dtype):
    ...     return PeakFlops(device_model=device_model, dtype=dtype, flops_per_second=1e12,
    ...                      source="fastest product, after the run", date="2026-01-01", confidence="measured")
    """


@answered_by("vendor", firstresult=True)
def llmperf_device_rates(device_model: str) -> DeviceRates | None:
    """Called in the controller by `llmperf estimate` and `plan`, for what a device achieves in practice, with sources.

    The vendor owns it. None means unknown: times are then not estimated. Figures that were measured on this machine, as
    by `llmperf peak`, take precedence.

    >>> @llmperf.hookimpl
    ... def llmperf_device_rates(device_model):
    ...     return DeviceRates(
    ...         device_model="Acme A1", basis="assumed", memory_bytes=2**34, source="80 % of the datasheet, p. 2",
    ...         matmul_flops_per_second={"fp32": 8e11}, attention_flops_per_second={"fp32": 5e11},
    ...         memory_bytes_per_second=1e12, launch_seconds=5e-6, date="2026-01-01",
    ...     ) if device_model == "Acme A1" else None
    """


@answered_by("extension")
def llmperf_measured_rates(plan: Plan, packages: Mapping[str, str]) -> Iterable[DeviceRates | str]:
    """Called in the controller for a plan of this machine, for what its devices achieved when somebody measured them.

    Extensions may answer; all answers are collected. The first rates take precedence over those of the vendor. A text
    says why a measurement is not used, and becomes a note of the run. `packages` has the versions of the packages that
    affect the speed.

    >>> @llmperf.hookimpl
    ... def llmperf_measured_rates(plan, packages):
    ...     kept = Path("~/.cache/acme/rates.json").expanduser()
    ...     if plan.vendor == "acme" and kept.is_file():
    ...         yield llmperf.decode(kept.read_bytes(), DeviceRates, str(kept))
    """


@answered_by("framework", firstresult=True)
def llmperf_plan_workers(spec: RunSpec, probe: Probe) -> WorkerPlan:
    """Called in the controller while planning, for the layout, the needs and the argv that starts one node's ranks.

    The framework owns it. `problems` lists everything that it cannot run, unknown `spec.framework` options included.

    >>> @llmperf.hookimpl
    ... def llmperf_plan_workers(spec, probe):
    ...     return WorkerPlan(layout=llmperf.standard_layout(spec), agent=llmperf.agent_argv(),
    ...                       needs=Needs(precision=spec.contract.precision, runtime="torch"))
    """


@answered_by("extension")
def llmperf_plan_checks(plan: Plan) -> Iterable[PlanCheck]:
    """Called in the controller for a planned run, before anything starts, for problems and expectations.

    Extensions may answer; all answers are collected. It must be quick, since planning also tries other settings.
    Problems are read before a plan has peak and rates; the hook is called again for the rest when it has them. With
    `--no-preflight`, problems do not refuse the run.

    >>> @llmperf.hookimpl
    ... def llmperf_plan_checks(plan):
    ...     if plan.vendor == "acme" and plan.layout.world_size > 8:
    ...         problem = Problem(code="acme.too_many", where="tuning.devices", message="expected at most 8 Acme A1")
    ...         yield PlanCheck(problems=(problem,))
    """


@answered_by("framework", firstresult=True)
def llmperf_trace_step(plan: Plan, rank: int) -> StepTrace:
    """Called in a process of its own by `llmperf estimate`, without the plan's devices, for one step of one rank.

    The framework owns it. The trainer's own code runs at full size on tensors without data, such as torch's fake
    tensors, in a process group that sends nothing. Without this hook a step is estimated by formulas.

    >>> @llmperf.hookimpl
    ... def llmperf_trace_step(plan, rank):
    ...     from llmperf_acme.tracing import traced_step
    ...     return traced_step(plan, rank)
    """


@answered_by("extension", "core", firstresult=True)
def llmperf_count_flops(model: Model, workload: Workload) -> FlopCount | None:
    """Called in the controller while planning, for the numerator of MFU.

    Extensions are asked first and the core last; vendors and frameworks may not answer, since they are measured.
    None passes the question on.

    >>> @llmperf.hookimpl
    ... def llmperf_count_flops(model, workload):
    ...     return None
    """


@answered_by("vendor", "framework", "extension", "core")
def llmperf_worker_env(plan: Plan) -> Mapping[str, str]:
    """Called in the controller when the plan is complete, for the environment variables that every rank needs.

    Any plugin may answer; all answers are joined. If two plugins set a variable to different values, planning fails.

    >>> @llmperf.hookimpl
    ... def llmperf_worker_env(plan):
    ...     return {"ACME_VISIBLE_DEVICES": "0,1"}
    """


@answered_by("vendor", "extension")
def llmperf_launchers() -> Iterable[Launcher]:
    """Called in the controller before the launch, for the ways to start one agent on each node: local, ssh, slurm, ...

    Vendors and extensions may answer; all answers are collected.

    >>> @llmperf.hookimpl
    ... def llmperf_launchers():
    ...     return [MyCluster()]
    """


@answered_by("extension", "core")
def llmperf_observers() -> Iterable[Observer]:
    """Called in the controller before each run, for observers that follow it: a progress line, TensorBoard, MLflow.

    The core and extensions may answer; all answers are collected. An observer that raises or blocks is dropped.

    >>> @llmperf.hookimpl
    ... def llmperf_observers():
    ...     return [MyTracker()]
    """


@answered_by("extension")
def llmperf_loggers() -> Iterable[Logger]:
    """Called in the controller for `llmperf run --log NAME=VALUE`, for the places that runs can be logged to.

    Extensions may answer; all answers are collected. The observer of the named logger follows each run.

    >>> @llmperf.hookimpl
    ... def llmperf_loggers():
    ...     from llmperf_acme.board import AcmeBoard
    ...     return [Logger(name="acme", value="DIR", open=lambda value: AcmeBoard(Path(value)))]
    """


@answered_by("extension", firstresult=True)
def llmperf_open_launcher(name: str, vendor: str | None) -> OpenLauncher:
    """Called in the controller for `--launcher NAME`, to open the launcher of that name before its nodes are used.

    One extension may answer: `llmperf-remote`, which checks the answers of any launcher, and whose program on the nodes
    uses its commands. `vendor` is the chosen one, which may have launchers too. Runs on this machine need no answer.

    >>> @llmperf.hookimpl
    ... def llmperf_open_launcher(name, vendor):
    ...     from llmperf_acme.cluster import opened
    ...     return opened(name, vendor)
    """


@answered_by("extension")
def llmperf_node_tasks() -> Iterable[NodeTask]:
    """Called in the program on each node of a launcher, when the controller sends a task of an extension.

    Extensions may answer; all answers are collected. Arguments and answers are JSON. The package requests its task by
    `ReachedNodes.ask`, in a check that `CalledCommand.check_nodes` runs before a run. The nodes need the package too.

    >>> class Uptime:
    ...     answer = lambda self, arguments: {"seconds": float(Path("/proc/uptime").read_text().split()[0])}
    ...     close = lambda self: None
    >>> @llmperf.hookimpl
    ... def llmperf_node_tasks():
    ...     return [NodeTask(name="uptime", begin=lambda rank: Uptime())]
    """


@answered_by("framework", "extension")
def llmperf_screening() -> Iterable[ScreeningCheck]:
    """Called in a process on each node before a run on several nodes, for short measurements that find slow nodes.

    Frameworks and extensions may answer; all answers are collected; of two checks with one name, one is run. Heavy
    imports belong inside `ScreeningCheck.measure`.

    >>> @llmperf.hookimpl
    ... def llmperf_screening():
    ...     from llmperf_acme.speed import flops_per_second
    ...     return [ScreeningCheck(name="matrix product", unit="FLOP/s", scope="device", measure=flops_per_second)]
    """


@answered_by("vendor", firstresult=True)
def llmperf_query_memory(devices: tuple[int, ...]) -> tuple[DeviceSample, ...]:
    """Called in the controller's sampler, about once a second during a run: it must be cheap.

    The vendor owns it. It returns a sample for each index; a figure is None unless the tool reports it for that device.
    Raise OSError, with a message of one line, only if a device was lost: the result notes it. After five errors in a
    row the sampler stops, but not the run.

    >>> @llmperf.hookimpl
    ... def llmperf_query_memory(devices):
    ...     return tuple(DeviceSample(index=i, memory_used_bytes=None, memory_total_bytes=2**34) for i in devices)
    """


@answered_by("vendor", firstresult=True)
def llmperf_setup_device(plan: Plan, local_rank: int) -> Device:
    """Called in each worker before anything else, to bind the rank to its device. Heavy imports belong here.

    The vendor owns it.

    >>> @llmperf.hookimpl
    ... def llmperf_setup_device(plan, local_rank):
    ...     from llmperf_acme.device import AcmeDevice
    ...     return AcmeDevice(local_rank)
    """


@answered_by("framework", firstresult=True)
def llmperf_build_trainer(plan: Plan, device: Device) -> Trainer:
    """Called in each worker after its device is bound, to build the model, the data and the optimiser.

    The framework owns it. Weights and tokens come from `llmperf.initial_normal` and `llmperf.open_batches`.

    >>> @llmperf.hookimpl
    ... def llmperf_build_trainer(plan, device):
    ...     from llmperf_acme.trainer import AcmeTrainer
    ...     return AcmeTrainer(plan, device)
    """


@answered_by("extension", "core")
def llmperf_rank_records(plan: Plan, rank: int, trainer: Trainer) -> Iterable[RankRecords]:
    """Called in each worker before the warm-up steps, for further records of the rank.

    The core and extensions may answer; all answers are collected. The functions of each are called between warm-up and
    measured steps, and at both edges of the measured window; a record is one line of the rank's file. Rules over `run`
    find it under `RunRecords.further`. Ranks record nothing where the extension is not installed in their environment.

    >>> def recorded(rank):
    ...     import resource
    ...     from llmperf_acme.records import FaultsRecord
    ...     return FaultsRecord(rank=rank, faults=resource.getrusage(resource.RUSAGE_SELF).ru_majflt)
    >>> @llmperf.hookimpl
    ... def llmperf_rank_records(plan, rank, trainer):
    ...     return [RankRecords(kind="acme_faults", end=lambda: recorded(rank))]
    """


@answered_by("extension")
def llmperf_rank_tasks() -> Iterable[RankTask]:
    """Called in each rank of a run that an extension has started by `PlannedTask.run`, for what the rank does.

    Extensions may answer; all answers are collected. The task with that name is done after the rank's device is bound,
    in place of training. The package is installed in the environment of the ranks too. `script` is the task of a plan
    with a `Script`, and `trace` that of `Plan.traced_steps`, after all figures of a run are recorded.

    >>> def count(rank):
    ...     rank.enter("measuring")
    ...     rank.record(Places(rank=rank.rank, names=tuple(rank.device.places)))
    ...     rank.enter("evaluating")
    >>> @llmperf.hookimpl
    ... def llmperf_rank_tasks():
    ...     return [RankTask(name="count", run=count)]
    """


@answered_by("framework", firstresult=True)
def llmperf_timed_operations(plan: Plan, device: Device) -> TimedOperations:
    """Called in each rank of `llmperf peak` after its device is bound, in place of `llmperf_build_trainer`.

    The framework owns it. It provides single operations, such as matrix products and all-reduces, on the rank's device;
    llmperf-peak times them. One framework for each tensor library is enough.

    >>> @llmperf.hookimpl
    ... def llmperf_timed_operations(plan, device):
    ...     from llmperf_acme.operations import AcmeOperations
    ...     return AcmeOperations(plan, device)
    """


@answered_by("framework", firstresult=True)
def llmperf_profile_steps(
    plan: Plan, device: Device, step: Callable[[], object], steps: int, trace: Path | None
) -> StepProfile:
    """Called in one rank of `llmperf profile` or `run --trace` after other steps, to call `step` under a profiler.

    The framework owns it. `steps` is the number of calls. `trace` is the path for a Chrome trace, compressed by gzip;
    None if none is wanted.

    >>> @llmperf.hookimpl
    ... def llmperf_profile_steps(plan, device, step, steps, trace):
    ...     from llmperf_acme.profiling import profiled_steps
    ...     return profiled_steps(device, step, steps, trace)
    """


@answered_by("framework", firstresult=True)
def llmperf_parse_log(line: str) -> Logged | Iterable[Logged] | None:
    """Called in each rank for each line that its external script prints, to find steps and other facts.

    The framework owns it; it is needed only if the framework plans a `Script`. A line may hold several answers, or none
    (None). llmperf-scripts adds the time at which the line arrived, and derives step times if the script prints none.

    >>> @llmperf.hookimpl
    ... def llmperf_parse_log(line):
    ...     words = line.split()
    ...     if words[:1] == ["step"]:
    ...         return LoggedStep(step=int(words[1]), loss=float(words[2]))
    ...     return None
    """


@answered_by("extension")
def llmperf_result_sections() -> Iterable[ResultSection]:
    """Called in the controller when results are computed, validated or reported, for sections of further figures.

    Extensions may answer; all answers are collected. A section has a name, a frozen dataclass of figures,
    a function that computes them, and one that makes rows of the sheet. Results keep the sections of extensions that
    are not installed.

    >>> def burst(plan, result, run):
    ...     steps = result.metrics.step_seconds
    ...     return None if steps is None else Burst(longest_share=steps.p95 / steps.median)
    >>> @llmperf.hookimpl
    ... def llmperf_result_sections():
    ...     return [ResultSection(name="burst", figures=Burst, compute=burst)]
    """


@answered_by("vendor", "framework", "extension", "core")
def llmperf_rules(kind: str | None) -> Iterable[Rule]:
    """Called in the controller when documents are validated or made, for the rules over one kind of document.

    Any plugin may answer; all answers are collected. `kind` saves importing rules that are not needed; it is None when
    all rules are listed, as for `--explain`, and an implementation may omit the argument. The rules of a vendor or
    framework apply to documents that name it, those of an extension to all. Rules over `run` get the records of a run
    folder, `llmperf.validation.RunRecords`, and point into its result.

    >>> def driver_is_known(result):
    ...     if result.hardware.driver is None:
    ...         yield "/hardware/driver", "expected the version of the driver, found null"
    >>> @llmperf.hookimpl
    ... def llmperf_rules():
    ...     yield Rule(code="ACME1", severity="warning", title="The driver is known", check=driver_is_known,
    ...                page="# ACME1: The driver is known")
    """


@answered_by("extension", "core")
def llmperf_document_kinds() -> Iterable[DocumentKind]:
    """Called in the controller by commands that read files, for the kinds of document that a plugin can read.

    The core and extensions may answer; all answers are collected. Silent kinds are recognised first, then the core's.

    >>> @llmperf.hookimpl
    ... def llmperf_document_kinds():
    ...     return [DocumentKind(name="acme-log", title="a log of acme-smi", suffixes=(".acme",),
    ...                          recognise=lambda path, beginning, named: beginning().startswith("ACME"),
    ...                          read=lambda path, named: path.read_text().splitlines())]
    """


@answered_by("extension")
def llmperf_translations(language: str) -> Iterable[Mapping[str, str]]:
    """Called in the controller once a command shows texts in a language other than English, such as `zh`.

    Extensions may answer; all answers are collected. Keys are texts and the templates of `llmperf.types.Text`, of
    llmperf and of any plugin. In a translation, `{0}`, `{1}` are the values of the template in their order.

    >>> @llmperf.hookimpl
    ... def llmperf_translations(language):
    ...     return [{"expected at most {} Acme A1": "应不超过 {0} 台 Acme A1"}] if language == "zh" else []
    """


@answered_by("vendor", "framework", "extension", "core")
def llmperf_reporters() -> Iterable[Reporter]:
    """Called in the controller for `llmperf report --format NAME`, for the formats of reports.

    Any plugin may answer; all answers are collected. Vendors and frameworks are asked if a document names them. A
    reporter renders sheets of labelled rows, which are alike for runs, published rows and other kinds of document.

    >>> @llmperf.hookimpl
    ... def llmperf_reporters():
    ...     return [MyReporter()]
    """


def collecting(name: str) -> bool:
    """Check whether all answers to a hook are collected; otherwise the chosen plugin alone answers it."""
    options: dict[str, Any] = globals()[name].llmperf_spec
    return not options["firstresult"]
