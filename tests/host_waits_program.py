"""Counts where a training step makes the host wait for its device, on a CPU, where there is nothing to wait for.

A value that Python or torch itself looks at, a copy to the host and a synchronisation through DeepSpeed's accelerator
would each wait for a GPU. DeepSpeed's accelerator for CPUs plays an asynchronous device with streams and events of its
own, so that DeepSpeed takes the branches that it takes on a GPU. Not seen: copies from pageable host memory.
"""

import importlib.util
import traceback
from collections import Counter
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

SHARED = Path(__file__).parents[1] / "frameworks" / "pytorch" / "tests" / "rank_program.py"

_specification = importlib.util.spec_from_file_location("rank_program", SHARED)
program = importlib.util.module_from_spec(_specification)
_specification.loader.exec_module(program)

LOOKED_AT = {"aten._local_scalar_dense.default", "aten.nonzero.default", "aten.equal.default"}
"""Operations whose results the host needs at once."""
COPYING = ("cpu", "numpy", "tolist")
"""Methods of a tensor that copy it to the host."""
OWN = ("site-packages/torch/", "host_waits_program.py")
DEFERRED = ("llmperf_pytorch/losses.py", "deferred")
"""What a device copies without waiting; on a CPU the number is read at once."""


class HostWaits(TorchDispatchMode):
    """A context: `found` counts by `file:function` who made the host wait."""

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if str(operation) in LOOKED_AT:
            self.note()
        return operation(*args, **(kwargs or {}))

    def note(self):
        """Count the innermost caller that is not torch."""
        for frame in reversed(traceback.extract_stack()):
            if not any(part in frame.filename for part in OWN):
                break
        place = frame.filename.split("site-packages/")[-1].split("/src/")[-1]
        if (place, frame.name) != DEFERRED:
            self.found[f"{place}:{frame.name}"] += 1

    def __enter__(self):
        self._methods = {name: getattr(torch.Tensor, name) for name in COPYING}
        for name, method in self._methods.items():
            setattr(torch.Tensor, name, self._noted(method))
        Waiting.waits = self
        return super().__enter__()

    def __exit__(self, *error):
        for name, method in self._methods.items():
            setattr(torch.Tensor, name, method)
        Waiting.waits = None
        return super().__exit__(*error)

    def _noted(self, method):
        def counted(*given, **options):
            self.note()
            return method(*given, **options)

        return counted


class Waiting:
    """A stream or an event of the played device: all work on it is done, and to wait for it counts."""

    waits = None

    def __init__(self, *_, **__):
        pass

    def synchronize(self, *_):
        if Waiting.waits is not None:
            Waiting.waits.note()

    def query(self):
        return True

    def nothing(self, *_):
        return None

    record = wait = wait_stream = wait_event = record_event = nothing


def play_asynchronous_device():
    """Have DeepSpeed's accelerator be asynchronous, as a GPU is; before its engine is made."""
    from deepspeed.accelerator import get_accelerator

    kind, stream = type(get_accelerator()), Waiting()
    for name in ("is_synchronized_device", "resolves_data_dependency", "handles_memory_backpressure"):
        setattr(kind, name, lambda self: False)
    kind.synchronize = lambda self, *_: stream.synchronize()
    kind.Stream = kind.Event = Waiting
    kind.current_stream = kind.default_stream = lambda self, *_: stream
    torch.Tensor.record_stream = lambda self, stream: None


def train(task, world):
    """Who makes the host wait in the third step of a task, by `file:function`."""
    if task["framework"] != "pytorch":
        play_asynchronous_device()
    plan = program.make_plan(task, world)
    builder = program.plugin_of(task).llmperf_build_trainer
    with builder(plan, program.TestDevice("cpu")) as trainer:
        for _ in range(2):
            trainer.train_step()
        with HostWaits() as waits:
            trainer.train_step()
    return dict(waits.found)


program.train = train

if __name__ == "__main__":
    program.main()
