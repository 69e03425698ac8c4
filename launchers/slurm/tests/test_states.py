"""What Slurm's commands print about jobs."""

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from llmperf.errors import UserError
from llmperf.types import NodeRequest, Submission
from llmperf_slurm.following import job_states, read_state
from llmperf_slurm.launcher import SlurmLauncher
from llmperf_slurm.options import slurm_options
from llmperf_slurm.script import Job, batch_script
from llmperf_slurm.tools import SlurmError

LINE = (
    "JobId=12 JobName=llmperf UserId=me(1000) GroupId=me(1000) MCS_label=N/A Priority=4294901754 Nice=0 Account=(null)"
    " QOS=(null) JobState={state} Reason={reason} Dependency=(null) Requeue=1 Restarts={restarts} BatchFlag=1 Reboot=0"
    " ExitCode={code} RunTime=00:00:00 TimeLimit=00:30:00 Partition=work AllocNode:Sid=login:19506 NodeList={nodes}"
    " BatchHost=gpu1 ReqB:S:C:T=0:0:*:* TRES=cpu=4,mem=8000M Comment=JobState=FAILED Command=/my runs/a=b.sh Power= "
)


def line(state="RUNNING", reason="None", restarts=0, code="0:0", nodes="gpu[1-2]"):
    return LINE.format(state=state, reason=reason, restarts=restarts, code=code, nodes=nodes)


def test_a_waiting_job_has_a_reason():
    state = read_state(line("PENDING", "Resources", nodes="(null)"))
    assert (state.state, state.reason, state.nodes, state.waiting, state.ended) == (
        *("PENDING", "Resources", None, True, False),
    )


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


def test_a_slurmctld_that_is_away_is_not_a_job_that_is_gone(tools):
    tools.answer("scontrol", errors="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    with pytest.raises(SlurmError, match="Unable to contact slurm controller"):
        job_states("12")


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
    assert shown is not None
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
