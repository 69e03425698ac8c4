"""The launcher `kubernetes`: pods of a job that llmperf creates, and `kubectl exec` into them."""

from __future__ import annotations

import atexit
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from llmperf import printable
from llmperf.errors import UserError
from llmperf.types import Node, NodeCommand, NodeRequest, Submission

from llmperf_kubernetes.kubectl import Kubectl, KubectlError, Pod, job_state, read_pod
from llmperf_kubernetes.manifest import CONTAINER, INSTANCE, Object, as_yaml, device_number, job_objects
from llmperf_kubernetes.options import WHERE, Kind, Options, checked_options

SECONDS_BETWEEN_LOOKS = 2.0
GROUPS: tuple[tuple[Kind, str], ...] = (("TrainJob", "trainer.kubeflow.org"), ("JobSet", "jobset.x-k8s.io"))
"""Kinds of jobs with the group of their API, the preferred one first."""


class KubernetesLauncher:
    """Creates a job whose pods are the nodes of a run, and deletes it at the end."""

    name = "kubernetes"
    starts_containers = True

    def __init__(self) -> None:
        self._kubectl: Kubectl | None = None
        self._job = ""
        self._created: list[str] = []

    def nodes(self, request: NodeRequest) -> Sequence[Node]:
        """The pods of a new job, once all run; else it is deleted: UserError with the state of each pod."""
        options = _checked(request)
        devices = device_number(options, request.devices)
        self._kubectl = Kubectl(options)
        kind = options.kind or self._installed_kind()
        self._job = f"llmperf-{secrets.token_hex(4)}"
        objects = job_objects(self._job, kind, options, request.nodes, devices, _image(request, options))
        atexit.register(self.close)
        try:
            for item in objects:
                resource = f"{item['kind'].lower()}.{item['apiVersion'].partition('/')[0]}/{self._job}"
                self._created.insert(0, resource)  # before the call, which may be interrupted
                try:
                    self._kubectl.call("create", "--filename", "-", stdin=as_yaml([item]))
                except KubectlError as error:
                    if error.refused:
                        self._created.remove(resource)
                    raise UserError(f"launcher 'kubernetes': kubectl create: {error}") from None
            _say(f"kubernetes: created {kind} {self._job}; waiting for {request.nodes} pods")
            pods = self._running(request.nodes, options.wait_minutes * 60)
        except BaseException:
            self.close()
            raise
        return [Node(host=pod.name, address=pod.address or "") for pod in pods]

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """`kubectl exec -i POD -- env NAME=VALUE ... COMMAND` for each node."""
        if self._kubectl is None:
            raise UserError("launcher 'kubernetes': this process has not created the pods; plan the run again")
        exec_words = (*self._kubectl.words, "exec", "--stdin", "--container", CONTAINER)
        commands = []
        for node in nodes:
            variables = (f"{name}={value}" for name, value in node.env.items())
            argv = (*exec_words, node.host, "--", "env", *variables, *node.argv)
            commands.append(replace(node, argv=argv, env={}))
        return commands

    def hand_over(self, submission: Submission, say: Callable[[str], None]) -> int | None:
        """None: this process controls the run; only its nodes are pods."""
        return None

    def preview(self, submission: Submission) -> str | None:
        """The manifest as YAML, which `kubectl create` takes."""
        request = submission.request
        options = _checked(request)
        devices = device_number(options, request.devices)
        kind = options.kind
        why = f"{WHERE}.kind"
        if kind is None:
            try:
                self._kubectl = Kubectl(options)
                kind, why = self._installed_kind(), "it is installed in the cluster"
            except UserError as error:
                kind, why = "TrainJob", f"the default; the cluster was not asked: {error}"
        name = f"llmperf-{secrets.token_hex(4)}"
        namespace = f"--namespace {options.namespace} " if options.namespace else ""
        lines = [
            f"llmperf {' '.join(submission.command)}",
            f"{request.nodes} pods, each a node of the run. Kind {kind}: {why}.",
            f"The pods wait for commands of llmperf and end by themselves {options.wait_minutes + options.idle_minutes}"
            " minutes after their start if none comes.",
            f"By hand: kubectl {namespace}create -f FILE; "
            f"kubectl {namespace}delete {kind.lower()}{',trainingruntime' * (kind == 'TrainJob')} {name}",
        ]
        objects = job_objects(name, kind, options, request.nodes, devices, _image(request, options))
        comments = "".join(f"# {printable(' '.join(line.split()))}\n" for line in lines)
        return comments + as_yaml(objects)

    def close(self) -> None:
        """Delete the job, whose pods get SIGTERM. Pods that have ended before are named with the reason."""
        created, self._created = self._created, []
        if not created or self._kubectl is None:
            return
        with suppress(UserError):
            for pod in self._pods():
                if pod.failed:
                    _say(f"kubernetes: pod {pod.name} on host {pod.host}: {pod.state}")
        try:
            self._kubectl.call("delete", "--ignore-not-found", "--wait=false", *created)
        except KubectlError as error:
            words = " ".join([*self._kubectl.words, "delete", *created])
            _say(f"kubernetes: job {self._job} was not deleted: {error}; delete it with: {words}")

    def _installed_kind(self) -> Kind:
        assert self._kubectl is not None
        for kind, group in GROUPS:
            try:
                names = self._kubectl.call("api-resources", "--api-group", group, "--output", "name").split()
            except KubectlError as error:
                raise UserError(f"launcher 'kubernetes': kubectl api-resources: {error}") from None
            if f"{kind.lower()}s.{group}" in names:
                return kind
        raise UserError("launcher 'kubernetes': expected the kind TrainJob or JobSet in the cluster, found neither; "
                        "install Kubeflow Trainer or JobSet there")  # fmt: skip

    def _running(self, nodes: int, wait_seconds: float) -> list[Pod]:
        deadline = time.monotonic() + wait_seconds
        shown = ""
        while True:
            pods = self._pods()
            running = sorted((pod for pod in pods if pod.running and pod.address), key=lambda pod: pod.index or 0)
            if [pod.index for pod in running] == list(range(nodes)):
                _say(f"kubernetes: {nodes} of {nodes} pods run")
                return running
            state = self._waiting_for(pods, nodes)
            ended = next((pod for pod in pods if pod.failed), None)
            if ended is not None:
                raise UserError(f"launcher 'kubernetes': pod {ended.name} does not run: {ended.state}")
            if time.monotonic() > deadline:
                raise UserError(f"launcher 'kubernetes': expected {nodes} pods to run within {wait_seconds / 60:.0f} "
                                f"minutes ({WHERE}.wait_minutes), found {len(running)}: {state}")  # fmt: skip
            if state != shown:
                _say(f"kubernetes: {len(running)} of {nodes} pods run; {state}")
                shown = state
            time.sleep(SECONDS_BETWEEN_LOOKS)

    def _pods(self) -> list[Pod]:
        answer = self._get("pods", "--selector", f"{INSTANCE}={self._job}")
        return [read_pod(item) for item in answer["items"]]

    def _waiting_for(self, pods: Sequence[Pod], nodes: int) -> str:
        waiting = [f"{pod.name}: {pod.state}" for pod in pods if not pod.running]
        if len(pods) < nodes:
            state = job_state(self._get(self._created[0]))
            if state is not None and state.startswith("Failed"):
                raise UserError(f"launcher 'kubernetes': job {self._job}: {state}{self._warning()}")
            waiting.append(state or f"pods not created yet: {nodes - len(pods)}{self._warning()}")
        more = f" (and {len(waiting) - 3} more)" * (len(waiting) > 3)
        return "; ".join(waiting[:3]) + more

    def _warning(self) -> str:
        """The last warning among the events of the job, such as an exceeded quota; empty if there is none."""
        try:
            events = self._get("events", "--field-selector", "type=Warning", "--sort-by", ".metadata.creationTimestamp")
        except UserError:  # events may be forbidden to the user
            return ""
        messages = [event.get("message", "") for event in events["items"]
                    if event.get("involvedObject", {}).get("name", "").startswith(self._job)]  # fmt: skip
        return f": {' '.join(messages[-1].split())[:300]}" if messages else ""

    def _get(self, *arguments: str) -> Object:
        assert self._kubectl is not None
        try:
            return self._kubectl.get(*arguments)
        except KubectlError as error:
            raise UserError(f"launcher 'kubernetes': kubectl get {arguments[0]}: {error}") from None


def _checked(request: NodeRequest) -> Options:
    if request.hosts:
        raise UserError(f"--hosts {','.join(request.hosts)}: launcher 'kubernetes' lets the cluster choose; "
                        f"use {WHERE}.node_selector")  # fmt: skip
    options = checked_options(request.options)
    _image(request, options)
    return options


def _image(request: NodeRequest, options: Options) -> str:
    image = request.image or options.image
    if image is None:
        raise UserError(f"{WHERE}.image: expected a container image with llmperf, found none; "
                        "set it in llmperf.toml or give --container-image")  # fmt: skip
    return image


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)
