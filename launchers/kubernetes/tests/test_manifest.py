from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from llmperf.errors import UserError
from llmperf_kubernetes.manifest import Object, as_yaml, device_number, job_objects
from llmperf_kubernetes.options import checked_options

CRDS = {"TrainJob": "trainjobs.trainer.kubeflow.org", "TrainingRuntime": "trainingruntimes.trainer.kubeflow.org",
        "JobSet": "jobsets.jobset.x-k8s.io"}  # fmt: skip
FULL = {
    "namespace": "benchmarks",
    "image_pull_policy": "Always",
    "image_pull_secrets": ["registry"],
    "device_resource": "nvidia.com/gpu",
    "resources": {"cpu": 64, "memory": "512Gi", "rdma/hca": 1},
    "shm": "64Gi",
    "volumes": [{"mount": "/data", "claim": "datasets", "read_only": True},
                {"mount": "/models", "host_path": "/srv/models"}, {"mount": "/scratch", "empty_dir": "100Gi"}],
    "node_selector": {"pool": "h800"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "host_network": True,
    "capabilities": ["IPC_LOCK"],
    "annotations": {"k8s.v1.cni.cncf.io/networks": "rdma"},
    "env": {"NCCL_IB_HCA": "mlx5"},
    "service_account": "bench",
    "priority_class": "high",
    "queue": "research",
}  # fmt: skip


def objects(kind, table):
    options = checked_options(table)
    text = as_yaml(job_objects("llmperf-1", kind, options, 2, device_number(options, 8), "llmperf:1"))
    return list(yaml.safe_load_all(text))


def schema(kind):
    """The published schema, which also refuses keys that an API server would silently drop."""
    crd = json.loads((Path(__file__).parent / "crds" / f"{CRDS[kind]}.json").read_text())
    (version,) = (version for version in crd["spec"]["versions"] if version["served"])
    closed(version["schema"]["openAPIV3Schema"])
    version["schema"]["openAPIV3Schema"]["properties"]["metadata"] = {"type": "object"}
    return crd["spec"]["group"] + "/" + version["name"], version["schema"]["openAPIV3Schema"]


def closed(part):
    if isinstance(part, list):
        for inner in part:
            closed(inner)
    elif isinstance(part, dict):
        if part.get("x-kubernetes-int-or-string"):
            part["type"] = ["integer", "string"]
        if isinstance(part.get("properties"), dict) and part.get("type") == "object":
            part.setdefault("additionalProperties", part.get("x-kubernetes-preserve-unknown-fields", False))
        for inner in part.values():
            closed(inner)


@pytest.mark.slow
@pytest.mark.parametrize("table", [{}, FULL], ids=["least", "full"])
@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
def test_the_published_schemas_accept_the_manifest(kind, table):
    made = objects(kind, table)
    assert [item["kind"] for item in made] == (["TrainingRuntime", "TrainJob"] if kind == "TrainJob" else ["JobSet"])
    for item in made:
        version, expected = schema(item["kind"])
        assert item["apiVersion"] == version
        jsonschema.Draft7Validator(expected).validate(item)


@pytest.mark.slow
def test_the_published_schema_refuses_a_key_that_does_not_exist():
    (item,) = objects("JobSet", {})
    item["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["tolerance"] = []
    with pytest.raises(jsonschema.ValidationError, match="tolerance"):
        jsonschema.Draft7Validator(schema("JobSet")[1]).validate(item)


def test_pods_ask_for_devices_rdma_and_folders():
    (item,) = objects("JobSet", FULL)
    job = item["spec"]["replicatedJobs"][0]["template"]["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["completions"], job["parallelism"], job["backoffLimit"]) == (2, 2, 0)
    assert container["resources"]["limits"] == {
        "cpu": "64", "memory": "512Gi", "rdma/hca": "1", "nvidia.com/gpu": "8",
    }  # fmt: skip
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/data", "/models", "/scratch", "/dev/shm"]
    assert container["volumeMounts"][0]["readOnly"]
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert item["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"


def pod_of(kind, table):
    item = objects(kind, table)[0]
    spec = item["spec"]["template"]["spec"] if kind == "TrainJob" else item["spec"]
    pod: Object = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
def test_pod_security_restricted_admits_the_pods(kind):
    """As https://kubernetes.io/docs/concepts/security/pod-security-standards/ lists its controls."""
    pod = pod_of(kind, {"shm": "8Gi", "volumes": [{"mount": "/data", "claim": "datasets"}]})
    (container,) = pod["containers"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert {key for volume in pod["volumes"] for key in volume} == {"name", "emptyDir", "persistentVolumeClaim"}


def test_an_image_may_need_another_user():
    assert pod_of("JobSet", {"run_as_user": 1000})["securityContext"]["runAsUser"] == 1000
    root = pod_of("JobSet", {"run_as_user": 0, "capabilities": ["IPC_LOCK"]})
    assert "securityContext" not in root
    assert root["containers"][0]["securityContext"] == {"runAsUser": 0, "capabilities": {"add": ["IPC_LOCK"]}}


def test_a_job_set_that_is_left_is_deleted_and_that_of_a_train_job_is_not_made_again():
    (item,) = objects("JobSet", {})
    assert item["spec"]["ttlSecondsAfterFinished"] == 3600
    assert "ttlSecondsAfterFinished" not in objects("TrainJob", {})[0]["spec"]["template"]["spec"]


def test_nodes_are_on_different_hosts_unless_the_user_says_otherwise():
    pods = [objects("JobSet", table)[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
            for table in ({}, {"share_hosts": True})]  # fmt: skip
    (term,) = pods[0]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert "affinity" not in pods[1]


def test_the_number_of_devices_must_be_known():
    options = checked_options({"device_resource": "nvidia.com/gpu"})
    assert device_number(options, 4) == 4
    with pytest.raises(UserError, match=r"--devices: expected the number of nvidia.com/gpu of each pod, found none"):
        device_number(options, None)
    assert device_number(checked_options({"device_resource": "nvidia.com/gpu", "devices_per_pod": 8}), None) == 8


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"tolerance": []}, "unknown key 'tolerance'; did you mean 'tolerations'"),
        ({"tolerations": [{"key": "a", "effects": "NoSchedule"}]}, "unknown key 'effects'; did you mean 'effect'"),
        ({"volumes": [{"mount": "/a", "claim": "b", "host_path": "/c"}]}, "expected one of claim, host_path"),
        ({"volumes": [{"mount": "a", "claim": "b"}]}, "expected an absolute path, found 'a'"),
        ({"resources": {"memory": "64 GB"}}, "resources.memory: expected an amount such as 8, '500m' or '64Gi'"),
        ({"resources": {"a b": 1}}, "expected names such as 'nvidia.com/gpu'"),
        ({"namespace": "Bench_1"}, "expected a name such as 'benchmarks', found 'Bench_1'"),
        ({"tolerations": [{"key": "a", "effect": "NoSchedul"}]}, "did you mean 'NoSchedule'"),
        ({"kind": "trainjob"}, "kind: unknown choice 'trainjob'; did you mean 'TrainJob'"),
        ({"devices_per_pod": 8}, "expected device_resource too"),
        ({"kubeconfig": "/no/file"}, "expected a file, found no /no/file"),
        ({"wait_minutes": 0}, "expected at least 1, found 0"),
    ],
)
def test_options_are_refused_with_the_place_and_what_was_expected(table, message):
    with pytest.raises(UserError, match=r"launchers\.kubernetes") as refused:
        checked_options(table)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
