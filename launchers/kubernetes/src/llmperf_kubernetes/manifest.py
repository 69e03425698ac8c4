"""The job of a run as Kubernetes objects: a TrainJob with its TrainingRuntime, or a JobSet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from llmperf.errors import UserError

from llmperf_kubernetes.options import WHERE, Kind, Options, Volume

TRAINER_API = "trainer.kubeflow.org/v1alpha1"
JOBSET_API = "jobset.x-k8s.io/v1alpha2"
CONTAINER = "node"
"""Kubeflow Trainer asks for this name of the container that trains."""
INSTANCE = "app.kubernetes.io/instance"
"""The label of a job's objects and pods whose value is the job's name."""
TTL_SECONDS = 3600
"""Time after which a JobSet that has ended is deleted, if llmperf could not do it. TrainJobs get none: from 2.1 on,
Kubeflow Trainer makes a failed JobSet that has gone once more."""
MANAGED_BY = {"app.kubernetes.io/managed-by": "llmperf"}

Object: TypeAlias = dict[str, Any]


def job_objects(name: str, kind: Kind, options: Options, nodes: int, devices: int | None, image: str) -> list[Object]:
    """The objects of a job with one pod for each node, in the order in which they are created."""
    labels = {**MANAGED_BY, INSTANCE: name}
    queue = {} if options.queue is None else {"kueue.x-k8s.io/queue-name": options.queue}
    spec: Object = {"replicatedJobs": [_replicated_job(name, options, nodes, devices, image)]}
    if kind == "JobSet":
        spec["ttlSecondsAfterFinished"] = TTL_SECONDS
        return [_typed({
            "apiVersion": JOBSET_API, "kind": "JobSet", "metadata": {"name": name, "labels": labels | queue},
            "spec": spec,
        })]  # fmt: skip
    return [
        _typed({
            "apiVersion": TRAINER_API, "kind": "TrainingRuntime", "metadata": {"name": name, "labels": labels},
            "spec": {"mlPolicy": {"numNodes": nodes}, "template": {"spec": spec}},
        }),
        _typed({
            "apiVersion": TRAINER_API, "kind": "TrainJob", "metadata": {"name": name, "labels": labels | queue},
            "spec": {
                "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": name},
                "trainer": {"numNodes": nodes},
            },
        }),
    ]  # fmt: skip


def device_number(options: Options, devices: int | None) -> int | None:
    """Devices that each pod asks for; UserError if neither the command nor the options have the number."""
    if options.device_resource is None:
        return None
    number = devices or options.devices_per_pod
    if number is None:
        raise UserError(f"--devices: expected the number of {options.device_resource} of each pod, found none; "
                        f"give it, or set {WHERE}.devices_per_pod")  # fmt: skip
    return number


def as_yaml(objects: Sequence[Object]) -> str:
    """The objects as one YAML document each, without aliases."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    text: str = yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, width=120, explicit_start=True)
    return text


def _replicated_job(name: str, options: Options, nodes: int, devices: int | None, image: str) -> Object:
    """The only replicated job: one pod for each node, with completion indexes from 0, and no second try."""
    metadata: Object = {"labels": {**MANAGED_BY, INSTANCE: name}}
    if options.annotations:
        metadata["annotations"] = dict(options.annotations)
    return {
        "name": CONTAINER,
        "replicas": 1,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {
                "parallelism": nodes,
                "completions": nodes,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "template": {"metadata": metadata, "spec": _pod_spec(name, options, devices, image)},
            },
        },
    }


def _pod_spec(name: str, options: Options, devices: int | None, image: str) -> Object:
    pod: Object = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 10}
    if options.service_account is None:
        pod["automountServiceAccountToken"] = False
    else:
        pod["serviceAccountName"] = options.service_account
    if options.priority_class is not None:
        pod["priorityClassName"] = options.priority_class
    if options.host_network:
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if options.run_as_user != 0:
        user = _without_none({"runAsUser": options.run_as_user})
        pod["securityContext"] = {"runAsNonRoot": True, **user, "seccompProfile": {"type": "RuntimeDefault"}}
    if options.node_selector:
        pod["nodeSelector"] = dict(options.node_selector)
    if not options.share_hosts:
        term = {"labelSelector": {"matchLabels": {INSTANCE: name}}, "topologyKey": "kubernetes.io/hostname"}
        pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if options.tolerations:
        keys = ("key", "operator", "value", "effect")
        pod["tolerations"] = [_without_none({key: getattr(toleration, key) for key in keys})
                              for toleration in options.tolerations]  # fmt: skip
    if options.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": secret} for secret in options.image_pull_secrets]
    pod["containers"] = [_container(options, devices, image)]
    volumes = [{"name": f"volume-{place}", **_volume_source(volume)} for place, volume in enumerate(options.volumes)]
    if options.shm is not None:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": options.shm}})
    if volumes:
        pod["volumes"] = volumes
    return pod


def _container(options: Options, devices: int | None, image: str) -> Object:
    holder = ["-m", "llmperf_kubernetes.holder", "--wait-minutes", str(options.wait_minutes)]
    container: Object = {
        "name": CONTAINER,
        "image": image,
        "command": [options.python, *holder, "--idle-minutes", str(options.idle_minutes)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if options.image_pull_policy is not None:
        container["imagePullPolicy"] = options.image_pull_policy
    if options.env:
        container["env"] = [{"name": key, "value": value} for key, value in options.env.items()]
    resources = {key: str(amount) for key, amount in options.resources.items()}
    if options.device_resource is not None and devices is not None:
        resources[options.device_resource] = str(devices)
    if resources:
        container["resources"] = {"requests": resources, "limits": resources}
    if context := _container_security(options):
        container["securityContext"] = context
    mounts = [_without_none({"name": f"volume-{place}", "mountPath": volume.mount,
                             "readOnly": volume.read_only or None})
              for place, volume in enumerate(options.volumes)]  # fmt: skip
    if options.shm is not None:
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})
    if mounts:
        container["volumeMounts"] = mounts
    return container


def _container_security(options: Options) -> Object:
    """Security context for Pod Security `restricted`, unless the user wants root, with the user's capabilities."""
    added = {"add": list(options.capabilities)} if options.capabilities else {}
    if options.run_as_user == 0:
        return {"runAsUser": 0, **({"capabilities": added} if added else {})}
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], **added}}


def _volume_source(volume: Volume) -> Object:
    if volume.claim is not None:
        return {"persistentVolumeClaim": {"claimName": volume.claim}}
    if volume.host_path is not None:
        return {"hostPath": {"path": volume.host_path}}
    return {"emptyDir": {"sizeLimit": volume.empty_dir}}


def _without_none(table: Mapping[str, Any]) -> Object:
    return {key: value for key, value in table.items() if value is not None}


def _typed(manifest: Object) -> Object:
    """The same manifest, once the typed model of its kind has accepted every key and value; otherwise UserError."""
    from kubeflow_trainer_api import models
    from pydantic import ValidationError

    model: Any = {
        "JobSet": models.JobsetV1alpha2JobSet,
        "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime,
        "TrainJob": models.TrainerV1alpha1TrainJob,
    }[manifest["kind"]]
    try:
        read = model.from_dict(manifest).to_dict()
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{WHERE}: {manifest['kind']}: {place}: {first['msg']}, found {first['input']!r}") from None
    if read != manifest:
        raise AssertionError(f"{manifest['kind']}: the model of kubeflow-trainer-api lost a key of {manifest}")
    return manifest
