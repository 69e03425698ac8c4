"""A launcher of a plugin that fails ends the command with one line that names plugin, hook and method."""

import os
import subprocess
import sys

import pytest

SOURCE = """
import llmperf
from llmperf.errors import UserError
from llmperf.types import Node

class Odd:
    name = "odd"

    def nodes(self, request):
        {nodes}

    def commands(self, nodes):
        {commands}

@llmperf.hookimpl
def llmperf_launchers():
    return [{given}]
"""
GOOD = {"nodes": "return [Node(host='here', address='127.0.0.1')]", "commands": "return nodes", "given": "Odd()"}
RUN = ["default", "--vendor", "stub", "--framework", "stub", "--launcher", "odd", "--devices", "1", "--set", "steps=4"]
WHO = "llmperf: extension 'odd' (llmperf-odd): llmperf_launchers"
EXPECTED = "expected a list of llmperf_launchers: launcher 'odd'"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"nodes": "raise ValueError('boom')"}, ": launcher 'odd': nodes() raised ValueError: boom (llmperf_odd"),
        ({"nodes": "return None"}, f"{EXPECTED}: nodes(), found NoneType"),
        ({"nodes": "return []"}, ": launcher 'odd': nodes(): offers no node; expected 1 to 1"),
        ({"nodes": "return ['here']"}, "expected a Node of llmperf_launchers: launcher 'odd': nodes(), found str"),
        ({"nodes": "yield 1 / 0"}, ": launcher 'odd': nodes() raised ZeroDivisionError: division by zero"),
        ({"nodes": "return [Node(host=1, address='x')]"}, "nodes()"),
        ({"nodes": "raise UserError('no such host')"}, "llmperf: no such host\n"),
        ({"commands": "raise ValueError('boom')"}, ": launcher 'odd': commands() raised ValueError: boom"),
        ({"commands": "return None"}, f"{EXPECTED}: commands(), found NoneType"),
        ({"commands": "return []"}, "commands(): expected at least 1 and at most 1 commands, found 0"),
        ({"commands": "return [7]"}, "a NodeCommand of llmperf_launchers: launcher 'odd': commands(), found int"),
        ({"given": "Odd"}, " gave a class, Odd; expected an instance: Odd()"),
        ({"given": "object()"}, "which has no name"),
        ({"given": "1 / 0"}, "llmperf_launchers raised ZeroDivisionError: division by zero"),
        ({"given": "Odd(), Odd()"}, " gave two launchers named 'odd'"),
    ],
)  # fmt: skip
def test_a_launcher_that_fails_is_one_line(stub_site, install, ran, tmp_path, monkeypatch, broken, reason):
    monkeypatch.chdir(tmp_path)
    install("llmperf-odd", "odd", SOURCE.format(**{**GOOD, **broken}), role="extension")
    error = ran(2, "run", *RUN).err
    assert reason in error
    assert error.count("\n") == 1
    if "UserError" not in str(broken):
        assert "extension 'odd' (llmperf-odd): " in error


@pytest.mark.slow
def test_a_launcher_that_hangs_is_ended(stub_site, install, tmp_path):
    install("llmperf-odd", "odd", SOURCE.format(**{**GOOD, "nodes": "import time; time.sleep(600)"}), role="extension")
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "llmperf", "plan", *RUN],
        env={**os.environ, "LLMPERF_PLUGIN_SECONDS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"{WHO}: launcher 'odd': nodes(): gave no answer in 1 s")
