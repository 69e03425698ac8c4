"""What a shell offers, by click's own machinery and by the scripts of shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from llmperf.cli.completion import Bash, Fish, Zsh
from llmperf.cli.main import cli


def offered(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What bash puts in the place of the last word, or of its part after `=` or `:`."""
    monkeypatch.setenv("COMP_LINE", line)
    complete = Bash(cli, {}, "llmperf", "_LLMPERF_COMPLETE")
    args, incomplete = complete.get_completion_args()
    return [item.value for item in complete.get_completions(args, incomplete) if item.type == "plain"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("llmperf val", ["validate"]),
        ("llmperf run llama2_7b_l", ["llama2_7b_lora"]),
        ("llmperf run --framework ze", ["zero"]),
        ("llmperf run --framework=ze", ["zero"]),
        ("llmperf run --set micro", ["micro_batch="]),
        ("llmperf run default --set contract.optimizer.warm", ["contract.optimizer.warmup_steps="]),
        ("llmperf run --set sharding_stage=", ["0", "1", "2", "3"]),
        ("llmperf run --set compile=t", ["true"]),
        ("llmperf run --set clip_norm=", ["none"]),
        ("llmperf run --set model=llama_t", ["llama_tiny"]),
        ("llmperf run --set dataset=syn", ["synthetic"]),
        ("llmperf plan --set framework=py", ["pytorch"]),
        ("llmperf plan --set precision=fp8_b", ["fp8_blockwise"]),
        ("llmperf plan --set seq_len=", []),
        ("llmperf plan --set no_such_path=", []),
        ("llmperf run --set framewo", ["framework=", "framework."]),
        ("llmperf run --set framework.offl", ["framework.offload="]),
        ("llmperf run --set framework.offload=o", ["optimizer"]),
        ("llmperf run --set framework.overlap_comm=", ["false", "true"]),
        ("llmperf run --set framework.sub_group_size=", []),
        ("llmperf run --set framework.no_such_option=", []),
        ("llmperf run --framework pytorch --set framework.", ["framework.prefetch="]),
        ("llmperf run --set framework=pytorch --set framework.", ["framework.prefetch="]),
        ("llmperf run --set framework=nobody --set framework.", []),
        ("llmperf run llama2_7b_lora --set framework.mmlu_split=", ["test", "val"]),
        ("llmperf plan --launcher loc", ["local"]),
        ("llmperf report --format mark", ["markdown"]),
        ("llmperf report runs --lang ", ["en", "zh"]),
        ("llmperf validate --explain LP30", [f"LP30{number}" for number in range(1, 10)]),
        ("llmperf validate --format s", ["sarif"]),
        ("llmperf models gemma3_t", ["gemma3_tiny"]),
        ("llmperf convert 50% --from nom", ["nominal"]),
    ],
)
def test_values_are_offered(line, expected, monkeypatch):
    assert offered(line, monkeypatch) == expected


def test_a_path_of_set_has_its_short_name_where_that_is_unambiguous(monkeypatch):
    names = offered("llmperf run --set ", monkeypatch)
    assert {"lr=", "seq_len=", "tensor_parallel="} <= set(names)
    assert {name for name in names if not name.endswith("=")} == {"framework."}
    assert len(names) == len(set(names))


def test_runs_are_offered_by_path_and_by_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in ("runs/20260101-default", "runs/ddp/20260102-default"):
        Path(run).mkdir(parents=True)
        (Path(run) / "plan.json").write_text("{}")
    (tmp_path / "submission.zip").touch()
    assert offered("llmperf report ", monkeypatch) == [
        "runs", "runs/ddp", "runs/ddp/20260102-default", "runs/20260101-default"]  # fmt: skip
    assert offered("llmperf validate runs/d", monkeypatch) == ["runs/ddp", "runs/ddp/20260102-default"]
    assert offered("llmperf summary runs --baseline runs/d", monkeypatch)[0] == "runs/ddp"
    assert offered("llmperf compare 20260101", monkeypatch) == ["runs/20260101-default"]
    assert offered("llmperf validate sub", monkeypatch) == []  # files: bash offers them itself


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "expected"),
    [("llmperf run --set compile=t", "true"), ("llmperf validate runs/w", r"runs/with\ blank")],
)
def test_bash_replaces_the_value_only(line, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs/with blank").mkdir(parents=True)
    Path("runs/with blank/plan.json").write_text("{}")
    script = tmp_path / "complete.bash"
    script.write_text(Bash(cli, {}, "llmperf", "_LLMPERF_COMPLETE").source())
    program = (
        f"source {script}; COMP_LINE='{line}'; COMP_POINT={len(line)}; "
        f'_llmperf_completion {Path(sys.executable).with_name("llmperf")}; echo "${{COMPREPLY[*]}}"'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=100, env=dict(os.environ))
    assert done.stdout == f"{expected}\n", done.stderr


def test_devices_are_offered_as_words_without_a_vendor(monkeypatch):
    """Those of the documentation, such as `A100-SXM4-40GB`."""
    device = SimpleNamespace(model="Acme A100 80GB PCIe", details={"aliases": "big"})
    known = [("acme", SimpleNamespace(devices=(device,)))]
    monkeypatch.setattr("llmperf.planning.vendors.catalogues", lambda vendor: (known, []))
    assert offered("llmperf plan --on ", monkeypatch) == ["A100-80GB-PCIe:", "big:"]


def test_kinds_of_documents_that_ship_are_baselines(monkeypatch):
    kinds = {"published": SimpleNamespace(shipped=Path("rows")), "result": SimpleNamespace(shipped=None)}
    monkeypatch.setattr("llmperf.validation.catalogue.open_catalogue", lambda: SimpleNamespace(kinds=kinds))
    assert offered("llmperf compare a --baseline pub", monkeypatch) == ["published"]


def test_zsh_adds_no_space_after_the_path_of_a_setting():
    assert 'compadd -U -S ""' in Zsh(cli, {}, "llmperf", "_LLMPERF_COMPLETE").source()


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_offers_whole_values(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("runs/a,b it's").mkdir(parents=True)
    Path("runs/a,b it's/plan.json").write_text("{}")
    Path("complete.fish").write_text(Fish(cli, {}, "llmperf", "_LLMPERF_COMPLETE").source())
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for line, expected in (
        ("llmperf run --set framework.offload=opt", "framework.offload=optimizer"),
        ("llmperf validate runs/a", "runs/a,b it's"),
        ('llmperf validate "runs/a,b i', "runs/a,b it's"),
    ):
        program = f"source complete.fish; complete -C '{line}'"
        done = subprocess.run(["fish", "-c", program], capture_output=True, text=True, timeout=30)
        assert expected in done.stdout.splitlines(), done.stderr
