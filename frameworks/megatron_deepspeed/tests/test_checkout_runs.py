"""Whole runs of engine `checkout`: of a stand-in for the script, and of a real checkout where one is given.

The stand-in is a script of ours (`checkout_stand_in/`) that trains nothing and prints lines of the published form.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import llmperf
import pytest
from llmperf.files import json_files
from llmperf.runfolder import filenames
from llmperf.types import Plan, Result

STAND_IN = Path(__file__).with_name("checkout_stand_in")
OPTIONS = Path(__file__).with_name("checkout_golden.txt")
REAL = "LLMPERF_TEST_MEGATRON_HOME"
STEPS = 6

SMALL = (
    *("framework.engine=checkout", "model=llama_mini", "dataset=synthetic", "precision=fp32", "attention=eager"),
    *("seq_len=16", "global_batch=4", f"contract.steps={STEPS}", "contract.warmup_steps=2"),
    "contract.optimizer.warmup_steps=1",
)


def source_files(home):
    """Every file of a checkout, git's own left out, with its content."""
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and ".git" not in path.parts}


@pytest.fixture
def stand_in(tmp_path):
    """A checkout with the stand-in script and empty modules where the engine expects Megatron's."""
    home = tmp_path / "stand-in"
    modules = {
        "megatron/__init__.py": "",
        "megatron/training.py": "",
        "megatron/fused_kernels/__init__.py": "def load(args):\n    raise SystemExit('builds kernels')\n",
        "megatron/optimizer/__init__.py": "",
        "megatron/data/__init__.py": "",
        "megatron/data/gpt_dataset.py": "",
        "megatron/data/dataset_utils.py": "def compile_helper():\n    raise SystemExit('runs make')\n",
        "pretrain_gpt.py": (STAND_IN / "pretrain_gpt.py").read_text(),
    }
    words = [*OPTIONS.read_text().split(), "--cpu-optimizer", "--cpu_torch_adam"]
    modules["megatron/arguments.py"] = "\n".join(f"'{word}'" for word in words if word.startswith("--"))
    for name, text in modules.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return home


@pytest.fixture
def run(tmp_path):
    """A function that does what a user does: `run(home, "tensor_parallel=2")` gives the result and the run folder."""

    def with_settings(home, *settings, devices=2, stall=60, **environment):
        asked = [*SMALL, f"framework.megatron_home={home}", *settings]
        out = tmp_path / "runs"
        command = [sys.executable, "-m", "llmperf", "run", "llama2_7b_pretrain_megatron", "--vendor", "cpu"]
        command += ["--devices", str(devices), "--stall-timeout", str(stall), "--out", str(out)]
        command += [word for setting in asked for word in ("--set", setting)]
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=280, check=False
        )
        (folder,) = out.iterdir()
        result = json_files.load(folder / filenames.RESULT, Result)
        errors = [finding for finding in result.findings if finding.severity == "error"]
        assert done.returncode == (0 if result.status == "complete" else 1), f"{errors}\n{done.stderr}"
        return result, folder

    return with_settings


@pytest.mark.slow
def test_a_run_of_the_stand_in_is_complete_and_on_the_same_tokens_as_any_other(run, stand_in):
    before = source_files(stand_in)
    result, folder = run(stand_in, "tensor_parallel=1", "micro_batch=2")
    assert (result.status, result.failure) == ("complete", None)
    plan = json_files.load(folder / filenames.PLAN, Plan)
    ranks = [llmperf.open_batches(plan, rank) for rank in range(2)]
    rounds = STEPS * plan.batch.gradient_accumulation
    means = [float(sum(rank.next_micro_batch().mean() for rank in ranks) / 2) / 260 for _ in range(rounds)]
    assert [point.loss for point in result.loss_curve] == pytest.approx(means, rel=1e-5)
    assert result.metrics.measured_tokens == (STEPS - 2) * 4 * 16
    assert result.metrics.window_seconds >= (STEPS - 2) * 0.05 * 0.8  # lines are stamped when they are read
    assert result.metrics.step_seconds.median == 0.05
    assert [one.peak_bytes for one in result.metrics.rank_memory] == [2 * 2**20, 3 * 2**20]
    assert {"torch", "deepspeed"} <= set(result.software.packages)
    assert any("initial weights are the script's own" in note for note in result.notes)
    assert not [finding for finding in result.findings if finding.severity == "error"]
    assert json.loads((folder / "files" / "ds_config.json").read_text())["train_batch_size"] == 4
    assert source_files(stand_in) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason", "rank", "message"),
    [
        ("raises", "exception", 1, "the stand-in has had enough"),
        ("killed", "killed", 0, "SIGKILL"),
        ("nan", "nonfinite loss", 1, "the loss of step 3 is nan"),
        pytest.param("hangs", "hung", None, "no rank finished a step", marks=pytest.mark.long),
    ],
)
def test_a_failure_of_the_stand_in_is_named(run, stand_in, fault, reason, rank, message):
    result, folder = run(stand_in, "tensor_parallel=2", stall=8 if fault == "hangs" else 60, FAULT=fault)
    assert (result.status, result.failure.reason, result.failure.rank) == ("failed", reason, rank)
    assert message in result.failure.message
    if fault == "raises":
        assert result.failure.exception == "ValueError"
        assert "in go_wrong" in "\n".join(result.failure.log_tail)
    if fault == "hangs":
        assert "in go_wrong" in filenames.log_path(folder, 0).read_text()


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get(REAL), reason=f"{REAL} names no checkout of Megatron-DeepSpeed")
def test_a_real_checkout_trains_and_stays_as_it_is(run):
    home = Path(os.environ[REAL])
    before = source_files(home)
    result, _ = run(home, "tensor_parallel=2")
    assert (result.status, result.failure) == ("complete", None)
    assert len(result.loss_curve) == STEPS
    assert result.loss_curve[0].loss == pytest.approx(8.3, abs=0.3)  # ln 4096
    assert result.loss_curve[-1].loss < result.loss_curve[0].loss
    assert all(one.peak_bytes for one in result.metrics.rank_memory)
    assert not [finding for finding in result.findings if finding.severity == "error"]
    assert source_files(home) == before
