"""Chains of operations that a compiler would join: what is read and written, what ends one, what runs once."""

import pytest
import torch
from llmperf_torchkit.tracing.fusion import COMPILED, Chain
from llmperf_torchkit.tracing.memory import LiveMemory
from llmperf_torchkit.tracing.operations import is_free, known_kind, operation_name, tensors_in
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.slow

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
