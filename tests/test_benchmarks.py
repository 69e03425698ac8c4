"""Every program of `benchmarks/` still runs: in its smallest form where it needs no GPU and no other installation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "benchmarks"

TINY = ("--set", "model=llama_tiny", "--set", "seq_len=64")
ONE_RANK = ("--set", "tuning.devices=1")
SHORT = (*TINY, *ONE_RANK, "--set", "steps=4", "--set", "warmup_steps=1")

SMALLEST = {
    "controller_scale.py": (("--ranks", "2", "--steps", "20", "--writers", "1"),
                            r"followed while written: \d.* records/s"),
    "estimate_calibration.py": (("--analytic", "--only", "llama2_7b"), r"\d+\.\d"),
    "estimate_targets.py": (("--analytic", "--only", "LoRA fp16"), r"\| yes \| \d+% nominal \| \d+\.\d%"),
    "honest_runs.py": (("--runs", "1", "--busy", "0", "--model", "llama_tiny"), r"1 runs, 0 failed"),
    "meter.py cost": ((), r"meter.step: \d+\.\d\d us, \d+\.\d+% of a step"),
    "meter.py trainer": (("--steps", "20"), r"trainer: watched / metered \d\.\d{4}"),
    "meter.py lightning": (("--steps", "20"), r"lightning: watched / metered \d\.\d{4}"),
    "overhead.py": (("--framework", "pytorch", "--pairs", "2", *SHORT), r"controller: \d+\.\d\d %"),
    "peers.py trainer": (("--framework", "pytorch", "--rounds", "1", *SHORT), r"median ratio \d\.\d{2,}"),
    "peers.py torchtitan": (("--rounds", "1", *SHORT), r"median ratio \d\.\d{2,}"),
    "same_curve.py": (("--only", "zero", "--models", "qwen3_tiny", "--steps", "2", "--out", "{out}"),
                      r"\| zero \| stage 3 \| \d\.\de[+-]\d+ \|"),
    "spot_check.py": (("llama_tiny",), r"fp32 +largest \d\.\de-\d+, mean"),
    "startup.py": (("--pairs", "1"), r"llmperf validate: \d+ ms of CPU, \d+\.\d x `python -c pass`"),
    "validate_many.py": (("--numbers", "2", "--commands", "validate", "html"), r"html, 2 results: \d+\.\d s"),
}  # fmt: skip
"""The words of each program's smallest form, and a pattern of the figures that it prints."""
ELSEWHERE = {
    "cluster_curves.py": "tests/test_cluster.py",
    "cluster_faults.py": "tests/test_cluster.py",
    "gpu_setup.py": "tests/test_gpu_acceptance.py",
    "seeded_faults.py": "extensions/fuzz/tests/test_search.py",
}
"""Programs that need hosts or environments of their own, and the test that runs them."""
NEEDS = {
    "gpu_acceptance.py": "a GPU",
    "gpu_wheels.py": "a package index",
}
"""Programs that need what is not here: that they start is all that can be checked."""
PARTS = {
    *("published_rows.py", "ranks.py"),
    *("gpu_checks.py", "gpu_probes.py", "gpu_steps.py"),
    *("hf_trainer_rank.py", "llmperf_rank.py", "torchtitan_rank.py"),
}
"""Modules and ranks of the programs above."""


def run(name, *words, folder):
    # Ranks that wait actively for threads without a core take seconds for a step while other tests run.
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": "1"}
    program, *first = name.split()
    command = [sys.executable, str(FOLDER / program), *first, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_every_program_has_an_entry():
    found = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py")}
    listed = [*SMALLEST, *ELSEWHERE, *NEEDS, *PARTS]
    assert found == {name.split()[0] for name in listed}
    for program, test in ELSEWHERE.items():
        assert program in (ROOT / test).read_text()


@pytest.mark.slow
@pytest.mark.timeout(320)
@pytest.mark.parametrize("name", SMALLEST)
def test_a_program_prints_its_figures(name, tmp_path):
    words, figures = SMALLEST[name]
    done = run(name, *(word.format(out=tmp_path / "out") for word in words), folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(figures, done.stdout), done.stdout


@pytest.mark.slow
def test_parts_can_be_imported(tmp_path):
    code = f"import sys; sys.path[:0] = {[str(FOLDER)]}\n"
    code += "\n".join(f"import {Path(name).stem}" for name in sorted(PARTS))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NEEDS, *ELSEWHERE])
def test_a_program_that_needs_more_starts(name, tmp_path):
    done = run(name, "--help", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--help" in done.stdout


def test_the_measurements_name_programs_and_options_that_exist():
    text = (ROOT / "docs" / "measurements.md").read_text()
    for name, words in re.findall(r"\./dev python benchmarks/(\S+)([^\n`#]*)", text):
        program = (FOLDER / name).read_text()
        for option in re.findall(r"--[a-z-]+", words):
            assert f'"{option}"' in program, f"{name} {option}"


PROGRAM = Path(__file__).parents[1] / "benchmarks" / "same_curve.py"


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_eight_frameworks_give_one_curve(tmp_path):
    command = [sys.executable, str(PROGRAM), "--models", "qwen3_tiny", "--out", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines() if "|" in line]
    refused = {(framework, layout) for framework, layout, figure in rows if figure == "refused"}
    assert refused == {("lora", "DDP"), ("torchtitan", "EP2"), ("megatron_core", "EP2")}
    assert len({framework for framework, *_ in rows[2:]}) == 8
