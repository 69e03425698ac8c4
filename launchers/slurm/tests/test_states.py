"""What Slurm's commands print about jobs."""

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from llmperf.errors import UserError
from llmperf.types import NodeCommand, NodeRequest, Submission
from llmperf_slurm.following import job_states, read_state
from llmperf_slurm.launcher import SlurmLauncher
from llmperf_slurm.script import Job, batch_script, slurm_options
from llmperf_slurm.tools import gpus_of_nodes

LINE = (
    "JobId=12 JobName=llmperf UserId=me(1000) GroupId=me(1000) MCS_label=N/A Priority=4294901754 Nice=0 Account=(null)"
    " QOS=(null) JobState={state} Reason={reason} Dependency=(null) Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0"
    " ExitCode={code} RunTime=00:00:00 TimeLimit=00:30:00 Partition=work AllocNode:Sid=login:19506 NodeList={nodes}"
    " BatchHost=gpu1 ReqB:S:C:T=0:0:*:* TRES=cpu=4,mem=8000M Comment=JobState=FAILED Command=/my runs/a=b.sh Power= "
)


def line(state="RUNNING", reason="None", restarts=0, code="0:0", nodes="gpu[1-2]"):
    return LINE.format(state=state, reason=reason, restarts=restarts, code=code, nodes=nodes)


def test_a_waiting_job_has_a_reason_and_no_nodes():
    state = read_state(line("PENDING", "Resources", nodes="(null)"))
    assert (state.state, state.reason, state.nodes, state.waiting) == ("PENDING", "Resources", None, True)


@pytest.mark.parametrize(("text", "code"), [("0:0", 0), ("3:0", 3), ("0:15", 143), ("1:9", 1), ("odd", None)])
def test_exit_codes_of_scripts_and_signals(text, code):
    assert read_state(line("FAILED", "NonZeroExitCode", code=text)).exit_code == code


def test_a_job_that_ends_is_not_ended_while_it_is_completing():
    assert not read_state(line("COMPLETING")).ended
    assert read_state(line("NODE_FAIL", "NodeDown")).ended


def test_pending_tasks_of_an_array_are_counted():
    state = read_state("JobId=12 ArrayJobId=12 ArrayTaskId=2-4,9%2 JobState=PENDING Reason=Resources")
    assert (state.task, state.tasks) == ("2-4,9%2", 4)


def test_a_job_that_slurmctld_has_forgotten_is_asked_of_accounting(tools):
    tools.answer("scontrol", errors="slurm_load_jobs error: Invalid job id specified\n", code=1)
    assert job_states("12") == ()
    tools.answer("sacct", "12|TIMEOUT|0:15|gpu[1-2]\n121|COMPLETED|0:0|gpu9\n")
    (state,) = job_states("12")
    assert (state.state, state.exit_code, state.nodes) == ("TIMEOUT", 143, "gpu[1-2]")


def test_names_of_output_files():
    job = Job(job="12", tasks=1, output="/a%%j/slurm-%j.out", errors="/a%%j/slurm-%j.err")
    assert [str(path) for path in job.files("")] == ["/a%j/slurm-12.out", "/a%j/slurm-12.err"]
    array = Job(job="12", tasks=3, output="/a/slurm-%A_%a.out", errors="/a/slurm-%A_%a.err")
    assert str(array.files("2")[0]) == "/a/slurm-12_2.out"


def submission(*words, tasks=1, out="/data/runs", **request):
    request = {"nodes": 2, "devices": None, "hosts": (), "options": {}, **request}
    return Submission(command=("run", *words), request=NodeRequest(**request), out=out, tasks=tasks)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"partitin": "gpu"}, "launchers.slurm: unknown key 'partitin'; did you mean 'partition'?"),
        ({"partition": 5}, "launchers.slurm: Expected"),
        ({"partition": "gpu; reboot"}, "launchers.slurm.partition: expected a value without spaces"),
        ({"time": "1:00\n#SBATCH --uid=0"}, "launchers.slurm.time: expected a value without spaces"),
        ({"lines": ["--mail-user=me"]}, "launchers.slurm.lines: expected lines that begin with '#SBATCH '"),
        ({"lines": ["#SBATCH -x a\nreboot"]}, "launchers.slurm.lines: expected lines that begin with '#SBATCH '"),
        ({"setup": ["module load a\nmodule load b"]}, "launchers.slurm.setup: expected one shell command"),
        ({"srun": ["reboot"]}, "launchers.slurm.srun: expected options such as"),
    ],
)
def test_wrong_options_name_their_key(table, message):
    with pytest.raises(UserError, match="launchers") as error:
        slurm_options(table)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_script_asks_for_what_the_table_says():
    table = {
        "partition": "gpu", "account": "lab", "time": "1:00:00", "qos": "high", "gres": "gpu:8",
        "constraint": "h800&ib",
        "lines": ["#SBATCH --reservation=bench"], "setup": ["module load cuda"],
    }  # fmt: skip
    text = batch_script(submission("default", "--set", "model=a b"), slurm_options(table))
    directives = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]
    for wanted in (
        *("--nodes=2", "--ntasks-per-node=1", "--partition=gpu", "--account=lab", "--time=1:00:00", "--qos=high"),
        *("--gres=gpu:8", "--constraint=h800&ib", "--exclusive", "--mem=0", "--reservation=bench", "--no-requeue"),
        *("--signal=B:TERM@60", "--output=/data/runs/jobs/slurm-%j.out", "--error=/data/runs/jobs/slurm-%j.err"),
    ):
        assert wanted in directives
    *_, setup, command = text.splitlines()
    assert setup == "module load cuda"
    assert shlex.split(command)[-4:] == ["run", "default", "--set", "model=a b"]
    assert Path(shlex.split(command)[1]).parent == Path(sys.executable).parent
    assert subprocess.run(["sh", "-n"], input=text, text=True).returncode == 0


def test_a_job_that_may_be_requeued_is_not_kept_without_a_node():
    text = batch_script(submission(), slurm_options({"requeue": True}))
    assert "--requeue\n" in text
    assert "--no-kill" not in text


def test_an_array_has_a_part_of_the_matrix_in_each_task():
    text = batch_script(submission("--matrix", "m.toml", tasks=3), slurm_options({}))
    assert "#SBATCH --array=1-3\n" in text
    assert "slurm-%A_%a.out" in text
    command = text.splitlines()[-1]
    shown = subprocess.run(
        ["sh", "-c", command.replace("exec ", "printf '%s\\n' ", 1)],
        env={"SLURM_ARRAY_TASK_ID": "2", "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
    )  # fmt: skip
    assert shown.stdout.splitlines()[-2:] == ["--part", "2/3"]


def test_chosen_hosts_are_asked_for():
    text = batch_script(submission(hosts=("gpu1", "gpu[3-4]")), slurm_options({}))
    assert "#SBATCH --nodelist=gpu1,gpu[3-4]\n" in text
    with pytest.raises(UserError, match="--hosts: expected names of Slurm's nodes"):
        batch_script(submission(hosts=("gpu1 --uid=0",)), slurm_options({}))


def test_folders_may_have_spaces_and_percent_signs_but_no_quotes():
    text = batch_script(submission(out="/my data/50%/runs"), slurm_options({}))
    assert '#SBATCH --output="/my data/50%%/runs/jobs/slurm-%j.out"\n' in text
    with pytest.raises(UserError, match="expected a folder without quotes"):
        batch_script(submission(out='/a"b'), slurm_options({}))


def test_the_preview_is_the_script_outside_a_job_only(tools, monkeypatch):
    wanted = submission(options={"partition": "gpu"})
    shown = SlurmLauncher().preview(wanted)
    assert "#SBATCH --partition=gpu\n" in shown
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert SlurmLauncher().preview(wanted) is None


def test_images_need_pyxis(tools):
    wanted = submission()
    wanted = replace(wanted, request=replace(wanted.request, image="nvcr.io#nvidia/pytorch:25.01-py3"))
    tools.answer("srun", "  --container=PATH   OCI bundle\n")
    with pytest.raises(UserError, match=r"--container-image: srun has no option --container-image here"):
        SlurmLauncher().hand_over(wanted, print)
    assert not any(call.startswith("sbatch") for call in tools.calls)


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
