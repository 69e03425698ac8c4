"""Inside a job: its nodes, and the steps that bring commands to them."""

import pytest
from llmperf.errors import UserError
from llmperf.types import NodeCommand, NodeRequest
from llmperf_slurm.launcher import SlurmLauncher
from llmperf_slurm.tools import gpus_of_nodes


@pytest.fixture
def job(tools, monkeypatch):
    """Inside job 7 on four nodes, of which slurmctld knows the addresses of two."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "gpu[1-4]")
    script = tools.folder / "scontrol"
    script.write_text(
        "#!/bin/sh\n"
        '[ "$3" = "gpu[3-4]" ] && printf "gpu3\\ngpu4\\n" && exit\n'
        '[ "$2" = hostnames ] && printf "gpu1\\ngpu2\\ngpu3\\ngpu4\\n" && exit\n'
        'echo "NodeName=gpu1 Arch=x86_64 NodeAddr=10.0.0.1 OS=Linux 6 NodeAddr=no State=IDLE"\n'
        'echo "NodeName=gpu3 NodeAddr=ib-gpu3 State=IDLE"\n'
    )
    script.chmod(0o755)
    return tools


def request(nodes=2, **changes):
    return NodeRequest(**{"nodes": nodes, "devices": None, "hosts": (), "options": {}, **changes})


def test_nodes_come_in_slurms_order_with_their_addresses(job):
    nodes = SlurmLauncher().nodes(request(nodes=4))
    assert [(node.host, node.address) for node in nodes] == [
        *(("gpu1", "10.0.0.1"), ("gpu2", "gpu2"), ("gpu3", "ib-gpu3"), ("gpu4", "gpu4"))
    ]
    assert [node.host for node in SlurmLauncher().nodes(request(nodes=2))] == ["gpu1", "gpu2"]
    assert len(SlurmLauncher().nodes(request(nodes=9))) == 4


def test_hosts_choose_among_the_nodes_of_the_job(job):
    assert [node.host for node in SlurmLauncher().nodes(request(hosts=("gpu4", "gpu1")))] == ["gpu4", "gpu1"]
    assert [node.host for node in SlurmLauncher().nodes(request(hosts=("gpu[3-4]",)))] == ["gpu3", "gpu4"]
    with pytest.raises(UserError, match=r"--hosts: gpu9 is not a node of job 7; expected some of gpu\[1-4\]"):
        SlurmLauncher().nodes(request(hosts=("gpu9",)))


def test_outside_a_job_there_are_no_nodes(tools):
    with pytest.raises(UserError, match="SLURM_JOB_ID is not set; expected a job"):
        SlurmLauncher().nodes(request())


def test_each_command_is_a_step_on_its_node(job, monkeypatch):
    monkeypatch.setenv("SLURM_GPUS", "16")
    launcher = SlurmLauncher()
    launcher.nodes(request(options={"srun": ["--container-mounts=/a:/a"]}))
    node = NodeCommand(node_rank=1, host="gpu2", argv=("python", "-c", "x y"), env={"LLMPERF_NODE_RANK": "1"})
    (command,) = launcher.commands([node])
    assert (command.node_rank, command.host, command.env) == (1, "gpu2", node.env)
    assert command.argv[:3] == ("/usr/bin/env", "-u", "SLURM_GPUS")  # those of all nodes, asked of one
    assert command.argv[-5:] == ("--container-mounts=/a:/a", "--", "python", "-c", "x y")
    assert {"--jobid=7", "--nodelist=gpu2", "--nodes=1", "--overlap", "--mem=0", "--input=all"} <= set(command.argv)


def test_a_job_with_gpus_in_total_asks_for_those_of_each_node(tools):
    tools.answer(
        "scontrol",
        "JobId=7 NodeList=gpu[1-2] Nodes=gpu1 CPU_IDs=0-1 Mem=4000 GRES=gpu:h800:8(IDX:0-7),nic:2(CNT:2)"
        " Nodes=gpu2 CPU_IDs=0-1 Mem=4000 GRES=gpu:4(IDX:0-3) MinCPUsNode=1\n",
    )
    hosts = tools.folder / "scontrol"
    hosts.write_text(hosts.read_text().replace("#!/bin/sh\n", '#!/bin/sh\n[ "$2" = hostnames ] && echo $3 && exit\n'))
    assert gpus_of_nodes("7") == {"gpu1": 8, "gpu2": 4}


def test_images_are_passed_on_where_pyxis_is(job):
    job.answer("srun", "      --container-image=[USER@][REGISTRY#]IMAGE[:TAG]|PATH\n")
    launcher = SlurmLauncher()
    launcher.nodes(request(image="lab/llmperf:1"))
    node = NodeCommand(node_rank=0, host="gpu1", argv=("true",), env={})
    assert "--container-image=lab/llmperf:1" in launcher.commands([node])[0].argv


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        ("slurmstepd-gpu2: error: *** STEP 7.1 ON gpu2 CANCELLED AT 06:31 DUE TO TIME LIMIT ***", "time limit"),
        ("srun: error: Node failure on gpu2\nsrun: Force Terminated StepId=7.1", "Slurm lost the node"),
        ("srun: error: Unable to create step for job 7: Invalid generic resource (gres) specification", "--gres=gpu:N"),
        ("a line\nsrun: error: Unable to create step for job 7: More processors requested than permitted", "More proc"),
    ],
)
def test_messages_of_slurm_are_explained(errors, reason):
    text = SlurmLauncher().explain("gpu2", 1, errors)
    assert text is not None
    assert reason in text
    assert "\n" not in text


def test_a_step_without_messages_has_no_explanation():
    assert SlurmLauncher().explain("gpu2", 1, "Traceback (most recent call last):\n") is None


def test_inside_a_job_nothing_is_submitted_and_a_requeue_is_mentioned(job, monkeypatch):
    from llmperf.types import Submission

    lines = []
    wanted = Submission(command=("run",), request=request(), out="/runs")
    assert SlurmLauncher().hand_over(wanted, lines.append) is None
    assert lines == []
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    assert SlurmLauncher().hand_over(wanted, lines.append) is None
    assert lines == ["job 7 has been requeued, restart 2: this is a run of its own"]
