"""Real connections to hosts in namespaces of this machine."""

import shutil
import subprocess
import time

import pytest
from llmperf.types import NodeCommand, NodeRequest
from llmperf_ssh.launcher import SshLauncher
from llmperf_testing import hosts as namespaces
from llmperf_testing import ssh_servers

REASON = namespaces.missing() or ssh_servers.missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with namespaces.Hosts(tmp_path_factory.mktemp("hosts"), count=2) as made:
        yield made


@pytest.fixture(scope="module")
def servers(hosts):
    return ssh_servers.SshServers(hosts)


def run(hosts, host, *argv, **options):
    """What a command on a host gives through the launcher: standard output, and why the client failed if it did."""
    launcher = SshLauncher()
    request = NodeRequest(nodes=1, devices=None, hosts=(host,), options=options)
    (node,) = launcher.nodes(request)
    given = NodeCommand(node_rank=0, host=node.host, argv=argv, env={"LLMPERF_NODE_RANK": "0"})
    (command,) = launcher.commands([given])
    done = hosts.controller.run(*command.argv)
    return done.stdout, launcher.explain(host, done.returncode, done.stderr) if done.returncode else None


@pytest.mark.slow
def test_a_command_runs_on_its_host(hosts, servers):
    config = str(servers.config)
    assert run(hosts, "node2", "uname", "-n", config=config) == ("node2\n", None)
    assert run(hosts, "root@10.77.0.11:22", "sh", "-c", "echo $LLMPERF_NODE_RANK; uname -n", config=config) == (
        "0\nnode1\n",
        None,
    )


@pytest.mark.slow
def test_lines_pass_both_ways_and_the_end_of_input_reaches_the_command(hosts, servers):
    launcher = SshLauncher()
    (node,) = launcher.nodes(
        NodeRequest(nodes=1, devices=None, hosts=("node1",), options={"config": str(servers.config)})
    )
    (command,) = launcher.commands([NodeCommand(node_rank=0, host=node.host, argv=("cat",), env={})])
    process = subprocess.Popen(
        hosts.controller.argv(*command.argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    process.stdin.write(b"a line\n")
    assert process.stdout.readline() == b"a line\n"
    process.stdin.close()
    assert process.wait(60) == 0
    deadline = time.monotonic() + 60
    while hosts.nodes[0].find("cat") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not hosts.nodes[0].find("cat")


def test_a_refused_connection_names_the_host(hosts, servers):
    _, reason = run(hosts, "node1:2222", "true", config=str(servers.config))
    assert reason == (
        "ssh: connect to host node1 port 2222: Connection refused: nothing listens there; start sshd on the host, or"
        " name its port as HOST:PORT"
    )


def test_a_wrong_key_is_named(hosts, servers):
    wrong = servers.key("wrong")
    options = {"identity": str(wrong), "options": [
        f"UserKnownHostsFile={servers.known_hosts}", "IdentitiesOnly=yes", "IdentityAgent=none"]}  # fmt: skip
    _, reason = run(hosts, "root@node1", "true", **options)
    assert reason.startswith("root@node1: Permission denied (publickey): the host accepts none of the keys")


def test_an_unknown_host_key_is_named(hosts, servers):
    _, reason = run(hosts, "node1", "true", config=str(servers.config), options=["UserKnownHostsFile=/dev/null"])
    assert reason == (
        "Host key verification failed: the host key is not known; run `ssh node1` once, compare the fingerprint and"
        " accept it"
    )


def test_a_changed_host_key_is_named(hosts, servers, tmp_path):
    known = tmp_path / "known_hosts"
    known.write_text(f"node1 {servers.key('other').with_suffix('.pub').read_text()}")
    _, reason = run(hosts, "node1", "true", config=str(servers.config), options=[f"UserKnownHostsFile={known}"])
    assert "ssh-keygen -R node1" in reason


@pytest.mark.slow
def test_a_host_that_does_not_answer_is_named_in_time(hosts, servers):
    started = time.monotonic()
    _, reason = run(hosts, "10.77.0.99", "true", config=str(servers.config), connect_timeout_seconds=1)
    assert time.monotonic() - started < 60  # without the option, it takes minutes
    assert "the host does not answer" in reason


@pytest.mark.slow
def test_a_missing_program_is_named(hosts, servers):
    _, reason = run(hosts, "node1", "/opt/none/python", config=str(servers.config))
    assert "/opt/none/python" in reason
    assert reason.endswith("name its Python with --python")


def test_the_login_shell_may_be_any(hosts, servers):
    """csh, fish and zsh as the login shell, in a passwd of the host alone."""
    word = "a 'b' \\ $HOME `id` !x \"q\" {1,2} ~ * #"
    for shell in ("dash", "zsh", "fish", "tcsh"):
        path = shutil.which(shell)
        if path is None:
            continue
        node = hosts.nodes[0]
        edit = f"s|^\\(root:.*:\\)[^:]*$|\\1{path}|"
        node.run(
            "sh", "-c", f"sed '{edit}' /etc/passwd > /tmp/passwd; mount --bind /tmp/passwd /etc/passwd", check=True
        )
        try:
            given = run(hosts, "node1", "sh", "-c", 'printf %s "$0"', word, config=str(servers.config))
        finally:
            node.run("umount", "/etc/passwd", check=True)
        assert given == (word, None), shell
