"""The state of a job's pods, and why they do not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
