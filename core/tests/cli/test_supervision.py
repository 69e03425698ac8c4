"""Commands with plugins that end the process, hang it, or close its output: one line that names them, never exit 0."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

LIMIT_SECONDS = 100
"""For what takes a second on a machine that has nothing else to do."""
BROKEN = Path(__file__).parents[3] / "testing" / "tests" / "broken_plugins"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are supervised on Linux only")


def llmperf(*words: object, env: dict[str, str] | None = None, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmperf", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=150, **options)


def archive_of(forged: Path) -> Path:
    archive = forged.with_name("forged.zip")
    with zipfile.ZipFile(archive, "w") as opened:
        opened.write(forged, "run/result.json")
    return archive


@pytest.mark.slow
def test_a_rule_that_is_not_selected_is_not_called(site, forged):
    env = site("extension", "RULE", "os._exit(0)")
    for words in (["--ignore", "BAD1"], ["--select", "LP"]):
        done = llmperf("validate", forged, *words, env=env)
        assert done.returncode == 1, done.stderr
        assert "/parameters: LP" in done.stdout


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_files_before_and_after_a_plugin_ends_the_process_are_shown_once(site, forged):
    leaves = "pid = os.getpid()\n    if result.run_id == 'second': os._exit(0)"
    env = site("extension", "RULE", leaves)
    document = json.loads(forged.read_text())
    files = [forged, *(forged.parent.parent / name / "result.json" for name in ("second", "third"))]
    for file in files[1:]:
        file.parent.mkdir()
        file.write_text(json.dumps({**document, "run_id": file.parent.name}))
    done = llmperf("validate", *files, env=env)
    assert done.returncode == 1
    lines = [line for line in done.stdout.splitlines() if "/parameters: LP" in line]
    assert [line.partition(":")[0] for line in lines] == list(map(str, files))
    told, total = done.stderr.splitlines()
    assert told == "llmperf: extension 'bad' (llmperf-bad): rule BAD1: the process was ended with status 0"
    assert total.startswith("3 files: 3 errors")


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("threading.Thread(target=time.sleep, args=[600]).start()", id="thread"),
        *(
            pytest.param(statement, id=name, marks=pytest.mark.slow)
            for name, statement in {
                "exit handler": "__import__('atexit').register(time.sleep, 600)",
                "exit handler that leaves": "__import__('atexit').register(os._exit, 0)",
                "executor": "__import__('concurrent.futures').futures.ThreadPoolExecutor().submit(time.sleep, 600)",
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
    assert time.monotonic() - begin < 140


@pytest.mark.slow
def test_processes_that_a_hanging_plugin_started_end_with_it(site, forged):
    mark = f"sleep 77.{os.getpid()}"
    done = llmperf("validate", forged, env=site("extension", "IMPORT", f"os.system('{mark}')"))
    assert done.returncode == 1
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

    def begin(sleep: str = "time.sleep(600)", seconds: str = "600", **options) -> tuple[subprocess.Popen[str], int]:
        mark = tmp_path / "asked"
        statement = f"__import__('pathlib').Path({str(mark)!r}).write_text(str(os.getpid())); {sleep}"
        env = site("extension", "RULE", statement)
        (tmp_path / "tmp").mkdir()
        env |= {"TMPDIR": str(tmp_path / "tmp"), "LLMPERF_PLUGIN_SECONDS": seconds}
        command = [sys.executable, "-m", "llmperf", "validate", str(archive_of(forged))]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, env=env, start_new_session=True, **streams, **options)
        deadline = time.monotonic() + LIMIT_SECONDS
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
    _, shown = process.communicate(timeout=LIMIT_SECONDS)
    assert (process.returncode, shown.lstrip()) == (code, said)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
def test_a_plugin_that_swallows_a_signal_is_ended_all_the_same(asked):
    process, child = asked("exec('while True:\\n try: time.sleep(9)\\n except BaseException: pass')")
    process.send_signal(signal.SIGTERM)
    _, shown = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 143
    assert shown == "llmperf: extension 'bad' (llmperf-bad): rule BAD1: gave no answer to SIGTERM in 5 s\n"
    assert not Path(f"/proc/{child}").exists()


def test_a_killed_command_leaves_no_process(asked):
    process, child = asked()
    assert child != process.pid
    process.kill()
    process.wait()
    deadline = time.monotonic() + LIMIT_SECONDS
    while alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(process: int) -> bool:
    """Whether a process has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_time_spent_suspended_is_not_the_plugins(asked):
    process, _ = asked("time.sleep(1)", seconds="6")
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(8)
    os.killpg(process.pid, signal.SIGCONT)
    _, shown = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 1, shown


@pytest.mark.slow
def test_a_supervisor_that_was_paused_goes_on(asked):
    process, _ = asked("time.sleep(3)")
    for _ in range(2):
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.7)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.1)
    _, shown = process.communicate(timeout=LIMIT_SECONDS)
    assert "Traceback" not in shown
    assert process.returncode == 1


@pytest.mark.slow
def test_a_signal_ends_a_command_that_is_stopped(asked):
    process, child = asked()
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 143


def test_a_command_goes_on_once_where_a_plugin_forks(site):
    done = llmperf("devices", "--json", env=site("vendor", "PROBE", "os.fork()"))
    listed = json.loads(done.stdout)  # one document, not two
    assert "bad" in [one["vendor"] for one in listed["probes"]]
    assert done.returncode == 0


@pytest.mark.slow
def test_a_command_that_was_stopped_is_continued(asked, tmp_path):
    go = tmp_path / "go"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    process, child = asked(f"exec({wait!r})")
    os.kill(child, signal.SIGSTOP)
    go.touch()
    time.sleep(1.5)
    assert process.poll() is None
    process.send_signal(signal.SIGCONT)  # passed on
    process.communicate(timeout=LIMIT_SECONDS)
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
    if done.returncode:
        (run,) = (tmp_path / "runs").iterdir()
        assert f"`llmperf recover {run}` makes it" in shown
        recovered = llmperf("recover", run, env={**env, "LLMPERF_PLUGIN_SECONDS": "20"}, cwd=tmp_path)
        assert (recovered.returncode, "llmperf was killed" in recovered.stdout) == (1, True), recovered.stderr
    assert str(tmp_path) not in [" ".join(words) for words in running()]


def test_a_time_limit_that_is_none_is_refused(forged):
    done = llmperf("validate", forged, env={**os.environ, "LLMPERF_PLUGIN_SECONDS": "soon"})
    assert done.returncode == 2
    assert done.stderr == "llmperf: LLMPERF_PLUGIN_SECONDS: expected a number of seconds above 0, found 'soon'\n"
