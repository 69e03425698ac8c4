"""The holder as the first process of a PID namespace, as in a pod."""

import os
import signal
import subprocess
import sys
import time

import pytest

UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
NAMESPACES = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
pytestmark = pytest.mark.skipif(not NAMESPACES, reason="cannot make a PID namespace here")

HOLD = "from llmperf_kubernetes.holder import hold; import sys; sys.exit(hold(0, 0.4, look_seconds=0.05))"


def shell(script):
    """A shell that becomes the holder after it has started what the script says."""
    command = [*UNSHARE, "sh", "-c", f'{script}\nexec "$0" -c "$1"', sys.executable, HOLD]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_a_pod_that_nobody_uses_ends_with_1():
    process = shell("sleep 100 &")
    assert process.communicate(timeout=60)[1] == "llmperf: no command for 0 s; the pod ends\n"
    assert process.returncode == 1


@pytest.mark.slow
def test_a_pod_lives_while_a_command_of_llmperf_runs():
    began = time.monotonic()
    process = shell("LLMPERF_NODE_RANK=0 sleep 1 &")
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert time.monotonic() - began > 1.0


def test_a_pod_that_is_deleted_ends_with_0():
    process = shell("LLMPERF_NODE_RANK=0 sleep 100 &")
    child = ""
    while not child:  # the first process of the namespace
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
            child = children.read().strip()
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        os.kill(int(child), signal.SIGTERM)  # ignored until the holder has its handler
        time.sleep(0.2)
    assert process.returncode == 0
