"""Runs on several nodes, brought there by an outsider's launcher; here two groups of processes on one machine."""

import json
import os
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from llmperf.cli.main import call
from llmperf.launching import this_interpreter
from llmperf.planning import nodes
from llmperf.plugins.discovery import discover
from llmperf.plugins.loading import Plugins
from llmperf.plugins.mending import install_own
from llmperf.runfolder import filenames
from llmperf.runfolder.endings import read_reports
from llmperf.types import NodeCommand
from llmperf.types.remote import Container, Containers
from llmperf_remote.nodes import InContainers

SMALL = [
    "--set", "micro_batch=1", "--set", "steps=8", "--set", "contract.warmup_steps=2", "--set", "model=llama_tiny",
    "--set", "seq_len=16",
]  # fmt: skip
STUB = ["default", "--vendor", "stub", "--framework", "stub", *SMALL]


@pytest.fixture
def pair(stub_site, install):
    """The launcher `pair`, installed beside the stub vendor and framework."""
    text = Path(__file__).with_name("llmperf_pair.py").read_text()
    install("llmperf-pair", "pair", text, role="extension")


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(capsys, *words):
    code = call(["plan", *STUB, "--json", *words])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_two_nodes_plan_where_the_launcher_offers_two(pair, in_folder, capsys):
    code, document = planned(capsys, "--launcher", "pair", "--set", "nodes=2", "--devices", "1")
    assert code == 0
    plan, layout = document["plan"], document["plan"]["worker"]["layout"]
    assert (plan["launcher"], layout["nodes"], layout["devices_per_node"]) == ("pair", 2, 1)
    assert [node["host"] for node in plan["nodes"]] == ["left", "right"]
    assert plan["nodes"][0]["address"] == "127.0.0.1"


@pytest.mark.slow
def test_hosts_come_from_the_command_line_and_from_the_users_file(pair, in_folder, capsys):
    (in_folder / "llmperf.toml").write_text('[hosts]\nlab = ["a1", "a2"]\n')
    code, document = planned(capsys, "--launcher", "pair", "--hosts", "lab,b,c", "--devices", "1")
    assert code == 0
    assert [node["host"] for node in document["plan"]["nodes"]] == ["a1", "a2", "b", "c"]


@pytest.mark.slow
def test_more_nodes_than_the_launcher_offers_are_refused(pair, in_folder, capsys):
    code, document = planned(capsys, "--launcher", "pair", "--set", "nodes=3", "--devices", "1")
    assert code == 2
    assert "nearest: --set nodes=2" in json.dumps(document)


def test_an_unknown_launcher_is_refused_with_the_nearest(pair, in_folder, capsys):
    assert call(["plan", *STUB, "--launcher", "par"]) == 2
    assert capsys.readouterr().err == "llmperf: --launcher: unknown launcher 'par'; did you mean 'pair'?\n"


def test_options_of_the_launcher_come_from_the_users_file(pair, in_folder, ran):
    (in_folder / "llmperf.toml").write_text("[launchers.pair]\ncolour = 1\n")
    assert ran(2, "plan", *STUB, "--launcher", "pair").err == (
        "llmperf: llmperf.toml: launchers.pair: unknown key 'colour'; expected addresses\n"
    )


@pytest.mark.slow
def test_a_node_without_the_plugins_is_named(pair, in_folder, capsys):
    assert call(["plan", *STUB, "--launcher", "pair", "--hosts", "left,bare,right", "--devices", "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "llmperf: nodes differ in devices: 1 x Stub S1 on left, right; none on bare;"
        " nodes differ in vendor 'stub': 1.0 on left, right; none on bare"
    )


@pytest.mark.slow
def test_the_interface_of_the_nodes_is_planned(pair, in_folder, capsys):
    code, document = planned(capsys, "--launcher", "pair", "--set", "nodes=2", "--devices", "1", "--interface", "lo")
    assert code == 0
    assert [node["interface"] for node in document["plan"]["nodes"]] == ["lo", "lo"]
    assert call(["plan", *STUB, "--launcher", "pair", "--set", "nodes=2", "--devices", "1", "--interface", "l0"]) == 2
    assert capsys.readouterr().err == "llmperf: node left: --interface: unknown interface 'l0'; did you mean 'lo'?\n"


def test_the_local_launcher_takes_no_hosts(stub_site, in_folder, capsys):
    assert call(["plan", *STUB, "--hosts", "a,b"]) == 2
    assert "launcher 'local' reaches this machine only; choose one with --launcher" in capsys.readouterr().err


def test_a_launcher_that_is_misspelt_or_offered_twice_is_one_line(stub_site, install, in_folder, ran):
    unknown = "llmperf: --launcher: unknown launcher 'locl'; did you mean 'local'?\n"
    assert ran(2, "plan", *STUB, "--launcher", "locl").err == unknown
    for name in ("slots", "slits"):
        install(f"llmperf-{name}", name, SOURCE, role="extension")
    told = "comes from extension 'slits' (llmperf-slits) and extension 'slots' (llmperf-slots); uninstall one"
    assert f"launcher 'slots' {told}" in ran(2, "plan", *STUB, "--launcher", "slots").err


@pytest.mark.slow
def test_two_agents_run_one_plan(pair, in_folder, ran, capsys):
    words = ["run", *STUB, "--launcher", "pair", "--set", "nodes=2", "--devices", "2", "--json"]
    code = call([*words, "--set", "framework.step_seconds=0.01"])
    document = json.loads(capsys.readouterr().out)
    run, result = Path(document["folder"]), document["result"]
    assert [finding for finding in result["findings"] if finding["severity"] == "error"] == []
    assert (code, result["status"]) == (0, "complete")
    assert (result["parallelism"]["nodes"], result["parallelism"]["devices_per_node"]) == (2, 2)
    assert len(filenames.record_files(run)) == 4
    reports = read_reports(run)
    assert [[rank.rank for rank in report.ranks] for report in reports] == [[0, 1], [2, 3]]
    assert reports[0].pid != reports[1].pid
    assert json.loads((run / filenames.ENDING).read_text())["agents"] == [0, 0]
    ranks = [(node["host"], node["first_rank"], node["last_rank"]) for node in result["nodes"]]
    assert ranks == [("left", 0, 1), ("right", 2, 3)]
    assert [node["differs"] for node in result["nodes"]] == [{}, {"environment.PAIR_NODE": "right"}]
    assert {"records/host-001.json", "records/memory-001.jsonl", "nodes.json"} <= set(result["files"])
    ran(0, "validate", run)
    assert "rank 3: closed" in filenames.log_path(run, 3).read_text()
    assert not [pid for report in reports for rank in report.ranks if os.path.exists(f"/proc/{(pid := rank.pid)}")]


@pytest.mark.slow
def test_ranks_of_a_single_node_behind_a_launcher_have_a_free_port_to_meet(pair, in_folder, ran, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "t")
    monkeypatch.setenv("STUB_PASSWORD", "p")
    words = ["run", *STUB, "--launcher", "pair", "--hosts", "left", "--devices", "2", "--json"]
    fault = ["--set", "framework.fault=tells secrets", "--set", "framework.fault_rank=0"]
    run = Path(json.loads(ran(1, *words, *fault).out)["folder"])
    log = filenames.log_path(run, 0).read_text().splitlines()
    (port,) = (line for line in log if line.startswith("MASTER_PORT="))
    assert int(port.partition("=")[2]) > 0
    assert "MASTER_ADDR=127.0.0.1" in log


@pytest.mark.slow
def test_a_rank_that_fails_on_one_node_ends_both(pair, in_folder, ran):
    words = ["run", *STUB, "--launcher", "pair", "--set", "nodes=2", "--devices", "1", "--json"]
    fault = ["--set", "framework.fault=raises", "--set", "framework.fault_rank=1", "--set", "framework.fault_step=3"]
    result = json.loads(ran(1, *words, *fault).out)["result"]
    failure = result["failure"]
    assert (failure["rank"], failure["node_rank"]) == (1, 1)
    assert failure["message"] == "node 1 (right): rank 1 has had enough"


@pytest.mark.slow
def test_a_submission_has_no_names_of_hosts_and_is_valid(pair, in_folder, ran):
    words = ["run", *STUB, "--launcher", "pair", "--hosts", "gpu-17,gpu-18.lab", "--devices", "1", "--json"]
    fault = ["--set", "framework.fault=raises", "--set", "framework.fault_rank=1", "--set", "framework.fault_step=3"]
    document = json.loads(ran(1, *words, *fault).out)
    assert document["result"]["failure"]["message"] == "node 1 (gpu-18.lab): rank 1 has had enough"
    ran(0, "pack", document["folder"], "-o", "hidden.zip", "--logs")
    ran(0, "validate", "hidden.zip")
    with zipfile.ZipFile("hidden.zip") as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    assert [name for name, text in texts.items() if b"gpu-1" in text] == []
    (result,) = [json.loads(text) for name, text in texts.items() if name.endswith("/result.json")]
    assert result["failure"]["message"] == "node 1 (node-001): rank 1 has had enough"
    assert [node["host"] for node in result["nodes"]] == ["node-000", "node-001"]
    assert result["nodes"][1]["differs"] == {"environment.PAIR_NODE": "node-001"}
    assert call(["pack", document["folder"], "-o", "named.zip", "--hosts"]) == 0
    assert call(["validate", "named.zip"]) == 0
    with zipfile.ZipFile("named.zip") as archive:
        assert b"gpu-18.lab" in b"".join(map(archive.read, archive.namelist()))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc as Linux has it")
def test_the_nodes_are_asked_whether_they_are_idle(pair, in_folder, capsys):
    code = "import os, time\nif os.fork():\n  os._exit(0)\nprint(os.getpid(), flush=True)\nwhile True: pass"
    stranger = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(stranger.stdout.readline())
    try:
        nodes = ["--launcher", "pair", "--set", "nodes=2", "--devices", "1"]
        assert call(["run", *STUB, *nodes, "--wait-until-idle", "0.0001"]) == 2
    finally:
        os.kill(pid, signal.SIGKILL)
        stranger.communicate()
    last = capsys.readouterr().err.splitlines()[-1]
    assert "not idle within 0.0001 min; node left: the machine is busy: other processes use " in last
    assert last.endswith(" and on 1 more node")


def test_without_the_package_that_reaches_nodes_one_line_names_it(pair, in_folder, ran, monkeypatch):
    monkeypatch.setattr(nodes, "plugins_for", Plugins)
    assert ran(2, "plan", *STUB, "--launcher", "pair", "--devices", "1").err == (
        f"llmperf: launcher 'pair': llmperf-remote brings runs to its nodes; install it with: "
        f"{install_own('llmperf-remote')}\n"
    )


def test_a_launcher_of_this_project_that_is_absent_names_its_package(stub_site, in_folder, monkeypatch, capsys):
    here = [found for found in discover() if found.name != "slurm"]
    for module in ("planning.nodes", "plugins.loading"):
        monkeypatch.setattr(f"llmperf.{module}.discover", lambda **_: here)
    assert call(["plan", *STUB, "--launcher", "slurm"]) == 2
    assert "--launcher: 'slurm' is a launcher of llmperf-slurm; install it with: " in capsys.readouterr().err


SOURCE = """
import llmperf
from llmperf.types import Node

class Slots:
    name = "slots"

    def nodes(self, request):
        return [Node(host=f"node{number}", address="127.0.0.1", devices=number) for number in (1, 2)]

    def commands(self, nodes):
        return nodes

@llmperf.hookimpl
def llmperf_worker_env(plan):
    return llmperf.interface_variables(plan, "ACME_INTERFACE")

@llmperf.hookimpl
def llmperf_launchers():
    return [Slots()]
"""


@pytest.mark.slow
@pytest.mark.parametrize(("words", "devices"), [((), 1), (("--devices", "2"), 2), (("--set", "devices=2"), 2)])
def test_a_run_uses_the_fewest_devices_of_all_nodes(stub_site, install, ran, words, devices):
    install("llmperf-slots", "slots", SOURCE, role="extension")
    options = [
        "--vendor", "stub", "--framework", "stub", "--launcher", "slots", "--set", "nodes=2", "--set", "micro_batch=1",
    ]  # fmt: skip
    document = json.loads(ran(0, "plan", "default", *options, *words, "--json").out)
    assert document["plan"]["worker"]["layout"]["devices_per_node"] == devices


def test_plugins_lists_the_launchers_of_the_core_and_of_plugins(stub_site, install, ran):
    install("llmperf-slots", "slots", SOURCE, role="extension")
    rows = [row for row in json.loads(ran(0, "plugins", "--launchers", "--json").out) if row["role"] == "launcher"]
    owners = {row["name"]: (row["distribution"], row["state"]) for row in rows}
    assert owners["local"] == ("llmperf-core", "ok")
    assert owners["slots"] == ("llmperf-slots", "ok")


@pytest.mark.slow
def test_a_plan_names_the_nodes_of_its_devices(stub_site, install, ran):
    install("llmperf-slots", "slots", SOURCE, role="extension")
    options = ["--vendor", "stub", "--framework", "stub", "--launcher", "slots", "--set", "nodes=2"]
    text = ran(0, "plan", "default", *options, "--set", "micro_batch=1").out
    assert "on node[1-2])" in text
    assert "ACME_INTERFACE=lo (on node1; each node has its own)" in text


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
def test_what_could_become_another_option_is_refused(image, table, message, one_line):
    with one_line(message):
        argv_of(COMMAND, image, Containers(**table))


def test_an_unknown_engine_and_an_image_for_this_machine_are_refused(stub_site, tmp_path, monkeypatch, ran, capsys):
    monkeypatch.chdir(tmp_path)
    assert call(["run", "--container-image", "a"]) == 2
    assert "launcher 'local' starts no containers; expected another --launcher" in capsys.readouterr().err
    (tmp_path / "llmperf.toml").write_text('[containers]\nengine = "lxc"\n')
    assert "engine" in ran(2, "run", "--container-image", "a").err
