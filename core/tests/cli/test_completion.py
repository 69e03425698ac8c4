"""What a shell offers, by click's own machinery."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.shell_completion import ShellComplete
from llmperf.cli.main import cli


def offered(line: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the shell puts in the place of the last word."""
    words = line.split(" ")
    args, incomplete = words[1:-1], words[-1]
    items = ShellComplete(cli, {}, "llmperf", "_LLMPERF_COMPLETE").get_completions(args, incomplete)
    return [item.value for item in items if item.type == "plain"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("llmperf val", ["validate"]),
        ("llmperf run llama2_7b_l", ["llama2_7b_lora"]),
        ("llmperf run --framework ze", ["zero"]),
        ("llmperf run --set micro", ["micro_batch="]),
        ("llmperf run default --set contract.optimizer.warm", ["contract.optimizer.warmup_steps="]),
        ("llmperf plan --set no_such_path=", []),
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
    assert all(name.endswith("=") for name in names)
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
    assert offered("llmperf validate 20260101", monkeypatch) == ["runs/20260101-default"]
    assert offered("llmperf validate sub", monkeypatch) == []  # files: the shell offers them itself


def test_devices_are_offered_as_words_without_a_vendor(monkeypatch):
    """Those of the documentation, such as `A100-SXM4-40GB`."""
    device = SimpleNamespace(model="Acme A100 80GB PCIe", details={"aliases": "big"})
    known = [("acme", SimpleNamespace(devices=(device,)))]
    monkeypatch.setattr("llmperf.planning.vendors.catalogues", lambda vendor: (known, []))
    assert offered("llmperf plan --on ", monkeypatch) == ["A100-80GB-PCIe:", "big:"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_of_shells_ask_this_command(shell, ran):
    assert f"_LLMPERF_COMPLETE={shell}_complete" in ran(0, "completion", shell).out
