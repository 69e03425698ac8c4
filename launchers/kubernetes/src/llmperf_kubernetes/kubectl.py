"""Calls of kubectl, which knows the user's kubeconfig, credentials and proxies, and the pods that it lists."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmperf.errors import UserError

from llmperf_kubernetes.options import Options

CALL_SECONDS = 60.0
"""Longest time for a call: kubectl itself would wait without end for a server that does not answer."""


class KubectlError(Exception):
    """A call of kubectl failed, in one line; without an answer, not `refused`, it may have had its effect."""

    def __init__(self, message: str, refused: bool = True) -> None:
        super().__init__(message)
        self.refused = refused


class Kubectl:
    """kubectl with the cluster and the namespace of the options."""

    def __init__(self, options: Options) -> None:
        """UserError if kubectl is not installed."""
        program = shutil.which("kubectl")
        if program is None:
            raise UserError("launcher 'kubernetes': expected the program kubectl, found none in PATH; install it")
        words = [program]
        if options.kubeconfig is not None:
            words += ["--kubeconfig", str(Path(options.kubeconfig).expanduser())]
        if options.context is not None:
            words += ["--context", options.context]
        if options.namespace is not None:
            words += ["--namespace", options.namespace]
        self.words = tuple(words)

    def call(self, *arguments: str, stdin: str | None = None) -> str:
        """Standard output of a call; KubectlError if it fails or takes too long."""
        try:
            # In a session of its own, Ctrl-C in the terminal does not end a call that deletes the job.
            done = subprocess.run([*self.words, *arguments], input=stdin, stdin=None if stdin else subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace", timeout=CALL_SECONDS,
                                  start_new_session=True, check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise KubectlError(f"no answer within {CALL_SECONDS:.0f} s", refused=False) from None
        if done.returncode != 0:
            # left out are lines of kubectl's own log, such as `E1122 06:07:15.123456 4711 memcache.go:265] ...`
            lines = [
                line.strip()
                for line in done.stderr.splitlines()
                if line.strip() and not (line[:1] in "EWI" and line[1:5].isdecimal() and line[5:6] == " ")
            ]
            raise KubectlError("; ".join(lines[-2:])[:600] or f"exit code {done.returncode}")
        return done.stdout

    def get(self, *arguments: str) -> dict[str, Any]:
        """An object or a list of objects."""
        answer = json.loads(self.call("get", *arguments, "--output", "json"))
        if not isinstance(answer, dict):
            raise KubectlError(f"expected an object, found {type(answer).__name__}")
        return answer


INDEX = "batch.kubernetes.io/job-completion-index"
HOPELESS = {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
            "CreateContainerError", "RunContainerError", "CrashLoopBackOff"}  # fmt: skip
"""Reasons of waiting containers that end only when somebody changes the job or the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod of a job."""

    name: str
    index: int | None
    """Completion index: the rank of its node."""
    address: str | None
    """None until it has one."""
    host: str | None
    """Name of its host; None until it is scheduled."""
    running: bool
    """Its container runs."""
    failed: bool
    """It has ended, or will not start without help."""
    state: str
    """Phase or reason with message, such as `Unschedulable: 0/4 nodes are available`."""


def read_pod(item: Mapping[str, Any]) -> Pod:
    """A pod as the API gives it."""
    metadata, status = item["metadata"], item.get("status", {})
    index = {**metadata.get("annotations", {}), **metadata.get("labels", {})}.get(INDEX)
    phase = status.get("phase", "Pending")
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    reason, message = _reason(status, containers)
    deleted = "deletionTimestamp" in metadata
    started = all("running" in container.get("state", {}) for container in status.get("containerStatuses", ()))
    return Pod(
        name=metadata["name"],
        index=int(index) if index is not None and index.isdecimal() else None,
        address=status.get("podIP"),
        host=item.get("spec", {}).get("nodeName"),
        running=phase == "Running" and started and not deleted,
        failed=deleted or phase in ("Failed", "Succeeded") or reason in HOPELESS,
        state=_one_line(f"{reason}: {message}" if message else reason or ("Deleted" if deleted else phase)),
    )


def _reason(status: Mapping[str, Any], containers: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    if status.get("reason"):  # such as Evicted
        return status["reason"], status.get("message", "")
    for condition in status.get("conditions", ()):
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return condition.get("reason", "DisruptionTarget"), condition.get("message", "")
    for container in containers:
        for key in ("terminated", "waiting"):
            state = container.get("state", {}).get(key)
            if state and state.get("reason") not in ("ContainerCreating", "PodInitializing", "Completed"):
                code = f"exit code {state['exitCode']}" if "exitCode" in state else ""
                return state.get("reason") or key, state.get("message") or code
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("reason", "Unschedulable"), condition.get("message", "")
    return "", status.get("message", "")


def job_state(item: Mapping[str, Any]) -> str | None:
    """Reason why a TrainJob or JobSet does not run: failed, or suspended, for instance by a queue; None if it runs."""
    for condition in item.get("status", {}).get("conditions", ()):
        if condition.get("type") in ("Failed", "Suspended") and condition.get("status") == "True":
            return _one_line(f"{condition['type']}: {condition.get('reason', '')}: {condition.get('message', '')}")
    return "Suspended: it waits in its queue" if item.get("spec", {}).get("suspend") else None


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]
