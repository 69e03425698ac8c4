"""States of jobs: as `scontrol show job` prints them, otherwise as sacct remembers them."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf_slurm.tools import SlurmError, call, fields

GOOD = "COMPLETED"
ENDED = frozenset({
    *(GOOD, "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"),
    "REVOKED",
})  # fmt: skip
WAITING = frozenset({
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
})  # fmt: skip
UNKNOWN = "UNKNOWN"
"""The state of a job that Slurm does not remember."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """State of a job, or of a task of an array, as Slurm reports it."""

    task: str
    """Number of the task; empty for a job that is no array, `1-3` for tasks that have not been started."""
    state: str
    """Such as `RUNNING`."""
    reason: str | None
    """Reason why it waits or ended, such as `Resources`."""
    nodes: str | None
    """Its nodes, such as `gpu[1-4]`."""
    exit_code: int | None
    """That of the batch script, 128 and the signal's number if a signal ended it."""
    restarts: int
    """How often it has been requeued."""

    @property
    def tasks(self) -> int:
        """How many tasks of an array this describes: 5 for `1-4,7%2`."""
        ranges = [part.split("-") for part in self.task.partition("%")[0].split(",")]
        return sum(int(part[-1]) - int(part[0]) + 1 if all(map(str.isdigit, part)) else 1 for part in ranges)

    @property
    def ended(self) -> bool:
        """It has ended for good."""
        return self.state in ENDED or self.state == UNKNOWN

    @property
    def waiting(self) -> bool:
        """It waits for its nodes."""
        return self.state in WAITING


def job_states(job: str) -> tuple[JobState, ...]:
    """The states of a job or of the tasks of an array; none if Slurm does not know it any more.

    SlurmError if slurmctld does not answer.
    """
    try:
        listed = call("scontrol", "show", "job", job, "--oneliner")
    except SlurmError as error:
        if "Invalid job id" not in str(error):
            raise
        return remembered(job)
    return tuple(read_state(line) for line in listed.splitlines() if "JobId=" in line)


def read_state(line: str) -> JobState:
    """The state in a line of `scontrol show job --oneliner`."""
    values = fields(line)
    return JobState(
        task=values.get("ArrayTaskId", ""),
        state=values.get("JobState", UNKNOWN),
        reason=_known(values.get("Reason")),
        nodes=_known(values.get("NodeList")),
        exit_code=_exit_code(values.get("ExitCode", "")),
        restarts=int(values["Restarts"]) if values.get("Restarts", "").isdigit() else 0,
    )


def remembered(job: str) -> tuple[JobState, ...]:
    """States of a job in Slurm's accounting; empty on a cluster without accounting."""
    try:
        listed = call("sacct", "-X", "-n", "-P", "-j", job, "-o", "JobID,State,ExitCode,NodeList")
    except Exception:  # no sacct on this machine, or no accounting behind it
        return ()
    states = []
    for line in listed.splitlines():
        number, state, code, nodes = (*line.split("|"), "", "", "", "")[:4]
        if number.partition("_")[0] != job:
            continue
        states.append(
            JobState(
                task=number.partition("_")[2],
                state=state.split()[0] if state.split() else UNKNOWN,  # `CANCELLED by 1000`
                reason=None,
                nodes=_known(nodes),
                exit_code=_exit_code(code),
                restarts=0,
            )
        )
    return tuple(states)


def _known(value: str | None) -> str | None:
    return None if value in (None, "", "(null)", "None", "Unknown", "N/A", "None assigned") else value


def _exit_code(text: str) -> int | None:
    code, _, number = text.partition(":")
    if not code.isdigit() or not number.isdigit():
        return None
    return int(code) or (128 + int(number) if int(number) else 0)
