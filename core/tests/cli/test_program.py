"""Commands with plugins that end the process, hang it or raise: a line that names them, and exit code 2."""

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

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands have no child process here")

FAULTS = {
    "leaves": ("os._exit(0)", "the process was ended with status 0"),
    "crashes": ("__import__('ctypes').string_at(0)", "the process was killed by SIGSEGV"),
    "is replaced": ("os.execv('/bin/true', ['true'])", "the process was ended with status 0"),
    "sleeps": ("time.sleep(600)", "gave no answer in 1 s"),
    "hangs in C": ("__import__('ctypes').PyDLL(None).sleep(600)", "gave no answer in 1 s"),
    "swallows": ("exec('while True:\\n try: time.sleep(9)\\n except BaseException: pass')", "gave no answer in 1 s"),
    "exits": ("sys.exit(0)", "SystemExit: 0"),
    "raises": ("raise ValueError('no')", "ValueError: no"),
    "raises BaseException": ("raise type('Odd', (BaseException,), {})('no')", "Odd: no"),
    "recurses": ("exec('def f(): f()\\nf()', {})", "RecursionError"),
}
"""Statements in a plugin, and how the plugin is blamed."""
QUICK = [
    ("extension", "IMPORT", "leaves"),
    ("extension", "IMPORT", "raises"),
    ("extension", "IMPORT", "sleeps"),
    ("extension", "RULE", "crashes"),
    ("framework", "RULE", "leaves"),
    ("framework", "RULE", "raises"),
]
SLOW = [
    *(("extension", "IMPORT", fault) for fault in FAULTS if ("extension", "IMPORT", fault) not in QUICK),
    *(("extension", "RULE", fault) for fault in ("leaves", "exits", "raises", "hangs in C", "swallows")),
    *(("extension", place, fault) for place in ("RULES", "KINDS") for fault in ("leaves", "raises", "sleeps")),
    *(("framework", "IMPORT", fault) for fault in ("leaves", "exits")),
]


@pytest.mark.parametrize(
    ("role", "place", "fault"), [*QUICK, *(pytest.param(*row, marks=pytest.mark.slow) for row in SLOW)]
)
def test_no_fault_of_a_plugin_lets_a_result_pass(site, example, tmp_path, apart, role, place, fault, saved):
    """A plugin that raises and one that hangs give the same exit code, also for a sound result."""
    statement, blamed = FAULTS[fault]
    env = site(role, place, statement)
    if " in 1 s" not in blamed:
        env["LLMPERF_PLUGIN_SECONDS"] = "20"  # a busy machine may take longer than a second
    if role == "framework":
        example["plugins"].append({**example["plugins"][0], "role": "framework", "name": "bad"})
    path = saved(tmp_path / "result.json", example)
    done = apart(2, "validate", path, **env)
    shown = done.stdout + done.stderr
    lines = [line for line in shown.splitlines() if f"{role} 'bad' (llmperf-bad)" in line]
    assert any(blamed in line for line in lines), shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("role", "place", "words"),
    [
        ("vendor", "IMPORT", "plugins"),
        pytest.param("vendor", "PROBE", "devices --json", marks=pytest.mark.slow),
        pytest.param("vendor", "PEAK", "plan --vendor bad --framework pytorch", marks=pytest.mark.slow),
        pytest.param("vendor", "CATALOGUE", "plan --on Bad-B1:1x2", marks=pytest.mark.slow),
        pytest.param("extension", "RESOURCES", "plan --framework pytorch", marks=pytest.mark.slow),
        pytest.param("extension", "IMPORT", "run --help", marks=pytest.mark.slow),
        ("extension", "FACTS", "run"),
        ("vendor", "IMPORT", "run"),
        pytest.param("vendor", "PROBE", "run", marks=pytest.mark.slow),
    ],
)
def test_a_plugin_that_ends_another_command_is_named(site, tmp_path, apart, role, place, words):
    env = {**site(role, place, "os._exit(0)"), "LLMPERF_PLUGIN_SECONDS": "20"}
    done = apart(2, *words.split(), cwd=tmp_path, **env)
    assert f"llmperf: {role} 'bad' (llmperf-bad): " in done.stderr, done.stderr
    assert "the process was ended with status 0" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_report_names_the_reporter_that_ends_it(site, example, tmp_path, apart, saved):
    path = saved(tmp_path / "result.json", example)
    done = apart(2, "report", path, "--format", "csv", **site("extension", "REPORTERS", "os._exit(0)"))
    assert "(llmperf-bad): llmperf_reporters" in done.stderr


@pytest.mark.slow
def test_a_rule_that_is_not_selected_is_not_called(site, apart, forged):
    env = site("extension", "RULE", "os._exit(0)")
    for words in (["--ignore", "BAD1"], ["--select", "LP"]):
        assert "/parameters: LP" in apart(1, "validate", forged, *words, **env).stdout


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("threading.Thread(target=time.sleep, args=[600]).start()", id="thread"),
        *(
            pytest.param(statement, id=name, marks=pytest.mark.slow)
            for name, statement in {
                "thread that prints": "threading.Thread(target=lambda: [print('noise') or time.sleep(0.001) for _ in "
                "range(10**9)], daemon=True).start()",
                "prints": "print('noise' * 2_000_000)",
                "prints in C": "os.write(1, b'noise' * 200_000)",
                "forks": "os.fork()",
                "exit handler": "__import__('atexit').register(time.sleep, 600)",
                "exit handler that leaves": "__import__('atexit').register(os._exit, 0)",
                "executor": "__import__('concurrent.futures').futures.ThreadPoolExecutor().submit(time.sleep, 600)",
                "raising thread": "threading.Thread(target=lambda: 1 / 0).start()",
            }.items()
        ),
    ],
)
def test_what_a_plugin_leaves_behind_changes_neither_the_output_nor_the_exit_code(site, apart, forged, statement):
    begin = time.monotonic()
    env = {**site("extension", "IMPORT", statement), "LLMPERF_PLUGIN_SECONDS": "20"}
    done = apart(1, "validate", forged, **env)
    assert ("noise" in done.stdout, done.stderr.count("1 file: 1 error")) == (False, 1)
    assert time.monotonic() - begin < 140


@pytest.fixture
def asked(site, forged, tmp_path):
    """A function that starts `validate` on an archive with a rule that writes its process id and sleeps."""

    def begin(sleep: str = "time.sleep(600)", seconds: str = "600", **options) -> tuple[subprocess.Popen[str], int]:
        mark = tmp_path / "asked"
        statement = f"__import__('pathlib').Path({str(mark)!r}).write_text(str(os.getpid())); {sleep}"
        env = site("extension", "RULE", statement)
        archive = tmp_path / "forged.zip"
        with zipfile.ZipFile(archive, "w") as opened:
            opened.write(forged, "run/result.json")
        (tmp_path / "tmp").mkdir()
        env |= {"TMPDIR": str(tmp_path / "tmp"), "LLMPERF_PLUGIN_SECONDS": seconds}
        command = [sys.executable, "-m", "llmperf", "validate", str(archive)]
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


def test_a_command_goes_on_once_where_a_plugin_forks(site, apart):
    done = apart(0, "devices", "--json", **site("vendor", "PROBE", "os.fork()"))
    listed = json.loads(done.stdout)  # one document, not two
    assert "bad" in [one["vendor"] for one in listed["probes"]]


SHORT_RUN = """run --vendor good --framework good --devices 1 --set model=llama_tiny
    --set steps=4 --set warmup_steps=1 --set seq_len=16 --out runs"""


@pytest.fixture
def good_plugins(tmp_path, announced):
    """A function that gives the environment of vendor and framework `good`; a sample of the devices runs `sample`."""

    def install(sample: str = "CALLS.append(devices)") -> dict[str, str]:
        for role in ("vendor", "framework"):
            announced(tmp_path, f"llmperf-good-{role}", **{role: f"good = good_{role}"})
            source = (BROKEN / f"good_{role}.py").read_text()
            (tmp_path / f"good_{role}.py").write_text(source.replace("CALLS.append(devices)\n", f"{sample}\n"))
        return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

    return install


@pytest.mark.timeout(200)
@pytest.mark.slow
def test_a_reading_that_hangs_does_not_hold_up_a_run(good_plugins, apart, tmp_path):
    """The plugins of a run are loaded in the process of the command, which has no parent of its own."""
    assert ", valid" in apart(0, *SHORT_RUN.split(), cwd=tmp_path, **good_plugins("time.sleep(600)")).stdout


@pytest.mark.timeout(200)
@pytest.mark.slow
def test_a_plugin_that_ends_the_process_during_a_run_is_no_success(site, good_plugins, apart, tmp_path):
    """The vendor and the framework are sound; a thread of another package ends the process."""
    spoilt = site("extension", "OBSERVERS", "threading.Timer(0.5, os._exit, [0]).start()")
    env = good_plugins()
    env["PYTHONPATH"] = os.pathsep.join([env["PYTHONPATH"], spoilt["PYTHONPATH"]])
    done = apart(2, *SHORT_RUN.split(), cwd=tmp_path, **env)
    assert "the process was ended with status 0 before the command was done" in done.stderr


def test_a_time_limit_that_is_none_is_refused(apart, forged):
    done = apart(2, "validate", forged, LLMPERF_PLUGIN_SECONDS="soon")
    assert done.stderr == "llmperf: LLMPERF_PLUGIN_SECONDS: expected a number of seconds above 0, found 'soon'\n"
