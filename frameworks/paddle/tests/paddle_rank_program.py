"""One rank that trains what it is told, through the plugin's hooks: `paddle_rank_program.py TASKS.json RESULTS.json`.

For tests: many configurations in one process, since importing Paddle takes longer than training. Tasks and plans are
those of the plain PyTorch plugin's `rank_program.py`.
"""

import json
import os
import sys
from pathlib import Path
from types import MappingProxyType

import rank_program


class TestDevice:
    """What a trainer needs of a device."""

    __test__ = False
    places = MappingProxyType({"paddle": "cpu"})
    collective_backend = "gloo"


def train(task, world):
    """This rank's figures of one task."""
    from llmperf_paddle.plugin import llmperf_build_trainer
    from paddle.utils import unique_name

    plan = rank_program.make_plan({"framework": "paddle", **task}, world)
    # fleet shall make the groups of another layout in this process; a real rank has one
    from paddle.distributed.fleet.base import topology

    topology._HYBRID_PARALLEL_GROUP = None
    # names begin anew, as in a process of its own: a stage's differ from another's, and fleet sorts by them
    with unique_name.guard(), llmperf_build_trainer(plan, TestDevice()) as trainer:
        assert trainer.parameter_count == plan.flops.parameters
        outputs = [trainer.train_step() for _ in range(plan.spec.contract.steps)]
        sequences = rank_program.own_sequences(plan, trainer, outputs[0])
        parts = trainer._parts
        moments = [
            int(tensor._numel())
            for name, states in parts.adamw._accumulators.items()
            if "moment1" in name
            for tensor in states.values()
        ]
        return {
            "losses": [None if output.loss is None else float(output.loss) for output in outputs],
            "sequences": sequences,
            "norms": [None if output.grad_norm is None else float(output.grad_norm) for output in outputs],
            "tokens": sum(output.tokens for output in outputs),
            "parameters": sum(held(one) for one in parts.model.parameters()),
            "moments": sum(moments),
            "data_parallel_rank": plan.layout.data_parallel_rank(int(os.environ["RANK"])),
        }


def train_wrapped(task, world):
    """As `train`; with `data_parallel` in the task, replicas are wrapped as on accelerators."""
    from llmperf_paddle import gloo

    before = gloo.averages_in_step
    if task.pop("data_parallel", False):
        gloo.averages_in_step = lambda: False
    try:
        return train(task, world)
    finally:
        gloo.averages_in_step = before


def held(parameter):
    """Elements of a parameter that this rank keeps between steps; at stage 3 its slice."""
    if hasattr(parameter, "fw_storage"):
        assert parameter.status == "part"
        return int(parameter.fw_storage._numel())
    return int(parameter._numel())


def main():
    """Run all tasks; each rank writes its own results."""
    world, rank = int(os.environ["WORLD_SIZE"]), os.environ["RANK"]
    tasks = json.loads(Path(sys.argv[1]).read_text())
    results = [train_wrapped(task, world) for task in tasks]
    Path(f"{sys.argv[2]}.{rank}").write_text(json.dumps(results))
    if world > 1:
        import paddle

        paddle.distributed.barrier()  # the store of rank 0 stays until all have what they need
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # as llmperf's worker ends


if __name__ == "__main__":
    main()
