"""In a job: brings a program to all nodes by the launcher, writes to it, and counts the lines that come back."""

import json
import os
import subprocess
import sys
import threading

from llmperf.types import NodeCommand, NodeRequest
from llmperf_slurm.launcher import SlurmLauncher

LINES, LONG = 20_000, 600_000

ON_A_NODE = """
import os, sys
rank = os.environ["LLMPERF_NODE_RANK"]
first = sys.stdin.readline()
print(rank, "first", len(first), os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
for number in range({lines}):
    sys.stdout.write(f"{{rank}} {{number}} {{rank * (number % 2000)}}\\n")
print(rank, "long", rank * {long}, flush=True)
print(rank, "rest", sys.stdin.read().strip(), flush=True)
"""


def drive(command, report):
    """Start a process as the controller does; what came back goes to `report`."""
    process = subprocess.Popen(
        command.argv, env={**os.environ, **command.env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("x" * LONG + "\n")
    process.stdin.flush()
    good, odd = 0, []
    for line in process.stdout:
        rank, what, text = line.rstrip("\n").split(" ", 2)
        if what.isdigit() and rank == str(command.node_rank) and text == rank * (int(what) % 2000):
            good += 1
        elif what == "long":
            odd.append([rank, what, len(text), text == rank * LONG])
            process.stdin.write("last\n")
            process.stdin.close()
        else:
            odd.append([rank, what, text[:200]])
    report[command.host] = {"rank": command.node_rank, "good": good, "other": odd, "code": process.wait()}


if __name__ == "__main__":
    launcher = SlurmLauncher()
    nodes = launcher.nodes(NodeRequest(nodes=2, devices=None, hosts=tuple(sys.argv[1:]), options={}))
    program = ON_A_NODE.format(lines=LINES, long=LONG)
    commands = launcher.commands(
        [
            NodeCommand(
                node_rank=rank,
                host=node.host,
                argv=(sys.executable, "-c", program),
                env={**node.env, "LLMPERF_NODE_RANK": str(rank)},
            )
            for rank, node in enumerate(nodes)
        ]
    )
    report: dict[str, object] = {"addresses": [node.address for node in nodes]}
    threads = [threading.Thread(target=drive, args=(command, report)) for command in commands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(report))
