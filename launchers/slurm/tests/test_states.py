"""What Slurm's commands print about jobs."""

import pytest
from llmperf_slurm.following import job_states, read_state
from llmperf_slurm.script import Job
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
