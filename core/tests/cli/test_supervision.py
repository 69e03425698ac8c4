"""Commands with plugins that end the process, hang it, or close its output: one line that names them, never exit 0."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

VENDOR = """
import os, signal, sys, threading, time
from llmperf import hookimpl
# IMPORT

def probe(simulated=False):
    from llmperf.types import DeviceInfo, Offers, Probe
    offers = Offers(precisions=("fp32",), runtimes=("torch",), collective_backend="gloo")
    device = DeviceInfo(index=0, model="Bad B1", memory_bytes=2**34)
    return Probe(vendor="bad", devices=(device,), offers=offers, simulated=simulated)

@hookimpl
def llmperf_probe():
    # PROBE
    return probe(simulated=True)

@hookimpl
def llmperf_catalogue():
    # CATALOGUE
    return [probe(simulated=True)]
"""
EXTENSION = """
import os, signal, sys, threading, time
from llmperf import hookimpl
from llmperf.types import Rule
# IMPORT

def check(result):
    # RULE
    return []

@hookimpl
def llmperf_rules():
    return [Rule(code="BAD1", severity="error", title="bad", check=check)]

class Reporter:
    name = "bad"
    def render(self, results, language):
        # RENDER
        return "fine"

@hookimpl
def llmperf_reporters():
    return [Reporter()]
"""

ENDINGS = {
    "leaves": ("os._exit(0)", "the process was ended with status 0"),
    "kills": ("os.kill(os.getpid(), signal.SIGKILL)", "the process was killed by SIGKILL"),
    "aborts": ("os.abort()", "the process was killed by SIGABRT"),
    "replaces": ("os.execv('/bin/true', ['true'])", "the process was ended with status 0"),
    "sleeps": ("time.sleep(60)", "gave no answer in 1 s"),
    "loops": ("exec('while True: pass')", "gave no answer in 1 s"),
    "stops": ("os.kill(os.getpid(), signal.SIGSTOP)", "gave no answer in 1 s"),
    "swallows": ("exec('while True:\\n try: time.sleep(9)\\n except BaseException: pass')", "gave no answer in 1 s"),
    "closes": ("os.closerange(0, 256)", "closed or replaced the standard output of llmperf"),
    "raises": ("raise __import__('asyncio').CancelledError('no')", "CancelledError: no"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "exits": ("sys.exit(0)", "SystemExit: 0"),
    "mumbles": (
        "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})",
        "Odd: its message cannot be read",
    ),
}
COMMANDS = {
    "validate": ("IMPORT", "extension"),
    "validate archive": ("RULE", "extension"),
    "report": ("RENDER", "extension"),
    "plan": ("IMPORT", "extension"),
    "run": ("PROBE", "vendor"),
    "devices": ("PROBE", "vendor"),
    "plugins": ("IMPORT", "vendor"),
    "doctor": ("PROBE", "vendor"),
    "plan elsewhere": ("CATALOGUE", "vendor"),
}
SURVIVED = {"raises", "interrupts", "exits", "mumbles"}
"""Endings after which the command goes on without the plugin."""

BROKEN = Path(__file__).parents[3] / "testing" / "tests" / "broken_plugins"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are supervised on Linux only")


@pytest.fixture
def site(tmp_path):
    """A function that installs a plugin for other processes and gives the environment in which they find it."""

    def put(role: str, place: str, statement: str, name: str = "bad") -> dict[str, str]:
        source = (VENDOR if role == "vendor" else EXTENSION).replace(f"# {place}", statement)
        folder = tmp_path / "site"
        info = folder / f"llmperf_{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"llmperf_{name}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: llmperf-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[llmperf.{role}.v1]\n{name} = llmperf_{name}\n")
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "LLMPERF_PLUGIN_SECONDS": "1"}

    return put


@pytest.fixture
def forged(tmp_path, example):
    """A result whose figures do not agree."""
    example["parameters"] *= 2
    path = tmp_path / "forged" / "result.json"
    path.parent.mkdir()
    path.write_text(json.dumps(example))
    return path


def llmperf(*words: object, env: dict[str, str] | None = None, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmperf", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=150, **options)


def words_of(command: str, forged: Path, folder: Path) -> list[object]:
    archive = forged.with_name("forged.zip")
    if command == "validate archive":
        import zipfile

        with zipfile.ZipFile(archive, "w") as opened:
            opened.write(forged, "run/result.json")
    return {
        "validate": ["validate", forged],
        "validate archive": ["validate", archive],
        "report": ["report", forged, "--format", "bad"],
        "plan": ["plan"],
        "run": ["run", "--vendor", "bad", "--out", folder / "runs"],
        "devices": ["devices"],
        "plugins": ["plugins"],
        "doctor": ["doctor"],
        "plan elsewhere": ["plan", "--on", "Bad B1:1x2"],
    }[command]


QUICK = {
    *(("validate", ending) for ending in ("leaves", "kills", "closes", "raises", "exits")),
    *(("validate archive", "sleeps"), ("run", "leaves"), ("plugins", "leaves"), ("doctor", "exits")),
}
"""One pair for each kind of ending and each way to treat it; all others are slow."""
PAIRS = [
    *((command, ending) for command in COMMANDS for ending in ("leaves", "exits")),
    *(("validate", ending) for ending in ENDINGS if ending not in ("leaves", "exits")),
    *((command, "sleeps") for command in ("validate archive", "run", "report")),
]


@pytest.mark.parametrize(
    ("command", "ending"), [pytest.param(*pair, marks=[pytest.mark.slow] * (pair not in QUICK)) for pair in PAIRS]
)
def test_a_plugin_that_never_answers_is_named_and_the_command_fails(site, forged, tmp_path, command, ending):
    place, role = COMMANDS[command]
    statement, said = ENDINGS[ending]
    done = llmperf(*words_of(command, forged, tmp_path), env=site(role, place, statement), cwd=tmp_path)
    shown = done.stdout + done.stderr
    assert f"{role} 'bad' (llmperf-bad)" in shown
    assert said in shown
    assert "Traceback" not in shown
    if ending in SURVIVED:
        codes = {"validate": 1, "validate archive": 1, "report": 2, "run": 2, "doctor": 1, "plan elsewhere": 2}
        assert done.returncode == codes.get(command, 0)
    else:
        assert done.returncode == (1 if command == "doctor" else 2), shown


def test_a_rule_that_is_not_selected_is_not_called(site, forged):
    env = site("extension", "RULE", "os._exit(0)")
    for words in (["--ignore", "BAD1"], ["--select", "LP"]):
        done = llmperf("validate", forged, *words, env=env)
        assert done.returncode == 1, done.stderr
        assert "/parameters: LP" in done.stdout


def test_a_listing_goes_on_without_the_plugin_that_ends_it(site):
    env = site("vendor", "IMPORT", "os._exit(0)")
    told = "vendor 'bad' (llmperf-bad): import: the process was ended with status 0"
    done = llmperf("devices", "--json", env=env)
    listed = json.loads(done.stdout)
    assert "cpu" in [one["vendor"] for one in listed["probes"]]
    assert listed["broken"] == [told]
    assert (done.returncode, done.stderr) == (2, f"llmperf: {told}\n")
    states = {one["name"]: one["state"] for one in json.loads(llmperf("plugins", "--json", env=env).stdout)}
    assert (states["bad"], states["cpu"]) == (f"broken: {told}", "ok")


def test_what_was_found_before_a_plugin_ends_the_process_is_shown(site, forged):
    leaves = "pid = os.getpid()\n    if result.run_id == 'second': os._exit(0)"
    env = site("extension", "RULE", leaves)
    document = json.loads(forged.read_text())
    second = forged.parent.parent / "second" / "result.json"
    second.parent.mkdir()
    second.write_text(json.dumps({**document, "run_id": "second"}))
    done = llmperf("validate", forged, second, env=env)
    assert done.returncode == 2
    assert f"{forged}:/parameters: LP" in done.stdout
    assert str(second) not in done.stdout


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("threading.Thread(target=time.sleep, args=[60]).start()", id="thread"),
        *(
            pytest.param(statement, id=name, marks=pytest.mark.slow)
            for name, statement in {
                "exit handler": "__import__('atexit').register(time.sleep, 60)",
                "exit handler that leaves": "__import__('atexit').register(os._exit, 0)",
                "executor": "__import__('concurrent.futures').futures.ThreadPoolExecutor().submit(time.sleep, 60)",
                "ignored children": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
            }.items()
        ),
    ],
)
def test_what_a_plugin_leaves_behind_changes_neither_the_end_nor_the_exit_code(site, forged, statement):
    begin = time.monotonic()
    done = llmperf("validate", forged, env=site("extension", "IMPORT", statement))
    assert done.returncode == 1, done.stderr
    assert "1 file: 1 error" in done.stderr
    assert time.monotonic() - begin < 15


@pytest.mark.slow
def test_processes_that_a_hanging_plugin_started_end_with_it(site, forged):
    mark = f"sleep 77.{os.getpid()}"
    done = llmperf("validate", forged, env=site("extension", "IMPORT", f"os.system('{mark}')"))
    assert done.returncode == 2
    assert mark not in [" ".join(words) for words in running()]


def running() -> list[list[str]]:
    """The command lines of all processes."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_bytes().decode(errors="replace").rstrip("\0").split("\0"))
        except OSError:
            continue
    return found


@pytest.fixture
def asked(site, forged, tmp_path):
    """A function that starts `validate` on an archive with a rule that writes its process id and sleeps."""

    def begin(sleep: str = "time.sleep(60)", seconds: str = "60", **options) -> tuple[subprocess.Popen[str], int]:
        mark = tmp_path / "asked"
        statement = f"__import__('pathlib').Path({str(mark)!r}).write_text(str(os.getpid())); {sleep}"
        env = site("extension", "RULE", statement)
        (tmp_path / "tmp").mkdir()
        env |= {"TMPDIR": str(tmp_path / "tmp"), "LLMPERF_PLUGIN_SECONDS": seconds}
        words = words_of("validate archive", forged, tmp_path)
        command = [sys.executable, "-m", "llmperf", *map(str, words)]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, env=env, start_new_session=True, **streams, **options)
        deadline = time.monotonic() + 30
        while not (mark.exists() and mark.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert list((tmp_path / "tmp").iterdir())
        return process, int(mark.read_text())

    return begin


@pytest.mark.parametrize("whole_group", [False, True])
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "llmperf: interrupted\n"),
        (signal.SIGTERM, 143, "llmperf: ended by SIGTERM\n"),
        (signal.SIGHUP, 129, "llmperf: ended by SIGHUP\n"),
    ],
)
def test_a_signal_ends_a_command_and_its_temporary_folder(asked, tmp_path, number, code, said, whole_group):
    process, _ = asked()
    (os.killpg if whole_group else os.kill)(process.pid, number)
    _, shown = process.communicate(timeout=20)
    assert (process.returncode, shown.lstrip()) == (code, said)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_a_plugin_that_swallows_a_signal_is_ended_all_the_same(asked):
    process, child = asked("exec('while True:\\n try: time.sleep(9)\\n except BaseException: pass')")
    process.send_signal(signal.SIGTERM)
    _, shown = process.communicate(timeout=20)
    assert process.returncode == 143
    assert shown == "llmperf: extension 'bad' (llmperf-bad): rule BAD1: gave no answer to SIGTERM in 5 s\n"
    assert not Path(f"/proc/{child}").exists()


def test_a_killed_command_leaves_no_process(asked):
    process, child = asked()
    assert child != process.pid
    process.kill()
    process.wait()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_time_spent_suspended_is_not_the_plugins(asked):
    process, _ = asked("time.sleep(1.5)", seconds="3")
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(5)
    os.killpg(process.pid, signal.SIGCONT)
    _, shown = process.communicate(timeout=20)
    assert process.returncode == 1, shown


@pytest.mark.slow
def test_a_supervisor_that_was_paused_goes_on(asked):
    process, _ = asked("time.sleep(3)")
    for _ in range(2):
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.7)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
    _, shown = process.communicate(timeout=20)
    assert "Traceback" not in shown
    assert process.returncode == 1


@pytest.mark.slow
def test_a_signal_ends_a_command_that_is_stopped(asked):
    process, child = asked()
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143


def test_a_command_goes_on_once_where_a_plugin_forks(site):
    done = llmperf("devices", "--json", env=site("vendor", "PROBE", "os.fork()"))
    listed = json.loads(done.stdout)  # one document, not two
    assert "bad" in [one["vendor"] for one in listed["probes"]]
    assert done.returncode == 0


@pytest.mark.slow
def test_a_command_that_was_stopped_is_continued(asked):
    process, child = asked("time.sleep(1)")
    os.kill(child, signal.SIGSTOP)
    time.sleep(1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGCONT)  # passed on
    process.communicate(timeout=20)
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (
            "__import__('os')._exit(0)",
            "(llmperf-good-vendor): llmperf_query_memory: the process was ended",
        ),
        ("time.sleep(600)", "complete"),
    ],
    ids=["leaves", "hangs"],
)
@pytest.mark.timeout(200)
@pytest.mark.slow
def test_a_reading_that_leaves_or_hangs(tmp_path, ending, said):
    for role in ("vendor", "framework"):
        source = (BROKEN / f"good_{role}.py").read_text()
        source = source.replace("CALLS.append(devices)\n", f"{ending}\n")
        info = tmp_path / f"llmperf_good_{role}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: llmperf-good-{role}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[llmperf.{role}.v1]\ngood = good_{role}\n")
        (tmp_path / f"good_{role}.py").write_text(source)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    words = ["--vendor", "good", "--framework", "good", "--devices", "1", "--set", "model=llama_tiny"]
    words += ["--set", "steps=4", "--set", "warmup_steps=1", "--set", "seq_len=16"]
    done = llmperf("run", *words, "--out", "runs", env=env, cwd=tmp_path)
    shown = done.stdout + done.stderr
    assert said in shown, shown
    assert done.returncode == (2 if "leaves" in said or "ended" in said else 0), shown
    assert str(tmp_path) not in [" ".join(words) for words in running()]


def test_a_time_limit_that_is_none_is_refused(forged):
    done = llmperf("validate", forged, env={**os.environ, "LLMPERF_PLUGIN_SECONDS": "soon"})
    assert done.returncode == 2
    assert done.stderr == "llmperf: LLMPERF_PLUGIN_SECONDS: expected a number of seconds above 0, found 'soon'\n"
