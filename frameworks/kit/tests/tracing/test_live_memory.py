"""Memory of traced steps: the same as torch's own tracker sees, and what each allocation holds."""

import sys
import weakref
from collections import Counter

import pytest
import torch
from llmperf_torchkit.tracing.memory import Allocation, LiveMemory, blocks, kind_of
from llmperf_torchkit.tracing.operations import kind_by_caller, tensors_in
from llmperf_torchkit.tracing.step import split_counts
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.slow


class Watched(TorchDispatchMode):
    """Adds the result of every operation to a memory."""

    def __init__(self):
        super().__init__()
        self.memory = LiveMemory("cpu")

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        for tensor in tensors_in(result):
            self.memory.add(tensor, str(operation))
        return result


def step(model, optimizer, inputs):
    model(inputs).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def test_peak_equals_that_of_torchs_tracker():
    from torch.distributed._tools.mem_tracker import MemTracker

    inputs = torch.zeros(64, 128)
    with Watched() as watched:
        model = torch.nn.Sequential(torch.nn.Linear(128, 256, bias=False), torch.nn.ReLU(), torch.nn.Linear(256, 128))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        watched.memory.add(inputs, "input")
        step(model, optimizer, inputs)
        start = watched.memory.forget_past()
        step(model, optimizer, inputs)
    tracker = MemTracker()
    tracker.track_external(model, optimizer, inputs)
    with tracker:
        step(model, optimizer, inputs)
    peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    assert watched.memory.summary(start, ()).peak_bytes == pytest.approx(peak, rel=0.01)


def test_parts_at_the_peak_add_up_to_it():
    with Watched() as watched:
        kept = torch.zeros(1000)
        start = watched.memory.forget_past()
        torch.zeros(300) + torch.zeros(300)
    memory = watched.memory.summary(start, ())
    assert memory.peak_bytes == sum(memory.at_peak.values()) == blocks(4000) + 3 * blocks(1200)
    assert memory.between_steps == {"other": blocks(kept.nbytes)}


@pytest.mark.parametrize(
    ("allocation", "kind"),
    [
        ({"phase": "forward", "freed": 9, "freed_phase": "forward"}, "temporaries"),
        ({"phase": "forward", "freed": 9, "freed_phase": "backward"}, "activations"),
        ({"phase": "backward", "freed": 9, "freed_phase": "backward"}, "temporaries"),
        ({"phase": "backward", "freed": 9, "freed_phase": "backward", "recomputed": True}, "activations"),
        ({"phase": "forward", "shape": (4, 8, 1000)}, "logits"),
        ({"phase": "backward", "kind": "gradients"}, "gradients"),
        ({"phase": "update", "made": 1}, "other"),
    ],
)
def test_kind_by_when_it_is_made_and_released(allocation, kind):
    settings = {"bytes": 512, "operation": "aten.mul", "shape": (4, 8), "made": 5, **allocation}
    assert kind_of(Allocation(**settings), 2, {1000}) == kind


@pytest.mark.parametrize(
    ("counters", "accumulation", "split"),
    [
        ([(1, {"mm": 7})], 1, {"mm": [0, 7]}),
        ([(2, {"each": 20, "once": 1, "both": 5}), (3, {"each": 30, "once": 1, "both": 7})], 32,
         {"each": [10, 0], "once": [0, 1], "both": [2, 1]}),
        ([(1, {"mm": 2}), (2, {"mm": 4, "add": 3})], 32, {"mm": [2, 0], "add": [0, 3 * 31]}),
    ],
    ids=["of a single number", "a difference", "what the first lacks"],
)  # fmt: skip
def test_counts_are_split_into_those_per_micro_batch_and_per_step(counters, accumulation, split):
    counted = [(number, Counter(counts)) for number, counts in counters]
    assert {key: rest for key, *rest in split_counts(counted, accumulation)} == split


class Norm(torch.nn.Module):
    """Drops its first value after an operation whose kind is looked up."""

    def forward(self, hidden):
        hidden = hidden + 1
        first = weakref.ref(hidden)
        kind = self._looked_up()
        hidden = hidden + 1
        return kind, first() is None

    def _looked_up(self):
        return (lambda: (lambda: kind_by_caller())())()


class LastRMSNorm(Norm):
    """A module whose kind its name says."""

    def forward(self, hidden):
        kind = self._looked_up()
        return kind, super().forward(hidden)[1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code knows the class of a method from Python 3.11 on")
def test_kind_by_module_keeps_no_tensor_alive():
    assert LastRMSNorm()(torch.zeros(2)) == ("norm", True)
