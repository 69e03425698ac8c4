"""Commands that run in containers, for launchers that start none themselves."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from llmperf.cli.main import call
from llmperf.errors import UserError
from llmperf.launching import this_interpreter
from llmperf.types import NodeCommand
from llmperf.types.remote import Container, Containers
from llmperf_remote.nodes import InContainers

COMMAND = NodeCommand(
    node_rank=1, host="b", argv=("python3", "-u", "-c", "PROGRAM"), env={"LLMPERF_NODE_RANK": "1", "API_KEY": "hidden"}
)
SHARED = "run --rm --interactive --init --pull never --network host --ipc host"
NAMES = "--env API_KEY --env LLMPERF_NODE_RANK"


def argv_of(command, image, table):
    launcher = InContainers(SimpleNamespace(name="ssh", nodes=list, commands=list), Container(image=image, table=table))
    (wrapped,) = launcher.commands([command])
    assert replace(wrapped, argv=command.argv) == command
    return wrapped.argv


@pytest.mark.parametrize(
    ("table", "argv"),
    [
        (Containers(engine="podman"),
         f"podman {SHARED} {NAMES} --entrypoint python3 lab/llmperf:1 -u -c PROGRAM"),
        (Containers(engine="podman", devices=("maker.com/gpu=all", "/dev/infiniband"), mounts=("/data:/data:ro",)),
         f"podman {SHARED} --device maker.com/gpu=all --device /dev/infiniband --volume /data:/data:ro "
         f"{NAMES} --entrypoint python3 lab/llmperf:1 -u -c PROGRAM"),
        (Containers(engine="docker", gpus="all"),
         f"docker {SHARED} --ulimit memlock=-1:-1 --gpus all {NAMES} --entrypoint python3 lab/llmperf:1 "
         "-u -c PROGRAM"),
        (Containers(engine="apptainer", gpus="nv", mounts=("/data:/data",)),
         "apptainer exec --nv --bind /data:/data lab/llmperf:1 env -u PYTHONHOME -u PYTHONPATH -u VIRTUAL_ENV "
         "PYTHONNOUSERSITE=1 python3 -u -c PROGRAM"),
    ],
)  # fmt: skip
def test_the_command_of_each_engine(table, argv):
    assert " ".join(argv_of(COMMAND, "lab/llmperf:1", table)) == argv


def test_nodes_that_differ_in_their_number_only_have_the_same_words():
    table, other = Containers(engine="apptainer"), replace(COMMAND, env={**COMMAND.env, "LLMPERF_NODE_RANK": "7"})
    assert argv_of(COMMAND, "a.sif", table) == argv_of(other, "a.sif", table)


def test_the_interpreter_of_this_machine_is_not_sought_in_the_image():
    table = Containers(engine="docker", python="/opt/llmperf/bin/python")
    argv = argv_of(replace(COMMAND, argv=(this_interpreter(), "-u")), "a", table)
    assert argv[argv.index("--entrypoint") + 1] == "/opt/llmperf/bin/python"


@pytest.mark.parametrize(
    ("image", "table", "message"),
    [
        ("--privileged", {"engine": "docker"}, "--container-image: expected the name or path of an image"),
        ("a b", {"engine": "docker"}, "--container-image: expected the name or path of an image"),
        ("a", {}, "launcher 'ssh' starts no containers itself; expected engine = "),
        ("a", {"engine": "docker", "mounts": ("data:/data",)}, "containers.mounts: expected paths such as"),
        ("a", {"engine": "docker", "mounts": ("/data:/data,suid",)}, "containers.mounts: expected paths such as"),
        ("a", {"engine": "docker", "devices": ("/etc",)}, "containers.devices: expected a path below /dev"),
        ("a", {"engine": "docker", "devices": ("/dev/../etc",)}, "containers.devices: expected a path below /dev"),
        ("a", {"engine": "apptainer", "devices": ("/dev/a",)}, "apptainer shows a container all devices"),
        ("a", {"engine": "podman", "gpus": "all"}, "podman takes GPUs as devices"),
        ("a", {"engine": "docker", "gpus": "0 --privileged"}, "expected 'all' for docker"),
        ("a", {"engine": "apptainer", "gpus": "nv --fakeroot"}, "expected the name of an option of apptainer"),
        ("a", {"engine": "docker", "python": "--x"}, "containers.python: expected the interpreter in the image"),
    ],
)
def test_what_could_become_another_option_is_refused(image, table, message):
    with pytest.raises(UserError) as caught:
        argv_of(COMMAND, image, Containers(**table))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_engine_and_an_image_for_this_machine_are_refused(stub_site, tmp_path, monkeypatch, ran, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(["run", "--container-image", "a"]) == 2
    assert "launcher 'local' starts no containers; expected another --launcher" in capsys.readouterr().err
    (tmp_path / "llmperf.toml").write_text('[containers]\nengine = "lxc"\n')
    assert "engine" in ran(2, "run", "--container-image", "a").err
