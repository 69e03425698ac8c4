"""Hosts as users write them: in `--hosts`, in host files, in the options."""

import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf.types import NodeCommand, NodeRequest
from llmperf_ssh.hosts import Host, parse_host, read_host_file
from llmperf_ssh.launcher import SshLauncher, command_line, explanation

needs_ssh = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs an ssh client")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node1", ("node1", None, None)),
        ("me@node1:2222", ("node1", "me", 2222)),
        ("10.0.0.1", ("10.0.0.1", None, None)),
        ("fe80::1%eth0", ("fe80::1%eth0", None, None)),
        ("me@[fe80::1]:22", ("fe80::1", "me", 22)),
        ("[::1]", ("::1", None, None)),
    ],
)
def test_a_host_has_a_user_and_a_port(text, expected):
    name, user, port = expected
    assert parse_host(text, "--hosts") == Host(name=name, user=user, port=port)


@pytest.mark.parametrize(
    "text",
    ["", "-oProxyCommand=touch x", "a b", "a;b", "-l@a", "@a", "a:", "a:0", "a:65536", "a:x", "a:1:b", "[::1", "[a]x",
     "$(id)", "a\n", "ssh://a", "a/b", "ä", "a" * 256, "me@-p", "a:9999999999"],
)  # fmt: skip
def test_what_is_no_host_is_refused(text):
    with pytest.raises(UserError, match=r"^--hosts: "):
        parse_host(text, "--hosts")


def test_host_files_of_open_mpi_and_deepspeed(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("# cluster\nnode1 slots=8   # rack 1\n\nme@node2 slots = 8 max-slots=16\nnode3\n")
    assert dict(read_host_file(path).slots) == {"node1": 8, "me@node2": 8, "node3": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line"),
        ("node1 slot=8\n", "line 1: unknown key 'slot'; did you mean 'slots'?"),
        ("\nnode1 slots=0\n", "line 2: slots: expected a number from 1 to 4096, found '0'"),
        ("node1 8\n", "line 1: expected 'slots=N' after the host, found '8'"),
        ("node1\nnode1\n", "line 2: 'node1' is in line 1 already"),
        ("-oX slots=1\n", "line 1: expected a host"),
        ("node1 slots=\xb2\n", "expected a number"),
    ],
)
def test_mistakes_in_host_files_have_their_line(tmp_path, text, message):
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(UserError, match=r"hosts: ") as error:
        read_host_file(path)
    assert message in str(error.value)


def request(hosts=(), nodes=None, devices=None, **options):
    return NodeRequest(nodes=nodes or len(hosts) or 1, devices=devices, hosts=tuple(hosts), options=options)


@pytest.fixture
def config(tmp_path):
    """A configuration of ssh with an alias."""
    path = tmp_path / "config"
    path.write_text("Host big\n  HostName 10.1.2.3\n  Port 2022\n  RequestTTY force\n")
    return str(path)


@needs_ssh
def test_aliases_of_the_ssh_configuration_become_addresses(config):
    nodes = SshLauncher().nodes(request(["big", "me@node2:22"], config=config, interface="eth7", env={"A": "1"}))
    assert [(node.host, node.address, node.interface) for node in nodes] == [
        ("big", "10.1.2.3", "eth7"),
        ("me@node2:22", "node2", "eth7"),
    ]
    assert [dict(node.env) for node in nodes] == [{"A": "1"}] * 2


@needs_ssh
def test_addresses_can_be_given(config):
    options = {"config": config, "addresses": {"big": "192.168.0.1"}}
    (node,) = SshLauncher().nodes(request(["big"], **options))
    assert node.address == "192.168.0.1"


@needs_ssh
def test_the_command_has_no_word_that_the_user_did_not_choose(config):
    launcher = SshLauncher()
    launcher.nodes(request(["me@big:7"], config=config, options=["ProxyJump=gate"], connect_timeout_seconds=3))
    given = NodeCommand(node_rank=0, host="me@big:7", argv=("python", "-c", "a; b"), env={"LLMPERF_NODE_RANK": "0"})
    (command,) = launcher.commands([given])
    assert command.argv[-3:] == ("--", "me@big", "exec env 'LLMPERF_NODE_RANK=0' python -c 'a; b'")
    options = [value for word, value in zip(command.argv, command.argv[1:], strict=False) if word == "-o"]
    assert {"BatchMode=yes", "ProxyJump=gate", "ConnectTimeout=3", "ServerAliveInterval=5"} <= set(options)
    assert ("-p", "7") in zip(command.argv, command.argv[1:], strict=False)
    assert not command.env


@needs_ssh
def test_hosts_that_a_run_does_not_use_are_mentioned(tmp_path, capsys):
    path = tmp_path / "hosts"
    path.write_text("node1\nnode2\n")
    SshLauncher().nodes(request(hostfile=str(path)))
    assert (
        capsys.readouterr().err
        == f"1 of the 2 hosts of {path}: node1; the run has nodes=1, and nodes=2 would use all\n"
    )
    SshLauncher().nodes(request(nodes=2, hostfile=str(path)))
    assert capsys.readouterr().err == ""


@needs_ssh
def test_hosts_and_slots_come_from_the_host_file(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("node1 slots=2\nnode2 slots=4\n")
    options = {"hostfile": str(path)}
    launcher = SshLauncher()
    assert [node.host for node in launcher.nodes(request(nodes=2, devices=2, **options))] == ["node1", "node2"]
    assert [node.host for node in launcher.nodes(request(["node2"], devices=4, **options))] == ["node2"]
    with pytest.raises(UserError, match=r"host node1: expected at least 4 slots \(--devices\), found 2"):
        launcher.nodes(request(nodes=2, devices=4, **options))
    assert [node.devices for node in launcher.nodes(request(nodes=2, **options))] == [2, 4]
    with pytest.raises(UserError, match=r"^--hosts: node3 is not in .*hosts; it has node1, node2$"):
        launcher.nodes(request(["node2", "node3"], **options))


@needs_ssh
@pytest.mark.parametrize(
    ("hosts", "options", "message"),
    [
        ((), {}, "expected hosts, as --hosts a,b or launchers.ssh.hostfile"),
        (["a"], {"hostfil": "x"}, "launchers.ssh: unknown key 'hostfil'; did you mean 'hostfile'?"),
        (["a"], {"identity": "/nowhere"}, "launchers.ssh.identity: expected a file, found no /nowhere"),
        (["a"], {"connect_timeout_seconds": 0}, "launchers.ssh: connect_timeout_seconds: expected at least 1, found 0"),
        (["a"], {"interface": "-x"}, "launchers.ssh.interface: expected a network interface"),
        (["a"], {"options": ["-oX"]}, "launchers.ssh.options: expected options such as"),
        (["a"], {"env": {"A-B": "1"}}, "launchers.ssh.env: cannot set the variable 'A-B'"),
        (["a"], {"addresses": {"a": "b c"}}, "launchers.ssh.addresses: a: expected"),
        (["localhost", "127.0.0.1"], {}, "hosts localhost, 127.0.0.1: expected different machines"),
        (["localhost", "node2"], {}, "host localhost: the other hosts cannot reach it by a loopback address"),
        (["-F/tmp/x"], {}, "--hosts: expected a host as [USER@]HOST[:PORT], found '-F/tmp/x'"),
    ],
)
def test_bad_options_are_refused_in_one_line(hosts, options, message, one_line):
    with one_line(message):
        SshLauncher().nodes(request(hosts, **options))


def test_a_missing_client_is_named(monkeypatch):
    monkeypatch.setattr(os, "environ", {**os.environ, "PATH": "/nowhere"})
    with pytest.raises(UserError, match="found no ssh client; install OpenSSH"):
        SshLauncher().nodes(request(["a"]))


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
    assert advice in line
    assert "\n" not in line


def test_a_key_that_the_host_refuses_is_named():
    line = explanation("node1", 255, "root@node1: Permission denied (publickey).\n", "~/.ssh/cluster")
    assert "~/.ssh/cluster (launchers.ssh.identity) was tried" in line
    assert "name the key" not in line


def test_a_killed_client_and_a_missing_python_are_named_and_other_statuses_are_left_to_the_caller():
    assert explanation("a", -9, "") == "the ssh client here was killed by signal 9"
    assert explanation("a", 127, "env: '/opt/py': No such file or directory\n") == (
        "env: '/opt/py': No such file or directory: install llmperf on the host under the same path as here, or name"
        " its Python with --python"
    )
    assert explanation("a", 1, "llmperf-core is not installed\n") is None


PRINT = ("sh", "-c", 'printf "%s\\0" "$SEEN" "$@"', "sh")
SHELLS = {"sh": (), "bash": (), "dash": (), "zsh": (), "ksh": (), "busybox": ("sh",), "fish": (), "tcsh": (), "csh": ()}
"""Shells with the words before `-c`. sshd runs the login shell with `-c` and the command line."""

hard = st.text(st.sampled_from("'\"\\!$`&|;<>()*?[]{}~#=% \t\n^@-aé\u2028\U0001f600"), max_size=12)
words = st.lists(hard | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12), max_size=5)


def seen_by(shell, line):
    """The arguments and the variable that a program gets through a shell."""
    argv = [shell, *SHELLS[shell], "-c", line]
    done = subprocess.run(argv, capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": "/", "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr
    value, *arguments = done.stdout.decode().split("\0")[:-1]
    return arguments, value


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_passes_every_word_on_unchanged(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    csh = shell in ("tcsh", "csh")

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(words, hard)
    def check(arguments, value):
        if csh:  # it has no way to pass a line break on
            arguments, value = [word.replace("\n", "") for word in arguments], value.replace("\n", "")
        line = command_line([*PRINT, *arguments], {"SEEN": value})
        assert seen_by(shell, line) == (arguments, value)

    check()


def test_the_shell_is_replaced_by_the_command():
    line = command_line([sys.executable, "-c", "import os; print(os.getpid())"], {})
    process = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, text=True)
    assert process.communicate()[0].strip() == str(process.pid)


@pytest.mark.parametrize("name", ["", "A-B", "1A", "A;B", "A\n", "PFAD Ä", "A.B"])
def test_what_a_shell_cannot_hold_is_refused(name):
    with pytest.raises(UserError, match="cannot set the variable"):
        command_line(["true"], {name: "1"})
    with pytest.raises(UserError, match="NUL"):
        command_line(["true", "a\0b"], {})
