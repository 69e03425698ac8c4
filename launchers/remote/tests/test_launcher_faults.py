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


NODE = r"""
echo '{"llmperf":"hello","node":'$LLMPERF_NODE_RANK',"version":"VERSION","python":"3.12.3"}'
while read -r line; do
    number=${line##*\"number\":}; number=${number%%[,\}]*}
    case $line in
        *'"beat"'*) echo '{"llmperf":"echo","node":'$LLMPERF_NODE_RANK',"number":'$number',"at":1}' ;;
        *'"task"'*) number=${line#*\"number\":}; number=${number%%[,\}]*}
            echo '{"llmperf":"answer","node":'$LLMPERF_NODE_RANK',"number":'$number',"result":'$LLMPERF_NODE_RANK'}' ;;
        *'"done"'*) exit 0 ;;
    esac
done
"""
CONTROLLER = """
import resource, sys
from dataclasses import replace
from llmperf import __version__
from llmperf.errors import UserError
from llmperf_remote.conversation import Conversation
from llmperf.types.launching import Node

class Shells:
    name = "shells"

    def commands(self, nodes):
        return [replace(node, argv=("sh", "-c", sys.argv[2].replace("VERSION", __version__))) for node in nodes]

nodes = [(rank, Node(host=f"node{rank}", address="127.0.0.1")) for rank in range(int(sys.argv[1]))]
try:
    with Conversation(Shells(), nodes, "python") as conversation:
        answers = conversation.ask("rank", {}, 300.0)
except UserError as error:
    sys.exit(str(error))
print(sum(bytes(answer) == str(rank).encode() for rank, answer in answers.items()))
"""


def talk(nodes, limits):
    """The number of nodes that have answered with their rank, under limits of the shell."""
    script = f'ulimit {limits} && exec "$0" "$@"'
    as_user = ["setpriv", "--bounding-set", "-sys_resource"] if os.geteuid() == 0 and "-S" not in limits else []
    command = ["bash", "-c", script, *as_user, sys.executable, "-c", CONTROLLER, str(nodes), NODE]
    return subprocess.run(command, capture_output=True, text=True, timeout=400)


@pytest.mark.slow
def test_four_hundred_nodes_answer_under_a_limit_of_1024_open_files():
    done = talk(400, "-n 1024")
    assert (done.returncode, done.stdout) == (0, "400\n"), done.stderr


def test_a_soft_limit_of_open_files_is_raised():
    done = talk(40, "-S -n 100")
    assert (done.returncode, done.stdout) == (0, "40\n"), done.stderr


def test_a_hard_limit_of_open_files_says_how_many_nodes_it_allows():
    done = talk(400, "-n 256")
    assert done.returncode == 1
    assert done.stderr.startswith("launcher 'shells': expected a limit of ")
    assert " open files for 400 nodes, found 256 (ulimit -Hn), which is enough for 9" in done.stderr
