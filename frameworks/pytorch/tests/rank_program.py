"""One rank that trains what it is told, through a framework's hooks: `rank_program.py TASKS.json RESULTS.json`.

For tests: many configurations in one process group, since importing the frameworks takes longer than training.
"""

import json
import os
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import llmperf_schemas
from llmperf.files.json_files import convert
from llmperf.types import Plan, RunSpec

PROBE = {
    "vendor": "cpu",
    "devices": [{"index": 0, "model": "CPU", "memory_bytes": None, "kind": "cpu", "divisible": True}],
    "offers": {"precisions": ["fp32", "bf16"], "runtimes": ["torch"], "collective_backend": "gloo"},
}
MODEL = {
    "name": "tiny", "title": "Tiny", "family": "llama", "nominal_parameters": 100_000, "vocab_size": 512,
    "hidden_size": 64, "intermediate_size": 128, "layers": 2, "attention_heads": 4, "kv_heads": 2, "max_positions": 128,
    "norm_eps": 1e-5, "position_encoding": "rope", "rope_theta": 10000.0, "source": "test",
}  # fmt: skip
BAICHUAN = {"family": "baichuan", "kv_heads": 4, "normalized_head": True}
OPTIMIZER = {"lr": 3e-3, "schedule": "cosine", "warmup_steps": 2, "clip_norm": 0.5}
CONTRACT = {
    "model": "tiny", "dataset": "synthetic", "seq_len": 64, "global_batch": 4, "precision": "fp32",
    "optimizer": OPTIMIZER, "steps": 6, "warmup_steps": 1,
}  # fmt: skip


class TestDevice:
    """What a trainer needs of a device."""

    __test__ = False

    def __init__(self, torch_device):
        self.places = {"torch": torch_device}
        self.collective_backend = backend_of(torch_device)

    def event(self):
        """A mark in the device's queue, from which trainers measure their waits for communication."""
        from llmperf_cpu.device import HostEvent

        if self.places["torch"] == "cpu":
            return HostEvent()
        import torch
        from llmperf_vendorkit.accelerator import RuntimeEvent

        return RuntimeEvent(torch.cuda.Event(enable_timing=True))


def backend_of(torch_device):
    """Which collectives a kind of device has."""
    return "gloo" if torch_device == "cpu" else "nccl"


def make_probe(task):
    """A CPU, unless the task names a device."""
    if task.get("device", "cpu") == "cpu":
        return PROBE
    offers = {**PROBE["offers"], "precisions": ["fp32", "tf32", "bf16", "fp16"], "collective_backend": "nccl"}
    device = {"index": 0, "model": "GPU", "memory_bytes": None, "details": task.get("details", {})}
    return {**PROBE, "devices": [device], "offers": offers}


def make_spec(task, world=1):
    """The spec of a task: {"framework": ..., "model": {...}, "contract": {...}, "tuning": {...}, "options": {...}}."""
    document = {
        "case": "test",
        "title": "Test",
        "contract": {**CONTRACT, **task.get("contract", {})},
        "tuning": {"framework": task["framework"], "devices": world, **task.get("tuning", {})},
        "model": {**MODEL, **task.get("model", {})},
        "framework": task.get("options", {}),
        "data": task.get("data", {}),
    }
    return convert(document, RunSpec, "task")


def make_plan(task, world=1):
    """The plan of a task, with what the framework's own hook adds to it."""
    from llmperf.accounting.parameters import count_parameters
    from llmperf.types import Probe

    spec = make_spec(task, world)
    probe = convert(make_probe(task), Probe, "probe")
    worker = plugin_of(task).llmperf_plan_workers(spec, probe)
    assert not worker.problems, worker.problems
    micro, contract = spec.tuning.micro_batch, spec.contract
    example = convert(llmperf_schemas.example("plan"), Plan, "plan")
    batch = replace(
        example.batch,
        micro_batch=micro,
        gradient_accumulation=contract.global_batch // (micro * worker.layout.data_parallel),
        data_parallel=worker.layout.data_parallel,
        global_batch=contract.global_batch,
        seq_len=contract.seq_len,
        tokens_per_step=contract.global_batch * contract.seq_len,
    )
    flops = replace(example.flops, parameters=count_parameters(spec.model).total, per_token=())
    known = {"device_share": 1 / world, "env": {}, "peak": None, "rates": None, "plugins": ()}
    plan = replace(example, spec=spec, probe=probe, worker=worker, batch=batch, flops=flops, **known)
    if "computed_in" not in task:
        return plan
    contract = replace(contract, precision=task["computed_in"])  # fp16 on a CPU, which no plan has
    return replace(plan, spec=replace(spec, contract=contract))


def plugin_of(task):
    """The framework plugin's module."""
    return import_module(f"llmperf_{task['framework']}.plugin")


def train(task, world):
    """Losses averaged over the ranks that have one, gradient norms, tokens of this rank and seconds.

    With {"ranks": 1} each rank trains alone. `sequences` are the losses of the sequences of step 1 in the global order.
    """
    import torch

    plan = make_plan(task, task.get("ranks", world))
    started = time.perf_counter()
    with plugin_of(task).llmperf_build_trainer(plan, TestDevice(task.get("device", "cpu"))) as trainer:
        assert trainer.parameter_count == plan.flops.parameters
        outputs = [trainer.train_step() for _ in range(plan.spec.contract.steps)]
        own = own_sequences(plan, trainer, outputs[0])
        weights = sum(parameter.numel() for parameter in task_model(trainer).parameters())
        states = [state for _, state in trainer._optimizer.state.items()]
        load = trainer.expert_tokens() if hasattr(trainer, "expert_tokens") else None
        precisions = dict(getattr(trainer, "precisions", {}))
        moments = sum(one.numel() for state in states for key, one in state.items() if key == "exp_avg")
    told = [(0.0, 0.0) if output.loss is None else (float(output.loss), 1.0) for output in outputs]
    losses, ranks = torch.tensor(told, dtype=torch.float64).T.contiguous()
    if world > 1:
        torch.distributed.all_reduce(losses)
        torch.distributed.all_reduce(ranks)
    norms = [None if output.grad_norm is None else float(output.grad_norm) for output in outputs]
    return {
        "losses": (losses / ranks).tolist(),
        "norms": norms,
        "sequences": all_sequences(own, world),
        "tokens": sum(output.tokens for output in outputs),
        "parameters_here": weights,
        "moments_here": moments,
        "expert_tokens": load,
        "precisions": precisions,
        "seconds": time.perf_counter() - started,
    }


def own_sequences(plan, trainer, first):
    """The losses of this rank's sequences of step 1 by their place in the global order; their mean is its loss."""
    from llmperf.tokens.draws import position

    losses = trainer.first_losses()
    if first.loss is None or losses is None:
        return {}
    batch, rank = plan.batch, plan.layout.data_parallel_rank(int(os.environ["RANK"]))
    assert len(losses) == batch.micro_batch * batch.gradient_accumulation
    if plan.spec.contract.packing == "packed":
        assert abs(sum(losses) / len(losses) / float(first.loss) - 1) < 2e-6, (losses, float(first.loss))
    places = [
        position(batch, 0, micro_step, rank, row)
        for micro_step in range(batch.gradient_accumulation)
        for row in range(batch.micro_batch)
    ]
    return dict(zip(places, losses, strict=True))


def all_sequences(own, world):
    """The losses of all ranks' sequences of step 1 in the global order."""
    import torch

    parts = [own]
    if world > 1:
        parts = [{}] * world
        torch.distributed.all_gather_object(parts, own)
    merged = {place: loss for part in parts for place, loss in part.items()}
    return [merged[place] for place in sorted(merged)]


def task_model(trainer):
    """The module inside a trainer."""
    return trainer._trained if hasattr(trainer, "_trained") else trainer._model


def main():
    """Run all tasks in one process group."""
    import torch.distributed

    world = int(os.environ["WORLD_SIZE"])
    tasks = json.loads(Path(sys.argv[1]).read_text())
    torch.distributed.init_process_group(backend_of(tasks[0].get("device", "cpu")))
    results = [train(task, world) for task in tasks]
    if os.environ["RANK"] == "0":
        Path(sys.argv[2]).write_text(json.dumps(results))
    torch.distributed.barrier()  # the store of rank 0 stays until all have what they need
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # as llmperf's worker ends: native threads have aborted while the interpreter was taken apart


if __name__ == "__main__":
    main()
