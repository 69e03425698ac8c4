"""Plugins that end, hang or spoil the process of a command: 72 behaviours, each with the command that meets it.

Wanted each time: a line that names the plugin where it did harm, the exit code that belongs to the rest, and the rest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands are supervised on Linux only")

ENDS = {
    "leaves": ("os._exit(0)", "ended with status 0"),
    "leaves with 3": ("os._exit(3)", "ended with status 3"),
    "kills itself": ("os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
    "crashes": ("__import__('ctypes').string_at(0)", "killed by SIGSEGV"),
    "aborts": ("os.abort()", "killed by SIGABRT"),
    "is replaced": ("os.execv('/bin/true', ['true'])", "ended with status 0"),
    "loops": ("exec('while True: pass')", "gave no answer in 1 s"),
    "sleeps": ("time.sleep(600)", "gave no answer in 1 s"),
    "locks": ("(lambda lock: (lock.acquire(), lock.acquire()))(threading.Lock())", "gave no answer in 1 s"),
    "hangs in C": ("__import__('ctypes').PyDLL(None).sleep(600)", "gave no answer in 1 s"),
    "closes output": ("os.close(sys.__stdout__.fileno())", "closed or replaced the standard output"),
    "closes errors": ("os.close(2)", "closed or replaced the standard output"),
    "swallows": ("exec('while True:\\n try: time.sleep(9)\\n except BaseException: pass')", "gave no answer in 1 s"),
    "stops": ("os.kill(os.getpid(), signal.SIGSTOP)", "gave no answer in 1 s"),
}
"""What keeps a command from being done: the statement, and how the plugin is blamed."""
RAISES = {
    "exits": ("sys.exit(0)", "SystemExit: 0"),
    "raises": ("raise ValueError('no')", "ValueError: no"),
    "raises BaseException": ("raise type('Odd', (BaseException,), {})('no')", "Odd: no"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "recurses": ("exec('def f(): f()\\nf()', {})", "RecursionError"),
    "takes memory": (
        "__import__('resource').setrlimit(__import__('resource').RLIMIT_AS, (2**31, 2**31)); bytes(2**33)",
        "MemoryError",
    ),
}
"""Exceptions, after which the command goes on in the same process."""
STAYS = {
    "leaves a thread": ("threading.Thread(target=time.sleep, args=[600]).start()", ""),
    "leaves a thread that prints": (
        "threading.Thread(target=lambda: [print('noise') or time.sleep(0.001) for _ in range(10**9)], daemon=True)"
        ".start()",
        "",
    ),
    "prints": ("print('noise' * 2_000_000)", ""),
    "prints in C": ("os.write(1, b'noise' * 200_000)", ""),
    "forks": ("os.fork()", ""),
    "changes the folder": (
        "exec('import tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)', globals())",
        "changed the working directory; restored",
    ),
    "replaces sys.stdout": ("exec('sys.stdout = sys.stderr = open(os.devnull, \"w\")')", ""),
    "replaces a handler": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "changed the handler of SIGTERM; restored"),
    "replaces open": ("exec('import builtins; builtins.open = None')", "changed the built-in open; restored"),
    "lowers the recursion limit": ("sys.setrecursionlimit(150)", "changed the recursion limit; restored"),
    "warns": ("__import__('warnings').warn('noise')", ""),
    "leaves an exit handler": ("__import__('atexit').register(os._exit, 0)", ""),
}
"""What leaves the command in its process: the exit code is that of a command without the plugin."""
BEHAVIOURS = {**ENDS, **RAISES, **STAYS}


class Place(NamedTuple):
    """Where a plugin is called, and the command that calls it there."""

    role: str
    place: str
    command: str


PLACES = {
    "extension's import": Place("extension", "IMPORT", "validate"),
    "extension's rules": Place("extension", "RULES", "validate"),
    "rule": Place("extension", "RULE", "validate"),
    "rule, of a sound result": Place("extension", "RULE", "validate sound"),
    "rule, of an archive": Place("extension", "RULE", "validate archive"),
    "kinds of document": Place("extension", "KINDS", "validate"),
    "reporters": Place("extension", "REPORTERS", "report"),
    "facts": Place("extension", "FACTS", "run"),
    "resources": Place("extension", "RESOURCES", "plan"),
    "extension's import in a run": Place("extension", "IMPORT", "run"),
    "extension's import in a plan": Place("extension", "IMPORT", "plan"),
    "framework's import": Place("framework", "IMPORT", "validate"),
    "framework's rule": Place("framework", "RULE", "validate"),
    "vendor's import": Place("vendor", "IMPORT", "plugins"),
    "probe": Place("vendor", "PROBE", "plan"),
    "probe in a list": Place("vendor", "PROBE", "devices"),
    "catalogue": Place("vendor", "CATALOGUE", "plan elsewhere"),
    "peak": Place("vendor", "PEAK", "plan of it"),
    "command": Place("extension", "COMMAND", "spoil"),
}
TABLE = [
    *(("extension's import", behaviour) for behaviour in BEHAVIOURS),
    *(("rule", behaviour) for behaviour in ("leaves", "crashes", "sleeps", "raises", "closes output", "forks")),
    *(("rule, of a sound result", behaviour) for behaviour in ("leaves", "raises", "replaces open")),
    *(("rule, of an archive", behaviour) for behaviour in ("leaves", "hangs in C", "changes the folder")),
    *(("extension's rules", behaviour) for behaviour in ("exits", "loops")),
    ("kinds of document", "raises BaseException"),
    *(("reporters", behaviour) for behaviour in ("leaves", "raises", "closes errors", "prints in C")),
    *(("facts", behaviour) for behaviour in ("leaves", "raises")),
    *(("extension's import in a run", behaviour) for behaviour in ("leaves", "leaves a thread")),
    *(("extension's import in a plan", behaviour) for behaviour in ("leaves", "sleeps")),
    ("resources", "leaves"),
    *(("framework's import", behaviour) for behaviour in ("leaves", "exits")),
    ("framework's rule", "leaves"),
    *(("vendor's import", behaviour) for behaviour in ("leaves", "hangs in C")),
    *(("probe", behaviour) for behaviour in ("leaves", "crashes", "replaces a handler")),
    *(("probe in a list", behaviour) for behaviour in ("leaves", "forks")),
    ("catalogue", "leaves"),
    ("peak", "leaves"),
    *(("command", behaviour) for behaviour in ("leaves", "exits")),
]
QUICK = {
    ("extension's import", "leaves"),
    ("extension's import", "leaves a thread that prints"),
    ("rule", "crashes"),
    ("rule", "closes output"),
    ("rule, of a sound result", "leaves"),
    ("rule, of a sound result", "replaces open"),
    ("rule, of an archive", "changes the folder"),
    ("extension's rules", "loops"),
    ("framework's rule", "leaves"),
    ("reporters", "leaves"),
    ("vendor's import", "leaves"),
    ("command", "exits"),
}
"""One of each kind; the others run with all tests."""
BROKEN = Path(__file__).parents[3] / "testing" / "tests" / "broken_plugins"
NOT_FOUND = 2
"""Exit code of a command that needs what the plugin did not give."""


@pytest.fixture
def words_of(forged, example, tmp_path):
    """A function that gives the words of a command, and a text that its whole output has."""

    def words(command: str) -> tuple[list[object], str]:
        if command == "validate archive":
            import zipfile

            archive = forged.with_name("forged.zip")
            with zipfile.ZipFile(archive, "w") as opened:
                opened.write(forged, "run/result.json")
            return ["validate", archive], "/parameters: LP304 error"
        if command == "validate sound":
            sound = tmp_path / "sound" / "result.json"
            sound.parent.mkdir()
            sound.write_text(json.dumps({**example, "parameters": example["parameters"] // 2}))
            return ["validate", sound], "1 file: 0 errors"
        good = ["--vendor", "good", "--framework", "good", "--devices", "1", "--out", "runs", "--no-preflight"]
        good += [f"--set={setting}" for setting in ("model=llama_tiny", "steps=4", "warmup_steps=1", "seq_len=16")]
        return {
            "validate": (["validate", "forged/result.json"], "/parameters: LP304 error"),
            "report": (["report", forged, "--format", "csv"], example["run_id"]),
            "plan": (["plan", "--framework", "pytorch"], "changed from the case"),
            "plan of it": (["plan", "--vendor", "bad", "--framework", "pytorch"], ""),
            "plan elsewhere": (["plan", "--on", "Bad B1:1x2"], ""),
            "run": (["run", *good], "run folder: "),
            "devices": (["devices", "--json"], '"cpu"'),
            "plugins": (["plugins", "--json"], '"cpu"'),
            "spoil": (["spoil"], ""),
        }[command]

    return words


def name_framework(forged: Path) -> None:
    """Let the forged result name the framework plugin `bad`."""
    document = json.loads(forged.read_text())
    document["plugins"].append({**document["plugins"][0], "role": "framework", "name": "bad"})
    forged.write_text(json.dumps(document))


def install_good(folder: Path) -> None:
    for role in ("vendor", "framework"):
        info = folder / f"llmperf_good_{role}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: llmperf-good-{role}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[llmperf.{role}.v1]\ngood = good_{role}\n")
        (folder / f"good_{role}.py").write_text((BROKEN / f"good_{role}.py").read_text())


REFUSED = ("facts", "raises")
"""A run does not go on without facts that it would record, if their plugin can be asked."""


def expected_code(place: Place, behaviour: str) -> int:
    """1 for what is forged; 2 where the plugin ended the process, or what was asked for needs it; otherwise 0."""
    if place.command in ("validate", "validate archive"):
        return 1
    if place.command in ("plan of it", "plan elsewhere", "spoil"):
        return NOT_FOUND
    return 2 if behaviour in ENDS else 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "behaviour"), [pytest.param(*row, marks=[pytest.mark.long] * (row not in QUICK)) for row in TABLE]
)
def test_the_rest_of_a_command_goes_on(site, forged, words_of, tmp_path, place, behaviour):
    where = PLACES[place]
    statement, blamed = BEHAVIOURS[behaviour]
    env = site(where.role, where.place, statement)
    if where.role == "framework":
        name_framework(forged)
    if where.command == "run":
        install_good(tmp_path / "site")
    if " in 1 s" not in blamed:
        env["LLMPERF_PLUGIN_SECONDS"] = "20"  # a busy machine may take longer than a second
    words, wanted = words_of(where.command)
    wanted = "" if (place, behaviour) == REFUSED else wanted
    begin = time.monotonic()
    command = [sys.executable, "-m", "llmperf", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=150)
    shown = (done.stdout + done.stderr).replace("noise", "")
    assert "Traceback" not in shown
    assert wanted in shown
    if blamed:
        naming = [line for line in shown.splitlines() if "'bad'" in line or "(llmperf-bad)" in line]
        owner = "command 'spoil'" if where.command == "spoil" else f"{where.role} 'bad'"
        assert any(owner in line and "(llmperf-bad)" in line and blamed in line for line in naming), shown
    assert "noise" not in done.stdout
    code = NOT_FOUND if (place, behaviour) == REFUSED else expected_code(where, behaviour)
    assert done.returncode == code, shown
    assert time.monotonic() - begin < 140
    if "--json" in words:
        json.loads(done.stdout)
    if where.command == "run" and wanted:
        (result,) = (tmp_path / "runs").glob("*/result.json")
        assert json.loads(result.read_text())["status"] == "complete"


def test_there_are_72_behaviours():
    assert len(TABLE) == len(set(TABLE)) == 72
    assert set(TABLE) >= QUICK
    assert {place for place, _ in TABLE} == set(PLACES)
    assert os.path.isdir(BROKEN)
