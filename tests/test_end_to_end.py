"""`llmperf run` as a user types it, with DeepSpeed ZeRO on this machine."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def llmperf(*words, cwd):
    command = [sys.executable, "-m", "llmperf", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240)


def only_run(folder):
    (run,) = (folder / "runs").iterdir()
    return run


def test_the_default_run_leaves_everything_a_user_was_promised(tmp_path):
    done = llmperf("run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "token/p/s" in done.stdout
    assert "MFU" in done.stdout
    run = only_run(tmp_path)
    present = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    wanted = {"plan.json", "result.json", "report.md", "memory.jsonl", "files/ds_config.json"}
    wanted |= {f"records/rank-0000{rank}.jsonl" for rank in (0, 1)} | {f"logs/rank-0000{rank}.log" for rank in (0, 1)}
    assert wanted <= present
    result = json.loads((run / "result.json").read_text())
    assert (result["status"], result["variant"], result["fix_hp"]) == ("complete", False, [])
    assert [one["name"] for one in result["plugins"] if one["role"] == "framework"] == ["zero"]
    assert all(0 < entry["value"] < 1 for entry in result["mfu"])
    assert result["loss_curve"][-1]["loss"] < result["loss_curve"][0]["loss"]
    assert llmperf("validate", "runs", cwd=tmp_path).returncode == 0
    assert "Llama mini" in llmperf("report", str(run), cwd=tmp_path).stdout


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """The losses of one plain process."""
    return curve(["--framework", "pytorch", "--devices", "1", "--set", "micro_batch=2"], tmp_path_factory.mktemp("one"))


def curve(words, folder):
    """The losses of a run in fp32."""
    small = ["--set", "model=llama_tiny", "--set", "steps=6", "--set", "warmup_steps=2", "--json"]
    done = llmperf("run", "default", *words, *small, cwd=folder)
    assert done.returncode == 0, done.stderr
    return [point["loss"] for point in json.loads(done.stdout)["result"]["loss_curve"]]


STAGES = {f"ZeRO-{stage}": ["--framework", "zero", "--set", f"sharding_stage={stage}"] for stage in range(4)}
WAYS = {"DDP": ["--framework", "pytorch", "--devices", "2"], **STAGES}
SELDOM = ("ZeRO-0", "ZeRO-1", "ZeRO-2")
"""Their losses are also compared in frameworks/zero/tests/test_zero_losses.py, without `llmperf run`."""


@pytest.mark.parametrize(
    "way", [pytest.param(name, marks=[pytest.mark.long] if name in SELDOM else []) for name in WAYS]
)
def test_every_framework_and_stage_gives_one_loss_curve(way, one_process, tmp_path):
    """fp32, 6 steps: DDP and ZeRO over two ranks, each within 1e-4 of one process at every step."""
    assert curve(WAYS[way], tmp_path) == pytest.approx(one_process, abs=1e-4)
