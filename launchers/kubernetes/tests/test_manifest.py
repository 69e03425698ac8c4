import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import llmperf
import pytest
import yaml
from llmperf.errors import UserError
from llmperf.types import NodeCommand, NodeRequest, Submission
from llmperf_kubernetes import launcher as module
from llmperf_kubernetes.launcher import KubernetesLauncher
from llmperf_kubernetes.manifest import Object, as_yaml, device_number, job_objects
from llmperf_kubernetes.options import checked_options

CRDS = {"TrainJob": "trainjobs.trainer.kubeflow.org", "TrainingRuntime": "trainingruntimes.trainer.kubeflow.org",
        "JobSet": "jobsets.jobset.x-k8s.io"}  # fmt: skip
FULL = llmperf.read_toml(Path(__file__).with_name("options.toml"))


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
        ({"tolerations": [{"key": "a", "effect": "NoSchedul"}]}, "tolerations[0].effect: expected one of NoSchedule,"),
        ({"kind": "trainjob"}, "kind: expected one of TrainJob, JobSet, found 'trainjob'"),
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


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.set(installed=["trainjob", "jobset"])

    def set(self, **settings):
        (self.folder / "settings.json").write_text(json.dumps({"installed": ["jobset"], **settings}))

    @property
    def kinds(self):
        return sorted(path.stem.removeprefix("object-") for path in self.folder.glob("object-*.json"))

    @property
    def calls(self):
        return [json.loads(line) for line in (self.folder / "calls.jsonl").read_text().splitlines()]


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    double = Path(__file__).with_name("kubectl_double.py")
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{double}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("CLUSTER", str(tmp_path))
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LOOKS", 0.01)
    return Cluster(tmp_path)


def request(nodes=2, **options):
    return NodeRequest(nodes=nodes, devices=None, hosts=(), options={"image": "llmperf:1", **options})


@pytest.mark.slow
def test_commands_reach_the_pods_in_the_order_of_their_indexes(cluster):
    launcher = KubernetesLauncher()
    nodes = launcher.nodes(request())
    assert [node.address for node in nodes] == ["127.0.0.1", "127.0.0.2"]
    assert cluster.kinds == ["TrainJob", "TrainingRuntime"]
    program = "import os, sys; print(os.environ['LLMPERF_NODE_RANK'], sys.stdin.readline(), end=''); sys.exit(3)"
    given = [NodeCommand(node_rank=rank, host=node.host, argv=(sys.executable, "-c", program),
                         env={"LLMPERF_NODE_RANK": str(rank)}) for rank, node in enumerate(nodes)]  # fmt: skip
    for rank, command in enumerate(launcher.commands(given)):
        done = subprocess.run(command.argv, input="a line\n", capture_output=True, text=True, check=False)
        assert (done.stdout, done.returncode) == (f"{rank} a line\n", 3)
    launcher.close()
    launcher.close()
    assert cluster.kinds == []


@pytest.mark.slow
def test_a_jobset_is_created_where_no_trainjob_is_installed(cluster):
    cluster.set(installed=["jobset"])
    launcher = KubernetesLauncher()
    launcher.nodes(request(context="lab", namespace="bench"))
    assert cluster.kinds == ["JobSet"]
    command = NodeCommand(node_rank=0, host="pod-0", argv=("true",), env={})
    (process,) = launcher.commands([command])
    assert process.argv[1:] == ("--context", "lab", "--namespace", "bench",
                                *["exec", "--stdin", "--container", "node", "pod-0", "--", "env", "true"])  # fmt: skip
    launcher.close()
    cluster.set(installed=[])
    with pytest.raises(UserError, match="expected the kind TrainJob or JobSet in the cluster, found neither"):
        launcher.nodes(request())


@pytest.mark.slow
def test_a_pod_that_cannot_start_ends_the_wait_and_the_job(cluster):
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "llmperf:1"'}
    cluster.set(pod_status={"phase": "Pending", "containerStatuses": [{"state": {"waiting": waiting}}]})
    with pytest.raises(UserError, match=r'pod \S+ does not run: ImagePullBackOff: Back-off pulling image "llmperf:1"'):
        KubernetesLauncher().nodes(request())
    assert cluster.kinds == []


@pytest.mark.slow
def test_pods_without_a_host_are_shown_until_the_time_is_over(cluster, monkeypatch, capsys):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                 "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."}  # fmt: skip
    cluster.set(pod_status={"phase": "Pending", "conditions": [condition]})
    clock = iter(range(0, 1000, 25))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(UserError, match=r"expected 2 pods to run within 1 minutes .*, found 0: llmperf-\w+-node-0-1"):
        KubernetesLauncher().nodes(request(wait_minutes=1))
    shown = capsys.readouterr().err
    assert shown.count("0 of 2 pods run; ") == 1
    assert "Unschedulable: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu." in shown
    assert cluster.kinds == []


@pytest.mark.slow
def test_a_failed_job_and_an_exceeded_quota_are_named(cluster, monkeypatch):
    monkeypatch.setattr(module.secrets, "token_hex", lambda length: "1")
    event = {"message": "exceeded quota: gpus", "involvedObject": {"name": "llmperf-1-node-0"}}
    failed = {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": "jobset failed"}
    cluster.set(no_pods=True, events=[event], job_status={"conditions": [failed]})
    with pytest.raises(UserError, match="job llmperf-1: Failed: FailedJobs: jobset failed: exceeded quota: gpus"):
        KubernetesLauncher().nodes(request())
    assert cluster.kinds == []


@pytest.mark.slow
def test_an_interrupted_wait_deletes_the_job(cluster, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    cluster.set(no_pods=True)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=interrupt))
    with pytest.raises(KeyboardInterrupt):
        KubernetesLauncher().nodes(request())
    assert [call[0] for call in cluster.calls][-1] == "delete"
    assert cluster.kinds == []


def test_what_kubectl_refuses_is_one_line(cluster, monkeypatch):
    cluster.set(refused={"create": "Error from server (Forbidden): jobsets is forbidden"})
    with pytest.raises(UserError, match=r"kubectl create: Error from server \(Forbidden\): jobsets is forbidden$"):
        KubernetesLauncher().nodes(request())
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="expected the program kubectl, found none in PATH"):
        KubernetesLauncher().nodes(request())


def test_a_job_that_cannot_be_deleted_is_named(cluster, capsys):
    launcher = KubernetesLauncher()
    launcher.nodes(request())
    cluster.set(refused={"delete": "Unable to connect to the server"})
    launcher.close()
    shown = capsys.readouterr().err
    assert "was not deleted: Unable to connect to the server; delete it with: " in shown


@pytest.mark.slow
def test_a_pod_that_has_ended_during_the_run_is_named_with_the_reason(cluster, capsys):
    launcher = KubernetesLauncher()
    launcher.nodes(request(1))
    terminated = {"exitCode": 137, "reason": "OOMKilled"}
    cluster.set(pod_status={"phase": "Failed", "containerStatuses": [{"state": {"terminated": terminated}}]})
    launcher.close()
    assert "node-0-0-x0 on host host-0: OOMKilled: exit code 137\n" in capsys.readouterr().err
    cluster.set()
    launcher.nodes(request(1))
    cluster.set(pod_status={"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."})
    launcher.close()
    assert "on host host-0: Evicted: The node was low on memory.\n" in capsys.readouterr().err


def test_what_a_pod_says_does_not_control_the_terminal(cluster, capsys):
    launcher = KubernetesLauncher()
    launcher.nodes(request())
    cluster.set(pod_status={"phase": "Failed", "reason": "Error", "message": "\x1b]0;title\x07gone"})
    launcher.close()
    assert r"on host host-0: Error: \x1b]0;title\x07gone" in capsys.readouterr().err


def test_the_preview_is_a_manifest_even_without_a_cluster(cluster, monkeypatch):
    submission = Submission(command=("run", "tiny", "--label=\x1b[2J"), request=request(nodes=4), out="/runs")
    monkeypatch.setenv("PATH", "/nowhere")
    text = KubernetesLauncher().preview(submission)
    assert text.startswith("# llmperf run tiny --label=\\x1b[2J\n# 4 pods")
    assert [item["kind"] for item in yaml.safe_load_all(text)] == ["TrainingRuntime", "TrainJob"]


def test_an_image_is_needed_and_hosts_are_the_clusters_choice():
    with pytest.raises(UserError, match="image: expected a container image with llmperf, found none"):
        KubernetesLauncher().nodes(NodeRequest(nodes=1, devices=None, hosts=(), options={}))
    with pytest.raises(UserError, match="--hosts a: launcher 'kubernetes' lets the cluster choose"):
        KubernetesLauncher().nodes(NodeRequest(nodes=1, devices=None, hosts=("a",), options={"image": "x"}))


def test_a_dry_run_prints_the_manifest_with_the_image_of_the_command_line(cluster, monkeypatch, ran):
    monkeypatch.chdir(cluster.folder)
    words = ["run", "--launcher", "kubernetes", "--container-image", "mine:2", "--set", "tuning.nodes=3", "--dry-run"]
    runtime, job = yaml.safe_load_all(ran(0, *words).out)
    pod = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert (pod["containers"][0]["image"], job["spec"]["trainer"]["numNodes"]) == ("mine:2", 3)
    assert cluster.kinds == []
