"""The table `[launchers.kubernetes]` of `llmperf.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from llmperf import read_options
from llmperf.errors import UserError
from llmperf.types.units import Count, Positive

WHERE = "launchers.kubernetes"
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

Kind: TypeAlias = Literal["TrainJob", "JobSet"]
Pull: TypeAlias = Literal["Always", "IfNotPresent", "Never"]
Operator: TypeAlias = Literal["Exists", "Equal"]
Effect: TypeAlias = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A folder of each pod: exactly one of `claim`, `host_path` and `empty_dir`."""

    mount: str
    """Absolute path in the pod."""
    claim: str | None = None
    """Name of a PersistentVolumeClaim."""
    host_path: str | None = None
    """Absolute path on the host of the pod."""
    empty_dir: str | None = None
    """Size of a folder that lives as long as the pod, such as `100Gi`."""
    read_only: bool = False
    """The pod may only read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """A taint of hosts that the pods accept, in the terms of Kubernetes."""

    key: str | None = None
    """Key of the taint; None for every key, with the operator `Exists`."""
    operator: Operator = "Equal"
    """`Exists` accepts every value."""
    value: str | None = None
    """Value of the taint."""
    effect: Effect | None = None
    """None for every effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Cluster of the pods, and resources of each pod. One pod is one node of a run."""

    context: str | None = None
    """Context of the kubeconfig; the current one by default."""
    kubeconfig: str | None = None
    """Path of the kubeconfig; that of kubectl by default."""
    namespace: str | None = None
    """Namespace of the job; that of the context by default."""
    kind: Kind | None = None
    """Kind of the job; by default a TrainJob, or a JobSet where the cluster has no TrainJob."""
    image: str | None = None
    """Image with llmperf, its plugins and `llmperf-kubernetes`; `--container-image` replaces it."""
    image_pull_policy: Pull | None = None
    """When the image is pulled; as the cluster does by default."""
    image_pull_secrets: tuple[str, ...] = ()
    """Secrets with the credentials of the image's registry."""
    python: str = "python"
    """Python of the image that runs the command which keeps a pod alive."""
    device_resource: str | None = None
    """Name of the devices as a resource, such as `nvidia.com/gpu`; None if pods need not ask for devices."""
    devices_per_pod: Positive | None = None
    """Devices of each pod for runs without `--devices`."""
    resources: Mapping[str, str | int] = field(default_factory=dict)
    """Other resources of each pod, as request and limit, such as `{ cpu = 64, memory = "512Gi", "rdma/hca" = 1 }`."""
    shm: str | None = None
    """Size of `/dev/shm`, such as `64Gi`; 64 MiB or what the cluster gives by default."""
    volumes: tuple[Volume, ...] = ()
    """Further folders of the pods."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that the hosts of the pods must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints of hosts that the pods accept."""
    share_hosts: bool = False
    """Several pods may run on one host. They are nodes of a run, so each has a host of its own by default."""
    host_network: bool = False
    """The pods use the network of their hosts."""
    run_as_user: Count | None = None
    """User id of the pods, for an image whose user is a name or root; 0 is root, which Pod Security `restricted`
    refuses. By default that of the image, which must be a number other than 0."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities of the container, such as `IPC_LOCK` for RDMA."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the pods, such as `k8s.v1.cni.cncf.io/networks`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the pods."""
    service_account: str | None = None
    """Service account of the pods; without one they get no credentials of the cluster."""
    priority_class: str | None = None
    """Priority class of the pods."""
    queue: str | None = None
    """Local queue of Kueue."""
    wait_minutes: Positive = 30
    """Time for all pods to start, in the queue and pulling the image included."""
    idle_minutes: Positive = 10
    """A pod ends itself after this time without a command from llmperf, for instance because its machine has died."""


def checked_options(table: Mapping[str, Any]) -> Options:
    """The options of a table; UserError that names the key, what was expected and what was found."""
    options = read_options(table, Options, WHERE)
    if options.kubeconfig is not None and not Path(options.kubeconfig).expanduser().is_file():
        raise UserError(f"{WHERE}.kubeconfig: expected a file, found no {options.kubeconfig}")
    if options.namespace is not None and not _LABEL.fullmatch(options.namespace):
        raise UserError(f"{WHERE}.namespace: expected a name such as 'benchmarks', found {options.namespace!r}")
    for name in options.env:
        if not _VARIABLE.fullmatch(name):
            raise UserError(f"{WHERE}.env: expected names of environment variables, found {name!r}")
    named = {*options.resources} | ({options.device_resource} if options.device_resource is not None else set())
    for name in sorted(named):
        if not _RESOURCE.fullmatch(name):
            raise UserError(f"{WHERE}.resources: expected names such as 'nvidia.com/gpu' or 'memory', found {name!r}")
    for name, amount in options.resources.items():
        if name == options.device_resource:
            raise UserError(f"{WHERE}.resources.{name}: is the device resource; its number is --devices")
        _check_quantity(str(amount), f"{WHERE}.resources.{name}")
    if options.shm is not None:
        _check_quantity(options.shm, f"{WHERE}.shm")
    if options.devices_per_pod is not None and options.device_resource is None:
        raise UserError(f"{WHERE}.devices_per_pod: expected device_resource too, such as 'nvidia.com/gpu', found none")
    for place, volume in enumerate(options.volumes, 1):
        where = f"{WHERE}.volumes, number {place}"
        sources = [key for key in ("claim", "host_path", "empty_dir") if getattr(volume, key) is not None]
        if len(sources) != 1:
            listed = " and ".join(sources) or "none"
            raise UserError(f"{where}: expected one of claim, host_path and empty_dir, found {listed}")
        for key in ("mount", "host_path"):
            path = getattr(volume, key)
            if path is not None and not path.startswith("/"):
                raise UserError(f"{where}.{key}: expected an absolute path, found {path!r}")
        if volume.empty_dir is not None:
            _check_quantity(volume.empty_dir, f"{where}.empty_dir")
    mounts = [volume.mount for volume in options.volumes] + ["/dev/shm"] * (options.shm is not None)
    if repeated := next((mount for mount in mounts if mounts.count(mount) > 1), None):
        raise UserError(f"{WHERE}.volumes: {repeated} is mounted twice")
    return options


def _check_quantity(text: str, where: str) -> None:
    if not _QUANTITY.fullmatch(text):
        raise UserError(f"{where}: expected an amount such as 8, '500m' or '64Gi', found {text!r}")
