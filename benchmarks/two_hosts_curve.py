"""Two hosts with two ranks each learn what one host with four ranks learns, under every framework.

The hosts are namespaces of this machine with an SSH server each (`llmperf_testing.hosts`). Needs root, iproute2 and
OpenSSH.

    uv run python benchmarks/two_hosts_curve.py
    uv run python benchmarks/two_hosts_curve.py --only paddle
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from llmperf_testing import hosts as namespaces
from llmperf_testing import ssh_servers

CONTRACT = ("model=llama_tiny", "seq_len=64", "global_batch=8", "precision=fp32", "steps=10", "warmup_steps=2")
RUNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "pytorch": ("pytorch", CONTRACT),
    "zero": ("zero", (*CONTRACT, "sharding_stage=1")),
    "zero3": ("zero", (*CONTRACT, "sharding_stage=3")),
    "megatron_deepspeed": ("megatron_deepspeed", (*CONTRACT, "tensor_parallel=2")),
    "megatron_deepspeed_pp": ("megatron_deepspeed", (*CONTRACT, "tensor_parallel=2", "pipeline_parallel=2")),
    "lora": ("lora", CONTRACT),
    "paddle": ("paddle", (*CONTRACT, "tensor_parallel=2")),
}
"""Framework and settings by the name of the pair of runs."""
LARGEST_DIFFERENCE = 1e-3
"""In nats, as between frameworks."""


def train(words: list[str], hosts: namespaces.Hosts, folder: Path, error: Path) -> dict[str, Any]:
    """The result of a run that is started on the controller of the hosts."""
    command = [sys.executable, "-P", "-m", "llmperf", "run", "default", "--vendor", "cpu", *words, "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        hosts.controller.argv(*command, cwd=folder), env=environment, capture_output=True, text=True, timeout=600
    )
    error.write_text(done.stderr)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    result: dict[str, Any] = json.loads(done.stdout)["result"]
    return result


def losses(result: dict[str, Any]) -> list[float]:
    """The loss of each step."""
    return [point["loss"] for point in result["loss_curve"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(RUNS))
    parser.add_argument("--keep", type=Path, help="folder for the run folders; by default they are deleted")
    options = parser.parse_args()
    reason = namespaces.missing() or ssh_servers.missing()
    if reason is not None:
        parser.error(reason)
    print("| Framework | Largest difference, nats | One host, s | Two hosts, s |\n|---|---|---|---|", flush=True)
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        with namespaces.Hosts(folder / "hosts", count=2, own_names_are_local=True) as hosts:
            servers = ssh_servers.SshServers(hosts)
            (folder / "llmperf.toml").write_text(
                f'[launchers.ssh]\nconfig = "{servers.config}"\nenv = {{OMP_NUM_THREADS = "1"}}\n'
            )
            for name in options.only or RUNS:
                framework, settings = RUNS[name]
                words = ["--framework", framework, *(word for one in settings for word in ("--set", one))]
                started = time.monotonic()
                one = train([*words, "--devices", "4"], hosts, folder, folder / f"{name}-1.txt")
                middle = time.monotonic()
                across = ["--devices", "2", "--launcher", "ssh", "--hosts", "node1,node2"]
                two = train([*words, *across], hosts, folder, folder / f"{name}-2.txt")
                ended = time.monotonic()
                apart = max(abs(a - b) for a, b in zip(losses(one), losses(two), strict=True))
                worst = max(worst, apart)
                print(f"| {name} | {apart:.1e} | {middle - started:.0f} | {ended - middle:.0f} |", flush=True)
    return 0 if worst <= LARGEST_DIFFERENCE else 1


if __name__ == "__main__":
    sys.exit(main())
