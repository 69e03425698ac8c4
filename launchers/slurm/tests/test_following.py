"""Submitting and following, with commands of Slurm that answer from files."""

import io
import os

import pytest
from llmperf.errors import Interrupted, Terminated, UserError
from llmperf.types import NodeRequest, Submission
from llmperf_slurm import following
from llmperf_slurm.launcher import SlurmLauncher

REFUSED = "sbatch: error: invalid partition: gpuu\nsbatch: error: Batch job submission failed\n"
JOB = "JobId=12 JobState={state} Reason={reason} ExitCode={code} NodeList={nodes} Restarts=0\n"


@pytest.fixture
def out(tmp_path, monkeypatch):
    """The folder of run folders; time passes at once."""
    monkeypatch.setattr(following, "sleep", lambda seconds: None)
    monkeypatch.setattr(following, "STATE_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(following, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(following, "CANCEL_SECONDS", 0.05)
    return tmp_path / "runs"


def hand_over(out, lines):
    request = NodeRequest(nodes=2, devices=None, hosts=(), options={})
    return SlurmLauncher().hand_over(Submission(command=("run",), request=request, out=str(out)), lines.append)


def state(tools, state, reason="None", code="0:0", nodes="gpu[1-2]"):
    tools.answer("scontrol", JOB.format(state=state, reason=reason, code=code, nodes=nodes))


def test_a_refused_job_is_one_line_with_slurms_reason(tools, out):
    tools.answer("sbatch", errors=REFUSED, code=1)
    with pytest.raises(UserError, match="sbatch refused it: sbatch: error: invalid partition: gpuu; ") as error:
        hand_over(out, [])
    assert "\n" not in str(error.value)


def test_a_job_is_followed_to_its_exit_code(tools, out, capfd, monkeypatch):
    tools.answer("sbatch", "12;cluster\n")
    steps = iter(["PENDING", "RUNNING", "COMPLETING", "FAILED"])
    (out / "jobs").mkdir(parents=True)

    def sleep(seconds):
        now = next(steps, "FAILED")
        state(tools, now, "NonZeroExitCode" if now == "FAILED" else "None", "3:0" if now == "FAILED" else "0:0")
        with (out / "jobs" / "slurm-12.out").open("a") as file:
            file.write(f"{now} line\nhalf a ")
        (out / "jobs" / "slurm-12.err").write_text("a warning\n")

    state(tools, "PENDING", "Resources", nodes="(null)")
    monkeypatch.setattr(following, "sleep", sleep)
    lines = []
    assert hand_over(out, lines) == 3
    printed, errors = capfd.readouterr()
    assert "half a RUNNING line\n" in printed
    assert printed.endswith("half a \n")
    assert errors.splitlines() == ["a warning"]
    assert lines[0].startswith("submitted job 12 (")
    assert lines[1] == "job 12: PENDING (Resources), 0:00:00 after submission"
    assert lines[-1] == "job 12 has ended: FAILED (NonZeroExitCode), exit code 3"
    (script,) = out.glob("jobs/slurm-*.sbatch")
    assert any(call == f"sbatch --parsable {script}" for call in tools.calls)


def test_a_job_without_output_says_that_the_folder_may_not_be_shared(tools, out):
    tools.answer("sbatch", "12\n")
    state(tools, "COMPLETED")
    lines = []
    assert hand_over(out, lines) == 0
    assert f"no output at {out}/jobs/slurm-12.out: is that folder shared with the nodes of the job?" in lines


def test_a_job_that_nobody_remembers_has_no_exit_code(tools, out):
    tools.answer("sbatch", "12\n")
    tools.answer("scontrol", errors="slurm_load_jobs error: Invalid job id specified\n", code=1)
    lines = []
    assert hand_over(out, lines) == 1
    assert lines[-1] == "job 12 has ended: UNKNOWN (Slurm does not remember it), exit code unknown"


@pytest.mark.parametrize("error", [Interrupted(), Terminated(15)])
@pytest.mark.parametrize(
    ("now", "calls"),
    [
        ("PENDING", ["scancel 12"]),
        ("RUNNING", ["scancel --state=PENDING 12", "scancel --batch --signal=TERM 12", "scancel 12"]),
    ],
)
def test_an_interrupt_cancels_the_job(tools, out, monkeypatch, error, now, calls):
    tools.answer("sbatch", "12\n")
    state(tools, now)
    raised = []

    def sleep(seconds):
        if not raised:
            raised.append(error)
            raise error

    monkeypatch.setattr(following, "sleep", sleep)
    lines = []
    with pytest.raises(type(error)):
        hand_over(out, lines)
    assert [call for call in tools.calls if call.startswith("scancel")] == calls
    assert lines[-1] == "job 12 is cancelled"


def test_a_lost_terminal_leaves_the_job_and_says_how_to_follow_it(tools, out, monkeypatch):
    tools.answer("sbatch", "12\n")
    state(tools, "RUNNING")

    def sleep(seconds):
        raise Terminated(1)

    monkeypatch.setattr(following, "sleep", sleep)
    lines = []
    with pytest.raises(Terminated):
        hand_over(out, lines)
    assert not any(call.startswith("scancel") for call in tools.calls)
    assert lines[-1].startswith(f"job 12 stays; follow it: tail -F {out}/jobs/slurm-12.*")


def test_a_slurmctld_that_is_away_is_waited_for(tools, out, monkeypatch):
    tools.answer("sbatch", "12\n")
    tools.answer("scontrol", errors="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    monkeypatch.setattr(following, "sleep", lambda seconds: state(tools, "COMPLETED"))
    lines = []
    assert hand_over(out, lines) == 0
    assert any("slurmctld does not answer" in line for line in lines)


def test_hand_over_needs_slurms_commands(tools, out, monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(UserError, match="sbatch is not on PATH; expected Slurm's commands on this machine"):
        hand_over(out, [])


@pytest.mark.parametrize(
    ("terminal", "printed"),
    [
        (True, "[0] a\tred \\x1b]0;title\\x07 \\x1b[2J\n"),
        (False, "[0] a\t\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\r\n"),
    ],
)
def test_output_of_nodes_does_not_control_the_terminal(tmp_path, monkeypatch, terminal, printed):
    path, stream = tmp_path / "slurm-1.out", io.StringIO()
    path.write_bytes(b"a\t\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\r\n")
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    following.Tail(path, stream, "[0] ").print()
    assert stream.getvalue() == printed
