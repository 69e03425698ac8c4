"""`llmperf run` with `torch.compile`: the same losses, and a result that says what compiling took."""

import shutil
import warnings

import pytest
from llmperf.cases.library import whole_library

SMALL = {"model": "llama_tiny", "dataset": "synthetic", "seq_len": 64, "steps": 3, "warmup_steps": 1}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ for torch.compile")
def test_compiled_blocks_learn_the_same_and_compile_before_the_window(result_of_run, tmp_path):
    where = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    words = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    run = ("default", "--framework", "pytorch", "--devices", "1", *words, "--set")
    plain, compiled = (result_of_run(*run, f"compile={compiles}", **where) for compiles in ("false", "true"))
    for name in ("first_loss", "final_loss"):
        assert compiled["metrics"][name] == pytest.approx(plain["metrics"][name], rel=1e-5)
    assert plain["metrics"]["compile_seconds"] is None
    assert compiled["metrics"]["compile_seconds"] > compiled["metrics"]["window_seconds"]
    assert plain["kernels"]["rope"] == "llmperf::rope by torch operations"
    assert compiled["kernels"]["rope"] == compiled["kernels"]["swiglu"] == "torch.compile with its block"


@pytest.mark.slow
def test_a_compiler_that_fails_ends_a_run_in_one_line(program):
    from llmperf.errors import RunFailed
    from llmperf_pytorch.ddp import DdpTrainer
    from torch._dynamo.exc import InternalTorchDynamoError

    trainer = object.__new__(DdpTrainer)
    for compiles in (True, False):
        trainer._plan = program.make_plan({"framework": "pytorch", "tuning": {"compile": compiles}})
        expected = RunFailed if compiles else InternalTorchDynamoError
        with pytest.raises(expected) as failure, trainer:
            raise InternalTorchDynamoError("no working compiler\nand much more")
        line = "torch.compile failed: no working compiler; nearest: --set compile=false"
        assert compiles is (str(failure.value) == line)


@pytest.mark.slow
def test_operations_do_without_a_compiler_that_fails(monkeypatch):
    import torch
    from llmperf_pytorch.kernels.choice import Kernels
    from llmperf_torchkit import compiled

    def fails(*_, **__):
        raise RuntimeError("no Python.h\nand more")

    monkeypatch.setattr(torch, "compile", fails)
    monkeypatch.setattr(compiled, "FAILED", set())
    monkeypatch.setattr("llmperf_pytorch.kernels.choice.FAILED", compiled.FAILED)
    kernels = Kernels(fused=("rope", "swiglu"), by_compiler=True)
    gate, up = torch.randn(2, 3, 8)
    with pytest.warns(UserWarning, match=r"swiglu by torch's own operations: torch.compile failed: no Python.h$"):
        first = kernels.swiglu(gate, up)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(kernels.swiglu(gate, up), first)
    torch.testing.assert_close(first, torch.nn.functional.silu(gate) * up)
    names = kernels.named(whole_library().model("llama_tiny"), "auto", "AdamW", "cpu")
    assert names["swiglu"] == "llmperf::swiglu by torch operations (torch.compile failed)"
    assert names["rope"] == "llmperf::rope by torch.compile"
