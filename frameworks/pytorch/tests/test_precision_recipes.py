"""Precision recipes: what the torch frameworks refuse, how blocks are rounded to fp8, and that each recipe trains."""

import importlib.util
import shutil
import warnings
from dataclasses import replace

import pytest
from llmperf import library
from llmperf.cases.library import whole_library
from llmperf.errors import RunFailed
from llmperf.files.json_files import builtins, convert
from llmperf.planning.build import plan_only
from llmperf.planning.states import Selection, Site
from llmperf.types import Probe

STEPS = 3
FP8 = ("fp8_tensorwise", "fp8_rowwise", "fp8_blockwise")
NEEDS_TORCHAO = pytest.mark.skipif(importlib.util.find_spec("torchao") is None, reason="torchao is not installed")


def task(precision, framework="pytorch", tuning=None, model="llama3_tiny", **rest):
    contract = {
        "steps": STEPS,
        "global_batch": 2,
        "model": model or "tiny",
        "seq_len": 32,
        "precision": precision,
        "optimizer": {"lr": 1e-3},
    }
    tuning = {"emulate_precision": precision in FP8, **(tuning or {})}
    return {
        "framework": framework,
        "model": builtins(library().model(model)) if model else {},
        "contract": contract,
        "tuning": tuning,
        **rest,
    }


def problems(program, asked, device="cuda"):
    """What the framework says of a run on a device that is not here."""
    probe = convert(program.make_probe({"device": device}), Probe, "probe")
    worker = program.plugin_of(asked).llmperf_plan_workers(program.make_spec(asked, 2), replace(probe, simulated=True))
    return [problem.message for problem in worker.problems]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (task("fp8_rowwise", model="mixtral_tiny"), "mixtral_tiny is a mixture: expected a dense model"),
        (task("fp8_blockwise", tuning={"emulate_precision": False}), "multiples of 128, and llama3_tiny has 32"),
        (task("fp8_blockwise", tuning={"emulate_precision": False}), "run on compute capability 9.0 only"),
        (task("bf16_pure", tuning={"accumulation_dtype": "fp32"}), "expected accumulation_dtype auto"),
        (task("bf16_pure", "zero"), "float32 master weights at stage 0; nearest: --set sharding_stage=1"),
        (task("fp8_rowwise", "zero", {"sharding_stage": 3}), "nearest: --set sharding_stage=2"),
    ],
)
def test_what_a_recipe_cannot_be_trained_with_is_refused_with_the_nearest(program, asked, reason):
    assert any(
        message.startswith(asked["contract"]["precision"]) and reason in message for message in problems(program, asked)
    )


@pytest.mark.parametrize("tuning", [{"attention": "flash"}, {"attention": "cudnn"}, {"sharding_stage": 2}])
@pytest.mark.parametrize("precision", ["bf16", "bf16_pure", "fp8_tensorwise", "fp8_rowwise"])
def test_every_recipe_attends_in_16_bits_and_is_sharded(program, precision, tuning):
    assert problems(program, task(precision, tuning={**tuning, "emulate_precision": False})) == []


@pytest.mark.parametrize(("capability", "refused"), [("8.9", True), ("9.0", False), ("10.0", True)])
def test_blockwise_kernels_are_planned_only_where_they_run(capability, refused):
    settings = ("precision=fp8_blockwise", "model=qwen3_8b")
    models = {"8.9": "L40S", "9.0": "H100-SXM5-80GB", "10.0": "B200-180GB"}
    outcome = plan_only(Selection("default", settings=settings), Site(on=f"{models[capability]}:1x1"))
    assert any("compute capability 9.0 only" in problem.message for problem in outcome.problems) is refused


@pytest.mark.slow
def test_blocks_are_rounded_with_a_scale_of_their_own():
    import torch
    from llmperf_pytorch.models import rounded

    torch.manual_seed(0)
    tensor = torch.randn(200, 300)
    tensor[0, :128] *= 1e4  # one block of large values does not cost others their digits
    for block in ((1, 128), (128, 128), (128, 1)):
        error = (rounded(tensor, block) - tensor).abs()
        assert error.max() / tensor.abs().max() <= 2**-4
        assert (error[130:, 130:] <= 2**-4 * tensor[130:, 130:].abs() + 2e-2).all()
    assert torch.equal(rounded(torch.full((3, 5), 448.0), (1, 128)), torch.full((3, 5), 448.0))


@pytest.mark.slow
def test_gradients_of_emulated_blocks_are_close_to_those_of_the_product():
    import torch
    from llmperf_pytorch.decoder.mixture import Projection
    from llmperf_pytorch.models import BlockwiseProjection

    torch.manual_seed(0)
    exact = Projection(256, 128, bias=True)
    torch.nn.init.normal_(exact.weight)
    torch.nn.init.normal_(exact.bias)
    hidden = torch.randn(2, 70, 256)
    found = []
    for projection in (exact, BlockwiseProjection.of(exact, emulate=True)):
        inputs = hidden.clone().requires_grad_()
        exact.zero_grad()
        output = projection(inputs)
        (output * torch.linspace(-1, 1, 128)).sum().backward()
        found.append([output, inputs.grad, exact.weight.grad.clone(), exact.bias.grad.clone()])
    for one, other in zip(*found, strict=True):
        assert 0 <= (one - other).norm() / one.norm() < 0.05


@pytest.mark.gpu
@NEEDS_TORCHAO
@pytest.mark.parametrize("precision", FP8)
def test_fp8_of_a_gpu_has_the_losses_of_its_emulation(train, precision):
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("no GPU of compute capability 9.0 or more")
    wide = {"hidden_size": 256, "intermediate_size": 512, "attention_heads": 2, "kv_heads": 1}
    native = task(
        precision, tuning={"emulate_precision": False}, model="", device="cuda", details={"compute_capability": "9.0"}
    )
    emulated = task(precision, model="", device="cuda")
    results = train([{**each, "model": wide} for each in (native, emulated)], ranks=1)
    assert results[0]["losses"] == pytest.approx(results[1]["losses"], abs=5e-3)
    assert "emulated" not in results[0]["precisions"]["projections of blocks"]


@NEEDS_TORCHAO
@pytest.mark.slow
def test_every_recipe_trains_alone_and_shared_and_says_what_ran(train):
    alone = {name: task(name, model="", ranks=1) for name in ("fp32", "bf16", "bf16_pure", *FP8)}
    shared = {
        ("bf16_pure", "FSDP2"): task("bf16_pure", tuning={"sharding_stage": 2}, model=""),
        ("fp8_rowwise", "FSDP2"): task("fp8_rowwise", tuning={"sharding_stage": 3}, model=""),
        ("bf16_pure", "ZeRO"): task("bf16_pure", "zero", {"sharding_stage": 1}, ""),
        ("fp8_blockwise", "ZeRO"): task("fp8_blockwise", "zero", {"sharding_stage": 1}, ""),
    }
    results = train([*alone.values(), *shared.values()], ranks=2)
    ran = dict(zip([*alone, *shared], results, strict=True))
    for name, result in ran.items():
        assert result["losses"] == pytest.approx(ran["fp32"]["losses"], abs=0.03), name
        assert result["losses"] != ran["bf16"]["losses"] or name == "bf16", name
    bf16, pure, rowwise = (ran[name]["precisions"] for name in ("bf16", "bf16_pure", "fp8_rowwise"))
    assert bf16 == {"products": "bf16", "weights": "fp32", "updated weights": "fp32", "optimizer states": "fp32"}
    assert pure == {"products": "bf16", "weights": "bf16", "updated weights": "bf16", "optimizer states": "bf16"}
    assert ran["bf16_pure", "FSDP2"]["precisions"] == ran["bf16_pure", "ZeRO"]["precisions"] == pure
    assert rowwise["projections of blocks"].startswith("fp8 e4m3, rowwise (torchao ")
    assert rowwise["projections of blocks"].endswith(", emulated)")
    assert ran["fp8_rowwise", "FSDP2"]["precisions"] == rowwise
    assert "blockwise 1 x 128 and 128 x 128" in ran["fp8_blockwise", "ZeRO"]["precisions"]["projections of blocks"]


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
