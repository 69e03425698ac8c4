"""The operations of `llmperf peak` by torch: right outputs pass their checks, wrong ones do not."""

from types import SimpleNamespace

import pytest
import torch
from llmperf.types import OperationToTime
from llmperf_torchkit.operations import TorchOperations

pytestmark = pytest.mark.slow

SHAPES = {"matmul": (1, 48, 80, 64), "attention": (1, 2, 16, 8), "copy": (4096,), "read": (4096,), "launch": (10,)}


@pytest.fixture
def operations():
    precision = torch.get_float32_matmul_precision()
    device = SimpleNamespace(places={"torch": "cpu"}, collective_backend="gloo")
    plan = SimpleNamespace(layout=SimpleNamespace(world_size=1))
    with TorchOperations(plan, device) as made:
        yield made
    torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", SHAPES)
def test_outputs_pass_their_checks(operations, kind, dtype):
    prepared = operations.prepare(OperationToTime(kind=kind, dtype=dtype, shape=SHAPES[kind]))
    prepared.run()
    prepared.run()
    assert prepared.check() is None


@pytest.mark.parametrize("kind", SHAPES)
def test_an_operation_that_was_not_done_is_noticed(operations, kind, monkeypatch):
    for owner, name in ((torch, "matmul"), (torch.Tensor, "copy_"), (torch.Tensor, "add_")):
        monkeypatch.setattr(owner, name, lambda *_, **__: None)
    monkeypatch.setattr(torch.Tensor, "sum", lambda *_, **__: torch.zeros(()))
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda query, key, value, **_: query + key + value
    )
    prepared = operations.prepare(OperationToTime(kind=kind, dtype="fp32", shape=SHAPES[kind]))
    prepared.run()
    assert prepared.check() is not None


def test_unknown_dtypes_are_left_out(operations):
    assert operations.prepare(OperationToTime(kind="matmul", dtype="fp8", shape=(1, 8, 8, 8))) is None
