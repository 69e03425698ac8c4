"""The rank process: `python -m llmperf.measuring.worker --run-dir DIR`, started with RANK and LOCAL_RANK set."""

from __future__ import annotations

import argparse
import faulthandler
import math
import os
import platform
import signal
import site
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from llmperf import __version__
from llmperf.errors import PluginError, RunFailed
from llmperf.files import json_files
from llmperf.files.text import printable
from llmperf.measuring.loop import MeasuredLoop, seconds_of, wrong
from llmperf.measuring.processes import leave
from llmperf.plugins.discovery import Found, discover, find
from llmperf.plugins.faults import described, who
from llmperf.plugins.loading import Plugins
from llmperf.plugins.own_packages import project_packages
from llmperf.runfolder import filenames
from llmperf.runfolder.reader import FURTHER, KINDS, MISSPELT, Moment, Recorder, RecordFile
from llmperf.types.devices import Device
from llmperf.types.plan import Plan
from llmperf.types.rank_tasks import RankTask
from llmperf.types.records import FailureRecord, Phase, PhaseRecord, RankRecord, RankRecords, Record, Trainer

T = TypeVar("T")

RECORDS_HOOK = "llmperf_rank_records"
FIGURES = "a mapping of names to numbers, empty where there are none, or an iterator of such"
MAX_SHOWN = 80
MAX_TEXT = 200
"""Characters of the description of a kernel that are recorded."""
MAX_VERSION = 100
"""Characters of a version that are recorded."""
MAX_PATH = 200
"""Characters of a path that are recorded."""
SIGN_OF_LIFE_SECONDS = 1.0
"""Shortest interval in which a long evaluation records that it continues."""


def train_rank(arguments: Sequence[str] | None = None) -> int:
    """Run one rank; 0 when it finished, otherwise the status of its task. A failure is recorded and ends the process at
    once with status 1."""
    faulthandler.enable()
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1, all_threads=True)  # prints the stacks of a rank that hangs
    parser = argparse.ArgumentParser(prog="llmperf.measuring.worker")
    parser.add_argument("--run-dir", type=Path, required=True)
    run, rank = parser.parse_args(arguments).run_dir, int(os.environ["RANK"])
    with Recorder(filenames.records_path(run, rank), run / filenames.RANK_RESERVE) as recorder:
        worker = Worker(run, rank, recorder)
        try:
            return worker.live()
        except BaseException as error:
            fail(recorder, rank, error, worker.place)


def fail(recorder: Recorder, rank: int, error: BaseException, place: str = "") -> NoReturn:
    """Record why and where this rank ends, and end it without closing what could wait for other ranks."""
    text = "".join(traceback.format_exception(error))
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    message = str(error)
    if isinstance(error, SystemExit):
        message = f"sys.exit({error.code!r}) before the last step" + (f", {place}" if place else "")
    record = FailureRecord(rank=rank, at=time.time(), exception=name, message=message, traceback=text)
    for _ in range(2):  # the first write to a full disk frees the reserve, so that the second succeeds
        with suppress(Exception):
            recorder.write(record)
            break
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
    os._exit(1)


class Worker:
    """One rank from its plan to its last record. Implements `llmperf.types.RankAtTask`."""

    plan: Plan
    device: Device
    ask: Callable[..., Any]
    answers: Callable[..., Any]

    def __init__(self, run: Path, rank: int, recorder: Recorder) -> None:
        self.rank = rank
        self.run = run
        self.trainer: Trainer | None = None
        self.record = recorder.write
        self._recorder = recorder
        self._phase: Phase = "starting"
        self._owner: Found | None = None
        """The plugin that is called in this phase."""

    @property
    def place(self) -> str:
        """The phase that the rank is in and the plugin that is called in it."""
        return f"while {self._phase}" + (f", in {who(self._owner)}" if self._owner else "")

    def task(self, kind: type[T]) -> T:
        """The dataclass that the task was given."""
        return json_files.load(self.run / filenames.FILES / f"{self.plan.purpose}.json", kind)

    def follow(self, rank: int) -> Callable[[], list[Record]]:
        """A function that returns the new records of a rank."""
        return RecordFile(filenames.records_path(self.run, rank)).new

    def who(self, hook: str) -> str:
        """The owner of a hook as messages name it."""
        return who(self._plugins.owner(hook))

    def live(self) -> int:
        """Load, build, train, evaluate, or do a task; returns the status. Every phase is recorded as it is entered."""
        self.enter("starting")
        plan = self.plan = json_files.load(self.run / filenames.PLAN, Plan)
        self.enter("loading")
        plugins = self._plugins = plugins_of(plan)
        self.ask, self.answers = plugins.ask, plugins.several
        task = None if plan.task is None else task_named(plan.task, plugins)
        binds, hook = task is None or task.binds_device, "llmperf_setup_device"
        self._owner = plugins.owner(hook) if binds else None
        bound: Any = nullcontext()
        if binds:
            bound = plugins.ask(hook, plan=plan, local_rank=int(os.environ["LOCAL_RANK"]))
            if not isinstance(getattr(bound, "places", None), Mapping):  # as in the first edition of the contract
                expected = "expected a device with `places`, its names by tensor library (llmperf.types.Device)"
                raise PluginError(f"{who(plugins.owner(hook))}: {hook}: {expected}, found none")
        with bound as device:
            self.device = device
            self.enter("building")
            if task is not None:
                status = task.run(self) or 0
                if status == 0:
                    self.enter("done")
                return status
            self._owner = plugins.owner("llmperf_build_trainer")
            with plugins.ask("llmperf_build_trainer", plan=plan, device=device) as trainer:
                count: object = getattr(trainer, "parameter_count", None)
                if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                    raise wrong("the number of the model's parameters", "parameter_count", repr(count)[:MAX_SHOWN])
                check_parameters(count, plan, f"{who(self._owner)}: the trainer")
                device.reset_peak_memory()
                further = further_records(plugins, plan, self.rank, trainer)
                self.enter("warming up")
                # a rerun compares its steps from the second on with those of the submission
                warmup = min(1 if plan.purpose == "rerun" else plan.spec.contract.warmup_steps, plan.steps - 1)
                loop = MeasuredLoop(trainer, device, self._recorder, self.rank, further)
                window = loop.run(plan.steps, warmup, self.enter)
                peak, reserved = device.peak_memory_bytes(), getattr(device, "peak_reserved_bytes", lambda: None)()
                compiling = seconds_of(trainer, "compile_seconds")
                figures = {} if plan.purpose == "rerun" else self._evaluate(trainer)
                self.record(
                    RankRecord(
                        rank=self.rank,
                        measured_steps=window.steps,
                        measured_tokens=window.tokens,
                        window_seconds=window.seconds,
                        communication_seconds=window.communication_seconds,
                        kernels=texts_of(trainer, "kernels"),
                        precisions=texts_of(trainer, "precisions"),
                        compile_seconds=compiling,
                        peak_memory_bytes=peak,
                        peak_reserved_bytes=reserved,
                        evaluation=figures,
                        packages=loaded_packages(),
                        data_fingerprint=data_fingerprint(),
                        startup_modules=startup_modules(),
                    )
                )
                if plan.traced_steps:
                    self.trainer = trainer
                    try:
                        task_named("trace", plugins).run(self)
                    except Exception as error:  # such as data that are used up; all figures are recorded
                        print(f"llmperf: no trace: {described(error)}", file=sys.stderr)
        self.enter("done")
        return 0

    def enter(self, phase: Phase, moment: tuple[float, float] | None = None) -> None:
        """Record that a phase begins."""
        self._phase = phase
        at, monotonic = moment or Moment.now()
        self.record(PhaseRecord(rank=self.rank, phase=phase, at=at, monotonic=monotonic))

    def _evaluate(self, trainer: Trainer) -> dict[str, float | None]:
        """All figures of the evaluation, None for what is no number; each part shows that the rank lives."""
        given: object = trainer.evaluate()
        if isinstance(given, Mapping):
            return _numbers(given)
        if not isinstance(given, Iterable) or isinstance(given, str):
            raise wrong(FIGURES, "answer of evaluate()", repr(given)[:MAX_SHOWN])
        figures: dict[str, float | None] = {}
        recorded = time.monotonic()
        for part in given:
            figures.update(_numbers(part))
            if time.monotonic() - recorded > SIGN_OF_LIFE_SECONDS:
                self.enter("evaluating")
                recorded = time.monotonic()
        return figures


def _numbers(figures: object) -> dict[str, float | None]:
    """The figures, with None for NaN and infinity, which JSON does not have."""
    if not isinstance(figures, Mapping) or not all(isinstance(name, str) for name in figures):
        raise wrong(FIGURES, "answer of evaluate()", repr(figures)[:MAX_SHOWN])
    numbers: dict[str, float | None] = {}
    for name, value in figures.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise wrong("a number", f"figure {name!r} of evaluate()", repr(value)[:MAX_SHOWN]) from None
        numbers[name] = number if math.isfinite(number) else None
    return numbers


def loaded_packages() -> dict[str, str]:
    """Versions of the imported top-level packages outside the standard library, and of Python, by import name."""
    versions = {"python": platform.python_version()}
    for name in sorted({module.split(".")[0] for module in list(sys.modules)}):
        if name in sys.stdlib_module_names or name.startswith("_"):
            continue
        version: object = vars(sys.modules[name]).get("__version__") if name in sys.modules else None
        if name == "llmperf":  # of the distribution llmperf-core
            version = __version__
        elif not isinstance(version, str):  # a declared one may name the build, as in 2.15.0+cu132
            try:
                version = metadata.version(name)
            except (metadata.PackageNotFoundError, ValueError):
                continue
        versions[name] = str(version)[:MAX_VERSION]
    return versions


def startup_modules() -> dict[str, str]:
    """Files of `sitecustomize` and `usercustomize`, by name; without those that came with the interpreter."""
    names = ["sitecustomize", *(["usercustomize"] if site.ENABLE_USER_SITE else [])]
    shipped = Path(sysconfig.get_path("stdlib")).resolve()
    files = {}
    for name in names:
        spec = None if sys.flags.no_site else PathFinder.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        if Path(spec.origin).parent.resolve() != shipped:  # not the file's own folder: Debian has a link to /etc there
            files[name] = printable(spec.origin, "?")[:MAX_PATH]
    return files


def data_fingerprint() -> str | None:
    """The fingerprint of the data that this process has opened first; None if it has opened none."""
    batches = sys.modules.get("llmperf.tokens.batches")  # imports numpy, which a trainer may not need
    return next(iter(batches.opened), None) if batches is not None else None


def texts_of(trainer: Trainer, name: Literal["kernels", "precisions"]) -> dict[str, str]:
    """Kernels or precisions by name, as the trainer reports them; empty if it does not. PluginError otherwise."""
    texts: object = getattr(trainer, name, {})
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for pair in texts.items() for text in pair):
        raise wrong("a mapping of names to texts", name, repr(texts)[:MAX_SHOWN])
    return {key[:MAX_SHOWN]: text[:MAX_TEXT] for key, text in texts.items()}


def check_parameters(built: int, plan: Plan, builder: str) -> None:
    """RunFailed if the model that `builder` has built, of `built` parameters, is not the plan's."""
    if built != plan.flops.parameters:
        model = plan.spec.model
        expected = f"expected {plan.flops.parameters:,} ({model.name}, family {model.family!r})"
        raise RunFailed(f"{builder} built a model of {built:,} parameters, {expected}: another model than the plan's")


def further_records(plugins: Plugins, plan: Plan, rank: int, trainer: Trainer) -> list[RankRecords]:
    """Further records of the core and extensions for a rank; PluginError for a kind that is invalid or taken."""
    from difflib import get_close_matches

    owners: dict[str, str] = {}
    further = []
    for key, part in plugins.collect_items(RECORDS_HOOK, plan=plan, rank=rank, trainer=trainer):
        if not isinstance(part, RankRecords):
            raise PluginError(f"{plugins.who(key)}: {RECORDS_HOOK}: expected RankRecords, found {type(part).__name__}")
        of = owners.get(part.kind, "core" if part.kind in KINDS and plugins.found(key).role != "core" else None)
        near = [] if part.kind in KINDS else get_close_matches(part.kind, KINDS, n=1, cutoff=MISSPELT)
        if of is not None or near or not FURTHER.fullmatch(part.kind):
            like = f", which resembles {near[0]!r} of core" if near else ""
            found = f"{part.kind!r:.80}{like if of is None else f', which is that of {of}'}"
            raise PluginError(f"{plugins.who(key)}: {RECORDS_HOOK}: expected a kind of its own, found {found}")
        owners[part.kind] = plugins.who(key)
        further.append(part)
    return further


def task_named(name: str, plugins: Plugins) -> RankTask:
    """The task that a loaded extension has; PluginError that names its package if none has it."""
    task = plugins.rank_task(name)
    if task is None:
        package = project_packages()["tasks"].get(name, "its package")
        raise PluginError(f"no extension has the task {name!r} in this rank's environment; install {package} here too")
    return task[0]


def plugins_of(plan: Plan) -> Plugins:
    """The vendor, framework and recording extensions of a plan; PluginError for another installed version."""
    known = list(discover())
    extensions = {found.name for found in known if found.role == "extension"}
    chosen = [find("vendor", plan.vendor, known), find("framework", plan.spec.tuning.framework, known)]
    chosen += [find("extension", name, known) for name in plan.recorders if name in extensions]
    versions = {(info.role, info.name): (info.distribution, info.version) for info in plan.plugins}
    for found in chosen:
        if (found.role, found.name) not in versions:
            raise PluginError(f"plan.json: plugins: {found.role} {found.name!r} is not listed")
        distribution, version = versions[found.role, found.name]
        if (distribution, version) != (found.distribution, found.version):
            raise PluginError(
                f"{found.role} {found.name!r}: the plan was made with {distribution} {version},"
                f" this rank's environment has {found.distribution} {found.version}; install the same on both"
            )
    return Plugins(chosen)


if __name__ == "__main__":
    leave(train_rank())
