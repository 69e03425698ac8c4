"""What the tests of all members share: plugins without tensors, plans for them, and a terminal."""

from __future__ import annotations

import fcntl
import json
import math
import os
import pty
import re
import secrets
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from unittest import mock

import llmperf_schemas
import pytest
from hypothesis import HealthCheck, settings
from llmperf import __version__
from llmperf.cli.main import call
from llmperf.errors import UserError
from llmperf.files import json_files
from llmperf.launching.agent import agent_argv
from llmperf.results.run_result import build_result
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import AgentReport, Ending, RankExit, SeenPhase
from llmperf.types import (
    FlopCount,
    FlopsPerToken,
    Layout,
    Needs,
    PhaseRecord,
    Plan,
    PluginInfo,
    RankRecord,
    RunSpec,
    StepRecord,
    Tuning,
    WorkerPlan,
)

# How long an example takes, to draw and to run, depends on what else the machine does.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


FAST = "not slow"
"""How the expression of marks begins for the fast tests, which is the default."""
PEAK = {"flops_per_second": 1e11, "size": 1024, "core_share": 1.0, "date": "2026-01-01"}


def pytest_configure(config: pytest.Config) -> None:
    """Undo inherited ignored signals, which runs respect: `&` ignores Ctrl-C, and `nohup` ignores SIGHUP.

    Runs of tests are not screened, and this host has a made-up peak: both take seconds, and a busy host would be timed
    again for each run. Hundreds of processes start, so modules are compiled once.
    """
    os.environ.setdefault("LLMPERF_SCREENING", "0")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait leave the cores to other tests
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if hasattr(config, "workerinput"):
        return
    from llmperf_cpu import host, peak

    cache = tempfile.TemporaryDirectory(prefix="llmperf-tests-")
    config.add_cleanup(cache.cleanup)
    os.environ["LLMPERF_CACHE_DIR"] = cache.name
    with mock.patch.object(peak, "_measure", lambda key, *_: {**PEAK, "key": key}):
        for precision in ("fp32", "bf16"):
            peak.measured_peak(host.cpu_model(), precision)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out of the fast tests, unread, the files that are marked slow as a whole: most import torch."""
    if config.option.markexpr.startswith(FAST) and collection_path.suffix == ".py":
        return True if SLOW_FILE.search(collection_path.read_text(encoding="utf-8")) else None
    return None


SLOW_FILE = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.(slow|gpu)\b(?!\()", re.MULTILINE)


ALL_TESTS = bool(os.environ.get("LLMPERF_ALL_TESTS"))
"""Whether tests run that take minutes, and others with all their examples."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip long tests unless all are asked for."""
    for item in items:
        if item.get_closest_marker("long") is not None and not ALL_TESTS:
            item.add_marker(pytest.mark.skip(reason="takes minutes; LLMPERF_ALL_TESTS=1 runs it"))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two processes for the default suite; one for chosen files, and for slow tests, which measure time."""
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    return 0 if chosen or config.option.markexpr.startswith("slow") else 2


STUB = Path(__file__).parent / "core" / "tests" / "stub"


def _announced(site, distribution, requires=(), version="v1", **points):
    info = site / f"{distribution.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    needed = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n{needed}")
    entries = (f"[llmperf.{role}.{version}]\n{point}\n" for role, point in points.items())
    (info / "entry_points.txt").write_text("".join(entries))


@pytest.fixture(scope="session")
def announced():
    """A function that puts a distribution's metadata in a folder, as an installer does.

    `announced(site, "llmperf-acme", vendor="acme = llmperf_acme", requires=("llmperf-core",))`: version 1.0.
    """
    return _announced


@pytest.fixture
def on_path(monkeypatch):
    """A function that has this process and those that it starts import from these folders first."""

    def put(*folders):
        for folder in folders:
            monkeypatch.syspath_prepend(str(folder))
        path = filter(None, [*map(str, folders), os.environ.get("PYTHONPATH")])
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))

    return put


@pytest.fixture
def stub_site(tmp_path_factory, on_path):
    """The stub plugins `vendor stub` and `framework stub`, installed for this process and those it starts."""
    site = tmp_path_factory.mktemp("site")
    _announced(site, "llmperf-stub", vendor="stub = llmperf_stub.vendor", framework="stub = llmperf_stub.framework")
    on_path(site, STUB)
    yield site
    for name in [name for name in sys.modules if name.split(".")[0] == "llmperf_stub"]:
        del sys.modules[name]


@pytest.fixture
def stub_run(stub_site, tmp_path, monkeypatch):
    """The words of a short `llmperf run` of the stub plugins, below the working directory `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    words = ["run", "default", "--vendor", "stub", "--framework", "stub", "--devices", "1", "--no-preflight"]
    settings = ("micro_batch=1", "steps=8", "warmup_steps=2", "model=llama_tiny", "seq_len=16")
    return [*words, *(f"--set={setting}" for setting in (*settings, "framework.step_seconds=0.01"))]


@pytest.fixture
def stub_plan(stub_site):
    """A function that makes a plan for the stub plugins: `stub_plan(steps=30, ranks=2, fault="raises")`."""
    return _stub_plan


def _stub_plan(
    steps=12, warmup_steps=2, ranks=2, stall_seconds=30.0, startup_seconds=30.0, env=None, **options
) -> Plan:
    """The published example plan for the stub plugins and a model of next to nothing."""
    from llmperf_stub.vendor import llmperf_peak_flops, llmperf_probe

    plan = json_files.convert(llmperf_schemas.example("plan"), Plan, "plan")
    batch, spec = 2 * ranks, plan.spec
    sizes = {"vocab_size": 256, "hidden_size": 8, "intermediate_size": 16, "layers": 1, "max_positions": 64}
    sizes |= {"attention_heads": 1, "kv_heads": 1, "nominal_parameters": 1000}
    return replace(
        plan,
        run_id=f"stub-{secrets.token_hex(6)}",
        created="2026-01-01T00:00:00+00:00",
        spec=RunSpec(
            case="stub",
            title="Stub",
            contract=replace(
                spec.contract, model="stub", seq_len=8, global_batch=batch, steps=steps, warmup_steps=warmup_steps
            ),
            tuning=Tuning(framework="stub", devices=ranks, micro_batch=2),
            model=replace(spec.model, name="stub", title="Stub", **sizes),
            framework=options,
        ),
        vendor="stub",
        probe=llmperf_probe(),
        device_share=1 / ranks,
        batch=replace(plan.batch, data_parallel=ranks, global_batch=batch, seq_len=8, tokens_per_step=8 * batch),
        flops=FlopCount(
            parameters=1000,
            embedding_parameters=100,
            nominal_parameters=1000,
            per_token=(FlopsPerToken(convention="nominal", flops=6000.0, formula="6 x 1000"),),
        ),
        peak=llmperf_peak_flops("Stub S1", "fp32"),
        rates=None,
        worker=WorkerPlan(
            layout=Layout(nodes=1, devices_per_node=ranks, tensor_parallel=1, pipeline_parallel=1, data_parallel=ranks),
            needs=Needs(precision="fp32", runtime="torch"),
            agent=agent_argv(),
            rank_env={"STUB_RANK": "{rank} of {world_size}"},
            files={"stub.json": "{}"},
        ),
        env=env or {},
        stall_seconds=stall_seconds,
        startup_seconds=startup_seconds,
        plugins=(
            PluginInfo(name="core", role="core", distribution="llmperf-core", version=__version__),
            PluginInfo(name="stub", role="vendor", distribution="llmperf-stub", version="1.0"),
            PluginInfo(name="stub", role="framework", distribution="llmperf-stub", version="1.0"),
        ),
    )


@pytest.fixture
def example():
    """The published example result as plain dicts; a fresh copy for each test."""
    return llmperf_schemas.example("result")


@pytest.fixture(scope="session")
def saved():
    """A function that writes a document, in folders that it makes: `saved(path, document)` gives the path."""

    def save(path, document):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))
        return path

    return save


@pytest.fixture
def wrong(example, tmp_path):
    """The path of a result with a wrong throughput and a stand-in for a device."""
    example["metrics"]["tokens_per_second_per_device"] *= 2
    example["hardware"]["simulated"] = True
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(example, indent=2))
    return str(path)


@pytest.fixture
def ran(capsys):
    """Run llmperf with some words, check its exit code, and return what it printed: `out` and `err`."""

    def run(code, *words):
        status, printed = call(list(map(str, words))), capsys.readouterr()
        assert status == code, printed.out + printed.err
        return printed

    return run


@pytest.fixture(scope="session")
def one_line():
    """A function for `with`: what is done there is refused in one line with these texts: `one_line("a", "b")`."""

    @contextmanager
    def refused(*texts, start=""):
        with pytest.raises(UserError) as caught:
            yield
        line = str(caught.value)
        assert line.startswith(start)
        assert [text for text in texts if text not in line] == [], line
        assert "\n" not in line

    return refused


@pytest.fixture
def run_folder(tmp_path):
    """The folder of a complete run of two ranks, as `llmperf run` leaves it, its result checked and saved."""
    run = tmp_path / "run"
    (run / "records").mkdir(parents=True)
    plan = json_files.convert(llmperf_schemas.example("plan"), Plan, "plan")
    json_files.save(run / filenames.PLAN, plan)
    vocabulary = math.log(plan.spec.model.vocab_size)
    for rank in range(plan.layout.world_size):
        records = _records(plan, rank, _steps(plan, rank), 0.64, lambda step: vocabulary - 0.1 * step)
        lines = [json_files.encode(record) + b"\n" for record in records]
        filenames.records_path(run, rank).write_bytes(b"".join(lines))
    json_files.save(filenames.agent_report_path(run, 0), _agent_report(plan))
    json_files.save(run / filenames.ENDING, Ending(cause="ended", at="2026-01-15T09:30:31+00:00", agents=(0,)))
    json_files.save(run / filenames.RESULT, build_result(run))
    return run


BEGIN = 1768469405.0
STARTED = BEGIN - 500.0
"""When the host was, whose monotonic clock the records have."""
UNEVEN = (0.004, -0.004, 0.001, -0.001, 0.002, -0.002)
"""Seconds by which steps differ, as on any machine."""


def _agent_report(plan):
    """What the agent saw of the ranks, a tenth of a second after they recorded it."""
    begin = BEGIN - STARTED + 0.64 * plan.spec.contract.warmup_steps + 0.1
    end = BEGIN - STARTED + 0.64 * plan.spec.contract.steps + 0.1
    phases = tuple(SeenPhase(phase=phase, monotonic=at, uptime=at + 3.0)
                   for phase, at in (("measuring", begin), ("evaluating", end), ("done", end + 3.0)))  # fmt: skip
    ranks = tuple(RankExit(rank=rank, pid=100 + rank, exit_code=0, at=BEGIN + 60.0, phases=phases)
                  for rank in range(plan.layout.world_size))  # fmt: skip
    return AgentReport(node_rank=0, pid=99, ranks=ranks)


def _steps(plan, rank):
    """Seconds of each step of a smooth run, about 0.64."""
    contract = plan.spec.contract
    uneven = UNEVEN if rank % 2 == 0 else UNEVEN[::-1]
    return [0.64 + uneven[(step - contract.warmup_steps) % len(uneven)] for step in range(contract.steps)]


def _records(plan, rank, seconds, mean, loss):
    """What one rank records whose steps took these seconds, by their mean those of the window."""
    contract, tokens = plan.spec.contract, plan.batch.tokens_per_step // plan.layout.world_size
    at = BEGIN
    for step, taken in enumerate(seconds, start=1):
        if step == contract.warmup_steps + 1:
            yield PhaseRecord(rank=rank, phase="measuring", at=at, monotonic=at - STARTED)
        at += taken
        known = {"rank": rank, "step": step, "measured": step > contract.warmup_steps, "tokens": tokens}
        yield StepRecord(**known, at=at, monotonic=at - STARTED, step_seconds=taken, loss=loss(step - 1))
    yield PhaseRecord(rank=rank, phase="evaluating", at=at, monotonic=at - STARTED)
    steps = contract.steps - contract.warmup_steps
    yield RankRecord(
        rank=rank,
        measured_steps=steps,
        measured_tokens=steps * tokens,
        window_seconds=mean * steps,
        peak_memory_bytes=2**29,
        evaluation={},
        packages={"python": "3.11.7", "torch": "2.15.0"},
    )
    yield PhaseRecord(rank=rank, phase="done", at=at + 3, monotonic=at + 3 - STARTED)


@pytest.fixture(scope="session")
def records_of_a_rank():
    """A function that gives what a rank records: `records_of_a_rank(plan, rank, seconds_of_steps, mean, loss)`."""
    return _records


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution with one plugin on the path, as an installer would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    modules = []

    def put(
        distribution: str, name: str, source: str, role: str = "vendor", version: str = "v1", requires: tuple = ()
    ) -> None:
        module = distribution.replace("-", "_")
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(source)
        _announced(tmp_path, distribution, requires, version, **{role: f"{name} = {module}"})
        look_again()

    def look_again():
        """What is installed is looked up once in a process."""
        if catalogue := sys.modules.get("llmperf.validation.catalogue"):
            catalogue.forget_catalogues()

    yield put
    for module in modules:
        sys.modules.pop(module, None)
    look_again()


@pytest.fixture(scope="session")
def apart():
    """As `ran`, in a process of its own: `apart(0, "plan", cwd=folder, VARIABLE="1")` gives `stdout` and `stderr`."""

    def run(code, *words, cwd=None, **environment):
        command = [sys.executable, "-m", "llmperf", *map(str, words)]
        env = {**os.environ, **environment}
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=800)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def result_of_run(tmp_path, apart):
    """A function that runs a command as a user types it, and gives its result: `result_of_run("default", code=1)`."""

    def run(*words, code=0, cwd=tmp_path, **environment):
        return json.loads(apart(code, "run", *words, "--json", cwd=cwd, **environment).stdout)["result"]

    return run


@pytest.fixture
def running(tmp_path):
    """A function that starts a long run: `running("default")` gives process, run folder and the pid of rank 1.

    It returns once rank 1 has made three steps.
    """
    started = []

    def start(*words):
        command = [sys.executable, "-m", "llmperf", "run", *words]
        started.append(subprocess.Popen(command, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True))
        limit = time.monotonic() + 150
        while time.monotonic() < limit:
            assert started[-1].poll() is None, started[-1].communicate()
            for records in tmp_path.glob("runs/*/records/rank-00001.jsonl"):
                if records.read_text().count('"kind":"step"') >= 3:
                    ranks = json.loads(records.with_name("agent-000.json").read_text())["ranks"]
                    return started[-1], records.parents[1], next(rank["pid"] for rank in ranks if rank["rank"] == 1)
            time.sleep(0.1)
        raise AssertionError("no step in 150 s")

    yield start
    for run in started:
        if run.poll() is None:
            run.terminate()
            run.communicate(timeout=60)


@pytest.fixture
def on_a_terminal():
    """A function that runs a command on a terminal: `on_a_terminal("report", ".", cwd=path, columns=80)`."""
    return _on_a_terminal


def _on_a_terminal(*words, cwd, columns=100, **environment):
    """What a command writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    plain = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES")
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "llmperf", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        env={**plain, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not chunk:
            break
        written += chunk
    os.close(ours)
    running.wait(100)
    return written.decode()


@pytest.fixture
def runs_of_two_models(tmp_path, example):
    """A folder of runs of two models, the small one far faster, on two contracts."""
    made = [("llama_tiny", 4, 9000.0), ("llama2_7b", 4, 10.0), ("llama2_7b", 4, 30.0), ("llama2_7b", 8, 20.0)]
    for number, (model, batch, figure) in enumerate(made):
        document = json.loads(json.dumps(example)) | {"run_id": f"run-{number}", "variant": model == "llama_tiny"}
        document["files"]["records/rank-00000.jsonl"] = f"{number:064x}"
        document["model"]["name"] = document["contract"]["model"] = model
        document["contract"]["global_batch"] = batch
        change = {"path": "contract.global_batch", "case_value": 1, "value": batch, "origin": "--set"}
        document["fix_hp"] = [change]
        document["metrics"]["tokens_per_second_per_device"] = figure
        (tmp_path / document["run_id"]).mkdir()
        (tmp_path / document["run_id"] / "result.json").write_text(json.dumps(document))
    return tmp_path
