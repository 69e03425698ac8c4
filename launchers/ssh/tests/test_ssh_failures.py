"""What llmperf says when an ssh client fails; the messages are those of OpenSSH 9.2."""

import pytest
from llmperf_ssh.client import explanation

CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("errors", "advice"),
    [
        ("ssh: connect to host node1 port 22: Connection refused\n", "nothing listens there; start sshd"),
        ("ssh: connect to host node1 port 22: No route to host\n", "the host does not answer"),
        ("ssh: connect to host node1 port 22: Connection timed out\n", "the host does not answer"),
        ("Connection to 10.0.0.2 port 22 timed out\n", "check the MTU"),
        ("ssh: Could not resolve hostname node1: Name or service not known\n", "write its address, a Host of your"),
        ("Welcome\nroot@node1: Permission denied (publickey).\n", "`ssh node1 true` must work without a password"),
        ("No ED25519 host key is known for node1 and you have requested strict checking.\n"
         "Host key verification failed.\n", "run `ssh node1` once"),
        (CHANGED, "ssh-keygen -R node1"),
        ("Timeout, server node1 not responding.\n", "the host or its link is down: it did not answer for 20 s"),
        ("client_loop: send disconnect: Broken pipe\n", "the connection was lost"),
        ("Connection to node1 closed by remote host.\n", "the connection was lost"),
        ("/c: line 1: Bad configuration option: hst\n/c: terminating, 1 bad configuration options\n", "check the conf"),
        ("mux: odd\n\n", "mux: odd (ssh, exit status 255)"),
        ("", "ssh ended with exit status 255 and no message: its command on the host was killed"),
    ],
)  # fmt: skip
def test_a_failed_connection_has_a_reason_and_advice(errors, advice):
    line = explanation("node1", 255, errors)
    assert line is not None
    assert advice in line
    assert "\n" not in line


def test_a_key_that_the_host_refuses_is_named():
    line = explanation("node1", 255, "root@node1: Permission denied (publickey).\n", "~/.ssh/cluster")
    assert line is not None
    assert "~/.ssh/cluster (launchers.ssh.identity) was tried" in line
    assert "name the key" not in line


def test_a_killed_client_and_a_missing_python_are_named_and_other_statuses_are_left_to_the_caller():
    assert explanation("a", -9, "") == "the ssh client here was killed by signal 9"
    assert explanation("a", 127, "env: '/opt/py': No such file or directory\n") == (
        "env: '/opt/py': No such file or directory: install llmperf on the host under the same path as here, or name"
        " its Python with --python"
    )
    assert explanation("a", 1, "llmperf-core is not installed\n") is None
