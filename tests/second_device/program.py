"""A rank that trains tasks on its own device of the type `accel`: losses, and what the device counted in each step."""

import json
import os
import sys
from pathlib import Path

import rank_program as program

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
LAG_MILLISECONDS, LATE_MILLISECONDS = 3, 1000
"""How long copies to the host take, and in the last step, so that a host that another process stops is not late."""


def train(task, world, device):
    """Losses, norms and skips of this rank, and what its device counted in each step but the first two.

    In the second, DistributedDataParallel arranges its buckets anew.
    """
    import torch

    runtime = torch.accel
    plan = program.make_plan(task, world)
    if task.get("misplaced"):
        return {"error": error_of(task, plan, device)}
    with program.plugin_of(task).llmperf_build_trainer(plan, device) as trainer:
        outputs, steps = [trainer.train_step(), trainer.train_step()], []
        for step in range(2, plan.spec.contract.steps):
            if step == plan.spec.contract.steps - 1:
                runtime.arrive_after(LATE_MILLISECONDS)
            before = runtime.counts()
            outputs.append(trainer.train_step())
            steps.append({name: count - before[name] for name, count in runtime.counts().items()})
        early = [output.loss.ready() for output in outputs[-1:]]
        device.synchronize()
        runtime.arrive_after(LAG_MILLISECONDS)
        return {
            "losses": [float(output.loss) for output in outputs],
            "norms": [float(output.grad_norm) for output in outputs],
            "skipped": [bool(float(output.skipped)) for output in outputs],
            "early": early,
            "steps": steps,
            "places": sorted({str(parameter.device) for parameter in program.task_model(trainer).parameters()}),
            "peak": device.peak_memory_bytes(),
            "reserved": device.peak_reserved_bytes(),
        }


def error_of(task, plan, device):
    """The first line of what a step raises if the feed leaves its tensors on the host."""
    from unittest import mock

    import torch
    from llmperf_torchkit.trainer import Feed

    with mock.patch.object(torch.Tensor, "to", lambda tensor, *_, **__: tensor):
        assert Feed(plan, torch.device("accel", 0)).next()[0].device.type == "cpu"
        with program.plugin_of(task).llmperf_build_trainer(plan, device) as trainer:
            try:
                trainer.train_step()
            except RuntimeError as error:
                return str(error).splitlines()[0]
    return None


def main():
    """Run all tasks in one process group."""
    import torch.distributed
    from llmperf_accel.plugin import llmperf_setup_device

    tasks = json.loads(Path(sys.argv[1]).read_text())
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = llmperf_setup_device(None, int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("accelcl")
    results = [train(task, world, device) for task in tasks]
    gathered = [None] * world
    store = torch.distributed.distributed_c10d._get_default_store()
    store.set(f"results {rank}", json.dumps(results))
    if rank == 0:
        gathered = [json.loads(store.get(f"results {other}")) for other in range(world)]
        Path(sys.argv[2]).write_text(json.dumps(gathered))
    torch.distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
