"""Explanations of Slurm's messages for a step that ends before its command."""

from __future__ import annotations

import re

REASONS = (
    (r"DUE TO TIME LIMIT", "the job's time limit has passed; ask for more with launchers.slurm.time in llmperf.toml"),
    (r"DUE TO PREEMPTION", "a job of higher priority took the nodes"),
    (r"DUE TO NODE FAILURE|Node failure on", "Slurm lost the node; `scontrol show node` has the reason"),
    (r"DUE TO JOB REQUEUE", "Slurm requeued the job"),
    (r"Invalid generic resource", "srun cannot give the step the job's GPUs; ask for the job's with --gres=gpu:N"),
    (
        r"Unable to create step.*(?:busy|are in use)",
        "another step holds the node; end it",
    ),
    (r"Unable to contact slurm controller|Unable to confirm allocation", "slurmctld does not answer"),
    (r"(?:pyxis|enroot|spank)", "the container could not be started"),
    (
        r"oom[-_ ]kill|Out Of Memory",
        "no memory is left; ask for more with launchers.slurm.mem",
    ),
    (r"CANCELLED AT", "the job was cancelled"),
)
"""Messages of srun and slurmstepd, the most telling ones first."""

_SLURM = re.compile(r"(?:srun|slurmstepd[^:]*): (?:fatal: |error: )?(.*)")


def explanation(errors: str) -> str | None:
    """Reason why a step ended, in one line; None if Slurm gave none."""
    messages = [match[1].strip("* ") for line in errors.splitlines() if (match := _SLURM.search(line))]
    for pattern, meaning in REASONS:
        for message in messages:
            if re.search(pattern, message, re.IGNORECASE):
                return f"{meaning} ({message[:200]})"
    return messages[-1][:300] if messages else None
