"""Plugins in single files of a folder that the user names, and the switch that leaves plugins out."""

import json
import threading

import pytest
from llmperf.cli.main import call

VENDOR = """
import llmperf
from llmperf.types import Probe

@llmperf.hookimpl
def llmperf_probe():
    return Probe(vendor="acme", devices=(), runtime="none", problems=("no card",))
"""


@pytest.fixture
def called(tmp_path, apart):
    """Run llmperf in `tmp_path` with some variables; returns its output, after the exit code has been checked."""

    def call(code, *words, **variables):
        done = apart(code, *words, cwd=tmp_path, **variables)
        return done.stderr if code else done.stdout

    return call


def test_a_file_of_the_named_folder_is_a_plugin(called, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "vendor_acme.py").write_text(VENDOR)
    (row,) = json.loads(called(0, "plugins", "acme", "--json", LLMPERF_PLUGINS_DIR="mine"))["plugins"]
    assert (row["role"], row["distribution"], row["state"]) == ("vendor", "vendor_acme.py", "ok")
    assert row["version"].startswith("sha256-")
    assert "acme" not in called(0, "plugins"), "only the folder that the user names"


def test_a_broken_file_is_named_and_a_name_is_not_taken_twice(called, tmp_path):
    (tmp_path / "extension_odd.py").write_text("1/0")
    (tmp_path / "vendor_cpu.py").write_text(VENDOR)
    listed = called(0, "plugins", LLMPERF_PLUGINS_DIR=".")
    assert "'odd' (extension_odd.py) cannot be imported: ZeroDivisionError" in listed
    assert "vendor 'cpu' is claimed by llmperf-cpu" in listed
    assert "uninstall or disable one of them" in listed


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({"LLMPERF_PLUGINS_DIR": "nowhere"}, "LLMPERF_PLUGINS_DIR: expected a folder, found 'nowhere'"),
        ({"LLMPERF_PLUGINS_DIR": "."}, "LLMPERF_PLUGINS_DIR: expected a file vendor_NAME.py"),
        ({"LLMPERF_DISABLE": "cpu,cqu"}, "LLMPERF_DISABLE: unknown plugin or package 'cqu'; did you mean 'cpu'?"),
    ],
)
def test_wrong_variables_are_one_line(called, variables, line):
    shown = called(2, "plugins", **variables)
    assert line in shown
    assert shown.count("\n") == 1


def test_a_disabled_plugin_is_listed_and_not_used_and_its_commands_are_gone(called):
    shown = called(0, "plugins", LLMPERF_DISABLE="llmperf-cpu")
    assert "disabled by LLMPERF_DISABLE" in next(line for line in shown.splitlines() if " cpu " in line)
    refused = called(2, "plan", "default", "--vendor", "cpu", LLMPERF_DISABLE="cpu")
    assert "vendor 'cpu' is disabled by LLMPERF_DISABLE=cpu" in refused
    refused = called(2, "new", "vendor", "acme", LLMPERF_DISABLE="llmperf-testing")
    assert "new is a command of llmperf-testing; install it with: unset LLMPERF_DISABLE" in refused


SOURCE = """
import threading
from llmperf import hookimpl
from llmperf.types import Offers, Probe

def fails():
    raise ValueError("no such \\x1b[31m thing")

@hookimpl
def llmperf_probe():
    {first}
    offers = Offers(precisions=(), runtimes=(), collective_backend="gloo")
    return Probe(vendor="loud", devices=(), offers=offers, problems={problems})
"""


@pytest.fixture
def listed(install, capsys, monkeypatch):
    """A function that lists devices with a vendor plugin: the exit code, the document and the other output."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)

    def devices(first="pass", problems="()"):
        install("llmperf-loud", "loud", SOURCE.format(first=first, problems=problems))
        code = call(["devices", "--json"])
        output = capsys.readouterr()
        return code, json.loads(output.out), output.err

    return devices


def test_an_answer_of_many_long_texts_is_refused(listed):
    code, document, _ = listed(problems="('x' * 1000,) * 200_000")
    assert code == 2
    refused = "vendor 'loud' (llmperf-loud): llmperf_probe: expected texts of at most 1048576 characters together"
    assert document["broken"] == [refused]


def test_a_thread_of_a_plugin_that_raises_is_named(listed):
    code, document, errors = listed(first="thread = threading.Thread(target=fails); thread.start(); thread.join()")
    assert (code, document["broken"]) == (0, [])
    assert "llmperf: vendor 'loud' (llmperf-loud): a thread raised ValueError: no such \\x1b[31m thing" in errors
    assert "Traceback" not in errors
