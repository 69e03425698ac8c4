"""FLOPs and bytes of single calls."""

import sys
import weakref
from collections import Counter

import pytest
import torch
from llmperf_torchkit.tracing.fusion import COMPILED, Chain
from llmperf_torchkit.tracing.memory import Allocation, LiveMemory, blocks, kind_of
from llmperf_torchkit.tracing.operations import is_free, kind_by_caller, known_kind, operation_name, tensors_in, work_of
from llmperf_torchkit.tracing.step import split_counts
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.slow

ROWS, INNER, COLUMNS = 512, 4096, 1024


def empty(*shape):
    return torch.empty(shape, dtype=torch.bfloat16, device="meta")


LEFT, RIGHT, RESULT = empty(ROWS, INNER), empty(INNER, COLUMNS), empty(ROWS, COLUMNS)
BYTES = 2 * (ROWS * INNER + INNER * COLUMNS + ROWS * COLUMNS)


@pytest.mark.parametrize(
    ("operation", "args", "kwargs", "read_beside"),
    [
        (torch.ops.aten.mm.default, (LEFT, RIGHT), {}, 0),
        (torch.ops.aten.mm.out, (LEFT, RIGHT), {"out": RESULT}, 0),
        (torch.ops.aten.addmm.default, (RESULT, LEFT, RIGHT), {}, 2 * RESULT.numel()),
        (torch.ops.aten.addmm_.default, (RESULT, LEFT, RIGHT), {}, 2 * RESULT.numel()),
    ],
)
def test_each_form_of_a_product_counts_the_same(operation, args, kwargs, read_beside):
    work = work_of(operation, args, kwargs, RESULT)
    assert (work.flops, work.shape) == (2.0 * ROWS * INNER * COLUMNS, (1, ROWS, COLUMNS, INNER))
    assert work.bytes == BYTES + read_beside


GROUPS = 8
ENDS = torch.empty(GROUPS, dtype=torch.int32, device="meta")
TOKENS, EXPERTS = empty(ROWS, INNER), empty(GROUPS, INNER, COLUMNS)


@pytest.mark.parametrize(
    ("left", "right", "flops", "shape"),
    [
        (TOKENS, EXPERTS, 2.0 * ROWS * INNER * COLUMNS, (GROUPS, ROWS // GROUPS, COLUMNS, INNER)),
        (empty(3, INNER), EXPERTS, 2.0 * 3 * INNER * COLUMNS, (GROUPS, 0, COLUMNS, INNER)),
        (TOKENS.t(), RESULT, 2.0 * ROWS * INNER * COLUMNS, (GROUPS, INNER, COLUMNS, ROWS // GROUPS)),
    ],
)
def test_products_of_groups_count_each_row_once(left, right, flops, shape):
    result = empty(GROUPS, INNER, COLUMNS) if left.shape[0] == INNER else empty(left.shape[0], COLUMNS)
    work = work_of(torch.ops.aten._grouped_mm.default, (left, right, ENDS), {}, result)
    assert (work.flops, work.shape) == (flops, shape)


def test_attention_counts_values_that_are_narrower_than_keys():
    query, value = empty(1, 4, 128, 96), empty(1, 4, 128, 64)
    operation = torch.ops.aten._scaled_dot_product_flash_attention.default
    work = work_of(operation, (query, query, value, 0.0, True), {}, value)
    assert work.flops == 2.0 * 4 * 128 * 128 * (96 + 64) / 2


SIZE = 4 * 64 * 32
"""Bytes of each tensor here."""


class Joined(TorchDispatchMode):
    """Collects the bytes of chains."""

    def __init__(self):
        super().__init__()
        self.memory = LiveMemory("cpu")
        self.chain = Chain(self.memory)
        self.bytes = []

    def end(self, takes=False):
        if (chain := self.chain.ended(takes)) is not None:
            self.bytes.append(chain[2].bytes)

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        name = operation_name(operation)
        kind = known_kind(name) or "elementwise"
        takes = not is_free(operation) and self.chain.takes(name, kind)
        if not is_free(operation):
            self.end(takes)
        for tensor in tensors_in((args, result)):
            self.memory.add(tensor, name)
        if takes:
            self.chain.add(operation, args, kwargs or {}, result, kind, "forward")
        return result


@pytest.fixture
def joined():
    COMPILED.turn(True)
    with Joined() as mode:
        yield mode
    COMPILED.turn(False)


def given():
    return torch.ones(64, 32)


def test_a_chain_reads_its_inputs_and_writes_what_is_used_after_it(joined):
    gate, up = given(), given() + 1
    joined.end()
    joined.bytes.clear()
    product = torch.sigmoid(gate) * gate * up
    product @ product.t()
    assert joined.bytes == [3 * SIZE]


def test_a_reduction_of_rows_stays_in_the_chain_and_one_of_all_ends_it(joined):
    states = given()
    joined.end()
    joined.bytes.clear()
    scaled = states / states.abs().amax(-1, keepdim=True)
    joined.end()
    assert joined.bytes == [2 * SIZE]
    joined.bytes.clear()
    scaled = states / states.abs().max()
    joined.end()
    assert joined.bytes == [SIZE + 4, 2 * SIZE + 4]
    assert scaled.shape == states.shape


def test_equal_operations_on_equal_inputs_run_once(joined):
    states = given()
    joined.end()
    joined.bytes.clear()
    first = states.double()
    first.t() @ first
    again = states.double()
    again.t() @ again
    joined.end()
    assert joined.bytes == [3 * SIZE]


def test_outside_of_compiled_blocks_nothing_is_joined(joined):
    COMPILED.turn(False)
    states = given()
    joined.bytes.clear()
    states = states * 2 + 1
    joined.end()
    assert joined.bytes == []


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
