"""A controller and hundreds of nodes: processes of a few kilobytes that speak as node programs do."""

import os
import subprocess
import sys

import pytest

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
