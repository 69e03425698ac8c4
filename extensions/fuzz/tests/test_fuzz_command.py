"""`llmperf fuzz` as a user calls it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from llmperf.types import Case
from llmperf_fuzz.cases import NAME, case_of, options_of, templates
from llmperf_fuzz.drawing import Space

ROOT = Path(__file__).parents[3]


def fuzz(*words, code, **variables):
    command = [sys.executable, "-m", "llmperf", "fuzz", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--framework", "pytroch"), "unknown framework 'pytroch'"),
        (("--framework", "pytorch", "--set", "tensor_paralel=2"), "did you mean"),
        (("--framework", "pytorch", "--set", "tensor_parallel"), "expected path=value"),
        (("--framework", "pytorch", "--set", "devices=4"), "--set tuning.devices: expected a setting of"),
        (("--framework", "pytorch", "--set", "model=qwen4_tiny"), "qwen4_tiny"),
        (("--framework", "pytorch", "--devices", "1"), "--devices"),
    ],
)
def test_wrong_words_end_with_2_and_one_line(words, message, tmp_path):
    assert message in fuzz(*words, "--out", str(tmp_path / "out"), code=2).stderr


def test_a_folder_with_files_is_not_touched(tmp_path):
    (tmp_path / "notes").write_text("")
    done = fuzz("--framework", "pytorch", "--out", str(tmp_path), code=2)
    assert "expected a new or empty folder" in done.stderr


def test_every_family_has_a_small_model_and_commands_have_what_departs_from_defaults():
    models = templates()
    assert {"llama", "qwen3", "mixtral", "qwen3_moe", "gemma3", "deepseek_v3"} <= {
        one.family for one in models.values()
    }
    space = Space.of({name: model.mixture is not None for name, model in models.items()}, 2, {})
    simplest = {path: values[0] for path, values in space.values.items()}
    for name, template in models.items():
        settings = space.fitted({**simplest, "model": name, "tuning.tensor_parallel": 2, "tuning.micro_batch": 3})
        drawn = case_of(settings, template, "megatron_core", "zero", 5)
        assert drawn.model.family == template.family
        assert drawn.model.nominal_parameters < 400_000
        assert isinstance(drawn.alone, Case)
        assert (drawn.alone.tuning.devices, drawn.alone.tuning.micro_batch) == (1, 3)
        words = options_of(drawn.layout, f"{NAME}.toml")
        assert words[:6] == ["run", "default", "--framework", "megatron_core", "--devices", "2"]
        assert {"model=fuzzed.toml", "tensor_parallel=2", "micro_batch=3", "seed=5", "sharding_stage=0"} <= set(words)


@pytest.mark.slow
def test_layouts_of_pytorch_train_like_one_rank(tmp_path):
    words = ("--framework", "pytorch", "--devices", "2", "--cases", "4", "--json", "--out", str(tmp_path / "out"))
    document = json.loads(fuzz(*words, code=0).stdout)
    assert (document["cases"], document["findings"], document["by_chance"]) == (4, [], [])
    assert 0 < document["largest_share_of_limit"] < 1


@pytest.mark.slow
def test_a_fault_is_shown_by_the_commands_of_its_report(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if {'llmperf_fuzz.rank_server', 'llmperf.measuring.worker'} & {*sys.orig_argv}:\n"
        "    from llmperf_pytorch.ddp import DdpTrainer\n"
        "    plain = DdpTrainer._synchronised\n"
        "    DdpTrainer._synchronised = lambda trainer, last: plain(trainer, False)  # no reduction over ranks\n"
    )
    out = tmp_path / "out"
    words = ("--framework", "pytorch", "--set", "sharding_stage=0", "--findings", "1", "--out", str(out))
    done = fuzz(*words, code=1, PYTHONPATH=str(tmp_path))
    assert "the gradient norm of step 1 differs" in done.stdout
    report = (out / "finding-1" / "report.md").read_text()
    assert "The figures are those of these commands." in report
    assert re.search(r"Versions: .*torch 2", report)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_seeded_faults_of_other_trainers_are_found():
    program = ROOT / "benchmarks" / "seeded_faults.py"
    command = [sys.executable, str(program), "--only", "accumulation", "--seconds", "200"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| the gradient norm of step 1 differs | tuning.gradient_accumulation=" in done.stdout
