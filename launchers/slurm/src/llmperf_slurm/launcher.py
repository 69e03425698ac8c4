"""The launcher `slurm`: the nodes of the job that this process runs in, or a job that it submits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from llmperf.errors import UserError
from llmperf.types import Node, NodeCommand, NodeRequest, Submission

from llmperf_slurm.script import SlurmOptions, batch_script, slurm_options, submit
from llmperf_slurm.tools import addresses, explanation, gpus_of_nodes, has_container_images, hostnames, require

JOB = "SLURM_JOB_ID"
JOB_NODES = "SLURM_JOB_NODELIST"
JOB_GPUS = "SLURM_GPUS"
"""Set in a job that asked for GPUs in total (`--gpus`): its steps get none unless they ask for those of their node."""
RESTARTS = "SLURM_RESTART_COUNT"

STEP = (
    *("--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--overlap", "--mem=0", "--cpu-bind=none", "--mpi=none"),
    *("--export=ALL", "--input=all", "--kill-on-bad-exit=0", "--job-name=llmperf", "--quiet"),
)
"""A task on one node which has all that the job has there. srun sends longer lines than 1 KiB in pieces and mixes the
pieces of several tasks, so each node has an srun of its own."""

ASKS_FOR_MORE = (
    *("SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_SOCKET", "SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND"),
    *("SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE", "SLURM_TRES_PER_TASK"),
    *("SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE", "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK"),
    *("SLURM_CPUS_PER_GPU", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_DISTRIBUTION", "SLURM_HINT"),
    *("SLURM_THREADS_PER_CORE", "SLURM_STEP_GRES", "SLURM_TASKS_PER_NODE", "SLURM_LABELIO", "SLURM_UNBUFFEREDIO"),
    *("SLURM_STDINMODE", "SLURM_STDOUTMODE", "SLURM_STDERRMODE", "SLURM_ARBITRARY_NODELIST", "SLURM_HOSTFILE"),
)
"""Variables of the job that srun takes for options of the step, where they contradict its own or those of one node."""


class SlurmLauncher:
    """Brings commands to the nodes of a Slurm job with one srun for each; outside a job, submits one."""

    name = "slurm"
    starts_containers = True

    def __init__(self) -> None:
        self._options = SlurmOptions()
        self._image: str | None = None

    def nodes(self, request: NodeRequest) -> Sequence[Node]:
        """The nodes of the job, or those of `--hosts` among them."""
        self._options, self._image = slurm_options(request.options), request.image
        expression = os.environ.get(JOB_NODES)
        if JOB not in os.environ or not expression:
            raise UserError(
                f"launcher 'slurm': {JOB} is not set; expected a job, such as salloc starts; `llmperf run` submits one"
            )
        require("srun")
        _check_image(request)
        offered = hostnames(expression)
        wanted = ",".join(request.hosts)
        chosen = hostnames(wanted) if "[" in wanted else request.hosts
        for host in chosen:
            if host not in offered:
                job = os.environ[JOB]
                raise UserError(f"--hosts: {host} is not a node of job {job}; expected some of {expression}")
        hosts = (chosen or offered)[: request.nodes]
        known = addresses(hosts)
        return tuple(Node(host=host, address=known.get(host, host)) for host in hosts)

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """`srun` for each command."""
        if JOB not in os.environ:
            raise UserError(f"launcher 'slurm': expected to run inside a job, found no {JOB}")
        job = f"--jobid={os.environ[JOB]}"
        image = () if self._image is None else (f"--container-image={self._image}",)
        unset = tuple(word for name in ASKS_FOR_MORE if name in os.environ for word in ("-u", name))
        start = ("/usr/bin/env", *unset, require("srun")) if unset else (require("srun"),)
        gpus = gpus_of_nodes(os.environ[JOB]) if JOB_GPUS in os.environ else {}
        commands = []
        for node in nodes:
            devices = (f"--gres=gpu:{gpus[node.host]}",) if gpus.get(node.host) else ()
            step = (*start, job, f"--nodelist={node.host}", *STEP, *devices, *image, *self._options.srun)
            argv = (*step, "--", *node.argv)
            commands.append(NodeCommand(node_rank=node.node_rank, host=node.host, argv=argv, env=node.env))
        return commands

    def explain(self, host: str, exit_code: int, errors: str) -> str | None:
        """Reason why a step ended before its command, from the messages of srun."""
        return explanation(errors)

    def hand_over(self, submission: Submission, say: Callable[[str], None]) -> int | None:
        """Inside a job None; outside, submits the command as a job and follows it to its end."""
        if JOB in os.environ:
            if restarts := os.environ.get(RESTARTS):
                say(f"job {os.environ[JOB]} has been requeued, restart {restarts}: this is a run of its own")
            return None
        from llmperf_slurm.following import follow

        options = slurm_options(submission.request.options)
        _check_image(submission.request)
        return follow(submit(submission, options, say), say)

    def preview(self, submission: Submission) -> str | None:
        """The batch script that `hand_over` would submit; None inside a job."""
        if JOB in os.environ:
            return None
        return batch_script(submission, slurm_options(submission.request.options))


def _check_image(request: NodeRequest) -> None:
    if request.image is None:
        return
    require("srun")
    if not has_container_images():
        raise UserError("--container-image: srun has no option --container-image here; expected Slurm with pyxis")
