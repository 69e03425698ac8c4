"""Several hosts, namespaces of this machine, learn what one host with as many ranks learns, under every framework.

./dev python benchmarks/cluster_curves.py      # --only paddle; needs root, iproute2 and OpenSSH
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
from typing import Any, NamedTuple

from llmperf_testing import hosts as namespaces
from llmperf_testing import ssh_servers


class Pair(NamedTuple):
    """A run on several hosts, and the same ranks on one host."""

    framework: str
    settings: tuple[str, ...] = ()
    hosts: int = 2
    devices: int = 2
    """Ranks on each host."""
    case: str = "default"


CONTRACT = ("model=llama_tiny", "seq_len=64", "global_batch=8", "precision=fp32", "steps=10", "warmup_steps=2")
PAIRS = {
    "pytorch": Pair("pytorch", CONTRACT),
    "zero": Pair("zero", (*CONTRACT, "sharding_stage=1")),
    "zero3": Pair("zero", (*CONTRACT, "sharding_stage=3")),
    "megatron_deepspeed": Pair("megatron_deepspeed", (*CONTRACT, "tensor_parallel=2")),
    "megatron_deepspeed_pp": Pair("megatron_deepspeed", (*CONTRACT, "tensor_parallel=2", "pipeline_parallel=2")),
    "lora": Pair("lora", (*CONTRACT, "contract.lora.rank=8")),
    "paddle": Pair("paddle", (*CONTRACT, "tensor_parallel=2")),
    "baichuan2_13b_pretrain_zero": Pair("zero", ("model=llama_tiny",), case="baichuan2_13b_pretrain_zero"),
    "three_hosts": Pair("pytorch", (*CONTRACT, "global_batch=6"), hosts=3, devices=1),
}
"""By the name of the pair."""
LARGEST_DIFFERENCE = 1e-3
"""In nats, as between frameworks."""


def train(words: list[str], hosts: namespaces.Hosts, folder: Path, error: Path) -> dict[str, Any]:
    """The result of a run that is started on the controller of the hosts."""
    command = [sys.executable, "-P", "-m", "llmperf", "run", *words, "--vendor", "cpu", "--json"]
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
    parser.add_argument("--only", action="append", choices=list(PAIRS))
    parser.add_argument("--devices", type=int, help="ranks on each host, instead of those of the pair")
    parser.add_argument("--keep", type=Path, help="folder for the run folders; by default they are deleted")
    options = parser.parse_args()
    reason = namespaces.missing() or ssh_servers.missing()
    if reason is not None:
        parser.error(reason)
    print("| Run | Largest difference, nats | One host, s | Several hosts, s |\n|---|---|---|---|", flush=True)
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        with namespaces.Hosts(folder / "hosts", count=3, own_names_are_local=True) as hosts:
            servers = ssh_servers.SshServers(hosts)
            (folder / "llmperf.toml").write_text(
                f'[launchers.ssh]\nconfig = "{servers.config}"\nenv = {{OMP_NUM_THREADS = "1"}}\n'
            )
            for name in options.only or PAIRS:
                pair = PAIRS[name] if options.devices is None else PAIRS[name]._replace(devices=options.devices)
                words = [pair.case, "--framework", pair.framework]
                words += [word for setting in pair.settings for word in ("--set", setting)]
                started = time.monotonic()
                together = ["--set", "nodes=1", "--devices", str(pair.hosts * pair.devices)]
                one = train([*words, *together], hosts, folder, folder / f"{name}-1.txt")
                middle = time.monotonic()
                names = ",".join(node.name for node in hosts.nodes[: pair.hosts])
                across = ["--devices", str(pair.devices), "--launcher", "ssh", "--hosts", names]
                two = train([*words, *across], hosts, folder, folder / f"{name}-2.txt")
                ended = time.monotonic()
                apart = max(abs(a - b) for a, b in zip(losses(one), losses(two), strict=True))
                worst = max(worst, apart)
                print(f"| {name} | {apart:.1e} | {middle - started:.0f} | {ended - middle:.0f} |", flush=True)
    return 0 if worst <= LARGEST_DIFFERENCE else 1


if __name__ == "__main__":
    sys.exit(main())
