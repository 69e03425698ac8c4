"""A double of kubectl for tests: it keeps objects in files, gives a job its pods at once, and runs `exec` here.

The folder `CLUSTER` holds `settings.json`, which a test writes, `calls.jsonl` and one file for each object.
"""

import json
import os
import sys
from pathlib import Path

import yaml

CLUSTER = Path(os.environ["CLUSTER"])
SETTINGS = json.loads((CLUSTER / "settings.json").read_text())
GROUPS = {"trainer.kubeflow.org": "trainjob", "jobset.x-k8s.io": "jobset"}


def pods(job):
    """The pods of a job, as an API server gives them."""
    spec = job["spec"]["template"]["spec"] if job["kind"] == "TrainingRuntime" else job["spec"]
    number = spec["replicatedJobs"][0]["template"]["spec"]["completions"]
    name = job["metadata"]["name"]
    return [
        {
            "metadata": {
                "name": f"{name}-node-0-{index}-x{index}",
                "labels": {
                    "app.kubernetes.io/instance": name, "batch.kubernetes.io/job-completion-index": str(index),
                },
            },
            "spec": {"nodeName": f"host-{index}"},
            "status": SETTINGS.get("pod_status") or {
                "phase": "Running", "podIP": f"127.0.0.{index + 1}",
                "containerStatuses": [{"name": "node", "state": {"running": {}}}],
            },
        }
        for index in reversed(range(number))
    ]  # fmt: skip


def objects():
    return [json.loads(path.read_text()) for path in sorted(CLUSTER.glob("object-*.json"))]


def get(kind, name):
    if kind == "pods":
        jobs = [item for item in objects() if item["kind"] != "TrainJob" and not SETTINGS.get("no_pods")]
        return {"items": [pod for job in jobs for pod in pods(job)]}
    if kind == "events":
        return {"items": SETTINGS.get("events", [])}
    (item,) = (item for item in objects() if item["kind"].lower() == kind and item["metadata"]["name"] == name)
    return item | {"status": SETTINGS.get("job_status", {})}


def main(words):
    while words[0].startswith("--"):
        words = words[2:]
    with (CLUSTER / "calls.jsonl").open("a") as log:
        log.write(json.dumps(words) + "\n")
    verb, rest = words[0], words[1:]
    if verb in SETTINGS.get("refused", {}):
        sys.exit(SETTINGS["refused"][verb])
    if verb == "api-resources":
        group = rest[rest.index("--api-group") + 1]
        print(f"{GROUPS[group]}s.{group}" if GROUPS[group] in SETTINGS["installed"] else "")
    elif verb == "create":
        for item in yaml.safe_load_all(sys.stdin):
            (CLUSTER / f"object-{item['kind']}.json").write_text(json.dumps(item))
    elif verb == "get":
        kind, _, name = rest[0].partition("/")
        print(json.dumps(get(kind.partition(".")[0], name or None)))
    elif verb == "exec":
        command = rest[rest.index("--") + 1 :]
        os.execvp(command[0], command)
    elif verb == "delete":
        for word in rest:
            if not word.startswith("--"):
                kind, _, name = word.partition("/")
                found = [item["kind"] for item in objects() if item["kind"].lower() == kind.partition(".")[0]]
                (CLUSTER / f"object-{found[0]}.json").unlink()


main(sys.argv[1:])
