"""Profiles by torch.profiler: operations by kind, idle time, overlap of communication."""

import gzip
import json
import time
from types import SimpleNamespace

import pytest
import torch
from llmperf.types import OperationToTime
from llmperf_torchkit.operations import TorchOperations
from llmperf_torchkit.profiling import _intervals, _length, _operations, profiled_steps

pytestmark = pytest.mark.slow

DEVICE = SimpleNamespace(places={"torch": "cpu"}, synchronize=lambda: None)


def test_operations_idle_time_and_trace(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    weight = torch.randn(256, 256, requires_grad=True)

    def step():
        torch.nn.functional.silu(torch.mm(weight, weight)).sum().backward()
        time.sleep(0.05)

    profile = profiled_steps(DEVICE, step, 2, tmp_path / "trace.json.gz")
    by_name = {operation.name: operation for operation in profile.operations}
    assert by_name["aten.mm"].kind == "matmul"
    assert by_name["aten.mm"].calls == 3  # one forward, two backward
    assert by_name["aten.silu_backward"].kind == "activation"
    assert (profile.rank, profile.steps, profile.clock) == (3, 2, "host")
    assert 0.05 <= profile.idle_seconds < profile.step_seconds
    assert sum(operation.seconds for operation in profile.operations) <= profile.step_seconds
    assert profile.communication_seconds == 0
    with gzip.open(tmp_path / profile.trace) as file:
        names = {event.get("name") for event in json.load(file)["traceEvents"]}
    assert {"aten::mm", "ProfilerStep#0", "ProfilerStep#1"} <= names


def test_a_trace_that_is_too_large_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("llmperf_torchkit.profiling.MAX_TRACE_BYTES", 10)
    profile = profiled_steps(DEVICE, lambda: torch.ones(2) + 1, 1, tmp_path / "trace.json.gz")
    assert profile.trace is None
    assert "larger than" in profile.notes[0]
    assert list(tmp_path.iterdir()) == []


def test_annotations_are_no_operations_and_calls_of_collectives_communicate():
    def event(name, start, end, annotation=False, device="CPU"):
        span = SimpleNamespace(start=start * 1e6, end=end * 1e6)
        place = getattr(torch.autograd.DeviceType, device)
        times = {"self_cpu_time_total": (end - start) * 1e6, "kernels": []}
        return SimpleNamespace(
            name=name, device_type=place, time_range=span, is_user_annotation=annotation, scope=7 * annotation, **times
        )

    events = [
        event("FSDP::all_gather (layers.0)", 0, 10, annotation=True),
        event("c10d::_allgather_base_", 0, 1),
        event("gloo:all_gather", 1, 6, annotation=True),
        event("aten::mm", 5, 8),
        event("_c10d_functional::wait_tensor", 8, 9),
        event("Optimizer.step#AdamW.step", 9, 10, annotation=True),
    ]
    assert _intervals(events, on_cpu=True) == ([(5, 8)], [(0, 1), (1, 6), (8, 9)])
    assert [operation.name for operation in _operations(events, True, 1)] == ["aten.mm"]
    on_device = [
        event("FSDP::pre_forward", 0, 10, annotation=True, device="CUDA"),
        event("nccl:_all_gather_base", 0, 4, annotation=True, device="CUDA"),
        event("ampere_gemm", 3, 8, device="CUDA"),
    ]
    computing, communicating = _intervals(on_device, on_cpu=False)
    assert (computing, communicating) == ([(3, 8)], [(0, 4)])
    assert _length([*computing, *communicating]) == pytest.approx(8)


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
